"""Measures of relevance maps: do they point at the object, and how similar are two maps?

Maps are float [N, H, W] without negative entries, as `supporting_relevance` returns them; larger
means more relevant. Masks are bool [N, H, W], True on the object. Every measure returns one number
for each picture, float64 [N].

A map that is the same everywhere, or 0 everywhere, points nowhere: it scores the object's share of
the area, as chance does. Equal entries share the score, so that no result depends on the order of
pixels.
"""

import math
from collections.abc import Sequence

import numpy as np

from realtime_lrp.relevance.maps.methods import METHODS


def supporting_relevance(relevance: np.ndarray, name: str) -> np.ndarray:
    """The part of raw relevance [N, H, W, C] that speaks for the class, float [N, H, W].

    Summed over the channels, then the positive part; the magnitude for an `absolute` method. `name`
    is the name of the method or composite.
    """
    summed = relevance.sum(axis=-1)
    absolute = name in METHODS and METHODS[name].absolute
    return np.abs(summed) if absolute else np.maximum(summed, 0)


def box_mask(
    boxes: Sequence[Sequence[float]],
    seen: tuple[int, int, int, int],
    inner: tuple[int, int, int, int],
    size: tuple[int, int],
) -> np.ndarray:
    """A mask of boxes on a photo, at the network's input: bool [rows, columns].

    Boxes are x0, y0, x1, y1 in pixels of the photo; every pixel that one touches is True. The
    network sees the region `seen` of the photo, where boxes are cut off; it lies at `inner` in the
    input.
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

    Zhang et al. 2018, "Top-Down Neural Attention by Excitation Backprop". If several entries are
    largest, their share that is on the object. The masks include any margin around the object.
    """
    maps = _flat(maps)
    largest = maps == maps.max(axis=1, keepdims=True)
    return (largest & _flat(masks)).sum(axis=1) / largest.sum(axis=1)


def mass_accuracy(maps: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """Relevance mass accuracy: on the object / all (Arras, Osman and Samek 2022, "CLEVR-XAI")."""
    maps = _flat(maps).astype(np.float64)
    total = maps.sum(axis=1)
    maps = np.where(total[:, None] > 0, maps, 1.0)
    return (maps * _flat(masks)).sum(axis=1) / maps.sum(axis=1)


def rank_accuracy(maps: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """Relevance rank accuracy: of the K largest entries, the share on the object's K pixels.

    Arras, Osman and Samek 2022. If more entries equal the K-th largest than are needed, each that
    is needed counts with their share that is on the object.
    """
    shares = []
    for entries, mask in zip(_flat(maps), _flat(masks), strict=True):
        size = int(mask.sum())
        smallest = np.partition(entries, -size)[-size]
        above = entries > smallest
        equal = entries == smallest
        of_equal = (size - above.sum()) * (equal & mask).sum() / equal.sum()
        shares.append(((above & mask).sum() + of_equal) / size)
    return np.array(shares)


def spearman(maps: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Spearman's rank correlation of maps, float64 [N]; NaN where a map is the same everywhere."""
    found = []
    for pair in zip(_flat(maps), _flat(others), strict=True):
        a, b = map(_centred_ranks, pair)
        spread = np.sqrt((a * a).sum() * (b * b).sum())  # @ would start BLAS threads
        found.append((a * b).sum() / spread if spread else np.nan)
    return np.array(found)


def _centred_ranks(entries: np.ndarray) -> np.ndarray:
    """The ranks minus their mean, float64 [P]; equal entries get the mean of theirs."""
    _, position, count = np.unique(entries, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - (count - 1) / 2)[position]
    return ranks - ranks.mean()


def patch_ranks(maps: np.ndarray, grid: int, rng: np.random.Generator) -> np.ndarray:
    """Ranks the patches of pictures float [N, H, W], the most relevant first.

    `grid` is the number of patches in a row and in a column; their sides differ by at most one
    pixel. `rng` orders equal patches. Returns int [N, H, W]: 0 on the pixels of the patch with the
    highest mean relevance, up to grid * grid - 1.
    """
    rows, columns = (np.arange(size) * grid // size for size in maps.shape[1:])
    patch = rows[:, None] * grid + columns
    pixels = np.bincount(patch.ravel(), minlength=grid * grid)
    sums = [np.bincount(patch.ravel(), entries, grid * grid) for entries in _flat(maps)]
    means = np.stack(sums) / np.maximum(pixels, 1)
    order = np.lexsort((rng.random(means.shape), -means))
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(grid * grid)[None], axis=1)
    return ranks[:, patch]


def area_weights(positions: np.ndarray) -> np.ndarray:
    """Weights w of the points of a curve, so that w @ values is the area under it; their sum is 1.

    Positions ascend from 0 to 1, at least two. The curve is the natural cubic spline through the
    points over the square roots of their positions: curves that change most at the start are smooth
    there, so that few points suffice. The area is taken over the positions themselves, each of
    which weighs the same.
    """
    roots = np.sqrt(positions)
    steps = np.diff(roots)
    count = len(roots)
    system = np.eye(count)
    right = np.zeros((count, count))
    for i in range(1, count - 1):
        before, after = steps[i - 1 : i + 1]
        system[i, i - 1 : i + 2] = before, 2 * (before + after), after
        right[i, i - 1 : i + 2] = 6 / before, -6 / before - 6 / after, 6 / after
    bends = np.linalg.solve(system, right)  # second derivatives, as sums of the points' values
    nodes, shares = np.polynomial.legendre.leggauss(3)  # exact up to degree 5; here it is 4
    weights = np.zeros(count)
    for i, step in enumerate(steps):
        end = (nodes + 1) / 2  # how far the nodes are from point i to point i + 1
        width = shares * step * (roots[i] + end * step)
        for point, near in ((i, 1 - end), (i + 1, end)):
            weights[point] += width @ near
            weights += width @ (near**3 - near) * step**2 / 6 * bends[point]
    return weights


def _flat(maps: np.ndarray) -> np.ndarray:
    return maps.reshape(len(maps), math.prod(maps.shape[1:]))
