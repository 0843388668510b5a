"""Reads from FFmpeg's frames and streams: colours, whole pictures, when a recording ends."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from realtime_lrp.video.libraries import av

MOST_PIXELS = 8192**2  # pictures with more pixels are refused

UNSPECIFIED = 2
PQ, HLG = 16, 18  # transfer characteristics of HDR (ITU-T H.273): SMPTE ST 2084, ARIB STD-B67

LIMITED = 1
FULL = 2
HIGH_DEFINITION_ROWS = 720

CLOCK_RESTART_S = 1  # times that fall back by more belong to another clock
STREAMS_APART_S = 10  # how far sound and picture may be apart in the file
_MATRICES = {1: 1, 4: 4, 5: 5, 6: 5, 7: 7, 9: 9, 10: 9}  # number in H.273 -> swscale's table


@dataclass(frozen=True)
class Colour:
    """The colour tags of a video (ITU-T H.273 numbers), `UNSPECIFIED` if the file says nothing.

    The range is LIMITED (16 to 235) or FULL (0 to 255). The `table` is the matrix that is used for
    computing; if the file says nothing, BT.709 from 720 rows on, else BT.601.
    """

    primaries: int = 1
    transfer: int = 1
    matrix: int = 1
    range: int = LIMITED
    table: int = 1


def colour_of(frame: "av.VideoFrame") -> Colour:
    """The colour tags of a decoded frame; BT.709 in limited range if it holds RGB."""
    if frame.format.is_rgb:
        return Colour()
    matrix = frame.colorspace
    untagged = 1 if frame.height >= HIGH_DEFINITION_ROWS else 5
    if frame.color_trc in (PQ, HLG):
        untagged = 9
    return Colour(
        primaries=frame.color_primaries,
        transfer=frame.color_trc,
        matrix=matrix if matrix in _MATRICES else UNSPECIFIED,
        range=FULL if "yuvj" in frame.format.name or frame.color_range == FULL else LIMITED,
        table=_MATRICES.get(matrix, untagged),
    )


def range_read(frame: "av.VideoFrame", colour: Colour) -> int:
    """The range of a frame's numbers; untagged grey has full range, as in FFmpeg."""
    grey = frame.format.name.startswith("gray") and frame.color_range != LIMITED
    return FULL if grey or frame.format.is_rgb else colour.range


def graph_of(
    frame: "av.VideoFrame", time_base: Fraction, *filters: tuple[str, str]
) -> "av.filter.Graph":
    """A graph of FFmpeg's filters, (name, arguments), in a row, for frames like this one."""
    graph = av.filter.Graph()
    begin = graph.add_buffer(
        width=frame.width, height=frame.height, format=frame.format, time_base=time_base
    )
    chain = [begin, *(graph.add(*each) for each in filters), graph.add("buffersink")]
    for source, sink in pairwise(chain):
        source.link_to(sink)
    graph.configure()
    return graph


class Deinterlacer:
    """Turns interlaced frames into whole pictures, one for each, at its time.

    Frames before the first interlaced one pass unchanged. The filter is made again for frames of
    another size or format, which it would refuse.
    """

    def __init__(self, time_base: Fraction):
        self._time_base = time_base
        self._graph: av.filter.Graph | None = None
        self._made_for: object = None

    def __call__(self, frame: "av.VideoFrame") -> Iterator["av.VideoFrame"]:
        if self._graph is None and not frame.interlaced_frame:
            yield frame
            return
        if self._made_for != (made_for := (frame.width, frame.height, frame.format.name)):
            yield from self.rest()
            deinterlace = "bwdif", "mode=send_frame:deint=interlaced"
            self._graph = graph_of(frame, self._time_base, deinterlace)
            self._made_for = made_for
        graph = self._graph
        assert graph
        frame.time_base = self._time_base
        graph.push(frame)
        yield from self._ready(graph)

    def rest(self) -> Iterator["av.VideoFrame"]:
        """The pictures of the last frames; to be called at the end."""
        if self._graph is not None:
            self._graph.push(None)
            yield from self._ready(self._graph)
            self._graph = self._made_for = None

    def _ready(self, graph: "av.filter.Graph") -> Iterator["av.VideoFrame"]:
        while True:
            try:
                frame = graph.vpull()
            except (av.BlockingIOError, av.EOFError):
                return
            unit = (frame.time_base or self._time_base) / self._time_base
            if frame.pts is not None:
                frame.pts = round(frame.pts * unit)
            frame.duration = round((frame.duration or 0) * unit)
            frame.time_base = self._time_base
            yield frame


class PacketClock:
    """Lets times go on where a recording's clock wraps or was set; all streams shift alike."""

    def __init__(self, most_gap_s: float):
        self._most_gap_s = most_gap_s  # a longer gap is taken for a clock that was set
        self._shifts = [Fraction(0)]
        self._streams: dict[int, tuple[Fraction, Fraction]] = {}
        """Index of a stream -> its present shift, and when its last packet ended, in seconds."""

    def correct(self, packet: "av.Packet[Any]") -> None:
        """Changes the times of a packet, which come in the order of the file."""
        stamp = packet.pts if packet.dts is None else packet.dts
        if stamp is None:
            return
        time = stamp * packet.time_base
        duration = (packet.duration or 0) * packet.time_base
        shift, end = self._streams.get(packet.stream.index, (Fraction(0), None))
        if end is not None and not -CLOCK_RESTART_S < time + shift - end < self._most_gap_s:
            # another stream may have gone over already
            gaps = ((time + known - end, known) for known in self._shifts)
            fits = (known for gap, known in gaps if -CLOCK_RESTART_S < gap < STREAMS_APART_S)
            newest = max(ended for _, ended in self._streams.values())
            shift = next(fits, newest - time)
            if shift not in self._shifts:
                self._shifts.insert(0, shift)
        self._streams[packet.stream.index] = shift, time + shift + duration
        steps = round(shift / packet.time_base)
        packet.dts = None if packet.dts is None else packet.dts + steps
        packet.pts = None if packet.pts is None else packet.pts + steps


def claimed_end(
    container: "av.container.InputContainer", stream: "av.VideoStream"
) -> tuple[Fraction | None, Fraction | None]:
    """When a recording should end according to its container, in seconds: some are cut off.

    Gives the end of the picture, and of everything together; None if the container does not say.
    """
    kind = container.format.name
    whole = Fraction(container.duration, av.time_base) if container.duration else None
    if kind.startswith("matroska"):  # a stream may give the duration of the whole file
        words = stream.metadata.get("DURATION", "")  # "00:00:02.920000000"
        time = re.fullmatch(r"(\d+):(\d\d):(\d\d(?:\.\d+)?)", words)
        tag = time and int(time[1]) * 3600 + int(time[2]) * 60 + Fraction(time[3])
        return (tag and whole and min(tag, whole)), whole
    if kind == "flv":
        return None, whole
    base = stream.time_base
    if not (base and stream.duration and (stream.frames or kind.startswith("mov"))):
        return None, None  # FFmpeg's estimate
    length = stream.duration * base
    if kind == "avi":  # where a cut file reports the remaining time; `length` comes from the header
        return None, max(length, stream.frames * base)
    return (stream.start_time or 0) * base + length, None
