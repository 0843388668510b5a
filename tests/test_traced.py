"""Layers without a row of their own: what tracing makes of their operations, checked by hand."""

import re
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, ops
from naive import assert_near
from tensorflow.python.framework.ops import gradient_registry

from realtime_lrp import Explainer
from realtime_lrp.errors import DamagedInputError, UnavailableError
from realtime_lrp.relevance.maps.methods import METHODS
from realtime_lrp.relevance.maps.plan import Plan
from realtime_lrp.relevance.network.canonise import canonise
from realtime_lrp.relevance.network.graph import total
from realtime_lrp.relevance.reading.building import build_graph
from realtime_lrp.relevance.reading.layers import UnsupportedLayerError
from realtime_lrp.relevance.reading.operations import OPERATIONS
from realtime_lrp.relevance.rules.composites import Composite, any_layer
from realtime_lrp.relevance.rules.rules import Epsilon, LayerContext

SEED = 11


class Computed(layers.Layer):
    def __init__(self, function, **options):
        super().__init__(**options)
        self.function = function

    def call(self, a):
        return self.function(a)


class Weighted(layers.Layer):
    def __init__(self, function, *shapes, **options):
        super().__init__(**options)
        self.function, self.shapes = function, shapes

    def build(self, shape):
        self.own = [self.add_weight(shape=one, initializer="glorot_normal") for one in self.shapes]

    def call(self, a):
        return self.function(a, *self.own)


def graph_of(layer, shape=(4, 4, 6)):
    """The graph of a model of this layer alone, and the model."""
    x = keras.Input(shape)
    model = keras.Model(x, layer(x))
    graph = build_graph(model)
    canonise(graph)
    return graph, model


def handed_back(graph, x, begin):
    """The gradient and, by epsilon, the relevance that arrive at the input."""
    tensors = graph.forward(tf.constant(x, tf.float32))
    begin = tf.constant(begin, tf.float32)
    contexts = {node.output: LayerContext() for node in graph.with_weights}
    epsilon = Composite(((any_layer, Epsilon(1e-9)),))
    arrived = []
    for method in ("gradient", "lrp"):
        plan = Plan(METHODS[method], graph, composite=epsilon, contexts=contexts)
        parts = graph.backward(tensors, begin, plan.back)
        arrived.append(total(parts[0]).numpy() if parts[0] else np.zeros_like(x))
    return tensors[graph.output].numpy(), *arrived


def by_tape(model, x, begin):
    with tf.GradientTape() as tape:
        a = tf.constant(x, tf.float32)
        tape.watch(a)
        y = model(a)
    gradient = tape.gradient(y, a, tf.reshape(tf.constant(begin, tf.float32), y.shape))
    return y.numpy(), gradient.numpy()


def attention_in_windows(a):
    """Attention among the four pixels of each window: windows become a part of the batch."""
    a = ops.reshape(a, (ops.shape(a)[0], 2, 2, 2, 2, 6))
    a = ops.reshape(ops.transpose(a, (0, 1, 3, 2, 4, 5)), (-1, 4, 6))
    weights = ops.softmax(ops.matmul(a, ops.transpose(a, (0, 2, 1))))
    return ops.reshape(ops.matmul(weights, a), (-1, 4, 4, 6))


def attention_of_packed_heads(a):
    """Queries, keys and values are moved to the front together, as in timm and Swin."""
    a = ops.transpose(ops.reshape(a, (-1, 16, 3, 2, 1)), (2, 0, 3, 1, 4))
    query, key, value = ops.unstack(a, 3, axis=0)
    weights = ops.softmax(ops.matmul(query, ops.transpose(key, (0, 1, 3, 2))))
    return ops.reshape(ops.transpose(ops.matmul(weights, value), (0, 2, 1, 3)), (-1, 4, 4, 2))


def attention_of_joined_heads(a):
    """Heads are a part of the batch, as in ViTDet; a mask is made of updated zeros, as in Swin."""
    a = ops.transpose(ops.reshape(a, (-1, 16, 3, 2, 1)), (2, 0, 3, 1, 4))
    query, key, value = ops.unstack(ops.reshape(a, (3, -1, 16, 1)), 3, axis=0)
    mask = ops.slice_update(ops.zeros((16, 16)), (2, 2), ops.full((4, 4), -1.0))
    weights = ops.softmax(ops.matmul(query, ops.transpose(key, (0, 2, 1))) + mask)
    return ops.reshape(ops.matmul(weights, value), (-1, 2, 16))


def normalised(a):
    return (a - ops.mean(a, -1, keepdims=True)) / ops.sqrt(ops.var(a, -1, keepdims=True) + 1e-3)


MOVEMENTS = {
    "gather": lambda a: ops.take(a, [0, 2, 2], 1),
    "roll": lambda a: ops.roll(a, 1, 2),
    "flip": lambda a: ops.flip(a, 1),
    "slices": lambda a: a[:, 1:, ::2, 3],
    "tile": lambda a: ops.tile(a, (1, 2, 1, 1)),
    "pad": lambda a: ops.pad(a, [[0, 0], [1, 1], [0, 0], [0, 2]]),
    "reflect": lambda a: ops.pad(a, [[0, 0], [1, 1], [0, 0], [0, 0]], mode="reflect"),
    "transpose": lambda a: ops.transpose(a, (0, 3, 1, 2)),
    "reshape": lambda a: ops.reshape(a, (-1, 2, 8, 6)),
    "squeeze": lambda a: ops.squeeze(ops.expand_dims(a[:, :1], 2), 1),
    "broadcast": lambda a: ops.broadcast_to(a[:, :1], ops.shape(a)),
    "split": lambda a: ops.split(a, 3, -1)[1],
    "blocks": lambda a: tf.nn.space_to_depth(a, 2),
    "enlarged": lambda a: ops.image.resize(a, (8, 8), interpolation="nearest"),
    "stack": lambda a: ops.stack([a[..., :3], a[..., 3:]], 2),
    "concatenate": lambda a: ops.concatenate([a, a[:, ::-1]], 1),
    "each picture": lambda a: ops.map(lambda one: ops.flip(one, 0), a),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVEMENTS)
def test_moved_entries_take_their_relevance_along(name, rng):
    function = MOVEMENTS[name]
    graph, _ = graph_of(Computed(function))
    numbered = np.arange(1, 97, dtype=np.float32).reshape(1, 4, 4, 6)
    source = ops.convert_to_numpy(function(ops.convert_to_tensor(numbered))).astype(int).ravel()
    x = rng.normal(size=(2, 4, 4, 6))
    begin = rng.normal(size=(2, source.size)).reshape(2, *graph.output_shape)
    _, _, relevance = handed_back(graph, x, begin)
    for picture in range(2):
        by_hand = np.zeros(97)
        np.add.at(by_hand, source, begin[picture].ravel())
        np.testing.assert_allclose(relevance[picture].ravel(), by_hand[1:], atol=1e-5)


def best_pixels(a):
    """The two pixels with the largest first channel, best first, picked in each picture."""
    pixels = ops.reshape(a, (-1, 16, 6))
    best = ops.top_k(pixels[..., 0], 2)[1]
    return ops.map(lambda pair: ops.take(pair[0], pair[1], axis=0), (pixels, best))


def best_pixels_of_the_batch(a):
    """The same, picked among the pixels of all pictures, as deformable attention does."""
    best = ops.top_k(ops.reshape(a, (-1, 16, 6))[..., 0], 2)[1]
    begins = ops.expand_dims(ops.arange(ops.shape(a)[0]) * 16, 1)
    return ops.take(ops.reshape(a, (-1, 6)), best + begins, axis=0)


def where_first_is_positive(a):
    return a * ops.cast(ops.logical_not(a[..., :1] < 0), "float32")


@pytest.mark.parametrize("function", [best_pixels, best_pixels_of_the_batch])
def test_what_is_picked_by_a_choice_takes_its_relevance_along(function, rng):
    graph, _ = graph_of(Computed(function))
    x, begin = rng.normal(size=(3, 4, 4, 6)), rng.normal(size=(3, 2, 6))
    output, gradient, relevance = handed_back(graph, x, begin)
    by_hand = np.zeros((3, 16, 6))
    for picture, pixels in enumerate(x.reshape(3, 16, 6)):
        best = np.argsort(-pixels[:, 0])[:2]
        np.testing.assert_allclose(output[picture], pixels[best], rtol=1e-6)
        by_hand[picture, best] = begin[picture]
    for found in (gradient, relevance):
        np.testing.assert_allclose(found.reshape(3, 16, 6), by_hand, rtol=1e-6)


@pytest.mark.parametrize("method", ["gradient", "smoothgrad", "lrp"])
def test_a_map_of_what_only_chooses_is_zero(method, rng):
    x = keras.Input((4, 4, 6))
    places = Computed(lambda a: tf.cast(tf.math.top_k(tf.reshape(a, [-1, 96]), 4)[1], tf.float32))
    model = keras.Model(x, layers.Dense(3, activation="softmax")(places(x)))
    explainer = Explainer(model, method=method, samples=2)
    found = explainer(rng.normal(size=(2, 4, 4, 6)).astype(np.float32))
    assert found.scores.sum() == pytest.approx(2) and not found.relevance.any()


def test_a_mask_lets_relevance_through_and_takes_none(rng):
    graph, _ = graph_of(Computed(where_first_is_positive))
    x, begin = rng.normal(size=(2, 4, 4, 6)), rng.normal(size=(2, 4, 4, 6))
    output, _, relevance = handed_back(graph, x, begin)
    np.testing.assert_allclose(output, x * (x[..., :1] >= 0), rtol=1e-6)
    np.testing.assert_allclose(relevance, begin, rtol=1e-6)


SUMS = {
    "mean": Computed(lambda a: ops.mean(a, (1, 2))),
    "sum": Computed(lambda a: ops.sum(a, 1, keepdims=True)),
    "running sum": Computed(lambda a: ops.cumsum(a, 2)),
    "bilinear": layers.Resizing(3, 5),
    "bicubic": layers.UpSampling2D(interpolation="bicubic"),
    "constants left": Weighted(lambda a, w: tf.matmul(w, a), (3, 4)),
    "matrix": Weighted(lambda a, w, b: ops.matmul(a, w) + b, (6, 5), (5,)),
    "turned matrix": Weighted(lambda a, w: tf.matmul(a, w, transpose_b=True), (5, 6)),
    "flat matrix": Weighted(lambda a, w: tf.matmul(tf.reshape(a, (-1, 96)), w), (96, 5)),
    "tensordot": Weighted(lambda a, w: tf.tensordot(a, w, 1), (6, 5)),
    "heads": Weighted(lambda a, w, b: ops.einsum("abcd,def->abcef", a, w) + b, (6, 2, 3), (2, 3)),
    "joined heads": Weighted(lambda a, w: ops.einsum("abcd,cde->abe", a, w), (4, 6, 5)),
    "turned einsum": Weighted(lambda a, w: ops.einsum("abcd,be->aecd", a, w), (4, 3)),
    "one matrix each": Weighted(lambda a, w: ops.einsum("abcd,bde->abce", a, w), (4, 6, 2)),
    "convolution": Weighted(lambda a, w: tf.nn.conv2d(a, w, 2, "SAME") + 0.5, (3, 3, 6, 4)),
    "groups": Weighted(lambda a, w: tf.nn.conv2d(a, w, 1, "VALID"), (3, 3, 2, 6)),
    "depthwise": Weighted(
        lambda a, w: tf.nn.depthwise_conv2d(a, w, [1, 1, 1, 1], "SAME"), (3, 3, 6, 1)
    ),
    "padding in numbers": Weighted(
        lambda a, w: tf.nn.conv2d(a, w, 1, [[0, 0], [1, 0], [2, 1], [0, 0]]), (3, 3, 6, 4)
    ),
    "depthwise, padding in numbers": Weighted(
        lambda a, w: tf.nn.depthwise_conv2d(
            a, w, [1, 1, 1, 1], [[0, 0], [0, 2], [1, 1], [0, 0]]
        ), (3, 3, 6, 1)
    ),
    "average pool": Computed(lambda a: ops.average_pool(a, 2)),
    "difference": Computed(lambda a: a[..., :3] - a[..., 3:]),
    "broadcast sum": Computed(lambda a: a + ops.mean(a, (1, 2), keepdims=True)),
}  # fmt: skip


@pytest.mark.parametrize("name", SUMS)
def test_weighted_sums_share_in_proportion(name, rng):
    """One unit at a time gives the weights; a term's share is its part of the sum."""
    graph, model = graph_of(SUMS[name])
    x = rng.normal(size=(2, 4, 4, 6))
    bias = model(np.zeros((1, 4, 4, 6), np.float32)).numpy().ravel()
    units = np.eye(96, dtype=np.float32).reshape(96, 4, 4, 6)
    weights = model(units).numpy().reshape(96, -1) - bias
    begin = rng.normal(size=(2, len(bias))).reshape(2, *graph.output_shape)
    _, gradient, relevance = handed_back(graph, x, begin)
    scalar = name == "convolution"  # relevance passes where a single number is added
    for picture in range(2):
        terms = x[picture].reshape(-1, 1) * weights
        by_hand = (terms / (terms.sum(0) + (0 if scalar else bias)) * begin[picture].ravel()).sum(1)
        assert_near(relevance[picture].ravel(), by_hand, 1e-2)
        slopes = weights @ begin[picture].ravel()
        np.testing.assert_allclose(gradient[picture].ravel(), slopes, atol=1e-4)


ACTIVATIONS = {
    "swish": lambda a: a * ops.sigmoid(a), "gelu": lambda a: ops.gelu(a, approximate=False),
    "tanh gelu": ops.gelu, "squared relu": lambda a: ops.square(ops.relu(a)),
    "leaky": lambda a: ops.where(a > 0, a, 0.1 * a), "clipped": lambda a: ops.clip(a, -1, 1),
    "per channel": lambda a: a * np.linspace(1, 2, 6, dtype="float32"),
    "masked": lambda a: a * ops.cast(ops.arange(6) > 2, "float32"),
    "compiled": tf.function(lambda a: tf.nn.elu(a) * 2), "shifted": lambda a: 3 - a,
    "shape": lambda a: a / ops.cast(ops.shape(a)[1], "float32"),
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_relevance_passes_what_works_on_single_entries(name, rng):
    graph, model = graph_of(Computed(ACTIVATIONS[name]))
    assert len(graph.nodes) == 1
    x, begin = rng.normal(size=(2, 2, 4, 4, 6))
    output, gradient, relevance = handed_back(graph, x, begin)
    expected, by_tensorflow = by_tape(model, x, begin)
    np.testing.assert_allclose(output, expected, atol=1e-6)
    np.testing.assert_allclose(gradient, by_tensorflow, atol=1e-5)
    np.testing.assert_allclose(relevance, begin, atol=1e-6)


def test_only_the_numerator_of_a_quotient_receives_relevance(rng):
    x, begin = rng.normal(size=(2, 2, 4, 4, 6))
    graph, _ = graph_of(layers.UnitNormalization())
    np.testing.assert_allclose(handed_back(graph, x, begin)[2], begin, atol=1e-5)
    graph, _ = graph_of(Computed(lambda a: a[..., :3] / a[..., 3:]))
    relevance = handed_back(graph, x, begin[..., :3])[2]
    np.testing.assert_allclose(relevance[..., :3], begin[..., :3], rtol=1e-3)
    assert not relevance[..., 3:].any()


def test_a_normalisation_written_by_hand_has_a_constant_deviation(rng):
    graph, _ = graph_of(Computed(normalised))
    x, begin = rng.normal(size=(2, 1, 4, 4, 6))
    relevance = handed_back(graph, x, begin)[2].reshape(16, 6)
    for a, arriving, got in zip(x.reshape(16, 6), begin.reshape(16, 6), relevance, strict=True):
        terms = a[:, None] * (np.eye(6) - 1 / 6)  # the deviation cancels
        np.testing.assert_allclose(got, (terms / (a - a.mean()) * arriving).sum(1), rtol=1e-2)


def test_the_winner_takes_all_of_a_maximum(rng):
    x = rng.normal(size=(2, 4, 4, 6))
    begin = rng.normal(size=(2, 4, 4, 3))
    graph, _ = graph_of(Computed(lambda a: ops.maximum(a[..., :3], a[..., 3:])))
    relevance = handed_back(graph, x, begin)[2]
    first = x[..., :3] > x[..., 3:]
    np.testing.assert_allclose(relevance[..., :3], np.where(first, begin, 0), atol=1e-6)
    np.testing.assert_allclose(relevance[..., 3:], np.where(first, 0, begin), atol=1e-6)
    graph, _ = graph_of(Computed(lambda a: ops.max(a, -1)))
    relevance = handed_back(graph, x, begin[..., 0])[2]
    winners = x == x.max(-1, keepdims=True)
    np.testing.assert_allclose(relevance, winners * begin[..., :1], atol=1e-6)
    graph, _ = graph_of(Computed(lambda a: ops.max_pool(a, 4)))
    relevance = handed_back(graph, x, np.ones((2, 1, 1, 6)))[2]
    np.testing.assert_array_equal(relevance, x == x.max((1, 2), keepdims=True))


def test_a_product_of_two_matrices_of_the_picture_gives_each_half(rng):
    """Each term a_ik b_kj of a sum counts for both of its factors."""
    graph, _ = graph_of(Computed(lambda a: ops.matmul(a[:, 0, :, :3], a[:, 1, :3, :4])))
    x, begin = rng.normal(size=(1, 4, 4, 6)), rng.normal(size=(1, 4, 4))
    relevance = handed_back(graph, x, begin)[2][0]
    a, b = x[0, 0, :, :3], x[0, 1, :3, :4]
    by_hand_a, by_hand_b = np.zeros((4, 3)), np.zeros((3, 4))
    for i, k, j in np.ndindex(4, 3, 4):
        share = a[i, k] * b[k, j] / (a @ b)[i, j] * begin[0, i, j]
        by_hand_a[i, k] += share / 2
        by_hand_b[k, j] += share / 2
    np.testing.assert_allclose(relevance[0, :, :3], by_hand_a, rtol=1e-2)
    np.testing.assert_allclose(relevance[1, :3, :4], by_hand_b, rtol=1e-2)


def test_attention_weights_only_let_through(rng):
    def attention(a):
        return ops.einsum("bij,bjk->bik", ops.softmax(a[:, 0, :, :4]), a[:, 1])

    graph, _ = graph_of(Computed(attention))
    x, begin = rng.normal(size=(1, 4, 4, 6)), rng.normal(size=(1, 4, 6))
    relevance = handed_back(graph, x, begin)[2][0]
    weights = np.exp(x[0, 0, :, :4])
    weights /= weights.sum(1, keepdims=True)
    values = x[0, 1]
    by_hand = values * (weights.T @ (begin[0] / (weights @ values)))
    np.testing.assert_allclose(relevance[1], by_hand, rtol=1e-2)
    assert not relevance[0].any()


def test_a_constant_among_joined_tensors_takes_what_arrives_at_it(rng):
    """A class token: its relevance is booked as that of biases, so that the account closes."""

    def with_token(a, token):
        tokens = ops.reshape(a, (-1, 16, 6))
        token = ops.broadcast_to(token, (ops.shape(a)[0], 1, 6))
        return ops.concatenate([token, tokens], 1)

    x = keras.Input((4, 4, 6))
    tokens = Weighted(with_token, (1, 1, 6), name="tokens")(x)
    model = keras.Model(x, layers.Dense(3, activation="softmax")(layers.Flatten()(tokens)))
    pictures = rng.normal(size=(2, 4, 4, 6)).astype(np.float32)
    explainer = Explainer(model, composite="epsilon", target=1)
    (record,) = [one for one in explainer.layers(pictures) if one.kind == "ConcatV2"]
    assert np.abs(record.taken_by_biases).min() > 1e-3
    np.testing.assert_allclose(record.lost, 0, atol=1e-3)


def test_a_border_of_a_constant_takes_what_arrives_at_it(rng):
    for value in (0.7, 0.0):
        x = keras.Input((4, 4, 2))
        border = Computed(lambda a, v=value: tf.pad(a, [[0, 0], [1, 1], [1, 1], [0, 0]],
                                                    constant_values=v))(x)  # fmt: skip
        model = keras.Model(x, layers.Dense(3)(layers.Flatten()(border)))
        explainer = Explainer(model, composite="epsilon", target=1)
        records = explainer.layers(rng.normal(size=(2, 4, 4, 2)).astype(np.float32))
        (record,) = [one for one in records if one.kind in ("Pad", "PadV2")]
        assert (np.abs(record.taken_by_biases).min() > 1e-3) == (value > 0)
        np.testing.assert_allclose(record.lost, 0, atol=1e-3)


def test_every_operation_has_a_gradient():
    for kind in OPERATIONS.keys() - {"Snapshot", "IsFinite", "IsInf", "IsNan"}:
        gradient_registry.lookup(kind)  # raises an error if there is none


GRADIENTS = {
    "not a number": Computed(lambda a: tf.where(tf.math.is_nan(a), 0.0, a * tf.abs(a))),
    "windows": Computed(attention_in_windows), "packed heads": Computed(attention_of_packed_heads),
    "joined heads": Computed(attention_of_joined_heads), "norm": Computed(normalised),
    "power": Computed(lambda a: ops.exp(a) ** ops.sin(a)),
    "stopped": Computed(lambda a: a + ops.stop_gradient(a) * ops.sin(a)),
    "squared difference": Computed(lambda a: ops.square(a - ops.mean(a, -1, keepdims=True))),
    "gated": Computed(lambda a: a[..., :3] * ops.sigmoid(a[..., 3:])),
    "masked": Computed(where_first_is_positive), "sorted": Computed(lambda a: ops.top_k(a, 6)[0]),
    "rms": layers.RMSNormalization(), "group": layers.GroupNormalization(2, axis=1),
    "layer norm": layers.LayerNormalization(axis=(1, 2)),
    "batch norm": layers.BatchNormalization(axis=1),
    "pool": layers.MaxPooling2D(data_format="channels_first"),
    "lambda": layers.Lambda(lambda a: a * 2 + ops.relu(a), output_shape=lambda shape: shape),
}  # fmt: skip


@pytest.mark.parametrize("name", GRADIENTS)
def test_outputs_and_gradients_are_those_of_tensorflow(name, rng):
    graph, model = graph_of(GRADIENTS[name])
    model.set_weights([rng.uniform(0.5, 1, size=one.shape) for one in model.get_weights()])
    graph = build_graph(model)
    x = rng.normal(size=(3, 4, 4, 6))
    begin = rng.normal(size=(3, *graph.output_shape))
    output, gradient, relevance = handed_back(graph, x, begin)
    expected, by_tensorflow = by_tape(model, x, begin)
    np.testing.assert_allclose(output, expected, atol=1e-5)
    assert_near(gradient, by_tensorflow, 1e-4)
    assert np.isfinite(relevance).all()


class Network(keras.Model):
    """A subclassed model: a custom block of Keras layers, called twice, and a head."""

    def __init__(self, **options):
        super().__init__(**options)
        self.block, self.head = Block(name="block"), layers.Dense(3, name="head")

    def call(self, a, training=False):
        return self.head(ops.mean(self.block(self.block(a), training=training), (1, 2)))


class Block(layers.Layer):
    def build(self, shape):
        self.conv = layers.Conv2D(shape[-1], 3, padding="same", name="conv")
        self.norm, self.drop = layers.BatchNormalization(name="norm"), layers.Dropout(0.5)
        self.conv.build(shape)
        self.norm.build(shape)

    def call(self, a, training=False):
        return a + self.drop(ops.relu(self.norm(self.conv(a))), training=training)


def functional_twin(network):
    a = x = keras.Input((6, 6, 4))
    for _ in range(2):
        a = layers.Add()([a, layers.ReLU()(network.block.norm(network.block.conv(a)))])
    return keras.Model(x, network.head(layers.GlobalAveragePooling2D()(a)))


def test_a_subclassed_model_has_the_maps_of_its_functional_twin(rng):
    network = Network()
    pictures = rng.normal(size=(2, 6, 6, 4)).astype(np.float32)
    network(pictures)
    network.set_weights([rng.uniform(-0.5, 1, size=one.shape) for one in network.get_weights()])
    network.block.norm.moving_variance.assign(np.full(4, 2.0))
    options = {"also": ["epsilon_alpha2_beta1_flat", "grad_cam", "guided_backprop"], "target": 1}
    ours = Explainer(network, **options)(pictures)
    twin = Explainer(functional_twin(network), **options)(pictures)
    np.testing.assert_allclose(ours.scores, twin.scores, atol=1e-5)
    np.testing.assert_allclose(ours.relevance, twin.relevance, rtol=1e-3, atol=1e-5)
    for name, map_ in ours.maps.items():
        np.testing.assert_allclose(map_, twin.maps[name], rtol=1e-3, atol=1e-4, err_msg=name)


def test_layers_inside_have_names_and_rules(rng):
    network = Network()
    pictures = rng.normal(size=(1, 6, 6, 4)).astype(np.float32)
    network(pictures)
    explainer = Explainer(network, layers={"block/conv": "flat", "head": "gamma(0.5)"})
    rules = {record.name: record.rule for record in explainer.layers(pictures)}
    assert rules["block/conv"] == rules["block/conv:2"] == "flat"
    assert rules["head"] == "gamma(0.5)"
    assert {"block/AddV2", "block/Relu", "Mean"} <= rules.keys()


def test_tracing_leaves_layers_and_settings_as_they_were(rng):
    network = Network()
    network(rng.normal(size=(1, 6, 6, 4)).astype(np.float32))
    threads = [threading.Thread(target=build_graph, args=(network,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with pytest.raises(UnsupportedLayerError):
        graph_of(Computed(lambda a: layers.Dropout(0.5)(a, training=True)))
    assert not tf.config.functions_run_eagerly()
    assert all("call" not in vars(layer) for layer in network._flatten_layers())


REFUSED = {
    "random": (Computed(lambda a: a + keras.random.normal((4, 4, 6))), "random numbers"),
    "loop": (Computed(lambda a: tf.while_loop(
        lambda n, _: n < 3, lambda n, b: (n + 1, 2 * b), (0, a))[1]), "control flow"),
    "unknown": (Computed(tf.nn.local_response_normalization), "LRN has no rule"),
    "batch": (Computed(lambda a: a - tf.reduce_mean(a, 0, keepdims=True)), "mixes the pictures"),
    "later pictures only": (Computed(lambda a: tf.cumsum(a, 0)), "mixes the pictures"),
    "size of batch": (
        Computed(lambda a: a / tf.cast(tf.shape(a)[0], tf.float32)), "how many are in the batch"
    ),
    "kernel": (
        Computed(lambda a: tf.nn.conv2d(a, a[0, :2, :2, :, None], 1, "SAME")),
        "weights that depend on the picture",
    ),
    "activation": (layers.Dense(2, activation="threshold"), "ACTIVATIONS"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_explained_is_refused_in_a_line(name):
    layer, words = REFUSED[name]
    layer.name = "culprit"
    with pytest.raises(UnsupportedLayerError, match=re.escape(words)) as refusal:
        graph_of(layer)
    message = str(refusal.value)
    assert message.count("\n") == 0 and len(message) < 400
    assert f"'culprit' ({type(layer).__name__})" in message
    assert re.search("add a row to (LAYERS|ACTIVATIONS|OPERATIONS)", message)
    assert refusal.value.exit_code == 65


def test_what_is_refused_beside_says_where_or_what_to_do():
    inner = Computed(tf.nn.local_response_normalization, name="inner")
    with pytest.raises(UnsupportedLayerError, match="LRN in 'inner'"):
        graph_of(Computed(inner, name="outer"))
    with pytest.raises(UnsupportedLayerError, match=r"keras.Input\(\(height, width, channels"):
        graph_of(Computed(lambda a: a * ops.sigmoid(a)), (None, None, 3))
    with pytest.raises(DamagedInputError, match="Call it on a batch"):
        Explainer(Network())
    x = keras.Input((512, 512, 3))
    pixels = layers.Reshape((512 * 512, 3))(x)
    attended = layers.MultiHeadAttention(1, 2, name="all")(pixels, pixels)
    with pytest.raises(UnavailableError, match=r"'all'.*too large for this machine"):
        build_graph(keras.Model(x, attended))


def test_training_is_switched_off(rng):
    x = keras.Input((6, 6, 4))
    scores = layers.Dense(3)(layers.Flatten()(Block()(x, training=True)))
    explainer = Explainer(keras.Model(x, scores), "gradient", target=0)
    picture = rng.normal(size=(1, 6, 6, 4))
    np.testing.assert_array_equal(explainer.scores(picture), explainer.scores(picture))
