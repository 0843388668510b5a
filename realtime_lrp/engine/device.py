"""The device that computes: which one, its name, and the precision in which it is fastest."""

import functools
import logging
import os
import platform
from dataclasses import dataclass
from pathlib import Path

from realtime_lrp.engine.tensorflow import tf
from realtime_lrp.errors import first_line

CPU_INFO = Path("/proc/cpuinfo")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Device:
    """The device that computes.

    Attributes:
      scope: its name for `tf.device`.
      name: "CPU", or the GPU's product name.
      fast_precision: the fastest precision that keeps the maps; float32 where none is faster.
    """

    scope: str
    name: str
    fast_precision: str

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
        return Device(scope, name, _of_gpu(details.get("compute_capability", (0, 0))))
    return cpu()


def cpu() -> Device:
    """The CPU.

    bfloat16 counts as faster only with AMX: VGG16 takes 86 ms instead of 289 with it, and 432
    where the same processor is held to AVX-512 BF16 (ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16).
    """
    return Device("/CPU:0", "CPU", "bfloat16" if "amx_bf16" in _cpu_flags() else "float32")


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


def _of_gpu(capability: tuple[int, int]) -> str:
    """What tensor cores multiply: bfloat16 since Ampere (8.0), float16 since Volta (7.0)."""
    if capability >= (8, 0):
        return "bfloat16"
    return "float16" if capability >= (7, 0) else "float32"


def machine() -> str:
    """The processor's name and the number of its cores that this process may use."""
    names = [_after_colon(line) for line in _cpu_info() if line.startswith("model name")]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cores} x {(names or [platform.processor() or platform.machine()])[0]}"


def _cpu_flags() -> set[str]:
    lines = [line for line in _cpu_info() if line.startswith("flags")]
    return set(_after_colon(lines[0]).split()) if lines else set()


def _cpu_info() -> list[str]:
    return CPU_INFO.read_text().splitlines() if CPU_INFO.is_file() else []


def _after_colon(line: str) -> str:
    return line.partition(":")[2].strip()
