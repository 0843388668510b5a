"""`--model FOLDER`: SavedModels are read as data, and only operations that compute are run."""

import os
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from naive import assert_near
from tensorflow.core.protobuf import saved_model_pb2

from realtime_lrp import Explainer, load_network
from realtime_lrp.errors import DamagedInputError, MissingInputError, UsageError
from realtime_lrp.models.names import model_files
from realtime_lrp.models.untrusted import saved_model
from realtime_lrp.models.untrusted.saved_model import CALLS, DROPPED, OF_CONSTANTS
from realtime_lrp.relevance.reading.building import build_graph
from realtime_lrp.relevance.reading.operations import OPERATIONS

PICTURES = tf.TensorSpec([None, 8, 8, 3], tf.float32)
SIDE_FILE = "side-effect.txt"


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A convolutional network with batch norms, and the folder to which Keras exports it."""
    keras.utils.set_random_seed(1)
    normal = "random_normal"
    model = keras.Sequential([keras.Input((8, 8, 3))], name="net")
    for layer in (
        layers.Conv2D(4, 3, padding="same", use_bias=False, name="first"),
        layers.BatchNormalization(beta_initializer=normal, moving_mean_initializer=normal),
        layers.ReLU(),
        layers.DepthwiseConv2D(3, activation="relu", bias_initializer=normal, name="second"),
        layers.Dropout(0.5), layers.Flatten(), layers.Dense(3, "softmax", name="third"),
    ):  # fmt: skip
        model.add(layer)
    folder = tmp_path_factory.mktemp("saved") / "net"
    model.export(str(folder), verbose=False)
    return model, folder


class Computed(tf.Module):
    """A module of one variable, to be saved with any function."""

    def __init__(self):
        super().__init__()
        self.weights = tf.Variable(tf.reshape(tf.range(12.0), [3, 4]) - 5)

    def vector(self, x):
        return tf.reduce_mean(x, [1, 2]) @ self.weights


def saved(folder, compute, *specs, **signatures):
    """Saves a function (module, x) under the default signature; returns the folder."""
    module = Computed()

    def signature(compute, specs):
        return tf.function(lambda *x: compute(module, *x), input_signature=specs)

    functions = {
        name: signature(*pair)
        for name, pair in {"serving_default": (compute, specs or (PICTURES,)), **signatures}.items()
        if pair[0]
    }
    tf.saved_model.save(module, str(folder), signatures=functions)
    return str(folder)


def test_an_exported_network_is_explained_as_in_keras(exported, rng):
    model, folder = exported
    x = rng.normal(size=(2, 8, 8, 3)).astype(np.float32)
    network = load_network(str(folder), preprocess="none")
    for options in ({"method": "gradient"}, {"composite": "epsilon_plus"}):
        explainer = Explainer(network, target=1, **options)
        ours, expected = explainer(x), Explainer(model, target=1, **options)(x)
        np.testing.assert_allclose(ours.scores, expected.scores, atol=1e-6)
        assert_near(ours.relevance, expected.relevance, 1e-4)
    names = [name.split("/")[2].rstrip("_1") for name in explainer.rules_by_layer]
    assert names == ["first", "second", "third"]
    files = model_files(str(folder), None, None)
    assert all(path.is_file() for path in files.values()), files
    assert list(files) == ["model", "weights"]


def test_dilated_convolutions_of_each_channel_have_the_maps_that_they_have_in_keras(tmp_path):
    """TensorFlow divides them in blocks, with a border that fits and another that is cut."""
    x = keras.Input((13, 16, 3))
    h = keras.layers.DepthwiseConv2D(3, dilation_rate=2, padding="same", activation="relu")(x)
    h = keras.layers.DepthwiseConv2D(2, dilation_rate=3, depth_multiplier=2)(h)
    model = keras.Model(x, keras.layers.Dense(3, "softmax")(keras.layers.Flatten()(h)))
    model.export(tmp_path / "a", verbose=False)
    network = load_network(str(tmp_path / "a"), preprocess="none")
    pictures = np.random.default_rng(0).normal(size=(3, 13, 16, 3)).astype(np.float32)
    ours, wanted = (Explainer(one, composite="zplus", target=1)(pictures)
                    for one in (network.model, model))  # fmt: skip
    np.testing.assert_allclose(ours.scores, wanted.scores, atol=1e-5)
    assert_near(ours.relevance, wanted.relevance, 1e-4)


def test_a_depthwise_convolution_with_a_border_and_a_bias_computes(tmp_path, rng):
    """TensorFlow 2.21 joins the two on processors with AVX-512, and would end this process."""
    kernel = rng.normal(size=(3, 3, 3, 1)).astype(np.float32)

    def compute(module, x, padding=((0, 0), (1, 0), (1, 1), (0, 0))):
        held = tf.nn.depthwise_conv2d(x, kernel, [1, 1, 1, 1], padding)
        return tf.reduce_mean(tf.nn.relu(tf.nn.bias_add(held, [0.1, 0.2, 0.3])), [1, 2])

    x = rng.normal(size=(2, 8, 8, 3)).astype(np.float32)
    model = load_network(saved(tmp_path / "net", compute), preprocess="none").model
    padded = np.pad(x, ((0, 0), (1, 0), (1, 1), (0, 0)))
    np.testing.assert_allclose(model(x), compute(None, padded, "VALID"), atol=1e-6)
    assert Explainer(model, output_activation="linear")(x).relevance.shape == x.shape


def transformer(rng):
    """One block of attention between normalisations of all kinds, no weight of them 0."""
    x = keras.Input((8, 8, 3))
    h = layers.Reshape((4, 6))(layers.Conv2D(6, 4, 4)(x))
    a = layers.LayerNormalization(epsilon=1e-2)(h)
    h = h + layers.MultiHeadAttention(2, 3)(a, a)
    h = h + layers.Dense(6, activation="gelu")(layers.LayerNormalization(axis=(1, 2))(h))
    h = layers.LayerNormalization(center=False, scale=False)(h)
    model = keras.Model(x, layers.Dense(3, activation="softmax")(layers.Flatten()(h)))
    for weight in model.weights:
        weight.assign(rng.normal("gamma" in weight.path, 0.3, size=weight.shape))
    return model


def normalised(rng):
    """Batch norms before sums and convolutions, a group norm, and what prepares the picture."""
    x = keras.Input((8, 8, 3))
    h = layers.Normalization(mean=[0.1, 0.2, 0.3], variance=[1, 2, 3])(x)
    h = layers.Rescaling([2, 3, 4], [0.1, 0.2, 0.3])(h)
    h = layers.BatchNormalization()(layers.Conv2D(6, 3, padding="same")(h))  # folded back
    h = layers.Add()([h, layers.BatchNormalization(scale=False)(h)])  # stays
    h = layers.Conv2D(4, 3)(layers.BatchNormalization()(h))  # folded into the next
    h = layers.ReLU()(layers.BatchNormalization()(layers.AveragePooling2D(2)(h)))
    h = layers.GroupNormalization(2)(layers.Conv2D(4, 2)(h))
    h = layers.BatchNormalization(center=False)(layers.Flatten()(h))
    model = keras.Model(x, layers.Dense(3, activation="softmax")(h))
    for weight in model.weights:
        positive = "variance" in weight.path or "gamma" in weight.path
        weight.assign(np.abs(rng.normal(positive, 0.3, size=weight.shape)))
    return model


@pytest.mark.parametrize(("build", "also", "tolerance"), [
    (transformer, ["attnlrp", "gradient"], 1e-4),
    (normalised, ["epsilon_plus_flat", "epsilon", "attnlrp"], 1e-5),
])  # fmt: skip
def test_normalisations_are_known_again(build, also, tolerance, tmp_path, rng):
    model = build(rng)
    model.export(str(tmp_path / "net"), verbose=False)
    network = load_network(str(tmp_path / "net"), preprocess="none")
    x = rng.normal(size=(3, 8, 8, 3)).astype(np.float32)
    ours, expected = (Explainer(one, also=also, target=1)(x).maps for one in (network.model, model))
    for name in also:
        assert_near(ours[name], expected[name], tolerance, name)


def test_what_only_resembles_a_layer_normalisation_is_explained_by_its_operations(tmp_path, rng):
    """A share of the mean comes back: scores are right, and nothing is taken for a layer."""

    def compute(module, x):
        mean = tf.reduce_mean(x, -1, keepdims=True)
        variance = tf.reduce_mean(tf.math.squared_difference(x, mean), -1, keepdims=True)
        return module.vector((x - mean) * tf.math.rsqrt(variance + 1.0) + 0.2 * mean)

    folder = saved(tmp_path / "net", compute)
    x = rng.normal(size=(2, 8, 8, 3)).astype(np.float32)
    graph = build_graph(load_network(folder, preprocess="none").model)
    expected = compute(Computed(), tf.constant(x))
    np.testing.assert_allclose(graph.forward(tf.constant(x))[graph.output], expected, atol=1e-5)
    assert any("Rsqrt" in node.layer for node in graph.nodes)


def test_bytes_are_taken_as_they_are(tmp_path, caplog):
    folder = saved(
        tmp_path / "bytes",
        lambda module, x: module.vector(tf.cast(x, tf.float32) / 255),
        tf.TensorSpec([None, None, None, 3], tf.uint8),
    )
    with pytest.raises(UsageError, match="--size"):
        load_network(folder)
    network = load_network(folder, size=(4, 6))
    assert network.model.input_shape == (None, 4, 6, 3)
    assert (network.name, network.warning, caplog.text) == ("bytes", "", "")
    x = np.full((1, 4, 6, 3), (255, 0, 51), np.float32)
    logits = np.array([1, 0, 0.2]) @ (np.arange(12.0).reshape(3, 4) - 5)
    explanation = Explainer(network, method="gradient", target=3)(x)
    np.testing.assert_allclose(
        explanation.scores[0], np.exp(logits) / np.exp(logits).sum(), rtol=1e-5
    )
    expected = np.array([-2, 2, 6]) / (255 * 24)
    np.testing.assert_allclose(explanation.relevance[0, 0, 0], expected, rtol=1e-4)


MOVES = {
    "reversed": lambda x: x[..., ::-1],
    "channels first": lambda x: tf.transpose(x, [0, 3, 1, 2]),
    "padded": lambda x: tf.pad(x[:, 1:], [[0, 0], [2, 0], [0, 0], [0, 0]]),
    "joined": lambda x: tf.concat([x[:, 2:], x[:, :2]], 1),
}


@pytest.mark.parametrize("name", MOVES)
def test_bytes_that_are_moved_take_their_relevance_along(name, tmp_path, rng):
    maps, x = [], rng.integers(0, 256, (2, 4, 4, 3)).astype(np.float32)
    for kind in (tf.uint8, tf.float32):
        size = 4 * 4 * 3 + 12 * (name == "padded")
        kernel = tf.constant(np.random.default_rng(3).normal(size=(size, 4)), tf.float32)

        def compute(_, x, kernel=kernel, size=size):
            moved = tf.cast(MOVES[name](x), tf.float32) / 255
            return tf.nn.relu(tf.reshape(moved, [-1, size])) @ kernel

        folder = saved(tmp_path / kind.name, compute, tf.TensorSpec([None, 4, 4, 3], kind))
        network = load_network(folder, preprocess="none")
        maps.append(Explainer(network, composite="epsilon", target=1)(x).relevance)
    assert np.abs(maps[0]).max() > 1e-4
    np.testing.assert_allclose(*maps, atol=1e-6)


def test_the_signature_and_the_output_follow_rules(tmp_path):
    folder = saved(
        tmp_path / "a",
        lambda m, x: {"z": tf.sort(x), "a": m.vector(x)},
        other=(lambda m, x: m.vector(x) * 2, (PICTURES,)),
    )
    x = np.ones((1, 8, 8, 3), np.float32)
    weights = np.arange(12.0).reshape(3, 4) - 5
    np.testing.assert_allclose(load_network(folder).model(x)[0], weights.sum(0))
    only = saved(tmp_path / "b", None, mine=(lambda m, x: m.vector(x) * 2, (PICTURES,)))
    np.testing.assert_allclose(load_network(only).model(x)[0], 2 * weights.sum(0))


def _writes(module, x):
    tf.io.write_file(SIDE_FILE, "written")
    return module.vector(x)


def _reads(module, x):
    return module.vector(x + tf.cast(tf.strings.length(tf.io.read_file("/etc/passwd")), tf.float32))


REFUSED = {
    "a file that is written": (_writes, "the operation WriteFile"),
    "a file that is read": (_reads, "which does more than to compute"),
    "without a rule": (lambda m, x: tf.math.polygamma(1.0, m.vector(x)), "which has no rule"),
    "random numbers": (
        lambda m, x: m.vector(x + tf.random.normal([8, 8, 3])),
        "the operation RandomStandardNormal",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_operations_that_do_more_than_compute_are_refused(tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    compute, expected = REFUSED[case]
    folder = saved(tmp_path / "model", compute)
    with pytest.raises(DamagedInputError, match=expected) as raised:
        load_network(folder)
    assert len(str(raised.value).splitlines()) == 1
    assert not (tmp_path / SIDE_FILE).exists()


def _calls_itself(graph):
    for function in graph.graph_def.library.function:
        for node in function.node_def:
            if node.op in CALLS:
                node.attr["f"].func.name = function.signature.name


def _claims(graph):
    for node in graph.object_graph_def.nodes:
        if node.WhichOneof("kind") == "variable":
            node.variable.shape.dim[0].size = 10**9


def _splat(graph):
    for function in graph.graph_def.library.function:
        for node in function.node_def:
            if node.op == "Const":
                del node.attr["value"].tensor.tensor_shape.dim[:]
                node.attr["value"].tensor.tensor_shape.dim.add().size = 10**10


DAMAGE = {
    "no signatures": (lambda g: g.signature_def.clear(), "has no signature"),
    "calls itself": (_calls_itself, "its functions call themselves"),
    "variables that it does not hold": (_claims, "claim"),
    "constants of any size": (_splat, "its constants claim"),
    "no functions": (lambda g: g.graph_def.ClearField("library"), "is damaged"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_or_hostile_file_is_refused(tmp_path, case):
    change, expected = DAMAGE[case]
    folder = saved(tmp_path / "model", lambda m, x: m.vector(x * 2))
    path, model = tmp_path / "model" / "saved_model.pb", saved_model_pb2.SavedModel()
    model.ParseFromString(path.read_bytes())
    change(model.meta_graphs[0])
    path.write_bytes(model.SerializeToString())
    with pytest.raises(DamagedInputError, match=expected) as raised:
        load_network(folder)
    assert len(str(raised.value).splitlines()) == 1


def test_missing_and_damaged_files_are_refused(tmp_path):
    folder = saved(tmp_path / "model", lambda m, x: m.vector(x))
    with pytest.raises(UsageError, match="has its own weights"):
        load_network(folder, "random")
    variables = tmp_path / "model" / "variables"
    for name in ("variables.index", "variables.data-00000-of-00001"):
        data = (variables / name).read_bytes()
        (variables / name).unlink()
        os.mkfifo(variables / name)
        with pytest.raises(DamagedInputError, match=f"{name} is no regular file"):
            load_network(folder)
        (variables / name).unlink()
        (variables / name).write_bytes(data)
    for path in variables.iterdir():
        path.unlink()
    with pytest.raises(DamagedInputError, match="its files hold 0"):
        load_network(folder)
    with pytest.raises(MissingInputError):
        load_network(str(tmp_path / "none" / "model"))
    with pytest.raises(DamagedInputError, match=r"holds no saved_model\.pb"):
        load_network(str(tmp_path))
    (tmp_path / "metadata.json").touch()
    with pytest.raises(UsageError, match="--model hub:/"):
        load_network(str(tmp_path))


def test_cut_files_are_refused(exported, tmp_path):
    for number, end in enumerate((".index", ".data-00000-of-00001", "saved_model.pb")):
        folder = shutil.copytree(exported[1], tmp_path / str(number))
        (path,) = (one for one in folder.rglob("*") if one.name.endswith(end))
        for kept in (0.999, 0.5):
            path.write_bytes(path.read_bytes()[: int(path.stat().st_size * kept)])
            with pytest.raises(DamagedInputError, match=r"damaged|its files hold|no SavedModel"):
                load_network(str(folder))


CONSTANTS = {
    "of a known shape": (lambda m: tf.fill([100_000, 100_000], 1.0), "Fill .* too large"),
    "of a computed shape": (
        lambda m: tf.fill(tf.cast((m.weights * 50_000)[1:, 3], tf.int32), 1.0),
        "Fill .* too large",
    ),
    "that cannot be computed": (
        lambda m: tf.gather(m.weights * 1, tf.cast(m.weights + 100, tf.int32)),
        "GatherV2 cannot be computed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CONSTANTS)
def test_constants_that_take_too_much_memory_are_not_computed(tmp_path, case):
    compute, expected = CONSTANTS[case]
    folder = saved(tmp_path / "model", lambda m, x: m.vector(x) + tf.reduce_mean(compute(m)))
    network = load_network(folder, preprocess="rescale")
    with pytest.raises(DamagedInputError, match=expected):
        Explainer(network)


def test_an_operation_with_a_row_is_taken_only_if_it_does_nothing_but_compute(monkeypatch):
    assert set(OF_CONSTANTS).isdisjoint({*OPERATIONS, *CALLS, *DROPPED})
    dangerous = "ReadFile PrintV2 PyFuncStateless StatelessWhile RandomUniform DecodeJpeg NoSuchOp"
    for name in ("Erfinv", *dangerous.split()):
        monkeypatch.setitem(OPERATIONS, name, OPERATIONS["Abs"])
    taken = {
        name
        for name in (*OPERATIONS, *OF_CONSTANTS)
        if saved_model._computes(saved_model.node_def_pb2.NodeDef(op=name))
    }
    assert taken == {*OPERATIONS, *OF_CONSTANTS}.difference(dangerous.split())


def in_a_chain(module, x):
    """Operations behind each other, and sums whose terms are the same chain."""
    for _ in range(200):
        x = tf.nn.relu(x) * 1.001
    for _ in range(40):
        x = 0.5 * x * tf.sigmoid(x)
    return module.vector(x)


def test_a_long_chain_of_operations_is_explained(tmp_path):
    network = load_network(saved(tmp_path / "long", in_a_chain), preprocess="none")
    x = np.ones((1, 8, 8, 3), np.float32)
    explainer = Explainer(network, target=1, composite="epsilon")
    np.testing.assert_allclose(explainer(x).scores, tf.nn.softmax(network.model(x)), rtol=1e-4)
