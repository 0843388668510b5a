"""Cuts out of a picture what a channel answers to, and darkens the rest of the crop."""

import cv2
import numpy as np

from realtime_lrp.system.geometry import Box
from realtime_lrp.video.region import resize

SIDE = 96  # rows and columns of a crop, unless the caller says otherwise

MOST_OF_PICTURE = 0.5
"""A receptive field with a larger part of the picture says too little: the crop follows the map."""

HELD = 0.8  # what part of the map's magnitude such a crop holds
LEAST_SIDE = 1 / 6  # its smallest side, as a part of the picture's shorter side
SMOOTHING = 1 / 24  # deviation by which the map is smoothed, as a part of the crop's side
CLEAR = 0.3  # from this part of its maximum on the smoothed map leaves the picture as it is
DARK = 0.5  # what is left of the brightness where the map has nothing


def crop(picture: np.ndarray, relevance: np.ndarray, side: int = SIDE) -> np.ndarray:
    """The part of a picture that a neuron looks at, the rest darkened: uint8 [side, side, 3].

    The picture is uint8 [h, w, 3] RGB, as the network sees it, `relevance` the neuron's map,
    float32 [h, w, C].
    """
    strength = np.nan_to_num(np.abs(relevance.sum(2)), posinf=0)
    x0, y0, x1, y1 = crop_box(strength)
    seen = np.ascontiguousarray(strength[y0:y1, x0:x1])
    smooth = cv2.GaussianBlur(seen, (0, 0), max(1.0, SMOOTHING * (y1 - y0)))
    clear = np.clip(smooth / max(CLEAR * float(smooth.max()), 1e-30), 0, 1)
    clear = resize(clear.astype(np.float32), (side, side))[..., None]
    shown = resize(np.ascontiguousarray(picture[y0:y1, x0:x1]), (side, side))
    return np.round(shown * (DARK + (1 - DARK) * np.clip(clear, 0, 1))).astype(np.uint8)


def crop_box(strength: np.ndarray) -> Box:
    """The square that is cut out: the receptive field, or where most of the map is.

    `strength`, float32 [h, w], 0 or above, is the magnitude of a neuron's map.
    """
    rows, columns = strength.shape
    inside = np.nonzero(strength.any(1))[0], np.nonzero(strength.any(0))[0]
    if not inside[0].size:
        return _square((rows / 2, columns / 2), min(rows, columns), strength.shape)
    (y0, y1), (x0, x1) = ((int(one[0]), int(one[-1]) + 1) for one in inside)
    side = max(y1 - y0, x1 - x0)
    if side * side <= MOST_OF_PICTURE * rows * columns:
        return _square(((y0 + y1) / 2, (x0 + x1) / 2), side, strength.shape)
    return _around_mass(strength)


def _around_mass(strength: np.ndarray) -> Box:
    """The smallest of some squares around the centre of mass that holds `HELD` of it."""
    rows, columns = strength.shape
    whole = float(strength.sum())
    centre = (
        float(strength.sum(1) @ (np.arange(rows) + 0.5)) / whole,
        float(strength.sum(0) @ (np.arange(columns) + 0.5)) / whole,
    )
    most = min(rows, columns)
    for side in np.linspace(LEAST_SIDE * most, most, 24).round().astype(int).tolist():
        x0, y0, x1, y1 = box = _square(centre, max(1, side), strength.shape)
        if float(strength[y0:y1, x0:x1].sum()) >= HELD * whole:
            break
    return box


def _square(centre: tuple[float, float], side: int, shape: tuple[int, ...]) -> Box:
    """A square inside the picture, its centre (y, x) as near as possible to the wanted one."""
    side = min(side, *shape)
    y0, x0 = (
        min(max(round(at - side / 2), 0), length - side)
        for at, length in zip(centre, shape, strict=True)
    )
    return x0, y0, x0 + side, y0 + side
