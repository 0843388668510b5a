"""The device that computes: which one, its name, and the precision in which it is fastest."""

import functools
import logging
import time
import timeit
from collections.abc import Callable
from dataclasses import dataclass

from realtime_lrp.engine.measured import Kept, Positive, cpu_info, machine
from realtime_lrp.engine.tensorflow import tf
from realtime_lrp.errors import first_line

BFLOAT16_FLAGS = {"amx_bf16", "avx512_bf16", "avx_ne_convert"}
"""Features that processors of one name may or may not have, as under a hypervisor."""

CONVOLUTION = (28, 28, 256)
"""Rows, columns and channels, in and out, of the convolution that is timed; VGG16 has two."""

DENSE = (4096, 1024)  # inputs and outputs of the dense layer that is timed
REPEATS, TIMED_S = 5, 0.4  # at least 5 runs of each, and at least 0.4 s of them together
WORTHWHILE = 0.9  # bfloat16 is chosen where it takes at most this share of the time in float32

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PrecisionTimes:
    """How long something takes in each precision, in milliseconds."""

    float32: Positive
    bfloat16: Positive | None  # None where the processor cannot compute in it

    @property
    def faster(self) -> str:
        """The faster precision; float32 where bfloat16 gains little."""
        gains = self.bfloat16 is not None and self.bfloat16 <= WORTHWHILE * self.float32
        return "bfloat16" if gains else "float32"

    def __str__(self) -> str:
        """For people: "float32 22.4 ms, bfloat16 10.2 ms"."""
        bfloat16 = f"{self.bfloat16:.1f} ms" if self.bfloat16 else "impossible"
        return f"float32 {self.float32:.1f} ms, bfloat16 {bfloat16}"


TIMES = Kept("precision.json", PrecisionTimes)
"""Times of typical layers on a processor, and correlations of networks' maps on it."""


def precision_times(processor: str) -> PrecisionTimes:
    """The times of typical layers on a processor (its model, features, cores), measured once."""
    what = f"{processor}, TensorFlow {tf.__version__}"
    if (times := TIMES.get(what)) is None:
        times = measure()
        TIMES.add(what, times)
    return times


def measure() -> PrecisionTimes:
    """Times typical layers in both precisions. Takes about a quarter of a second."""
    dtypes = [tf.float32, *[tf.bfloat16] * computes_bfloat16()]
    return shortest_times(*map(_timed_layers, dtypes))


def shortest_times(*runs: Callable[[], object]) -> PrecisionTimes:
    """Times float32 and, if it is there, bfloat16 in turn; the shortest time counts."""
    for run in runs:
        run()  # compiles
    taken: list[list[float]] = []
    begin = time.monotonic()
    while len(taken) < REPEATS or time.monotonic() - begin < TIMED_S:
        taken.append([1e3 * timeit.timeit(run, number=1) for run in runs])
    float32, *bfloat16 = map(min, zip(*taken, strict=True))
    return PrecisionTimes(float32, bfloat16[0] if bfloat16 else None)


@functools.cache
def computes_bfloat16() -> bool:
    """Whether convolutions and their adjoints run in bfloat16 on this CPU; older ones refuse."""
    a = tf.ones([1, 8, 8, 16], tf.bfloat16)
    kernel = tf.ones([3, 3, 16, 16], tf.bfloat16)

    def there_and_back(a: tf.Tensor) -> tf.Tensor:
        z = tf.nn.relu(tf.nn.conv2d(a, kernel, 2, "SAME"))
        return tf.nn.conv2d_transpose(z, kernel, a.shape, 2)

    try:
        return bool(tf.function(there_and_back, autograph=False)(a).numpy().any())
    except tf.errors.OpError:
        return False


def _timed_layers(dtype: tf.DType) -> Callable[[], object]:
    """A function that runs a convolution and a dense layer forward and transposed."""
    rows, columns, channels = CONVOLUTION
    inputs, outputs = DENSE
    picture = tf.ones([1, rows, columns, channels], dtype)
    window = tf.fill([3, 3, channels, channels], tf.constant(1 / 9 / channels, dtype))
    vector = tf.ones([1, inputs], dtype)
    matrix = tf.ones([outputs, inputs], dtype)

    def layers(*tensors: tf.Tensor) -> list[tf.Tensor]:
        picture, window, vector, matrix = tensors
        z = tf.nn.relu(tf.nn.conv2d(picture, window, 1, "SAME"))
        back = tf.nn.conv2d_transpose(z, window, picture.shape, 1)
        dense = tf.matmul(vector, matrix, transpose_b=True)
        return [tf.reduce_sum(back), tf.reduce_sum(tf.matmul(dense, matrix))]

    compiled = tf.function(layers, autograph=False)
    return lambda: [one.numpy() for one in compiled(picture, window, vector, matrix)]


@dataclass(frozen=True)
class Device:
    """The device that computes."""

    scope: str  # its name for `tf.device`
    name: str  # "CPU", or the GPU's product name
    fast_precision: str  # the fastest precision; float32 where none is faster
    times: PrecisionTimes | None = None  # measured to find it; None where the device's kind decides

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU."""
        return "GPU" in self.scope


@functools.cache
def device() -> Device:
    """The first GPU that works, else the CPU. Logs why a GPU does not work."""
    for gpu in tf.config.list_physical_devices("GPU"):
        details = tf.config.experimental.get_device_details(gpu)
        scope = f"/GPU:{gpu.name.split(':')[-1]}"
        name = details.get("device_name", "GPU")
        try:
            tf.config.experimental.set_memory_growth(gpu, True)
            with tf.device(scope):
                tf.matmul(tf.ones([8, 8]), tf.ones([8, 8])).numpy()
        except (tf.errors.OpError, RuntimeError, ValueError) as error:
            log.warning(
                "the GPU %s is missing, busy or full (%s): computing on the CPU",
                name, first_line(error),
            )  # fmt: skip
            continue
        # tensor cores multiply bfloat16 since Ampere
        ampere = details.get("compute_capability", (0, 0)) >= (8, 0)
        return Device(scope, name, "bfloat16" if ampere else "float32")
    return cpu()


@functools.cache
def cpu() -> Device:
    """The CPU. Measures which precision is faster, unless that is known from an earlier run."""
    flags = set(" ".join(cpu_info("flags")[:1]).split())
    times = precision_times(" ".join([machine(), *sorted(BFLOAT16_FLAGS & flags)]))
    return Device("/CPU:0", "CPU", times.faster, times)
