"""Turns decoded frames into pictures as players show them: upright, in the screen's colours."""

import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from realtime_lrp.video.frames import MOST_PIXELS, Colour, colour_of, graph_of, range_read
from realtime_lrp.video.hdr import is_wide, sdr_table
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
            self._size, aspect = (max(1, round(frame.width * aspect)), frame.height), Fraction(1)
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
