"""Deletion and insertion: how the probability of a class changes as patches are replaced."""

from collections.abc import Callable, Mapping

import numpy as np

from realtime_lrp.relevance.maps import measures
from realtime_lrp.video.libraries import cv2

GRID = 16  # patches per row and per column
STEPS = 10  # of a curve; docs/evaluation.md says how exact the areas are

REPLACED = np.rint(GRID**2 * (np.arange(STEPS + 1) / STEPS) ** 2).astype(int)
"""How many patches are replaced at each point of a curve; dense at the start."""

AREA_WEIGHTS = measures.area_weights(REPLACED / REPLACED[-1])
"""What each point of a curve contributes to the area; the same for every row and picture."""

BLUR_SHARE = 1 / 16
"""Deviation of the blur that replaces a patch, as a share of the picture's shorter side."""

BATCH = 16  # samples that are measured together, each for two classes

Curve = np.ndarray
"""float64 [points, N], the probability of each picture's class at each entry of `REPLACED`."""


class CurveMeter:
    """Measures curves of the same pictures, uint8 [N, h, w, 3], for any order of patches.

    `scores` takes up to `BATCH` pictures, as `measure` does; `classes`, int [N], are those whose
    probability counts. The ends of a curve are the same for every order, and computed once.
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
        parts = np.split(np.arange(len(pictures)), range(BATCH, len(pictures), BATCH))
        self._whole, self._all_blurred = (
            np.concatenate([self._probabilities(np.bool_(blurred), part) for part in parts])
            for blurred in (False, True)
        )

    def measure(self, ranks: np.ndarray, samples: np.ndarray) -> dict[str, Curve]:
        """The curves "deletion" and "insertion" of the pictures with these numbers.

        `ranks` are int [n, h, w], see `measures.patch_ranks`.
        """
        taken = ranks < REPLACED[:, None, None, None]
        return {"deletion": self._curve(taken, samples), "insertion": self._curve(~taken, samples)}

    def _curve(self, blurred: np.ndarray, samples: np.ndarray) -> Curve:
        """One curve of each sample; `blurred`, bool [points, n, h, w], says where."""
        ends = self._whole[samples], self._all_blurred[samples]
        first, last = ends[:: -1 if blurred[0].any() else 1]
        between = [self._probabilities(where[..., None], samples) for where in blurred[1:-1]]
        return np.stack([first, *between, last], dtype=np.float64)

    def _probabilities(self, blurred: np.ndarray | np.bool, samples: np.ndarray) -> np.ndarray:
        """The probabilities of some samples that are blurred in places."""
        pictures = np.where(blurred, self._blurred[samples], self._pictures[samples])
        return self._scores(pictures)[np.arange(len(samples)), self._classes[samples]]


def areas(curves: Mapping[str, Curve]) -> dict[str, np.ndarray]:
    """The area under each curve of each picture, as a share of the whole plot."""
    return {name: AREA_WEIGHTS @ curve for name, curve in curves.items()}
