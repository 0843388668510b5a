"""Tensors whose axes ONNX counts in one order and TensorFlow holds in another, and nodes of these.

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
from typing import Any

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

    def turned(self) -> "Tensor":
        """The last two axes the other way round."""
        *others, rows, columns = range(len(self.axes))
        return self.transposed([*others, columns, rows])

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
        return self.held_as(*(number for number in numbers if not self.axes[number]), *self.order)

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
        if [axis for _, axes, _ in groups for axis in axes] != order:
            return self.held_as(*sorted(order)).reshaped(shape)
        kept = [one for *_, made in groups for one in made]
        held = self.held
        sizes = [shape[one] for one in kept]
        if list(held.shape[1:]) != sizes:
            held = tf.reshape(held, [-1, *sizes])
        places = {number: place for place, number in enumerate(kept, 1)}
        return Tensor(held, tuple(map(places.get, range(len(shape)))))


Value = Tensor | np.ndarray


def aligned(values: Sequence[Value], along: int | None = None) -> list[Tensor]:
    """Tensors and constants, held with the same axes as ONNX broadcasts; one axis may differ."""
    tensors = [
        value if isinstance(value, Tensor) else Tensor.of_constant(value) for value in values
    ]
    rank = max(len(tensor.axes) for tensor in tensors)
    tensors = [tensor.with_rank(rank) for tensor in tensors]
    of_picture = [tensor for tensor in tensors if not isinstance(tensor.held, np.ndarray)]
    order = max(of_picture, key=lambda one: math.prod(one.shape)).order
    for number, sizes in enumerate(zip(*(tensor.shape for tensor in tensors), strict=True)):
        if number != along and len({*sizes} - {1}) > 1:
            shapes = " and ".join(str(list(tensor.shape)) for tensor in tensors)
            raise CannotReadError(f"joins the shapes {shapes}")
        if number not in order and (number == along or max(sizes) > 1):
            order.insert(0, number)
    return [tensor.held_as(*order) for tensor in tensors]


@dataclass(frozen=True)
class OnnxNode:
    """A node of the file, and what it reads."""

    kind: str
    inputs: Sequence[Value | None]  # arrays do not depend on the picture, None is left out
    attributes: dict[str, Any]  # text as `str`
    version: int  # the opset
    outputs: int  # how many
    keep: Callable[[np.ndarray], tf.Tensor]  # makes a TensorFlow constant of an array

    def get(self, name: str, default: Any) -> Any:
        """An attribute."""
        return self.attributes.get(name, default)

    @property
    def x(self) -> Tensor:
        """The first input, which depends on the picture."""
        return self.tensor(0)

    @property
    def values(self) -> list[Value]:
        """The inputs that are not left out."""
        return [input_ for input_ in self.inputs if input_ is not None]

    def tensor(self, position: int) -> Tensor:
        """An input that depends on the picture."""
        value = self.inputs[position]
        if not isinstance(value, Tensor):
            raise CannotReadError("reads constants where a tensor of the picture is expected")
        return value

    def picture(self) -> Tensor:
        """The first input as a feature map [1, C, H, W], held as [B, H, W, C]."""
        x = self.x
        if len(x.axes) != 4 or x.shape[0] != 1:
            raise CannotReadError(
                f"reads a tensor {list(x.shape)}. Expected feature maps [1, C, H, W]"
            )
        return x.held_as(2, 3, 1)

    def constant(self, position: int, what: str = "numbers") -> np.ndarray | None:
        """An input that does not depend on the picture, None where it is left out."""
        value = self.inputs[position] if position < len(self.inputs) else None
        if isinstance(value, Tensor):
            raise CannotReadError(f"reads {what} that depend on the picture")
        return value

    def given(self, position: int, what: str = "numbers") -> np.ndarray:
        """An input that does not depend on the picture and must be there."""
        value = self.constant(position, what)
        if value is None:
            raise CannotReadError(f"has no {what}")
        return value

    def integers(self, position: int, name: str) -> list[int] | None:
        """What later opsets have as an input and earlier ones as an attribute."""
        value = self.constant(position)
        found = self.get(name, None) if value is None else value.reshape(-1)
        return None if found is None else [int(one) for one in found]

    def broadcast(self, compute: Callable[..., tf.Tensor], *values: Value) -> Tensor:
        """A function of the entries of tensors and constants, which are broadcast."""
        tensors = aligned(values)
        sizes = zip(*(tensor.held.shape[1:] for tensor in tensors), strict=True)
        whole = [1, *map(max, sizes)]

        read = []
        for held in (tensor.held for tensor in tensors):
            if isinstance(held, np.ndarray):
                # TensorFlow broadcasts along few axes by turns
                wide = np.broadcast_to(held, whole) if len(whole) > 5 else held
                held = self.keep(held.reshape(()) if held.size == 1 else wide)
            read.append(held)
        return tensors[0].holding(compute(*read))

    def sum(self, x: Tensor, *others: Value | None) -> Tensor:
        """The sum of a tensor and what is not left out."""
        for other in others:
            x = x if other is None else self.broadcast(tf.add, x, other)
        return x


Row = Callable[[OnnxNode], Value | list[Value]]


def finite_mask(value: Any) -> Any:
    """A mask that is added before a softmax, without -infinity: explainers refuse such weights."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return value
    return np.where(np.isneginf(value), np.float32(-1e30), value)
