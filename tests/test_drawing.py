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


def test_there_are_at_least_twelve_symbols_and_nothing():
    """The names are distinct; "nothing" is the last one."""
    assert len(CLASSES) >= 13
    assert len(set(CLASSES)) == len(CLASSES)
    assert CLASSES[NOTHING] == "nothing"


@pytest.mark.parametrize("label", range(len(CLASSES)))
def test_the_same_seed_gives_the_same_picture(label):
    """Pixels and mask, for every class."""
    first, second = (draw_picture(np.random.default_rng(label), label) for _ in range(2))
    assert np.array_equal(first.pixels, second.pixels)
    assert np.array_equal(first.mask, second.mask)


def test_seeds_give_different_pictures():
    """The seed decides."""
    first, second = (draw_picture(np.random.default_rng(seed), 0) for seed in (1, 2))
    assert not np.array_equal(first.pixels, second.pixels)


@pytest.mark.parametrize("label", SYMBOLS)
def test_every_symbol_is_wholly_in_view_and_neither_tiny_nor_huge(label):
    """20 pictures of each symbol: size, types, no ink at the border."""
    rng = np.random.default_rng(40 + label)
    for _ in range(20):
        picture = draw_picture(rng, label)
        assert picture.label == label
        assert picture.pixels.shape == (128, 128, 3) and picture.pixels.dtype == np.uint8
        assert picture.mask.dtype == picture.silhouette.dtype == bool
        assert 0.15 <= longest_side(picture.silhouette) / 128 <= 0.8
        border = picture.silhouette.copy()
        border[1:-1, 1:-1] = False
        assert not border.any()


@pytest.mark.parametrize("label", SYMBOLS)
def test_the_ink_lies_within_the_silhouette(label):
    """For every symbol."""
    picture = draw_picture(np.random.default_rng(label), label)
    assert picture.mask.sum() > 30
    assert not (picture.mask & ~picture.silhouette).any()


def test_nothing_has_no_ink(rng):
    """Its masks are empty."""
    for _ in range(30):
        picture = draw_picture(rng, NOTHING)
        assert not picture.mask.any() and not picture.silhouette.any()


def test_the_ink_differs_from_what_surrounds_it(rng):
    """There is contrast within the box of every symbol."""
    for label in SYMBOLS:
        picture = draw_picture(rng, label)
        grey = picture.pixels.mean(axis=-1)
        rows, columns = np.nonzero(picture.silhouette)
        window = np.s_[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
        assert grey[window].std() > 2


def test_other_sizes_can_be_drawn(rng):
    """224 x 224 pixels."""
    picture = draw_picture(rng, 0, size=224)
    assert picture.pixels.shape == (224, 224, 3)
    assert picture.mask.any()


def test_a_batch_holds_every_class_equally_often():
    """Four of each in 64 pictures."""
    batch = draw_batch((5,), 4 * len(CLASSES))
    assert np.array_equal(np.bincount(batch.labels), np.full(len(CLASSES), 4))
    assert batch.pixels.shape == (64, 128, 128, 3)


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


def test_the_clip_is_the_same_each_time():
    """Its seed is fixed."""
    first, second = (next(iter(render_clip())) for _ in range(2))
    assert np.array_equal(first[0], second[0])
