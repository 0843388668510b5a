"""The embedded network `shapes`: its file, its answers, its maps, the script that measures it."""

from dataclasses import fields
from pathlib import Path

import keras
import numpy as np
import pytest
from drawing.batch import Batch, draw_batch
from measuring import explain, naming, pointing
from shapes import SIZE

from realtime_lrp.relevance.explainer import Explainer
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
