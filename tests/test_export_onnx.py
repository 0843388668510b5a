"""The explanation as an ONNX file gives what the explainer gives, by onnxruntime alone."""

import json
from pathlib import Path

import keras
import numpy as np
import onnx
import onnxruntime
import pytest
import tensorflow as tf
from keras import layers

from realtime_lrp.cli import cli
from realtime_lrp.config import Config
from realtime_lrp.config.names import COMPOSITES, METHODS
from realtime_lrp.engine.engine import Engine
from realtime_lrp.errors import DamagedInputError, UsageError
from realtime_lrp.export.file import exported, model_of, pictures, written

F = np.float32
FOLDERS = (one / "shared" / "models" for one in Path(__file__).resolve().parents)
SHARED = next(filter(Path.is_dir, FOLDERS), None)
CLASSES = 4
LOOPS = "smoothgrad", "integrated_gradients"
WAYS = [*COMPOSITES.known(), *(name for name in METHODS.known() if name not in ("lrp", *LOOPS))]


def session_of(file):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(F)


def whole(*shape, seed=0):
    """Small whole numbers, many of which are equal."""
    return np.random.default_rng(seed).integers(0, 4, shape).astype(F)


# operations -------------------------------------------------------------------------------------

A, B = numbers(1, 9, 10, 6), numbers(1, 9, 10, 6, seed=1)
POSITIVE = np.abs(A) + F(0.5)
ROWS4 = numbers(1, 3, 4, 5)


def back(kind, size, stride, padding, depthwise=False):
    """The way back through a convolution of 6 channels over 9 x 10 pixels."""
    kernel = numbers(*size, 6, 2 if depthwise else 7)
    forward = tf.nn.depthwise_conv2d if depthwise else tf.nn.conv2d
    out = forward(A, kernel, [1, stride, stride, 1], padding).shape
    sizes = [1, 9, 10, 6]

    def run(r):
        return kind(sizes, kernel, r, [1, stride, stride, 1], padding)

    return run, numbers(*out, seed=3)


def pooled_back(window, stride, padding, size=(9, 10)):
    a = whole(1, *size, 3)
    shape = tf.nn.max_pool2d(a, window, stride, padding).shape

    def run(a, r):
        z = tf.nn.max_pool2d(a, window, stride, padding)
        return tf.raw_ops.MaxPoolGrad(
            orig_input=a, orig_output=z, grad=r, ksize=[1, *window, 1],
            strides=[1, *stride, 1], padding=padding,
        )  # fmt: skip

    return run, a, numbers(*shape, seed=4)


def average_back(window, stride, padding):
    shape = tf.nn.avg_pool2d(A, window, stride, padding).shape

    def run(r):
        return tf.raw_ops.AvgPoolGrad(
            orig_input_shape=[1, 9, 10, 6], grad=r, ksize=[1, window, window, 1],
            strides=[1, stride, stride, 1], padding=padding,
        )  # fmt: skip

    return run, numbers(*shape, seed=5)


def conv_then(after, *more):
    """Something of a tensor whose channels come first in ONNX."""
    kernel = numbers(3, 3, 6, 6)
    return lambda a: after(tf.nn.conv2d(a, kernel, 1, "SAME"), *more), A


CONV_BACK, DEPTH_BACK = tf.nn.conv2d_transpose, tf.raw_ops.DepthwiseConv2dNativeBackpropInput


def conv_back(sizes, kernel, r, strides, padding):
    return tf.raw_ops.Conv2DBackpropInput(
        input_sizes=sizes, filter=kernel, out_backprop=r, strides=strides, padding=padding
    )


def depth_back(sizes, kernel, r, strides, padding):
    return DEPTH_BACK(
        input_sizes=sizes, filter=kernel, out_backprop=r, strides=strides, padding=padding
    )


def gradient_of(function):
    def run(a):
        with tf.GradientTape() as tape:
            tape.watch(a)
            z = function(a)
        return tape.gradient(z, a, output_gradients=tf.constant(B))

    return run, A


CASES = {
    "conv": conv_then(tf.identity),
    "conv, bias": conv_then(tf.nn.bias_add, numbers(6, seed=2)),
    "conv, stride, SAME": (lambda a: tf.nn.conv2d(a, numbers(3, 3, 6, 7), 2, "SAME"), A),
    "conv, groups": (lambda a: tf.nn.conv2d(a, numbers(3, 3, 2, 6), 1, "VALID"), A),
    "conv, dilated": (lambda a: tf.nn.conv2d(a, numbers(2, 3, 6, 5), 1, "SAME", dilations=2), A),
    "depthwise": (
        lambda a: tf.nn.depthwise_conv2d(a, numbers(3, 3, 6, 2), [1, 2, 2, 1], "SAME"), A,
    ),
    "conv back": back(conv_back, (3, 3), 1, "SAME"),
    "conv back, uneven": back(conv_back, (2, 5), 1, "VALID"),
    "conv back, stride": back(conv_back, (3, 3), 2, "SAME"),
    "conv back, stride, rest": back(conv_back, (3, 2), 3, "VALID"),
    "depthwise back": back(depth_back, (3, 3), 1, "SAME", True),
    "depthwise back, stride": back(depth_back, (3, 3), 2, "SAME", True),
    "max pool back": pooled_back((2, 2), (2, 2), "VALID"),
    "max pool back, overlapping": pooled_back((3, 3), (2, 2), "VALID"),
    "max pool back, edges": pooled_back((3, 3), (2, 2), "SAME"),
    "max pool back, every pixel": pooled_back((3, 3), (1, 1), "SAME"),
    "max pool back, uneven": pooled_back((3, 2), (1, 2), "VALID"),
    "max pool back, wide": pooled_back((5, 4), (2, 3), "SAME", (12, 11)),
    "max pool back, gaps": pooled_back((2, 2), (3, 3), "VALID", (11, 12)),
    "average pool": (lambda a: tf.nn.avg_pool2d(a, 3, 2, "SAME"), A),
    "average pool back": average_back(3, 2, "SAME"),
    "average pool back, rest": average_back(2, 2, "VALID"),
    "broadcast": conv_then(lambda z: z * tf.constant(numbers(6)) + tf.constant(numbers(10, 1))),
    "mean over places": conv_then(lambda z: tf.reduce_mean(z, [1, 2])),
    "mean over channels": conv_then(lambda z: tf.reduce_mean(z, -1, keepdims=True)),
    "sum of all": conv_then(lambda z: tf.reduce_sum(z, [1, 2, 3])),
    "concat": conv_then(lambda z: tf.concat([z, A], -1)),
    "split": conv_then(lambda z: tf.add(*tf.split(z, 2, -1))),
    "split uneven": conv_then(lambda z: tf.split(z, [1, 5], -1)[1]),
    "pack": (lambda a: tf.stack([a, 2 * a], 1), ROWS4),
    "unpack": (lambda a: tf.unstack(a, axis=2)[1], ROWS4),
    "reversed": (lambda a: a[..., ::-1], A),
    "strided": conv_then(lambda z: z[:, 1:8:3, ::2, 1]),
    "strided, negative": (lambda a: a[0, -4:-1, tf.newaxis, :, 2::-1], A),
    "slice": conv_then(lambda z: tf.slice(z, [0, 2, 1, 3], [1, 4, 5, 2])),
    "slice gradient": (
        lambda r: tf.raw_ops.StridedSliceGrad(
            shape=[1, 6, 4, 5], begin=[0, 2], end=[1, 5], strides=[1, 1], dy=r
        ), ROWS4,
    ),
    "pad": conv_then(lambda z: tf.pad(z, [[0, 0], [1, 2], [0, 3], [0, 0]], constant_values=2)),
    "pad, mirrored": conv_then(lambda z: tf.pad(z, [[0, 0], [1, 2], [2, 3], [0, 0]], "REFLECT")),
    "tile": conv_then(lambda z: tf.tile(z, [1, 2, 1, 3])),
    "transpose": conv_then(lambda z: tf.transpose(z, [0, 3, 1, 2])),
    "reshape": conv_then(lambda z: tf.reshape(z, [1, 90, 6])),
    "matrices": (lambda a: tf.matmul(a, a, transpose_b=True), ROWS4),
    "dense": (lambda a: tf.matmul(numbers(5, 4), tf.reshape(a, [12, 5]), True, True), ROWS4),
    "einsum": (lambda a: tf.einsum("bhqd,bhkd->bhqk", a, a), ROWS4),
    "gather": (lambda a: tf.gather(a, [2, 0], axis=2), ROWS4),
    "top k": (lambda a: tf.add(*(tf.cast(one, F) for one in tf.math.top_k(a, 3))), whole(2, 8)),
    "arg max": (lambda a: tf.cast(tf.argmax(a, -1), F), whole(2, 8)),
    "divide, 0": (tf.math.divide_no_nan, A, whole(1, 9, 10, 6)),
    "choose": (lambda a, b: tf.where((a > 0) & (a != b) | (b < 0), a, b), A, B),
    "bilinear": (lambda a: tf.image.resize(a, [20, 15]), A),
    "nearest": (lambda a: tf.image.resize(a, [18, 30], "nearest"), A),
    "relu gradient": gradient_of(tf.nn.relu),
    "relu6 gradient": gradient_of(lambda a: tf.nn.relu6(4 * a)),
    "roots' gradients": gradient_of(lambda a: tf.sqrt(a * a + 1) + tf.math.rsqrt(a * a + 1)),
    "sigmoid gradient": gradient_of(tf.sigmoid),
    "tanh gradient": gradient_of(tf.tanh),
    "elementwise": (
        lambda a: tf.math.rsqrt(a) + tf.math.erfc(a) - tf.square(a) / tf.math.log1p(a)
        + tf.math.expm1(-a) + tf.nn.leaky_relu(1 - a) * tf.nn.elu(1 - a), POSITIVE,
    ),
    "all, any": (
        lambda a: tf.cast(tf.reduce_all(a > -2, -1), F) + tf.cast(tf.reduce_any(a > 2, -1), F), A,
    ),
    "log softmax": (lambda a: tf.nn.log_softmax(a) + tf.nn.softmax(a), ROWS4),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_operation_computes_what_tensorflow_computes(case):
    """Rows of the table, with channels last and first, against TensorFlow itself."""
    function, *inputs = CASES[case]
    specs = [tf.TensorSpec(one.shape, name=f"i{n}") for n, one in enumerate(inputs)]
    file = model_of(written(lambda *given: (function(*given),), specs, ("out",)))
    onnx.checker.check_model(file, full_check=True)
    (out,) = session_of(file.SerializeToString()).run(
        None, {f"i{n}": one for n, one in enumerate(inputs)}
    )
    expected = function(*map(tf.constant, inputs)).numpy()
    np.testing.assert_allclose(out, expected, rtol=2e-5, atol=2e-5 * np.abs(expected).max())


def test_an_operation_without_a_row_is_refused_by_name():
    """The message names TensorFlow's operation."""
    spec = [tf.TensorSpec([2, 2], name="a")]
    with pytest.raises(DamagedInputError, match="MatrixInverse"):
        written(lambda a: (tf.linalg.inv(a),), spec, ("out",))


# networks ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A file: overlapping max pool, stride, depthwise convolution, two branches, batch norm."""
    keras.utils.set_random_seed(5)
    x = layers.Input((20, 20, 3))
    a = layers.Conv2D(6, 3, 2, "same", activation="relu")(x)
    a = layers.MaxPooling2D(3, 2, "same")(a)
    b = layers.DepthwiseConv2D(3, padding="same")(a)
    b = layers.Conv2D(6, 1)(layers.ReLU(6)(layers.BatchNormalization()(b)))
    c = layers.Concatenate()([layers.Add()([a, b]), a])
    y = layers.Dense(CLASSES)(layers.GlobalAveragePooling2D()(layers.Conv2D(8, 2)(c)))
    model = keras.Model(x, layers.Softmax()(y))
    for weight in model.weights:
        if "bias" in weight.path or "moving_mean" in weight.path or "beta" in weight.path:
            weight.assign(0.1 * numbers(*weight.shape))
    path = tmp_path_factory.mktemp("tiny") / "tiny.keras"
    model.save(path)
    return path


def engine_of(name, way, **model):
    lrp = {"composite": way} if way in COMPOSITES.known() else {"method": way}
    settings = {"name": str(name), "preprocess": "tf", **model}
    return Engine(Config().changed(model=settings, lrp={**lrp, "target": "top1"}))


def compare_maps(engine, file, seen, targets, relative=1e-4):
    """Compares scores, maps and accounts of the file with the explainer's."""
    session, explainer = session_of(file), engine.explainer
    x = engine.network.prepare(seen[None])
    for target in targets:
        weights = np.zeros(explainer.classes, F)
        for number, sign in zip(str(target).split(" - "), (1, -1), strict=False):
            if number.isdecimal():
                weights[int(number)] = sign
        weights[:] = 1 if target == "all" else weights
        scores, relevance, account = session.run(None, {"picture": seen[None], "target": weights})
        found = explainer(x, target)
        np.testing.assert_allclose(scores, found.scores, atol=1e-5)
        expected = found.relevance.sum(-1)
        assert relevance.shape == expected.shape
        np.testing.assert_allclose(relevance, expected, atol=relative * np.abs(expected).max())
        if found.accounts:
            (known,) = found.accounts.values()
            expected = [known.started[0], known.reached[0], known.biases[0]]
            np.testing.assert_allclose(account, expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("way", ["epsilon_plus_flat", "epsilon_gamma_box", "zplus", "grad_cam"])
def test_the_file_gives_the_explainers_maps(tiny, way):
    """Scores to 1e-5, maps to 1e-4 of the largest entry, for every kind of target."""
    engine = engine_of(tiny, way)
    file, about = exported(engine, fixed=False)
    targets = ["top1", 2, "1 - 3", *(["all"] if way in COMPOSITES.known() else [])]
    seen = np.random.default_rng(0).integers(0, 256, (20, 20, 3), np.uint8)
    compare_maps(engine, file, seen, targets)
    assert about.largest_difference < 1e-4


def test_the_command_writes_a_file_that_says_what_it_is(tiny, tmp_path, capsys):
    """Inputs, outputs, operators and metadata are those that the documents promise."""
    labels, target = tmp_path / "labels.txt", tmp_path / "a.onnx"
    labels.write_text("ant\nbee\ncat\ndog\n")
    words = ["export", "--model", tiny, "--preprocess", "tf", "--labels", labels, "-o", target]
    cli.main([*map(str, words)], standalone_mode=False)
    assert str(target) in capsys.readouterr().out
    model = onnx.load(target)
    onnx.checker.check_model(model, full_check=True)
    session = session_of(str(target))
    ends = [(one.name, one.type, one.shape) for one in session.get_inputs()]
    assert ends == [
        ("picture", "tensor(uint8)", [1, 20, 20, 3]), ("target", "tensor(float)", [CLASSES]),
    ]  # fmt: skip
    ends = [(one.name, one.type, one.shape) for one in session.get_outputs()]
    assert ends == [
        ("scores", "tensor(float)", [1, CLASSES]), ("relevance", "tensor(float)", [1, 20, 20]),
        ("account", "tensor(float)", [3]),
    ]  # fmt: skip
    assert [(one.domain, one.version >= 18) for one in model.opset_import] == [("", True)]
    assert {node.domain for node in model.graph.node} == {""}
    said = session.get_modelmeta().custom_metadata_map
    assert json.loads(said["labels"]) == ["ant", "bee", "cat", "dog"]
    assert (said["method"], said["composite"]) == ("lrp", "epsilon_plus_flat")
    assert (said["precision"], json.loads(said["size"]), said["fit"]) == (
        "float32",
        [20, 20],
        "crop",
    )
    assert json.loads(said["provenance"])["model"]["sha256"]["model"]
    assert float(said["largest_difference"]) < 1e-4


def test_a_fixed_target_is_inside_the_file(tiny):
    """Then there is no input for it, and the map is that target's."""
    engine = engine_of(tiny, "epsilon")
    engine.explainer.set_target("3 - rest")
    file, about = exported(engine, fixed=True)
    session, (picture, *_) = session_of(file), pictures()
    assert [one.name for one in session.get_inputs()] == ["picture"]
    assert about.target == "3 - rest"
    seen = engine.region(picture.shape[:2]).extract(picture)[None]
    relevance = session.run(["relevance"], {"picture": seen})[0]
    expected = engine.explainer(engine.network.prepare(seen), "3 - rest").relevance.sum(-1)
    np.testing.assert_allclose(relevance, expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"lrp": {"method": "smoothgrad"}}, "smoothgrad"),
        ({"lrp": {"method": "integrated_gradients"}}, "integrated_gradients"),
        ({"model": {"name": "shapes_detector"}}, "boxes"),
    ],
)
def test_what_no_file_can_compute_is_refused_by_name(tiny, settings, word):
    """Methods of many passes, and networks that find boxes."""
    config = Config().changed(model={"name": str(tiny), "preprocess": "tf"}).changed(**settings)
    with pytest.raises(UsageError, match=word):
        exported(Engine(config), fixed=False)
