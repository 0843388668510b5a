"""A node of an ONNX file, and what rows read of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from realtime_lrp.models.onnx.axes import CannotReadError, Tensor

Value = Tensor | np.ndarray
Inputs = Sequence[Value | None]


@dataclass(frozen=True)
class OnnxNode:
    """A node of the file.

    Attributes:
      attributes: as the file has them, text as `str`.
      version: the opset that its domain has.
      outputs: how many outputs it has.
      keep: makes a TensorFlow constant of an array.
    """

    kind: str
    attributes: dict[str, Any]
    version: int
    outputs: int
    keep: Callable[[np.ndarray], tf.Tensor]

    def get(self, name: str, default: Any) -> Any:
        """An attribute."""
        return self.attributes.get(name, default)


Row = Callable[[OnnxNode, Inputs], Value | list[Value]]


def tensor(inputs: Inputs, position: int = 0) -> Tensor:
    """An input that depends on the picture."""
    value = inputs[position]
    if not isinstance(value, Tensor):
        raise CannotReadError("reads constants where a tensor of the picture is expected")
    return value


def constant(inputs: Inputs, position: int, what: str = "numbers") -> np.ndarray | None:
    """An input that does not depend on the pictures, None where it is left out."""
    value = inputs[position] if position < len(inputs) else None
    if isinstance(value, Tensor):
        raise CannotReadError(f"reads {what} that depend on the picture")
    return value


def given(inputs: Inputs, position: int, what: str = "numbers") -> np.ndarray:
    """An input that does not depend on the pictures and must be there."""
    value = constant(inputs, position, what)
    if value is None:
        raise CannotReadError(f"has no {what}")
    return value


def integers(node: OnnxNode, inputs: Inputs, position: int, name: str) -> list[int] | None:
    """What later opsets have as an input and earlier ones as an attribute."""
    value = constant(inputs, position)
    found = node.get(name, None) if value is None else value.reshape(-1)
    return None if found is None else [int(one) for one in found]


def finite_mask(array: np.ndarray) -> np.ndarray:
    """A mask that is added before a softmax, without -infinity: explainers refuse such weights."""
    if array.dtype.kind != "f":
        return array
    return np.where(np.isneginf(array), np.float32(-1e30), array)
