"""Drawn pictures of symbols, for the embedded networks: pixels, where the ink is, which symbol.

`assets/drawings.npz` holds them: each symbol equally often, drawn by assets/make with a seed that
the training does not use, as WebP; the masks are exact.
"""

from dataclasses import dataclass

import cv2
import numpy as np

from realtime_lrp.config import ASSETS
from realtime_lrp.config.names import NAMING
from realtime_lrp.errors import UsageError

CLASSES = (
    "circle", "square", "triangle", "star", "heart", "arrow", "cross", "moon", "house", "smiley",
    "lightning", "flower", "tree", "fish", "cup", "nothing",
)  # fmt: skip
"""The classes of the embedded networks, in the order of their outputs."""

NOTHING = len(CLASSES) - 1  # The class of a picture without a symbol
MARGIN = 2  # Pixels around the ink or the silhouette in which relevance still counts as on it

FILE = ASSETS / "drawings.npz"


@dataclass(frozen=True)
class Drawings:
    """Pictures, uint8 [N, 128, 128, 3] RGB, with masks of the ink and indices into `CLASSES`."""

    pixels: np.ndarray
    masks: np.ndarray
    labels: np.ndarray


def drawings(count: int | None = None, seed: int | None = None) -> Drawings:
    """Drawn pictures, symbols equally often: a seed chooses which; None takes the first."""
    with np.load(FILE, allow_pickle=False) as arrays:
        encoded = arrays["pictures"]
        sizes = arrays["sizes"]
        masks = np.unpackbits(arrays["masks"], axis=-1).astype(bool)
    total = len(sizes)
    if count and count > total:
        raise UsageError(f"There are {total} drawn pictures. Expected --count {total} or less.")
    number = np.arange(total)  # the symbols take turns
    if seed is not None:
        rng = np.random.default_rng(seed)
        symbols = NOTHING
        turns = rng.permuted(number.reshape(-1, symbols), axis=0)
        number = rng.permuted(turns, axis=1).reshape(-1)
    chosen = number[:count]
    ends = np.cumsum(sizes)
    pixels = [
        cv2.imdecode(encoded[ends[one] - sizes[one] : ends[one]], cv2.IMREAD_COLOR_RGB)
        for one in chosen
    ]
    return Drawings(np.array(pixels), masks[chosen], chosen % NOTHING)


def check_known(network: str, instead: str) -> None:
    """Refuses a network that does not know the symbols; `instead` says what to give."""
    if network.lower() not in NAMING:
        raise UsageError(
            f"The drawn pictures suit only the networks {' and '.join(NAMING)}, not {network!r}. "
            f"Give {instead}.",
            "model",
        )


def with_margin(mask: np.ndarray) -> np.ndarray:
    """The mask, bool [H, W], made wider by `MARGIN` pixels."""
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * MARGIN + 1, 2 * MARGIN + 1))
    return cv2.dilate(mask.astype(np.uint8), disc) > 0
