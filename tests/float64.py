"""An exported explanation, and the TensorFlow graph that it was made from, computed in float64.

Float32 leaves ReLUs near 0 and nearly equal entries of max pools on either side, which moves parts
of a map. In float64 they agree, so that what is left is what the file computes otherwise.
"""

import itertools

import numpy as np
import onnx
import tensorflow as tf
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from realtime_lrp.export.frozen import frozen

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
