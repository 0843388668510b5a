"""Tensors as pictures: every channel a tile, all tiles of a sheet on one scale.

Maps are float32 [rows, columns, channels], coloured maps uint8 [rows, columns, channels, 3] RGB.
"""

import math
from collections.abc import Sequence

import cv2
import numpy as np

from realtime_lrp.view.colormaps import colormap_named
from realtime_lrp.view.overlay import SOFTNESS
from realtime_lrp.view.sheet import contact_sheet
from realtime_lrp.view.text import draw_lines, text_size

PERCENTILE = 99.5
"""The share of entries below the end of the scale, so that single ones do not darken the rest."""

MOST = 64
"""Tiles on one sheet, at most."""

SIDE = 1024
"""Pixels: so far large tiles may fill a sheet's side; fewer of them are shown instead."""

SHOWN = 768
"""Pixels: small tiles are enlarged until they fill about so much of a sheet's side."""


def as_maps(tensor: np.ndarray) -> np.ndarray:
    """One picture's tensor [C], [n, C], [H, W, C] or [D, H, W, C] as maps, depth below depth.

    What is not finite is drawn as 0.
    """
    columns = tensor.shape[-2] if tensor.ndim > 1 else 1
    maps = tensor.reshape(-1, columns, tensor.shape[-1]).astype(np.float32)
    return np.nan_to_num(maps, copy=False, posinf=0.0, neginf=0.0)


def strongest(relevance: np.ndarray, most: int = MOST) -> np.ndarray:
    """The channels with the largest relevance by magnitude, largest first.

    Args:
      relevance: maps.
      most: how many, at most; large maps get fewer, so that a sheet stays within `SIDE`.
    """
    fitting = max(1, SIDE // max(relevance.shape[:2])) ** 2
    strength = np.abs(relevance).sum((0, 1))
    return np.argsort(-strength, kind="stable")[: min(most, fitting)]


def activation_colours(maps: Sequence[np.ndarray]) -> tuple[list[np.ndarray], str]:
    """Maps in grey on one scale, and what its ends mean.

    Black is 0, or the lowest entry where some are negative; white is reached by one entry in 200.
    """
    entries = np.concatenate([one.ravel() for one in maps])
    low = min(0.0, float(entries.min()))
    high = float(np.percentile(entries, PERCENTILE))
    if high <= low:
        high = float(entries.max())
    grey = colormap_named("gray")
    coloured = [grey((one - low) / ((high - low) or 1.0)) for one in maps]
    return coloured, f"black {low:.3g}, white {high:.3g}"


def relevance_colours(maps: Sequence[np.ndarray]) -> tuple[list[np.ndarray], str]:
    """Maps in cold (negative) and hot (positive) on one scale, 0 in black; and what its ends mean.

    Weak relevance is raised as in the overlay, so that it stays visible.
    """
    magnitude = np.abs(np.concatenate([one.ravel() for one in maps]))
    scale = float(np.percentile(magnitude, PERCENTILE)) or float(magnitude.max()) or 1.0
    colours = colormap_named("coldnhot")
    coloured = []
    for one in maps:
        strength = np.clip(np.abs(one) / scale, 0, 1) ** SOFTNESS
        coloured.append(colours(np.copysign(strength, one)))
    return coloured, f"black 0, yellow {scale:.3g}, light blue {-scale:.3g}"


def tiled(coloured: np.ndarray, size: tuple[int, int] | None = None) -> np.ndarray:
    """Coloured maps as tiles of a square sheet, uint8 [h, w, 3], first channel top left.

    Args:
      coloured: coloured maps.
      size: the (rows, columns) that the maps are taken for; nearest neighbour.
    """
    rows, columns = size or coloured.shape[:2]
    count = coloured.shape[2]
    across = math.isqrt(count - 1) + 1
    factor = max(1, SHOWN // (across * max(rows, columns)))
    shape = (columns * factor, rows * factor)
    tiles = [
        cv2.resize(np.ascontiguousarray(coloured[:, :, n]), shape, interpolation=cv2.INTER_NEAREST)
        for n in range(count)
    ]
    return contact_sheet(tiles, across)


def side_by_side(left: np.ndarray, right: np.ndarray, captions: tuple[str, str]) -> np.ndarray:
    """Two coloured maps of the same channels, tiles of the same size, each under its caption.

    The right ones are enlarged or shrunk to the size of the left ones, nearest neighbour.
    """
    sheets = [tiled(one, left.shape[:2]) for one in (left, right)]
    height, width = sheets[0].shape[:2]
    band = 2 * text_size(height)
    both = np.pad(np.hstack(sheets), [(band, 0), (0, 0), (0, 0)])
    for number, caption in enumerate(captions):
        box = (number * width, 0, (number + 1) * width, height)
        draw_lines(both, [caption], box, bottom=False)
    return both
