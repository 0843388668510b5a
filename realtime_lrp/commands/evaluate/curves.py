"""Deletion and insertion: how the probability of a class changes as patches are replaced."""

import hashlib
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

BATCH = 32

Curve = np.ndarray
"""float64 [points, N], the probability of each picture's class at each entry of `REPLACED`."""

_Key = tuple[int, bytes]
"""A picture by its number, and the hash of where it is blurred."""


class CurveMeter:
    """Measures curves of the same pictures, uint8 [N, h, w, 3], for any order of patches.

    `scores` takes up to `BATCH` pictures; `classes`, int [N], are those whose probability counts. A
    picture whose same patches are blurred again, for another map or on the other curve, is not
    computed again.
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
        self._known: dict[_Key, float] = {}

    def measure(self, ranks: np.ndarray, samples: np.ndarray) -> dict[str, Curve]:
        """The curves "deletion" and "insertion" of the pictures with these numbers.

        `ranks` are int [n, h, w], see `measures.patch_ranks`.
        """
        return {
            "deletion": self._curve(lambda index, count: ranks[index] < count, samples),
            "insertion": self._curve(lambda index, count: ranks[index] >= count, samples),
        }

    def _curve(self, blurred: Callable[[int, int], np.ndarray], samples: np.ndarray) -> Curve:
        """One curve of each sample; `blurred` gives where: bool [h, w] for an index and a count."""
        keys: list[_Key] = []
        waiting: dict[_Key, np.ndarray] = {}
        for count in REPLACED:
            for index, sample in enumerate(samples):
                mask = blurred(index, count)
                keys.append((int(sample), hashlib.sha256(np.packbits(mask).tobytes()).digest()))
                if keys[-1] not in self._known:
                    waiting[keys[-1]] = mask
                if len(waiting) == BATCH:
                    self._compute(waiting)
        self._compute(waiting)
        return np.array([self._known[key] for key in keys]).reshape(len(REPLACED), len(samples))

    def _compute(self, masks: dict[_Key, np.ndarray]) -> None:
        """Computes the probabilities of pictures that are blurred in places; empties `masks`."""
        if not masks:
            return
        samples = np.array([sample for sample, _ in masks])
        where = np.stack([*masks.values()])[..., None]
        scores = self._scores(np.where(where, self._blurred[samples], self._pictures[samples]))
        probabilities = scores[np.arange(len(samples)), self._classes[samples]]
        self._known.update(zip(masks, map(float, probabilities), strict=True))
        masks.clear()


def areas(curves: Mapping[str, Curve]) -> dict[str, np.ndarray]:
    """The area under each curve of each picture, as a share of the whole plot."""
    return {name: AREA_WEIGHTS @ curve for name, curve in curves.items()}
