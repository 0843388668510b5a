"""How each layer type goes forward, how relevance goes back through it, and folded batch norms."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, ops
from naive import assert_near, gradient_of

from realtime_lrp import Explainer
from realtime_lrp.errors import DamagedInputError
from realtime_lrp.relevance.maps.methods import METHODS
from realtime_lrp.relevance.maps.plan import Options, Plan
from realtime_lrp.relevance.network.canonise import canonise
from realtime_lrp.relevance.network.graph import total
from realtime_lrp.relevance.network.places import compute_supports
from realtime_lrp.relevance.network.steps import Affine, Identity, Product
from realtime_lrp.relevance.reading.building import build_graph
from realtime_lrp.relevance.reading.layers import ACTIVATIONS, steps_of
from realtime_lrp.relevance.rules.composites import COMPOSITES
from realtime_lrp.relevance.rules.layer_contexts import layer_contexts, pixel_stride

SEED = 5


def network(build, shape=(9, 8, 3), classes=4):
    """A model: `build` makes features from the input, a dense softmax follows."""
    x = keras.Input(shape)
    h = build(x)
    h = layers.Flatten()(h) if len(h.shape) > 2 else h
    return with_lively_weights(keras.Model(x, layers.Dense(classes, activation="softmax")(h)))


def with_lively_weights(model):
    rng = np.random.default_rng(11)
    for layer in model.layers:
        if isinstance(layer, layers.BatchNormalization):
            size = layer.moving_mean.shape
            layer.moving_mean.assign(rng.normal(size=size))
            layer.moving_variance.assign(rng.uniform(0.3, 3, size=size))
            if layer.scale:
                layer.gamma.assign(rng.normal(1, 0.5, size=size))
            if layer.center:
                layer.beta.assign(rng.normal(size=size))
        elif getattr(layer, "bias", None) is not None:
            layer.bias.assign(rng.normal(0, 0.3, size=layer.bias.shape))
    return model


def conv(filters=6, kernel=3, **options):
    return layers.Conv2D(filters, kernel, **options)


def norm(h):
    return layers.BatchNormalization(name="bn")(h)


FEATURES = {
    "Conv1D": lambda x: layers.Conv1D(5, 3, padding="same", activation="relu")(
        layers.Reshape((72, 3))(x)
    ),
    "Conv3D": lambda x: layers.Conv3D(4, 2, activation="relu")(layers.Reshape((9, 8, 3, 1))(x)),
    # a window without a positive contribution loses what its bias earned: no bias, large windows
    "DepthwiseConv2D": lambda x: layers.DepthwiseConv2D(
        3, strides=2, depth_multiplier=2, activation="relu", use_bias=False
    )(x),
    "DepthwiseConv2D, dilation": lambda x: layers.DepthwiseConv2D(
        3, dilation_rate=2, padding="same", activation="relu"
    )(x),
    "SeparableConv2D": lambda x: layers.SeparableConv2D(7, 5, strides=2, activation="relu")(x),
    "Conv2DTranspose": lambda x: layers.Conv2DTranspose(
        5, 3, strides=2, padding="same", activation="relu"
    )(x),
    "UpSampling2D": lambda x: layers.UpSampling2D((2, 3))(conv(activation="relu")(x)),
    "UpSampling2D, bilinear": lambda x: layers.UpSampling2D(2, interpolation="bilinear")(
        conv(activation="relu")(x)
    ),
    "Cropping2D": lambda x: conv(activation="relu")(layers.Cropping2D(((1, 2), (0, 1)))(x)),
    "Permute": lambda x: conv(activation="relu")(layers.Permute((2, 1, 3))(x)),
    "GlobalMaxPooling2D": lambda x: layers.GlobalMaxPooling2D()(conv(activation="relu")(x)),
    "LeakyReLU": lambda x: layers.LeakyReLU(0.1)(conv()(x)),
    "ReLU with slope": lambda x: layers.ReLU(negative_slope=0.2)(conv()(x)),
    "ReLU6": lambda x: layers.ReLU(6.0)(conv()(x)),
    "ReLU with slope and ceiling": lambda x: layers.ReLU(0.5, negative_slope=0.2)(conv()(x)),
    "ReLU with threshold": lambda x: layers.ReLU(threshold=0.1)(conv()(x)),
    "functions": lambda x: keras.ops.relu(conv()(x)) + keras.ops.leaky_relu(conv()(x), 0.3),
    "Softmax over places": lambda x: layers.Softmax(axis=(1, 2))(conv()(x)),
    "one rank lower": lambda x: layers.Add()(
        [layers.GlobalAveragePooling2D()(conv(activation="relu")(x)), conv(activation="relu")(x)]
    ),
    "gate one rank lower": lambda x: layers.Multiply()(
        [conv(activation="relu")(x), layers.Dense(6, "sigmoid")(layers.GlobalMaxPooling2D()(x))]
    ),
    "one tensor twice": lambda x: layers.Concatenate()([conv(activation="relu")(x)] * 2),
    "PReLU": lambda x: layers.PReLU("uniform", shared_axes=[1, 2])(conv()(x)),
    "ELU": lambda x: layers.ELU()(conv()(x)),
    "BatchNormalization first": lambda x: conv(activation="relu")(layers.BatchNormalization()(x)),
    "BatchNormalization": lambda x: layers.ReLU()(
        layers.BatchNormalization(scale=False)(conv(use_bias=False)(x))
    ),
    "LayerNormalization": lambda x: layers.LayerNormalization()(conv(activation="gelu")(x)),
    "GroupNormalization": lambda x: layers.GroupNormalization(2)(conv(activation="silu")(x)),
    "Add": lambda x: layers.Add()([conv(activation="relu")(x) for _ in range(3)]),
    "Average": lambda x: layers.Average()([conv(activation="relu")(x) for _ in range(3)]),
    "Subtract": lambda x: layers.Subtract()([conv(activation="relu")(x) for _ in range(2)]),
    "Multiply": lambda x: layers.Multiply()([conv()(x), conv(activation="sigmoid")(x)]),
    "expressions": lambda x: conv(activation="relu")(x / 2.0 + 1.0) * 3.0 - conv()(x),
    "random layers": lambda x: layers.GaussianNoise(1.0)(layers.RandomFlip()(conv()(x))),
}  # fmt: skip


def handed_to_pixels(graph, tensors, begin, method, composite="epsilon", start=None):
    """What a method hands back to the pixels, without shares of biases."""
    contexts = layer_contexts(graph, tensors[0].shape[1:], None)
    plan = Plan(METHODS[method], graph, Options(absorb_bias=False), COMPOSITES[composite], contexts)
    return total(graph.backward(tensors, begin, plan.back, start)[0]).numpy()


@pytest.mark.parametrize("build", FEATURES.values(), ids=FEATURES)
def test_scores_are_keras_own_and_relevance_is_conserved(build, rng):
    model = network(build)
    x = tf.constant(rng.normal(size=(2, 9, 8, 3)), tf.float32)
    graph = build_graph(model)
    canonise(graph)
    tensors = graph.forward(x)
    scores, logits = tensors[graph.output], tensors[graph.logits()]
    np.testing.assert_allclose(scores, model(x, training=False), atol=1e-5)
    own = keras.Model(model.input, layers.Dense(4, name="logits")(model.layers[-1].input))
    own.layers[-1].set_weights(model.layers[-1].get_weights())
    expected = gradient_of(lambda a: own(a, training=False) * scores, x)
    got = handed_to_pixels(graph, tensors, scores, "gradient", start=graph.logits())
    assert_near(got, expected, 1e-4)
    relevance = handed_to_pixels(graph, tensors, scores, "lrp", "zplus")
    np.testing.assert_allclose(relevance.sum((1, 2, 3)), 1, atol=2e-3)
    begin = scores * tf.sign(logits)
    relevance = handed_to_pixels(graph, tensors, begin, "lrp")
    np.testing.assert_allclose(relevance.sum((1, 2, 3)), tf.reduce_sum(begin, 1), atol=2e-3)


@pytest.mark.parametrize("function", ACTIVATIONS, ids=lambda function: function.__name__)
def test_every_activation_is_known_by_its_sign(function, rng):
    layer = layers.Conv2D(2, 1, activation=function)
    layer.build((None, 3, 3, 2))
    (_, step) = build_graph(keras.Sequential([keras.Input((3, 3, 2)), layer])).nodes
    values = tf.constant(rng.normal(size=(1, 3, 3, 2)) * 5, tf.float32)
    assert (np.min(step.step.forward(values)) >= 0) == step.step.nonnegative
    assert np.min(step.step.forward(tf.abs(values))) >= 0


def relevance_of(step, inputs, relevance):
    inputs = [tf.constant(a, tf.float32) for a in inputs]
    parts = step.relevance(inputs, step.forward(*inputs), tf.constant(relevance, tf.float32))
    return [part.numpy() for part in parts]


def test_a_gate_gets_no_relevance():
    signal, gate = np.ones((1, 2, 2, 1)), np.full((1, 1, 1, 1), 0.5)
    relevance = np.arange(4.0).reshape(1, 2, 2, 1)
    for inputs, which in (([signal, gate], 0), ([gate, signal], 1)):
        parts = relevance_of(Product(), inputs, relevance)
        np.testing.assert_array_equal(parts[which], relevance)
        np.testing.assert_array_equal(parts[1 - which], 0)
    halves = relevance_of(Product(), [signal, signal], relevance)
    np.testing.assert_array_equal(halves[0], relevance / 2)
    np.testing.assert_array_equal(halves[1], relevance / 2)


def test_a_sigmoid_is_found_to_be_the_gate_through_constants_and_pools(rng):
    """`g * h + c * (1 - g)`, whichever comes first: all relevance goes to what is gated."""

    def build(x):
        gate = conv(padding="same", activation="sigmoid", name="gate")(x)
        gate = layers.UpSampling2D(3)(layers.MaxPooling2D(3, padding="same")(gate))
        gate = layers.Dropout(0.1)(layers.Cropping2D(((0, 0), (0, 1)))(gate))
        return gate * conv(padding="same", name="h")(x) + conv(padding="same", name="c")(x) * (
            1 - gate
        )

    explainer = Explainer(network(build), composite="epsilon", absorb_bias=False)
    sums = {one.name: one.sums() for one in explainer.layers(rng.normal(size=(1, 9, 8, 3)))}
    np.testing.assert_array_equal(sums["gate"], 0)
    np.testing.assert_allclose(sums["h"] + sums["c"], next(iter(sums.values())), rtol=1e-2)


FOLDED = {
    "after a convolution": (lambda x: norm(conv(groups=3)(x)), True),
    "after a depthwise": (lambda x: norm(layers.DepthwiseConv2D(3, depth_multiplier=2)(x)), True),
    "after a transposed": (lambda x: norm(layers.Conv2DTranspose(5, 3)(x)), True),
    "after dropout": (lambda x: norm(layers.Dropout(0.2)(conv()(x))), True),
    "before a convolution": (lambda x: conv(groups=3)(norm(conv(3, activation="relu")(x))), True),
    "before a depthwise": (
        lambda x: layers.DepthwiseConv2D(3)(norm(conv(3, activation="relu")(x))), True
    ),
    "before a dense": (
        lambda x: norm(layers.GlobalAveragePooling2D()(conv(activation="relu")(x))), True
    ),
    "before two convolutions": (lambda x: layers.Concatenate()(two_readers(x)), True),
    "before zero padding": (lambda x: conv(padding="same")(norm(x)), False),
    "before a ReLU": (lambda x: layers.ReLU()(norm(conv(activation="relu")(x))), False),
    "of a sum": (lambda x: layers.ReLU()(norm(layers.Add()([conv()(x)] * 2))), False),
    "of a convolution with another reader": (lambda x: another_reader(x), False),
}  # fmt: skip


def two_readers(x):
    normed = norm(x)
    return [layers.Flatten()(conv()(normed)), layers.Flatten()(conv(2, 1, padding="same")(normed))]


def another_reader(x):
    """The convolution's own output is added to its batch norm."""
    h = conv()(x)
    return layers.ReLU()(layers.Add()([h, layers.ReLU()(norm(h))]))


@pytest.mark.parametrize(("build", "folds"), FOLDED.values(), ids=FOLDED)
def test_a_batch_norm_is_folded_where_it_can_be(build, folds, rng):
    model = network(build)
    x = rng.normal(size=(2, 9, 8, 3)).astype("float32")
    graph = build_graph(model)
    as_built = graph.unfolded(canonise(graph))
    numbers = graph.outputs()
    step, tensors = graph.producer(numbers["bn"]).step, graph.forward(x)
    assert isinstance(step, Identity if folds else Affine)
    (handed_down,) = step.relevance([], None, tensors[numbers["bn"]])
    assert handed_down is tensors[numbers["bn"]]
    np.testing.assert_allclose(tensors[graph.output], model(x, training=False), atol=1e-5)
    tensors = as_built.forward(x, joined=False)
    outputs = {name: model.get_layer(name).output for name in numbers}
    for name, expected in keras.Model(model.input, outputs)(x, training=False).items():
        np.testing.assert_allclose(tensors[numbers[name]], expected, atol=1e-5, err_msg=name)


def test_layer_norms_keep_the_weights_of_when_they_were_read(rng):
    model = network(lambda x: layers.LayerNormalization(name="norm")(conv()(x)))
    x = rng.normal(size=(1, 9, 8, 3))
    explainer = Explainer(model)
    before = explainer(x).scores
    model.get_layer("norm").gamma.assign_add(np.full(6, 0.3))
    np.testing.assert_array_equal(explainer(x).scores, before)


def test_folding_gives_the_maps_of_the_folded_network(rng):
    normed = network(lambda x: layers.ReLU()(norm(conv(name="conv")(x))))
    merged = network(lambda x: conv(name="conv", activation="relu")(x))
    bn, old = normed.get_layer("bn"), normed.get_layer("conv")
    scale = bn.gamma / np.sqrt(bn.moving_variance + bn.epsilon)
    merged.get_layer("conv").set_weights(
        [old.kernel * scale, (old.bias - bn.moving_mean) * scale + bn.beta]
    )
    merged.layers[-1].set_weights(normed.layers[-1].get_weights())
    picture = rng.normal(size=(2, 9, 8, 3)).astype("float32")
    also = ["zplus", "epsilon_plus", "epsilon_plus_flat"]
    got, expected = (Explainer(one, also=also)(picture).maps for one in (normed, merged))
    for name in also:
        assert_near(got[name], expected[name], 1e-5, name)


def two_first_layers(x):
    """As in Inception-ResNets: branches of different strides that read the pixels."""
    slow, fast = layers.Conv2D(2, 3, strides=4, padding="same"), layers.Conv2D(2, 3, strides=(2, 1))
    branches = [layers.GlobalAveragePooling2D()(layer(x)) for layer in (slow, fast)]
    return layers.Concatenate()(branches)


def as_patches(x, height, width):
    """Patches cut by reshaping, as einops does: [B, patches, their pixels]."""
    _, rows, columns, channels = x.shape
    h = layers.Reshape((rows // height, height, columns // width, width, channels))(x)
    return layers.Reshape((-1, height * width * channels))(layers.Permute((1, 3, 2, 4, 5))(h))


STRIDES = {
    "as VGG16": (lambda x: layers.Conv2D(2, 3, strides=2)(layers.Conv2D(2, 3)(x)), (1, 1)),
    "as SqueezeNet": (lambda x: layers.MaxPool2D(3, 2)(layers.Conv2D(2, 7, strides=2)(x)), (4, 4)),
    "as ResNet50": (lambda x: layers.Conv2D(2, 7, strides=2)(layers.ZeroPadding2D(3)(x)), (2, 2)),
    "patches": (lambda x: layers.Conv2D(2, 4, strides=4)(layers.Rescaling(1 / 255)(x)), (4, 4)),
    "a pool first": (
        lambda x: layers.Conv2D(2, 3, strides=2)(layers.AveragePooling2D(3)(x)),
        (6, 6),
    ),
    "depthwise": (lambda x: layers.DepthwiseConv2D(3, strides=2)(x), (2, 2)),
    "branches": (two_first_layers, (4, 4)),
    "dense patches": (lambda x: layers.Dense(2)(as_patches(x, 8, 4)), (8, 4)),
}  # name -> the first layers, their stride over the pixels


@pytest.mark.parametrize("name", STRIDES)
def test_the_stride_over_the_pixels_is_found(name):
    build, stride = STRIDES[name]
    x = keras.Input((32, 32, 3))
    y = layers.Dense(4, activation="softmax")(layers.Flatten()(build(x)))
    graph = build_graph(keras.Model(x, y))
    compute_supports(graph, (32, 32, 3))
    assert pixel_stride(graph) == stride


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("stride, dilation", [(1, 1), (2, 1), (3, 1), (1, 2)])
def test_the_shape_of_an_output_is_known_without_computing_it(padding, stride, dilation):
    options = {"strides": stride, "padding": padding, "dilation_rate": dilation}
    for layer, shape in [
        (layers.Conv1D(4, 3, **options), (11, 6)),
        (layers.Conv2D(4, (3, 2), **options), (11, 8, 6)),
        (layers.Conv2D(4, 1, groups=2, **options), (11, 8, 6)),
        (layers.DepthwiseConv2D(3, depth_multiplier=2, **options), (11, 8, 6)),
        (layers.Conv2DTranspose(4, 3, **options), (5, 6, 6)),
        (layers.Dense(7), (4, 6)),
    ]:
        expected = layer(keras.Input(shape)).shape
        (step,) = steps_of(layer)
        assert [None, *step.output_shape((1, *shape))[1:]] == list(expected), layer


def test_a_layer_that_computes_something_else_than_its_steps_is_refused():
    relu = layers.ReLU(name="culprit")
    relu.call = lambda a: ops.maximum(a, -1.0)
    part = keras.Sequential([keras.Input((7, 6, 6)), layers.Dropout(0.5), relu], name="part")
    with pytest.raises(DamagedInputError, match=r"'part/culprit' .ReLU. computes something else"):
        Explainer(network(lambda x: part(conv()(x))))

    class Doubled(keras.Model):
        def call(self, x, training=False):
            return 2 * super().call(x, training=training)

    x = keras.Input((4, 4, 3))
    with pytest.raises(DamagedInputError, match=r"'whole' .Doubled. computes something else"):
        Explainer(Doubled(x, layers.Dense(2)(layers.Flatten()(x)), name="whole"))
    model = network(lambda x: conv(name="first")(x))
    Explainer(model)
    model.get_layer("first").call = lambda a: 1 / 0
    Explainer(model)
