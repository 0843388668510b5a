"""`--model FILE.onnx`: files are read as data; a network has the maps that it has in Keras."""

import importlib.util
import sys

import keras
import media
import numpy as np
import onnx
import pytest
import tensorflow as tf
from keras import layers
from naive import assert_near
from onnx.reference import ReferenceEvaluator
from onnx_files import convolutional, convolutional_file, node, numbers, written

from realtime_lrp import Explainer, load_network
from realtime_lrp.errors import DamagedInputError, UsageError
from realtime_lrp.models.names import model_files
from realtime_lrp.models.onnx.rows import ROWS
from realtime_lrp.models.untrusted.saved_model import OF_CONSTANTS
from realtime_lrp.relevance.reading.building import build_graph
from realtime_lrp.relevance.reading.operations import OPERATIONS

F = np.float32


def case(kind, *constants, name=None, before=(), **attributes):
    """A node that reads the picture [1, 3, 6, 8] and constants, after the nodes `before`."""
    return name or kind, kind, before, constants, attributes


TO_ROWS = [("Transpose", (), {"perm": [0, 2, 3, 1]})]  # [1, 6, 8, 3]
TO_TOKENS = [*TO_ROWS, ("Reshape", (np.array([0, -1, 3]),), {})]  # [1, 48, 3]
TO_PLACES = [("Reshape", (np.array([1, 9, 8, 2]),), {})]
TO_MATRIX = [
    ("ReduceMean", (np.array([3]),), {"keepdims": 0}),
    ("Slice", (np.array([0, 0, 0]), np.array([1, 2, 3])), {}),
]  # [1, 2, 3]
TO_FOUR = [("Reshape", (np.array([1, 12, 3, 4]),), {})]
TO_SEQUENCE = [("Reshape", (np.array([0, 3, -1]),), {})]  # [1, 3, 48]
LENGTH_FIRST = [*TO_TOKENS, ("Transpose", (), {"perm": [1, 0, 2]})]  # [48, 1, 3]

CASES = [
    *(case(kind) for kind in (
        "Abs", "Atan", "Ceil", "Cos", "Elu", "Erf", "Exp", "Floor", "Gelu", "GlobalAveragePool",
        "GlobalMaxPool", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Mish", "Neg",
        "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign",
        "Tan", "Tanh", "Dropout", "ReduceMean", "ReduceSum",
    )),
    case("Gelu", name="Gelu tanh", approximate="tanh"),
    case("Elu", name="Elu alpha", alpha=0.3),
    *(case(kind, numbers(3, 1, 1)) for kind in ("Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu")),
    case("Add", numbers(8), name="Add to columns"),
    case("Mul", numbers(2, 1, 1, 1, 1), name="Mul to more axes"),
    case("Add", numbers(6, 1, 5), name="Add on tokens", before=[
        *TO_ROWS, ("Reshape", (np.array([1, 6, 8, 3]),), {}), ("Slice", (
            np.array([0, 0]), np.array([1, 1]), np.array([2, 3])), {}),
    ]),
    case("Sqrt", before=[("Abs", (), {})]), case("Log", before=[("Exp", (), {})]),
    case("Pow", F(2)), case("Clip", F(-0.5), F(0.7)),
    *(case("Cast", name=kind, before=[(kind, (F(0.2),), {})], to=1)
      for kind in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")),
    *(case("Cast", name=kind, to=1,
           before=[("Greater", (F(0.2),), {}), (kind, (np.arange(8) > 3,), {})])
      for kind in ("And", "Or", "Xor")),
    case("Cast", name="Not", before=[("Greater", (F(0.2),), {}), ("Not", (), {})], to=1),
    case("Cast", name="Cast to whole numbers", before=[("Cast", (), {"to": 7})], to=1),
    case("Celu", alpha=0.5), case("ThresholdedRelu", alpha=0.3),
    case("Shrink", lambd=0.4, bias=0.1), case("Swish", alpha=0.7), case("Trilu", upper=0),
    case("Mean", numbers(8), numbers(6, 1)),
    *(case("DequantizeLinear", F(1), np.uint8(zero), name=f"QuantizeLinear from {-zero}", before=[
        ("Mul", (F(99),), {}), ("Round", (), {}), ("QuantizeLinear", (F(1), np.uint8(zero)), {})])
      for zero in (0, 3)),
    case("Where", np.arange(8) > 3, "x", F(0.5)),
    case("Conv", numbers(4, 3, 3, 2), numbers(4)),
    case("Conv", numbers(6, 1, 3, 3), numbers(6), name="Conv depthwise", group=3,
         pads=[1, 1, 1, 1], strides=[2, 2]),
    case("Conv", numbers(3, 1, 3, 3), name="Conv depthwise, dilated", group=3,
         dilations=[2, 1], pads=[2, 0, 1, 1]),
    case("Conv", numbers(6, 1, 3, 2), numbers(6), name="Conv groups, strides, dilated", group=3,
         dilations=[2, 3], strides=[2, 3], pads=[2, 1, 1, 3]),
    case("Conv", numbers(4, 3, 3, 3), name="Conv strides, uneven border", strides=[2, 3],
         pads=[0, 2, 1, 0]),
    case("Conv", numbers(4, 3, 2, 2), name="Conv SAME_LOWER", auto_pad="SAME_LOWER"),
    case("ConvTranspose", numbers(3, 4, 3, 2), numbers(4), strides=[2, 3], pads=[1, 0, 0, 1]),
    case("ConvTranspose", numbers(3, 4, 3, 2), name="ConvTranspose, dilated", dilations=[2, 3]),
    case("ConvTranspose", numbers(3, 4, 3, 3), name="ConvTranspose SAME_UPPER", strides=[2, 2],
         auto_pad="SAME_UPPER"),
    case("ConvTranspose", numbers(3, 4, 3, 2), name="ConvTranspose, more", strides=[2, 2],
         output_padding=[1, 1]),
    *(case("Resize", "", F([1, 1, 2, 1.5]), name=f"Resize {mode} {where}", mode=mode,
           coordinate_transformation_mode=where, nearest_mode=rounds)
      for mode, where, rounds in (
          ("linear", "half_pixel", "floor"), ("linear", "align_corners", "floor"),
          ("linear", "asymmetric", "floor"), ("nearest", "asymmetric", "floor")          )),
    *(case("Resize", "", F([1, 1, scale, 1 / scale]), name=f"Resize {mode} {scale} {more}",
           mode=mode, **more)
      for scale in (1.7, 0.6) for mode, more in (
          ("linear", {}), ("linear", {"antialias": 1}), ("cubic", {"exclude_outside": 1}),
          ("cubic", {"antialias": 1, "cubic_coeff_a": -0.5}),
          ("linear", {"coordinate_transformation_mode": "half_pixel_symmetric"}),
          ("nearest", {}), ("nearest", {"nearest_mode": "ceil"}),
          ("nearest", {"nearest_mode": "round_prefer_ceil",
                       "coordinate_transformation_mode": "align_corners"})                )),
    case("Resize", "", "", np.array([9, 4]), name="Resize two axes", axes=[2, 1], mode="linear"),
    case("Resize", "", "", np.array([9, 9]), name="Resize in proportion", axes=[2, 3],
         keep_aspect_ratio_policy="not_larger"),
    *(case("AffineGrid", np.array([1, 3, 4, 5]), name=f"AffineGrid {corners}", before=TO_MATRIX,
           align_corners=corners) for corners in (0, 1)),
    *(case("GridSample", "x", "it", name=f"GridSample {more}", before=TO_PLACES, **more)
      for more in ({}, {"mode": "nearest"}, {"padding_mode": "border", "align_corners": 1},
                   {"padding_mode": "reflection"},
                   {"padding_mode": "reflection", "align_corners": 1})),
    case("Attention", "x", "x", scale=0.3),
    case("Attention", "x", "x", name="Attention, causal", is_causal=1, softcap=2.0),
    case("Attention", "it", "it", "it", numbers(48, 48), name="Attention of tokens",
         before=TO_TOKENS, q_num_heads=3, kv_num_heads=3),
    case("Attention", "x", "it", "it", name="Attention, shared keys",
         before=[("ReduceMean", (np.array([1]),), {})]),
    case("BatchNormalization", *(np.abs(numbers(3, seed=n)) for n in range(4)), epsilon=1e-2),
    case("InstanceNormalization", numbers(3), numbers(3, seed=1)),
    case("GroupNormalization", numbers(3), numbers(3, seed=1), num_groups=3),
    case("LayerNormalization", numbers(8), numbers(8, seed=1), axis=-1),
    case("LayerNormalization", numbers(3), name="LayerNormalization of tokens", before=TO_TOKENS),
    case("RMSNormalization", numbers(3), before=TO_TOKENS),
    case("MeanVarianceNormalization", axes=[1, 3]), case("LpNormalization", axis=1),
    case("MaxPool", name="MaxPool of a sequence", before=TO_SEQUENCE, kernel_shape=[3],
         strides=[2], pads=[1, 0]),
    case("AveragePool", name="AveragePool of a sequence", before=TO_SEQUENCE, kernel_shape=[2]),
    case("Conv", numbers(4, 3, 3), numbers(4), name="Conv of a sequence", before=TO_SEQUENCE,
         strides=[2], pads=[1, 0]),
    case("ConvTranspose", numbers(3, 4, 3), name="ConvTranspose of a sequence",
         before=TO_SEQUENCE, strides=[2]),
    case("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    case("MaxPool", name="MaxPool ceil", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    case("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    case("AveragePool", name="AveragePool, border counted", kernel_shape=[3, 3], strides=[2, 2],
         pads=[1, 1, 1, 1], count_include_pad=1),
    case("ReduceMean", np.array([2, 3]), name="ReduceMean of pixels", keepdims=0),
    case("ReduceMax", np.array([1])), case("ReduceL2", np.array([1, 3])),
    case("ReduceMin", np.array([-1]), keepdims=0),
    case("ReduceL1", np.array([1])), case("ReduceSumSquare", np.array([2])),
    case("ReduceLogSumExp", np.array([1])),
    case("ReduceLogSum", np.array([2]), before=[("Abs", (), {})]),
    case("CumSum", np.int64(3)), case("CumSum", np.int64(1), name="CumSum back", reverse=1,
                                      exclusive=1),
    case("TopK", np.array([4]), name="TopK largest"),
    case("TopK", np.array([3]), name="TopK smallest", axis=1, largest=0),
    case("DepthToSpace", name="DepthToSpace DCR", before=TO_FOUR, blocksize=2),
    case("DepthToSpace", name="DepthToSpace CRD", before=TO_FOUR, blocksize=2, mode="CRD"),
    case("SpaceToDepth", blocksize=2),
    case("GatherElements", np.array([[[[2, 0, 1]] * 6] * 3]), axis=3),
    case("GatherND", np.array([[[0, 1], [2, 5]], [[1, 1], [0, 0]]]), name="GatherND",
         before=[("Squeeze", (np.array([0]),), {})]),
    case("GatherND", np.array([[[[1, 2], [0, 0]], [[3, 1], [5, 7]], [[0, 1], [1, 0]]]]),
         name="GatherND, batches", batch_dims=2),
    case("ScatterND", np.array([[0, 1, 2], [0, 0, 4]]), numbers(2, 8)),
    case("ScatterElements", np.array([[[[3, 1]]]]), numbers(1, 1, 1, 2), axis=3),
    case("Softmax", axis=1), case("Softmax", name="Softmax last"),
    case("Gemm", numbers(5, 3), numbers(5), transB=1, alpha=0.5, beta=2.0, before=[
        ("GlobalAveragePool", (), {}), ("Flatten", (), {})]),
    case("MatMul", numbers(3, 5), before=TO_TOKENS),
    case("MatMul", numbers(3, 5), name="MatMul, length first", before=LENGTH_FIRST),
    case("MatMul", numbers(1, 3, 8, 4), name="MatMul with constants"),
    case("Concat", "x", numbers(1, 3, 2, 8), axis=2),
    case("Concat", "x", "x", name="Concat channels", axis=1),
    case("Expand", np.array([1, 5, 1, 1]), before=[("ReduceMean", (np.array([1]),), {})]),
    case("Flatten", axis=2), case("Squeeze", np.array([0])), case("Unsqueeze", np.array([0, -1])),
    case("Gather", np.array([2, 0]), axis=1),
    case("Gather", np.int64(1), name="Gather one", axis=3),
    case("Slice", np.array([-1]), np.array([-100]), np.array([3]), np.array([-2])),
    case("Slice", np.array([1, 0]), np.array([5, 100]), np.array([2, 3]), name="Slice of two"),
    case("Split", np.array([1, 2]), axis=1),
    case("Pad", np.array([0, 0, 1, 2, 0, 0, 0, 1]), F(0.5)),
    *(case("Pad", np.array([0, 0, 1, 2, 0, 0, 2, 1]), name=f"Pad {mode}", mode=mode)
      for mode in ("reflect", "edge", "wrap")),
    case("Tile", np.array([1, 2, 1, 3])),
    case("Reshape", np.array([1, 2, 3, 24]), name="Reshape across axes"),
    case("Reshape", np.array([4, -1]), name="Reshape after a turn", before=TO_ROWS),
    case("Transpose", name="Transpose all"),
    case("Einsum", numbers(3, 4), equation="bchw,cd->bhdw"),
    case("Cast", to=1), case("CastLike", F(0)),
]  # fmt: skip


def as_nodes(number, one):
    """The nodes of a case, its constants, and the name of its last output."""
    _, kind, before, constants, attributes = one
    nodes, arrays, at = [], {}, "x"
    for step, (operation, values, own) in enumerate([*before, (kind, constants, attributes)]):
        read = [] if operation == "Where" or "it" in map(str, values) else [at]
        for n, value in enumerate(values):
            if isinstance(value, str):
                read.append(at if value == "it" else value)
            else:
                read.append(f"c{number}_{step}_{n}")
                arrays[read[-1]] = np.asarray(value)
        at = f"t{number}_{step}"
        outputs = f"{at} {at}b" if operation in ("Split", "TopK") else at
        nodes.append(onnx.helper.make_node(operation, read, outputs.split(), **own))
    return [*nodes, node("Reshape", f"{at} all", f"y{number}")], arrays, f"y{number}"


def test_each_operation_computes_what_onnx_computes(tmp_path, rng):
    parts = [as_nodes(number, one) for number, one in enumerate(CASES)]
    nodes = [one for part in parts for one in part[0]]
    nodes.append(node("Concat", " ".join(part[2] for part in parts), "out", axis=1))
    arrays = {name: value for part in parts for name, value in part[1].items()}
    arrays["all"] = np.array([1, -1])
    path = written(tmp_path / "all.onnx", nodes, arrays, opset=24)
    x = rng.normal(size=(3, 6, 8, 3)).astype(F)
    network = load_network(path, preprocess="none")
    ours = network.model(x).numpy()
    graph = build_graph(network.model)
    read = graph.forward(tf.constant(x))[graph.output].numpy()
    reference = ReferenceEvaluator(onnx.load(path))
    for picture, a, b in zip(x, ours, read, strict=True):
        found = reference.run(
            [part[2] for part in parts], {"x": picture[None].transpose(0, 3, 1, 2)}
        )
        ends = np.cumsum([one.size for one in found])[:-1]
        split = zip(CASES, found, np.split(a, ends), np.split(b, ends), strict=True)
        for one, expected, computed, steps in split:
            np.testing.assert_allclose(computed, expected[0], 1e-5, 1e-5, err_msg=one[0])
            np.testing.assert_allclose(steps, expected[0], 1e-5, 1e-5, err_msg=one[0])
    kinds = {one.op for one in network.model.layers[1]._saved.graph.node}
    assert kinds <= {*OPERATIONS, *OF_CONSTANTS, "Placeholder"}


def _fused(kind, inputs, outputs="y", **attributes):
    return node(kind, inputs, outputs, domain="com.microsoft", **attributes)


ATTENDING = [
    node("MatMul", "t qkv", "a"), node("Add", "a bias", "b"),
    node("Split", "b", "q k v", axis=2, num_outputs=3),
    node("Attention", "q k v", "y", q_num_heads=2, kv_num_heads=2),
]  # fmt: skip
JOINED = {
    "BiasGelu": (_fused("BiasGelu", "t beta"), [
        node("Add", "t beta", "a"), node("Gelu", "a", "y")]),
    "FastGelu": (_fused("FastGelu", "t"), [node("Gelu", "t", "y", approximate="tanh")]),
    "QuickGelu": (_fused("QuickGelu", "t", alpha=1.5), [
        node("Mul", "t slope", "a"), node("Sigmoid", "a", "b"), node("Mul", "t b", "y")]),
    "BiasSoftmax": (_fused("BiasSoftmax", "t beta"), [
        node("Add", "t beta", "a"), node("Softmax", "a", "y")]),
    "FusedConv": (_fused("FusedConv", "x w - x", activation="Clip", activation_params=[-0.2, 0.5],
                         pads=[1] * 4), [
        node("Conv", "x w", "a", pads=[1] * 4), node("Add", "a x", "b"),
        node("Clip", "b low high", "y")]),
    "FusedGemm": (_fused("FusedGemm", "f g", activation="LeakyRelu", activation_alpha=0.3), [
        node("Gemm", "f g", "a"), node("LeakyRelu", "a", "y", alpha=0.3)]),
    "FusedMatMul": (_fused("FusedMatMul", "t qkv", transA=1, transB=1, alpha=0.5), [
        node("Transpose", "t", "a", perm=[0, 2, 1]), node("Transpose", "wide", "b", perm=[1, 0]),
        node("MatMul", "a b", "c"), node("Mul", "c half", "y")]),
    "SimplifiedLayerNormalization": (node("SimplifiedLayerNormalization", "t gamma", "y"), [
        node("RMSNormalization", "t gamma", "y")]),
    "SkipSimplifiedLayerNormalization": (_fused("SkipSimplifiedLayerNormalization", "t t gamma"), [
        node("Add", "t t", "a"), node("RMSNormalization", "a gamma", "y")]),
    "SkipLayerNormalization": (_fused("SkipLayerNormalization", "t t gamma beta slope", "n - - y",
                                      epsilon=0.1), [
        node("Add", "t t", "a"), node("Add", "a slope", "y")]),
    "com.microsoft.Attention": (_fused("Attention", "t qkv bias", num_heads=2), ATTENDING),
    "MultiHeadAttention": (_fused("MultiHeadAttention", "q k v bias", num_heads=2), ATTENDING),
    "MatMulNBits": (_fused("MatMulNBits", "t packed scales", bits=4, block_size=16, K=6, N=2), [
        node("MatMul", "t dense", "y")]),
}  # fmt: skip
"""Operations of onnxruntime's optimisers, and plain nodes that compute the same."""


@pytest.mark.parametrize("kind", JOINED)
def test_joined_operations_compute_what_their_parts_do(tmp_path, rng, kind):
    """Their domain is com.microsoft, which ONNX's reference does not know."""
    one, plain = JOINED[kind]
    packed = rng.integers(0, 256, (2, 1, 8)).astype(np.uint8)
    halves = np.stack([packed & 15, packed >> 4], -1).reshape(2, 16)[:, :6]
    scales = np.abs(numbers(2, 1))
    arrays = {
        "w": numbers(3, 3, 3, 3), "qkv": numbers(6, 18), "wide": numbers(6, 18),
        "bias": numbers(18),
        "beta": numbers(6), "gamma": numbers(6, seed=1), "slope": F(1.5), "half": F(0.5),
        "low": F(-0.2), "high": F(0.5), "g": numbers(6, 4), "tokens": np.array([1, 24, 6]),
        "all": np.array([1, -1]), "one": np.array([1]), "packed": packed, "scales": scales,
        "dense": ((halves - 8.0) * scales).T.astype(F),
    }  # fmt: skip
    if kind == "FusedMatMul":
        arrays |= {"qkv": numbers(18, 24), "wide": numbers(18, 24)}
    before = [node("Reshape", "x tokens", "t"), node("ReduceMean", "t one", "f", keepdims=0)]
    if kind == "MultiHeadAttention":
        before += [
            node("MatMul", "t qkv", "a0"),
            node("Split", "a0", "q k v", axis=2, num_outputs=3),
        ]
    last = node("Reshape", "y all", "out")
    found = load_network(
        written(tmp_path / "a.onnx", [*before, one, last], arrays, opset=23), preprocess="none"
    )
    path = written(tmp_path / "b.onnx", [*before[:2], *plain, last], arrays, opset=23)
    x = rng.normal(size=(1, 6, 8, 3)).astype(F)
    (expected,) = ReferenceEvaluator(onnx.load(path)).run(None, {"x": x.transpose(0, 3, 1, 2)})
    np.testing.assert_allclose(found.model(x), expected, atol=1e-5)


def test_a_table_of_positions_is_computed(tmp_path, rng):
    """By a convolution of single pixels, as EdgeNeXt's; not with a border, which may be huge."""
    table, weights, bias = numbers(1, 5, 6, 8), numbers(3, 5, 1, 1), numbers(3, seed=1)
    arrays = {"table": table, "weights": weights, "bias": bias, "all": np.array([1, -1])}
    x = rng.normal(size=(2, 6, 8, 3)).astype(F)
    rest = [node("Add", "x positions", "sum"), node("Reshape", "sum all", "out")]
    plain = node("Conv", "table weights bias", "positions")
    network = load_network(written(tmp_path / "a.onnx", [plain, *rest], arrays), preprocess="none")
    positions = np.einsum("chw,oc->ohw", table[0], weights[:, :, 0, 0]) + bias[:, None, None]
    expected = (x.transpose(0, 3, 1, 2) + positions).reshape(2, -1)
    np.testing.assert_allclose(network.model(x), expected, atol=1e-5)
    huge = node(
        "Conv", "table weights bias", "positions", pads=[1 << 20] * 4, strides=[1 << 20] * 2
    )
    with pytest.raises(DamagedInputError, match="reads constants where"):
        load_network(written(tmp_path / "b.onnx", [huge, *rest], arrays))


def test_operations_have_a_case():
    """But for those that are written like another one, and those in networks below."""
    untried = {
        "Acos", "Acosh", "Asin", "Asinh", "Atanh", "Cosh", "IsInf", "IsNaN", "Shape", "Sinh", "Sum",
        "LogSoftmax", "LRN", "Upsample",
    }  # fmt: skip
    tried = {one[1] for one in CASES} | {step[0] for one in CASES for step in one[2]} | {*JOINED}
    assert set(ROWS) - tried == untried


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A small network in Keras, and the file of the same one."""
    weights = convolutional(np.random.default_rng(5))
    x = keras.Input((8, 12, 3))
    c = layers.Conv2D(4, 3, 2, "same", name="first")(x)
    c = layers.ReLU()(layers.BatchNormalization(name="norm")(c))
    d = layers.DepthwiseConv2D(3, padding="same", use_bias=False, name="depthwise")(c)
    d = layers.ReLU(6)(layers.BatchNormalization(name="norm2")(d))
    h = layers.Conv2D(4, 3, padding="same", groups=2, activation="relu", name="grouped")(c + d)
    h = layers.Flatten()(layers.MaxPooling2D(2)(h))
    model = keras.Model(x, layers.Dense(5, activation="softmax", name="dense")(h))
    for name, values in weights.items():
        model.get_layer(name).set_weights(values)
    return model, convolutional_file(tmp_path_factory.mktemp("onnx") / "net.onnx", weights), weights


COMPOSITES = ["zplus", "epsilon_plus_flat", "epsilon_alpha2_beta1", "epsilon_gamma_box", "gradient"]


def test_one_network_has_one_map(both, rng):
    model, path, _ = both
    x = rng.normal(size=(2, 8, 12, 3)).astype(F)
    network = load_network(path, preprocess="none")
    ours, expected = (
        Explainer(one, also=COMPOSITES, target=1, low=-3.0, high=3.0)(x)
        for one in (network.model, model)
    )
    np.testing.assert_allclose(ours.scores, expected.scores, atol=1e-6)
    for name in COMPOSITES:
        assert_near(ours.maps[name], expected.maps[name], 1e-6, name)
    (account,) = Explainer(network, composite="epsilon", target=1)(x).accounts.values()
    np.testing.assert_allclose(account.started, account.reached + account.biases, rtol=1e-3)
    names = list(Explainer(network, composite="epsilon").rules_by_layer)
    assert names == ["first/Conv", "depthwise", "grouped", "head/Gemm"]


def test_files_of_all_kinds_hold_the_same_network(both, tmp_path, rng):
    model, _, weights = both
    x = rng.normal(size=(3, 8, 12, 3)).astype(F)
    expected = model(x).numpy()
    beside = {"save_as_external_data": True, "location": "2.onnx.data", "size_threshold": 0}
    for number, changes in enumerate(({"opset": 11}, {"opset": 23, "dynamic": True}, beside)):
        file = convolutional_file(tmp_path / f"{number}.onnx", weights, **changes)
        assert ("weights" in model_files(file, None, None)) == (changes is beside)
        found = load_network(file, preprocess="none").model(x)
        np.testing.assert_allclose(found, expected, atol=1e-6)
    halves = {name: [one.astype(np.float16) for one in values] for name, values in weights.items()}
    file = convolutional_file(tmp_path / "half.onnx", halves)
    found = load_network(file, preprocess="none").model(x)
    np.testing.assert_allclose(found, expected, atol=5e-3)


def _backwards(model):
    nodes = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _eight_at_once(model):
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 8
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([8, -1]), "rows"))
    (flat,) = [one for one in model.graph.node if one.op_type == "Flatten"]
    flat.CopyFrom(node("Reshape", f"{flat.input[0]} rows", flat.output[0]))


def _of_bytes(model):
    """Pictures uint8, last axis channels, prepared by the file."""
    kind = model.graph.input[0].type.tensor_type
    kind.elem_type = onnx.TensorProto.UINT8
    for size, dim in zip((1, 8, 12, 3), kind.shape.dim, strict=True):
        dim.dim_value = size
    model.graph.node[0].input[0] = "prepared"
    scale, zero = (onnx.numpy_helper.from_array(*one) for one in (
        (F(0.02), "scale"), (np.uint8(128), "middle")))  # fmt: skip
    model.graph.initializer.extend((scale, zero))
    model.graph.node.insert(0, node("Transpose", "x", "turned", perm=[0, 3, 1, 2]))
    model.graph.node.insert(1, node("DequantizeLinear", "turned scale middle", "prepared"))


def _quantised(model):
    """Weights of 8 bits, and a range of activations that cuts nothing but what a ReLU cuts."""
    (first,) = [one for one in model.graph.initializer if one.name == "first0"]
    values = onnx.numpy_helper.to_array(first)
    whole = np.round(values / np.abs(values).max() * 127).astype(np.int8)
    first.CopyFrom(onnx.numpy_helper.from_array(whole, "whole"))
    scale = F(np.abs(values).max() / 127)
    arrays = {"scale": scale, "middle": np.int8(0), "wide": F(1), "none": np.uint8(0)}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for n, a in arrays.items())
    (relu,) = [one for one in model.graph.node if one.name == "/relu"]
    relu.CopyFrom(node("QuantizeLinear", "b wide none", "q"))
    model.graph.node.insert(3, node("DequantizeLinear", "q wide none", "c"))
    model.graph.node.insert(0, node("DequantizeLinear", "whole scale middle", "first0"))


@pytest.mark.parametrize("change", [_backwards, _eight_at_once, _of_bytes, _quantised])
def test_files_of_other_forms_hold_the_same_network(both, tmp_path, rng, change):
    model, path, _ = both
    x = rng.integers(0, 256, (3, 8, 12, 3)).astype(F)
    file = onnx.load(path)
    change(file)
    onnx.save(file, tmp_path / "net.onnx")
    network = load_network(str(tmp_path / "net.onnx"))
    prepared = (x - 128) * F(0.02)
    read = x if change is _of_bytes else prepared
    off = 0.01 if change is _quantised else 1e-6
    np.testing.assert_allclose(network.model(read), model(prepared), atol=off)
    found = Explainer(network.model, composite="epsilon", target=1)(read).relevance
    expected = Explainer(model, composite="epsilon", target=1)(prepared).relevance
    if change not in (_quantised, _of_bytes):
        assert_near(found, expected, 1e-5)


def test_an_old_file_is_read_as_a_new_one(tmp_path, rng):
    """Sizes, limits and borders were attributes before opset 11; LRN divides by neighbours."""
    x = rng.normal(size=(2, 6, 8, 3)).astype(F)
    nodes = [
        node("Upsample", "x", "a", scales=[1.0, 1.0, 2.0, 2.0]),
        node("Slice", "a", "b", axes=[2, 3], starts=[1, 0], ends=[11, -1]),
        node("Pad", "b", "c", pads=[0, 0, 1, 0, 0, 0, 0, 2], value=0.5),
        node("Clip", "c", "d", min=-0.5, max=0.7), node("LRN", "d", "e", size=3, alpha=0.3),
        node("Reshape", "e all"),
    ]  # fmt: skip
    file = written(tmp_path / "net.onnx", nodes, {"all": np.array([1, -1])}, opset=7)
    d = x.repeat(2, 1).repeat(2, 2)[:, 1:11, :-1]
    d = np.pad(d, [(0, 0), (1, 0), (0, 2), (0, 0)], constant_values=0.5).clip(-0.5, 0.7)
    squares = np.pad(d * d, [(0, 0)] * 3 + [(1, 1)])
    d /= (1 + 0.1 * (squares[..., :-2] + squares[..., 1:-1] + squares[..., 2:])) ** 0.75
    found = load_network(file, preprocess="none").model(x)
    np.testing.assert_allclose(found, d.transpose(0, 3, 1, 2).reshape(2, -1), atol=1e-6)


def attention_file(path, weights):
    """A block of a transformer as PyTorch writes one: tokens [L, B, C], heads joined to B."""
    q, out, first, norm = weights
    nodes = [
        node("Conv", "x first", "a", strides=[4, 4]),
        node("Reshape", "a tokens", "b"), node("Transpose", "b", "c", perm=[0, 2, 1]),
        node("LayerNormalization", "c gamma beta", "n", epsilon=1e-2),
        node("Transpose", "n", "t", perm=[1, 0, 2]),
        node("MatMul", "t qkv", "u"),
        node("Reshape", "u parts", "v"), node("Unsqueeze", "v zero", "v1"),
        node("Transpose", "v1", "v2", perm=[3, 1, 2, 0, 4]), node("Squeeze", "v2 three", "w"),
        *(node("Gather", f"w number{n}", f"g{n}", axis=0) for n in range(3)),
        *(node("Reshape", f"g{n} heads", f"h{n}") for n in range(3)),
        *(node("Transpose", f"h{n}", f"i{n}", perm=[1, 0, 2]) for n in range(3)),
        node("Transpose", "i1", "k", perm=[0, 2, 1]), node("MatMul", "i0 k", "s0"),
        node("Mul", "s0 scale", "s"), node("Softmax", "s", "p", axis=-1),
        node("MatMul", "p i2", "o"), node("Transpose", "o", "o1", perm=[1, 0, 2]),
        node("Reshape", "o1 flat", "o2"), node("Gemm", "o2 project", "o3"),
        node("Reshape", "o3 back", "o4"), node("Transpose", "o4", "o5", perm=[1, 0, 2]),
        node("Add", "c o5", "r"), node("ReduceMean", "r", "out", axes=[1], keepdims=0),
    ]  # fmt: skip
    arrays = {
        "first": first.transpose(3, 2, 0, 1), "gamma": norm[0], "beta": norm[1],
        "qkv": np.concatenate([one.reshape(6, 6) for one in q], 1), "project": out.reshape(6, 6),
        "tokens": np.array([0, 6, -1]), "parts": np.array([4, 1, 3, 6]), "zero": np.array([0]),
        "three": np.array([3]), "heads": np.array([4, 2, 3]), "flat": np.array([-1, 6]),
        "back": np.array([4, 1, 6]), "scale": F(3**-0.5),
        **{f"number{n}": np.int64(n) for n in range(3)},
    }  # fmt: skip
    return written(path, nodes, arrays, ["b", 3, 8, 8])


def test_a_transformer_has_the_maps_that_it_has_in_keras(tmp_path, rng):
    """Although its file moves the axis of the pictures, and joins it with others."""
    x = keras.Input((8, 8, 3))
    tokens = layers.Reshape((4, 6))(layers.Conv2D(6, 4, 4, use_bias=False)(x))
    norm = layers.LayerNormalization(epsilon=1e-2)
    attend = layers.MultiHeadAttention(2, 3, use_bias=False)
    a = norm(tokens)
    model = keras.Model(x, layers.GlobalAveragePooling1D()(tokens + attend(a, a)))
    for one in model.weights:
        one.assign(rng.normal("gamma" in one.path, 0.5, size=one.shape))
    *q, out = attend.get_weights()
    first = model.layers[1].get_weights()[0]
    path = attention_file(tmp_path / "vit.onnx", (q, out, first, norm.get_weights()))
    pictures = rng.normal(size=(3, 8, 8, 3)).astype(F)
    also = ["attnlrp", "cp_lrp", "gradient"]
    ours, expected = (
        Explainer(one, also=also, target=1)(pictures)
        for one in (load_network(path, preprocess="none").model, model)
    )
    np.testing.assert_allclose(ours.scores, expected.scores, atol=1e-6)
    for name in also:
        assert_near(ours.maps[name], expected.maps[name], 1e-5, name)


PARTS = {
    "LayerNormalization": (
        [node("ReduceMean", "t", "m", axes=[-1]), node("Sub", "t m", "c"),
         node("Pow", "c two", "q"), node("ReduceMean", "q", "v", axes=[-1]),
         node("Add", "v epsilon", "e"), node("Sqrt", "e", "d"), node("Div", "c d", "n"),
         node("Mul", "n gamma", "s"), node("Add", "s beta", "y")],
        node("LayerNormalization", "t gamma beta", "y", axis=-1, epsilon=1e-2), 17,
    ),
    "Gelu": (
        [node("Div", "t root", "a"), node("Erf", "a", "b"), node("Add", "b one", "c"),
         node("Mul", "t c", "d"), node("Mul", "d half", "y")],
        node("Gelu", "t", "y"), 20,
    ),
    "HardSwish": (
        [node("Add", "t three", "a"), node("Clip", "a zero six", "b"), node("Mul", "t b", "c"),
         node("Div", "c six", "y")],
        node("HardSwish", "t", "y"), 17,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", PARTS)
def test_an_operation_in_parts_has_the_map_of_the_whole(kind, tmp_path, rng):
    """Exporters write either, by opset; relevance must not depend on it."""
    parts, whole, opset = PARTS[kind]
    numbers_read = {"one": 1, "two": 2, "three": 3, "six": 6, "zero": 0, "half": 0.5,
                    "root": 2**0.5, "epsilon": 1e-2}  # fmt: skip
    arrays = {
        **{name: F(value) for name, value in numbers_read.items()}, "w": numbers(5, 3, 2, 2),
        "gamma": numbers(5, seed=1), "beta": numbers(5, seed=2), "k": numbers(5, 4, seed=3),
        "tokens": np.array([0, 5, -1]),
    }  # fmt: skip
    before = [node("Conv", "x w", "p", strides=[2, 2]), node("Reshape", "p tokens", "r"),
              node("Transpose", "r", "t", perm=[0, 2, 1])]  # fmt: skip
    after = [node("MatMul", "y k", "z"), node("ReduceMean", "z", "out", axes=[1], keepdims=0)]
    if opset >= 18:
        after[1] = node("ReduceMean", "z middle", "out", keepdims=0)
        arrays["middle"] = np.array([1])
    x, found = rng.normal(size=(2, 6, 8, 3)).astype(F), []
    composites = ["attnlrp", "epsilon_gamma_box", "gradient"]
    for name, middle in (("parts", parts), ("whole", [whole])):
        file = written(tmp_path / f"{name}.onnx", [*before, *middle, *after], arrays, opset=opset)
        network = load_network(file, preprocess="none")
        found.append(Explainer(network.model, also=composites, target=1, low=-3.0, high=3.0)(x))
    one, other = found
    np.testing.assert_allclose(one.scores, other.scores, atol=1e-6)
    for name in composites:
        assert_near(one.maps[name], other.maps[name], 1e-5)


def test_sizes_that_a_file_computes_are_known(tmp_path, rng):
    nodes = [
        node("Shape", "x", "s"), node("Gather", "s one", "c"), node("Gather", "s zero", "b"),
        node("Unsqueeze", "b axes", "b1"), node("Unsqueeze", "c axes", "c1"),
        node("Concat", "b1 c1 rest", "t", axis=0), node("Reshape", "x t", "y"),
        node("Range", "zero c one", "r"), node("Cast", "r", "f", to=1),
        node("MatMul", "y w", "z"), node("ReduceSum", "z last", "u", keepdims=0),
        node("Mul", "u f", "out"),
    ]  # fmt: skip
    arrays = {
        "zero": np.int64(0), "one": np.int64(1), "axes": np.array([0]), "rest": np.array([-1]),
        "w": numbers(48, 1), "last": np.array([2]),
    }  # fmt: skip
    path = written(tmp_path / "sizes.onnx", nodes, arrays, ["batch", 3, "h", "w"])
    with pytest.raises(UsageError, match="--size"):
        load_network(path)
    x = rng.normal(size=(2, 6, 8, 3)).astype(F)
    network = load_network(path, size=(6, 8), preprocess="none")
    expected = x.transpose(0, 3, 1, 2).reshape(2, 3, 48) @ numbers(48)
    np.testing.assert_allclose(network.model(x), expected * np.arange(3), atol=1e-4)
    assert (one := load_network(path, size=(6, 8))).preprocess == "torch"
    assert not one.warning


PREPARED = {
    "a division by 255": ([("Div", F(255))], {}, "none"),
    "-1 to 1 of 0 to 255": ([("Mul", F(1 / 127.5)), ("Sub", F(1))], {}, "none"),
    "ImageNet's of 0 to 255": (
        [("Sub", F([124, 116, 104]).reshape(3, 1, 1)), ("Div", F([58, 57, 57]).reshape(3, 1, 1))],
        {}, "none",
    ),
    "ImageNet's of 0 to 1": (
        [("Sub", F([0.485, 0.456, 0.406]).reshape(3, 1, 1)), ("Div", F(0.225))], {}, "rescale",
    ),
    "-1 to 1 of 0 to 1": ([("Mul", F(2)), ("Sub", F(1))], {}, "rescale"),
    "metadata": (
        [], {"Image.NominalPixelRange": "Normalized_1_1", "Image.BitmapPixelFormat": "Bgr8"},
        "-1..1 bgr",
    ),
    "nothing": ([], {}, "torch"),
    "a layer's own factor": ([("Mul", F(1.3))], {}, "torch"),
}  # fmt: skip


@pytest.mark.parametrize("told", PREPARED)
def test_how_pictures_are_prepared_is_what_the_file_says_or_a_guess(tmp_path, told, caplog):
    steps, about, expected = PREPARED[told]
    nodes, arrays, at = [], {"w": numbers(4, 3, 3, 3)}, "x"
    for n, (kind, value) in enumerate(steps):
        nodes.append(node(kind, f"{at} c{n}", f"a{n}"))
        arrays[f"c{n}"], at = value, f"a{n}"
    nodes += [node("Conv", f"{at} w", "y"), node("GlobalAveragePool", "y")]
    path = written(tmp_path / "net.onnx", nodes, arrays, about=about)
    assert load_network(path).preprocess == expected
    assert ("guess" in caplog.text) == (expected == "torch")


def test_a_clip_from_0_to_6_is_a_rectifier(both):
    """The layer before computes it too, as in Keras: a MobileNet would take 1.7 times as long."""
    graph = build_graph(load_network(both[1]).model)
    assert {node.layer: node.kind for node in graph.nodes}["relu6"] == "Relu6"


def detector_file(path, form, **changes):
    """A detector of 12 places and 3 classes, which ends in one of the known forms."""
    last = {"softmax": 4}.get(form, 3)
    arrays = {
        "w": numbers(8, 3, 2, 2), "wb": numbers(4, 8, 1, 1, seed=1), "bb": F([3, 2, 1, 2]),
        "wl": numbers(last, 8, 1, 1, seed=2), "bl": F([0, 0, 0, 9])[:last],
        "zero": F(0), "sb": np.array([1, 4, -1]), "sl": np.array([1, last, -1]),
    }  # fmt: skip
    nodes = [
        node("Conv", "x w", "a", strides=[2, 2]), node("Relu", "a", "b"),
        node("Conv", "b wb bb", "c"), node("Reshape", "c sb", "d"),
        node("Conv", "b wl bl", "e"), node("Reshape", "e sl", "m"),
        node("IsNaN", "m", "n"), node("Where", "n zero m", "f"),
    ]  # fmt: skip
    if form == "ultralytics":
        outputs = {"out": [1, 7, 12]}
        nodes += [node("Sigmoid", "f", "g"), node("Concat", "d g", axis=1)]
    else:
        outputs = {"dets": [1, 12, 4], "hidden": [1, 12, 8], "logits": [1, 12, last]}
        nodes += [
            node("Transpose", "d", "h", perm=[0, 2, 1]), node("Sigmoid", "h", "dets"),
            node("Transpose", "f", "logits", perm=[0, 2, 1]),
        ]  # fmt: skip
    return written(path, nodes, arrays, outputs=outputs, **changes)


@pytest.mark.parametrize("form", ["ultralytics", "sigmoid", "softmax"])
def test_a_detector_is_recognised_and_explained_box_by_box(tmp_path, rng, caplog, form):
    about = {"names": "{0: 'cup', 1: 'pen', 2: 'hat'}", "author": "Ultralytics"}
    path = detector_file(tmp_path / "net.onnx", form, about=about)
    network = load_network(path)
    assert network.detects and network.preprocess == "rescale"
    assert network.labels == ["cup", "pen", "hat", *["nothing"] * (form == "softmax")]
    assert ("Ultralytics" if form == "ultralytics" else "of DETR") in caplog.text
    x = rng.uniform(size=(1, 6, 8, 3)).astype(F)
    model = onnx.load(path)
    del model.graph.output[:]
    model.graph.output.extend(onnx.helper.make_tensor_value_info(n, 1, None) for n in "df")
    boxes, logits = ReferenceEvaluator(model).run(None, {"x": x.transpose(0, 3, 1, 2)})
    (cx, cy, w, h), logits = boxes[0], logits[0].T
    if form != "ultralytics":
        cx, cy, w, h = (1 / (1 + np.exp(-one)) for one in (cx, cy, w, h))
        cx, cy, w, h = cx * 8, cy * 6, w * 8, h * 6
    expected = np.stack([cy - h / 2, cx - w / 2, cy + h / 2, cx + w / 2], -1)
    scores = 1 / (1 + np.exp(-logits))
    if form == "softmax":
        scores = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    found = network.model(x)
    np.testing.assert_allclose(found["boxes"][0], expected, atol=1e-4)
    np.testing.assert_allclose(found["scores"][0], scores, atol=1e-5)
    best = Explainer(network, composite="epsilon").detections(x, top=1, threshold=0)
    assert best.scores[0, 0] == pytest.approx(scores[:, :3].max(), rel=1e-4)
    assert (best.places[0, 0], best.labels[0, 0]) == divmod(scores[:, :3].argmax(), 3)
    assert abs(best.maps.sum() + best.taken[0, 0]) == pytest.approx(best.scores[0, 0], rel=1e-3)


def test_an_output_is_named(tmp_path, run):
    path = detector_file(tmp_path / "net.onnx", "softmax")
    whole = load_network(path, preprocess="none")
    logits = load_network(path, preprocess="none", output="logits")
    assert whole.detects and not logits.detects
    with pytest.raises(DamagedInputError, match=r"\(12, 4\) .* every place"):
        Explainer(logits)
    with pytest.raises(UsageError, match="Did you mean 'logits'"):
        load_network(path, output="logit")
    media.write_picture(tmp_path / "a.png", media.plain())
    words = ("image", tmp_path / "a.png", "-o", tmp_path / "b.png", "--overwrite", "--model", path)
    assert run(*words, "--output", "scores")[0] == 2
    assert run(*words, "--output", "logits")[0] == 65


def test_a_segmentation_is_explained_at_a_pixel(tmp_path, rng):
    """Its output [1, C, H, W] is [B, H, W, C] here; a softmax over C is moved to the end."""
    arrays = {"w": numbers(4, 3, 2, 2)}
    nodes = [node("Conv", "x w", "z", strides=[2, 2]), node("Softmax", "z", axis=1)]
    path = written(tmp_path / "net.onnx", nodes, arrays)
    network, x = load_network(path, preprocess="none"), rng.normal(size=(1, 6, 8, 3)).astype(F)
    (found,) = ReferenceEvaluator(onnx.load(path)).run(None, {"x": x.transpose(0, 3, 1, 2)})
    explainer = Explainer(network, "gradient", target=3)
    explained = explainer(x, at=(3, 4))  # the place 1, 2 of 3 x 4
    np.testing.assert_allclose(explained.scores, found[:, :, 1, 2], atol=1e-5)
    outside = np.ones((6, 8), bool)
    outside[2:4, 4:6] = False
    assert not explained.relevance[0, outside].any()
    kernel = arrays["w"][3].transpose(1, 2, 0)  # the derivative of the logit
    np.testing.assert_allclose(explained.relevance[0, 2:4, 4:6], kernel, atol=1e-5)


def test_what_is_no_detector_is_no_detector(tmp_path):
    path = detector_file(tmp_path / "net.onnx", "ultralytics")
    model = onnx.load(path)
    model.graph.node[-1].input[:] = ["d", "f"]
    onnx.save(model, path)
    assert load_network(path).model.output_shape == (None, 7, 12)


@pytest.mark.parametrize("names", ["{0: 'a'}", "{0: 'a', 1: 3, 2: 'b'}", "[" * 10**5, "open('x')"])
def test_names_that_do_not_fit_are_left_out(tmp_path, names):
    about = {"names": names}
    assert load_network(detector_file(tmp_path / "n.onnx", "sigmoid", about=about)).labels is None


def _beside(location, **entries):
    def change(model):
        (one,) = [one for one in model.graph.initializer if one.name == "first0"]
        one.ClearField("raw_data")
        one.data_location = onnx.TensorProto.EXTERNAL
        for key, value in {"location": location, **entries}.items():
            one.external_data.add(key=key, value=str(value))

    return change


def _first(model):
    return model.graph.initializer[0]


def _control_flow(model):
    branch = onnx.helper.make_graph([], "branch", [], [])
    condition = node("If", "zero", "c", then_branch=branch, else_branch=branch)
    model.graph.node[2].CopyFrom(condition)


def _changed(number, **fields):
    def change(model):
        for key, value in fields.items():
            if isinstance(value, list):
                del getattr(model.graph.node[number], key)[:]
                getattr(model.graph.node[number], key).extend(value)
            else:
                setattr(model.graph.node[number], key, value)

    return change


def _attribute(number, name, value):
    def change(model):
        changed = model.graph.node[number].attribute
        for one in [one for one in changed if one.name == name]:
            changed.remove(one)
        changed.append(onnx.helper.make_attribute(name, value))

    return change


def _constant(number, shape):
    """A change of a file: a constant of any size, in a few bytes."""

    def change(model):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(shape), "sizes"))
        model.graph.node.insert(0, node("ConstantOfShape", "sizes", "huge"))
        model.graph.node[number + 1].input[1] = "huge"

    return change


def _slow_constant(model):
    """A file whose reference would take a step of Python for each of 2^26 entries."""
    sizes, zero = np.array([1 << 26, 1]), onnx.numpy_helper.from_array(np.array([0]))
    model.graph.initializer.append(onnx.numpy_helper.from_array(sizes, "sizes"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(sizes[:1], "many"))
    model.graph.node[7].input[2] = "changed"
    model.graph.node.insert(0, node("ConstantOfShape", "sizes", "places", value=zero))
    model.graph.node.insert(1, node("ConstantOfShape", "many", "entries"))
    model.graph.node.insert(2, node("ScatterND", "grouped1 places entries", "changed"))


def _pooled_constant(model):
    model.graph.node.insert(6, node("MaxPool", "first0", "pooled", kernel_shape=[2, 2]))
    model.graph.node[7].input[1] = "pooled"


def _constant_beside(model):
    value = onnx.TensorProto(
        dims=[1], data_type=1, data_location=onnx.TensorProto.EXTERNAL,
        external_data=[onnx.StringStringEntryProto(key="location", value="/etc/passwd")],
    )  # fmt: skip
    model.graph.initializer.pop(0)
    model.graph.node.insert(0, node("Constant", "", "first0", value=value))


DAMAGE = {
    "a constant elsewhere": (_constant_beside, "holds a constant in another file"),
    "no nodes": (lambda m: m.graph.ClearField("node"), "holds no network"),
    "an old opset": (lambda m: setattr(m.opset_import[0], "version", 6), "uses the opset 6"),
    "no initialiser": (lambda m: m.graph.initializer.pop(0), "reads 'first0', which is neither"),
    "a circle": (_changed(0, input=["x", "l", "first1"]), "read each other in a circle"),
    "computed twice": (_changed(3, output=["a"]), "computes 'a' twice"),
    "control flow": (_control_flow, r"'c' \(If\) .*control flow"),
    "quantised": (_changed(2, op_type="QLinearAdd"), "quantised"),
    "another domain": (_changed(2, domain="com.microsoft.nchwc"), "domain 'com.microsoft.nchwc'"),
    "unknown of Microsoft": (_changed(2, op_type="Gate", domain="com.microsoft"), "'Gate' of the"),
    "without a rule": (_changed(2, op_type="Hardmax"), r"'/relu' \(Hardmax\) .* has no rule"),
    "unknown": (_changed(2, op_type="Nothing"), "has no rule"),
    "other shapes": (lambda m: _first(m).dims.__setitem__(0, 5), "'first0' .* damaged"),
    "a huge claim": (lambda m: _first(m).dims.__setitem__(0, 10**6), "'first0' .* damaged"),
    "a huge constant": (_constant(0, [1 << 20] * 4), "too large"),
    "hours of Python": (_slow_constant, "too large"),
    "pools of constants": (_pooled_constant, "reads constants where"),
    "groups that do not fit": (_attribute(3, "group", 3), r"'/depthwise' \(Conv\) .* 3 groups"),
    "strides of nothing": (_attribute(0, "strides", [0, 0]), "has strides"),
    "an axis that is not there": (_attribute(12, "axis", 9), "axis 9"),
    "a type of attribute": (_attribute(0, "strides", "two"), r"\(Conv\) .* "),
    "weights elsewhere": (_beside("../secret"), "not in its folder"),
    "weights anywhere": (_beside("/etc/passwd"), "not in its folder"),
    "weights missing": (_beside("none.bin"), "not in its folder"),
    "weights too short": (_beside("short.bin"), "damaged"),
    "weights before": (_beside("short.bin", offset=-8), "damaged"),
    "several inputs": (
        lambda m: m.graph.input.append(onnx.helper.make_tensor_value_info("z", 1, [1])),
        "has the inputs 'x', 'z'",
    ),
    "no pictures": (
        lambda m: m.graph.input[0].type.tensor_type.shape.dim[1].__setattr__("dim_value", 7),
        "Expected pictures",
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_or_hostile_file_is_refused(both, tmp_path, damage):
    change, expected = DAMAGE[damage]
    (tmp_path / "short.bin").write_bytes(b"abc")
    model = onnx.load(both[1])
    change(model)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(DamagedInputError, match=expected) as raised:
        load_network(str(tmp_path / "net.onnx"))
    assert len(str(raised.value).splitlines()) <= 2


def test_a_name_may_hold_anything(both, tmp_path):
    model = onnx.load(both[1])
    for number, name in ((0, "层/😀"), (3, "../../a\n\x1b[31m"), (7, "x" * 10**5)):
        model.graph.node[number].name = name
    onnx.save(model, tmp_path / "net.onnx")
    rules = Explainer(load_network(str(tmp_path / "net.onnx")), composite="epsilon").rules_by_layer
    assert list(rules) == ["层/😀", "../../a__[31m", "x" * 500, "head/Gemm"]


def test_weights_that_are_no_numbers_are_said_to_be_so(both, tmp_path):
    model = onnx.load(both[1])
    weights = np.full(model.graph.initializer[0].dims, np.nan, F)
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weights, "first0"))
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(DamagedInputError, match="NaN"):
        Explainer(load_network(str(tmp_path / "net.onnx")))


def test_the_command_line_takes_a_file(run, both, tmp_path):
    media.write_picture(tmp_path / "a.png", media.plain())
    (tmp_path / "names.txt").write_text("a\nb\nc\nd\ne\n")
    words = ("image", tmp_path / "a.png", "-o", tmp_path / "b.png", "--overwrite", "--model")
    code, out, err = run(*words, both[1], "--labels", tmp_path / "names.txt")
    assert code == 0, err
    assert set(out.split("->")[0].split()[1::2]) < {"a", "b", "c", "d", "e"}
    with open(both[1], "rb") as file:
        data = file.read()
    for kept in (0, 10, len(data) // 2, len(data) - 3):
        (tmp_path / "cut.onnx").write_bytes(data[:kept])
        code, _, err = run(*words, tmp_path / "cut.onnx")
        assert code == 65, err
        assert len(err.splitlines()) <= 2


def test_without_the_package_a_line_says_what_to_install(run, both, tmp_path, monkeypatch):
    media.write_picture(tmp_path / "a.png", media.plain())
    for name in [one for one in sys.modules if one.startswith("realtime_lrp.models.onnx")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    code, _, err = run("image", tmp_path / "a.png", "-o", tmp_path / "b.png", "--model", both[1])
    assert code == 69
    assert 'pip install "realtime-lrp[onnx]"' in err
