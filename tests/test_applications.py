"""The networks of keras.applications, by name: each builds, runs and keeps its relevance."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from realtime_lrp import Explainer, load_network
from realtime_lrp.config.applications import APPLICATIONS
from realtime_lrp.models import included

COMPOSITES = ("zplus", "epsilon_plus_flat")

LOSSES = {
    "mobilenet_v3_small": (0.05, 1e-3),
    "mobilenet": (0.4, 0.4),
    "mobilenet_v2": (0.4, 0.4),
    "mobilenet_v3_large": (0.1, 0.01),
    "mobilenet_v3_large_minimalistic": (0.4, 1e-3),
    "efficientnet_b0": (0.05, 0.05),
    "efficientnet_v2_b0": (0.05, 0.05),
    "densenet121": (1e-3, 1e-3),
    "convnext_tiny": (1e-3, 1e-3),
    "vgg16": (1e-3, 5e-3),
    "vgg19": (1e-3, 5e-3),
    "resnet50": (1e-3, 1e-3),
    "resnet50_v2": (0.05, 0.6),
    "inception_v3": (1e-3, 1e-3),
    "inception_resnet_v2": (1e-3, 1e-3),
    "xception": (0.6, 2.0),
    "nasnet_mobile": (0.5, 0.3),
}
"""Name -> how much of the relevance may be missing at the input, for each of `COMPOSITES`.

Random weights whose batch norms were set by a batch of noise. Depthwise layers lose what their
bias alone makes positive, which has no input to go to: about 0.3 in the MobileNets, 0.5 in
xception. In resnet50_v2 and xception sums of both signs nearly cancel before their batch norms:
inside, relevance of +1e6 and -1e6 adds up to 1, and float32 rounds.
"""


def network(name):
    """Keras's own random weights; batch norms that fit them, as after training."""
    loaded = load_network(name, weights="random")
    keras.utils.set_random_seed(1)
    model = keras.models.clone_model(loaded.model)
    size = (4, *model.input_shape[1:])
    x = loaded.prepare(np.random.default_rng(0).integers(0, 256, size, np.uint8))
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.0
    model(x, training=True)
    return model, x[:2]


@pytest.mark.release
@pytest.mark.parametrize(("name", "losses"), LOSSES.items())
def test_a_network_by_name_builds_runs_and_conserves(name, losses):
    """Keras's scores, the tape's gradient, nearly all relevance accounted for."""
    model, x = network(name)
    explainer = Explainer(model, also=["epsilon_plus_flat"])
    found = explainer._run(tf.constant(x), explainer._default)
    np.testing.assert_allclose(found.scores, model.predict_on_batch(x), atol=2e-6)
    for composite, relevance, account, loss in zip(
        COMPOSITES, found.maps, found.accounts, losses, strict=True
    ):
        sums = relevance.numpy().sum((1, 2, 3), dtype=np.float64)
        started, magnitude, taken = account.numpy().T
        missing = (started - sums - taken) / magnitude
        assert (np.abs(missing) < loss).all(), (composite, missing)
    gradient = Explainer(model, method="gradient", target=7)(x).relevance
    expected = of_the_logit(model, x, 7)  # a ReLU at 0 may be on in one and off in the other
    assert np.linalg.norm(gradient - expected) < 1e-2 * np.linalg.norm(expected)


def of_the_logit(model, x, index):
    """The gradient of a class's logit by TensorFlow's tape."""
    model.layers[-1].activation = keras.activations.linear
    with tf.GradientTape() as tape:
        tape.watch(x)
        wanted = model(x)[:, index]
    return tape.gradient(wanted, x).numpy()


@pytest.mark.release
@pytest.mark.parametrize("name", APPLICATIONS)
def test_each_row_says_what_keras_downloads(name):
    """The file's name, and a size that its parameters explain within a tenth."""
    application, downloads = APPLICATIONS[name], []
    with keras.StatelessScope(initialize_variables=False), included._noting_downloads(downloads):
        builder = getattr(keras.applications, application.builder)
        model = builder(weights="imagenet", **application.options)
    assert [download.name for download in downloads] == [application.file]
    assert application.megabytes == pytest.approx(4 * model.count_params() / 2**20, rel=0.1, abs=2)
