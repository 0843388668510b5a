"""Measures of relevance maps: do they point at the object, and how alike are two of them?

Maps are float [N, H, W], larger is more relevant and nothing is below 0 (see `counted`). Masks are
bool [N, H, W], True on the object. Every measure gives one figure for each picture, float64 [N].

A map without any relevance, or with the same everywhere, says nothing about the place: it scores
the object's share of the area, which is what chance gives. Equal entries share what they hit, so
that no figure depends on the order in which pixels are stored.
"""

import math
from collections.abc import Sequence

import numpy as np

from realtime_lrp.relevance.methods import METHODS


def counted(relevance: np.ndarray, name: str) -> np.ndarray:
    """The part of raw relevance that counts: what speaks for the class.

    Args:
      relevance: float [N, H, W, C], raw.
      name: the method or composite that it comes from. Of an `absolute` method the magnitude
        counts.

    Returns:
      float [N, H, W], summed over the channels, then the magnitude or the positive part.
    """
    summed = relevance.sum(axis=-1)
    absolute = name in METHODS and METHODS[name].absolute
    return np.abs(summed) if absolute else np.maximum(summed, 0)


def mask_of(
    boxes: Sequence[Sequence[float]],
    seen: tuple[int, int, int, int],
    inner: tuple[int, int, int, int],
    size: tuple[int, int],
) -> np.ndarray:
    """The inside of boxes on a photo, at the network's input.

    Args:
      boxes: x0, y0, x1, y1 each, in pixels of the photo.
      seen: the region of the photo that the network sees, x0, y0, x1, y1.
      inner: where that region lies in the network's input.
      size: (rows, columns) of the network's input.

    Returns:
      bool [rows, columns], True on every pixel that a box touches; what lies outside the region
      is cut off.
    """
    mask = np.zeros(size, bool)
    for box in boxes:
        (x0, x1), (y0, y1) = (
            (np.clip(box[axis::2], seen[axis], seen[axis + 2]) - seen[axis])
            * (inner[axis + 2] - inner[axis])
            / (seen[axis + 2] - seen[axis])
            + inner[axis]
            for axis in (0, 1)
        )
        mask[math.floor(y0) : math.ceil(y1), math.floor(x0) : math.ceil(x1)] = True
    return mask


def pointing_game(maps: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """The pointing game: 1 where the largest entry is on the object, else 0.

    Zhang et al. 2018, "Top-Down Neural Attention by Excitation Backprop". Of several largest
    entries, the share that is on the object. A margin around the object is part of the masks.
    """
    maps, masks = _flat(maps), _flat(masks)
    largest = maps == maps.max(axis=1, keepdims=True)
    return (largest & masks).sum(axis=1) / largest.sum(axis=1)


def mass_accuracy(maps: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """Relevance mass accuracy: relevance on the object / all relevance.

    Arras, Osman and Samek 2022, "CLEVR-XAI: A benchmark dataset for the ground truth evaluation of
    neural network explanations".
    """
    maps, masks = _flat(maps).astype(np.float64), _flat(masks)
    total = maps.sum(axis=1)
    maps = np.where(total[:, None] > 0, maps, 1.0)
    return (maps * masks).sum(axis=1) / maps.sum(axis=1)


def rank_accuracy(maps: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """Relevance rank accuracy: of the K largest entries, the share on the object's K pixels.

    Arras, Osman and Samek 2022. Where entries equal to the K-th largest compete for the
    last places, each place counts with the share of them that is on the object.

    Returns:
      float64 [N], NaN where a mask is empty.
    """
    return np.array([_rank_accuracy(*pair) for pair in zip(_flat(maps), _flat(masks), strict=True)])


def _rank_accuracy(entries: np.ndarray, mask: np.ndarray) -> float:
    size = int(mask.sum())
    if not size:
        return np.nan
    smallest = np.partition(entries, -size)[-size]
    above, equal = entries > smallest, entries == smallest
    places = size - above.sum()
    return ((above & mask).sum() + places * (equal & mask).sum() / equal.sum()) / size


def spearman(maps: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Spearman's rank correlation of two maps of each picture; equal entries share their ranks.

    Returns:
      float64 [N] from -1 to 1, NaN where one of the two maps is the same everywhere.
    """
    return np.array([_spearman(*pair) for pair in zip(_flat(maps), _flat(others), strict=True)])


def _spearman(entries: np.ndarray, others: np.ndarray) -> float:
    a, b = (ranks - ranks.mean() for ranks in (_ranks(entries), _ranks(others)))
    spread = np.sqrt((a * a).sum() * (b * b).sum())  # @ would wake BLAS's threads for so little
    return (a * b).sum() / spread if spread else np.nan


def _ranks(entries: np.ndarray) -> np.ndarray:
    """The ranks from 1, float64 [P]; equal entries get the mean of theirs."""
    _, place, count = np.unique(entries, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]


def patch_turns(maps: np.ndarray, grid: int, rng: np.random.Generator) -> np.ndarray:
    """When each patch has its turn if the most relevant patch comes first.

    Args:
      maps: float [N, H, W].
      grid: patches in a row and in a column; their sides differ by one pixel at most.
      rng: decides between equal patches; a map that is the same everywhere gives a random order.

    Returns:
      int [N, H, W]: 0 on the pixels of the patch with the highest mean relevance, up to
      grid * grid - 1.
    """
    rows, columns = (np.arange(size) * grid // size for size in maps.shape[1:])
    patch = rows[:, None] * grid + columns
    pixels = np.bincount(patch.ravel(), minlength=grid * grid)
    sums = [np.bincount(patch.ravel(), entries, grid * grid) for entries in _flat(maps)]
    means = np.stack(sums) / np.maximum(pixels, 1)
    order = np.lexsort((rng.random(means.shape), -means))
    turns = np.empty_like(order)
    np.put_along_axis(turns, order, np.arange(grid * grid)[None], axis=1)
    return turns[:, patch]


def exchanged(
    pictures: np.ndarray, others: np.ndarray, turns: np.ndarray, count: int
) -> np.ndarray:
    """The pictures with their first `count` patches taken from the others.

    With pictures and a baseline that is a step of deletion, with the two swapped a step of
    insertion (Petsiuk et al. 2018, "RISE"; pixel flipping by Samek et al. 2017, "Evaluating the
    visualization of what a deep neural network has learned").

    Args:
      pictures: [N, H, W, C].
      others: like pictures.
      turns: int [N, H, W], see `patch_turns`.
      count: how many patches have had their turn.
    """
    return np.where((turns < count)[..., None], others, pictures)


def area_under(places: np.ndarray, curve: np.ndarray) -> float:
    """The area under a curve [steps] over ascending places [steps], by the trapezoidal rule."""
    return float(((curve[1:] + curve[:-1]) / 2 * np.diff(places)).sum())


def _flat(maps: np.ndarray) -> np.ndarray:
    return maps.reshape(len(maps), math.prod(maps.shape[1:]))
