"""Drawn pictures and the demo clip: repeatable, complete, with exact masks."""

import numpy as np
import pytest
from drawing import draw_picture

from realtime_lrp.models.drawings import NOTHING


def longest_side(mask: np.ndarray) -> int:
    """The longer side of the box around a mask, in pixels."""
    rows, columns = np.nonzero(mask)
    return max(np.ptp(rows), np.ptp(columns)) + 1


@pytest.mark.parametrize("label", range(NOTHING))
def test_every_symbol_is_wholly_in_view_and_neither_tiny_nor_huge(label):
    """Size, types, no ink at the border, all of it inside the outline; 8 of each symbol."""
    rng = np.random.default_rng(40 + label)
    for _ in range(8):
        picture = draw_picture(rng, label)
        assert picture.label == label
        assert picture.pixels.shape == (128, 128, 3) and picture.pixels.dtype == np.uint8
        assert picture.mask.dtype == picture.silhouette.dtype == bool
        assert 0.15 <= longest_side(picture.silhouette) / 128 <= 0.8
        border = picture.silhouette.copy()
        border[1:-1, 1:-1] = False
        assert not border.any()
        assert picture.mask.sum() > 30 and not (picture.mask & ~picture.silhouette).any()
