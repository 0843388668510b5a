"""Maps in flight: a small network computes a map on each core, a large one each map on all cores.

The operations of a small network are so short that sharing each among threads costs more than it
gains; maps of a large one would only get older. TensorFlow takes its number of threads from the
environment when it is loaded, which this module must not do.
"""

import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from realtime_lrp.config.applications import APPLICATIONS
from realtime_lrp.config.names import HUB
from realtime_lrp.engine.measured import pace_of
from realtime_lrp.models.names import FILES
from realtime_lrp.system.machine import core_count

THREADS = "TF_NUM_INTRAOP_THREADS"
"""How many threads of TensorFlow share an operation. Who sets it decides: with 1 each core computes
a map, else one map is computed at a time."""

SMALL = 100 << 20  # bytes of weights: ResNet50 (98 MB) gains, VGG16 (528 MB) does not

T = TypeVar("T")
U = TypeVar("U")

_pool: ThreadPoolExecutor | None = None


def share_cores(network: str) -> None:
    """Decides it for this process. Call it before TensorFlow is loaded; later it has no effect."""
    global _pool
    cores = core_count()
    if "tensorflow" in sys.modules or cores == 1:
        return
    if gains_by_it(network):
        os.environ.setdefault(THREADS, "1")
    if os.environ.get(THREADS) == "1":
        _pool = ThreadPoolExecutor(cores, "map")


def gains_by_it(network: str) -> bool:
    """Whether a map on each core is quicker: what was measured says so, else the size."""
    if pace := pace_of(network):
        return pace.each_core > pace.all_cores
    size = weight_bytes(network)
    return bool(size and size <= SMALL)


def pool() -> ThreadPoolExecutor | None:
    """A thread for each map in flight; None where that is one map, on all cores."""
    return _pool


def each(function: Callable[[T], U], items: Iterable[T]) -> list[U]:
    """The function of each item, in order; as many at once as maps are in flight."""
    return list(_pool.map(function, items) if _pool else map(function, items))


def weight_bytes(name: str) -> int | None:
    """About how large the stored weights of a network are; None where nothing here says so."""
    if application := APPLICATIONS.get(name.lower()):
        return application.megabytes << 20
    path = str(FILES.get(name.lower()) or name.removeprefix(HUB))
    files: list[str | Path] = [path]
    if os.path.isdir(path):
        files = [*Path(path).glob("*"), *Path(path).glob("variables/*")]
    elif name.startswith(HUB):
        cache = Path(os.environ.get("KAGGLEHUB_CACHE") or os.path.expanduser("~/.cache/kagglehub"))
        files = [file for file in cache.glob("models/**/*.h5") if path in file.parts]
    return sum(os.path.getsize(file) for file in files if os.path.isfile(file)) or None
