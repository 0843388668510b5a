"""What was measured on this machine once, kept in the user's cache folder.

A file that is missing, damaged or cannot be written means that it is measured again; it is never an
error. What is measured may change; then the version of the package changes with it. Must not import
TensorFlow.
"""

import os
import platform
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Generic, TypeVar

import msgspec
from platformdirs import user_cache_path

from realtime_lrp.config.applications import APPLICATIONS
from realtime_lrp.errors import Error
from realtime_lrp.models.names import NETWORKS, present_networks
from realtime_lrp.system.files import atomic_file
from realtime_lrp.system.machine import core_count
from realtime_lrp.system.program import __version__

CPU_INFO = Path("/proc/cpuinfo")

Positive = Annotated[float, msgspec.Meta(gt=0)]

T = TypeVar("T")


@dataclass(frozen=True)
class Kept(Generic[T]):
    """Figures of one kind by what they are of; `file_name` is that of their file."""

    file_name: str
    kind: type[T]

    @property
    def file(self) -> Path | None:
        """None for a user without a home folder."""
        try:
            return user_cache_path("realtime-lrp") / self.file_name
        except RuntimeError:
            return None

    def get(self, what: str) -> T | None:
        """What is known; None where it was not measured with this version."""
        return self._read().get(f"{what}, realtime-lrp {__version__}")

    def add(self, what: str, figures: T) -> None:
        """Keeps figures; nothing happens where that is impossible."""
        file = self.file
        with suppress(OSError, Error):
            if file:
                file.parent.mkdir(parents=True, exist_ok=True)
                kept = self._read() | {f"{what}, realtime-lrp {__version__}": figures}
                with atomic_file(file, overwrite=True) as part:
                    part.write_bytes(msgspec.json.encode(kept))

    def _read(self) -> dict[str, T]:
        """The figures in the file by key; none where it is damaged."""
        try:
            content = self.file.read_bytes() if self.file else b""
            return msgspec.json.decode(content, type=dict[str, self.kind])  # type: ignore[name-defined]
        except (OSError, msgspec.MsgspecError, RecursionError):
            return {}


def machine() -> str:
    """The processor's name and the number of its cores that this process may use."""
    names = cpu_info("model name")
    return f"{core_count()} x {(names or [platform.processor() or platform.machine()])[0]}"


def cpu_info(name: str) -> list[str]:
    """What Linux says of each core under a name."""
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


PACES = Kept("paces.json", Pace)
"""By `network_here`; `bench` measures them."""


def pace_of(name: str) -> Pace | None:
    """What `bench` measured of a network on this machine, or None."""
    return PACES.get(network_here(name))


SLOW, QUICK = 5.0, 15.0
"""Maps a second below which a network is slow, and from which on it is quick."""

QUICK_UNLESS_MEASURED = "mobilenet_v2"


def quicker_network(name: str, maps_per_s: float) -> str:
    """What would be quick where a network of keras.applications is slow; "" elsewhere.

    Of what was measured as quick it is the network that names most photos correctly.
    """
    if name.lower() not in APPLICATIONS or maps_per_s >= SLOW:
        return ""
    here = APPLICATIONS.keys() & present_networks()
    paces = {other: pace.best for other in here if (pace := pace_of(other))}
    quick = [other for other, pace in paces.items() if pace >= QUICK]
    best = max(quick, key=lambda other: APPLICATIONS[other].top1, default=QUICK_UNLESS_MEASURED)
    figure = f"{paces[best]:.0f} maps a second" if quick else "not measured here"
    advice = f"--model {best} is quicker ({APPLICATIONS[best].megabytes} MB, {figure})"
    return f"{name.lower()} makes {maps_per_s:.1f} maps a second: {advice}"
