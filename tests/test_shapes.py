"""The embedded network `shapes`: its file, its answers, its maps, the script that measures it."""

import json
from dataclasses import fields
from pathlib import Path

import keras
import numpy as np
import pytest
from drawing.batch import Batch, draw_batch
from measuring import explain, naming, pointing
from shapes import SIZE, build_shapes

from realtime_lrp.models.drawings import CLASSES
from realtime_lrp.relevance.explainer import Explainer
from realtime_lrp.relevance.maps.strength import FULL, strength
from realtime_lrp.video.synthetic import moving_picture

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


def test_the_network_is_the_one_that_is_built(model):
    """The file agrees with `build_shapes`: name, shapes, float32."""
    built = build_shapes()
    assert model.name == built.name == "shapes"
    assert [w.shape for w in model.weights] == [w.shape for w in built.weights]
    assert all(w.dtype == "float32" for w in model.weights)
    assert model.output_shape == (None, len(CLASSES))


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
    """On at least 95 % of 80 to 160 pictures."""
    count = len(fresh.pixels) // 4
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


def test_the_figures_beside_it_are_within_the_targets():
    """assets/shapes.json: measured on at least 4000 pictures."""
    figures = json.loads((ASSETS / "shapes.json").read_text())
    assert figures["classes"] == list(CLASSES)
    assert figures["accuracy"] >= 0.97
    assert min(figures["accuracy_of_class"].values()) >= 0.93
    assert figures["held_out"]["pictures"] >= 4000
    assert all(p["peak_on_ink"] >= 0.95 for p in figures["pointing"].values())


def test_the_documentation_has_the_figures_beside_it():
    """docs/shapes.md gives the figures of assets/shapes.json."""
    page = (ASSETS.parent / "docs" / "shapes.md").read_text()
    figures = json.loads((ASSETS / "shapes.json").read_text())
    worst = min(figures["accuracy_of_class"], key=figures["accuracy_of_class"].get)
    for told in (
        f"{figures['accuracy']:.1%}",
        f"{figures['accuracy_of_class'][worst]:.1%} ({worst})",
        f"{figures['pointing']['all']['peak_on_ink']:.1%}",
        f"{figures['pointing']['all']['relevance_on_ink']:.1%}",
        f"{figures['pointing']['all']['relevance_in_silhouette']:.1%}",
        str(figures["held_out"]["pictures"]),
    ):
        assert told.replace("%", " %") in page, told
