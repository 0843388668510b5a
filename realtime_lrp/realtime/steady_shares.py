"""Keeps the channels that are shown from changing with every picture.

The shares of channels flicker from picture to picture, so that every other map would bring another
channel among the largest. They are averaged over time, and those shown have an advantage.
"""

import math

import numpy as np

from realtime_lrp.engine.result import ConceptResult

AVERAGED_S = 0.2
"""Over how many seconds shares are averaged: one that is gone has fallen to 1/e of itself then."""

ADVANTAGE = 0.3
"""Another channel replaces a shown one once its average share is larger by this part."""


class SteadyShares:
    """The average shares of the channels of a layer, and which channels were shown last."""

    def __init__(self) -> None:
        self._series: object = None
        self._average: np.ndarray | None = None
        self._shown: list[int] = []
        self._time = 0.0

    def prior(self, series: object, now: float) -> np.ndarray | None:
        """The `prior` of the next picture, see `Engine.begin`; None for a picture by itself.

        Shares are averaged over the pictures of one series.
        """
        if self._average is None or series is None or series != self._series:
            return None
        kept = self._kept(now)
        factor = np.ones_like(self._average)
        factor[self._shown] = 1 + ADVANTAGE
        return np.stack([np.abs(self._average) * np.float32(kept / (1 - kept)), factor])

    def add(self, series: object, found: ConceptResult, now: float) -> np.ndarray:
        """Notes which channels were chosen; returns the average shares with those of a picture."""
        new, before = found.by_channel, self._average
        if before is not None and series == self._series and new.size == before.size:
            kept = np.float32(self._kept(now))
            new = kept * before + (1 - kept) * new
        self._series, self._time, self._average = series, now, new
        self._shown = [one.channel for one in found.maps]
        return new

    def _kept(self, now: float) -> float:
        return min(math.exp(-max(now - self._time, 0.0) / AVERAGED_S), 0.99)
