"""What the machine can do at best, and the least time that a map takes on it."""

from collections.abc import Mapping
from typing import Any

from realtime_lrp.commands.bench.timing import seconds
from realtime_lrp.engine.device import device
from realtime_lrp.engine.precision_times import computes_bfloat16
from realtime_lrp.engine.tensorflow import tf

SIDE = 4096
"""Rows and columns of the matrix product that shows the arithmetic peak."""

VECTORS = 25088
"""Columns of the matrix whose reading shows the memory bandwidth (SIDE rows)."""


def precisions() -> list[str]:
    """What this machine can compute in, float32 first."""
    further = ["bfloat16"] if computes_bfloat16() else []
    if device().fast_precision == "float16":
        further = ["float16"]
    return ["float32", *further]


def measure_peak(precision: str) -> dict[str, float]:
    """Arithmetic and memory bandwidth at best: GFLOP/s and GB/s."""
    dtype = tf.as_dtype(precision)
    multiply = tf.function(tf.matmul, autograph=False)
    a = tf.ones([SIDE, SIDE], dtype)
    x, kernel = tf.ones([1, VECTORS], dtype), tf.ones([SIDE, VECTORS], dtype)
    product_s = min(seconds(lambda: multiply(a, a)) for _ in range(4))
    reading_s = min(seconds(lambda: multiply(x, kernel, transpose_b=True)) for _ in range(6))
    return {
        "gflops_per_s": 2 * SIDE**3 / product_s / 1e9,
        "gb_per_s": SIDE * VECTORS * dtype.size / reading_s / 1e9,
    }


def floors(report: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """The least time of the three passes of z+, by precision.

    Args:
      report: holds the network's "gflops" and "million_weights", and "peak" by precision.

    Returns:
      Precision -> {"arithmetic_ms": for each picture, "weights_ms": for each batch}.
    """
    result = {}
    for precision, peak in report["peak"].items():
        arithmetic_s = 3 * report["gflops"] / peak["gflops_per_s"]
        gigabytes = 3 * report["million_weights"] * tf.as_dtype(precision).size / 1e3
        result[precision] = {
            "arithmetic_ms": 1e3 * arithmetic_s,
            "weights_ms": 1e3 * gigabytes / peak["gb_per_s"],
        }
    return result
