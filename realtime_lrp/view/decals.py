"""Text and boxes that are drawn once, kept, and laid over picture after picture.

Whatever is drawn over a pixel p, opaque or not, turns it into m * p + c. Drawn once on black and
once on white it tells both, so that the same can be laid over any picture without drawing it.
`Buffers` gives memory for pictures again.
"""

import math
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import cv2
import numpy as np

from realtime_lrp.system.geometry import Box

MAX_DECALS = 16  # kept: those drawn last
MAX_FREE = 4  # pieces of memory kept for further arrays

WHITE = 255


class Buffers:
    """Gives arrays; one that nobody holds any more is given again.

    The system hands out new memory page by page: 1.1 ms for a picture of 1920 x 1080 (AMD EPYC).
    """

    def __init__(self) -> None:
        self._free: deque[bytearray] = deque(maxlen=MAX_FREE)  # arrays may end in other threads

    def get(self, shape: tuple[int, ...]) -> np.ndarray:
        """An array, uint8, of any content. A reference to it or to a part of it keeps it safe."""
        memory = self._piece(math.prod(shape))
        flat = np.frombuffer(memory, np.uint8)  # every view of it holds it
        weakref.finalize(flat, self._free.append, memory).atexit = False
        return flat.reshape(shape)

    def _piece(self, size: int) -> bytearray:
        for _ in range(len(self._free)):
            memory = self._free.pop()
            if len(memory) == size:
                return memory
            self._free.appendleft(memory)
        return bytearray(size)

    def copy(self, canvas: np.ndarray) -> np.ndarray:
        copied = self.get(canvas.shape)
        np.copyto(copied, canvas)
        return copied


@dataclass(frozen=True, eq=False)
class Decal:
    """A drawing's effect on the pixels in a box of a canvas."""

    box: Box  # the smallest box around all pixels that it changes
    factor: np.ndarray  # m of each value, uint8 [h, w, 3], 255 for 1
    added: np.ndarray  # c of each value, uint8 [h, w, 3]

    def lay_over(self, canvas: np.ndarray) -> None:
        """Draws it on a canvas, uint8 [H, W, 3], in place; within 3 of what drawing gives."""
        x0, y0, x1, y1 = self.box
        part = canvas[y0:y1, x0:x1]
        if part.size == 0:
            return
        cv2.multiply(part, self.factor, dst=part, scale=1 / WHITE)
        cv2.add(part, self.added, dst=part)


class Decals:
    """Draws what was drawn before without drawing it again."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, Decal] = OrderedDict()
        self._buffers = Buffers()

    def draw(self, canvas: np.ndarray, function: Callable[..., None], *arguments: Hashable) -> None:
        """Draws in place; the function draws the same for equal arguments, on any canvas."""
        key = canvas.shape, function, arguments
        if key not in self._kept:
            self._kept[key] = self._decal_of(canvas.shape, function, arguments)
            if len(self._kept) > MAX_DECALS:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        self._kept[key].lay_over(canvas)

    def _decal_of(
        self, shape: tuple[int, ...], function: Callable[..., None], arguments: tuple[Hashable, ...]
    ) -> Decal:
        """A drawing's effect; its box is empty where it changes nothing."""
        black = self._buffers.get(shape)
        white = self._buffers.get(shape)
        for canvas, value in ((black, 0), (white, WHITE)):
            canvas.fill(value)
            function(canvas, *arguments)
        x0, y0, x1, y1 = box = _changed_box(black, white)
        part = np.s_[y0:y1, x0:x1]
        factor = np.maximum(white[part], black[part]) - black[part]
        return Decal(box, factor, black[part].copy())


def _changed_box(black: np.ndarray, white: np.ndarray) -> Box:
    """The smallest box around what is not black, or not white, any more."""
    rows = np.flatnonzero((_flat(black).max(axis=1) > 0) | (_flat(white).min(axis=1) < WHITE))
    if not rows.size:
        return 0, 0, 0, 0
    y0, y1 = int(rows[0]), int(rows[-1]) + 1
    drawn = (black[y0:y1].max(axis=0) > 0) | (white[y0:y1].min(axis=0) < WHITE)
    columns = np.flatnonzero(drawn.any(axis=1))
    return int(columns[0]), y0, int(columns[-1]) + 1, y1


def _flat(canvas: np.ndarray) -> np.ndarray:
    return canvas.reshape(len(canvas), -1)
