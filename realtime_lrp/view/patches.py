"""Outlines of the patches that the faithfulness probe flips. The picture inside stays as it is."""

from dataclasses import dataclass

import cv2
import numpy as np

from realtime_lrp.system.geometry import Box

LIGHT, DARK = (255, 255, 255), (0, 0, 0)

DASH = 0.3  # a dashed side is drawn for this share of its length at either end


@dataclass(frozen=True, eq=False)
class Patches:
    """Two choices of patches of a grid, bool [rows, columns]."""

    relevant: np.ndarray  # gets a solid outline
    random: np.ndarray  # gets dashes
    # x0, y0, x1, y1 of the whole grid, in pixels of the picture. It can be larger than the picture.
    box: tuple[float, float, float, float]


def draw_patches(canvas: np.ndarray, patches: Patches, shape: tuple[int, ...], box: Box) -> None:
    """Draws the outlines in place, white with dark edges, so that they show on any ground."""
    x0, y0, x1, y1 = box
    tile = canvas[y0:y1, x0:x1]
    down, across = tile.shape[0] / shape[0], tile.shape[1] / shape[1]
    left, top, right, bottom = patches.box
    rows, columns = patches.relevant.shape
    xs = np.linspace(left * across, right * across, columns + 1)
    ys = np.linspace(top * down, bottom * down, rows + 1)
    width = max(1, round(min(tile.shape[:2]) / 360))
    dashes = [half for side in _sides(patches.random, xs, ys) for half in _dashes(side)]
    solid = _sides(patches.relevant, xs, ys)
    for sides, thick in ((dashes, width), (solid, width + 1)):
        lines = [np.rint(side).astype(np.int32) for side in sides]
        cv2.polylines(tile, lines, False, DARK, thick + 2)
        cv2.polylines(tile, lines, False, LIGHT, thick)


def _sides(chosen: np.ndarray, xs: np.ndarray, ys: np.ndarray) -> list[np.ndarray]:
    """The sides between a chosen patch and one that is not, as pairs of points (x, y)."""
    framed = np.pad(chosen, 1)
    sides = []
    for row, column in np.argwhere(framed[:, 1:] != framed[:, :-1]):  # row 1 is the first patch
        x = xs[column]
        sides.append(np.array([(x, ys[row - 1]), (x, ys[row])]))
    for row, column in np.argwhere(framed[1:] != framed[:-1]):
        y = ys[row]
        sides.append(np.array([(xs[column - 1], y), (xs[column], y)]))
    return sides


def _dashes(side: np.ndarray) -> list[np.ndarray]:
    """The two ends of a side."""
    first, last = side
    return [np.array([first, first + DASH * (last - first)]),
            np.array([last, last + DASH * (first - last)])]  # fmt: skip
