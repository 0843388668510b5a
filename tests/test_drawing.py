"""Drawn pictures and the demo clip: repeatable, complete, with exact masks."""

import numpy as np
import pytest
from clip import render_clip
from drawing import draw_picture
from drawing.batch import draw_batch, draw_batches

from realtime_lrp.models.drawings import CLASSES, NOTHING

SYMBOLS = range(NOTHING)


def longest_side(mask: np.ndarray) -> int:
    """The longer side of the box around a mask, in pixels."""
    rows, columns = np.nonzero(mask)
    return max(np.ptp(rows), np.ptp(columns)) + 1


def test_the_same_seed_gives_the_same_pictures():
    """Pixels and masks; four of each class in 64."""
    first, second, other = (draw_batch((seed,), 4 * len(CLASSES)) for seed in (5, 5, 6))
    assert np.array_equal(first.pixels, second.pixels) and np.array_equal(first.mask, second.mask)
    assert not np.array_equal(first.pixels, other.pixels)
    assert np.array_equal(np.bincount(first.labels), np.full(len(CLASSES), 4))


@pytest.mark.parametrize("label", SYMBOLS)
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


def test_nothing_has_no_ink(rng):
    """Its masks are empty."""
    for _ in range(30):
        picture = draw_picture(rng, NOTHING)
        assert not picture.mask.any() and not picture.silhouette.any()


@pytest.mark.release
def test_workers_draw_what_is_drawn_without_them():
    """The child processes change nothing."""
    batches = list(draw_batches(3, batches=2, count=16))
    for k, batch in enumerate(batches):
        assert np.array_equal(batch.pixels, draw_batch((3, k), 16).pixels)


def test_the_clip_shows_several_symbols_and_moves():
    """Ten seconds at 3 frames a second; symbols are within the centred square."""
    seen, last, count = set(), None, 0
    for frame, silhouette, label in render_clip(fps=3, seconds=10):
        assert frame.shape == (480, 640, 3) and frame.dtype == np.uint8
        assert silhouette.shape == (480, 640) and silhouette.dtype == bool
        assert last is None or not np.array_equal(frame, last)
        if label != NOTHING:
            assert silhouette[:, 80:560].sum() == silhouette.sum() > 1000
        seen.add(label)
        last, count = frame, count + 1
    assert count == 30
    assert 3 <= len(seen - {NOTHING}) <= 5
