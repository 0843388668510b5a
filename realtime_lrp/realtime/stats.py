"""The figures that `--stats` writes, under documented names, and what measures rates and waits."""

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from realtime_lrp.config.provenance import Provenance, figures_json
from realtime_lrp.system.files import atomic_file

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine

METERED_S = 3.0  # rates are counted over this many last seconds
KEPT = 10_000  # p50 and p99 are computed from this many of the latest durations


@dataclass
class Stats:
    """Counts and durations of one run; None where a figure does not apply to the command."""

    device: str = ""
    precision: str = ""
    frames_captured: int = 0
    frames_shown: int = 0
    frames_dropped: int | None = 0
    maps: int = 0
    reconnects: int | None = None
    traces: int = 0
    map_ms: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))  # milliseconds
    frame_age_ms: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    map_age_ms: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    maps_in_flight: int | None = None  # how many are computed at once, at most
    first_map: float | None = None  # `time.monotonic()` of the first map, or None before it
    _shown_before: int = field(default=0, init=False)
    _maps_before: int = field(default=0, init=False)

    def note_engine(self, engine: "Engine") -> None:
        """Notes what computes the maps."""
        self.device = engine.device
        self.precision = engine.precision
        self.traces = engine.explainer.traces
        self.maps_in_flight = engine.in_flight

    def map_made(self, count: int, seconds: float) -> None:
        self.maps += count
        self.map_ms.extend([1000 * seconds / count] * count)
        if self.first_map is None:
            self.first_map = time.monotonic()
            self._shown_before = self.frames_shown
            self._maps_before = self.maps

    def seconds(self) -> float:
        return 0.0 if self.first_map is None else time.monotonic() - self.first_map

    def display_fps(self) -> float | None:
        return self._rate(self.frames_shown - self._shown_before)

    def maps_per_s(self) -> float | None:
        return self._rate(self.maps - self._maps_before)

    def _rate(self, count: int) -> float | None:
        seconds = self.seconds()
        return count / seconds if seconds else None

    def summary(self, network: str = "") -> str:
        """A line; of a further network with its name, without what all have in common."""
        maps = f"{self.maps} maps ({self.maps_per_s() or 0.0:.1f} a second)"
        maps += f", {self.precision} on {self.device}"
        if network:
            return f"{network}: {maps if self.device else 'not loaded yet, no maps'}"
        frames = "1 frame" if self.frames_shown == 1 else f"{self.frames_shown} frames"
        dropped = "" if self.frames_dropped is None else f"{self.frames_dropped} dropped, "
        return f"{frames} shown ({self.display_fps() or 0.0:.1f} a second), {dropped}{maps}"

    def as_dict(self, live: bool) -> dict[str, Any]:
        """The figures by name; of a live view if there is one."""
        return {
            "frames_captured": self.frames_captured,
            "frames_shown": self.frames_shown,
            "frames_dropped": self.frames_dropped,
            "display_fps": self.display_fps() if live else None,
            "frame_age_ms": _percentiles(self.frame_age_ms),
            "reconnects": self.reconnects,
            **self.of_network(),
        }

    def of_network(self) -> dict[str, Any]:
        """The figures that each network has."""
        return {
            "maps": self.maps,
            "maps_per_s": self.maps_per_s(),
            "map_ms": _percentiles(self.map_ms),
            "map_age_ms": _percentiles(self.map_age_ms),
            "maps_in_flight": self.maps_in_flight,
            "traces": self.traces,
            "device": self.device,
            "precision": self.precision,
        }


def write_figures(
    path: Path, figures: dict[str, Any], provenance: Provenance, overwrite: bool = True
) -> None:
    """Writes figures as JSON, and how the maps were made."""
    with atomic_file(path, overwrite) as part:
        part.write_text(figures_json(figures, provenance))


def _percentiles(values: Iterable[float]) -> dict[str, float] | None:
    values = list(values)
    if not values:
        return None
    p50, p99 = np.percentile(values, [50, 99])
    return {"p50": round(float(p50), 2), "p99": round(float(p99), 2)}


class Meter:
    """The rate at which a number rises, over the last seconds; `with` adds seconds to it."""

    def __init__(self) -> None:
        self.number = self._begin = 0.0
        self._seen: deque[tuple[float, float]] = deque()

    def __enter__(self) -> None:
        self._begin = time.monotonic()

    def __exit__(self, *exception: object) -> None:
        self.reached(self.number + time.monotonic() - self._begin)

    def reached(self, number: float) -> None:
        now = time.monotonic()
        if not self._seen or number != self.number:
            self._seen.append((now, number))
        self.number = number
        while len(self._seen) > 2 and now - self._seen[0][0] > METERED_S:
            self._seen.popleft()

    def rate(self) -> float:
        """How much the number rises each second; 0 while it stands still."""
        seen = tuple(self._seen)
        if len(seen) < 2:
            return 0.0
        first, low = seen[0]
        last, high = seen[-1]
        usual = (last - first) / (len(seen) - 1)
        if time.monotonic() - last > max(METERED_S, 3 * usual):
            return 0.0
        return (high - low) / max(last - first, 1e-9)
