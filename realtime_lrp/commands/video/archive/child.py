"""What the child process does for archives: it finds where a recording is cut, and joins parts.

Both open files of strangers, so they run where `recode` does.
"""

from collections.abc import Iterator
from itertools import chain
from math import inf
from typing import Any

from realtime_lrp.commands.video.alive import alive_while
from realtime_lrp.commands.video.messages import Join, Parts, Piece, PlanParts, Report
from realtime_lrp.errors import InternalError
from realtime_lrp.system.channel import Channel
from realtime_lrp.video.cutting import Frames, cuts, frames_of, sound_of
from realtime_lrp.video.film_tags import film_metadata
from realtime_lrp.video.libraries import av
from realtime_lrp.video.reader import VideoReader
from realtime_lrp.video.writer import VideoWriter, verify


def plan(request: PlanParts, channel: Channel) -> Parts:
    """Finds the parts of a recording; none for a short one and one that cannot be cut."""
    with (
        VideoReader(request.source, request.span) as reader,
        alive_while(channel, lambda: reader.packets),
    ):
        length = round(request.seconds * reader.fps)
        if reader.frames <= length + length // 2:
            return Parts((), reader.frames)
        frames = frames_of(reader)
        starts = cuts(frames, length, request.unit) if frames else [0]
        if frames is None or len(starts) == 1:
            return Parts((), reader.frames)
        pieces = tuple(_pieces(frames, starts, request.thumbnails))
        return Parts(pieces, len(frames.pts), frames.last)


def _pieces(frames: Frames, starts: list[int], thumbnails: int) -> Iterator[Piece]:
    total = len(frames.pts)
    step = 1
    while thumbnails and -(-total // step) >= 2 * thumbnails:
        step *= 2
    for number, first in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else total
        pts = frames.pts[first:end]
        after = frames.pts[end] if end < total else frames.pts[-1] + 1
        shown = tuple(one - frames.zero for one in pts)
        yield Piece(number, first, shown, (pts[0], after), step)


def join(request: Join, channel: Channel) -> Report:
    """Joins the films of the parts without encoding again, with the sound of the source.

    Raises:
      InternalError: the parts do not fit together.
      OSError: a write failed.
    """
    frames, written = 0, False
    with (
        VideoReader(request.source, request.span) as reader,
        alive_while(channel, lambda: None if written else frames + reader.packets),
    ):
        with (
            av.open(request.films[0]) as first,
            VideoWriter(
                request.part, request.container, reader.fps, reader.time_base, codec=request.codec,
                metadata=film_metadata(reader.metadata, request.comment),
                description=request.provenance, template=first.streams.video[0],
            ) as writer,
        ):  # fmt: skip
            notes = writer.add_sound(reader.sound) if request.sound else []
            sound = sound_of(reader) if request.sound else iter(())
            waiting = next(sound, None)
            for packet in _joined(request, first, reader):
                writer.copy(packet)
                frames += 1
                now = (packet.dts or 0) * reader.time_base
                while waiting is not None and _time(waiting) <= now:
                    writer.sound(waiting)
                    waiting = next(sound, None)
            for packet in chain([waiting] if waiting else [], sound):
                writer.sound(packet)
            written = True  # closing and verifying a long film takes long, too
        verify(request.part, frames)
    return Report(frames, 0, (), reader.bad_packets, writer.lost_sound, tuple(notes))


def _time(packet: "av.Packet[Any]") -> Any:
    return inf if packet.dts is None else packet.dts * packet.time_base


def _joined(request: Join, opened: Any, reader: VideoReader) -> "Iterator[av.Packet[Any]]":
    """Yields the packets of all parts with the times of the whole film.

    An encoder's frames come in the order in which they are decoded: each has the decoding time of
    the frame that is shown so many places earlier as the encoder holds frames back.
    """
    shown = request.pts
    extradata = opened.streams.video[0].codec_context.extradata
    ends = (*shown[1:], shown[-1])
    known = len(shown) - len(request.last)
    done, early = 0, _held_back(opened)
    for number, film in enumerate(request.films):
        with av.open(film) as container:
            stream = container.streams.video[0]
            if stream.codec_context.extradata != extradata:
                raise InternalError(f"part {number} was encoded otherwise than the first")
            packets = [packet for packet in container.demux(stream) if packet.size]
        ranks = {pts: rank for rank, pts in enumerate(sorted(p.pts or 0 for p in packets))}
        if len(ranks) != len(packets) or done + len(ranks) > len(shown):
            raise InternalError(f"part {number} has {len(packets)} frames")
        for count, packet in enumerate(packets, done):
            rank = done + ranks[packet.pts or 0]
            pts = shown[rank]
            back = count - early
            dts = shown[back] if back >= 0 else shown[0] + back * (shown[1] - shown[0])
            if dts > pts or not (count or packet.is_keyframe):
                raise InternalError(f"part {number} has frames in another order than the first")
            packet.time_base = reader.time_base
            packet.pts, packet.dts = pts, dts
            own = rank >= known
            packet.duration = request.last[rank - known] if own else ends[rank] - pts
            yield packet
        done += len(packets)
    if done != len(shown):
        raise InternalError(f"the parts have {done} frames instead of {len(shown)}")


def _held_back(container: Any) -> int:
    """How many frames the encoder held back: packets with a time before the first frame's."""
    packets = [packet for packet in container.demux(video=0) if packet.size]
    begin = min(packet.pts for packet in packets)
    return sum(packet.dts < begin for packet in packets)
