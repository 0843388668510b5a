"""What the machine can do at best, and the least time that a map takes on it."""

from collections.abc import Sequence
from typing import Any

from realtime_lrp.commands.bench.timing import Action, seconds
from realtime_lrp.engine.device import device
from realtime_lrp.engine.precision_times import computes_bfloat16
from realtime_lrp.engine.tensorflow import tf
from realtime_lrp.relevance import onednn
from realtime_lrp.relevance.explainer import Explainer
from realtime_lrp.relevance.operations import Multiplication, multiplications

ROWS, COLUMNS = 4096, 25088
"""The size of the matrix whose reading shows the memory bandwidth."""

CONVOLUTIONS = 8
"""How many different convolutions of a map are timed: those with the most arithmetic."""

BATCHES = (1, 8)
"""The batches in which they are timed."""

FLOPS = 2e9
"""The arithmetic of one measurement: small convolutions are repeated in it."""


def precisions() -> list[str]:
    """What this machine can compute in, float32 first."""
    further = ["bfloat16"] if computes_bfloat16() else []
    if device().fast_precision == "float16":
        further = ["float16"]
    return ["float32", *further]


def measure_peak(explainer: Explainer) -> dict[str, Any]:
    """The pace of the quickest convolution in a map, and the memory bandwidth.

    Returns:
      "gflops_per_s", "convolution" (which one it is) and "gb_per_s". Without convolutions the pace
      is that of a product with a matrix.
    """
    dtype = tf.as_dtype(explainer.precision)
    multiply = tf.function(tf.matmul, autograph=False)
    x, kernel = tf.ones([1, COLUMNS], dtype), tf.ones([ROWS, COLUMNS], dtype)
    reading_s = min(seconds(lambda: multiply(x, kernel, transpose_b=True)) for _ in range(6))
    paces = [
        (_pace(one, dtype, batch), f"{_text(one)}, batch {batch}")
        for one in _typical(explainer)
        for batch in BATCHES
    ]
    if not paces:
        size = ROWS // 4
        many = tf.ones([size, COLUMNS], dtype)
        product_s = min(seconds(lambda: multiply(many, kernel, transpose_b=True)) for _ in range(4))
        paces = [(2 * size * ROWS * COLUMNS / product_s, "a product of matrices")]
    pace, convolution = max(paces)
    return {
        "gflops_per_s": pace / 1e9,
        "convolution": convolution,
        "gb_per_s": ROWS * COLUMNS * dtype.size / reading_s / 1e9,
    }


def measure_floor(explainer: Explainer, peak: dict[str, Any]) -> dict[str, float]:
    """The least time of a map: all that it multiplies, at the best pace that was seen.

    Args:
      explainer: computes the map.
      peak: what `measure_peak` returned for it.

    Returns:
      "arithmetic_ms" for each picture, of the convolutions; "weights_ms" for each batch, to read
      the matrices of the dense layers.
    """
    found = list(multiplications(explainer.map_graph))
    arithmetic = sum(one.flops for one in found if not one.bytes)
    read = sum(one.bytes for one in found)
    return {
        "arithmetic_ms": arithmetic / peak["gflops_per_s"] / 1e6,
        "weights_ms": read / peak["gb_per_s"] / 1e6,
    }


def _typical(explainer: Explainer) -> Sequence[Multiplication]:
    """The different convolutions of a map that compute most."""
    found = {one for one in multiplications(explainer.map_graph) if one.input}
    return sorted(found, key=lambda one: -one.flops)[:CONVOLUTIONS]


def _pace(one: Multiplication, dtype: tf.DType, batch: int) -> float:
    """Floating point operations a second of a convolution, at best."""
    copies = max(1, round(FLOPS / one.flops / batch))
    with tf.device(device().scope):
        inputs = tf.ones([copies, batch, *(one.input or ())], dtype)
        kernel = tf.fill(one.kernel, tf.constant(1e-3, dtype))
        action = _repeated(one, inputs, kernel)
        action()
        taken_s = min(seconds(action) for _ in range(4))
    return one.flops * batch * copies / taken_s


def _repeated(one: Multiplication, inputs: tf.Tensor, kernel: tf.Tensor) -> Action:
    """A function that convolves each of the inputs [copies, B, H, W, C], one after the other."""
    geometry = onednn.Geometry(
        strides=one.strides, padding=one.padding, dilations=one.dilations
    )  # fmt: skip

    def convolve(inputs: tf.Tensor) -> list[tf.Tensor]:
        outputs: list[tf.Tensor] = []
        for a in tf.unstack(inputs):
            with tf.control_dependencies(outputs[-1:]):
                if onednn.usable(a, kernel):
                    outputs.append(onednn.convolution(a, kernel, None, "", **geometry))
                else:
                    outputs.append(tf.nn.convolution(a, kernel, **geometry))
        return [tf.reduce_max(outputs[-1][:, :1, :1]), *outputs]

    compiled = tf.function(convolve, autograph=False)
    return lambda: compiled(inputs)[0]


def _text(one: Multiplication) -> str:
    """A convolution in words: "3 x 3 x 256 to 512 of 28 x 28"."""
    window = " x ".join(map(str, one.kernel[:-1]))
    rows, columns, _ = one.input or (0, 0, 0)
    return f"{window} to {one.kernel[-1]} of {rows} x {columns}"
