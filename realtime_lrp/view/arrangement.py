"""The places of pictures, figures and notices on the canvas: geometry only, no drawing."""

from collections.abc import Sequence
from dataclasses import dataclass

from realtime_lrp.system.geometry import Box, Extent, moved

COLUMN, MAX_COLUMN = 14, 26  # limits of a column of figures' width, in heights of a letter
BAND, NOTICE_BAND = 12, 5  # least heights of bands for figures and notices, in letters
MARKS = 1.7  # height of the line of marks below figures or notices, in heights of a letter
CAPTION, LEGEND = 1.6, 2.1  # heights of the lines above and below a panel, in letters
GAP = 0.6  # space between panels, in heights of a letter


@dataclass(frozen=True)
class Arrangement:
    """The boxes of what stands on a canvas."""

    pictures: tuple[Box, ...]  # of the picture, or of each panel side by side
    figures: tuple[Box, ...]  # one area for all figures, or one at the left and one at the right
    notices: Box  # the area whose lower edge gets notices that have no room below the figures
    marks: Box  # a line for what lasts: frozen, recording. Nothing else stands there.


def split(size: Extent, shape: Sequence[int], count: int, gap: int) -> tuple[Box, ...]:
    """Equal parts of a canvas with pictures as large as possible; in doubt side by side."""

    def grid(across: int) -> tuple[Box, ...]:
        down = -(-count // across)
        height, width = ((size[0] + gap) // down - gap, (size[1] + gap) // across - gap)
        corners = ((n % across * (width + gap), n // across * (height + gap)) for n in range(count))
        return tuple((x, y, x + max(width, 1), y + max(height, 1)) for x, y in corners)

    def picture_width(boxes: Sequence[Box]) -> int:
        x0, _, x1, _ = fitted_box(shape, boxes[0])
        return x1 - x0

    return max(map(grid, range(count, 0, -1)), key=picture_width)


def arrange(
    size: Extent, shape: Sequence[int], region: Box | None, panels: int,
    with_figures: bool, letters: int, above: int = 0,
) -> Arrangement:  # fmt: skip
    """Arranges a canvas below `above` free rows; figures leave the explained region visible."""
    if panels:
        return _side_by_side(size, shape, 1 + panels, with_figures, letters)
    whole = (0, above, size[1], size[0])
    region = region or central_square(shape)
    picture = fitted_box(shape, whole)
    if not with_figures:
        area = _notices_beside(whole, picture, scaled_box(region, shape, picture), letters)
        return Arrangement((picture,), (whole,), *_split(area, letters))
    picture, areas = _with_figures(whole, picture, region, shape, letters)
    x0, y0, x1, y1 = scaled_box(region, shape, picture)
    _, marks = _split(areas[-1], letters)
    areas = tuple(_split(area, letters)[0] for area in areas)
    return Arrangement((picture,), areas, (x0, y0, x1, min(y1, marks[1])), marks)


def fitted_box(shape: Sequence[int], room: Box) -> Box:
    """The largest box of a picture of this shape in the middle of a room."""
    x0, y0, x1, y1 = room
    scale = min((x1 - x0) / shape[1], (y1 - y0) / shape[0])
    width, height = max(1, round(shape[1] * scale)), max(1, round(shape[0] * scale))
    x, y = x0 + (x1 - x0 - width) // 2, y0 + (y1 - y0 - height) // 2
    return x, y, x + width, y + height


def scaled_box(box: Box, shape: Sequence[int], picture: Box) -> Box:
    """The place on the canvas of a box in a picture of this shape."""
    across, down = (picture[2] - picture[0]) / shape[1], (picture[3] - picture[1]) / shape[0]
    x0, x1 = (picture[0] + round(x * across) for x in (box[0], box[2]))
    y0, y1 = (picture[1] + round(y * down) for y in (box[1], box[3]))
    return x0, y0, x1, y1


def central_square(shape: Sequence[int]) -> Box:
    """The largest square in the middle of a picture of this shape."""
    return fitted_box((1, 1), (0, 0, shape[1], shape[0]))


def _with_figures(
    whole: Box, picture: Box, region: Box, shape: Sequence[int], letters: int
) -> tuple[Box, tuple[Box, ...]]:
    """The picture, where it helps moved or made smaller, and one or two areas for figures.

    They lie beside the picture or below, else over it beside the region or below.
    """
    _, top, right, bottom = whole
    column, band = COLUMN * letters, BAND * letters
    x0, y0, x1, y1 = picture
    free = right - (x1 - x0)
    if free >= 2 * column:
        width = min(x0, MAX_COLUMN * letters)
        return picture, ((x0 - width, top, x0, bottom), (x1, top, x1 + width, bottom))
    if free >= column or bottom - top - (y1 - y0) >= band:
        return _aside(whole, picture, free >= column)
    x0, _, x1, y1 = scaled_box(region, shape, picture)
    if (free := min(x0, right - x1)) >= column:
        width = min(free, MAX_COLUMN * letters)
        return picture, ((0, top, width, bottom), (right - width, top, right, bottom))
    if bottom - y1 >= band:
        return picture, ((0, y1, right, bottom),)
    left = fitted_box(shape, (0, top, right - min(column, right // 2), bottom))
    upper = fitted_box(shape, (0, top, right, bottom - min(band, (bottom - top) // 2)))
    larger = left[2] - left[0] >= upper[2] - upper[0]
    return _aside(whole, left if larger else upper, larger)


def _aside(whole: Box, picture: Box, beside: bool) -> tuple[Box, tuple[Box, ...]]:
    """The picture, moved to the left or up, and the area beside it or below."""
    _, top, right, bottom = whole
    x0, y0, x1, y1 = picture
    if beside:
        return (0, y0, x1 - x0, y1), ((x1 - x0, top, right, bottom),)
    y = top + y1 - y0
    return (x0, top, x1, y), ((0, y, right, bottom),)


def _split(area: Box, letters: int) -> tuple[Box, Box]:
    x0, y0, x1, y1 = area
    y = max(y0 + 1, y1 - round(MARKS * letters))
    return (x0, y0, x1, y), (x0, y, x1, y1)


def _notices_beside(whole: Box, picture: Box, region: Box, letters: int) -> Box:
    """A place where notices cover nothing, else no explained region, else the lower edge."""
    _, top, right, bottom = whole
    for x0, _, _, y1 in (picture, region):
        if x0 >= COLUMN * letters:
            return 0, top, x0, bottom
        if bottom - y1 >= NOTICE_BAND * letters:
            return 0, y1, right, bottom
    return whole


def _side_by_side(
    size: Extent, shape: Sequence[int], count: int, with_figures: bool, letters: int
) -> Arrangement:
    rows, columns = size
    gap, below = (round(part * letters) for part in (GAP, LEGEND))
    width = min(COLUMN * letters, columns // 2) if with_figures else 0
    height = min(BAND * letters, rows // 2) if with_figures else 0
    tiles = _tiles((rows, columns - width), shape, count, letters)
    above = _tiles((rows - height, columns), shape, count, letters)
    beside = tiles[0][2] - tiles[0][0] >= above[0][2] - above[0][0]
    tiles = tiles if beside else above
    x = (columns - max(tile[2] for tile in tiles) - tiles[0][0]) // 2  # between equal margins
    y = (rows - tiles[-1][3] - below) // 2 if beside else 0
    tiles = tuple(moved(tile, 0 if beside and with_figures else x, y) for tile in tiles)
    x0, _, x1, y1 = tiles[0]  # no legend stands below the picture
    marks = (x0, y1, x1, min(rows, y1 + round(MARKS * letters)))
    if not with_figures:
        notices = (0, 0, x0 - gap, rows) if x0 >= COLUMN * letters else tiles[0]
        return Arrangement(tiles, ((0, 0, columns, rows),), notices, marks)
    area = max(tile[2] for tile in tiles) + gap, 0, columns, rows
    if not beside:
        area = 0, tiles[-1][3] + below, columns, rows
    return Arrangement(tiles, (area,), tiles[0], marks)


def _tiles(size: Extent, shape: Sequence[int], count: int, letters: int) -> tuple[Box, ...]:
    """Boxes close together, as large as possible, each with room for a caption and a legend."""
    above, below, gap = (round(part * letters) for part in (CAPTION, LEGEND, GAP))

    def grid(across: int) -> tuple[Box, ...]:
        width = (size[1] - gap) // across - gap
        height = size[0] // -(-count // across) - above - below
        x0, y0, x1, y1 = fitted_box(shape, (0, 0, max(width, 1), max(height, 1)))
        width, height = x1 - x0, y1 - y0
        corners = (
            (gap + n % across * (width + gap), above + n // across * (height + above + below))
            for n in range(count)
        )
        return tuple((x, y, x + width, y + height) for x, y in corners)

    return max(map(grid, range(1, count + 1)), key=lambda tiles: tiles[0][2] - tiles[0][0])
