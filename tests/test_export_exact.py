"""Files of real networks give the explainer's maps; what float32 changes is rounding alone."""

from pathlib import Path

import numpy as np
import pytest
from float64 import file_in_float64, graph_in_float64
from test_export_onnx import WAYS, session_of

from realtime_lrp.config import Config
from realtime_lrp.config.names import COMPOSITES
from realtime_lrp.engine.engine import Engine
from realtime_lrp.export.file import (
    LEAST_CORRELATION,
    computation,
    difference_of,
    graph_of,
    model_of,
    pictures,
)

pytestmark = pytest.mark.release

FOLDERS = (one / "shared" / "models" for one in Path(__file__).resolve().parents)
SHARED = next(filter(Path.is_dir, FOLDERS), None)
REAL = {
    "shapes": {}, "shapes_vit": {}, "resnet50": {"weights": "random"},
    "densenet121": {"weights": "random"}, "efficientnet_b0": {"weights": "random"},
    "squeezenet": {"name": "squeezenet_v1_0.keras", "preprocess": "caffe"},
    "mobilenet_v2": {"weights": "mobilenet_v2_imagenet.weights.h5"},
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("network", REAL)
def test_files_of_real_networks_give_the_explainers_maps(network, way):
    """Three pictures each, with the noise of a camera.

    In float64 the file's map is the explainer's to 1e-6 of the largest entry: it computes the same.
    In float32 it is to 1e-4 where the explainer's own map is as near to that in float64. Elsewhere
    rounding moves parts of both: then the file's may be some times as far off as the explainer's.
    """
    settings = dict(REAL[network])
    for key in ("name", "weights"):
        if Path(settings.get(key, "")).suffix:
            if SHARED is None:
                pytest.skip("real files are not beside the checkout")
            settings[key] = str(SHARED / settings[key])
    lrp = {"composite": way} if way in COMPOSITES.known() else {"method": way}
    engine = Engine(Config().changed(model={"name": network, **settings}, lrp=lrp))
    file = model_of(graph_of(engine, fixed=False)).SerializeToString()
    in_float64, session = graph_in_float64(*computation(engine, fixed=False)), session_of(file)
    files, explainers = [], []
    for number, picture in enumerate(pictures()):
        seen = engine.region(picture.shape[:2]).extract(picture)[None]
        given = {"picture": seen, "target": np.zeros(engine.explainer.classes, np.float32)}
        expected, exact, _ = in_float64(given)
        if not number:
            computed = file_in_float64(file)({**given, "target": np.float64(given["target"])})
            np.testing.assert_allclose(computed[0], expected, atol=1e-6)
            assert difference_of(computed[1], exact) < 1e-6
        scores, relevance, _ = session.run(None, given)
        found = engine.explainer(engine.network.prepare(seen), "top1")
        np.testing.assert_allclose(scores, found.scores, atol=1e-5)
        theirs = found.relevance.sum(-1)
        assert np.corrcoef(relevance.ravel(), theirs.ravel())[0, 1] > LEAST_CORRELATION
        files.append(difference_of(relevance, exact))
        explainers.append(difference_of(theirs, exact))
    assert max(files) < max(1e-4, 10 * max(explainers))
