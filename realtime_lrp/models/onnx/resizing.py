"""Rows that read between pixels."""

import functools
import itertools
import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from realtime_lrp.models.onnx.moves import along, taken
from realtime_lrp.models.onnx.tensors import OnnxNode, Tensor, Value
from realtime_lrp.relevance.reading.tracing import CannotReadError

RESIZES: dict[tuple[str, str], Callable[..., tf.Tensor]] = {
    ("linear", "align_corners"): functools.partial(tf.raw_ops.ResizeBilinear, align_corners=True),
    ("linear", "asymmetric"): tf.raw_ops.ResizeBilinear,
    ("linear", "half_pixel"): functools.partial(tf.raw_ops.ResizeBilinear, half_pixel_centers=True),
    ("nearest", "asymmetric"): tf.raw_ops.ResizeNearestNeighbor,
}
"""Way and coordinates -> TensorFlow's operation, where the scale is the quotient of the sizes."""

ROUNDS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}
"""How a place between pixels becomes the nearest pixel's."""


def resize(node: OnnxNode) -> Value:
    """Resize and Upsample: the nearest entry, or a product with a constant matrix for each axis."""
    x = node.x
    mode = node.get("mode", "nearest").replace("bilinear", "linear")
    axes = [x.axis(one) for one in node.get("axes", range(len(x.axes)))]
    scales, sizes = _scales_and_sizes(node, [x.shape[one] for one in axes])
    default = "half_pixel" if node.version > 10 else "asymmetric"
    where = node.get("coordinate_transformation_mode", default)
    rounds = node.get("nearest_mode", "round_prefer_floor") if node.version > 10 else "floor"
    if mode not in ("nearest", "linear", "cubic") or rounds not in ROUNDS:
        raise CannotReadError(f"resizes by {mode!r}, {rounds!r}")
    changed = {
        axis: (size, scale)
        for axis, size, scale in zip(axes, sizes, scales, strict=True)
        if size != x.shape[axis] or scale != 1
    }
    exact = where == "align_corners" or all(
        abs(size - x.shape[axis] * scale) < 1e-3 for axis, (size, scale) in changed.items()
    )
    plain = exact and (mode != "nearest" or rounds == "floor") and not node.get("antialias", 0)
    function = RESIZES.get((mode, where.removeprefix("pytorch_"))) if plain else None
    if function and len(x.axes) == 4 and x.shape[0] == 1 and {*changed} <= {2, 3}:
        both = [changed.get(axis, (x.shape[axis], 1))[0] for axis in (2, 3)]
        x = x.held_as(2, 3, 1)
        return x.holding(function(images=x.held, size=both))
    for axis, (size, scale) in changed.items():
        places = _places(where, x.shape[axis], size, scale)
        if mode == "nearest":
            x = taken(x, axis, np.clip(ROUNDS[rounds](places), 0, x.shape[axis] - 1))
        else:
            x = _times(x, axis, _weights(node, mode, places, x.shape[axis], scale), node)
    return x


def _scales_and_sizes(node: OnnxNode, before: list[int]) -> tuple[list[float], list[int]]:
    """How many times larger each axis becomes, and how large."""
    scales = node.constant(1 if node.kind == "Upsample" or node.version < 11 else 2, "scales")
    sizes = node.constant(3, "sizes")
    if sizes is not None and sizes.size:
        wanted = [int(size) for size in sizes]
        quotients = [new / old for new, old in zip(wanted, before, strict=True)]
        policy = node.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            one = (min if policy == "not_larger" else max)(quotients)
            return [one] * len(before), [math.floor(one * old + 0.5) for old in before]
        return quotients, wanted
    found = node.get("scales", None) if scales is None or not scales.size else scales
    if found is None or len(found) != len(before):
        raise CannotReadError("has neither scales nor sizes")
    factors = [float(one) for one in found]
    return factors, [math.floor(one * old) for one, old in zip(factors, before, strict=True)]


def _places(where: str, before: int, size: int, scale: float) -> np.ndarray:
    """Where the new entries lie among the old ones, float64 [size]."""
    new = np.arange(size, dtype=np.float64)
    width = scale * before
    halves = (new + 0.5) / scale - 0.5
    ways = {
        "align_corners": new * (before - 1) / max(width - 1, 1e-9),
        "asymmetric": new / scale,
        "half_pixel": halves,
        "half_pixel_symmetric": halves + before / 2 * (1 - size / width),
        "pytorch_half_pixel": halves if width > 1 else np.full(size, -0.5),
        "tf_half_pixel_for_nn": (new + 0.5) / scale,
    }
    if where not in ways:
        raise CannotReadError(f"resizes with the coordinates {where!r}")
    return ways[where]


def _weights(
    node: OnnxNode, mode: str, places: np.ndarray, before: int, scale: float
) -> np.ndarray:
    """What each old entry counts in each new one, float32 [size, before]."""
    wide = max(1 / scale, 1.0) if node.get("antialias", 0) else 1.0
    reach = math.ceil((2 if mode == "cubic" else 1) * wide)
    taps = np.floor(places)[:, None] + np.arange(-reach, reach + 2)
    far = np.abs(taps - places[:, None]) / wide
    if mode == "linear":
        shares = np.maximum(1 - far, 0)
    else:
        a = node.get("cubic_coeff_a", -0.75)
        near = ((a + 2) * far - (a + 3)) * far**2 + 1
        beyond = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a
        shares = np.where(far <= 1, near, np.where(far < 2, beyond, 0))
    if node.get("exclude_outside", 0):
        shares[(taps < 0) | (taps >= before)] = 0
    shares /= shares.sum(1, keepdims=True)
    matrix = np.zeros((len(places), before))
    columns = np.clip(taps, 0, before - 1).astype(int)
    np.add.at(matrix, (np.arange(len(places))[:, None], columns), shares)
    return matrix.astype(np.float32)


def _times(x: Tensor, axis: int, matrix: np.ndarray, node: OnnxNode) -> Tensor:
    """A matrix [size, before] times the entries along an axis.

    The constant stands first: so its relevance follows a weighted sum, not a layer.
    """
    x, place = along(x, axis)
    shape = x.held.shape.as_list()
    before = math.prod(shape[1:place])
    behind = math.prod(shape[place + 1 :])
    pages = tf.reshape(x.held, [-1, before, shape[place], behind])
    held = tf.matmul(node.keep(matrix[None, None]), pages)
    return x.holding(tf.reshape(held, [-1, *shape[1:place], len(matrix), *shape[place + 1 :]]))


def affine_grid(node: OnnxNode) -> Value:
    """The places [N, rows, columns, 2], for GridSample, that matrices [N, 2, 3] turn a grid to."""
    matrices = node.x
    sizes = node.given(1, "sizes")
    corners = node.get("align_corners", 0)
    ends = [np.linspace(-1, 1, size) * (1 if corners else 1 - 1 / size) for size in sizes[2:]]
    if len(ends) != 2 or matrices.shape != (int(sizes[0]), 2, 3):
        raise CannotReadError(f"makes places of {list(matrices.shape)} for {list(sizes)}")
    rows, columns = np.meshgrid(*ends, indexing="ij")
    grid = np.stack([columns, rows, np.ones_like(rows)], -1).reshape(1, 1, -1, 3)
    held = tf.matmul(node.keep(grid.astype(np.float32)), matrices.held_as(0, 2, 1).held)
    return Tensor(tf.reshape(held, [-1, int(sizes[0]), *rows.shape, 2]), (1, 2, 3, 4))


def grid_sample(node: OnnxNode) -> Value:
    """Entries [N, C, H, W] at places [N, rows, columns, 2] from -1 to 1, between four pixels.

    All channels have the same four shares: as such they let through, and get no relevance.
    """
    x = node.x
    grid = node.tensor(1)
    mode = node.get("mode", "linear")
    border = node.get("padding_mode", "zeros")
    corners = bool(node.get("align_corners", 0))
    if mode not in ("linear", "bilinear", "nearest") or len(x.axes) != 4:
        raise CannotReadError(f"reads {list(x.shape)} by {mode!r}")
    pages, channels, *sizes = x.shape
    made = grid.shape[1:3]
    values = tf.reshape(x.held_as(0, 2, 3, 1).held, [-1, pages, math.prod(sizes), channels])
    places = tf.reshape(grid.held_as(0, 1, 2, 3).held, [-1, pages, math.prod(made), 2])
    ends: list[list[tuple[tf.Tensor, tf.Tensor]]] = []
    for size, part in zip(sizes, (places[..., 1:], places[..., :1]), strict=True):
        at = (part + 1) * ((size - 1) / 2) if corners else (part + 1) * (size / 2) - 0.5
        if border == "reflection":
            low, span = (0.0, size - 1.0) if corners else (-0.5, float(size))
            turned = at - low
            at = tf.abs(turned - 2 * span * tf.round(turned / (2 * span))) + low
        if border in ("border", "reflection"):
            at = tf.clip_by_value(at, 0.0, size - 1.0)
        if mode == "nearest":
            ends.append([_pixel(tf.round(at), 1.0, size)])
        else:
            low = tf.floor(at)
            share = at - low
            ends.append([_pixel(low, 1 - share, size), _pixel(low + 1, share, size)])
    parts = []
    for (row, of_row), (column, of_column) in itertools.product(*ends):
        number = tf.squeeze(row * sizes[1] + column, -1)
        found = tf.gather(values, number, axis=2, batch_dims=2)
        parts.append(found * (of_row * of_column))
    held = tf.reshape(functools.reduce(tf.add, parts), [-1, pages, *made, channels])
    return Tensor(held, (1, 4, 2, 3))


def _pixel(at: tf.Tensor, share: tf.Tensor | float, size: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The number of a row or column, and its share, which is zero outside."""
    inside = tf.cast((at > -0.5) & (at < size - 0.5), tf.float32)
    return tf.cast(tf.clip_by_value(at, 0.0, size - 1.0), tf.int32), inside * share
