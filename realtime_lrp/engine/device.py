"""The device that computes: which one, its name, and the precision in which it is fastest.

The processor's speed in each precision is measured in `precision_times.py`.
"""

import functools
import logging
import os
import platform
from dataclasses import dataclass
from pathlib import Path

from realtime_lrp.engine.precision_times import PrecisionTimes, precision_times
from realtime_lrp.engine.tensorflow import tf
from realtime_lrp.errors import first_line

CPU_INFO = Path("/proc/cpuinfo")

BFLOAT16_FLAGS = {"amx_bf16", "avx512_bf16", "avx_ne_convert"}
"""What processors of one name may or may not have, for example under a hypervisor."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Device:
    """The device that computes.

    Attributes:
      scope: its name for `tf.device`.
      name: "CPU", or the GPU's product name.
      fast_precision: the fastest precision; float32 where none is faster.
      times: what was measured to find it; None where the kind of device decides.
    """

    scope: str
    name: str
    fast_precision: str
    times: PrecisionTimes | None = None

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


@functools.cache
def cpu() -> Device:
    """The CPU. Measures which precision is faster, unless that is known from an earlier run."""
    features = sorted(BFLOAT16_FLAGS & _cpu_flags())
    times = precision_times(" ".join([machine(), *features]))
    return Device("/CPU:0", "CPU", times.faster, times)


def _of_gpu(capability: tuple[int, int]) -> str:
    """What tensor cores multiply: bfloat16 since Ampere (8.0)."""
    return "bfloat16" if capability >= (8, 0) else "float32"


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
