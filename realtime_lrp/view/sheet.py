"""How pictures stand in files: a picture and its map, and contact sheets of many."""

from collections.abc import Sequence

import numpy as np

from realtime_lrp.view.overlay import Overlay, lay_over
from realtime_lrp.view.text import draw_lines


def contact_sheet(pictures: Sequence[np.ndarray], columns: int = 4) -> np.ndarray:
    """Pictures of one size side by side, row by row, with a white gap of 4 pixels."""
    gap = 4
    height, width = pictures[0].shape[:2]
    rows = -(-len(pictures) // columns)
    shape = (rows * (height + gap) + gap, columns * (width + gap) + gap, 3)
    sheet = np.full(shape, 255, np.uint8)
    for number, picture in enumerate(pictures):
        y = gap + number // columns * (height + gap)
        x = gap + number % columns * (width + gap)
        sheet[y : y + height, x : x + width] = picture
    return sheet


def lay_out(picture: np.ndarray, overlay: Overlay, line: str, layout: str) -> np.ndarray:
    """A picture with its map and the line that names its best label: uint8 [H, W or 2 W, 3] RGB.

    Layouts: "overlay"; "side-by-side", the picture and the overlay; "map", on black, without the
    line; "original+map", the picture and that map.
    """
    if layout in ("map", "original+map"):
        drawn = lay_over(np.zeros_like(picture), overlay)
    else:
        drawn = lay_over(picture, overlay)
        draw_lines(drawn, [line], overlay.box, bottom=True)
    return drawn if layout in ("overlay", "map") else np.hstack([picture, drawn])
