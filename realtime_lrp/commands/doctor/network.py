"""Processor and GPU, the embedded network, and weights that need a download."""

import logging
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil

from realtime_lrp import config
from realtime_lrp.commands.doctor.rows import Check, Row
from realtime_lrp.config import Settings
from realtime_lrp.engine import device as hardware
from realtime_lrp.engine.engine import Engine
from realtime_lrp.models.drawing import NOTHING, draw_picture
from realtime_lrp.models.names import NETWORKS
from realtime_lrp.system.free_memory import available_bytes

GIB = 1 << 30

LOW_MEMORY = GIB
"""Bytes of free memory below which there is a warning."""

DRIVER = Path("/proc/driver/nvidia/version")

SEED, SIZES = 18, (0.4, 0.77)
"""With these, the network names all drawn symbols with at least 99.99 %."""

WARM_UPS, REPEATS = 2, 10
"""Maps that are made before the measured ones, and measured."""


def processor(settings: Settings) -> Iterator[Row]:
    """Name, cores, and memory."""
    free = available_bytes()
    total = psutil.virtual_memory().total
    found = f"{hardware.machine()}, {total / GIB:.1f} GiB of memory, {free / GIB:.1f} free"
    if free < LOW_MEMORY:
        yield Row("warning", "processor", found, "close other programs, or use --model shapes")
    else:
        yield Row("ok", "processor", found)


def gpu(settings: Settings) -> Iterator[Row]:
    """Which device computes, and in which precision."""
    with _hardware_warnings() as warnings:
        device = hardware.device()
    precision = f"precision auto is {device.fast_precision}"
    remarks = ["float32 for maps that rounding changes"] * (device.fast_precision != "float32")
    if device.times:
        remarks.append(f"measured: {device.times}")
    if remarks:
        precision += f" ({'; '.join(remarks)})"
    if device.is_gpu:
        yield Row("ok", "GPU", f"{device.name}, {precision}")
    elif warnings:
        advice = "check with nvidia-smi which program uses it, and whether its driver is new enough"
        yield Row("warning", "GPU", f"{warnings[0]}; {precision}", advice)
    elif DRIVER.exists():
        found = f"the driver is installed, but TensorFlow does not see the GPU; {precision}"
        yield Row("warning", "GPU", found, "pip install '.[gpu]' installs what it needs")
    else:
        found = f"no NVIDIA GPU: the CPU computes, {precision}"
        advice = "optional: one makes large networks faster (pip install '.[gpu]')"
        yield Row("warning", "GPU", found, advice)


class _Recorder(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def _hardware_warnings() -> Iterator[list[str]]:
    """Collects what `engine.device` logs meanwhile."""
    recorder = _Recorder()
    hardware.log.addHandler(recorder)
    try:
        yield recorder.lines
    finally:
        hardware.log.removeHandler(recorder)


def network(settings: Settings) -> Iterator[Row]:
    """Lets the embedded network name drawn symbols; measures a map in the chosen precision."""
    options = {"--precision": settings.config.lrp.precision}
    engine = Engine(config.load(options=options, command="demo").config, moving=True)
    rng = np.random.default_rng(SEED)
    pictures = [draw_picture(rng, label, sizes=SIZES).pixels for label in range(NOTHING)]
    answers = engine.scores(np.stack(pictures)).argmax(1)
    right = np.count_nonzero(answers == np.arange(NOTHING))
    found = (
        f"shapes names {right} of {NOTHING} drawn symbols correctly; "
        f"a map takes {_milliseconds(engine, pictures[0]):.1f} ms ({engine.computed})"
    )
    if right < NOTHING:
        advice = "its file or TensorFlow is damaged: run pip install --force-reinstall ."
        yield Row("missing", "network", found, advice)
    else:
        yield Row("ok", "network", found)


def _milliseconds(engine: Engine, picture: np.ndarray) -> float:
    """Median time of one map."""
    times = []
    for _ in range(WARM_UPS + REPEATS):
        begin = time.perf_counter()
        engine.explain([picture])
        times.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(times[WARM_UPS:])


def weights(settings: Settings) -> Iterator[Row]:
    """Which weights have been downloaded; nothing is downloaded here."""
    model = settings.config.model
    chosen = model.name.lower()
    needed = chosen if model.weights in (None, "imagenet") else ""
    states, advice = [], ""
    for name, network in NETWORKS.items():
        if (download := network.download) is None:
            continue
        present = "damaged" if download.path.exists() else "not downloaded"
        state = "downloaded" if download.is_intact else present
        states.append(f"{name}: {state}")
        if name == needed and state != "downloaded":
            advice = (
                f"{network.description}, at the first use. Without internet access, "
                f"put the file at {download.path}, or use --model shapes"
            )
    yield Row("warning" if advice else "ok", "weights", ", ".join(states), advice)


CHECKS: dict[str, Check] = {
    "processor": processor,
    "GPU": gpu,
    "network": network,
    "weights": weights,
}
