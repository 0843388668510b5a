"""Deletion and insertion: how the probability of a class changes as patches are replaced."""

from collections.abc import Callable, Mapping

import numpy as np

from realtime_lrp.relevance import measures
from realtime_lrp.video.libraries import cv2

GRID = 16
"""Patches per row and per column."""

REPLACED = np.arange(GRID + 1) ** 2
"""How many patches are replaced at each point of a curve; dense at the start."""

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
        intact, gone = self._intact[samples][None], self._gone[samples][None]
        ends = self._pictures, self._blurred
        deleting = self._points(*ends, ranks, samples)
        inserting = self._points(*ends[::-1], ranks, samples)
        return {
            "deletion": np.concatenate([intact, deleting, gone]),
            "insertion": np.concatenate([gone, inserting, intact]),
        }

    def _points(
        self, first: np.ndarray, then: np.ndarray, ranks: np.ndarray, samples: np.ndarray
    ) -> Curve:
        """The points of a curve from some pictures to others, without both ends."""
        counts = REPLACED[1:-1]
        point, column = np.indices((len(counts), len(samples))).reshape(2, -1)
        found = []
        for begin in range(0, len(point), BATCH):
            few = slice(begin, begin + BATCH)
            chosen, count = samples[column[few]], counts[point[few], None, None]
            changed = measures.replace_patches(
                first[chosen], then[chosen], ranks[column[few]], count
            )
            found.append(self._probability(changed, chosen))
        return np.concatenate(found).reshape(len(counts), len(samples))

    def _probability(self, pictures: np.ndarray, samples: np.ndarray) -> np.ndarray:
        scores = [
            self._scores(batch) for batch in np.split(pictures, range(BATCH, len(pictures), BATCH))
        ]
        chosen = np.concatenate(scores)[np.arange(len(samples)), self._classes[samples]]
        return chosen.astype(np.float64)


def areas(curves: Mapping[str, Curve]) -> dict[str, np.ndarray]:
    """The area under each curve of each picture, as a share of the whole plot."""
    positions = REPLACED / REPLACED[-1]
    return {name: measures.area_under(positions, curve) for name, curve in curves.items()}
