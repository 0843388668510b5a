"""The region of a picture that the network sees."""

from dataclasses import dataclass

import numpy as np

from realtime_lrp.system.geometry import Box, FloatBox, carried, moved
from realtime_lrp.video.libraries import cv2


@dataclass(frozen=True)
class Region:
    """The explained region of a picture: its box there, and `inner`, its place in the input.

    That is all of the network's input, `size` (rows, columns), except for `letterbox`. Where a
    thing is followed, `found` says whether it is there; else it is the whole picture's.
    """

    box: Box
    inner: Box
    size: tuple[int, int]
    found: bool | None = None
    picture: tuple[int, int] = (1, 1)  # rows and columns of the picture

    def extract(self, picture: np.ndarray, border: int = 128) -> np.ndarray:
        """The network's input, uint8 [rows, columns, 3], for a picture uint8 [H, W, 3].

        Around a letterboxed region it has the brightness `border`.
        """
        left, top, right, bottom = self.box
        x0, y0, x1, y1 = self.inner
        shrunk = resize(picture[top:bottom, left:right], (y1 - y0, x1 - x0))
        if shrunk.shape[:2] == self.size:
            return shrunk
        bordered = np.full((*self.size, 3), border, np.uint8)
        bordered[y0:y1, x0:x1] = shrunk
        return bordered

    def in_picture(self, box: FloatBox) -> FloatBox:
        """A box of the network's input as a box of the picture; it may reach beyond."""
        return carried(box, self.inner, self.box)

    def part_of(self, places: tuple[int, int]) -> tuple[slice, slice]:
        """The rows and columns, of `places` (rows, columns), on the picture, not in borders."""
        x0, y0, x1, y1 = self.inner
        sides = zip((y0, x0), (y1, x1), places, self.size, strict=True)
        rows, columns = (
            slice(low * count // size, -(-high * count // size)) for low, high, count, size in sides
        )
        return rows, columns

    def place_of(self, at: tuple[float, float]) -> tuple[float, float] | None:
        """The place in the input, in shares of it from 0 to below 1.

        `at` is x, y in shares of the picture. None where the network does not see it.
        """
        rows, columns = self.picture
        x, y, *_ = self.in_input((at[0] * columns, at[1] * rows) * 2)
        x0, y0, x1, y1 = self.inner
        if not (x0 <= x <= x1 and y0 <= y <= y1):
            return None
        return min(x, x1 - 1e-3) / self.size[1], min(y, y1 - 1e-3) / self.size[0]

    def in_input(self, box: FloatBox) -> FloatBox:
        """A box of the picture as a box of the network's input."""
        return carried(box, self.box, self.inner)


def region_of(
    picture_size: tuple[int, int], size: tuple[int, int], fit: str, aspect: float = 1.0,
    within: Box | None = None,
) -> Region:  # fmt: skip
    """The region of a picture of a given size, or of a part of it; sizes are (rows, columns).

    "crop" is the largest centred region of the network's proportions, "squash" all of the picture,
    stretched, and "letterbox" all of it, with borders. Proportions are those in which it is shown:
    `aspect` is the width of a pixel divided by its height.
    """
    left, top, right, bottom = within or (0, 0, picture_size[1], picture_size[0])
    height, width = bottom - top, right - left
    rows, columns = size
    box = (left, top, right, bottom)
    inner = (0, 0, columns, rows)
    if fit == "letterbox":
        scale = min(rows / height, columns / (width * aspect))
        inner = _centred(height * scale, width * aspect * scale, rows, columns)
    elif fit == "crop":
        scale = min(height / rows, width * aspect / columns)
        box = moved(_centred(rows * scale, columns * scale / aspect, height, width), left, top)
    return Region(box, inner, size, picture=picture_size)


def box_at(fractions: FloatBox, size: tuple[int, int]) -> Box:
    """The pixels of a picture of (rows, columns) at fractions of it, at least one."""
    sides = zip(fractions, size[::-1] * 2, strict=True)
    x0, y0, x1, y1 = (round(fraction * count) for fraction, count in sides)
    x0, y0 = min(x0, size[1] - 1), min(y0, size[0] - 1)
    return x0, y0, max(x1, x0 + 1), max(y1, y0 + 1)


def resize(picture: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """A picture scaled to (rows, columns), averaged if it shrinks, interpolated if it grows."""
    shrinks = picture.shape[0] * picture.shape[1] > size[0] * size[1]
    how = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return cv2.resize(picture, (size[1], size[0]), interpolation=how)


def _centred(height: float, width: float, rows: int, columns: int) -> Box:
    height = min(max(round(height), 1), rows)
    width = min(max(round(width), 1), columns)
    y, x = (rows - height) // 2, (columns - width) // 2
    return x, y, x + width, y + height
