"""Where a long recording is cut into parts, and its sound without its pictures.

A part is decoded from a key frame on and holds the frames of a range of times. Only recordings are
cut of which each packet says when its frame is shown; others depend on what was decoded before.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from realtime_lrp.video.libraries import av
from realtime_lrp.video.reader import SOUND_BEHIND_S, VideoReader

CUT_FORMATS = ("mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm")
"""Container formats that have an index of key frames and the time of each frame."""


LAST = 64
"""An encoder puts fewer frames into another order; the last one in a file has its own duration."""


@dataclass(frozen=True)
class Frames:
    """The frames of a recording, without having decoded them.

    Attributes:
      pts: when each is shown, in units of the stream's time base, growing.
      keys: the numbers of the frames from which decoding can begin.
      zero: the time that counts as 0, in the same units.
      last: how long each of the last `LAST` frames is shown, in the same units.
    """

    pts: list[int]
    keys: list[int]
    zero: int
    last: tuple[int, ...]


def frames_of(reader: VideoReader) -> Frames | None:
    """Reads the times of the frames in a reader's span; None if the recording cannot be cut."""
    container, stream = reader.container, reader.stream
    if container.format.name not in CUT_FORMATS or not stream.codec_context:
        return None
    limits = reader.limits()
    shown: dict[int, tuple[bool, int]] = {}  # a key frame, its duration
    try:
        for packet in container.demux():
            reader.packets += 1
            if not packet.size:
                continue
            if packet.pts is None or packet.dts is None or packet.is_corrupt:
                return None
            end = (packet.pts + (packet.duration or 0)) * packet.time_base
            reader.heard_until(end)
            if packet.stream.index != stream.index or packet.is_discard:
                continue
            if packet.pts in shown:
                return None
            shown[packet.pts] = packet.is_keyframe, packet.duration or 0
    except av.FFmpegError:
        return None
    within = [pts for pts in sorted(shown) if limits.start <= pts * reader.time_base < limits.end]
    if not within:
        return None
    to_end = max(shown) == within[-1]
    until = (within[-1] + shown[within[-1]][1]) * reader.time_base
    if to_end and reader.ends_early(len(within), within[0] * reader.time_base, until):
        return None
    keys = [number for number, pts in enumerate(within) if shown[pts][0]]
    last = tuple(shown[pts][1] for pts in within[-LAST:])
    return Frames(within, keys, limits.zero, last)


def cuts(frames: Frames, length: int, unit: int) -> list[int]:
    """The numbers of the first frames of the parts; [0] for a recording that is not cut.

    Args:
      frames: of the recording.
      length: about how many frames a part has.
      unit: each part begins with a multiple of it.
    """
    found, total = [0], len(frames.pts)
    length = max(length, unit)
    while total - found[-1] > length + length // 2:
        goal = found[-1] + length
        # the first multiple after a key frame: little is decoded in vain
        after = [-(-key // unit) * unit for key in frames.keys if key > found[-1]]
        near = [first for first in after if found[-1] < first <= goal]
        first = max(near, default=min(after, default=total))
        if total - first < min(length // 4, unit) or first >= total:
            break
        found.append(first)
    return found


def sound_of(reader: VideoReader) -> "Iterator[av.Packet[Any]]":
    """Yields the packets of sound as `VideoReader.with_sound` does, without the pictures."""
    limits = reader.limits()
    for packet in reader.container.demux(reader.sound):
        reader.packets += 1
        time = packet.pts * packet.time_base if packet.pts is not None else None
        if packet.dts is not None and packet.dts * packet.time_base > limits.end + SOUND_BEHIND_S:
            return
        if not packet.size or time is None or limits.start <= time < limits.end:
            yield reader.shifted(packet, limits.zero * reader.time_base)
