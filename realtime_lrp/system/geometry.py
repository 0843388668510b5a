"""Rectangles in pictures. No imports."""

Box = tuple[int, int, int, int]  # x0, y0, x1, y1 in pixels; x1 and y1 are excluded
FloatBox = tuple[float, float, float, float]  # x0, y0, x1, y1 in pixels, between them too
Pixel = tuple[int, int]  # x, y
Extent = tuple[int, int]  # rows and columns
SURE = 0.5  # a detector's boxes with a lower score are not drawn


def contains(box: FloatBox, x: int, y: int) -> bool:
    """Whether a pixel lies in a box."""
    return box[0] <= x < box[2] and box[1] <= y < box[3]


def moved(box: Box, x: int, y: int) -> Box:
    """A box that is moved right and down."""
    return box[0] + x, box[1] + y, box[2] + x, box[3] + y


def carried(box: FloatBox, source: Box, target: Box) -> FloatBox:
    """A box that lies in `target` as it lay in `source`."""
    left, top, right, bottom = target
    x0, y0, x1, y1 = source
    across, down = (right - left) / (x1 - x0), (bottom - top) / (y1 - y0)
    return (
        left + (box[0] - x0) * across, top + (box[1] - y0) * down,
        left + (box[2] - x0) * across, top + (box[3] - y0) * down,
    )  # fmt: skip


def area(box: FloatBox) -> float:
    """The area of a box, 0 where it is turned inside out."""
    return max(box[2] - box[0], 0.0) * max(box[3] - box[1], 0.0)


def overlap(one: FloatBox, other: FloatBox) -> float:
    """Intersection over union of two boxes, from 0 to 1."""
    x0, y0 = max(one[0], other[0]), max(one[1], other[1])
    x1, y1 = min(one[2], other[2]), min(one[3], other[3])
    shared = area((x0, y0, x1, y1))
    return shared / whole if (whole := area(one) + area(other) - shared) > 0 else 0.0
