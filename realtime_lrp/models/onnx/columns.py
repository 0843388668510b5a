"""Columns of a tensor that a file has joined of several: which operation computed each.

Detectors end in boxes and scores that are joined, turned and split in many orders. Here they are
followed back through what only moves entries.
"""

import itertools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from realtime_lrp.relevance.reading.tracing import compute_of

MOVES = (
    "ConcatV2", "ExpandDims", "GatherV2", "Identity", "Reshape", "Split", "SplitV", "Squeeze",
    "StridedSlice", "Transpose",
)  # fmt: skip
"""Operations that only move entries."""

Spans = list[tuple[int, str]]
"""How many columns an operation of this type computed, one span after the other."""


def spans(tensor: tf.Tensor, axis: int) -> Spans:
    """The operations behind the columns along an axis, from the first column on."""
    operation = tensor.op
    size = tensor.shape[axis]
    if operation.type == "ConcatV2":
        parts = [spans(one, axis) for one in operation.inputs[:-1]]
        if int(_known(operation.inputs[-1])) == axis:
            return _merged([*itertools.chain(*parts)])
        return parts[0] if all(one == parts[0] for one in parts) else [(size, "ConcatV2")]
    if (place := _place(tensor, axis)) is not None:
        before, own, first = place
        kinds = [kind for count, kind in spans(before, own) for _ in range(count)]
        return _merged([(1, kind) for kind in kinds[first : first + size]])
    return [(size, _kind(tensor) if size == 1 else operation.type)]


def _kind(tensor: tf.Tensor) -> str:
    """The operation that computed entries before they were moved."""
    operation = tensor.op
    if operation.type not in MOVES:
        return operation.type
    joined = operation.inputs[:-1] if operation.type == "ConcatV2" else operation.inputs[:1]
    kinds = {_kind(one) for one in joined}
    return kinds.pop() if len(kinds) == 1 else operation.type


def _merged(parts: Spans) -> Spans:
    groups = itertools.groupby(parts, lambda one: one[1])
    return [(sum(size for size, _ in group), kind) for kind, group in groups]


def columns(tensor: tf.Tensor, axis: int, first: int, stop: int) -> tf.Tensor:
    """Some columns along an axis, taken where they are computed, before they were joined."""
    operation = tensor.op
    if operation.type == "Sigmoid":
        return tf.sigmoid(columns(operation.inputs[0], axis, first, stop))
    if operation.type == "ConcatV2":
        along = int(_known(operation.inputs[-1]))
        parts = []
        at = 0
        for one in operation.inputs[:-1]:
            if along != axis:
                parts.append(columns(one, axis, first, stop))
                continue
            size = one.shape[axis]
            if first < at + size and at < stop:
                parts.append(columns(one, axis, max(first - at, 0), min(stop - at, size)))
            at += size
        return parts[0] if len(parts) == 1 else tf.concat(parts, along)
    if (place := _place(tensor, axis)) is not None:
        before, own, begin = place
        found = columns(before, own, begin + first, begin + stop)
        if operation.type == "Transpose":
            return tf.transpose(found, _known(operation.inputs[1]))
        if operation.type == "Reshape":
            shape = [-1, *tensor.shape[1:]]
            shape[axis] = stop - first
            return tf.reshape(found, shape)
        return found
    if (first, stop) == (0, tensor.shape[axis]):
        return tensor
    return tensor[(slice(None),) * axis + (slice(first, stop),)]


def _place(tensor: tf.Tensor, axis: int) -> tuple[tf.Tensor, int, int] | None:
    """Where columns come from: a tensor, its axis, and the first column there; or None."""
    operation = tensor.op
    if operation.type == "Transpose":
        return operation.inputs[0], int(_known(operation.inputs[1])[axis]), 0
    if operation.type == "Reshape":
        before = operation.inputs[0]
        sizes = [1, *before.shape[1:]], [1, *tensor.shape[1:]]
        for own, size in enumerate(sizes[0]):
            alike = size == sizes[1][axis] and own > 0
            if alike and np.prod(sizes[0][:own]) == np.prod(sizes[1][:axis]):
                return before, own, 0
    if operation.type == "SplitV" and int(_known(operation.inputs[2])) == axis:
        sizes_of_parts = _known(operation.inputs[1])
        return operation.inputs[0], axis, int(sizes_of_parts[: tensor.value_index].sum())
    if operation.type == "StridedSlice":
        before = operation.inputs[0]
        masks = operation.get_attr("begin_mask")
        others = range(1, len(before.shape))
        kept = all(before.shape[n] == tensor.shape[n] for n in others if n != axis)
        if len(before.shape) == len(tensor.shape) and kept:
            begin, steps = (_known(operation.inputs[n]) for n in (1, 3))
            if axis < len(begin) and int(steps[axis]) == 1:
                return before, axis, 0 if masks >> axis & 1 else int(begin[axis])
    return None


def before_activation(tensor: tf.Tensor, kind: str) -> tf.Tensor | None:
    """The tensor as it is before an activation of a type, which all its parts have; else None."""
    operation = tensor.op
    if operation.type == kind:
        return operation.inputs[0]
    if operation.type not in MOVES:
        return None
    read: list[tf.Tensor] = []
    for one in operation.inputs:
        constant = tf.get_static_value(one) is not None
        found = one if constant else before_activation(one, kind)
        if found is None:
            return None
        read.append(found)
    made = compute_of(operation)(*read)
    return made[tensor.value_index] if isinstance(made, Sequence) else made


def _known(tensor: tf.Tensor) -> np.ndarray:
    return np.asarray(tf.get_static_value(tensor))
