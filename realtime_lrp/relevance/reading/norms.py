"""Finds the layer and group normalisations among the operations of a SavedModel without layers.

How operations are connected suggests them; numbers decide, and give gamma and beta.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from realtime_lrp.relevance.network.steps import Reshape, Step
from realtime_lrp.relevance.network.traced_steps import BATCH, Normalisation
from realtime_lrp.relevance.reading.tracing import run

ROOTS = {"Rsqrt", "Sqrt"}
PARTS = {
    "Mean", "StopGradient", "SquaredDifference", "Square", "Sub", "Neg", "Add", "AddV2", "Mul",
    "RealDiv", "Reciprocal", "Identity", "Squeeze", "ExpandDims", "Reshape", *ROOTS,
}  # fmt: skip
"""The types of operations that a normalisation is written with."""


@dataclass(frozen=True)
class Candidate:
    """Operations, in order, that may be a normalisation of the traced tensor `root`."""

    root: tf.Tensor
    operations: list[tf.Operation]  # only the last one is read by others
    least: int  # those from this number on may be its gamma and beta


def candidates(
    operations: Sequence[tf.Operation], of_picture: set[str], needed: set[str]
) -> list[Candidate]:
    """The operations between a mean and the only tensor in which everything made of it meets."""
    operations = [one for one in operations if one.name in needed]
    found: list[Candidate] = []
    taken: set[str] = set()
    for position, operation in enumerate(operations):
        of_mean = operation.type == "Mean" and operation.outputs[0].name in of_picture
        if of_mean and operation.name not in taken:
            root = operation.inputs[0]
            if parts := _parts(root, operations[position:], of_picture, needed):
                least = len(parts)
                for _ in range(2):  # a product and a sum with constants
                    output = parts[-1].outputs[0]
                    readers = [
                        consumer for consumer in output.consumers() if consumer.name in needed
                    ]
                    if len(readers) != 1 or readers[0].type not in ("Add", "AddV2", "Mul"):
                        break
                    read = [
                        input_.name for input_ in readers[0].inputs if input_.name in of_picture
                    ]
                    if readers[0].outputs[0].shape != output.shape or read != [output.name]:
                        break
                    parts.append(readers[0])
                found.append(Candidate(root, parts, least))
                taken.update(part.name for part in parts)
    return found


def _parts(
    root: tf.Tensor, operations: Sequence[tf.Operation], of_picture: set[str], needed: set[str]
) -> list[tf.Operation]:
    """A mean and all operations made of it, which read the root and constants; or nothing."""
    parts: list[tf.Operation] = []
    inside: set[str] = set()
    for operation in operations:
        read = {input_.name for input_ in operation.inputs if input_.name in of_picture}
        if parts and not read & inside:
            continue
        if operation.type not in PARTS or not read <= inside | {root.name}:
            return []
        parts.append(operation)
        inside.add(operation.outputs[0].name)
        names = {one.name for one in parts}
        readers = {consumer.name for part in parts[:-1] for consumer in part.outputs[0].consumers()}
        meets = any(one.type in ROOTS for one in parts) and readers & needed <= names
        if meets and operation.outputs[0].shape == root.shape:
            return parts
    return []


def as_normalisation(
    candidate: Candidate, constant: Callable[[tf.Tensor], tf.Tensor | None]
) -> list[Step]:
    """The normalisation that the operations compute; empty if they compute something else."""
    axes = constant(candidate.operations[0].inputs[1])
    rank = candidate.root.shape.rank
    own = sorted({int(axis) % rank for axis in np.ravel(axes)}) if axes is not None else [0]
    if 0 in own or candidate.root.shape[0] != BATCH or candidate.root.dtype != tf.float32:
        return []
    rng = np.random.default_rng(0)
    a = rng.normal(0.5, 2, candidate.root.shape).astype(np.float32)
    values = {candidate.root.name: tf.constant(a)}
    for operation in candidate.operations:
        inputs = [values[t.name] if t.name in values else constant(t) for t in operation.inputs]
        values[operation.outputs[0].name] = run(operation, inputs)[0]
    computed = values[candidate.operations[-1].outputs[0].name].numpy().astype(np.float64)
    if not np.isfinite(computed).all():
        return []
    before = next(one for one in candidate.operations if one.type in ROOTS).inputs[0].op
    read = before.inputs if before.type in ("Add", "AddV2") else []
    added = [constant(one) for one in read if one.name not in values]  # the variance's epsilon
    epsilon = next((float(one) for one in added if one is not None and one.shape.rank == 0), 0.0)
    plain = Normalisation(None, None, epsilon, own)
    normal = plain.normalise(tf.constant(a)).numpy().astype(np.float64)
    if fitted := _gamma_and_beta(computed, normal, own):
        return [Normalisation(*fitted, epsilon, own)]
    shape = candidate.root.shape[1:-2].as_list()
    groups = candidate.root.shape[-2:].as_list()
    of_groups = own == [*range(1, rank - 2), rank - 1]  # [B, ..., groups, channels of each]
    if of_groups and (fitted := _gamma_and_beta(computed, normal, [rank - 2, rank - 1])):
        gamma, beta = (tf.reshape(one, [-1]) for one in fitted)
        norm = Normalisation(gamma, beta, epsilon, groups=groups[0])
        return [Reshape([*shape, int(np.prod(groups))]), norm, Reshape([*shape, *groups])]
    return []


def _gamma_and_beta(
    computed: np.ndarray, normal: np.ndarray, axes: Sequence[int]
) -> tuple[tf.Tensor, tf.Tensor] | None:
    """Gamma and beta, along axes, for computed = normal * gamma + beta; None if there are none."""
    others = tuple(axis for axis in range(normal.ndim) if axis not in axes)
    deviation = normal - normal.mean(others, keepdims=True)
    gamma = (deviation * computed).sum(others, keepdims=True)
    gamma /= (deviation**2).sum(others, keepdims=True)
    beta = (computed - gamma * normal).mean(others, keepdims=True)
    if not np.allclose(computed, normal * gamma + beta, rtol=0, atol=1e-4 * np.abs(computed).max()):
        return None
    gamma, beta = (tf.constant(np.squeeze(one, others), tf.float32) for one in (gamma, beta))
    return gamma, beta
