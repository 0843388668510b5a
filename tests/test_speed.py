"""What is formulated for speed gives what the plain formula gives."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from test_relevance import largest_difference

from realtime_lrp import METHODS, Explainer
from realtime_lrp.relevance.network import onednn
from realtime_lrp.relevance.reading.layers import steps_of

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.fixture(autouse=True)
def _same_weights_in_every_run():
    keras.utils.set_random_seed(7)


def graph_function(function):
    """Runs a function as a graph, which is where the fast operations are used."""
    return tf.function(function, autograph=False)


CONVOLUTIONS = {
    "3 x 3": layers.Conv2D(5, 3, padding="same"),
    "valid": layers.Conv2D(5, (3, 2), padding="valid"),
    "even": layers.Conv2D(5, (2, 4), padding="same"),
    "strides": layers.Conv2D(5, 3, strides=2, padding="same"),
    "1 x 1": layers.Conv2D(5, 1),
    "1 x 1, strides": layers.Conv2D(5, 1, strides=2),
    "1 x 1, uneven strides": layers.Conv2D(5, 1, strides=(2, 3)),
    "1 x 1, same, strides": layers.Conv2D(5, 1, strides=(3, 1), padding="same"),
    "first layer": layers.Conv2D(5, 3, strides=2),  # the last column is in no window
    "first layer, window of the stride": layers.Conv2D(5, 2, strides=2),
    "first layer, window within the stride": layers.Conv2D(5, 2, strides=3),
    "first layer, large": layers.Conv2D(5, 7, strides=3),
    "first layer, wide": layers.Conv2D(5, (3, 5), strides=2),
    "dilated": layers.Conv2D(5, 3, dilation_rate=2, padding="same"),
    "groups": layers.Conv2D(8, 3, groups=2, padding="same"),
    "depthwise": layers.DepthwiseConv2D(3, padding="same"),
    "depthwise, strides": layers.DepthwiseConv2D(3, strides=2, padding="valid"),
    "depthwise, 2 each": layers.DepthwiseConv2D(3, depth_multiplier=2, padding="same"),
    "depthwise, dilated": layers.DepthwiseConv2D(3, dilation_rate=2, padding="same"),
    "transposed": layers.Conv2DTranspose(5, 3, strides=2, padding="same"),
    "dense": layers.Dense(5),
}


CASES = [
    pytest.param(name, activation, dtype, marks=[pytest.mark.release] if (a + b + c) % 2 else [])
    for a, name in enumerate(CONVOLUTIONS)
    for b, activation in enumerate(["", "relu", "relu6"])
    for c, dtype in enumerate([tf.float32, tf.bfloat16])
]
"""By default each layer with each activation, half of them in bfloat16."""


@pytest.mark.parametrize(("name", "activation", "dtype"), CASES)
def test_compiled_layers_give_what_keras_gives(name, activation, dtype, rng):
    """The layer with its bias and ReLU, and its adjoint by differentiating Keras's own layer."""
    layer = CONVOLUTIONS[name]
    # small integers: their sums are exact, also in bfloat16 and in any order
    a = tf.constant(rng.integers(-4, 5, (2, 9, 8, 4)), tf.float32)
    layer(a)
    layer.set_weights([rng.integers(-2, 3, w.shape) for w in layer.get_weights()])
    step = steps_of(layer)[0].cast(dtype)
    rectify = {"": tf.identity, "relu": tf.nn.relu, "relu6": tf.nn.relu6}[activation]
    with tf.GradientTape() as tape:
        tape.watch(a)
        plain = layer(a)
    s = tf.cast(tf.constant(rng.integers(-4, 5, plain.shape), tf.float32), dtype)
    adjoint = tape.gradient(plain, a, tf.cast(s, tf.float32))
    forward = graph_function(lambda a: step.forward(a, activation))
    back = graph_function(lambda s: step.transpose(s, step.weights, tf.shape(a)))
    got = tf.cast(forward(tf.cast(a, dtype)), tf.float32)
    assert largest_difference(got, rectify(plain)) < 1e-5
    assert largest_difference(tf.cast(back(s), tf.float32), adjoint) < 1e-5


def rectified(first=None, second=None, third=None):
    """Convolutions whose ReLUs have these ceilings, the second one behind a batch norm."""
    x = keras.Input((12, 12, 3))
    h = layers.ReLU(max_value=first)(layers.Conv2D(6, 3, padding="same")(x))
    h = layers.BatchNormalization()(layers.Conv2D(6, 3, padding="same", use_bias=False)(h))
    h = layers.ReLU(max_value=second)(h)
    h = layers.DepthwiseConv2D(3, padding="same")(h)
    h = layers.GlobalAveragePooling2D()(layers.ReLU(max_value=third)(h))
    return keras.Model(x, layers.Dense(4, activation="softmax")(h))


@pytest.mark.parametrize(
    ("ceilings", "names"),
    [
        ((6, None, 2), ["lrp", "gradient", "grad_cam", "guided_backprop"]),
        pytest.param((None, 2, 6), METHODS, marks=pytest.mark.release),
        pytest.param((2, 6, None), METHODS, marks=pytest.mark.release),
    ],
)
def test_a_relu_computed_with_its_layer_changes_no_map(ceilings, names, rng, monkeypatch):
    """Compared with an explainer that uses public operations only."""
    model = rectified(*ceilings)
    x = rng.normal(size=(2, 12, 12, 3)).astype("float32") * 8
    options = {"also": names, "target": "top1", "samples": 3}
    fast = Explainer(model, **options)(x)
    np.testing.assert_allclose(fast.scores, model.predict_on_batch(x), atol=1e-6)
    monkeypatch.setattr("realtime_lrp.relevance.network.graph.RECTIFIERS", {})
    monkeypatch.setattr(onednn, "usable", lambda a, kernel: False)
    plain = Explainer(model, **options)(x)
    for name in names:
        assert largest_difference(fast.maps[name], plain.maps[name]) < 1e-5, name


def test_all_frames_are_one_trace(rng):
    """Other pictures, targets and batch sizes, on a network with several composites at once."""
    model = rectified()
    explainer = Explainer(model, also=["epsilon_plus_flat", "gradient"], labels=list("abcd"))
    frames = rng.normal(size=(12, 12, 12, 3)).astype("float32")
    targets = ["all", "top1", "top3", 2, "b", "a - c", "d - rest", None]
    for number in range(24):  # each target with each batch size
        batch = frames[number % 8 : number % 8 + 1 + number % 3]
        explanation = explainer(batch, target=targets[number % len(targets)])
        explainer.set_target(targets[number % 7])
    assert explanation.relevance.shape == batch.shape
    assert explainer.traces == 1
    assert explainer._run.traces == 1


def test_a_pipeline_alone_is_compiled_where_nothing_else_is_called(rng):
    """Viewers and recordings need no second function, which would take as long to compile."""
    explainer = Explainer(rectified())
    pipeline = explainer.compile_pipeline(lambda x: tf.cast(x, tf.float32), lambda r: r)
    pipeline(rng.integers(0, 255, (2, *explainer.input_shape), np.uint8))
    assert explainer.traces == 1 and explainer._run.traces == 0


def test_kernels_are_kept_where_tensorflow_can(rng):
    """If the operation is available, every convolution of a map uses it."""
    if not onednn.available(tf.float32):
        pytest.skip("this TensorFlow has no such operation")
    explainer = Explainer(rectified())
    explainer(rng.normal(size=(1, *explainer.input_shape)))
    operations = explainer._run.traced().graph.get_operations()
    kept = [op for op in operations if op.type == "_MklNativeFusedConv2D"]
    assert len(kept) == 2 + 1 + 2  # forward, z+ behind the first layer, back
    assert all(op.get_attr("is_filter_const") for op in kept)
    assert not [op for op in operations if op.type in ("Conv2D", "Conv2DBackpropInput")]
