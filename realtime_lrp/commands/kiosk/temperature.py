"""The processor's temperature: above a limit the network rests."""

import logging
import math
from collections.abc import Callable

import psutil

from realtime_lrp.commands.kiosk.restarts import Fault

COOLER = 10.0
"""Degrees below the limit at which the network works again."""

COOLING_S = 120.0
"""About how long that takes."""

PERIOD_S = 5.0
"""So often the sensors are asked."""

PROCESSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal", "cpu-thermal", "soc_thermal")
"""The sensors that sit in a processor, by Linux's names."""

log = logging.getLogger(__name__)


class TemperatureWatch:
    """Whether the processor is too hot.

    Args:
      limit: degrees Celsius.
      measured: gives the present temperature, or None where no sensor tells it.
    """

    def __init__(self, limit: float, measured: Callable[[], float | None] | None = None):
        self.temperature: float | None = None
        self._limit, self._measured = limit, measured or temperature
        self._since: float | None = None
        self._asked = -math.inf

    def trouble(self, now: float) -> Fault | None:
        """The card of a processor that has to cool down."""
        if now - self._asked >= PERIOD_S:
            self._asked, self.temperature = now, self._measured()
            limit = self._limit - (0 if self._since is None else COOLER)
            if self.temperature is None or self.temperature < limit:
                self._since = None
            elif self._since is None:
                self._since = now
                log.warning("the processor has %.0f degrees: the network rests", self.temperature)
        if self._since is None:
            return None
        return Fault("hot", COOLING_S - (now - self._since) % COOLING_S)


def temperature() -> float | None:
    """The hottest place of the processor in degrees Celsius; None where that is not known."""
    if not hasattr(psutil, "sensors_temperatures"):  # on other systems
        return None
    try:
        read = psutil.sensors_temperatures()
    except (OSError, ValueError):
        return None
    found = [one.current for name in PROCESSORS for one in read.get(name, ()) if one.current]
    return max(found, default=None)
