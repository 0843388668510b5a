"""Golden outcomes of the embedded network: what every composite and method gave when last checked.

`python tests/test_golden.py` writes them anew; do so only where a change of the maps is meant.
"""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
from drawing.batch import draw_batch
from tables import METHODS_OF_ALL

from realtime_lrp import Explainer
from realtime_lrp.relevance.composites import COMPOSITES

GOLDEN = Path(__file__).with_name("golden.json")
SHAPES = Path(__file__).parents[1] / "assets" / "shapes.keras"
CELLS = 4


@pytest.fixture(scope="module")
def outcomes():
    return measured()


def measured() -> dict:
    """Map -> for the top class of two drawn pictures: its magnitude, and the share in each cell."""
    names = [*COMPOSITES, *METHODS_OF_ALL]
    model = keras.models.load_model(SHAPES, compile=False)
    explainer = Explainer(model, target="top1", also=names, low=0, high=255)
    explanation = explainer(draw_batch((31415,), 2).pixels.astype("float32"))
    return {
        "scores": explanation.scores.max(1).tolist(),
        "classes": explanation.scores.argmax(1).tolist(),
        "maps": {name: outcome(explanation.maps[name]) for name in names},
    }


def outcome(relevance) -> dict:
    side = relevance.shape[1] // CELLS
    cells = relevance.astype("float64").sum(3).reshape(-1, CELLS, side, CELLS, side).sum((2, 4))
    magnitude = np.abs(relevance.astype("float64")).sum((1, 2, 3))
    share = cells / magnitude[:, None, None]
    return {"magnitude": magnitude.tolist(), "cells": share.tolist()}


def test_the_scores_are_golden(outcomes):
    """The same classes with the same scores."""
    golden = json.loads(GOLDEN.read_text())
    assert outcomes["classes"] == golden["classes"]
    np.testing.assert_allclose(outcomes["scores"], golden["scores"], atol=1e-4)


@pytest.mark.parametrize("name", [*COMPOSITES, *METHODS_OF_ALL])
def test_every_map_is_golden(name, outcomes):
    """Its magnitude and distribution over the picture, tolerant of other processors' float32."""
    now, then = outcomes["maps"][name], json.loads(GOLDEN.read_text())["maps"][name]
    np.testing.assert_allclose(now["magnitude"], then["magnitude"], rtol=0.01)
    np.testing.assert_allclose(now["cells"], then["cells"], atol=0.002)


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(measured(), indent=1) + "\n")
