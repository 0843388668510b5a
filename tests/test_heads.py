"""What a network ends in: scores as it returns them, gradients of logits, the same by all doors."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, ops
from onnx_files import node, written

from realtime_lrp import Explainer, load_network
from realtime_lrp.errors import DamagedInputError, UsageError

X = np.random.default_rng(7).uniform(-1, 1, (3, 12, 12, 3)).astype("float32")


def randomise(model):
    """Gives a model strong biases and uneven weights."""
    rng = np.random.default_rng(3)
    for weight in model.weights:
        scale = np.sqrt(2 / max(np.prod(weight.shape[:-1]), 1)) if len(weight.shape) > 1 else 0.5
        weight.assign(rng.normal(size=weight.shape) * scale)
    return model


def features(x):
    """A vector of six features."""
    for _ in range(2):
        x = layers.Conv2D(6, 3, activation="relu")(x)
    return layers.GlobalAveragePooling2D()(x)


def network(head, units=4):
    """Models of scores and of the logits before them."""
    x = keras.Input((12, 12, 3))
    z = layers.Dense(units, name="z")(features(x))
    return randomise(keras.Model(x, head(z))), keras.Model(x, z)


def written_softmax(z):
    powers = ops.exp(z - ops.max(z, -1, keepdims=True))
    return powers / ops.sum(powers, -1, keepdims=True)


def fully_convolutional(z):
    a = layers.Reshape((1, 1, 4))(z)
    return layers.Activation("softmax")(layers.Conv2D(4, 1)(a))


HEADS = {
    "softmax": lambda z: layers.Softmax()(z),
    "softmax by hand": written_softmax,
    "softmax by logsumexp": lambda z: ops.exp(z - ops.logsumexp(z, -1, keepdims=True)),
    "sigmoid by hand": lambda z: 1 / (1 + ops.exp(-z)),
    "sigmoid by tanh": lambda z: 0.5 * ops.tanh(0.5 * z) + 0.5,
    "one less": lambda z: layers.Softmax()(z)[:, 1:],
    "reordered": lambda z: ops.take(layers.Softmax()(z), [3, 1, 0, 2], axis=1),
    "reordered sigmoids": lambda z: ops.take(ops.sigmoid(z), [2, 0, 0], axis=1),
    "the other side": lambda z: 1 - ops.sigmoid(z),
}
LOGITS = {
    "one less": lambda z: z[:, 1:],
    "reordered": lambda z: z[:, [3, 1, 0, 2]],
    "reordered sigmoids": lambda z: z[:, [2, 0, 0]],
    "the other side": lambda z: -z,
}


@pytest.mark.parametrize("name", HEADS)
def test_probabilities_are_known_however_they_are_written(name):
    """Scores are the model's, gradients the logit's, and relevance is accounted for."""
    model, logits = network(HEADS[name])
    explainer = Explainer(model, composite="epsilon", target=1, also=["gradient"])
    found = explainer(X)
    np.testing.assert_allclose(found.scores, model(X), atol=1e-6)
    z = LOGITS.get(name, np.asarray)(logits(X).numpy())
    starts = np.where(z[:, 1] < 0, -1, 1) * found.scores[:, 1]
    account = found.accounts["epsilon"]
    np.testing.assert_allclose(account.started, starts, rtol=1e-5)
    np.testing.assert_allclose(account.lost, 0, atol=1e-3)
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = logits(x)
        value = -value if name == "the other side" else value
        column = {"one less": 2, "reordered sigmoids": 0}.get(name, 1)
        chosen = value[:, column]
    wanted = tape.gradient(chosen, x).numpy()
    np.testing.assert_allclose(found.maps["gradient"], wanted, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("head", [ops.log_softmax, lambda z: ops.log(written_softmax(z))])
def test_log_probabilities_are_shown_as_probabilities(head):
    """Both by the operation and by hand."""
    model, _ = network(head)
    np.testing.assert_allclose(Explainer(model)(X).scores, np.exp(model(X)), atol=1e-6)


UNKNOWN = {
    "product": lambda z: ops.sigmoid(z[:, :2]) * ops.sigmoid(z[:, 2:]),
    "softplus": lambda z: ops.softplus(z) / ops.sum(ops.softplus(z), -1, keepdims=True),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_lies_between_0_and_1_by_itself_gets_no_softmax(name, caplog):
    """The log says why; `scores` decides otherwise."""
    model, _ = network(UNKNOWN[name])
    own = model(X).numpy()
    np.testing.assert_allclose(Explainer(model)(X).scores, own, atol=1e-6)
    assert "between 0 and 1" in caplog.text
    other = Explainer(model, scores="logits")(X).scores
    np.testing.assert_allclose(other, tf.nn.softmax(own), atol=1e-6)


def test_an_embedding_gets_no_softmax(caplog):
    """Nor any other values that lie between -1 and 1 whatever the last weights give."""
    for head in (layers.UnitNormalization(), ops.tanh):
        model, _ = network(head)
        np.testing.assert_allclose(Explainer(model)(X).scores, model(X), atol=1e-6)
        assert "between -1 and 1" in caplog.text
        caplog.clear()


def test_the_larger_of_two_sigmoids_keeps_its_logits_sign():
    """It starts in the direction of the larger logit."""
    x = keras.Input((12, 12, 3))
    z = layers.Dense(8)(features(x))
    model = randomise(keras.Model(x, ops.maximum(ops.sigmoid(z[:, :4]), ops.sigmoid(z[:, 4:]))))
    both = keras.Model(x, z)(X).numpy()
    larger = np.maximum(both[:, :4], both[:, 4:])
    for target in range(4):
        started = (
            Explainer(model, composite="epsilon", target=target)(X).accounts["epsilon"].started
        )
        np.testing.assert_allclose(
            started, np.where(larger < 0, -1, 1)[:, target] * model(X)[:, target], rtol=1e-5
        )


def test_logits_get_a_softmax_unless_the_user_says_otherwise():
    """Values without a limit; contradictions and a second softmax are refused."""
    model, _ = network(lambda z: z)
    values = model(X).numpy()
    np.testing.assert_allclose(Explainer(model)(X).scores, tf.nn.softmax(values), atol=1e-6)
    np.testing.assert_allclose(
        Explainer(model, scores="probabilities")(X).scores, values, atol=1e-6
    )
    with pytest.raises(UsageError, match="contradict"):
        Explainer(model, scores="probabilities", output_activation="softmax")
    for head in (layers.Softmax(), lambda z: layers.Reshape((1, 1, 4))(layers.Softmax()(z))):
        with pytest.raises(UsageError, match="ends in a softmax already"):
            Explainer(network(head)[0], scores="logits")
    with pytest.raises(UsageError, match="logits"):
        Explainer(model, scores="logit")


ONE_SIGMOID = {
    "activation": lambda z: ops.sigmoid(z),
    "by hand": lambda z: 1 / (1 + ops.exp(-z)),
    "both sides": lambda z: ops.concatenate([1 - ops.sigmoid(z), ops.sigmoid(z)], -1),
}


@pytest.mark.parametrize("composite", ["epsilon", "zplus"])
@pytest.mark.parametrize("name", ONE_SIGMOID)
def test_one_sigmoid_is_two_classes(name, composite):
    """Its scores are [1 - p, p], and its maps those of a layer with the logits [-z, z]."""
    model, logits = network(ONE_SIGMOID[name], units=1)
    x, z = model.inputs[0], logits.get_layer("z")
    two = layers.Dense(2, "sigmoid")
    twin = keras.Model(x, two(z.input))
    kernel, bias = z.get_weights()
    two.set_weights([np.concatenate([-kernel, kernel], 1), np.concatenate([-bias, bias])])
    for target in (0, 1, "top1", "1 - 0"):
        ours, wanted = (
            Explainer(one, composite=composite, target=target)(X) for one in (model, twin)
        )
        np.testing.assert_allclose(ours.scores, wanted.scores, atol=1e-6)
        largest = np.abs(wanted.relevance).max()
        np.testing.assert_allclose(ours.relevance, wanted.relevance, atol=1e-5 * largest)
    gradients = [Explainer(model, "gradient", target=n)(X).relevance for n in (0, 1)]
    np.testing.assert_allclose(gradients[0], -gradients[1], atol=1e-6)


JOINED = {
    "product": (layers.Multiply, 1, layers.Activation("sigmoid")),
    "mean of sigmoids": (layers.Average, 1, layers.Activation("sigmoid")),
    "mean of softmaxes": (layers.Average, 4, layers.Softmax()),
}


@pytest.mark.parametrize("name", JOINED)
def test_each_part_of_an_ensemble_keeps_the_sign_of_its_logit(name):
    """Its map is half of each part's; one value, also of a product, is two classes."""
    join, units, scores = JOINED[name]
    x = keras.Input((12, 12, 3))
    f = features(x)
    parts = [randomise(keras.Model(x, scores(layers.Dense(units)(f)))) for _ in range(2)]
    for part, bias in zip(parts, (-3.0, -1.0), strict=True):
        part.layers[-2].bias.assign([bias] * units)
    ensemble = keras.Model(x, join()([one.output for one in parts]))
    found, first, second = (
        Explainer(one, composite="epsilon", target=1)(X) for one in (ensemble, *parts)
    )
    assert found.scores.shape == (3, max(units, 2))
    np.testing.assert_allclose(found.scores[:, -1], ensemble(X)[:, -1], rtol=1e-5)
    if name != "product":
        wanted = (first.relevance + second.relevance) / 2
        np.testing.assert_allclose(found.relevance, wanted, atol=1e-4 * np.abs(wanted).max())
    (account,) = found.accounts.values()
    np.testing.assert_allclose(account.lost, 0, atol=1e-4)


def test_of_several_outputs_the_answer_is_explained_through_every_door(tmp_path, caplog):
    """A vector, by its name before others; a line says which."""
    x = keras.Input((12, 12, 3))
    f = features(x)
    outputs = {"features": layers.Dense(5)(f), "age": layers.Dense(1)(f),
               "race_class": layers.Dense(4, "softmax")(f)}  # fmt: skip
    model = randomise(keras.Model(x, outputs))
    model.save(tmp_path / "net.keras")
    model.export(tmp_path / "net", verbose=False)
    converter = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path / "net"))
    (tmp_path / "net.tflite").write_bytes(converter.convert())
    for name in ("net.keras", "net", "net.tflite"):
        found = load_network(str(tmp_path / name), preprocess="none").model(X)
        np.testing.assert_allclose(found, model(X)["race_class"], atol=1e-5)
    np.testing.assert_allclose(Explainer(model)(X).scores, found, atol=1e-5)
    assert caplog.text.count("is the output 'race_class'; there are 'age', 'features'") >= 1


def test_two_labels_name_the_classes_of_one_sigmoid():
    """A single label is refused in a line that says why."""
    model, _ = network(ops.sigmoid, units=1)
    explainer = Explainer(model, labels=["closed", "open"], target="closed - open")
    assert explainer.read_target("open").classes == (1,)
    with pytest.raises(DamagedInputError, match="two classes"):
        Explainer(model, labels=["open"])


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 4), (4, 1)])
def test_axes_of_length_one_are_left_out(shape):
    """A regression that returns [B], and vectors of any shape."""
    units = 4 if 4 in shape else 1
    model, logits = network(lambda z: ops.reshape(z, (-1, *shape)), units)
    explainer = Explainer(model, composite="epsilon", output_activation="linear", target=0)
    np.testing.assert_allclose(explainer(X).scores, logits(X), atol=1e-6)


def saved(door, model, folder):
    """The network that a model's file is read as."""
    path = {"saved_model": folder / "net"}.get(door, folder / f"net.{door}")
    if door == "saved_model":
        model.export(path, verbose=False)
    elif door == "onnx":
        onnx_file(path, model)
    elif door == "tflite":
        path.write_bytes(tf.lite.TFLiteConverter.from_keras_model(model).convert())
    else:
        model.save(path)
    return load_network(str(path), preprocess="none")


def onnx_file(path, model):
    """What PyTorch's exporter writes of such a network, without PyTorch."""
    arrays = {}
    for layer in model.layers:
        if layer.weights:
            kernel, bias = layer.get_weights()
            kernel = kernel.transpose(3, 2, 0, 1) if kernel.ndim == 4 else kernel
            arrays |= {f"k{len(arrays) // 2}": kernel, f"b{len(arrays) // 2}": bias}
    last = model.layers[-1].activation.__name__.capitalize().replace("Linear", "Identity")
    nodes = [
        node("Conv", "x k0 b0", "c0"), node("Relu", "c0", "r0"),
        node("Conv", "r0 k1 b1", "c1"), node("Relu", "c1", "r1"),
        node("GlobalAveragePool", "r1", "p"), node("Flatten", "p", "f"),
        node("MatMul", "f k2", "m"), node("Add", "m b2", "z"), node(last, "z", "out"),
    ]  # fmt: skip
    written(path, nodes, arrays, ["b", 3, 12, 12])


FEW = [(1, "sigmoid"), (5, "softmax")]
MORE = [(1, "linear"), (2, "sigmoid"), (2, "softmax"), (2, "linear"), (5, "sigmoid"), (5, "linear")]


@pytest.mark.parametrize(
    ("units", "activation"),
    [*FEW, *(pytest.param(*one, marks=pytest.mark.release) for one in MORE)],
)
def test_a_network_is_the_same_through_every_door(units, activation, tmp_path):
    """Scores to 1e-5 and maps to 1e-4, for logits of both signs."""
    x = keras.Input((12, 12, 3))
    model = randomise(keras.Model(x, layers.Dense(units, activation)(features(x))))
    for door in ("keras", "h5", "saved_model", "onnx", "tflite"):
        network = saved(door, model, tmp_path)
        for composite in ("epsilon", "zplus"):
            wanted, found = (
                Explainer(one, composite=composite, target=0)(X) for one in (model, network)
            )
            np.testing.assert_allclose(found.scores, wanted.scores, atol=1e-5, err_msg=door)
            largest = np.abs(wanted.relevance).max()
            np.testing.assert_allclose(
                found.relevance, wanted.relevance, atol=1e-4 * largest, err_msg=door
            )


RELUS = {
    "maximum": lambda a: ops.maximum(a, 0.0),
    "where": lambda a: ops.where(a > 0, a, 0.0),
    "product": lambda a: a * ops.cast(a > 0, "float32"),
    "in one layer": layers.Lambda(lambda a: tf.where(a > 0, a, 0.0)),
    "clip": layers.Lambda(lambda a: tf.minimum(tf.maximum(a, 0.0), 6.0)),
}


@pytest.mark.parametrize("name", RELUS)
def test_guided_backprop_finds_relus_in_operations_of_their_own(name):
    """The map is that of the network with ReLU layers; a leaky one is none."""

    def guided(relu):
        x = keras.Input((12, 12, 3))
        a = relu(layers.Conv2D(5, 3)(layers.ReLU()(layers.Conv2D(4, 3)(x))))
        model = randomise(keras.Model(x, layers.Dense(3, "softmax")(layers.Flatten()(a))))
        return Explainer(model, "guided_backprop", target=1)(X).relevance

    ours = guided(RELUS[name])
    wanted = guided(layers.ReLU(6) if name == "clip" else layers.ReLU())
    np.testing.assert_allclose(ours, wanted, atol=1e-5 * np.abs(wanted).max())
    leaky = guided(layers.Lambda(lambda a: tf.maximum(a, 0.1 * a)))
    assert np.abs(leaky - wanted).max() > 0.1 * np.abs(wanted).max()
