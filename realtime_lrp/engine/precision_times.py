"""Which precision is faster on this processor: measured once, kept in the user's cache folder.

A file that is missing, damaged or cannot be written means that the processor is measured again;
it is never an error. What is timed may change; then the version of the package changes with it.
"""

import functools
import json
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from platformdirs import user_cache_path

from realtime_lrp.engine.tensorflow import tf
from realtime_lrp.errors import Error
from realtime_lrp.system.atomic import atomic_file
from realtime_lrp.system.version import __version__

CONVOLUTION = (28, 28, 256)
"""Rows, columns and channels, in and out, of the convolution that is timed; VGG16 has two."""

DENSE = (4096, 1024)
"""Inputs and outputs of the dense layer that is timed."""

REPEATS = 5

WORTHWHILE = 0.8
"""bfloat16 is chosen where it takes at most this share of the time in float32."""


@dataclass(frozen=True)
class PrecisionTimes:
    """How long typical layers take, forward and transposed, in milliseconds.

    Attributes:
      float32: milliseconds in float32.
      bfloat16: milliseconds in bfloat16; None where the processor cannot compute in it.
    """

    float32: float
    bfloat16: float | None

    @property
    def faster(self) -> str:
        """The faster precision; float32 where bfloat16 gains little."""
        gains = self.bfloat16 is not None and self.bfloat16 <= WORTHWHILE * self.float32
        return "bfloat16" if gains else "float32"

    def __str__(self) -> str:
        """For people: "float32 22.4 ms, bfloat16 10.2 ms"."""
        bfloat16 = "impossible" if self.bfloat16 is None else f"{self.bfloat16:.1f} ms"
        return f"float32 {self.float32:.1f} ms, bfloat16 {bfloat16}"


def precision_times(processor: str) -> PrecisionTimes:
    """The times of this processor: from the cache, else measured and written to the cache.

    Args:
      processor: what the times depend on: the processor's model, features and usable cores.
    """
    file = cache_file()
    key = f"{processor}, TensorFlow {tf.__version__}, realtime-lrp {__version__}"
    known = _read(file) if file else {}
    if key in known:
        return known[key]
    times = measure()
    if file:
        _write(file, {**known, key: times})
    return times


def cache_file() -> Path | None:
    """The file that keeps the times; None for a user without a home folder."""
    try:
        return user_cache_path("realtime-lrp") / "precision.json"
    except RuntimeError:
        return None


def measure() -> PrecisionTimes:
    """Times typical layers in both precisions, alternately. Takes about a quarter of a second.

    The shortest time counts: other load on the machine can only make a run longer.
    """
    dtypes = [tf.float32, *([tf.bfloat16] if computes_bfloat16() else [])]
    runs = [_timed_layers(dtype) for dtype in dtypes]
    for run in runs:
        run()  # compiles
    taken = [[_milliseconds(run) for run in runs] for _ in range(REPEATS)]
    shortest = [min(times) for times in zip(*taken, strict=True)]
    return PrecisionTimes(shortest[0], shortest[1] if len(shortest) > 1 else None)


@functools.cache
def computes_bfloat16() -> bool:
    """Whether convolutions and their adjoints run in bfloat16 on this CPU; older ones refuse."""
    a, kernel = tf.ones([1, 8, 8, 16], tf.bfloat16), tf.ones([3, 3, 16, 16], tf.bfloat16)

    def there_and_back(a: tf.Tensor) -> tf.Tensor:
        z = tf.nn.relu(tf.nn.conv2d(a, kernel, 2, "SAME"))
        return tf.nn.conv2d_transpose(z, kernel, a.shape, 2)

    run = tf.function(there_and_back, autograph=False)
    try:
        return bool(run(a).numpy().any())
    except tf.errors.OpError:
        return False


def _milliseconds(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return 1e3 * (time.perf_counter() - begin)


def _timed_layers(dtype: tf.DType) -> Callable[[], object]:
    """A function that runs a convolution and a dense layer forward and transposed."""
    rows, columns, channels = CONVOLUTION
    inputs, outputs = DENSE
    picture = tf.ones([1, rows, columns, channels], dtype)
    window = tf.fill([3, 3, channels, channels], tf.constant(1 / 9 / channels, dtype))
    vector, matrix = tf.ones([1, inputs], dtype), tf.ones([outputs, inputs], dtype)

    def layers(*tensors: tf.Tensor) -> list[tf.Tensor]:
        picture, window, vector, matrix = tensors
        z = tf.nn.relu(tf.nn.conv2d(picture, window, 1, "SAME"))
        back = tf.nn.conv2d_transpose(z, window, picture.shape, 1)
        dense = tf.matmul(vector, matrix, transpose_b=True)
        return [tf.reduce_sum(back), tf.reduce_sum(tf.matmul(dense, matrix))]

    compiled = tf.function(layers, autograph=False)
    return lambda: [one.numpy() for one in compiled(picture, window, vector, matrix)]


def _read(file: Path) -> dict[str, PrecisionTimes]:
    """The times in the file by key; entries that are damaged are left out."""
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(entries, dict):
        return {}
    known = {key: _entry(value) for key, value in entries.items()}
    return {key: times for key, times in known.items() if times}


def _entry(value: object) -> PrecisionTimes | None:
    """The times of one entry of the file; None if it is damaged."""
    if not isinstance(value, dict) or value.keys() != {"float32", "bfloat16"}:
        return None
    numbers = [number for number in value.values() if number is not None]
    positive = all(isinstance(n, float) and math.isfinite(n) and n > 0 for n in numbers)
    return PrecisionTimes(**value) if positive and value["float32"] else None


def _write(file: Path, times: dict[str, PrecisionTimes]) -> None:
    """Replaces the file; nothing happens where that is impossible."""
    with suppress(OSError, Error):
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(file, overwrite=True) as part:
            text = json.dumps({key: asdict(one) for key, one in times.items()}, indent=1)
            part.write_text(text + "\n", encoding="utf-8")
