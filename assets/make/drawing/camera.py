"""Applies light and the faults of a cheap camera. Pictures are uint8 [h, w, 3] RGB."""

from functools import cache

import cv2
import numpy as np

from drawing.room import cloud
from drawing.strokes import SHIFT, fixed
from drawing.symbols import Rng


def light_up(rng: Rng, picture: np.ndarray) -> np.ndarray:
    """Adds uneven light, vignetting, cast shadows, exposure, white balance and contrast.

    Returns:
        float32 [h, w, 3], not yet clipped to 0 to 255.
    """
    height, width = picture.shape[:2]
    light = _uneven(rng, height, width)
    gain = rng.lognormal(0, 0.22)
    balance = rng.normal(1, 0.09, 3) * gain
    contrast = rng.uniform(0.55, 1.15)
    shift = 128 * (1 - contrast) * rng.uniform(0.3, 1.3)
    scale = (balance * contrast).astype(np.float32)
    shown = picture * (light[..., None] * scale)
    return np.add(shown, np.float32(shift), out=shown)


def _uneven(rng: Rng, height: int, width: int) -> np.ndarray:
    strength = rng.uniform(0, 0.4)
    light = cloud(rng, height, width, int(rng.integers(2, 5)), 1 - strength, 1 + strength)
    if rng.random() < 0.3:
        light *= _vignette(height, width, rng.uniform(0.1, 0.5))
    if rng.random() < 0.3:
        light *= _shadow(rng, height, width)
    return light


def _vignette(height: int, width: int, strength: float) -> np.ndarray:
    y = np.linspace(-1, 1, height, dtype=np.float32)[:, None]
    x = np.linspace(-1, 1, width, dtype=np.float32)
    return 1 - strength / 2 * (x * x + y * y)


def _shadow(rng: Rng, height: int, width: int) -> np.ndarray:
    shade = np.full((height, width), 255, np.uint8)
    corners = rng.uniform(-0.3, 1.3, (4, 2)) * (width, height)
    cv2.fillConvexPoly(shade, cv2.convexHull(fixed(corners)), 0, cv2.LINE_AA, SHIFT)
    soft = cv2.GaussianBlur(shade, (0, 0), rng.uniform(0.005, 0.06) * width)
    dark = rng.uniform(0.45, 0.9)
    return dark + (1 - dark) / 255 * soft.astype(np.float32)


def photograph(rng: Rng, picture: np.ndarray) -> np.ndarray:
    """Passes a picture through a lens, a sensor and a codec.

    Args:
        rng: the random generator.
        picture: float32 [h, w, 3], about 0 to 255.

    Returns:
        uint8 [h, w, 3].
    """
    seen = _blurred(rng, picture)
    seen += _grain(rng, seen.shape) * np.float32(rng.uniform(0.5, 9) * rng.random())
    if rng.random() < 0.2:
        seen = 255 * (np.clip(seen, 0, 255) / 255) ** np.float32(rng.lognormal(0, 0.3))
    digital = np.clip(seen, 0, 255).astype(np.uint8)
    return _compressed(digital, int(rng.integers(35, 96))) if rng.random() < 0.45 else digital


@cache
def _noise() -> np.ndarray:
    """White noise, made once and cropped for each picture: making it is the slowest step."""
    return np.random.default_rng(0).standard_normal((512, 512, 3), np.float32)


def _grain(rng: Rng, shape: tuple[int, ...]) -> np.ndarray:
    height, width = shape[:2]
    if max(height, width) > 256:
        return rng.standard_normal((height, width, 3), np.float32)
    y, x = rng.integers(0, 256, 2)
    noise = _noise()[y : y + height, x : x + width]
    return noise if rng.random() < 0.6 else noise[..., :1]


def _blurred(rng: Rng, picture: np.ndarray) -> np.ndarray:
    kind = rng.random()
    unit = len(picture) / 128
    if kind < 0.45:
        return cv2.GaussianBlur(picture, (0, 0), rng.uniform(0.3, 1.1) * unit)
    if kind < 0.6:
        return cv2.filter2D(picture, -1, _motion(rng, unit))
    return picture


def _motion(rng: Rng, unit: float) -> np.ndarray:
    side = 2 * int(3 * unit) + 1
    kernel = np.zeros((side, side), np.float32)
    reach = rng.uniform(0.6, 2.2) * unit
    angle = rng.uniform(0, np.pi)
    step = reach * np.array([np.cos(angle), np.sin(angle)])
    ends = fixed(np.stack([side // 2 - step, side // 2 + step]))
    cv2.polylines(kernel, [ends], False, 1, 1, cv2.LINE_8, SHIFT)
    return kernel / kernel.sum()


def _compressed(picture: np.ndarray, quality: int) -> np.ndarray:
    _, code = cv2.imencode(".jpg", picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    return np.asarray(cv2.imdecode(code, cv2.IMREAD_COLOR_RGB))
