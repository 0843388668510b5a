"""Reads recordings: every frame of a video with its time, and the packets of its sound."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from realtime_lrp.errors import DamagedInputError, masked
from realtime_lrp.video.containers import is_address, open_address, open_recording
from realtime_lrp.video.frames import (
    MOST_PIXELS,
    Colour,
    Deinterlacer,
    FrameConverter,
    PacketClock,
    claimed_end,
)
from realtime_lrp.video.libraries import av

log = logging.getLogger(__name__)

MOST_LEADING = 16  # packets before the first frame, shown before it, that are no damage
MOST_FAILED_READS = 50  # failed reads in a row; any number of packets that arrive may be damaged
MOST_STREAMS = 16
NO_INDEX = ("mpegts", "mpeg")  # read from the start, as a seek may miss the key frames
SEQUENCE = b"\0\0\1\xb3"  # stands before the size of the pictures, twice 12 bits
LATE_STARTS = ("mov", "matroska")  # whose times count from the start of the film
MOST_GAP_S = 3600.0  # longest gap in other formats; a longer one is a clock that was set
NO_TIMES = 0x80  # FFmpeg's flag of formats that have no times
SOUND_BEHIND_S = 2.0  # how far after the last frame of a span its sound may be in the file
LEAST_MISSING_S = Fraction(1, 10)  # a recording is complete if it ends by less too early
Decoded: TypeAlias = "av.VideoFrame | av.Packet[Any]"  # a frame, or a packet of sound


@dataclass(frozen=True)
class Span:
    """A part of a recording, from `start` up to before `end`, in seconds since its first frame."""

    start: float = 0.0
    end: float | None = None
    # whether it begins with the frame that is on the screen at `start`, which after the end of the
    # file is its last one; times then count from the first frame of the file
    with_shown: bool = False


@dataclass(frozen=True)
class TimedFrame:
    """An upright picture, uint8 [H, W, 3] RGB; pts and duration in units of `time_base`."""

    picture: np.ndarray
    pts: int
    duration: int = 0


class VideoReader:
    """Reads the frames of a video in order: of a file, or of a film with an address.

    Pixels are `square`, or their aspect is the file's. `go_on` is called for each frame that is
    skipped before a span; where it gives False, reading begins.
    """

    def __init__(self, path: Path | str, span: Span | None = None, square: bool = True):
        self._path = masked(str(path))
        self._square = square
        self.container = open_address(str(path)) if is_address(path) else open_recording(Path(path))
        try:
            self.stream = self._chosen_stream()
        except DamagedInputError:
            self.container.close()
            raise
        stream = self.stream
        stream.thread_type = "AUTO"
        stream.codec_context.options = {"max_pixels": str(MOST_PIXELS)}
        self.fps = Fraction(stream.average_rate or stream.guessed_rate or 25)
        self.time_base = Fraction(stream.time_base or 1 / self.fps)  # the unit of times, in seconds
        self.packets = self.bad_packets = 0
        self.sound = list(self.container.streams.audio)
        self.metadata = dict(self.container.metadata)
        self.colour = Colour()  # known once the first picture was read
        self.aspect = Fraction(1)  # a pixel's, known then too
        self.go_on: Callable[[], bool] = lambda: True
        self._span = span or Span()
        self._trimmed = span is not None
        self._set_limits()
        whole = (self.container.duration or 0) / av.time_base
        end = min(self._span.end or whole, whole) if whole else 0
        # how many frames the whole file, and about how many the span has; 0 if it does not say
        self.claimed = 0 if self._trimmed else stream.frames
        self.frames = self.claimed or round(max(0.0, end - self._span.start) * self.fps)
        self._deinterlaced = Deinterlacer(self.time_base)
        self._coded_size = b""  # the size in the headers of MPEG-1 and 2
        self._decodes = False  # whether a frame came
        self._early = list[int]()  # pts before it
        self._shown: tuple[int, Fraction, Fraction] | None = None  # frames, from, to
        self._heard = Fraction(0)
        self._over = False

    def __enter__(self) -> "VideoReader":
        return self

    def __exit__(self, *exception: object) -> None:
        self.container.close()

    def __iter__(self) -> Iterator[TimedFrame]:
        """Yields every frame that can be decoded, all at the size of the first."""
        return (item for item in self.items([]) if isinstance(item, TimedFrame))

    def items(self, sound: "Sequence[av.AudioStream]") -> Iterator["TimedFrame | av.Packet[Any]"]:
        """Yields frames and the packets of streams of `sound` in the order of the file.

        A packet without bytes ends each stream; it flushes the decoder.
        """
        self._over = False
        convert: FrameConverter | None = None
        count = 0
        since = Fraction(0)
        until = Fraction(0)
        items = self._from_start(sound)
        if self._span.with_shown:
            items = self._from_shown(items)
        before: int | None = None  # a frame without a time, or whose time does not grow, comes next
        for item in items:
            if isinstance(item, av.Packet):
                time = item.pts * item.time_base if item.pts is not None else None
                if item.size and time is not None and not self._start <= time < self._end:
                    continue
                if self._zero and item.pts is not None:
                    shift = round(self._zero * self.time_base / item.time_base)
                    item.pts -= shift
                    item.dts = item.pts if item.dts is None else item.dts - shift
                yield item
                continue
            if before is None:
                pts = self._first if item.pts is None else item.pts
            elif item.pts is None or item.pts <= before:
                pts = before + max(1, round(1 / (self.fps * self.time_base)))
            else:
                pts = item.pts
            before = pts
            time = pts * self.time_base
            if self._span.start and time < self._start and not self._span.with_shown:
                continue
            if time >= self._end:
                self._over = True
                if not sound:
                    break
                continue
            if convert is None:
                since = time
                aspect = self.stream.sample_aspect_ratio
                convert = FrameConverter(item, aspect, self._square)
                self.colour = convert.colour
                self.aspect = convert.aspect
            count += 1
            duration = item.duration or 0
            until = time + duration * self.time_base
            yield TimedFrame(convert(item), pts - self._zero, duration)
        self._shown = count, since, until
        if not count:
            start = f" from {self._span.start:g} s on" if self._span.start else ""
            raise DamagedInputError(f"Nothing in {self._path!r} can be decoded{start}.")
        if self.bad_packets:
            log.warning("%s: skipped %d damaged packets", self._path, self.bad_packets)

    def _set_limits(self) -> None:
        """The span in seconds of the stream; `_zero`, in units of its time base, becomes 0.

        Without a span that is the start of the file, except where the container means a late start.
        """
        self._start: Fraction | float = -inf
        self._end: Fraction | float = inf
        start = Fraction(self.container.start_time or 0, av.time_base)
        if self.container.format.name.startswith(LATE_STARTS):
            start = min(start, Fraction(0))
        self._zero = self._first = round(start / self.time_base)
        if not self._trimmed:
            return
        self._zero = self._first = self.stream.start_time or 0

        def exact(seconds: float) -> Fraction:
            """The fraction that a user meant, 1 / 10 for 0.1, after the first frame."""
            return self._first * self.time_base + Fraction(seconds).limit_denominator(1_000_000)

        self._start = exact(self._span.start)
        if self._span.end is not None:
            self._end = exact(self._span.end)
        if not self._span.with_shown:
            self._zero = round(self._start / self.time_base)

    @property
    def length(self) -> Fraction | None:
        """About how many seconds the whole recording lasts; None if the file does not say."""
        if self.stream.duration and self.stream.time_base:
            return self.stream.duration * self.stream.time_base
        whole = self.container.duration
        return Fraction(whole, av.time_base) if whole else None

    @property
    def expected(self) -> int:
        """About how many frames there should be if the recording ends early, else 0.

        What the container says of the picture counts, or else of picture and sound together.
        """
        if self._shown is None or self._over:
            return 0
        count, since, until = self._shown
        picture, whole = claimed_end(self.container, self.stream)
        claimed_end_s, last = (picture, until) if picture else (whole, max(until, self._heard))
        if not claimed_end_s or count == self.claimed:
            return 0
        length = min(claimed_end_s, self._end) - since
        if since + length - last <= max(3 / self.fps, LEAST_MISSING_S, length / 100):
            return 0
        if count < self.claimed:
            return self.claimed
        return round(count * length / max(until - since, 1 / self.fps))

    def _from_start(self, sound: "Sequence[av.AudioStream]") -> Iterator[Decoded]:
        """Decodes from a key frame before the span."""
        kind = self.container.format
        items = self._decoded(sound)
        if self._span.start and kind.name not in NO_INDEX and not kind.flags & NO_TIMES:
            with suppress(av.FFmpegError):  # a server may send from the start alone
                self.container.seek(int(self._start * av.time_base))
            early: list[Decoded] = []
            for item in items:
                early.append(item)
                if isinstance(item, av.VideoFrame):
                    break
            if early and self._is_early(early[-1]):
                yield from early
            else:
                with suppress(av.FFmpegError):
                    self.container.seek(0)
                items = self._decoded(sound)
        yield from items

    def _is_early(self, item: Decoded) -> bool:
        """Whether a frame is shown before the span, or as it begins."""
        pts = item.pts if isinstance(item, av.VideoFrame) else None
        return pts is not None and pts * self.time_base <= self._start

    def _from_shown(self, items: Iterator[Decoded]) -> Iterator[Decoded]:
        """Leaves out the frames before the one that is shown when the span begins."""
        shown = None
        for item in items:
            if self._is_early(item) and self.go_on():
                shown = item
                continue
            if shown is not None:
                yield shown
                shown = None
            yield item
            if isinstance(item, av.VideoFrame):
                break
        if shown is not None:
            yield shown
        yield from items

    def _decoded(self, sound: "Sequence[av.AudioStream]") -> Iterator[Decoded]:
        """Yields frames, their pts in units of `time_base`, and packets of sound."""
        chosen = {stream.index for stream in (self.stream, *sound)}
        for packet in self._packets():
            number = packet.stream.index
            if packet.size and packet.pts is not None:
                end = (packet.pts + (packet.duration or 0)) * packet.time_base
                self._heard = max(self._heard, end)
            if number not in chosen:
                continue
            self.packets += 1
            if self._over:
                time = packet.dts is not None and packet.dts * packet.time_base
                if time and time > self._end + SOUND_BEHIND_S:
                    return
                if number == self.stream.index:
                    continue
            if number != self.stream.index:  # packet.stream.index is 0 at the end
                yield packet
                continue
            if packet.is_keyframe and self._is_resized(packet):
                yield from self._frames_of(None)
                self.stream.codec_context.flush_buffers()
            yield from self._frames_of(packet)
        yield from self._undamaged(self._deinterlaced.rest())

    def _packets(self) -> "Iterator[av.Packet[Any]]":
        """Yields all packets; reading goes on after errors unless nothing else comes."""
        packets = self.container.demux()
        late = self.container.format.name.startswith(LATE_STARTS)
        clock = PacketClock(inf if late else MOST_GAP_S)
        failed_in_a_row = 0
        while failed_in_a_row < MOST_FAILED_READS:
            try:
                packet = next(packets, None)
            except av.ExitError:  # a server is silent
                return
            except av.FFmpegError:  # which ends the iterator
                packets = self.container.demux()
                self.bad_packets += 1
                failed_in_a_row += 1
                continue
            if packet is None:
                return
            failed_in_a_row = 0
            clock.correct(packet)
            yield packet

    def _is_resized(self, packet: "av.Packet[Any]") -> bool:
        """Whether another size begins: FFmpeg's decoders of MPEG-1 and 2 have to be emptied."""
        if self.stream.codec_context.name not in ("mpeg1video", "mpeg2video"):
            return False
        data = bytes(packet)
        if (at := data.find(SEQUENCE) + len(SEQUENCE)) < len(SEQUENCE):
            return False
        before = self._coded_size
        self._coded_size = data[at : at + 3]
        return before not in (b"", self._coded_size)

    def _frames_of(self, packet: "av.Packet[Any] | None") -> "Iterator[av.VideoFrame]":
        """Yields the frames of a packet, or the last ones without one; counts a damaged packet."""
        try:
            frames = self.stream.decode(packet)
        except av.FFmpegError:
            self.bad_packets += 1
            return
        if packet and not (self._decodes or packet.is_discard):  # discarded by an edit list
            self._early.append(packet.pts or 0)
        for frame in frames:
            if frame.width * frame.height > MOST_PIXELS:
                if not self._decodes:
                    raise self._too_large(frame.width, frame.height)
                self.bad_packets += 1
                continue
            if not self._decodes:
                # what came before its key frame; some B-frames there are usual
                lost = sum(pts < (frame.pts or 0) for pts in self._early)
                self.bad_packets = max(self.bad_packets, lost if lost > MOST_LEADING else 0)
                self._decodes = True
            if self.container.format.name == "avi" and frame.dts is not None:
                frame.pts = frame.dts  # the only times of this format
            yield from self._undamaged(self._deinterlaced(frame))

    def _undamaged(self, frames: "Iterator[av.VideoFrame]") -> "Iterator[av.VideoFrame]":
        """Yields frames until the filter refuses one, which is counted."""
        try:
            yield from frames
        except av.FFmpegError:
            self.bad_packets += 1

    def _chosen_stream(self) -> "av.VideoStream":
        streams = self.container.streams
        name = self._path
        count = len(streams.video) + len(streams.audio)  # the others are not looked at
        if count > MOST_STREAMS:
            raise DamagedInputError(
                f"{name!r} has {count} streams of picture and sound. Expected at most "
                f"{MOST_STREAMS}."
            )
        if not streams.video:
            raise DamagedInputError(f"{name!r} has no video stream. Expected a video file.")
        attached = av.stream.Disposition.attached_pic
        moving = [stream for stream in streams.video if not stream.disposition & attached]
        stream = (moving or streams.video)[0]
        if stream.codec_context is None:
            raise DamagedInputError(f"{name!r}: its video codec is not supported.")
        if stream.width * stream.height > MOST_PIXELS:
            raise self._too_large(stream.width, stream.height)
        return stream

    def _too_large(self, width: int, height: int) -> DamagedInputError:
        return DamagedInputError(
            f"{self._path!r} has pictures of {width} x {height}. Expected at most "
            f"{MOST_PIXELS / 1e6:.0f} million pixels."
        )
