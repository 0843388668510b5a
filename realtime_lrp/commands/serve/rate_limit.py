"""Limits how many frames a client sends."""

import time

FRAMES_PER_S, BURST = 100.0, 300
"""Frames that a client may send: each second, and at once."""


class RateLimit:
    """Counts the frames of one client."""

    def __init__(self) -> None:
        self._left, self._since = float(BURST), time.monotonic()

    def take(self) -> bool:
        """Counts a frame; returns whether it is within the limit."""
        now = time.monotonic()
        self._left = min(BURST, self._left + FRAMES_PER_S * (now - self._since)) - 1
        self._since = now
        return self._left >= 0
