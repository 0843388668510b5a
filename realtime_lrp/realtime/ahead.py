"""Two maps of a small transformer at once, each computed by one thread.

Its products are so small that two threads spend more on sharing them than they gain: on two cores
DeiT-Tiny makes 9 to 11 maps a second one after the other and 16 to 20 in pairs. Larger networks
gain nothing, and their maps would be older. TensorFlow is told the number of threads before it is
imported.
"""

from __future__ import annotations

import os
import re
import sys
import zipfile
from collections.abc import Callable, Sized
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from realtime_lrp.config import Config

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine
    from realtime_lrp.engine.result import Result

AT_ONCE = 2

WAIT_S = 0.034
"""How long the next frame is waited for before the oldest map is: a frame of a camera."""

LARGEST = 40 << 20
"""Bytes of the largest model file that counts as small: 10 million weights."""

THREADS = "TF_NUM_INTRAOP_THREADS"

SMALL_PRESET = re.compile(r"hub:(deit|vit)_tiny_")


class Ahead:
    """Starts the map of the next frame before that of the last one is done.

    Args:
      config: the network, which has to be the only one.
    """

    def __init__(self, config: Config) -> None:
        self._model = "" if config.live.also_models else config.model.name
        self._pool: ThreadPoolExecutor | None = None

    def decide(self) -> None:
        """Decides whether there are two maps at once; called before TensorFlow is imported."""
        free = "tensorflow" not in sys.modules and THREADS not in os.environ
        if free and (os.cpu_count() or 1) > 1 and is_small_transformer(self._model):
            os.environ[THREADS] = "1"
            self._pool = ThreadPoolExecutor(AT_ONCE, "map")

    def most(self, engine: Engine) -> int:
        """How many maps may be in flight."""
        return AT_ONCE if self._pool else engine.in_flight

    def wait_s(self, in_flight: Sized) -> float:
        """How long the next frame is waited for while these maps are in flight."""
        return WAIT_S if self._pool and len(in_flight) < AT_ONCE else 0.0

    def begin(
        self, engine: Engine, picture: np.ndarray, target: str | int
    ) -> Callable[[], list[Result]]:
        """As `engine.begin`."""
        if self._pool is None:
            return engine.begin([picture])
        return self._pool.submit(lambda: engine.begin([picture], [target])()).result


def is_small_transformer(model: str) -> bool:
    """Whether a model file has attention and few weights, or a preset's name says so."""
    if SMALL_PRESET.match(model):
        return True
    try:
        path = Path(model)
        if path.suffix != ".keras" or path.stat().st_size > LARGEST:
            return False
        with zipfile.ZipFile(path) as archive, archive.open("config.json") as file:
            return b"Attention" in file.read(LARGEST)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):
        return False  # loading says what is wrong
