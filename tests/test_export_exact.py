"""Files of real networks give the explainer's maps; what float32 changes is rounding alone."""

import functools
from pathlib import Path

import keras
import numpy as np
import pytest
from float64 import file_in_float64, graph_in_float64
from test_export_onnx import WAYS, session_of

from realtime_lrp.config import Config
from realtime_lrp.config.names import COMPOSITES
from realtime_lrp.engine.engine import Engine
from realtime_lrp.export.file import (
    agrees,
    computation,
    difference_of,
    graph_of,
    model_of,
    pictures,
)
from realtime_lrp.models.networks import load_network
from realtime_lrp.video.region import resize

pytestmark = pytest.mark.release

FOLDERS = (one / "shared" / "models" for one in Path(__file__).resolve().parents)
SHARED = next(filter(Path.is_dir, FOLDERS), None)
REAL = {
    "shapes": {}, "shapes_vit": {}, "resnet50": None, "densenet121": None, "efficientnet_b0": None,
    "squeezenet": {"name": "squeezenet_v1_0.keras", "preprocess": "caffe"},
    "mobilenet_v2": {"weights": "mobilenet_v2_imagenet.weights.h5"},
}  # fmt: skip
WITHOUT_RELU = "shapes_vit", "efficientnet_b0"
CASES = [
    (network, way)
    for network in REAL
    for way in WAYS
    if network not in WITHOUT_RELU or way not in ("guided_backprop", "deconvnet")
]


@pytest.fixture(scope="module")
def settings_of(tmp_path_factory):
    """The settings of a network by its name; None in `REAL` is random weights.

    Their batch norms are those of three pictures: else EfficientNet's maps are 0.
    """

    @functools.cache
    def settings(name):
        known = dict(REAL[name] or {})
        for key in ("name", "weights"):
            if Path(known.get(key, "")).suffix:
                if SHARED is None:
                    pytest.skip("real files are not beside the checkout")
                known[key] = str(SHARED / known[key])
        if REAL[name] is not None:
            return {"name": name, **known}
        network = load_network(name, weights="random")
        for layer in network.model.layers:
            if isinstance(layer, keras.layers.BatchNormalization):
                layer.momentum = 0.0
        seen = np.stack([resize(one, network.model.input_shape[1:3]) for one in pictures()])
        network.model(network.prepare(seen), training=True)
        path = tmp_path_factory.mktemp(name) / "random.keras"
        network.model.save(path)
        return {"name": str(path), "preprocess": network.preprocess}

    return settings


@pytest.mark.parametrize(("network", "way"), CASES)
def test_files_of_real_networks_give_the_explainers_maps(settings_of, network, way):
    """Three pictures each, with the noise of a camera: to 1e-4 of the largest entry.

    Where rounding in float32 moves parts of a map, file and explainer agree to 1e-6 in float64.
    """
    lrp = {"composite": way} if way in COMPOSITES.known() else {"method": way}
    engine = Engine(Config().changed(model=settings_of(network), lrp=lrp))
    file = model_of(graph_of(engine, fixed=False)).SerializeToString()
    session, rounded = session_of(file), []
    for picture in pictures():
        seen = engine.region(picture.shape[:2]).extract(picture)[None]
        given = {"picture": seen, "target": np.zeros(engine.explainer.classes, np.float32)}
        scores, relevance, _ = session.run(None, given)
        found = engine.explainer(engine.network.prepare(seen), "top1")
        np.testing.assert_allclose(scores, found.scores, atol=1e-5)
        expected = found.relevance.sum(-1)
        assert expected.any() and agrees(relevance, expected)
        if difference_of(relevance, expected) > 1e-4:
            rounded.append(given)
    for given in rounded[:1]:
        expected, exact, _ = graph_in_float64(*computation(engine, fixed=False))(given)
        given["target"] = np.float64(given["target"])
        computed = file_in_float64(file)(given)
        np.testing.assert_allclose(computed[0], expected, atol=1e-6)
        assert difference_of(computed[1], exact) < 1e-6
