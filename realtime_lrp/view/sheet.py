"""Contact sheets: many small pictures in one."""

from collections.abc import Sequence

import numpy as np


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
