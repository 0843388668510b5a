"""Writes ONNX nodes: names of tensors, constants that are stored once, the layout of pictures.

A tensor of rank 4 may exist as NHWC, TensorFlow's layout, and as NCHW, that of ONNX's convolutions;
it is transposed once, where a reader wants the other one.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from onnx import helper, numpy_helper

OPSET = 18
NCHW, NHWC = (0, 3, 1, 2), (0, 2, 3, 1)
"""Permutations that make the layout."""

DERIVED = 256
"""A smaller constant is stored even if it follows from another one."""


class Writer:
    """The nodes and constants of an ONNX graph that is being written."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.stored: dict[str, np.ndarray] = {}
        self._names: dict[Any, str] = {}

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node with one output; returns the output's name."""
        return self.ops(kind, *inputs, count=1, **attributes)[0]

    def ops(self, kind: str, *inputs: str, count: int, **attributes: Any) -> list[str]:
        """Adds a node with several outputs; returns their names."""
        outputs = [f"{kind}_{len(self.nodes)}_{number}" for number in range(count)]
        self.nodes.append(helper.make_node(kind, inputs, outputs, outputs[0], **attributes))
        return outputs

    def constant(self, values: Any) -> str:
        """The name of a constant; equal ones are stored once.

        A positive or negative part of a stored constant is computed from it, when the file is
        loaded.
        """
        values = np.asarray(values, order="C")
        key = values.dtype.str, values.shape, hashlib.sha256(values.tobytes()).digest()
        if key not in self._names:
            self._names[key] = self._part_of_another(values) or self._store(values)
        return self._names[key]

    def whole(self, *values: int) -> str:
        """The name of a constant int64 [n]."""
        return self.constant(np.array(values, np.int64))

    def number(self, value: float) -> str:
        """The name of a constant float32 []."""
        return self.constant(np.float32(value))

    def _store(self, values: np.ndarray) -> str:
        name = f"c{len(self.stored)}"
        self.stored[name] = values
        return name

    def _part_of_another(self, values: np.ndarray) -> str | None:
        if values.size < DERIVED or values.dtype != np.float32:
            return None
        for name, other in self.stored.items():
            if other.shape == values.shape and other.dtype == values.dtype:
                if np.array_equal(np.maximum(other, 0), values):
                    return self.op("Relu", name)
                if np.array_equal(np.minimum(other, 0), values):
                    return self.op("Min", name, self.number(0))
        return None

    def initialisers(self) -> list[Any]:
        """The constants that nodes read, as ONNX stores them."""
        used = {name for node in self.nodes for name in node.input}
        return [
            numpy_helper.from_array(values, name)
            for name, values in self.stored.items()
            if name in used
        ]


class Tensors:
    """TensorFlow's tensors by their names in ONNX, in one layout or both.

    Attributes:
      writer: where transposes and constants are written.
    """

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self._constants: dict[str, np.ndarray] = {}
        self._names: dict[tuple[str, bool], str] = {}
        self.turned: dict[tuple[str, bool], str] = {}  # kernels for the way back

    def set_constant(self, tensor: tf.Tensor, values: np.ndarray) -> None:
        """Makes a tensor one that is known."""
        self._constants[tensor.name] = values

    def constant(self, tensor: tf.Tensor) -> np.ndarray | None:
        """The values of a tensor that is known, else None."""
        return self._constants.get(tensor.name)

    def known(self, tensor: tf.Tensor) -> np.ndarray:
        """The values of a tensor that has to be known, such as a shape."""
        return self._constants[tensor.name]

    def put(self, tensor: tf.Tensor, name: str, first: bool = False) -> None:
        """Gives a tensor its name; `first`: its channels come first (NCHW)."""
        self._names[tensor.name, first] = name

    def get(self, tensor: tf.Tensor, first: bool = False) -> str:
        """The name of a tensor in a layout."""
        first = first and tensor.shape.rank == 4
        key = tensor.name, first
        if key not in self._names:
            values = self.constant(tensor)
            permutation = NCHW if first else NHWC
            if values is not None:
                values = values.transpose(NCHW) if first else values
                self._names[key] = self.writer.constant(values)
            else:
                other = self._names[tensor.name, not first]
                self._names[key] = self.writer.op("Transpose", other, perm=permutation)
        return self._names[key]

    def alias(self, tensor: tf.Tensor, of: tf.Tensor) -> None:
        """Makes a tensor another name of one that exists."""
        values = self.constant(of)
        if values is not None:
            self.set_constant(tensor, values)
        for first in (False, True):
            if (of.name, first) in self._names:
                self.put(tensor, self._names[of.name, first], first)

    def first(self, *tensors: tf.Tensor) -> bool:
        """Whether one of the tensors exists with its channels first."""
        return any(
            one.shape.rank == 4 and (one.name, True) in self._names and self.constant(one) is None
            for one in tensors
        )

    def broadcast(self, tensor: tf.Tensor, first: bool) -> str:
        """As `get`, of an operand that is broadcast: a smaller constant gets the axes it lacks."""
        values = self.constant(tensor)
        if first and values is not None and values.ndim < 4 and values.size > 1:
            values = values.reshape((1,) * (4 - values.ndim) + values.shape)
            return self.writer.constant(values.transpose(NCHW))
        return self.get(tensor, first)


def place(axis: int, rank: int, first: bool) -> int:
    """Where an axis of NHWC is in a layout."""
    axis %= rank
    return NCHW.index(axis) if first and rank == 4 else axis


def in_layout(values: Sequence[int], first: bool) -> list[int]:
    """A number for each axis of NHWC, in the order of a layout."""
    plain = [int(one) for one in values]
    return [plain[axis] for axis in NCHW] if first and len(plain) == 4 else plain
