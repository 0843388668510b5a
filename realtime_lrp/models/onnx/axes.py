"""Tensors whose axes ONNX counts in one order and TensorFlow holds in another.

A file is read as the network of a single picture; TensorFlow holds a batch of them on an axis more,
in front. ONNX's feature maps are [1, C, H, W]; they are held as [B, H, W, C], on which convolutions
are fast. So nothing is moved where a file transposes: only the order of axes changes. Entries are
moved where an operation needs them elsewhere.
"""

import itertools
import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from realtime_lrp.relevance.reading.tracing import CannotReadError


@dataclass(frozen=True)
class Tensor:
    """What depends on the picture; or a constant that is to be read beside such a tensor.

    Attributes:
      held: what TensorFlow holds, float32 [B, ...]; of a constant an array [1, ...].
      axes: for each of ONNX's axes that of `held`; None where it is not held, which has the size 1.
        The first axis of `held` is none of ONNX's.
    """

    held: tf.Tensor
    axes: tuple[int | None, ...]

    @classmethod
    def of_constant(cls, array: np.ndarray) -> "Tensor":
        """A constant, as ONNX has it."""
        return cls(array[None], tuple(range(1, array.ndim + 1)))

    @property
    def shape(self) -> tuple[int, ...]:
        """ONNX's shape."""
        return tuple(1 if axis is None else self.held.shape[axis] for axis in self.axes)

    @property
    def order(self) -> list[int]:
        """ONNX's axes that are held, in the order in which they are."""
        places = {axis: number for number, axis in enumerate(self.axes) if axis}
        return [places[axis] for axis in sorted(places)]

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
        return Tensor(self.held, (None,) * (rank - len(self.axes)) + self.axes)

    def transposed(self, order: Sequence[int]) -> "Tensor":
        """ONNX's axes in another order."""
        if sorted(order) != list(range(len(self.axes))):
            raise CannotReadError(f"orders {len(self.axes)} axes as {list(order)}")
        return Tensor(self.held, tuple(self.axes[one] for one in order))

    def held_as(self, *numbers: int) -> "Tensor":
        """The same, held as [B, these of ONNX's axes]; all others have the size 1."""
        library = np if isinstance(self.held, np.ndarray) else tf
        held = self.held
        shape = [self.shape[number] for number in numbers]
        order = [0, *(axis for number in numbers if (axis := self.axes[number]))]
        order += [axis for axis in range(len(held.shape)) if axis not in order]
        if order != sorted(order):
            held = library.transpose(held, order)
        if list(held.shape[1:]) != shape:
            held = library.reshape(held, [-1, *shape])
        places = {number: place for place, number in enumerate(numbers, 1)}
        return Tensor(held, tuple(map(places.get, range(len(self.axes)))))

    def last(self, *numbers: int) -> "Tensor":
        """The same with some of ONNX's axes held as the last ones, in this order."""
        return self.held_as(*(one for one in self.order if one not in numbers), *numbers)

    def with_held(self, *numbers: int) -> "Tensor":
        """The same with these of ONNX's axes held, although their size may be 1."""
        return self.held_as(*(one for one in numbers if not self.axes[one]), *self.order)

    def reshaped(self, shape: Sequence[int]) -> "Tensor":
        """The same entries, in ONNX's order, in another shape."""
        if math.prod(shape) != math.prod(self.shape):
            raise CannotReadError(f"reshapes {list(self.shape)} to {list(shape)}")
        before, behind = (
            list(itertools.accumulate(one, int.__mul__)) for one in (self.shape, shape)
        )
        ends = sorted({*before} & {*behind})  # where groups of axes end that become other ones
        old, new = (
            [[n for n, end in enumerate(one) if sizes[n] > 1 and bisect_left(ends, end) == group]
             for group in range(len(ends))]
            for one, sizes in ((before, self.shape), (behind, shape))
        )  # fmt: skip
        order = [one for one in self.order if self.shape[one] > 1]
        groups = sorted(
            (order.index(axes[0]), axes, made) for axes, made in zip(old, new, strict=True) if axes
        )
        if [one for _, axes, _ in groups for one in axes] != order:
            return self.held_as(*sorted(order)).reshaped(shape)
        kept = [one for *_, made in groups for one in made]
        held = self.held
        sizes = [shape[one] for one in kept]
        if list(held.shape[1:]) != sizes:
            held = tf.reshape(held, [-1, *sizes])
        places = {number: place for place, number in enumerate(kept, 1)}
        return Tensor(held, tuple(map(places.get, range(len(shape)))))


def aligned(values: Sequence[Tensor | np.ndarray], along: int | None = None) -> list[Tensor]:
    """Tensors and constants, held with the same axes, so that they broadcast as ONNX's do.

    Their sizes may differ `along` one of ONNX's axes.
    """
    tensors = [one if isinstance(one, Tensor) else Tensor.of_constant(one) for one in values]
    rank = max(len(one.axes) for one in tensors)
    tensors = [one.with_rank(rank) for one in tensors]
    of_picture = [one for one in tensors if not isinstance(one.held, np.ndarray)]
    order = max(of_picture, key=lambda one: math.prod(one.shape)).order
    for number, sizes in enumerate(zip(*(one.shape for one in tensors), strict=True)):
        if number != along and len({*sizes} - {1}) > 1:
            shapes = " and ".join(str(list(one.shape)) for one in tensors)
            raise CannotReadError(f"joins the shapes {shapes}")
        if number not in order and (number == along or max(sizes) > 1):
            order.insert(0, number)
    return [one.held_as(*order) for one in tensors]


def elementwise(
    compute: Callable[..., tf.Tensor],
    values: Sequence[Tensor | np.ndarray],
    keep: Callable[[np.ndarray], tf.Tensor],
) -> Tensor:
    """A function of the entries of tensors and constants, which are broadcast.

    `keep` makes a TensorFlow constant of an array.
    """
    tensors = aligned(values)
    whole = [max(sizes) for sizes in zip(*(one.held.shape[1:] for one in tensors), strict=True)]

    def operand(held: tf.Tensor | np.ndarray) -> tf.Tensor:
        if tf.is_tensor(held):
            return held
        if held.size == 1:
            return keep(held.reshape(()))
        # TensorFlow broadcasts along few axes by turns
        return keep(np.broadcast_to(held, [1, *whole]) if len(whole) > 4 else held)

    return tensors[0].holding(compute(*(operand(one.held) for one in tensors)))
