"""Drawn pictures of symbols, for the embedded networks: pixels, where the ink is, which symbol.

`assets/drawings.npz` holds them: each symbol equally often, drawn by assets/make with a seed that
the training does not use, as WebP; the masks are exact.
"""

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from realtime_lrp.config import ASSETS
from realtime_lrp.errors import UsageError

CLASSES = (
    "circle", "square", "triangle", "star", "heart", "arrow", "cross", "moon", "house", "smiley",
    "lightning", "flower", "tree", "fish", "cup", "nothing",
)  # fmt: skip
"""What the embedded networks tell apart, in the order of their outputs."""

NOTHING = len(CLASSES) - 1
"""The class of a picture without a symbol."""

MARGIN = 2
"""Pixels around the ink or the silhouette in which relevance still counts as on it."""

FILE = ASSETS / "drawings.npz"


@dataclass(frozen=True)
class Drawings:
    """Pictures of symbols.

    Attributes:
      pixels: uint8 [N, 128, 128, 3] RGB.
      masks: bool [N, 128, 128], the ink of the symbol.
      labels: int [N], index into `CLASSES`.
    """

    pixels: np.ndarray
    masks: np.ndarray
    labels: np.ndarray


def drawings(count: int | None = None, seed: int | None = None) -> Drawings:
    """Some of the drawn pictures; the numbers of any two symbols differ by one at most.

    Args:
      count: how many; None for all.
      seed: chooses which, and their order; None for the first ones.

    Raises:
      UsageError: there are not so many.
    """
    with np.load(FILE, allow_pickle=False) as arrays:
        encoded, sizes = arrays["pictures"], arrays["sizes"]
        masks = np.unpackbits(arrays["masks"], axis=-1).astype(bool)
    total = len(sizes)
    if count and count > total:
        raise UsageError(f"There are {total} drawn pictures. Expected --count {total} or less.")
    number = np.arange(total)  # the symbols take turns
    if seed is not None:
        rng, symbols = np.random.default_rng(seed), NOTHING
        turns = rng.permuted(number.reshape(-1, symbols), axis=0)
        number = rng.permuted(turns, axis=1).reshape(-1)
    chosen, ends = number[:count], np.cumsum(sizes)
    pixels = [
        cv2.imdecode(encoded[ends[one] - sizes[one] : ends[one]], cv2.IMREAD_COLOR_RGB)
        for one in chosen
    ]
    return Drawings(np.array(pixels), masks[chosen], chosen % NOTHING)


def save_drawings(file: Path, pixels: np.ndarray, masks: np.ndarray, quality: int) -> None:
    """Writes such a file; picture n shows symbol n modulo their number.

    Args:
      file: its path.
      pixels: uint8 [N, 128, 128, 3] RGB.
      masks: bool [N, 128, 128].
      quality: of the WebP, 1 to 100.
    """
    coded = [
        cv2.imencode(".webp", one[..., ::-1], [cv2.IMWRITE_WEBP_QUALITY, quality])[1]
        for one in pixels
    ]
    sizes = np.array([*map(len, coded)], np.int32)
    bits = np.packbits(masks, axis=-1)
    np.savez_compressed(file, pictures=np.concatenate(coded), sizes=sizes, masks=bits)


def with_margin(mask: np.ndarray) -> np.ndarray:
    """The mask, bool [H, W], made wider by `MARGIN` pixels."""
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * MARGIN + 1, 2 * MARGIN + 1))
    return cv2.dilate(mask.astype(np.uint8), disc) > 0
