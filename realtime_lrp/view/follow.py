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
        where = _where(flow, picture.shape[:2], self._layer)
        colour = cv2.remap(self._layer.colour, *where, cv2.INTER_LINEAR, None, cv2.BORDER_REPLICATE)
        alpha = cv2.remap(self._layer.alpha, *where, cv2.INTER_LINEAR)
        return Layer(colour, alpha, self._layer.box)


def _where(flow: np.ndarray, size: tuple[int, int], layer: Layer) -> tuple[np.ndarray, np.ndarray]:
    """For each place of the layer (columns, rows) the one where its content was."""
    x0, y0, x1, y1 = layer.box
    steps = np.array([size[1] / flow.shape[1], size[0] / flow.shape[0]], np.float32)
    shape = layer.alpha.shape
    scale = np.array([(x1 - x0) / shape[1], (y1 - y0) / shape[0]], np.float32)
    x, y = (np.arange(count, dtype=np.float32) for count in shape[::-1])
    at_x = ((x + 0.5) * scale[0] + x0) / steps[0] - 0.5
    at_y = ((y + 0.5) * scale[1] + y0) / steps[1] - 0.5
    columns, rows = np.tile(x, (shape[0], 1)), np.tile(y[:, None], (1, shape[1]))
    moved = cv2.remap(
        flow, np.tile(at_x, (shape[0], 1)), np.tile(at_y[:, None], (1, shape[1])),
        cv2.INTER_LINEAR, None, cv2.BORDER_REPLICATE,
    ) * (steps / scale)  # fmt: skip
    return columns + moved[..., 0], rows + moved[..., 1]


def _small(picture: np.ndarray) -> np.ndarray:
    grey = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
    rows, columns = grey.shape
    size = (max(16, min(WIDTH, columns)), max(16, round(rows * min(WIDTH, columns) / columns)))
    return cv2.resize(grey, size, interpolation=cv2.INTER_AREA)
