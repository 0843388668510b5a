"""Small ONNX files, made without PyTorch."""

import numpy as np
import onnx
from onnx import helper, numpy_helper

PICTURE = [1, 3, 6, 8]


def numbers(*shape, seed=0):
    """Normal random numbers, float32."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def written(path, nodes, arrays=(), shape=PICTURE, outputs=(("out", None),), opset=17, **changes):
    """Writes nodes that read the pictures "x", with constants by name; returns the path as text."""
    values = {name: np.asarray(value) for name, value in dict(arrays).items()}
    graph = helper.make_graph(
        nodes, "net",
        [helper.make_tensor_value_info("x", changes.pop("kind", onnx.TensorProto.FLOAT), shape)],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, sizes or ["b", "n"])
         for name, sizes in dict(outputs).items()],
        [numpy_helper.from_array(value, name) for name, value in values.items()],
    )  # fmt: skip
    domains = {one.domain for one in nodes} - {""}
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(one, 1) for one in domains)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    helper.set_model_props(model, changes.pop("about", {}))
    onnx.save(model, str(path), **changes)
    return str(path)


def node(kind, inputs="x", outputs="out", name="", **attributes):
    """A node; its inputs and outputs are words, "-" for those that are left out."""
    read, made = (
        ["" if one == "-" else one for one in names.split()] for names in (inputs, outputs)
    )
    return helper.make_node(kind, read, made, name, **attributes)


def convolutional(rng):
    """Weights of a small network, as Keras has them: kernels [rows, columns, in, out]."""

    def normal(*shape, around=0.0):
        return rng.normal(around, 0.4, shape).astype(np.float32)

    def norm():
        return [normal(4, around=1), normal(4), normal(4), np.abs(normal(4, around=1))]

    return {
        "first": [normal(3, 3, 3, 4), normal(4)], "norm": norm(),
        "depthwise": [normal(3, 3, 4, 1)], "norm2": norm(),
        "grouped": [normal(3, 3, 2, 4), normal(4)], "dense": [normal(24, 5), normal(5)],
    }  # fmt: skip


def convolutional_file(path, weights, opset=17, dynamic=False, **changes):
    """The network as ONNX has it, [B, C, H, W], kernels [out, in, rows, columns]."""
    arrays = {
        f"{name}{n}": value.transpose(3, 2, 0, 1) if value.ndim == 4 else value
        for name, values in weights.items()
        for n, value in enumerate(values)
    }
    arrays["depthwise0"] = weights["depthwise"][0].transpose(2, 3, 0, 1)
    # the rows of the dense layer in the order of ONNX's Flatten
    arrays["dense0"] = weights["dense"][0].reshape(2, 3, 4, 5).transpose(2, 0, 1, 3).reshape(24, 5)
    norms = {name: f"{name}0 {name}1 {name}2 {name}3" for name in ("norm", "norm2")}
    nodes = [
        node("Conv", "x first0 first1", "a", "/first/Conv", auto_pad="SAME_UPPER", strides=[2, 2]),
        node("BatchNormalization", f"a {norms['norm']}", "b", "/norm", epsilon=1e-3),
        node("Relu", "b", "c", "/relu"),
        node("Conv", "c depthwise0", "d", "/depthwise", group=4, pads=[1, 1, 1, 1]),
        node("BatchNormalization", f"d {norms['norm2']}", "e", "/norm2", epsilon=1e-3),
        node("Clip", "e zero six", "f", "/relu6"),
        node("Add", "c f", "g", "/add"),
        node("Conv", "g grouped0 grouped1", "h", "/grouped", group=2, pads=[1, 1, 1, 1]),
        node("Relu", "h", "i", "/relu3"),
        node("MaxPool", "i", "j", "/pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", "j", "k", "/flatten"),
        node("Gemm", "k dense0 dense1", "l", "/head/Gemm"),
        node("Softmax", "l", "out", "/softmax", axis=-1),
    ]  # fmt: skip
    arrays |= {"zero": np.float32(0), "six": np.float32(6)}
    shape = ["batch" if dynamic else 1, 3, 8, 12]
    return written(path, nodes, arrays, shape, opset=opset, **changes)
