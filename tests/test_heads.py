"""What a network ends in: scores as it returns them, gradients of logits, the same by all doors."""

import os
import subprocess
from pathlib import Path

import cv2
import keras
import numpy as np
import onnx
import pytest
import tensorflow as tf
from keras import layers, ops
from media import SHARED, needs_files
from naive import assert_near, gradient_of
from onnx.reference import ReferenceEvaluator
from onnx_files import node, numbers, written

from realtime_lrp import Explainer, load_network
from realtime_lrp.errors import DamagedInputError, UsageError
from realtime_lrp.video.reader import VideoReader

X = np.random.default_rng(7).uniform(-1, 1, (3, 12, 12, 3)).astype("float32")


def randomise(model):
    rng = np.random.default_rng(3)
    for weight in model.weights:
        scale = np.sqrt(2 / max(np.prod(weight.shape[:-1]), 1)) if len(weight.shape) > 1 else 0.5
        weight.assign(rng.normal(size=weight.shape) * scale)
    return model


def features(x):
    for _ in range(2):
        x = layers.Conv2D(6, 3, activation="relu")(x)
    return layers.GlobalAveragePooling2D()(x)


def network(head, units=4):
    x = keras.Input((12, 12, 3))
    z = layers.Dense(units, name="z")(features(x))
    return randomise(keras.Model(x, head(z))), keras.Model(x, z)


def written_softmax(z):
    powers = ops.exp(z - ops.max(z, -1, keepdims=True))
    return powers / ops.sum(powers, -1, keepdims=True)


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
    "one less": lambda z: z[:, 1:], "reordered": lambda z: z[:, [3, 1, 0, 2]],
    "reordered sigmoids": lambda z: z[:, [2, 0, 0]], "the other side": lambda z: -z,
}  # fmt: skip


@pytest.mark.parametrize("name", HEADS)
def test_probabilities_are_known_however_they_are_written(name):
    model, logits = network(HEADS[name])
    found = Explainer(model, composite="epsilon", target=1, also=["gradient"])(X)
    np.testing.assert_allclose(found.scores, model(X), atol=1e-6)
    z = LOGITS.get(name, np.asarray)(logits(X).numpy())
    starts = np.where(z[:, 1] < 0, -1, 1) * found.scores[:, 1]
    account = found.accounts["epsilon"]
    np.testing.assert_allclose(account.started, starts, rtol=1e-5)
    np.testing.assert_allclose(account.lost, 0, atol=1e-3)
    column = {"one less": 2, "reordered sigmoids": 0}.get(name, 1)
    sign = -1 if name == "the other side" else 1
    wanted = gradient_of(lambda x: sign * logits(x)[:, column], X)
    assert_near(found.maps["gradient"], wanted, 1e-4)


@pytest.mark.parametrize("head", [ops.log_softmax, lambda z: ops.log(written_softmax(z))])
def test_log_probabilities_are_shown_as_probabilities(head):
    model, _ = network(head)
    np.testing.assert_allclose(Explainer(model)(X).scores, np.exp(model(X)), atol=1e-6)


UNKNOWN = {
    "product": lambda z: ops.sigmoid(z[:, :2]) * ops.sigmoid(z[:, 2:]),
    "softplus": lambda z: ops.softplus(z) / ops.sum(ops.softplus(z), -1, keepdims=True),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_lies_between_0_and_1_by_itself_gets_no_softmax(name, caplog):
    model, _ = network(UNKNOWN[name])
    own = model(X).numpy()
    np.testing.assert_allclose(Explainer(model)(X).scores, own, atol=1e-6)
    assert "between 0 and 1" in caplog.text
    other = Explainer(model, scores="logits")(X).scores
    np.testing.assert_allclose(other, tf.nn.softmax(own), atol=1e-6)


def test_an_embedding_gets_no_softmax(caplog):
    for head in (layers.UnitNormalization(), ops.tanh):
        model, _ = network(head)
        np.testing.assert_allclose(Explainer(model)(X).scores, model(X), atol=1e-6)
        assert "between -1 and 1" in caplog.text
        caplog.clear()


def test_the_larger_of_two_sigmoids_keeps_its_logits_sign():
    x = keras.Input((12, 12, 3))
    z = layers.Dense(8)(features(x))
    model = randomise(keras.Model(x, ops.maximum(ops.sigmoid(z[:, :4]), ops.sigmoid(z[:, 4:]))))
    both = keras.Model(x, z)(X).numpy()
    larger = np.maximum(both[:, :4], both[:, 4:])
    for target in range(4):
        explainer = Explainer(model, composite="epsilon", target=target)
        expected = np.where(larger < 0, -1, 1)[:, target] * model(X)[:, target]
        np.testing.assert_allclose(explainer(X).accounts["epsilon"].started, expected, rtol=1e-5)


def test_logits_get_a_softmax_unless_the_user_says_otherwise():
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
        assert_near(ours.relevance, wanted.relevance, 1e-5)
    gradients = [Explainer(model, "gradient", target=n)(X).relevance for n in (0, 1)]
    np.testing.assert_allclose(gradients[0], -gradients[1], atol=1e-6)


JOINED = {
    "product": (layers.Multiply, 1, layers.Activation("sigmoid")),
    "mean of sigmoids": (layers.Average, 1, layers.Activation("sigmoid")),
    "mean of softmaxes": (layers.Average, 4, layers.Softmax()),
}


@pytest.mark.parametrize("name", JOINED)
def test_each_part_of_an_ensemble_keeps_the_sign_of_its_logit(name):
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
        assert_near(found.relevance, wanted, 1e-4)
    (account,) = found.accounts.values()
    np.testing.assert_allclose(account.lost, 0, atol=1e-4)


def test_of_several_outputs_the_answer_is_explained_through_every_door(tmp_path, caplog):
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
    assert "'race_class' is explained; --output chooses another: 'age', 'features'" in caplog.text


def test_two_labels_name_the_classes_of_one_sigmoid():
    model, _ = network(ops.sigmoid, units=1)
    explainer = Explainer(model, labels=["closed", "open"], target="closed - open")
    assert explainer.read_target("open").classes == (1,)
    with pytest.raises(DamagedInputError, match="two classes"):
        Explainer(model, labels=["open"])


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 4), (4, 1)])
def test_axes_of_length_one_are_left_out(shape):
    model, logits = network(lambda z: ops.reshape(z, (-1, *shape)), 4 if 4 in shape else 1)
    explainer = Explainer(model, composite="epsilon", output_activation="linear", target=0)
    np.testing.assert_allclose(explainer(X).scores, logits(X), atol=1e-6)


def saved(door, model, folder):
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


@pytest.mark.parametrize(("units", "activation"), [
    (1, "sigmoid"), (5, "softmax"), *(pytest.param(*one, marks=pytest.mark.release) for one in (
        (1, "linear"), (2, "sigmoid"), (2, "softmax"), (2, "linear"), (5, "sigmoid"), (5, "linear"),
    )),
])  # fmt: skip
def test_a_network_is_the_same_through_every_door(units, activation, tmp_path):
    x = keras.Input((12, 12, 3))
    model = randomise(keras.Model(x, layers.Dense(units, activation)(features(x))))
    for door in ("keras", "h5", "saved_model", "onnx", "tflite"):
        network = saved(door, model, tmp_path)
        for composite in ("epsilon", "zplus"):
            wanted, found = (
                Explainer(one, composite=composite, target=0)(X) for one in (model, network)
            )
            np.testing.assert_allclose(found.scores, wanted.scores, atol=1e-5, err_msg=door)
            assert_near(found.relevance, wanted.relevance, 1e-4, door)


RELUS = {
    "maximum": lambda a: ops.maximum(a, 0.0),
    "where": lambda a: ops.where(a > 0, a, 0.0),
    "product": lambda a: a * ops.cast(a > 0, "float32"),
    "in one layer": layers.Lambda(lambda a: tf.where(a > 0, a, 0.0)),
    "clip": layers.Lambda(lambda a: tf.minimum(tf.maximum(a, 0.0), 6.0)),
}


@pytest.mark.parametrize("name", RELUS)
def test_guided_backprop_finds_relus_in_operations_of_their_own(name):
    def guided(relu):
        x = keras.Input((12, 12, 3))
        a = relu(layers.Conv2D(5, 3)(layers.ReLU()(layers.Conv2D(4, 3)(x))))
        model = randomise(keras.Model(x, layers.Dense(3, "softmax")(layers.Flatten()(a))))
        return Explainer(model, "guided_backprop", target=1)(X).relevance

    ours = guided(RELUS[name])
    wanted = guided(layers.ReLU(6) if name == "clip" else layers.ReLU())
    assert_near(ours, wanted, 1e-5)
    leaky = guided(layers.Lambda(lambda a: tf.maximum(a, 0.1 * a)))
    assert np.abs(leaky - wanted).max() > 0.1 * np.abs(wanted).max()


F = np.float32
PLACES, CLASSES = 48, 3
SHAPE = [1, 3, 12, 16]


def begin(classes=CLASSES):
    """Nodes and constants of middles, sizes, corners in pixels and logits at 48 places."""
    rows, columns = np.mgrid[:6, :8].reshape(2, 1, PLACES, 1)
    arrays = {
        "w": numbers(8, 3, 2, 2), "head": numbers(4 + classes, 8, 1, 1, seed=1),
        "bias": np.zeros(4 + classes, F),
        "grid": np.concatenate([columns, rows], -1).astype(F) * 2 + 1, "half": F(0.5),
        "flat": np.array([1, 4 + classes, PLACES]), "parts": np.array([2, 2, classes]),
        "extent": F([16, 12, 16, 12]), "many": np.array([9]), "third": F([0.3]), "wide": F(4),
        "one": np.array([1]), "two": np.array([2]), "to": np.array([1, 9, 4]),
    }  # fmt: skip
    nodes = [
        node("Conv", "x w", "a", strides=[2, 2]), node("Relu", "a", "b"),
        node("Conv", "b head bias", "c"), node("Reshape", "c flat", "d"),
        node("Transpose", "d", "e", perm=[0, 2, 1]), node("Split", "e parts", "m s logits", axis=2),
        node("Tanh", "m", "m1"), node("Add", "m1 grid", "middle"), node("Sigmoid", "s", "s1"),
        node("Mul", "s1 wide", "size"), node("Mul", "size half", "r"),
        node("Sub", "middle r", "low"), node("Add", "middle r", "high"),
        node("Concat", "low high", "corners", axis=2), node("Sigmoid", "logits", "scores"),
    ]  # fmt: skip
    return nodes, arrays


LAST = {
    "corners": ([node("Identity", "corners", "boxes")], {"boxes": [1, PLACES, 4], "scores": None}),
    "middle": (
        [node("Concat", "middle size", "z", axis=2), node("Div", "z extent", "pred_boxes")],
        {"logits": None, "pred_boxes": [1, PLACES, 4]},
    ),
    "yolov5": ([node("Concat", "middle size scores", axis=2)], {"out": [1, PLACES, 7]}),
    "yolo and angles": (
        [node("Concat", "middle size scores m1", "y", axis=2),
         node("Transpose", "y", "out", perm=[0, 2, 1])],
        {"out": [1, 9, PLACES]},
    ),
    "end to end": (
        [node("ReduceMax", "scores two", "best", keepdims=0), node("TopK", "best many", "v i"),
         node("Unsqueeze", "i two", "i1"), node("Expand", "i1 to", "i4"),
         node("GatherElements", "corners i4", "near", axis=1), node("Unsqueeze", "v two", "v1"),
         node("ArgMax", "scores", "n", axis=2, keepdims=0),
         node("GatherElements", "n i", "n1", axis=1),
         node("Cast", "n1", "n2", to=1), node("Unsqueeze", "n2 two", "n3"),
         node("Concat", "near v1 n3", axis=2)],
        {"out": [1, 9, 6]},
    ),
    "suppressed": (
        [node("Transpose", "scores", "t", perm=[0, 2, 1]),
         node("NonMaxSuppression", "corners t many third", "kept")],
        {"kept": ["n", 3]},
    ),
}  # fmt: skip
"""Form -> its last nodes and its outputs."""


def detector_file(path, form, background=""):
    nodes, arrays = begin(2 if background else CLASSES)
    last, outputs = LAST[form]
    if background:
        nodes[-1] = node("Softmax", "logits", "scores", axis=2)
        arrays["bias"][4 if background == "first" else 5] = 1
    return written(path, [*nodes, *last], arrays, SHAPE, outputs, opset=18)


@pytest.mark.parametrize(("form", "background"), [
    *((one, "") for one in LAST), ("corners", "first"), ("corners", "last"),
])  # fmt: skip
def test_boxes_and_scores_are_found(tmp_path, rng, form, background, caplog):
    path = detector_file(tmp_path / "net.onnx", form, background)
    network = load_network(path, preprocess="none")
    assert "a detector" in caplog.text
    x = rng.normal(size=(1, 12, 16, 3)).astype(F)
    model = onnx.load(path)
    del model.graph.output[:]
    model.graph.output.extend(
        onnx.helper.make_tensor_value_info(name, 1, None) for name in ("corners", "scores")
    )
    boxes, scores = ReferenceEvaluator(model).run(None, {"x": x.transpose(0, 3, 1, 2)})
    if form == "yolov5":
        scores = scores[..., :1] * scores[..., 1:]
    if background:
        scores = scores[..., 1:] if background == "first" else scores[..., :1]
    found = network.model(x)
    np.testing.assert_allclose(found["boxes"], boxes[..., [1, 0, 3, 2]], atol=1e-4)
    np.testing.assert_allclose(found["scores"], scores, atol=1e-5)
    best = Explainer(network, composite="epsilon").detections(x, top=1, threshold=0)
    place, label = divmod(scores[0].argmax(), scores.shape[2])
    assert (best.places[0, 0], best.labels[0, 0]) == (place, label)
    assert best.maps.sum() + best.taken[0, 0] == pytest.approx(scores.max(), rel=0.02)
    names = load_network(path, preprocess="none", labels=["none", "face"]).labels
    assert names == {"first": ["face"], "last": ["none"]}.get(background, ["none", "face"])


def test_yolo_of_a_single_class_is_a_detector(tmp_path):
    nodes, arrays = begin(1)
    path = written(
        tmp_path / "net.onnx", [*nodes, *LAST["yolo and angles"][0]], arrays, SHAPE,
        {"out": [1, 7, PLACES]}, opset=18,
    )  # fmt: skip
    assert load_network(path, preprocess="none").model.output["scores"].shape == (None, PLACES, 1)


REFUSED = {
    "boxes that are chosen": (
        [node("ReduceMax", "scores two", "best", keepdims=0), node("Greater", "best third", "sure"),
         node("NonZero", "sure", "kept")],
        {"scores": [1, PLACES, 2], "kept": None}, "whose form is not known",
    ),
    "offsets": (
        [node("Transpose", "d", "q", perm=[0, 2, 1]), node("Slice", "q zero four two", "boxes")],
        {"boxes": [1, PLACES, 4], "scores": None}, "are offsets to places",
    ),
    "cells": (
        [node("Reshape", "d map", "q"), node("Split", "q some", "q1 q2", axis=1),
         node("Sigmoid", "q1", "q3"), node("Concat", "q3 q2", axis=1)],
        {"out": [1, 7, 6, 8]}, "made in several ways",
    ),
    "coarse cells": (
        [node("Conv", "x w", "out", strides=[16, 16])],
        {"out": [1, 8, 4, 4]}, "stand for 16 pixels or more",
    ),
    "two grids": (
        [node("Identity", "c", "large"), node("MaxPool", "c", "small", kernel_shape=[2, 2])],
        {"large": None, "small": None}, "grids of several sizes",
    ),
    "classes, objects and boxes": (
        [node("Slice", "scores zero one two", "obj")],
        {"scores": None, "obj": [1, PLACES, 1], "corners": None}, "the same 48 places",
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", REFUSED)
def test_what_may_be_a_detector_of_no_known_form_is_refused(tmp_path, form):
    nodes, arrays = begin()
    last, outputs, words = REFUSED[form]
    arrays |= {
        "zero": np.array([0]), "four": np.array([4]), "two": np.array([2]),
        "map": np.array([1, 7, 6, 8]), "some": np.array([2, 5]),
    }  # fmt: skip
    shape = [1, 3, 64, 64] if form == "coarse cells" else SHAPE
    path = written(tmp_path / "net.onnx", [*nodes, *last], arrays, shape, outputs, opset=18)
    with pytest.raises(DamagedInputError, match=words) as raised:
        load_network(path, preprocess="none")
    assert "--output" in str(raised.value) and len(str(raised.value).splitlines()) <= 2
    assert not load_network(path, preprocess="none", output=next(iter(outputs))).detects


ANSWERS = {
    "best": ([node("Softmax", "v", "p"), node("TopK", "p three", "best which")],
             ["best", "which"], "p"),
    "winner": ([node("ArgMax", "v", "winner", axis=1)], ["winner"], "v"),
    "beside": ([node("Relu", "v", "features"), node("Identity", "v", "label_scores")],
               ["features", "label_scores"], "v"),
    "first": ([node("Relu", "v", "one"), node("Neg", "v", "other")], ["one", "other"], "one"),
    "odd": ([node("Reshape", "v odd", "out")], ["out"], "v"),
}  # fmt: skip


@pytest.mark.parametrize("form", ANSWERS)
def test_the_output_that_looks_like_the_answer_is_explained(tmp_path, rng, form, caplog):
    last, outputs, answer = ANSWERS[form]
    arrays = {"w": numbers(5, 3, 2, 2), "three": np.array([3]), "odd": np.array([1, 1, 5, 1])}
    nodes = [
        node("Conv", "x w", "a"), node("GlobalAveragePool", "a", "b"), node("Flatten", "b", "v"),
        *last,
    ]  # fmt: skip
    outputs = dict.fromkeys(outputs)
    path = written(tmp_path / "net.onnx", nodes, arrays, SHAPE, outputs, opset=17)
    network = load_network(path, preprocess="none")
    assert ("is explained" in caplog.text) == (form != "odd")
    model = onnx.load(path)
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info(answer, 1, None))
    x = rng.normal(size=(2, 12, 16, 3)).astype(F)
    for one, found in zip(x, network.model(x), strict=True):
        (expected,) = ReferenceEvaluator(model).run(None, {"x": one[None].transpose(0, 3, 1, 2)})
        np.testing.assert_allclose(found, expected[0], atol=1e-5)


@needs_files
def test_a_real_face_detector_finds_the_face():
    """Its boxes are corners from 0 to 1, the first of its two classes is the background."""
    network = load_network(str(SHARED / "models" / "face_slim_320.onnx"), preprocess="-1..1")
    explainer = Explainer(network, composite="epsilon_plus_flat")
    with VideoReader(SHARED / "media" / "person.mkv") as frames:
        pictures = [cv2.resize(one.picture, (320, 240)) for one in frames][::30]
    for number, picture in enumerate(pictures):
        found = explainer.detections(network.prepare(picture[None]), top=1)
        assert found.count[0] == 1 and found.scores[0, 0] > 0.7
        if number == 1:
            assert found.scores[0, 0] == pytest.approx(0.995, abs=2e-3)
            y0, x0, y1, x1 = found.boxes[0, 0] / [240, 320, 240, 320]
            np.testing.assert_allclose([x0, x1, y0, y1], [0.428, 0.513, 0.210, 0.365], atol=3e-3)
            assert found.inside[0, 0] > 0.5


@needs_files
@pytest.mark.parametrize(("name", "words"), [
    ("face_slim_320_raw", "are offsets to places"), ("FastestDet", "Grid cells are not classes"),
])  # fmt: skip
def test_real_files_without_their_decoding_are_refused(name, words):
    with pytest.raises(DamagedInputError, match=words):
        load_network(str(SHARED / "models" / "guests" / f"{name}.onnx"))


PYTHON = os.environ.get("TORCH_PYTHON", "")
needs_torch = pytest.mark.skipif(not PYTHON, reason="TORCH_PYTHON names no Python with PyTorch")

NETWORKS = (
    *(f"torchvision.{name}" for name in (
        "resnet18", "vgg11", "mobilenet_v3_small", "efficientnet_b0", "convnext_tiny",
        "densenet121", "regnet_y_400mf", "swin_t",
    )),
    "timm.vit_tiny_patch16_224", "timm.deit_tiny_patch16_224",
)  # fmt: skip


@pytest.mark.release
@needs_torch
@pytest.mark.parametrize(("exporter", "opset"), [("torchscript", 14), ("dynamo", 18)])
@pytest.mark.parametrize("name", NETWORKS)
def test_an_export_has_pytorchs_scores_and_gradients(tmp_path, name, exporter, opset):
    """The best of eight pictures counts; a wrong gradient is wrong on each of them.

    Float32 leaves ReLUs near 0 and nearly equal entries of max pools on the wrong side, which moves
    whole parts of a gradient: up to 5e-3 of DenseNet-121's, 1e-6 where nothing switches.
    """
    words = [PYTHON, Path(__file__).with_name("exporting.py"), name, exporter, str(opset)]
    subprocess.run([*words, tmp_path / "net"], check=True, capture_output=True)
    made = np.load(tmp_path / "net.npz")
    x, gradients = (made[key].transpose(0, 2, 3, 1) for key in ("x", "gradients"))
    network = load_network(str(tmp_path / "net.onnx"))
    atol = 1e-4 * np.abs(made["scores"]).max()
    np.testing.assert_allclose(network.model(x), made["scores"], rtol=0, atol=atol)
    explainer = Explainer(network, method="gradient", target=1, output_activation="linear")
    off = np.linalg.norm((explainer(x).relevance - gradients).reshape(8, -1), axis=1)
    off /= np.linalg.norm(gradients.reshape(8, -1), axis=1)
    assert off.min() < 1e-3 and off.max() < 1e-2, off


@pytest.mark.release
@needs_torch
@pytest.mark.parametrize("name", ["residual", "grouped", "plain"])
def test_an_export_has_zennits_maps(tmp_path, name):
    words = [PYTHON, Path(__file__).with_name("exporting.py"), f"small.{name}", "torchscript", "14"]
    subprocess.run([*words, tmp_path / "net"], check=True, capture_output=True)
    made = dict(np.load(tmp_path / "net.npz"))
    made.pop("beta_smooth")  # the only one that is not here
    x = made.pop("x").transpose(0, 2, 3, 1)
    network = load_network(str(tmp_path / "net.onnx"), preprocess="none")
    explainer = Explainer(
        network, also=list(made), target=1, start="logit", low=-3.0, high=3.0,
        output_activation="linear",
    )  # fmt: skip
    maps = explainer(x).maps
    assert len(made) == 8
    for kind, expected in made.items():
        expected = expected.transpose(0, 2, 3, 1)
        for one, other in zip(maps[kind], expected, strict=True):
            assert_near(one, other, 2e-4, kind)
