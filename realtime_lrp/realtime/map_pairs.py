"""Two maps of a small transformer at a time, each computed by one thread.

The products of such a network are so small that sharing each among two threads costs more than it
gains: on two cores DeiT-Tiny makes 9 to 11 maps a second one after the other, 16 to 20 in pairs.
Larger networks would gain nothing, and their maps would be older when they are shown.
"""

from __future__ import annotations

import os
import re
import sys
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from realtime_lrp.config import Config

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine
    from realtime_lrp.engine.result import Result

THREADS = "TF_NUM_INTRAOP_THREADS"
"""The environment variable from which TensorFlow takes its number of threads when it is loaded."""

WAIT_S = 0.034
"""How long the second map of a pair waits for a frame: as long as a camera takes for one."""

LARGEST = 40 << 20  # bytes of the largest model file that counts as small: 10 million weights

SMALL_PRESET = re.compile(r"hub:(deit|vit)_tiny_")


class MapPairs:
    """Begins maps: of one small transformer in pairs, of anything else as the engine does."""

    def __init__(self, config: Config) -> None:
        self._model, self._others = config.model.name, config.live.also_models
        self._pair: ThreadPoolExecutor | None = None

    def decide(self) -> None:
        """Decides whether maps are computed in pairs; has to be called before TensorFlow is loaded.

        Several networks get none, nor does a program that has set the number of threads.
        """
        free = THREADS not in os.environ and "tensorflow" not in sys.modules
        several_cores = (os.cpu_count() or 1) > 1
        if free and several_cores and not self._others and is_small_transformer(self._model):
            os.environ[THREADS] = "1"
            self._pair = ThreadPoolExecutor(2, "map")

    def at_once(self, engine: Engine) -> int:
        """How many maps may be in flight."""
        return 2 if self._pair else engine.in_flight

    def wait_s(self, in_flight: int) -> float:
        """How long another frame is waited for before the oldest of the maps in flight is."""
        return WAIT_S if self._pair and in_flight == 1 else 0.0

    def begin(
        self, engine: Engine, picture: np.ndarray, target: str | int
    ) -> Callable[[], list[Result]]:
        """Begins the map of a picture; the function that is returned waits for the result."""
        if self._pair is None:
            return engine.begin([picture])
        return self._pair.submit(lambda: engine.begin([picture], [target])()).result


def is_small_transformer(model: str) -> bool:
    """Whether a model file has attention and few weights, or is such a preset by its name."""
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
