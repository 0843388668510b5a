"""Whose pictures are not taken for a while, because one has crashed the decoder or kept it busy."""

import time
from collections.abc import Callable

BAN_S = 60.0
"""How long nobody at an address may send pictures."""


class Bans:
    """Addresses that may send no pictures. For one thread, or below a lock.

    Args:
      clock: a monotonic clock in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._until: dict[str, float] = {}

    def add(self, host: str) -> None:
        """Bans an address for a while; "" is none."""
        now = self._clock()
        self._until = {other: until for other, until in self._until.items() if until > now}
        if host:
            self._until[host] = now + BAN_S

    def holds(self, host: str) -> bool:
        """Whether an address is banned now."""
        return self._clock() < self._until.get(host, 0.0)
