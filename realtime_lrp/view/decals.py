"""Text and boxes that are drawn once, kept, and laid over picture after picture; their memory.

Whatever is drawn over a pixel p, opaque or not, turns it into m * p + c. Drawn once on black and
once on white it tells both.
"""

import math
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable

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
        size = math.prod(shape)
        for _ in range(len(self._free)):
            memory = self._free.pop()
            if len(memory) == size:
                break
            self._free.appendleft(memory)
        else:
            memory = bytearray(size)
        flat = np.frombuffer(memory, np.uint8)  # every view of it holds it
        weakref.finalize(flat, self._free.append, memory).atexit = False
        return flat.reshape(shape)

    def copy(self, canvas: np.ndarray) -> np.ndarray:
        copied = self.get(canvas.shape)
        np.copyto(copied, canvas)
        return copied


class Decals:
    """Draws what was drawn before without drawing it again."""

    def __init__(self) -> None:
        # the box of what a drawing changes, and there m (255 for 1) and c, uint8 [h, w, 3]
        self._kept: OrderedDict[Hashable, tuple[Box, np.ndarray, np.ndarray]] = OrderedDict()
        self._buffers = Buffers()

    def draw(self, canvas: np.ndarray, function: Callable[..., None], *arguments: Hashable) -> None:
        """Draws what the function draws for these arguments, within 3, on a canvas in place."""
        key = canvas.shape, function, arguments
        if key not in self._kept:
            self._kept[key] = self._effect_of(*key)
            if len(self._kept) > MAX_DECALS:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        (x0, y0, x1, y1), factor, added = self._kept[key]
        part = canvas[y0:y1, x0:x1]
        if part.size:
            cv2.multiply(part, factor, dst=part, scale=1 / WHITE)
            cv2.add(part, added, dst=part)

    def _effect_of(
        self, shape: tuple[int, ...], function: Callable[..., None], arguments: tuple[Hashable, ...]
    ) -> tuple[Box, np.ndarray, np.ndarray]:
        """A drawing's effect; its box is empty where it changes nothing."""
        black = self._buffers.get(shape)
        white = self._buffers.get(shape)
        for canvas, value in ((black, 0), (white, WHITE)):
            canvas.fill(value)
            function(canvas, *arguments)
        # of each row all values side by side, three for a pixel
        changed = cv2.max(black, cv2.bitwise_not(white)).reshape(len(black), -1)
        x0, y0, width, height = cv2.boundingRect(changed)
        box = x0 // 3, y0, -(-(x0 + width) // 3), y0 + height
        part = np.s_[box[1] : box[3], box[0] : box[2]]
        factor = np.maximum(white[part], black[part]) - black[part]
        return box, factor, black[part].copy()
