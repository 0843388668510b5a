"""Rectangles in pictures. No imports."""

Box = tuple[int, int, int, int]
"""x0, y0, x1, y1 in pixels; x1 and y1 are excluded."""


FloatBox = tuple[float, float, float, float]
"""x0, y0, x1, y1 in pixels, between them too."""

SURE = 0.5  # a detector's boxes with a lower score are not drawn


def contains(box: Box, x: int, y: int) -> bool:
    """Whether a pixel lies in a box."""
    return box[0] <= x < box[2] and box[1] <= y < box[3]


def moved(box: Box, x: int, y: int) -> Box:
    """A box that is moved right and down."""
    return box[0] + x, box[1] + y, box[2] + x, box[3] + y
