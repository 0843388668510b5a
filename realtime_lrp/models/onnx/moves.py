"""Rows that move, pick or repeat entries. Other shapes and orders of axes compute nothing."""

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from realtime_lrp.models.onnx.tensors import OnnxNode, Tensor, Value, aligned
from realtime_lrp.relevance.reading.tracing import CannotReadError


def reshape(node: OnnxNode) -> Value:
    """Another shape; 0 keeps a size, unless `allowzero`."""
    x = node.x
    shape = [int(one) for one in node.given(1, "shape")]
    if not node.get("allowzero", 0):
        shape = [x.shape[n] if size == 0 else size for n, size in enumerate(shape)]
    known = math.prod(size for size in shape if size != -1)
    return x.reshaped([math.prod(x.shape) // known if size == -1 else size for size in shape])


def flatten(node: OnnxNode) -> Value:
    """Two axes: those before `axis`, and the rest."""
    shape = node.x.shape
    axis = node.get("axis", 1)
    return node.x.reshaped([math.prod(shape[:axis]), math.prod(shape[axis:])])


def squeeze(node: OnnxNode) -> Value:
    """Without axes of size 1."""
    x = node.x
    axes = node.integers(1, "axes")
    if axes is None:
        axes = [n for n, size in enumerate(x.shape) if size == 1]
    gone = {x.axis(axis) for axis in axes}
    return x.reshaped([size for n, size in enumerate(x.shape) if n not in gone])


def unsqueeze(node: OnnxNode) -> Value:
    """With more axes of size 1."""
    added = node.integers(1, "axes") or []
    rank = len(node.x.axes) + len(added)
    axes = [*node.x.axes]
    for place in sorted(one % rank for one in added):
        axes.insert(place, None)
    return Tensor(node.x.held, tuple(axes))


def transpose(node: OnnxNode) -> Value:
    """Axes in another order."""
    return node.x.transposed(node.get("perm", None) or range(len(node.x.axes))[::-1])


def concat(node: OnnxNode) -> Value:
    """Tensors one after the other along an axis; constants are the same for each picture."""
    first = next(value for value in node.values if isinstance(value, Tensor))
    return joined(node, node.values, first.axis(node.get("axis", 0)))


def joined(node: OnnxNode, values: Sequence[Value], axis: int) -> Tensor:
    """Tensors and constants one after the other along an axis."""
    tensors = aligned(values, axis)
    batch = next(tf.shape(tensor.held)[0] for tensor in tensors if tf.is_tensor(tensor.held))
    parts = [
        tensor.held
        if tf.is_tensor(tensor.held)
        else tf.broadcast_to(node.keep(tensor.held), [batch, *tensor.held.shape[1:]])
        for tensor in tensors
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


def slice_(node: OnnxNode) -> Value:
    """Slices along some axes."""
    x = node.x
    starts = node.integers(1, "starts") or []
    ends = node.integers(2, "ends") or []
    axes = node.integers(3, "axes") or list(range(len(starts)))
    steps = node.integers(4, "") or [1] * len(starts)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = x.shape[x.axis(axis)]
        first, stop, _ = slice(start, end if end >= -size or step > 0 else None, step).indices(size)
        if (first, stop, step) != (0, size, 1):
            x = picked(x, axis, first, None if stop < 0 else stop, step)
    return x


def taken(x: Tensor, axis: int, indices: np.ndarray) -> Tensor:
    """Entries along an axis by their numbers [n]."""
    x, place = along(x, axis)
    return x.holding(tf.gather(x.held, tf.constant(indices, tf.int64), axis=place))


def gather(node: OnnxNode) -> Value:
    """Entries by their numbers along an axis."""
    first, chosen = node.values
    if isinstance(chosen, Tensor):
        return _chosen(node, first, node.get("axis", 0), chosen)
    x = node.x
    axis = x.axis(node.get("axis", 0))
    indices = chosen.astype(np.int64) % x.shape[axis]
    flat = indices.reshape(-1)
    if flat.size and (np.diff(flat) == 1).all():
        found = picked(x, axis, int(flat[0]), int(flat[-1]) + 1)
    else:
        found = taken(x, axis, flat)
    if indices.ndim == 1:
        return found
    return found.reshaped([*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]])


def _chosen(node: OnnxNode, x: Value, axis: int, indices: Tensor) -> Tensor:
    """Entries along an axis by numbers that depend on the picture, such as queries."""
    rank = len(indices.axes)
    numbers = indices.held_as(*range(rank)).held
    if isinstance(x, Tensor):
        axis = x.axis(axis)
        others = [n for n in range(len(x.axes)) if n != axis]
        held = tf.gather(x.held_as(axis, *others).held, numbers, axis=1, batch_dims=1)
    else:
        axis %= x.ndim
        held = tf.gather(node.keep(np.moveaxis(x, axis, 0)), numbers)
    behind = (*range(rank + 1, len(held.shape)),)
    return Tensor(held, (*behind[:axis], *range(1, rank + 1), *behind[axis:]))


def _numbered(shape: Sequence[int]) -> np.ndarray:
    """The number of each entry of a tensor, in ONNX's order."""
    return np.arange(math.prod(shape)).reshape(shape)


def _by_number(x: Tensor, numbers: np.ndarray) -> Tensor:
    """The entries of a tensor with these numbers, in their shape."""
    flat = x.reshaped([math.prod(x.shape)])
    return taken(flat, 0, numbers.reshape(-1)).reshaped(numbers.shape)


def gather_elements(node: OnnxNode) -> Value:
    """For each place of an output the entry whose number along an axis is given."""
    x = node.x
    _, indices = node.values
    axis = x.axis(node.get("axis", 0))
    if not isinstance(indices, Tensor):
        numbers = indices % x.shape[axis]
        cut = tuple(slice(n) for n in numbers.shape)
        cut = *cut[:axis], slice(None), *cut[axis + 1 :]
        return _by_number(x, np.take_along_axis(_numbered(x.shape)[cut], numbers, axis))
    for n, size in enumerate(indices.shape):
        if n != axis and size != x.shape[n]:
            x = picked(x, n, 0, size)
    others = [n for n in range(len(x.axes)) if n != axis]
    x = x.held_as(*others, axis)
    indices = indices.held_as(*others, axis)
    held = tf.gather(x.held, indices.held, axis=len(others) + 1, batch_dims=len(others) + 1)
    return indices.holding(held)


def gather_nd(node: OnnxNode) -> Value:
    """Parts of a tensor by their numbers along its first axes."""
    x = node.x
    shared = node.get("batch_dims", 0)
    _, indices = node.values
    if isinstance(indices, Tensor):
        *before, count = indices.shape
        if shared or any(size != 1 for size in x.shape[: count - 1]):
            raise CannotReadError("reads numbers along several axes that depend on the picture")
        x = x.reshaped(x.shape[count - 1 :])
        last = picked(indices, len(before), count - 1, count)
        return _chosen(node, x, 0, last.reshaped(before))
    first = np.ogrid[tuple(map(slice, indices.shape[:shared]))] if shared else ()
    own = (one.reshape(one.shape + (1,) * (indices.ndim - 1 - shared)) for one in first)
    return _by_number(x, _numbered(x.shape)[(*own, *np.moveaxis(indices, -1, 0))])


def scatter(node: OnnxNode) -> Value:
    """ScatterND and ScatterElements: a tensor with some entries replaced by others."""
    indices = node.given(1, "indices")
    if node.get("reduction", "none") != "none":
        raise CannotReadError("adds to the entries that it replaces")
    x, _, updates = node.values
    numbers = _numbered(x.shape)
    more = _numbered(updates.shape) + math.prod(x.shape)
    if node.kind == "ScatterND":
        numbers[tuple(np.moveaxis(indices, -1, 0))] = more
    else:
        axis = node.get("axis", 0) % numbers.ndim
        places = list(np.indices(indices.shape))
        places[axis] = indices % numbers.shape[axis]
        numbers[tuple(places)] = more
    flat = [
        one.reshaped([math.prod(one.shape)]) if isinstance(one, Tensor) else np.reshape(one, -1)
        for one in (x, updates)
    ]
    return _by_number(joined(node, flat, 0), numbers)


def top_k(node: OnnxNode) -> list[Value]:
    """The largest or smallest entries along an axis, in order, and their numbers."""
    (count,) = node.integers(1, "k") or [0]
    x = node.x.last(node.x.axis(node.get("axis", -1)))
    largest = node.get("largest", 1)
    values, numbers = tf.math.top_k(x.held if largest else -x.held, count)
    return [x.holding(values if largest else -values), x.holding(tf.cast(numbers, tf.int64))]


def depth_to_space(node: OnnxNode) -> Value:
    """DepthToSpace and SpaceToDepth: channels as blocks of pixels, or the other way round."""
    x = node.x
    block = int(node.get("blocksize", 1))
    batch, channels, rows, columns = x.shape
    if node.kind == "SpaceToDepth":
        rows, columns = rows // block, columns // block
        parts = [batch, channels, rows, block, columns, block]
        order = (0, 3, 5, 1, 2, 4)
        made = [batch, channels * block**2, rows, columns]
    else:
        depth = channels // block**2
        first = node.get("mode", "DCR") == "DCR"
        parts = [batch, *([block, block, depth] if first else [depth, block, block]), rows, columns]
        order = (0, 3, 4, 1, 5, 2) if first else (0, 1, 4, 2, 5, 3)
        made = [batch, depth, rows * block, columns * block]
    return x.reshaped(parts).transposed(order).reshaped(made)


def cumulative_sum(node: OnnxNode) -> Value:
    """The sum of all entries up to each one along an axis."""
    x, place = along(node.x, int(node.given(1, "axis").reshape(())))
    ways = {name: bool(node.get(name, 0)) for name in ("exclusive", "reverse")}
    return x.holding(tf.cumsum(x.held, place, **ways))


def split(node: OnnxNode) -> list[Value]:
    """Parts along an axis."""
    x, place = along(node.x, node.get("axis", 0))
    size = x.held.shape[place]
    sizes = node.integers(1, "split")
    if sizes is None:
        each = math.ceil(size / node.outputs)
        sizes = [min(each, size - n * each) for n in range(node.outputs)]
    if sum(sizes) != size or len(sizes) != node.outputs:
        raise CannotReadError(f"splits {size} entries into {sizes}")
    return [x.holding(one) for one in tf.split(x.held, sizes, place)]


def repeat(node: OnnxNode) -> Value:
    """Tile repeats axes; Expand repeats axes of size 1 until they have another size."""
    x = node.x
    times = [int(one) for one in node.given(1, "repeats")]
    if node.kind == "Expand":
        x, times = x.with_rank(len(times)), [1] * (len(x.axes) - len(times)) + times
        times = [1 if new == old else new for new, old in zip(times, x.shape, strict=True)]
    wanted = {axis: one for axis, one in enumerate(times) if one != 1}
    x = x.with_held(*wanted)
    each = [1, *(wanted.get(axis, 1) for axis in x.order)]
    return x.holding(tf.tile(x.held, each)) if wanted else x


def pad(node: OnnxNode) -> Value:
    """A border; negative numbers cut."""
    x = node.x
    mode = node.get("mode", "constant")
    pads = node.integers(1, "pads") or []
    axes = node.integers(3, "")
    axes = [x.axis(one) for one in (range(len(x.axes)) if axes is None else axes)]
    if mode not in ("constant", "reflect", "edge", "wrap") or len(pads) != 2 * len(axes):
        raise CannotReadError(f"pads in the mode {mode!r} by {len(pads)} numbers")
    ends = {axis: [pads[n], pads[n + len(axes)]] for n, axis in enumerate(axes)}
    for axis, (before, after) in ends.items():
        if before < 0 or after < 0:
            x = picked(x, axis, max(-before, 0), x.shape[axis] - max(-after, 0))
    wide = {axis: [max(one, 0) for one in pair] for axis, pair in ends.items() if max(pair) > 0}
    if mode in ("edge", "wrap"):
        for axis, more in wide.items():
            x = taken(x, axis, np.pad(np.arange(x.shape[axis]), more, mode))
        return x
    x = x.with_held(*wide)
    border = [[0, 0], *(wide.get(one, [0, 0]) for one in x.order)]
    fill = node.constant(2)
    value = node.get("value", 0.0) if fill is None or not fill.size else float(fill.reshape(()))
    return x.holding(tf.pad(x.held, border, mode, value)) if wide else x
