"""Deletion and insertion: how the probability of a class changes as patches are replaced.

Most of a curve is flat. So only a few of its points are computed for every picture, and those
between two points only where the curve can still hide an area that counts.
"""

from collections.abc import Callable, Mapping

import numpy as np

from realtime_lrp.relevance import measures
from realtime_lrp.video.libraries import cv2

GRID = 16
"""Patches per row and per column."""

REPLACED = np.arange(GRID + 1) ** 2
"""How many patches are replaced at each point of a curve; dense at the start."""

SURE = 8
"""Every `SURE`-th point is computed for every picture."""

TOLERANCE = 0.005
"""Between two points a monotone curve lies in the box that they span. No point between them is
computed where the area of this box is at most this share of the whole plot."""

BLUR_SHARE = 1 / 16
"""Deviation of the blur that replaces a patch, as a share of the picture's shorter side."""

BATCH = 32

Curve = np.ndarray
"""float64 [points, N], the probability of each picture's class at each entry of `REPLACED`."""


class CurveMeter:
    """Measures curves of the same pictures for any order of patches.

    Args:
      scores: uint8 [n, h, w, 3] -> float32 [n, classes], n up to `BATCH`.
      pictures: uint8 [N, h, w, 3].
      classes: int [N], whose probability is measured.
    """

    def __init__(
        self,
        scores: Callable[[np.ndarray], np.ndarray],
        pictures: np.ndarray,
        classes: np.ndarray,
    ):
        self._scores, self._pictures, self._classes = scores, pictures, classes
        deviation = min(pictures.shape[1:3]) * BLUR_SHARE
        self._blurred = np.stack([cv2.GaussianBlur(one, (0, 0), deviation) for one in pictures])
        everything = np.arange(len(pictures))
        self._intact, self._gone = (
            self._probability(ends, everything) for ends in (self._pictures, self._blurred)
        )

    def measure(self, ranks: np.ndarray, samples: np.ndarray) -> dict[str, Curve]:
        """The curves "deletion" and "insertion" of some pictures.

        Args:
          ranks: int [n, h, w], see `measures.patch_ranks`.
          samples: int [n], the numbers of the pictures.
        """
        begin, end = self._intact[samples], self._gone[samples]
        between = np.full((len(REPLACED) - 2, len(samples)), np.nan)
        deletion = np.concatenate([begin[None], between, end[None]])
        curves = np.stack([deletion, deletion[::-1]])
        gap = SURE
        while gap:
            wanted = np.zeros(curves.shape, bool)
            if gap == SURE:
                wanted[:, gap:-1:gap] = True
            else:
                wanted[:, gap :: 2 * gap] = _can_hide_area(curves, 2 * gap)
            curves[wanted] = self._points(wanted, ranks, samples)
            gap //= 2
        _fill_gaps(curves)
        return {"deletion": curves[0], "insertion": curves[1]}

    def _points(self, wanted: np.ndarray, ranks: np.ndarray, samples: np.ndarray) -> np.ndarray:
        """The wanted points of both curves, in their order."""
        jobs = np.argwhere(wanted)
        found = [np.empty(0)]
        for kind, point, column in (
            batch.T for batch in np.split(jobs, range(BATCH, len(jobs), BATCH)) if len(batch)
        ):
            chosen, deleting = samples[column], (kind == 0)[:, None, None, None]
            ends = self._pictures[chosen], self._blurred[chosen]
            first, then = np.where(deleting, *ends), np.where(deleting, *ends[::-1])
            count = REPLACED[point][:, None, None]
            changed = measures.replace_patches(first, then, ranks[column], count)
            found.append(self._probability(changed, chosen))
        return np.concatenate(found)

    def _probability(self, pictures: np.ndarray, samples: np.ndarray) -> np.ndarray:
        scores = [
            self._scores(batch) for batch in np.split(pictures, range(BATCH, len(pictures), BATCH))
        ]
        return np.concatenate(scores)[np.arange(len(samples)), self._classes[samples]]


def areas(curves: Mapping[str, Curve]) -> dict[str, np.ndarray]:
    """The area under each curve of each picture, as a share of the whole plot."""
    positions = REPLACED / REPLACED[-1]
    return {name: measures.area_under(positions, curve) for name, curve in curves.items()}


def _can_hide_area(curves: np.ndarray, gap: int) -> np.ndarray:
    """Whether a point is needed between those that lie `gap` apart: bool [2, points, N]."""
    widths = np.diff(REPLACED[::gap] / REPLACED[-1])
    heights = np.abs(np.diff(curves[:, ::gap], axis=1))  # NaN where an end is not computed either
    return heights * widths[:, None] > TOLERANCE


def _fill_gaps(curves: np.ndarray) -> None:
    """Replaces NaN by what lies on the straight line between the points around it."""
    for curve in curves:
        for column in curve.T:
            known = ~np.isnan(column)
            column[~known] = np.interp(REPLACED[~known], REPLACED[known], column[known])
