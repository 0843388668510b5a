"""The networks of `keras.applications`: each builds, runs and keeps its relevance."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from realtime_lrp import Explainer

COMPOSITES = ("zplus", "epsilon_plus_flat")

QUICK = {"MobileNetV2": (0.4, 0.4)}
OTHERS = {
    "EfficientNetB0": (0.05, 0.05),
    "DenseNet121": (1e-3, 1e-3),
    "ConvNeXtTiny": (1e-3, 1e-3),
    "VGG16": (1e-3, 5e-3),
    "VGG19": (1e-3, 5e-3),
    "ResNet50": (1e-3, 1e-3),
    "ResNet50V2": (0.05, 0.6),
    "MobileNet": (0.4, 0.4),
    "InceptionV3": (1e-3, 1e-3),
}
"""Name -> how much of the relevance may be missing at the input, for each of `COMPOSITES`.

Random weights whose batch norms were set by a batch of noise. Depthwise layers lose what their
bias alone makes positive, which has no input to go to: about 0.3 in the MobileNets. In ResNet50V2
sums of both signs nearly cancel before its batch norms: inside, relevance of +1e6 and -1e6 adds up
to 1, and float32 rounds.
"""


def network(name):
    """Random weights; batch norms that fit them, as after training. Pictures in its range."""
    keras.utils.set_random_seed(1)
    model = getattr(keras.applications, name)(weights=None)
    wide = name in ("EfficientNetB0", "ConvNeXtTiny")
    rng = np.random.default_rng(0)
    size = (4, *model.input_shape[1:])
    x = (rng.uniform(0, 255, size=size) if wide else rng.normal(size=size)).astype("float32")
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.0
    model(x, training=True)
    return model, x[:2]


@pytest.mark.parametrize(
    ("name", "losses"),
    [
        *QUICK.items(),
        *(pytest.param(*item, marks=pytest.mark.release) for item in OTHERS.items()),
    ],
)
def test_an_application_builds_runs_and_conserves(name, losses):
    """Keras's own scores, one trace, and nearly all relevance at the pixels or with the biases."""
    model, x = network(name)
    explainer = Explainer(model, also=["epsilon_plus_flat"])
    scores, *of_maps, _ = explainer._run(tf.constant(x), *explainer._default)
    np.testing.assert_allclose(scores, model.predict_on_batch(x), atol=2e-6)
    for composite, relevance, account, loss in zip(COMPOSITES, *of_maps, losses, strict=True):
        sums = relevance.numpy().sum((1, 2, 3), dtype=np.float64)
        started, magnitude, taken = account.numpy().T
        missing = (started - sums - taken) / magnitude
        assert (np.abs(missing) < loss).all(), (composite, missing)
    assert explainer.traces == 1
