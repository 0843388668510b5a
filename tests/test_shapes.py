"""The embedded networks `shapes` and `shapes_vit`, and the pictures that are drawn for them."""

from dataclasses import fields
from pathlib import Path

import keras
import numpy as np
import pytest
from drawing import draw_picture
from drawing.batch import Batch, draw_batch
from measuring import explain, naming, pointing
from shapes import SIZE
from shapes_vit import build_shapes_vit

from realtime_lrp import Explainer, load_network
from realtime_lrp.models.drawings import CLASSES, NOTHING
from realtime_lrp.relevance.maps.strength import strength
from realtime_lrp.system.scale import FULL
from realtime_lrp.video.sources import moving_picture

ASSETS = Path(__file__).parents[1] / "assets"
FRESH = 271828


@pytest.fixture(scope="module")
def model() -> keras.Model:
    """The embedded network."""
    return keras.models.load_model(ASSETS / "shapes.keras", compile=False)


@pytest.fixture(scope="module")
def explainer(model) -> Explainer:
    """Explains it with z+."""
    return Explainer(model, composite="zplus", target="all")


@pytest.fixture(scope="module", params=[320, pytest.param(640, marks=pytest.mark.release)])
def fresh(request) -> Batch:
    """Pictures that were not trained with."""
    return draw_batch((FRESH,), request.param)


def test_it_names_fresh_pictures(model, fresh):
    """At least 97 % of new pictures, and 90 % of each class."""
    figures = naming(model.predict(fresh.pixels, batch_size=64, verbose=0), fresh.labels)
    assert figures["accuracy"] >= 0.97
    assert min(figures["accuracy_of_class"].values()) >= 0.9, "20 to 40 of each class"


@pytest.mark.parametrize("target", ["all", "top1"])
def test_the_largest_relevance_is_on_the_symbol(explainer, fresh, target):
    """On at least 95 % of 40 to 80 pictures."""
    count = len(fresh.pixels) // 8
    batch = Batch(*(getattr(fresh, field.name)[:count] for field in fields(Batch)))
    _, maps = explain(explainer, batch.pixels, target)
    assert pointing(maps, batch)["peak_on_ink"] >= 0.95


def test_a_map_that_is_mostly_nothing_looks_like_nothing(explainer):
    """Of pictures with one disc at most a tenth is drawn with a fifth of the full strength."""
    pictures = [moving_picture(number, (SIZE, SIZE), 30) for number in (5, 60, 120, 200)]
    maps = explainer(np.stack(pictures).astype(np.float32)).relevance
    drawn = np.abs(strength(maps)[0].numpy().astype(int))
    assert (drawn > FULL / 5).mean((1, 2)).max() < 1 / 10
    assert (drawn == FULL).any((1, 2)).all()


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


@pytest.fixture(scope="module")
def network():
    """The embedded transformer."""
    return load_network("shapes_vit")


def test_the_network_is_the_one_that_is_built(network):
    """The file is below 4 MB and agrees with `build_shapes_vit`; its first layers are `shapes`'."""
    assert (ASSETS / "shapes_vit.keras").stat().st_size < 4e6
    built = build_shapes_vit()
    assert network.model.name == built.name == "shapes_vit"
    assert [w.shape for w in network.model.weights] == [w.shape for w in built.weights]
    assert all(w.dtype == "float32" for w in network.model.weights)
    assert network.labels == list(CLASSES) and network.preprocess == "none"
    kernels = [
        load_network(name).model.get_layer("block3_conv2").kernel.numpy()
        for name in ("shapes", "shapes_vit")
    ]
    np.testing.assert_array_equal(*kernels)


@pytest.mark.parametrize("count", [20, pytest.param(160, marks=pytest.mark.release)])
def test_it_names_fresh_pictures_and_points_at_the_symbol(network, count):
    """At least 93 % of new pictures, the largest relevance on the ink of 90 %."""
    fresh = draw_batch((314159,), count)
    explainer = Explainer(network, composite="zplus", target="top1")
    assert explainer.unsuited == set()
    scores, maps = explain(explainer, fresh.pixels, "top1")
    assert naming(scores, fresh.labels)["accuracy"] >= 0.93
    batch = Batch(*(getattr(fresh, field.name) for field in fields(Batch)))
    assert pointing(maps, batch)["peak_on_ink"] >= 0.9
