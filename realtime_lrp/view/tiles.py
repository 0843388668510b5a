"""Pictures for files: a picture and its map, contact sheets, tensors as tiles on one scale.

Maps are float32 [rows, columns, channels], coloured maps uint8 [rows, columns, channels, 3] RGB.
"""

import math
from collections.abc import Sequence

import cv2
import numpy as np

from realtime_lrp.system.geometry import Extent
from realtime_lrp.system.scale import PERCENTILE, SOFTNESS, end_of
from realtime_lrp.view.look import colormap_named
from realtime_lrp.view.painting import Painted, draw_outlines, lay_over
from realtime_lrp.view.text import draw_lines, text_size

MAX_TILES = 64  # on one sheet
MAX_SIDE = 1024  # pixels of a sheet's side; of large tiles it gets fewer
SMALL_SIDE = 768  # pixels. Small tiles are enlarged until the side of the sheet is about this long.


def as_maps(tensor: np.ndarray) -> np.ndarray:
    """Reshapes the tensor of one picture, [C], [n, C], [H, W, C] or [D, H, W, C], to maps.

    Slices of D stand below each other. NaN and Inf become 0.
    """
    columns = tensor.shape[-2] if tensor.ndim > 1 else 1
    maps = tensor.reshape(-1, columns, tensor.shape[-1]).astype(np.float32)
    return np.nan_to_num(maps, copy=False, posinf=0.0, neginf=0.0)


def strongest(relevance: np.ndarray, most: int = MAX_TILES) -> np.ndarray:
    """The channels with the largest sums of |relevance|, largest first."""
    fitting = max(1, MAX_SIDE // max(relevance.shape[:2])) ** 2
    strength = np.abs(relevance).sum((0, 1))
    return np.argsort(-strength, kind="stable")[: min(most, fitting)]


def activation_colours(maps: Sequence[np.ndarray]) -> tuple[list[np.ndarray], str]:
    """Colours maps in grey on one scale, black at 0 or the lowest; also what the ends mean."""
    entries = np.concatenate([tensor.ravel() for tensor in maps])
    low = min(0.0, float(entries.min()))
    high = float(np.percentile(entries, PERCENTILE))
    high = high if high > low else float(entries.max())
    grey = colormap_named("gray")
    coloured = [grey((tensor - low) / ((high - low) or 1.0)) for tensor in maps]
    return coloured, f"black {low:.3g}, white {high:.3g}"


def relevance_colours(maps: Sequence[np.ndarray]) -> tuple[list[np.ndarray], str]:
    """Colours maps cold (negative) to hot on one scale, raised as overlays are; also a legend."""
    scale = end_of(np.abs(np.concatenate([tensor.ravel() for tensor in maps])))
    colours = colormap_named("coldnhot")
    strengths = (np.clip(np.abs(tensor) / scale, 0, 1) ** SOFTNESS for tensor in maps)
    coloured = [colours(np.copysign(*pair)) for pair in zip(strengths, maps, strict=True)]
    return coloured, f"black 0, yellow {scale:.3g}, light blue {-scale:.3g}"


def tiled(coloured: np.ndarray, size: Extent | None = None) -> np.ndarray:
    """Arranges coloured maps as tiles of a square sheet, uint8 [h, w, 3], first one top left."""
    rows, columns = size or coloured.shape[:2]
    count = coloured.shape[2]
    across = math.isqrt(count - 1) + 1
    factor = max(1, SMALL_SIDE // (across * max(rows, columns)))
    shape = (columns * factor, rows * factor)
    tiles = [
        cv2.resize(np.ascontiguousarray(coloured[:, :, n]), shape, interpolation=cv2.INTER_NEAREST)
        for n in range(count)
    ]
    return contact_sheet(tiles, across)


def side_by_side(left: np.ndarray, right: np.ndarray, captions: tuple[str, str]) -> np.ndarray:
    """Two sheets of the same channels, each under its caption, at the size of the left one."""
    sheets = [tiled(coloured, left.shape[:2]) for coloured in (left, right)]
    height, width = sheets[0].shape[:2]
    both = np.pad(np.hstack(sheets), [(2 * text_size(height), 0), (0, 0), (0, 0)])
    for caption, x in zip(captions, (0, width), strict=True):
        draw_lines(both, [caption], (x, 0, x + width, height), bottom=False)
    return both


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


def lay_out(painted: Painted, line: str = "", layout: str = "overlay") -> np.ndarray:
    """A picture with its first map and a line of text: uint8 [H, W or 2 W, 3] RGB.

    Layouts: "overlay"; "side-by-side", the picture and the overlay; "map", on black, without the
    line; "original+map", the picture and that map.
    """
    picture = painted.picture
    overlay = painted.overlays[0]
    if layout in ("map", "original+map"):
        drawn = lay_over(np.zeros_like(picture), overlay)
    else:
        drawn = lay_over(picture, overlay)
        draw_lines(drawn, [line] if line else [], overlay.box, bottom=True)
    draw_outlines(drawn, painted.outlines)
    return drawn if layout in ("overlay", "map") else np.hstack([picture, drawn])
