"""Tensors whose axes ONNX counts in one order and TensorFlow holds in another.

A file is read as the network of a single picture; TensorFlow holds a batch of them on an axis more,
in front. ONNX's feature maps are [1, C, H, W]; they are held as [B, H, W, C], on which convolutions
are fast. So nothing is moved where a file transposes or reshapes: only the list of axes changes.
Entries are moved where an operation needs them elsewhere.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf


class CannotReadError(Exception):
    """A node cannot be read; the message says why, to follow its name."""


@dataclass(frozen=True)
class Tensor:
    """What depends on the picture.

    Attributes:
      held: what TensorFlow holds, float32 [B, ...].
      axes: for each of ONNX's axes those of `held` that it runs through, the slowest first; one
        without any has the size 1. The first axis of `held` belongs to none.
    """

    held: tf.Tensor
    axes: tuple[tuple[int, ...], ...]

    @property
    def sizes(self) -> list[int]:
        """The sizes of the axes of `held`, for one picture."""
        return [1, *self.held.shape[1:]]

    @property
    def shape(self) -> tuple[int, ...]:
        """ONNX's shape."""
        return tuple(math.prod(self.sizes[part] for part in axis) for axis in self.axes)

    def holding(self, held: tf.Tensor) -> "Tensor":
        """What is computed of this, with the same axes; they may have other sizes."""
        return Tensor(held, self.axes)

    def axis(self, number: int) -> int:
        """ONNX's number of an axis; negative ones count from the end."""
        if not -len(self.axes) <= number < len(self.axes):
            raise CannotReadError(f"names axis {number} of a tensor with {len(self.axes)} axes")
        return number % len(self.axes)

    def with_rank(self, rank: int) -> "Tensor":
        """The same with axes of size 1 in front, until there are as many axes."""
        return Tensor(self.held, ((),) * (rank - len(self.axes)) + self.axes)

    def transposed(self, order: Sequence[int]) -> "Tensor":
        """ONNX's axes in another order."""
        if sorted(order) != list(range(len(self.axes))):
            raise CannotReadError(f"orders {len(self.axes)} axes as {list(order)}")
        return Tensor(self.held, tuple(self.axes[one] for one in order))

    def last(self, *numbers: int) -> "Tensor":
        """The same with some of ONNX's axes held as the last axes, one each, in this order."""
        moved = [part for number in numbers for part in self.axes[number]]
        others = [part for part in range(len(self.held.shape)) if part not in moved]
        held = self.held
        if others + moved != list(range(len(self.held.shape))):
            held = tf.transpose(held, others + moved)
        if any(len(self.axes[number]) != 1 for number in numbers):
            kept = [self.sizes[part] for part in others[1:]]
            held = tf.reshape(held, [-1, *kept, *(self.shape[number] for number in numbers)])
        axes = [tuple(others.index(one) for one in axis if one in others) for axis in self.axes]
        for position, number in enumerate(numbers):
            axes[number] = (len(others) + position,)
        return Tensor(held, tuple(axes))

    def single(self, *numbers: int) -> "Tensor":
        """The same with each of these axes of ONNX's held as one axis."""
        split = [number for number in numbers if len(self.axes[number]) != 1]
        return self.last(*split) if split else self

    def without(self, gone: Sequence[int]) -> "Tensor":
        """The same without some axes of `held`, of size 1."""
        if not gone:
            return self
        kept = [part for part in range(len(self.held.shape)) if part not in gone]
        held = tf.reshape(self.held, [-1, *(self.sizes[part] for part in kept[1:])])
        axes = [tuple(kept.index(part) for part in axis if part in kept) for axis in self.axes]
        return Tensor(held, tuple(axes))

    def reshaped(self, shape: Sequence[int]) -> "Tensor":
        """The same entries, in ONNX's order, in another shape."""
        if math.prod(shape) != math.prod(self.shape):
            raise CannotReadError(f"reshapes {list(self.shape)} to {list(shape)}")
        flat = Tensor(self.held, (tuple(part for axis in self.axes for part in axis),))
        found = flat._split(shape) or flat.last(0)._split(shape)
        assert found is not None  # a single axis that is held as one can be split into any
        return found

    def _split(self, shape: Sequence[int]) -> "Tensor | None":
        """The only axis split into several; None if that would have to split what is joined."""
        (joined,), sizes = self.axes, self.sizes
        left = [(part, sizes[part]) for part in reversed(joined)]
        pieces: list[list[int]] = [[] for _ in sizes]
        groups: list[list[tuple[int, int]]] = []
        for size in shape:
            groups.append([])
            have = 1
            while have < size:
                part, whole = left.pop()
                taken = math.gcd(whole, size // have)
                if taken < whole:
                    if have * taken != size:
                        return None
                    left.append((part, whole // taken))
                groups[-1].append((part, len(pieces[part])))
                pieces[part].append(taken)
                have *= taken
        gone = [part for part, size in left if size == 1 and not pieces[part]]
        pieces = [one or [size] for one, size in zip(pieces, sizes, strict=True)]
        first = [0, *itertools.accumulate(map(len, pieces))]
        held = self.held
        if first[-1] > len(sizes):
            held = tf.reshape(held, [-1, *(size for one in pieces[1:] for size in one)])
        axes = tuple(tuple(first[part] + piece for part, piece in group) for group in groups)
        return Tensor(held, axes).without([first[part] for part in gone])


def aligned(tensors: Sequence[Tensor], along: int | None = None) -> list[Tensor]:
    """The same tensors, held with the same axes, so that they broadcast as ONNX's do.

    Their sizes may differ `along` one of ONNX's axes, which is then held as one axis.
    """
    rank = max(len(one.axes) for one in tensors)
    tensors = [one.with_rank(rank) for one in tensors]
    if along is not None:
        tensors = [one.single(along) for one in tensors]
    first = max(tensors, key=lambda one: math.prod(one.shape))
    if all(_broadcasts(one, first, along) for one in tensors):
        return tensors
    parts = [
        [0] if axis == along else _common([_factors(one, axis) for one in tensors])
        for axis in range(rank)
    ]
    fine = [_refined(one, parts) for one in tensors]
    first = max(fine, key=lambda one: math.prod(one.shape))
    order = sorted(range(len(first.axes)), key=lambda axis: first.axes[axis] or (len(first.sizes),))
    fine = [one.last(*order) for one in fine]
    ends = [0, *itertools.accumulate(map(len, parts))]
    axes = tuple(
        tuple(part for axis in fine[0].axes[start:end] for part in axis)
        for start, end in itertools.pairwise(ends)
    )
    return [Tensor(one.held, axes) for one in fine]


def _broadcasts(one: Tensor, first: Tensor, along: int | None) -> bool:
    free = first.axes[along] if along is not None else ()
    sizes = enumerate(zip(one.sizes, first.sizes, strict=False))
    return one.axes == first.axes and all(a in (1, b) or n in free for n, (a, b) in sizes)


def _factors(tensor: Tensor, axis: int) -> list[int]:
    """The sizes of what an axis of ONNX's runs through, but for those of 1."""
    return [tensor.sizes[part] for part in tensor.axes[axis] if tensor.sizes[part] != 1]


def _common(factors: Sequence[list[int]]) -> list[int]:
    """The sizes of the parts of an axis of which each tensor's parts consist."""
    ends = sorted({end for one in factors for end in itertools.accumulate(one, int.__mul__)})
    parts = [end // start for start, end in itertools.pairwise([1, *ends])]
    wholes = {math.prod(one) for one in factors if one}
    if len(wholes) > 1 or math.prod(parts) != max(wholes, default=1):
        raise CannotReadError("joins tensors whose axes do not fit")
    return parts or [1]


def _refined(tensor: Tensor, parts: Sequence[Sequence[int]]) -> Tensor:
    """A tensor with its axes split into parts; 0 stands for one that stays as it is."""
    sizes = [
        (size or tensor.shape[number]) if tensor.shape[number] > 1 else 1
        for number, whole in enumerate(parts)
        for size in whole
    ]
    return tensor.reshaped(sizes)


def beside(
    tensor: Tensor, constant: np.ndarray, along: int | None = None
) -> tuple[Tensor, np.ndarray]:
    """A tensor and a constant, held with the same axes, so that they broadcast as ONNX's do.

    Their sizes may differ `along` one of ONNX's axes.
    """
    tensor = tensor.with_rank(constant.ndim)
    constant = constant.reshape((1,) * (len(tensor.axes) - constant.ndim) + constant.shape)
    larger = [n for n, size in enumerate(constant.shape) if size > 1 == tensor.shape[n]]
    tensor = tensor.single(*larger)
    shape: list[int] = []
    for number, (axis, size) in enumerate(zip(tensor.axes, constant.shape, strict=True)):
        own = [tensor.sizes[part] for part in axis]
        if number == along or number in larger:
            shape.append(size)
        elif size in (1, math.prod(own)):
            shape += [1] * len(axis) if size == 1 else own
        else:
            raise CannotReadError(f"joins the shapes {tensor.shape} and {constant.shape}")
    flat = [part for axis in tensor.axes for part in axis]
    array = constant.reshape(shape).transpose([flat.index(n + 1) for n in range(len(flat))])
    return tensor, array[None]


def elementwise(
    compute: Callable[..., tf.Tensor],
    values: Sequence[Tensor | np.ndarray],
    keep: Callable[[np.ndarray], tf.Tensor],
) -> Tensor:
    """A function of the entries of tensors and constants, which are broadcast.

    `keep` makes a TensorFlow constant of an array.
    """
    tensors = [one for one in values if isinstance(one, Tensor)]
    for one in values:
        if not isinstance(one, Tensor):
            tensors = [beside(tensor, one)[0] for tensor in tensors]
    tensors = aligned(tensors)
    read = iter(tensors)
    operands = []
    for one in values:
        if isinstance(one, Tensor):
            operands.append(next(read).held)
        else:
            array = one.reshape(()) if one.size == 1 else beside(tensors[0], one)[1]
            operands.append(keep(array))
    return tensors[0].holding(compute(*operands))
