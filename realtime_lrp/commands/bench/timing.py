"""How `bench` takes times."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from realtime_lrp.engine.tensorflow import tf

WARM_UPS = 2
"""Runs that are not timed; the second one can still be slow while memory is being allocated."""

Times = dict[str, float]
"""Milliseconds for a picture: {"ms": median, "p10": ..., "p90": ...}."""

Action = Callable[[], Any]
"""Does once what is timed."""

_Name = TypeVar("_Name")


def time_in_turns(
    actions: Mapping[_Name, Action],
    turns: int,
    batch: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[_Name, Times]:
    """Times several actions alternately, so that other load on the machine affects all alike.

    Args:
      actions: name -> action.
      turns: how often each is run.
      batch: pictures in a run, by which the times are divided.
      clock: gives seconds, of the wall clock or of the processor.
    """
    taken: dict[_Name, list[float]] = {name: [] for name in actions}
    for action in [*actions.values()] * WARM_UPS:
        action()
    for _ in range(turns):
        for name, action in actions.items():
            taken[name].append(1e3 * seconds(action, clock) / batch)
    return {
        name: {
            "ms": statistics.median(ms),
            "p10": float(np.percentile(ms, 10)),
            "p90": float(np.percentile(ms, 90)),
        }
        for name, ms in taken.items()
    }


def seconds(action: Action, clock: Callable[[], float] = time.perf_counter) -> float:
    """The time of one run by a clock."""
    begin = clock()
    result = action()
    if isinstance(result, tf.Tensor):
        result.numpy()  # a GPU returns before it has computed
    return clock() - begin


def noise(batch: int, shape: tuple[int, ...]) -> np.ndarray:
    """Input for a network, float32 [batch, *shape]; the same at each call."""
    return np.random.default_rng(0).uniform(-100, 100, (batch, *shape)).astype(np.float32)
