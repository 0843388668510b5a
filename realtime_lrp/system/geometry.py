"""The one type for rectangles. No imports."""

Box = tuple[int, int, int, int]
"""x0, y0, x1, y1 in pixels; x1 and y1 are excluded."""
