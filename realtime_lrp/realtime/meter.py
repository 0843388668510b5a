"""Measures rates, and how long a thread waits."""

import time
from collections import deque


class Meter:
    """The rate at which a number rises, over the last seconds."""

    def __init__(self, window_s: float = 3.0):
        self._window_s = window_s
        self._seen: deque[tuple[float, float]] = deque()

    def reached(self, number: float) -> None:
        """Notes the present number."""
        now = time.monotonic()
        if not self._seen or number != self._seen[-1][1]:
            self._seen.append((now, number))
        while len(self._seen) > 2 and now - self._seen[0][0] > self._window_s:
            self._seen.popleft()

    def rate(self) -> float:
        """How much the number rises each second; 0 while it stands still."""
        if len(self._seen) < 2:
            return 0.0
        (first, low), (last, high) = self._seen[0], self._seen[-1]
        usual = (last - first) / (len(self._seen) - 1)
        if time.monotonic() - last > max(self._window_s, 3 * usual):
            return 0.0
        return (high - low) / max(last - first, 1e-9)


class Waiting:
    """Adds up how long a thread waits: `with waiting: ...`."""

    def __init__(self) -> None:
        self.seconds = self._begin = 0.0

    def __enter__(self) -> None:
        self._begin = time.monotonic()

    def __exit__(self, *exception: object) -> None:
        self.seconds += time.monotonic() - self._begin
