"""Maps side by side: a small network computes one on each core, a large one each on all cores.

The operations of a small network are so short that sharing each among threads costs more than it
gains. TensorFlow takes its number of threads from the environment when it is loaded, which this
module must not do.
"""

import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np

from realtime_lrp.config import Config
from realtime_lrp.config.names import HUB
from realtime_lrp.models.applications import APPLICATIONS
from realtime_lrp.models.names import EMBEDDED
from realtime_lrp.system.cores import core_count

THREADS = "TF_NUM_INTRAOP_THREADS"
"""How many threads of TensorFlow share an operation. Who sets it decides: at 1 maps are computed
side by side, else one at a time."""

SMALL = 100 << 20  # bytes of weights: ResNet50 gains by it, VGG16 (528 MB) does not

T = TypeVar("T")
U = TypeVar("U")

_pool: ThreadPoolExecutor | None = None


def share_cores(config: Config) -> None:
    """Decides it for this process. Call it before TensorFlow is loaded; later it has no effect.

    Several networks share all threads.
    """
    global _pool
    cores = core_count()
    if "tensorflow" in sys.modules or cores == 1 or config.live.also_models:
        return
    size = weight_bytes(config.model.name)
    if size and size <= SMALL:
        os.environ.setdefault(THREADS, "1")
    if os.environ.get(THREADS) == "1":
        _pool = ThreadPoolExecutor(cores, "map")


def pool() -> ThreadPoolExecutor | None:
    """A thread for each map that is computed at once; None where that is one."""
    return _pool


def each(function: Callable[[T], U], items: Iterable[T]) -> list[U]:
    """The function of each item, in order; as many at once as maps are."""
    return list(_pool.map(function, items) if _pool else map(function, items))


def parts_for_cores(batch: np.ndarray) -> list[np.ndarray]:
    """A batch in parts for `each`."""
    return np.array_split(batch, min(len(batch), core_count())) if _pool else [batch]


def weight_bytes(name: str) -> int | None:
    """About how large the weights of a network are, as they are stored; None if nothing says so."""
    if application := APPLICATIONS.get(name.lower()):
        return application.megabytes << 20
    file = EMBEDDED.get(name.lower()) or Path(name.removeprefix(HUB))
    files = [file]
    if name.startswith(HUB) and not file.is_dir():
        cache = Path(os.environ.get("KAGGLEHUB_CACHE") or os.path.expanduser("~/.cache/kagglehub"))
        files = list(cache.glob(f"models/keras/*/keras/{file}/*/*.h5"))
    elif file.is_dir():
        files = [*file.glob("*"), *file.glob("variables/*")]
    return sum(path.stat().st_size for path in files if path.is_file()) or None
