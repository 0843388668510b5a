"""Measures of maps against tiny cases worked out by hand, naive loops, and what must hold."""

import numpy as np
import pytest

from realtime_lrp.relevance.maps import measures

MAP = np.array([[[4.0, 1.0], [3.0, 2.0]]])
LEFT = np.array([[[True, False], [True, False]]])


@pytest.fixture
def masks(rng):
    """Ten objects on pictures of 12 x 15."""
    return rng.random((10, 12, 15)) < np.linspace(0.05, 0.9, 10)[:, None, None]


def test_what_counts_of_relevance():
    """Summed over the channels first; then the positive part or the magnitude."""
    relevance = np.array([[[[1.0, 2.0, -1.0], [-3.0, 1.0, 0.0]]]])
    for name in ("lrp", "zplus", "input_x_gradient", "grad_cam", "integrated_gradients"):
        np.testing.assert_array_equal(measures.supporting_relevance(relevance, name), [[[2, 0]]])
    for name in ("gradient", "guided_backprop", "deconvnet", "smoothgrad"):
        np.testing.assert_array_equal(measures.supporting_relevance(relevance, name), [[[2, 2]]])


@pytest.mark.parametrize(
    ("measure", "on_the_left", "on_the_right"),
    [
        (measures.pointing_game, 1, 0),
        (measures.mass_accuracy, 7 / 10, 3 / 10),
        (measures.rank_accuracy, 1, 0),
    ],
)
def test_by_hand(measure, on_the_left, on_the_right):
    """4 and 3 on the left, 1 and 2 on the right."""
    np.testing.assert_allclose(measure(MAP, LEFT), on_the_left)
    np.testing.assert_allclose(measure(MAP, ~LEFT), on_the_right)


def test_rank_accuracy_by_hand_with_ties():
    """K = 3: the 5 is in, and two of the three 2s; two of those three are on the object."""
    entries = np.array([[[5.0, 2.0, 2.0, 2.0, 1.0]]])
    mask = np.array([[[True, True, True, False, False]]])
    np.testing.assert_allclose(measures.rank_accuracy(entries, mask), (1 + 2 * 2 / 3) / 3)


LOCATION = [measures.pointing_game, measures.mass_accuracy, measures.rank_accuracy]


@pytest.mark.parametrize("measure", LOCATION)
@pytest.mark.parametrize("value", [0.0, 7.0])
def test_a_map_that_is_the_same_everywhere_scores_the_share_of_the_area(measure, value, masks):
    """With and without relevance."""
    np.testing.assert_allclose(
        measure(np.full(masks.shape, value, np.float32), masks), masks.mean(axis=(1, 2))
    )


def test_against_naive_loops(masks, rng):
    """Pixel by pixel, as the papers say it, on maps without ties."""
    maps = rng.permuted(np.arange(masks.size, dtype=float)).reshape(masks.shape)
    hits, masses, ranks = [], [], []
    for entries, mask in zip(maps, masks, strict=True):
        pixels = sorted(
            ((e, on) for e, on in zip(entries.flat, mask.flat, strict=True)), reverse=True
        )
        size = sum(on for _, on in pixels)
        hits.append(float(pixels[0][1]))
        masses.append(sum(e for e, on in pixels if on) / sum(e for e, _ in pixels))
        ranks.append(sum(on for _, on in pixels[:size]) / size)
    np.testing.assert_allclose(measures.pointing_game(maps, masks), hits)
    np.testing.assert_allclose(measures.mass_accuracy(maps, masks), masses)
    np.testing.assert_allclose(measures.rank_accuracy(maps, masks), ranks)


def test_an_empty_mask_has_no_rank_accuracy():
    """K would be 0."""
    assert np.isnan(measures.rank_accuracy(MAP, np.zeros_like(LEFT))).all()


def test_spearman_against_a_naive_ranking(rng):
    """Ranks by counting the smaller and the equal entries, then Pearson; half of it ties."""
    maps, others = np.maximum(rng.normal(size=(2, 4, 7, 9)).round(1), 0)

    def ranks(entries):
        return [
            sum(e < x for e in entries) + (sum(e == x for e in entries) + 1) / 2 for x in entries
        ]

    naive = [
        np.corrcoef(ranks(list(a.flat)), ranks(list(b.flat)))[0, 1]
        for a, b in zip(maps, others, strict=True)
    ]
    np.testing.assert_allclose(measures.spearman(maps, others), naive)


def test_a_map_that_is_the_same_everywhere_is_like_no_other(rng):
    """NaN, which means leave out: all ranks are equal."""
    maps = rng.random((1, 5, 5))
    assert np.isnan(measures.spearman(maps, np.zeros((1, 5, 5)))).all()
    assert measures.spearman(maps[:0], maps[:0]).shape == (0,)


def test_the_most_relevant_patch_comes_first(rng):
    """Four patches of 2 x 2 with means 1, 4, 2 and 3; single entries do not matter."""
    maps = np.zeros((1, 4, 4))
    maps[0, :2, :2] = [[0, 0], [0, 4]]
    maps[0, :2, 2:] = 4
    maps[0, 2:, :2] = 2
    maps[0, 2:, 2:] = [[0, 0], [0, 12]]
    expected = np.kron([[3, 0], [2, 1]], np.ones((2, 2)))
    np.testing.assert_array_equal(measures.patch_ranks(maps, 2, rng)[0], expected)


@pytest.mark.parametrize("size", [(32, 32), (27, 35)])
def test_every_patch_has_its_own_turn(size, rng):
    """Even if the sides are not divisible; patches are contiguous and almost equal in size."""
    turns = measures.patch_ranks(rng.random((2, *size)), 8, rng)
    assert turns.shape == (2, *size)
    for one in turns:
        numbers, pixels = np.unique(one, return_counts=True)
        np.testing.assert_array_equal(numbers, np.arange(64))
        assert pixels.max() <= np.ceil(size[0] / 8) * np.ceil(size[1] / 8)
        assert pixels.min() >= (size[0] // 8) * (size[1] // 8)
        rows, columns = np.nonzero(one == 0)
        assert (np.ptp(rows) + 1) * (np.ptp(columns) + 1) == len(rows)


@pytest.mark.parametrize(
    "values",
    [
        lambda share: 0.3 + 0.5 * np.sqrt(share),  # a straight line over the square root
        lambda share: 1 + 0 * share,
        lambda share: np.exp(-12 * share),
        lambda share: 1 / (1 + np.exp(20 * (share - 0.3))),
    ],
)
def test_the_area_under_a_curve(values):
    """Eleven points give what a polygon through 10000 gives."""
    positions = (np.arange(11) / 10) ** 2
    weights = measures.area_weights(positions)
    fine = np.linspace(0, 1, 10001)
    expected = np.trapezoid(values(fine), fine)
    assert weights @ values(positions) == pytest.approx(expected, abs=3e-4)
    assert weights.min() > 0
    assert weights.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("box", "expected"),
    [
        ((20, 0, 120, 100), (0, 0, 10, 10)),  # the whole region
        ((30, 20, 50, 60), (1, 2, 3, 6)),
        ((31, 21, 49, 59), (1, 2, 3, 6)),  # every pixel that it touches
        ((0, -5, 41, 7), (0, 0, 3, 1)),  # cut to the region
        ((69.5, 49.5, 70.5, 50.5), (4, 4, 6, 6)),  # smaller than a pixel
        ((0, 0, 20, 100), None),  # beside the region
        ((120, 0, 400, 100), None),
    ],
)
def test_boxes_at_the_networks_input(box, expected):
    """A photo of 140 x 100, of which the square from x 20 to 120 is seen at 10 x 10."""
    mask = measures.box_mask([box], (20, 0, 120, 100), (0, 0, 10, 10), (10, 10))
    wanted = np.zeros((10, 10), bool)
    if expected:
        x0, y0, x1, y1 = expected
        wanted[y0:y1, x0:x1] = True
    np.testing.assert_array_equal(mask, wanted)
