"""Measurements of this machine, kept in the user's cache folder, and choices that go by them.

A file that is missing, damaged or cannot be written means that it is measured again. Must not
import TensorFlow, which takes its number of threads from the environment when it is loaded: a small
network computes a map on each core, because sharing its short operations among threads costs more
than it gains; a large one each map on all cores, because maps would only get older.
"""

import os
import platform
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from platformdirs import user_cache_path

from realtime_lrp.config.applications import APPLICATIONS
from realtime_lrp.config.names import HUB
from realtime_lrp.errors import Error
from realtime_lrp.models.names import FILES, NETWORKS, present_networks
from realtime_lrp.system.files import atomic_file
from realtime_lrp.system.machine import core_count
from realtime_lrp.system.program import __version__

CPU_INFO = Path("/proc/cpuinfo")

Positive = Annotated[float, msgspec.Meta(gt=0)]

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class Kept(Generic[T]):
    """Figures of one kind by their subject, kept in the file `file_name`."""

    file_name: str
    kind: type[T]

    @property
    def file(self) -> Path:
        """The path of the file; RuntimeError for a user without a home folder."""
        return user_cache_path("realtime-lrp") / self.file_name

    def get(self, what: str) -> T | None:
        """The measurement; None if there is none with this version."""
        return self._read().get(f"{what}, realtime-lrp {__version__}")

    def add(self, what: str, figures: T) -> None:
        """Keeps figures; nothing happens where that is impossible."""
        with suppress(OSError, RuntimeError, Error):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            kept = self._read() | {f"{what}, realtime-lrp {__version__}": figures}
            with atomic_file(self.file, overwrite=True) as part:
                part.write_bytes(msgspec.json.encode(kept))

    def _read(self) -> dict[str, T]:
        """The figures in the file by key; none where it is damaged."""
        with suppress(OSError, msgspec.MsgspecError, RuntimeError):
            kind: Any = dict[str, self.kind]  # type: ignore[name-defined]
            return msgspec.json.decode(self.file.read_bytes(), type=kind)
        return {}


def machine() -> str:
    """The processor's name and the number of its cores that this process may use."""
    names = cpu_info("model name")
    return f"{core_count()} x {(names or [platform.processor() or platform.machine()])[0]}"


def cpu_info(name: str) -> list[str]:
    """Linux's values of each core under a name."""
    lines = CPU_INFO.read_text().splitlines() if CPU_INFO.is_file() else []
    return [line.partition(":")[2].strip() for line in lines if line.startswith(name)]


def network_here(name: str) -> str:
    """A network, by its name or by where its file or folder is, on this machine."""
    named = name.lower() in NETWORKS or not os.path.exists(name)
    return f"{name.lower() if named else os.path.abspath(name)}, {machine()}"


class Pace(msgspec.Struct, frozen=True):
    """Maps a second of a network in `live`: with a map on each core, and with one map on all."""

    each_core: Positive
    all_cores: Positive

    @property
    def best(self) -> float:
        """The larger one."""
        return max(self.each_core, self.all_cores)


PACES = Kept("paces.json", Pace)  # by `network_here`; `bench` measures them


def pace_of(name: str) -> Pace | None:
    """The pace of a network that `bench` measured on this machine, or None."""
    return PACES.get(network_here(name))


SLOW = 5.0  # maps a second below which a network is slow
QUICK = 15.0  # maps a second from which on it is quick
QUICK_UNLESS_MEASURED = "mobilenet_v2"


def quicker_network(name: str, maps_per_s: float) -> str:
    """Advice on the best quick network where one of keras.applications is slow; else ""."""
    if name.lower() not in APPLICATIONS or maps_per_s >= SLOW:
        return ""
    here = (APPLICATIONS.keys() & present_networks()) - {name.lower()}
    paces = {other: pace.best for other in here if (pace := pace_of(other))}
    quick = [other for other, pace in paces.items() if pace >= QUICK]
    smaller = APPLICATIONS[QUICK_UNLESS_MEASURED].megabytes < APPLICATIONS[name.lower()].megabytes
    if not quick and not (smaller and QUICK_UNLESS_MEASURED not in paces):
        return ""
    best = max(quick or [QUICK_UNLESS_MEASURED], key=lambda other: APPLICATIONS[other].top1)
    figure = f"{paces[best]:.0f} maps a second" if best in paces else "not measured here"
    advice = f"--model {best} is quicker ({APPLICATIONS[best].megabytes} MB, {figure})"
    return f"{name.lower()} makes {maps_per_s:.1f} maps a second: {advice}"


THREADS = "TF_NUM_INTRAOP_THREADS"
"""How many threads of TensorFlow share an operation. Who sets it decides: with 1 each core computes
a map, else one map is computed at a time."""

SMALL = 100 << 20  # bytes of weights: ResNet50 (98 MB) gains, VGG16 (528 MB) does not

_pool: ThreadPoolExecutor | None = None


def share_cores(network: str) -> None:
    """Decides it for this process. Call it before TensorFlow is loaded; later it has no effect."""
    global _pool
    cores = core_count()
    if "tensorflow" in sys.modules or cores == 1:
        return
    pace = pace_of(network)
    if pace.each_core > pace.all_cores if pace else 0 < weight_bytes(network) <= SMALL:
        os.environ.setdefault(THREADS, "1")
    if os.environ.get(THREADS) == "1":
        _pool = ThreadPoolExecutor(cores, "map")


def pool() -> ThreadPoolExecutor | None:
    """A thread for each map in flight; None where that is one map, on all cores."""
    return _pool


def each(function: Callable[[T], U], items: Iterable[T]) -> list[U]:
    """The function of each item, in order; as many at once as maps are in flight."""
    return list(_pool.map(function, items) if _pool else map(function, items))


def weight_bytes(name: str) -> int:
    """About how large the stored weights of a network are; 0 where nothing here says so."""
    if application := APPLICATIONS.get(name.lower()):
        return application.megabytes << 20
    path = str(FILES.get(name.lower()) or name.removeprefix(HUB))
    files: list[str | Path] = [path]
    if os.path.isdir(path):
        files = [*Path(path).glob("*"), *Path(path).glob("variables/*")]
    elif name.startswith(HUB):
        cache = Path(os.environ.get("KAGGLEHUB_CACHE") or os.path.expanduser("~/.cache/kagglehub"))
        files = [file for file in cache.glob("models/**/*.h5") if path in file.parts]
    return sum(os.path.getsize(file) for file in files if os.path.isfile(file))
