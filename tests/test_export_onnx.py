"""The explanation as an ONNX file gives what the explainer gives, by onnxruntime alone."""

import functools
import itertools
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import cv2
import keras
import numpy as np
import onnx
import onnxruntime
import pytest
import tensorflow as tf
from keras import layers
from media import SHARED
from naive import assert_near
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from realtime_lrp.cli import cli
from realtime_lrp.commands.export.run import make
from realtime_lrp.config import Config
from realtime_lrp.config.names import COMPOSITES, METHODS
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.exported import ExportedEngine
from realtime_lrp.errors import DamagedInputError, UnavailableError, UsageError
from realtime_lrp.export.file import (
    agrees,
    computation,
    difference_of,
    exported,
    frozen,
    graph_of,
    model_of,
    pictures,
    written,
)
from realtime_lrp.models.networks import load_network
from realtime_lrp.relevance.maps.scale import strength_of
from realtime_lrp.relevance.maps.strength import strength
from realtime_lrp.video.region import resize

FLOAT, DOUBLE = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE


def graph_in_float64(function, inputs):
    """A function of tensors as TensorFlow computes it in float64: (name -> array) -> outputs."""
    graph, outputs = frozen(function, *inputs)
    whole = graph.as_graph_def()
    single, double = tf.float32.as_datatype_enum, tf.float64.as_datatype_enum
    for node in whole.node:
        for attribute in node.attr.values():
            if attribute.type == single:
                attribute.type = double
            if attribute.HasField("tensor") and attribute.tensor.dtype == single:
                values = tf.make_ndarray(attribute.tensor).astype(np.float64)
                attribute.tensor.CopyFrom(tf.make_tensor_proto(values))
            for at, kind in enumerate(attribute.list.type):
                attribute.list.type[at] = double if kind == single else kind
    for node in [one for one in whole.node if one.op == "ResizeBilinear"]:  # is always of float32
        cast = whole.node.add(name=node.name, op="Cast")
        node.name += "/single"
        cast.input.append(node.name)
        cast.attr["SrcT"].type = single
        cast.attr["DstT"].type = double
    doubled = tf.Graph()
    with doubled.as_default():
        tf.graph_util.import_graph_def(whole, name="")
    session = tf.compat.v1.Session(graph=doubled)
    return lambda given: session.run(outputs, {f"{name}:0": one for name, one in given.items()})


def file_in_float64(file):
    """A file of ONNX as the naive sums below compute it in float64: (name -> array) -> outputs."""
    model = onnx.load_model_from_string(file)
    for one in (*model.graph.input, *model.graph.output):
        if one.type.tensor_type.elem_type == FLOAT:
            one.type.tensor_type.elem_type = DOUBLE
    for one in model.graph.initializer:
        if one.data_type == FLOAT:
            values = numpy_helper.to_array(one).astype(np.float64)
            one.CopyFrom(numpy_helper.from_array(values, one.name))
    for node in model.graph.node:
        if node.op_type == "Cast" and node.attribute[0].i == FLOAT:
            node.attribute[0].CopyFrom(helper.make_attribute("to", DOUBLE))
    evaluator = ReferenceEvaluator(model, new_ops=[Conv, ConvTranspose, MaxPool, AveragePool])
    return lambda given: evaluator.run(None, given)


def entries(x, window, strides, dilations, count):
    """For each place in a window of a padded x, [1, C, H, W]: the place, and what is there."""
    for place in itertools.product(*map(range, window)):
        taken = [
            slice(at * step, at * step + (n - 1) * stride + 1, stride)
            for at, step, stride, n in zip(place, dilations, strides, count, strict=True)
        ]
        yield place, x[..., *taken]


def padded(x, pads, value):
    """x, [1, C, H, W], with its edges."""
    edges = [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])]
    return np.pad(x, edges, constant_values=value)


def counted(x, window, strides, dilations):
    """How many windows there are in a padded x along rows and columns."""
    return [
        (size - (n - 1) * step - 1) // stride + 1
        for size, n, stride, step in zip(x.shape[2:], window, strides, dilations, strict=True)
    ]


class Conv(OpRun):
    op_domain = ""

    def _run(self, x, w, b=None, group=1, dilations=None, pads=None, strides=None, **_):
        window, dilations = w.shape[2:], dilations or [1, 1]
        strides, x = strides or [1, 1], padded(x, pads or [0] * 4, 0)
        count = counted(x, window, strides, dilations)
        w = w.reshape(group, -1, *w.shape[1:])
        y = 0
        for (i, j), part in entries(x, window, strides, dilations, count):
            y = y + w[..., i, j] @ part.reshape(group, -1, count[0] * count[1])
        y = y.reshape(1, -1, *count)
        return (y if b is None else y + b[:, None, None],)


class ConvTranspose(OpRun):
    op_domain = ""

    def _run(
        self, x, w, group=1, dilations=None, output_padding=None, pads=None, strides=None, **_
    ):
        window, dilations, strides = w.shape[2:], dilations or [1, 1], strides or [1, 1]
        pads, extra = pads or [0] * 4, output_padding or [0, 0]
        count = x.shape[2:]
        size = [
            (n - 1) * stride + (m - 1) * step + 1 + more
            for n, stride, m, step, more in zip(
                count, strides, window, dilations, extra, strict=True
            )
        ]
        y = np.zeros([1, group * w.shape[1], *size])
        x = x.reshape(group, -1, count[0] * count[1])
        w = w.reshape(group, -1, *w.shape[1:]).swapaxes(1, 2)
        for (i, j), part in entries(y, window, strides, dilations, count):
            part += (w[..., i, j] @ x).reshape(part.shape)
        return (y[..., pads[0] : size[0] - pads[2], pads[1] : size[1] - pads[3]],)


class MaxPool(OpRun):
    op_domain = ""

    def _run(self, x, kernel_shape=None, pads=None, strides=None, **_):
        strides, x = strides or [1, 1], padded(x, pads or [0] * 4, -np.inf)
        count = counted(x, kernel_shape, strides, [1, 1])
        return (np.max([p for _, p in entries(x, kernel_shape, strides, [1, 1], count)], axis=0),)


class AveragePool(OpRun):
    op_domain = ""

    def _run(self, x, kernel_shape=None, pads=None, strides=None, **_):
        strides, x = strides or [1, 1], padded(x, pads or [0] * 4, np.nan)
        count = counted(x, kernel_shape, strides, [1, 1])
        parts = [p for _, p in entries(x, kernel_shape, strides, [1, 1], count)]
        return (np.nanmean(parts, axis=0),)


F = np.float32
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
    return np.random.default_rng(seed).integers(0, 4, shape).astype(F)


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


def resized_back(how):
    """The gradient of a resize that grows rows and shrinks columns."""

    def run(a, r):
        with tf.GradientTape() as tape:
            tape.watch(a)
            z = tf.image.resize(a, [20, 7], how)
        return tape.gradient(z, a, output_gradients=r)

    return run, A, numbers(1, 20, 7, 6, seed=3)


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
    "bilinear gradient": resized_back("bilinear"),
    "nearest gradient": resized_back("nearest"),
    "one hot": (lambda a: tf.one_hot(tf.argmax(a, -1), 8, 3.0, -1.0, axis=1), whole(2, 8)),
    "dilated, by space to batch": (
        lambda a: tf.nn.convolution(a, numbers(3, 3, 6, 4), padding="SAME", dilations=[2, 3]), A,
    ),
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
    spec = [tf.TensorSpec([2, 2], name="a")]
    with pytest.raises(DamagedInputError, match="MatrixInverse"):
        written(lambda a: (tf.linalg.inv(a),), spec, ("out",))


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
        assert_near(relevance, expected, relative)
        if found.accounts:
            (known,) = found.accounts.values()
            expected = [known.started[0], known.reached[0], known.biases[0]]
            assert_near(account, expected, 1e-4)


@pytest.mark.parametrize("way", ["epsilon_plus_flat", "epsilon_gamma_box", "zplus", "grad_cam"])
def test_the_file_gives_the_explainers_maps(tiny, way):
    engine = engine_of(tiny, way)
    file, about = exported(engine, fixed=False)
    targets = ["top1", 2, "1 - 3", *(["all"] if way in COMPOSITES.known() else [])]
    seen = np.random.default_rng(0).integers(0, 256, (20, 20, 3), np.uint8)
    compare_maps(engine, file, seen, targets)
    assert about.largest_difference < 1e-4


def test_the_command_writes_a_file_that_says_what_it_is(tiny, tmp_path, capsys):
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
    assert (said["precision"], said["fit"]) == ("float32", "crop")
    assert json.loads(said["size"]) == [20, 20]
    assert json.loads(said["provenance"])["model"]["sha256"]["model"]
    assert float(said["largest_difference"]) < 1e-4


def test_a_fixed_target_is_inside_the_file(tiny):
    engine = engine_of(tiny, "epsilon")
    engine.explainer.set_target("3 - rest")
    file, about = exported(engine, fixed=True)
    session, (picture, *_) = session_of(file), pictures()
    assert [one.name for one in session.get_inputs()] == ["picture"]
    assert about.target == "3 - rest"
    seen = engine.region(picture.shape[:2]).extract(picture)[None]
    relevance = session.run(["relevance"], {"picture": seen})[0]
    expected = engine.explainer(engine.network.prepare(seen), "3 - rest").relevance.sum(-1)
    assert_near(relevance, expected, 1e-4)


def test_what_no_file_can_compute_is_refused_by_name(tiny):
    for settings, word in (
        ({"lrp": {"method": "smoothgrad"}}, "smoothgrad"),
        ({"lrp": {"method": "integrated_gradients"}}, "integrated_gradients"),
        ({"model": {"name": "shapes_detector"}}, "boxes"),
    ):
        config = Config().changed(model={"name": str(tiny), "preprocess": "tf"}).changed(**settings)
        with pytest.raises(UsageError, match=word):
            exported(Engine(config), fixed=False)


BLOCKED = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tensorflow", "keras", "h5py", "onnx"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Missing())
from realtime_lrp.cli import cli
for words in sys.argv[1].split(";"):
    cli.main(words.split(), standalone_mode=False)
"""


@pytest.fixture(scope="module")
def engine():
    return Engine(Config().changed(model={"name": "shapes"}, lrp={"composite": "epsilon_plus"}))


@pytest.fixture(scope="module")
def file(engine, tmp_path_factory):
    path = tmp_path_factory.mktemp("exported") / "shapes.onnx"
    path.write_bytes(exported(engine, fixed=False)[0])
    return path


def config_of(file, **changes):
    return Config().changed(model={"name": str(file)}, **changes)


def test_the_commands_run_without_tensorflow(file, engine, tmp_path):
    picture = pictures()[0]
    cv2.imwrite(str(tmp_path / "in.png"), picture[..., ::-1])
    live = "--source synthetic --display none --duration 0.2"
    words = [
        f"image in.png -o out.npz --model {file} --target top1",
        f"live {live} --stats live.json --model {file}",
        f"kiosk {live} --stats kiosk.json --model {file}",
        f"video in.mkv -o out.mp4 --model {file}",
    ]
    film = cv2.VideoWriter(str(tmp_path / "in.mkv"), cv2.VideoWriter.fourcc(*"MJPG"), 5, (64, 48))
    for _ in range(3):
        film.write(np.full((48, 64, 3), 90, np.uint8))
    film.release()
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED, ";".join(words)],
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for name in ("live.json", "kiosk.json"):
        assert json.loads((tmp_path / name).read_text())["maps"] > 0
    assert (tmp_path / "out.mp4").stat().st_size
    (expected,) = engine.explain([picture], ["top1"])
    with np.load(tmp_path / "out.npz") as made:
        np.testing.assert_allclose(made["scores"], expected.scores, atol=1e-5)
        summed = expected.relevance.sum(-1)
        assert_near(made["relevance"].sum(-1), summed, 1e-4)


@pytest.mark.parametrize("target", ["all", "top1", "top3", 4, "4 - 2", "4 - rest"])
def test_every_target_gives_the_engines_result(file, engine, target):
    picture = pictures()[1]
    (ours,) = ExportedEngine(config_of(file)).explain([picture], [target])
    (theirs,) = engine.explain([picture], [target])
    one, other = ours.maps[0], theirs.maps[0]
    np.testing.assert_allclose(
        one.relevance[..., 0], other.relevance.sum(-1), atol=1e-4 * np.abs(other.relevance).max()
    )
    assert np.abs(one.strength.astype(int) - other.strength).max() <= 1
    for name in ("scale", "total", "magnitude", "started", "started_magnitude", "taken_by_biases"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-3, abs=1e-5), name
    assert ours.explained == pytest.approx(theirs.explained, abs=1e-5)
    assert (ours.region, one.signed, one.name) == (theirs.region, other.signed, other.name)


@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (3, 4)])
def test_strength_of_arrays_is_that_of_compiled_functions(stride):
    relevance = np.random.default_rng(1).normal(size=(21, 24)).astype(np.float32)
    ours, scale = strength_of(relevance, stride)
    theirs, expected = strength(relevance[None, ..., None], stride=stride)
    assert np.abs(ours.astype(int) - theirs[0].numpy()).max() <= 1
    assert scale == pytest.approx(float(expected[0]), rel=1e-5)
    assert not strength_of(0 * relevance, stride)[0].any()


def test_what_needs_the_network_says_so(file):
    for changes, word in (
        ({"lrp": {"composite": "zplus"}}, "zplus"),
        ({"lrp": {"method": "gradient"}}, "gradient"),
        ({"overlay": {"map": "rgb"}}, "colours"),
    ):
        with pytest.raises(UsageError, match=f"{word}.* needs the network itself"):
            ExportedEngine(config_of(file, **changes))


def test_other_commands_ask_for_the_network(file, tmp_path):
    with pytest.raises(UsageError, match="network itself"):
        load_network(str(file))
    damaged = tmp_path / "a.onnx"
    damaged.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(DamagedInputError, match="damaged"):
        ExportedEngine(config_of(damaged))


def test_the_documented_program_computes_the_same(file, engine, tmp_path, monkeypatch):
    document = Path(__file__).parents[1] / "docs" / "anywhere.md"
    code = re.search(r"```python\n(.*?)```", document.read_text(), re.S)[1]
    picture = pictures()[1][:, 80:560]
    cv2.imwrite(str(tmp_path / "heart.jpg"), picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 100])
    shutil.copy(file, tmp_path / "shapes.onnx")
    monkeypatch.chdir(tmp_path)
    found = {}
    exec(code, found)
    (expected,) = engine.explain([picture], ["top1"])
    np.testing.assert_allclose(found["scores"][0], expected.scores, atol=0.01)
    maps = found["relevance"].ravel(), expected.relevance.sum(-1).ravel()
    assert np.corrcoef(*maps)[0, 1] > 0.99


def test_metadata_that_are_not_true_of_the_file_are_refused(file, tmp_path):
    for name, text in (
        ("size", "[64, 64]"), ("classes", "7"), ("labels", '["a"]'), ("fit", "other"),
        ("target", "3"), ("map", "{}"),
    ):  # fmt: skip
        model = onnx.load(file)
        (entry,) = (one for one in model.metadata_props if one.key == name)
        entry.value = text
        onnx.save(model, tmp_path / "a.onnx")
        with pytest.raises(DamagedInputError, match="metadata"):
            ExportedEngine(config_of(tmp_path / "a.onnx"))


def test_a_missing_library_is_named_before_anything_is_made(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UnavailableError, match=r"needs onnxruntime.*realtime-lrp\[export\]"):
        make(Config(), False)


REAL = {
    "shapes": {}, "shapes_vit": {}, "resnet50": None, "densenet121": None, "efficientnet_b0": None,
    "squeezenet": {"name": "squeezenet_v1_0.keras", "preprocess": "caffe"},
    "mobilenet_v2": {"weights": "mobilenet_v2_imagenet.weights.h5"},
}  # fmt: skip
WITHOUT_RELU = "shapes_vit", "efficientnet_b0"
WHOLE_CASES = [
    (network, way)
    for network in REAL
    for way in WAYS
    if network not in WITHOUT_RELU or way not in ("guided_backprop", "deconvnet")
]


@pytest.fixture(scope="module")
def settings_of(tmp_path_factory):
    """The settings of a network by its name; None in `REAL` is random weights.

    Their batch norms are those of three pictures: else EfficientNet's maps are 0.
    """

    @functools.cache
    def settings(name):
        known = dict(REAL[name] or {})
        for key in ("name", "weights"):
            if Path(known.get(key, "")).suffix:
                if SHARED is None:
                    pytest.skip("real files are not beside the checkout")
                known[key] = str(SHARED / "models" / known[key])
        if REAL[name] is not None:
            return {"name": name, **known}
        network = load_network(name, weights="random")
        for layer in network.model.layers:
            if isinstance(layer, keras.layers.BatchNormalization):
                layer.momentum = 0.0
        seen = np.stack([resize(one, network.model.input_shape[1:3]) for one in pictures()])
        network.model(network.prepare(seen), training=True)
        path = tmp_path_factory.mktemp(name) / "random.keras"
        network.model.save(path)
        return {"name": str(path), "preprocess": network.preprocess}

    return settings


@pytest.mark.release
@pytest.mark.parametrize(("network", "way"), WHOLE_CASES)
def test_files_of_real_networks_give_the_explainers_maps(settings_of, network, way):
    """Three pictures each, with the noise of a camera: to 1e-4 of the largest entry.

    Where rounding in float32 moves parts of a map, file and explainer agree to 1e-6 in float64.
    """
    lrp = {"composite": way} if way in COMPOSITES.known() else {"method": way}
    engine = Engine(Config().changed(model=settings_of(network), lrp=lrp))
    file = model_of(graph_of(engine, fixed=False)).SerializeToString()
    session, rounded = session_of(file), []
    for picture in pictures():
        seen = engine.region(picture.shape[:2]).extract(picture)[None]
        given = {"picture": seen, "target": np.zeros(engine.explainer.classes, np.float32)}
        scores, relevance, _ = session.run(None, given)
        found = engine.explainer(engine.network.prepare(seen), "top1")
        np.testing.assert_allclose(scores, found.scores, atol=1e-5)
        expected = found.relevance.sum(-1)
        if (network, way) == ("squeezenet", "deconvnet") and not expected.any():
            assert not relevance.any()  # its weights let nothing through for some classes
            continue
        assert expected.any() and agrees(relevance, expected)
        if difference_of(relevance, expected) > 1e-4:
            rounded.append(given)
    for given in rounded[:1]:
        expected, exact, _ = graph_in_float64(*computation(engine, fixed=False))(given)
        given["target"] = np.float64(given["target"])
        computed = file_in_float64(file)(given)
        np.testing.assert_allclose(computed[0], expected, atol=1e-6)
        assert difference_of(computed[1], exact) < 1e-6
