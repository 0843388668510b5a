"""Memory for pictures that is used again, because new memory of this size costs time.

The system hands it out page by page: 1.1 ms for a picture of 1920 x 1080 (AMD EPYC).
"""

import sys

import numpy as np

KEPT = 4  # how many arrays are kept
_OURS = 3  # references to an array that nobody else holds, seen from `Buffers.get`


class Buffers:
    """Gives arrays; one that nobody holds any more is given again."""

    def __init__(self) -> None:
        self._arrays: list[np.ndarray] = []

    def get(self, shape: tuple[int, ...]) -> np.ndarray:
        """An array, uint8, of any content. A reference to it or to a part of it keeps it safe."""
        for array in self._arrays:
            if array.shape == shape and sys.getrefcount(array) <= _OURS:
                return array
        array = np.empty(shape, np.uint8)
        self._arrays = [*self._arrays[-KEPT + 1 :], array]
        return array

    def copy(self, canvas: np.ndarray) -> np.ndarray:
        """A copy of an array, uint8."""
        copied = self.get(canvas.shape)
        np.copyto(copied, canvas)
        return copied
