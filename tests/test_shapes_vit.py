"""The embedded vision transformer `shapes_vit`: its file, its answers, its maps, its figures."""

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from drawing.batch import Batch, draw_batch
from measuring import explain, naming, pointing
from shapes_vit import build_shapes_vit

from realtime_lrp import Explainer, load_network
from realtime_lrp.models.drawings import CLASSES

ASSETS = Path(__file__).parents[1] / "assets"


@pytest.fixture(scope="module")
def network():
    """The embedded transformer."""
    return load_network("shapes_vit")


@pytest.fixture(scope="module", params=[20, pytest.param(160, marks=pytest.mark.release)])
def fresh(request) -> Batch:
    """Pictures that were not trained with."""
    return draw_batch((314159,), request.param)


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


def test_it_names_fresh_pictures_and_points_at_the_symbol(network, fresh):
    """At least 93 % of new pictures, the largest relevance on the ink of 90 %."""
    explainer = Explainer(network, composite="zplus", target="top1")
    assert explainer.unsuited == set()
    scores, maps = explain(explainer, fresh.pixels, "top1")
    assert naming(scores, fresh.labels)["accuracy"] >= 0.93
    batch = Batch(*(getattr(fresh, field.name) for field in fields(Batch)))
    assert pointing(maps, batch)["peak_on_ink"] >= 0.9
