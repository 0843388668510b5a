"""Turns FFmpeg's frames into pictures as players show them, and reads when they are due.

HDR and wide colours go through a table for FFmpeg's filter `lut3d`. FFmpeg's own way needs its
filter `zscale`, which PyAV's wheel does not have.
"""

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

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

LEAST_ASPECT = Fraction(1, 10)  # pixels that are narrower are not believed
UPRIGHT = (1, 0, 0, 0, 1)  # the first numbers of the display matrix of such a picture

WHITE_NITS = 203.0  # what white is in HDR (ITU-R BT.2408)
PEAK = 1000 / WHITE_NITS  # the brightest light that stays below white; also HLG's peak
KNEE = 0.8  # light up to this share of white keeps its brightness
SDR_GAMMA = 2.4  # ITU-R BT.1886
NODES = 33  # the table's length along each colour

_BT2020 = ((1.6605, -0.5876, -0.0728), (-0.1246, 1.1329, -0.0083), (-0.0182, -0.1006, 1.1187))
_P3 = ((1.2249, -0.2247, 0.0), (-0.0420, 1.0419, 0.0), (-0.0197, -0.0786, 1.0979))
_TO_BT709 = {9: _BT2020, 11: _P3, 12: _P3}  # wide primaries of H.273 -> matrix of linear RGB


@dataclass(frozen=True)
class Colour:
    """The colour tags of a video (ITU-T H.273 numbers), `UNSPECIFIED` if the file says nothing."""

    primaries: int = 1
    transfer: int = 1
    matrix: int = 1
    range: int = LIMITED  # 16 to 235, or FULL: 0 to 255
    table: int = 1  # the matrix of the computation; untagged BT.709 from 720 rows on, else BT.601


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


class FrameConverter:
    """Turns frames into pictures uint8 [H, W, 3] RGB, upright, all of the size of the first frame.

    HDR and wide colours become BT.709; `colour` tells which ones the pictures hold. `square` makes
    the pixels square; else `aspect`, a pixel's width divided by its height, is left to others.
    """

    def __init__(self, frame: "av.VideoFrame", aspect: Fraction | None, square: bool):
        self._to_rgb = av.video.reformatter.VideoReformatter()
        self._graph: av.filter.Graph | None = None
        self._made_for: object = None
        said = colour_of(frame)
        self.colour = Colour() if is_wide(said) else said
        self._size = frame.width, frame.height
        aspect = aspect or Fraction(1)
        if frame.width * frame.height * float(aspect) > MOST_PIXELS or aspect < LEAST_ASPECT:
            aspect = Fraction(1)
        if square:
            self._size = (max(1, round(frame.width * aspect)), frame.height)
            aspect = Fraction(1)
        matrix: Any = frame.side_data.get("DISPLAYMATRIX")
        # column x of the picture is shown at a x + c y, row y at b x + d y
        a, b, _, c, d = np.frombuffer(bytes(matrix), np.int32)[:5].tolist() if matrix else UPRIGHT
        self._swaps = abs(a) + abs(d) < abs(b) + abs(c)
        steps = (b, c) if self._swaps else (d, a)  # down and across
        self._order = tuple(slice(None, None, -1 if step < 0 else 1) for step in steps)
        self.aspect = 1 / aspect if self._swaps else aspect

    def __call__(self, frame: "av.VideoFrame") -> np.ndarray:
        colour = colour_of(frame)
        if is_wide(colour):
            picture = self._narrowed(frame, colour)
        else:
            picture = self._to_rgb.reformat(
                frame, format="rgb24", width=self._size[0], height=self._size[1],
                src_colorspace=colour.table, src_color_range=range_read(frame, colour),
                dst_color_range=2,
            ).to_ndarray()  # fmt: skip
        turned = picture.swapaxes(0, 1) if self._swaps else picture
        return np.ascontiguousarray(turned[self._order])

    def _narrowed(self, frame: "av.VideoFrame", colour: Colour) -> np.ndarray:
        made_for = frame.width, frame.height, frame.format.name, colour
        if self._graph is None or self._made_for != made_for:
            self._made_for = made_for
            width, height = self._size
            read_as = f"in_color_matrix={colour.table}:in_range={range_read(frame, colour)}"
            axis = np.linspace(0, 1, NODES)
            blue, green, red = np.meshgrid(axis, axis, axis, indexing="ij")  # red changes fastest
            nodes = np.stack([red, green, blue], -1).reshape(-1, 3)
            with tempfile.TemporaryDirectory() as folder:
                table = Path(folder, "sdr.cube")
                colours = to_sdr(nodes, colour.transfer, colour.primaries)
                np.savetxt(table, colours, "%.6f", header=f"LUT_3D_SIZE {NODES}", comments="")
                self._graph = graph_of(
                    frame, Fraction(1, 1000), ("scale", f"{width}:{height}:{read_as}"),
                    ("format", "gbrp12"), ("lut3d", f"file='{table}'"), ("format", "rgb24"),
                )  # fmt: skip
        self._graph.push(frame)
        return self._graph.vpull().to_ndarray()


def is_wide(colour: Colour) -> bool:
    """Whether an SDR screen would show such colours wrongly."""
    return colour.transfer in (PQ, HLG) or colour.primaries in _TO_BT709


def _light(signal: np.ndarray, transfer: int) -> np.ndarray:
    """Linear light of RGB in 0 to 1; white is 1. HLG is for a screen of 1000 cd/m2, as `zscale`."""
    if transfer == PQ:
        root = signal ** (32 / 2523)
        share = np.maximum(root - 0.8359375, 0) / (18.8515625 - 18.6875 * root)
        return np.asarray(10000 / WHITE_NITS * share ** (16384 / 2610))
    if transfer != HLG:
        return np.asarray(signal**SDR_GAMMA)
    bright = np.exp((signal - 0.55991073) / 0.17883277) + 0.28466892
    scene = np.where(signal <= 0.5, 4 * signal**2, bright) / 12
    return np.asarray(PEAK * scene**1.2)


def to_sdr(signal: np.ndarray, transfer: int, primaries: int) -> np.ndarray:
    """RGB of BT.709 in 0 to 1, [..., 3], for RGB with these H.273 numbers; HDR is mostly BT.2020.

    Light above `KNEE` is compressed, up to `PEAK`, by the curve of FFmpeg's `tonemap=mobius`.
    """
    light = _light(signal, transfer) @ np.array(_TO_BT709.get(primaries, _BT2020)).T
    brightest = np.maximum(light.max(-1, keepdims=True), 1e-9)
    if transfer in (PQ, HLG):
        a = -(KNEE**2) * (PEAK - 1) / (KNEE**2 - 2 * KNEE + PEAK)
        b = (KNEE**2 - 2 * KNEE * PEAK + PEAK) / (PEAK - 1)
        mapped = (b + KNEE) ** 2 / (b - a) * (brightest + a) / (brightest + b)
        light = light * np.where(brightest > KNEE, mapped / brightest, 1)
    return np.clip(light, 0, 1) ** (1 / SDR_GAMMA)


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
    """When the picture, and everything, should end in seconds; None if the file does not say."""
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
