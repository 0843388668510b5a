"""A layer carried along with what moves, from the picture it was made for to a later one."""

import cv2
import numpy as np

from realtime_lrp.view.overlay import Layer

WIDTH = 320
"""Columns of the small pictures between which motion is looked for."""


class Follower:
    """Moves a layer by the optical flow between two pictures.

    Dense inverse search (Kroeger et al. 2016, "Fast Optical Flow using Dense Inverse Search").

    Args:
      picture: uint8 [H, W, 3] RGB, the one that the layer explains.
      layer: made for it.
    """

    def __init__(self, picture: np.ndarray, layer: Layer):
        self._layer = layer
        self._then = _small(picture)
        self._flow = cv2.DISOpticalFlow_create(cv2.DISOPTICAL_FLOW_PRESET_ULTRAFAST)

    def __call__(self, picture: np.ndarray) -> Layer:
        """The layer where its content lies in a later picture of the same size."""
        now = _small(picture)
        flow = self._flow.calc(now, self._then, None)  # for each place now, where it was
        x0, y0, x1, y1 = self._layer.box
        per_row, per_column = picture.shape[0] / now.shape[0], picture.shape[1] / now.shape[1]
        rows, columns = np.mgrid[0 : y1 - y0, 0 : x1 - x0].astype(np.float32)
        at = (columns + x0 + 0.5) / per_column - 0.5, (rows + y0 + 0.5) / per_row - 0.5
        moved = cv2.remap(flow, *map(np.float32, at), cv2.INTER_LINEAR, None, cv2.BORDER_REPLICATE)
        where = columns + moved[..., 0] * per_column, rows + moved[..., 1] * per_row
        colour = cv2.remap(
            self._layer.colour, *map(np.float32, where), cv2.INTER_LINEAR, None,
            cv2.BORDER_REPLICATE,
        )  # fmt: skip
        alpha = cv2.remap(self._layer.alpha, *map(np.float32, where), cv2.INTER_LINEAR)
        return Layer(colour, alpha, self._layer.box)


def _small(picture: np.ndarray) -> np.ndarray:
    grey = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
    rows, columns = grey.shape
    size = (min(WIDTH, columns), max(16, round(rows * min(WIDTH, columns) / columns)))
    return cv2.resize(grey, size, interpolation=cv2.INTER_AREA)
