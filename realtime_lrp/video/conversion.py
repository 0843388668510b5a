"""Turns decoded frames into pictures as players show them: upright, in the screen's colours.

HDR and wide colours go through a table for FFmpeg's filter `lut3d`. FFmpeg's own way needs its
filter `zscale`, which PyAV's wheel does not have.
"""

import functools
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from realtime_lrp.video.frames import HLG, MOST_PIXELS, PQ, Colour, colour_of, graph_of, range_read
from realtime_lrp.video.libraries import av

LEAST_ASPECT = Fraction(1, 10)  # pixels that are narrower are not believed
UPRIGHT = (1, 0, 0, 0, 1)  # the first numbers of the display matrix of such a picture


class FrameConverter:
    """Turns frames into pictures uint8 [H, W, 3] RGB, upright, all of the size of the first frame.

    Mirrored and turned display matrices are carried out. HDR and wide colours become
    BT.709; `colour` tells which ones the pictures hold. `square` makes the pixels square; else
    `aspect`, the width of a pixel divided by its height, is left to whoever shows the pictures.
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
            with tempfile.TemporaryDirectory() as folder:
                table = Path(folder, "sdr.cube")
                table.write_text(sdr_table(colour.transfer, colour.primaries))
                self._graph = graph_of(
                    frame, Fraction(1, 1000), ("scale", f"{width}:{height}:{read_as}"),
                    ("format", "gbrp12"), ("lut3d", f"file='{table}'"), ("format", "rgb24"),
                )  # fmt: skip
        self._graph.push(frame)
        return self._graph.vpull().to_ndarray()


WHITE_NITS = 203.0  # what white is in HDR (ITU-R BT.2408)
PEAK = 1000 / WHITE_NITS  # the brightest light that stays below white; also HLG's peak
KNEE = 0.8  # light up to this share of white keeps its brightness
SDR_GAMMA = 2.4  # ITU-R BT.1886
NODES = 33  # the table's length along each colour

_BT2020 = ((1.6605, -0.5876, -0.0728), (-0.1246, 1.1329, -0.0083), (-0.0182, -0.1006, 1.1187))
_P3 = ((1.2249, -0.2247, 0.0), (-0.0420, 1.0419, 0.0), (-0.0197, -0.0786, 1.0979))
_TO_BT709 = {9: _BT2020, 11: _P3, 12: _P3}  # wide primaries of H.273 -> matrix of linear RGB


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


@functools.cache
def sdr_table(transfer: int, primaries: int) -> str:
    """The table of `to_sdr` in the format of .cube files, which `lut3d` reads."""
    axis = np.linspace(0, 1, NODES)
    blue, green, red = np.meshgrid(axis, axis, axis, indexing="ij")  # red changes fastest
    colours = to_sdr(np.stack([red, green, blue], -1).reshape(-1, 3), transfer, primaries)
    lines = (f"{red:.6f} {green:.6f} {blue:.6f}" for red, green, blue in colours.tolist())
    return "\n".join([f"LUT_3D_SIZE {NODES}", *lines, ""])
