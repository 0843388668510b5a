"""Finds the layer normalisations among the operations of a SavedModel, which holds no layers.

They are found by how operations are connected, whatever the order of products and sums. Whether
these are a layer normalisation is then tried on numbers, which also gives its gamma and beta.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from realtime_lrp.relevance.normalisations import LayerNorm
from realtime_lrp.relevance.traced.tracing import BATCH
from realtime_lrp.relevance.traced.values import run

DEVIATIONS = {"Rsqrt", "Sqrt"}
PARTS = {
    "Mean", "StopGradient", "SquaredDifference", "Square", "Sub", "Neg", "Add", "AddV2", "Mul",
    "RealDiv", "Reciprocal", "Identity", "Squeeze", "ExpandDims", "Reshape", *DEVIATIONS,
}  # fmt: skip
"""The types of operations that a normalisation is written with."""


@dataclass(frozen=True)
class Suspect:
    """Operations that may be a layer normalisation.

    Attributes:
      root: the tensor that they read, as it was traced.
      operations: in the order of computing; only the last one is read by others.
    """

    root: tf.Tensor
    operations: list[tf.Operation]

    @property
    def output(self) -> tf.Operation:
        """The operation that computes the result."""
        return self.operations[-1]


def suspects(graph: tf.Graph, of_picture: set[str], needed: set[str]) -> list[Suspect]:
    """The operations between a mean and the only tensor in which everything made of it meets.

    Args:
      graph: the traced operations, in the order of computing.
      of_picture: the names of the tensors that depend on the picture.
      needed: the names of the operations that outputs depend on.
    """
    operations = [one for one in graph.get_operations() if one.name in needed]
    found: list[Suspect] = []
    taken: set[str] = set()
    for position, operation in enumerate(operations):
        of_mean = operation.type == "Mean" and operation.outputs[0].name in of_picture
        if of_mean and operation.name not in taken:
            root = operation.inputs[0]
            if parts := _parts(root, operations[position:], of_picture, needed):
                found.append(Suspect(root, parts))
                taken.update(one.name for one in parts)
    return found


def _parts(
    root: tf.Tensor, operations: Sequence[tf.Operation], of_picture: set[str], needed: set[str]
) -> list[tf.Operation]:
    """The first of the operations, a mean, with all that is made of it; empty if it does not meet.

    What they read is the root, constants, and each other.
    """
    parts: list[tf.Operation] = []
    inside: set[str] = set()
    for operation in operations:
        read = {one.name for one in operation.inputs if one.name in of_picture}
        if parts and not read & inside:
            continue
        if operation.type not in PARTS or not read <= inside | {root.name}:
            return []
        parts.append(operation)
        inside.add(operation.outputs[0].name)
        names = {one.name for one in parts}
        read_by = {
            reader.name for one in parts[:-1] for reader in one.outputs[0].consumers()
        } & needed
        meets = len(parts) > 1 and read_by <= names
        if meets and operation.outputs[0].shape == root.shape:
            return parts if any(one.type in DEVIATIONS for one in parts) else []
    return []


def as_layer_norm(
    suspect: Suspect, constant: Callable[[tf.Tensor], tf.Tensor | None]
) -> LayerNorm | None:
    """The layer normalisation that the operations compute; None if they compute something else.

    Args:
      suspect: the operations.
      constant: the value of a tensor that does not depend on the picture, else None.
    """
    axes = constant(suspect.operations[0].inputs[1])
    rank = suspect.root.shape.rank
    own = sorted({int(axis) % rank for axis in np.ravel(axes)}) if axes is not None else [0]
    if 0 in own or suspect.root.shape[0] != BATCH or suspect.root.dtype != tf.float32:
        return None
    rng = np.random.default_rng(0)
    a = rng.normal(0.5, 2, suspect.root.shape).astype(np.float32)
    values = {suspect.root.name: tf.constant(a)}
    for operation in suspect.operations:
        inputs = [values[t.name] if t.name in values else constant(t) for t in operation.inputs]
        values[operation.outputs[0].name] = run(operation, inputs)[0]
    computed = values[suspect.output.outputs[0].name].numpy().astype(np.float64)
    if not np.isfinite(computed).all():
        return None
    epsilon = _epsilon(suspect, constant)
    plain = LayerNorm(own, None, None, epsilon)
    normal = plain.normalise(tf.constant(a)).numpy().astype(np.float64)
    others = tuple(axis for axis in range(rank) if axis not in own)
    deviation = normal - normal.mean(others, keepdims=True)
    gamma = (deviation * computed).mean(others) / (deviation**2).mean(others)
    beta = computed.mean(others) - gamma * normal.mean(others)
    shape = [size if axis in own else 1 for axis, size in enumerate(suspect.root.shape)]
    expected = normal * gamma.reshape(shape) + beta.reshape(shape)
    if not np.allclose(computed, expected, rtol=0, atol=1e-4 * np.abs(computed).max()):
        return None
    return LayerNorm(own, tf.constant(gamma, tf.float32), tf.constant(beta, tf.float32), epsilon)


def _epsilon(suspect: Suspect, constant: Callable[[tf.Tensor], tf.Tensor | None]) -> float:
    """What is added to the variance before its root is taken; 0 where nothing is."""
    root = next(one for one in suspect.operations if one.type in DEVIATIONS)
    before = root.inputs[0].op
    parts = {one.outputs[0].name for one in suspect.operations}
    read = before.inputs if before.type in ("Add", "AddV2") else []
    added = [constant(one) for one in read if one.name not in parts]
    return next((float(one) for one in added if one is not None and one.shape.rank == 0), 0.0)
