"""The processor's temperature: above a limit the network rests."""

import logging
import math
from collections.abc import Callable

import psutil

from realtime_lrp.commands.kiosk.states import Fault

HYSTERESIS = 10.0
"""The network works again once the processor is this many degrees below the limit."""

COOLING_S = 120.0
"""Rough time that cooling down takes; the card counts it down."""

PERIOD_S = 5.0
"""Seconds between two readings."""

SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal", "soc_thermal")
"""Linux's names of the sensors in a processor."""

log = logging.getLogger(__name__)


class TemperatureWatch:
    """Tells whether the processor is too hot.

    Args:
      limit: degrees Celsius.
      measure: returns the present temperature, or None if no sensor gives one.

    Attributes:
      temperature: the last reading, or None.
    """

    def __init__(self, limit: float, measure: Callable[[], float | None] | None = None):
        self.temperature: float | None = None
        self._limit, self._measure = limit, measure or processor_temperature
        self._hot_since: float | None = None
        self._measured_at = -math.inf

    def fault(self, now: float) -> Fault | None:
        """The card to show while the processor cools down."""
        if now - self._measured_at >= PERIOD_S:
            self._measured_at, self.temperature = now, self._measure()
            limit = self._limit - (0 if self._hot_since is None else HYSTERESIS)
            if self.temperature is None or self.temperature < limit:
                self._hot_since = None
            elif self._hot_since is None:
                self._hot_since = now
                log.warning("the processor is at %.0f degrees: the network rests", self.temperature)
        if self._hot_since is None:
            return None
        return Fault("hot", COOLING_S - (now - self._hot_since) % COOLING_S)


def processor_temperature() -> float | None:
    """The hottest reading in the processor in degrees Celsius; None if no sensor gives one."""
    if not hasattr(psutil, "sensors_temperatures"):  # Windows and macOS
        return None
    try:
        readings = psutil.sensors_temperatures()
    except (OSError, ValueError):
        return None
    known = [entry.current for name in SENSORS for entry in readings.get(name, ()) if entry.current]
    return max(known, default=None)
