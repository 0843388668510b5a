"""Writes an ONNX graph: nodes, and constants that are stored once."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

OPSET = 18
NCHW, NHWC = (0, 3, 1, 2), (0, 2, 3, 1)  # permutations that make the layout
DERIVED = 256  # a smaller weight is stored even if it follows from another one

Input = str | float | Sequence[int] | np.ndarray
"""An input of a node: a name, a constant float32 [] or a constant int64 [n]."""


class Writer:
    """The nodes and constants of an ONNX graph that is being written."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self._stored: dict[str, np.ndarray] = {}
        self._names: dict[Any, str] = {}

    def op(self, kind: str, *inputs: Input, **attributes: Any) -> str:
        """Adds a node with one output; returns the output's name."""
        return self.ops(kind, *inputs, count=1, **attributes)[0]

    def ops(self, kind: str, *inputs: Input, count: int, **attributes: Any) -> list[str]:
        """Adds a node with several outputs; returns their names."""
        outputs = [f"{kind}_{len(self.nodes)}_{number}" for number in range(count)]
        names = [input_ if isinstance(input_, str) else self._literal(input_) for input_ in inputs]
        self.nodes.append(helper.make_node(kind, names, outputs, outputs[0], **attributes))
        return outputs

    def _literal(self, value: float | Sequence[int] | np.ndarray) -> str:
        if isinstance(value, int | float):
            return self.constant(np.float32(value))
        return self.constant(np.array(value, np.int64))

    def constant(self, values: Any) -> str:
        """The name of a constant; equal ones are stored once."""
        values = np.asarray(values)
        key = values.dtype.str, values.shape, hashlib.sha256(values.tobytes()).digest()
        name: str = self._names.setdefault(key, f"c{len(self._stored)}")
        self._stored.setdefault(name, values)
        return name

    def weight(self, values: np.ndarray) -> str:
        """The name of a weight; a signed part of another one is computed from it at loading."""
        for name, other in self._stored.items() if values.size >= DERIVED else ():
            if other.shape == values.shape and other.dtype == values.dtype and other.min() < 0:
                if np.array_equal(np.maximum(other, 0), values):
                    return self.op("Relu", name)
                if np.array_equal(np.minimum(other, 0), values) and values.any():
                    return self.op("Min", name, 0.0)
        return self.constant(values)

    def values(self, name: str) -> np.ndarray:
        """The values of a constant; NotImplementedError if they are computed."""
        if name not in self._stored:
            raise NotImplementedError("whose shape or weight is computed")
        return self._stored[name]

    def known(self, name: str) -> bool:
        """Whether a name belongs to a constant."""
        return name in self._stored

    def first(self, name: str) -> str:
        """A picture with its channels first, as ONNX's convolutions have it."""
        return self.op("Transpose", name, perm=NCHW)

    def last(self, name: str) -> str:
        """A picture with its channels last, as TensorFlow has it."""
        return self.op("Transpose", name, perm=NHWC)

    def graph(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
        """The graph of described inputs and outputs, with all that outputs depend on."""
        wanted = {output.name for output in outputs}
        needed = []
        for node in reversed(self.nodes):
            if wanted.intersection(node.output):
                wanted.update(node.input)
                needed.append(node)
        stored = [
            numpy_helper.from_array(values, name)
            for name, values in self._stored.items()
            if name in wanted
        ]
        return helper.make_graph(needed[::-1], "explanation", inputs, outputs, stored)
