"""The configuration's names, what computes, the embedded network, and weights that are loaded."""

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
from realtime_lrp.commands.kiosk.check import wrong_settings
from realtime_lrp.config import KeyPath, Settings
from realtime_lrp.engine import device as hardware
from realtime_lrp.engine.engine import Engine
from realtime_lrp.models.drawing import NOTHING, draw_picture
from realtime_lrp.models.names import NETWORKS
from realtime_lrp.models.size import available_bytes

GIB = 1 << 30
LITTLE = GIB
"""Bytes of free memory below which there is a warning."""

DRIVER = Path("/proc/driver/nvidia/version")
SEED, SIZES = 18, (0.4, 0.77)
"""Of drawn pictures whose symbols the network names with at least 99.99 %."""
WARM_UPS, TURNS = 2, 10


def configuration(settings: Settings) -> Iterator[Row]:
    """The names in it, which the schema does not know; where one was given."""
    file, sets, _ = settings.given
    if not (file or sets):
        return
    places: dict[KeyPath, str] = {
        tuple(key.split(".")): place
        for key, place in settings.origins.items()
        if settings.is_set(key)
    }
    problems = [
        problem
        for where, error in wrong_settings(settings.config)
        for problem in config.problems_of(where, error, places)
    ]
    for one in problems:
        yield Row("missing", "configuration", f"{one.location}: {one.text}")
    if not problems:
        given = [str(file)] if file else []
        given += [f"{len(sets)} x --set"] if sets else []
        yield Row("ok", "configuration", " and ".join(given))


def processor(settings: Settings) -> Iterator[Row]:
    """Its name, its cores and the memory."""
    free = available_bytes()
    total = psutil.virtual_memory().total
    found = f"{hardware.machine()}, {total / GIB:.1f} GiB of memory, {free / GIB:.1f} free"
    if free < LITTLE:
        yield Row("warning", "processor", found, "close other programs, or take --model shapes")
    else:
        yield Row("ok", "processor", found)


def gpu(settings: Settings) -> Iterator[Row]:
    """What computes, and in which precision."""
    with _warnings() as said:
        device = hardware.device()
    precision = f"precision auto is {device.fast_precision}"
    if device.fast_precision != "float32":
        precision += " (float32 where maps add up both signs)"
    if device.is_gpu:
        yield Row("ok", "GPU", f"{device.name}, {precision}")
    elif said:
        words = "look with nvidia-smi what uses it, and whether its driver is new enough"
        yield Row("warning", "GPU", f"{said[0]}; {precision}", words)
    elif DRIVER.exists():
        found = (
            f"its driver is there, but TensorFlow does not see it: the CPU computes, {precision}"
        )
        yield Row("warning", "GPU", found, "pip install '.[gpu]' brings what it needs")
    else:
        found = f"none of NVIDIA: the CPU computes, {precision}"
        words = "nothing to do; one makes large networks faster: pip install '.[gpu]'"
        yield Row("warning", "GPU", found, words)


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """What the hardware's log says meanwhile."""
    kept = _Kept()
    hardware.log.addHandler(kept)
    try:
        yield kept.lines
    finally:
        hardware.log.removeHandler(kept)


def network(settings: Settings) -> Iterator[Row]:
    """The embedded network names drawn symbols; the time of a map in the precision asked for."""
    options = {"--precision": settings.config.lrp.precision}
    engine = Engine(config.load(options=options, command="demo").config, moving=True)
    rng = np.random.default_rng(SEED)
    pictures = [draw_picture(rng, label, sizes=SIZES).pixels for label in range(NOTHING)]
    answers = engine.scores(np.stack(pictures)).argmax(1)
    right = np.count_nonzero(answers == np.arange(NOTHING))
    found = (
        f"shapes names {right} of {NOTHING} drawn symbols right; "
        f"a map takes {_milliseconds(engine, pictures[0]):.1f} ms ({engine.computed})"
    )
    if right < NOTHING:
        words = "its file or TensorFlow is damaged: pip install --force-reinstall . once more"
        yield Row("missing", "network", found, words)
    else:
        yield Row("ok", "network", found)


def _milliseconds(engine: Engine, picture: np.ndarray) -> float:
    """The median time of one map."""
    taken = []
    for _ in range(WARM_UPS + TURNS):
        begin = time.perf_counter()
        engine.explain([picture])
        taken.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(taken[WARM_UPS:])


def weights(settings: Settings) -> Iterator[Row]:
    """Those that are downloaded at their first use; they are not downloaded here."""
    model = settings.config.model
    chosen = model.name.lower()
    needed = chosen if model.weights in (None, "imagenet") else ""
    states, advice = [], ""
    for name, network in NETWORKS.items():
        if (download := network.download) is None:
            continue
        state = (
            "there" if download.is_intact else "damaged" if download.path.exists() else "not yet"
        )
        states.append(f"{name}: {state}")
        if name == needed and state != "there":
            advice = (
                f"{network.description}: that happens by itself, with internet access. Without it: "
                f"put them at {download.path}, or take --model shapes"
            )
    yield Row("warning" if advice else "ok", "weights", ", ".join(states), advice)


CHECKS: dict[str, Check] = {
    "configuration": configuration,
    "processor": processor,
    "GPU": gpu,
    "network": network,
    "weights": weights,
}
