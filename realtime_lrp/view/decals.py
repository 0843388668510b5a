"""Text and boxes that are drawn once, kept, and laid over picture after picture.

Whatever is drawn over a pixel p, opaque or not, turns it into m * p + c. Drawn once on black and
once on white it tells both, so that the same can be laid over any picture without drawing it.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import cv2
import numpy as np

from realtime_lrp.system.geometry import Box

KEPT = 16
"""How many decals are kept, those used last."""

WHITE = 255


@dataclass(frozen=True, eq=False)
class Decal:
    """What a drawing does to the pixels in a box of a canvas.

    Attributes:
      box: the smallest box around all pixels that it changes.
      factor: m of each value, uint8 [h, w, 3], 255 for 1.
      added: c of each value, uint8 [h, w, 3].
    """

    box: Box
    factor: np.ndarray
    added: np.ndarray

    def lay_over(self, canvas: np.ndarray) -> None:
        """Draws it on a canvas, uint8 [H, W, 3], in place; within 3 of what drawing gives."""
        x0, y0, x1, y1 = self.box
        part = canvas[y0:y1, x0:x1]
        cv2.multiply(part, self.factor, dst=part, scale=1 / WHITE)
        cv2.add(part, self.added, dst=part)


class Decals:
    """Draws what was drawn before without drawing it again."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, Decal | None] = OrderedDict()

    def draw(self, canvas: np.ndarray, function: Callable[..., None], *arguments: Hashable) -> None:
        """Calls a function that draws on a canvas, uint8 [H, W, 3] RGB, in place.

        Args:
          canvas: its first argument.
          function: draws the same for equal arguments, whatever is on the canvas.
          arguments: the further ones.
        """
        key = canvas.shape, function, arguments
        if key not in self._kept:
            self._kept[key] = _decal_of(canvas.shape, function, arguments)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        if decal := self._kept[key]:
            decal.lay_over(canvas)


def _decal_of(
    shape: tuple[int, ...], function: Callable[..., None], arguments: tuple[Hashable, ...]
) -> Decal | None:
    """What a drawing does; None where it changes nothing."""
    black, white = np.zeros(shape, np.uint8), np.full(shape, WHITE, np.uint8)
    for canvas in (black, white):
        function(canvas, *arguments)
    factor = cv2.subtract(white, black)
    unchanged = cv2.inRange(factor, (WHITE,) * 3, (WHITE,) * 3)
    x, y, width, height = cv2.boundingRect(cv2.bitwise_not(unchanged))
    if not width:
        return None
    part = np.s_[y : y + height, x : x + width]
    return Decal((x, y, x + width, y + height), factor[part].copy(), black[part].copy())
