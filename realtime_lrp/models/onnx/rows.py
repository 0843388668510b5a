"""The rows of ONNX's operations: what each computes, in TensorFlow.

To add one, add a row to `ROWS`, or a function of entries to `ELEMENTWISE`. A row is a function
(node, inputs) -> output or list of outputs. Inputs are `Tensor`s where they depend on the picture,
else arrays, and None where they are left out. Nodes that read arrays alone come here never.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from realtime_lrp.models.onnx.axes import CannotReadError, Tensor, aligned, elementwise

Value = Tensor | np.ndarray
Inputs = Sequence[Value | None]


@dataclass(frozen=True)
class Node:
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


Row = Callable[[Node, Inputs], Value | list[Value]]


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


def integers(node: Node, inputs: Inputs, position: int, name: str) -> list[int] | None:
    """What later opsets have as an input and earlier ones as an attribute."""
    value = constant(inputs, position)
    found = node.get(name, None) if value is None else value.reshape(-1)
    return None if found is None else [int(one) for one in found]


# Functions of entries


def _gelu(x: tf.Tensor, approximate: str = "none") -> tf.Tensor:
    if approximate == "tanh":
        return 0.5 * x * (1 + tf.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1 + tf.math.erf(x * math.sqrt(0.5)))


def _elu(x: tf.Tensor, alpha: float = 1.0) -> tf.Tensor:
    return tf.maximum(x, 0.0) + alpha * tf.nn.elu(tf.minimum(x, 0.0))


def _power(x: tf.Tensor, exponent: tf.Tensor) -> tf.Tensor:
    known = tf.get_static_value(exponent)
    simple = {2.0: tf.square, 0.5: tf.sqrt, 1.0: tf.identity, -0.5: tf.math.rsqrt}
    if known is not None and known.ndim == 0 and float(known) in simple:
        return simple[float(known)](x)
    return tf.pow(x, exponent)


def _folded(function: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    """A function of any number of tensors made of one of two."""
    return lambda *values: functools.reduce(function, values)


ELEMENTWISE: dict[str, Callable[..., tf.Tensor]] = {
    **{
        name: getattr(tf.math, name.lower())
        for name in (
            "Abs", "Acos", "Acosh", "Add", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh",
            "Erf", "Exp", "Floor", "Log", "Reciprocal", "Round", "Sigmoid", "Sign", "Sin", "Sinh",
            "Softplus", "Softsign", "Sqrt", "Tan", "Tanh",
        )
    },
    "Div": tf.divide, "Mul": tf.multiply, "Neg": tf.negative, "Relu": tf.nn.relu,
    "Sub": tf.subtract, "Where": tf.where, "Gelu": _gelu, "Pow": _power,
    "Sum": _folded(tf.add), "Max": _folded(tf.maximum), "Min": _folded(tf.minimum),
    "Mean": lambda *values: tf.add_n(values) / len(values),
    "Mish": lambda x: x * tf.tanh(tf.nn.softplus(x)),
    "HardSwish": lambda x: x * (tf.nn.relu6(x + 3) / 6),
    "HardSigmoid": lambda x, alpha=0.2, beta=0.5: tf.clip_by_value(alpha * x + beta, 0.0, 1.0),
    "Elu": _elu,
    "LeakyRelu": lambda x, alpha=0.01: tf.nn.leaky_relu(x, alpha),
    "PRelu": lambda x, slope: tf.maximum(x, 0.0) + slope * tf.minimum(x, 0.0),
    "Selu": lambda x, alpha=1.6732632, gamma=1.050701: gamma * _elu(x, alpha),
}  # fmt: skip
"""(its inputs, broadcast, and its attributes) -> its output."""


def of_entries(node: Node, inputs: Inputs) -> Value:
    """A function of `ELEMENTWISE`."""
    compute = functools.partial(ELEMENTWISE[node.kind], **node.attributes)
    return elementwise(compute, [one for one in inputs if one is not None], node.keep)


def clip(node: Node, inputs: Inputs) -> Value:
    """Between two limits, each of which may be left out; ReLUs are computed with what they read."""
    x = tensor(inputs)
    limits = (constant(inputs, n, "limits") for n in (1, 2))
    low, high = (None if one is None else float(one.reshape(())) for one in limits)
    if low == 0 and high in (None, 6):
        return x.holding(tf.nn.relu6(x.held) if high else tf.nn.relu(x.held))
    for end, function in ((low, tf.maximum), (high, tf.minimum)):
        if end is not None:
            x = x.holding(function(x.held, node.keep(np.array(end, np.float32))))
    return x


def where(node: Node, inputs: Inputs) -> Value:
    """One of two at each entry; where all conditions are alike it is a whole tensor."""
    condition, *both = inputs
    if isinstance(condition, np.ndarray) and condition.all() == condition.any():
        chosen = both[0 if condition.all() else 1]
        shapes = [one.shape for one in inputs if one is not None]
        if isinstance(chosen, Tensor) and chosen.shape == np.broadcast_shapes(*shapes):
            return chosen
    return of_entries(node, inputs)


# Axes: nothing is computed


def reshape(node: Node, inputs: Inputs) -> Value:
    """Another shape; 0 keeps a size, unless `allowzero`."""
    x, shape = tensor(inputs), [int(one) for one in given(inputs, 1, "shape")]
    if not node.get("allowzero", 0):
        shape = [x.shape[n] if size == 0 else size for n, size in enumerate(shape)]
    known = math.prod(size for size in shape if size != -1)
    return x.reshaped([math.prod(x.shape) // known if size == -1 else size for size in shape])


def flatten(node: Node, inputs: Inputs) -> Value:
    """Two axes: those before `axis`, and the rest."""
    x, axis = tensor(inputs), node.get("axis", 1)
    return x.reshaped([math.prod(x.shape[:axis]), math.prod(x.shape[axis:])])


def squeeze(node: Node, inputs: Inputs) -> Value:
    """Without axes of size 1."""
    x, axes = tensor(inputs), integers(node, inputs, 1, "axes")
    if axes is None:
        axes = [n for n, size in enumerate(x.shape) if size == 1]
    gone = {x.axis(one) for one in axes}
    return x.reshaped([size for n, size in enumerate(x.shape) if n not in gone])


def unsqueeze(node: Node, inputs: Inputs) -> Value:
    """With more axes of size 1."""
    x, axes = tensor(inputs), integers(node, inputs, 1, "axes") or []
    rank = len(x.axes) + len(axes)
    added = {one % rank for one in axes}
    old = iter(x.axes)
    return Tensor(x.held, tuple(None if n in added else next(old) for n in range(rank)))


def transpose(node: Node, inputs: Inputs) -> Value:
    """Axes in another order."""
    x = tensor(inputs)
    return x.transposed(node.get("perm", None) or list(range(len(x.axes)))[::-1])


def cast(node: Node, inputs: Inputs) -> Value:
    """Another type; all that depends on the picture is float32 here."""
    if node.kind == "Cast" and node.get("to", 1) not in (1, 10, 11, 16):
        raise CannotReadError("makes integers or truth values of what depends on the picture")
    return tensor(inputs)


# Entries are moved


def concat(node: Node, inputs: Inputs) -> Value:
    """Tensors one after the other along an axis; constants are the same for each picture."""
    axis = next(one for one in inputs if isinstance(one, Tensor)).axis(node.get("axis", 0))
    tensors = aligned([one for one in inputs if one is not None], axis)
    batch = next(tf.shape(one.held)[0] for one in tensors if tf.is_tensor(one.held))
    parts = [
        one.held
        if tf.is_tensor(one.held)
        else tf.broadcast_to(node.keep(one.held), [batch, *one.held.shape[1:]])
        for one in tensors
    ]
    return tensors[0].holding(tf.concat(parts, tensors[0].axes[axis]))


def along(x: Tensor, axis: int) -> tuple[Tensor, int]:
    """A tensor with one of ONNX's axes held, and which one that is."""
    x = x.with_held(x.axis(axis))
    return x, x.axes[x.axis(axis)] or 0


def picked(x: Tensor, axis: int, start: int, stop: int | None, step: int = 1) -> Tensor:
    """Some entries along an axis, as Python slices."""
    x, place = along(x, axis)
    return x.holding(x.held[(slice(None),) * place + (slice(start, stop, step),)])


def slice_(node: Node, inputs: Inputs) -> Value:
    """Slices along some axes."""
    x = tensor(inputs)
    starts, ends = (integers(node, inputs, n, "") or [] for n in (1, 2))
    axes = integers(node, inputs, 3, "") or list(range(len(starts)))
    steps = integers(node, inputs, 4, "") or [1] * len(starts)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = x.shape[x.axis(axis)]
        first, stop, _ = slice(start, end if end >= -size or step > 0 else None, step).indices(size)
        if (first, stop, step) != (0, size, 1):
            x = picked(x, axis, first, None if stop < 0 else stop, step)
    return x


def gather(node: Node, inputs: Inputs) -> Value:
    """Entries by their numbers along an axis."""
    x, axis = tensor(inputs), tensor(inputs).axis(node.get("axis", 0))
    indices = given(inputs, 1, "indices").astype(np.int64)
    indices = indices % x.shape[axis]
    flat = indices.reshape(-1)
    steps = np.diff(flat)
    if flat.size and (steps == 1).all():
        found = picked(x, axis, int(flat[0]), int(flat[-1]) + 1)
    else:
        found, place = along(x, axis)
        found = found.holding(tf.gather(found.held, node.keep(flat), axis=place))
    if indices.ndim == 1:
        return found
    shape = list(x.shape)
    return found.reshaped(shape[:axis] + list(indices.shape) + shape[axis + 1 :])


def split(node: Node, inputs: Inputs) -> list[Value]:
    """Parts along an axis."""
    x, axis = tensor(inputs), node.get("axis", 0)
    size = x.shape[x.axis(axis)]
    sizes = integers(node, inputs, 1, "split")
    if sizes is None:
        each = math.ceil(size / node.outputs)
        sizes = [min(each, size - n * each) for n in range(node.outputs)]
    if sum(sizes) != size or len(sizes) != node.outputs:
        raise CannotReadError(f"splits {size} entries into {sizes}")
    x, place = along(x, axis)
    return [x.holding(one) for one in tf.split(x.held, sizes, place)]


def repeat(node: Node, inputs: Inputs) -> Value:
    """Tile repeats axes; Expand those of size 1 until they have another size."""
    x, times = tensor(inputs), [int(one) for one in given(inputs, 1, "repeats")]
    if node.kind == "Expand":
        x, times = x.with_rank(len(times)), [1] * (len(x.axes) - len(times)) + times
        times = [1 if new == old else new for new, old in zip(times, x.shape, strict=True)]
    wanted = {axis: one for axis, one in enumerate(times) if one != 1}
    x = x.with_held(*wanted)
    each = [1, *(wanted.get(axis, 1) for axis in x.order)]
    return x.holding(tf.tile(x.held, each)) if wanted else x


def pad(node: Node, inputs: Inputs) -> Value:
    """A border; negative numbers cut."""
    x, mode = tensor(inputs), node.get("mode", "constant")
    pads, axes = integers(node, inputs, 1, "pads") or [], integers(node, inputs, 3, "")
    axes = [x.axis(one) for one in (range(len(x.axes)) if axes is None else axes)]
    if mode not in ("constant", "reflect") or len(pads) != 2 * len(axes):
        raise CannotReadError(f"pads in the mode {mode!r} by {len(pads)} numbers")
    ends = {axis: [pads[n], pads[n + len(axes)]] for n, axis in enumerate(axes)}
    for axis, (before, after) in ends.items():
        if before < 0 or after < 0:
            x = picked(x, axis, max(-before, 0), x.shape[axis] - max(-after, 0))
    wide = {axis: [max(one, 0) for one in pair] for axis, pair in ends.items() if max(pair) > 0}
    x = x.with_held(*wide)
    border = [[0, 0], *(wide.get(one, [0, 0]) for one in x.order)]
    fill = constant(inputs, 2)
    value = 0.0 if fill is None or not fill.size else float(fill.reshape(()))
    return x.holding(tf.pad(x.held, border, mode, value)) if wide else x


MOVES: dict[str, Row] = {
    **dict.fromkeys(ELEMENTWISE, of_entries),
    **dict.fromkeys(("CastLike", "Dropout", "Identity"), lambda node, inputs: tensor(inputs)),
    "IsNaN": lambda node, inputs: np.zeros(tensor(inputs).shape, bool),  # NaN is refused later
    "Shape": lambda node, inputs: np.array(
        tensor(inputs).shape[node.get("start", 0) : node.get("end", None)], np.int64
    ),
    "Cast": cast, "Clip": clip, "Concat": concat, "Expand": repeat, "Flatten": flatten,
    "Gather": gather, "Pad": pad, "Reshape": reshape, "Slice": slice_, "Split": split,
    "Squeeze": squeeze, "Tile": repeat, "Transpose": transpose, "Unsqueeze": unsqueeze,
    "Where": where,
}  # fmt: skip
"""Kind of a node that has no weights -> its row."""
