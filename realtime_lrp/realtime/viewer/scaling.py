"""Scales the maps of an explained frame for drawing, and averages them over the last ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from realtime_lrp.realtime.explaining import ExplainedFrame
from realtime_lrp.realtime.viewer.concept_view import followed_caption, followed_title
from realtime_lrp.system.geometry import Box
from realtime_lrp.view.look import Look
from realtime_lrp.view.overlay import SMOOTHING, Scale, intensity
from realtime_lrp.view.scene import ExplainedPicture, Panel

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine


class MapScaler:
    """Scales the maps of one explained frame after the other.

    Scale and average follow the last maps of the same engine, target, file (or camera) and followed
    channel; a change starts anew. Of pairs of a picture and its map each is scaled by itself.
    """

    def __init__(self) -> None:
        self._series: tuple[Engine, str | int, str, str, bool, float] | None = None
        self._smoother = MapSmoother()
        self._last: tuple[ExplainedFrame, ExplainedPicture] | None = None

    def __call__(self, explained: ExplainedFrame | None, look: Look) -> ExplainedPicture | None:
        """The maps to draw; the same object as long as the same frame is given."""
        if explained is None:
            self._series = self._last = None  # so that the engine can be freed
            return None
        title = followed_title(explained)
        series = (
            explained.engine, explained.request.target, explained.frame.source, title, look.paired,
            look.average,
        )  # fmt: skip
        if series != self._series:
            self._series, self._last = series, None
            self._smoother = MapSmoother(0.0, 0.0) if look.paired else MapSmoother(look.average)
        if self._last is None or self._last[0] is not explained:
            self._last = explained, self._scaled(explained)
        return self._last[1]

    def _scaled(self, explained: ExplainedFrame) -> ExplainedPicture:
        result, signs = explained.result, explained.engine.explainer.signs
        maps = [
            (one.strength, one.scale, one.scale * shortfall)
            for one, shortfall in zip(result.maps, explained.shortfalls, strict=True)
        ]
        names, wanted = explained.names, explained.request.concepts
        found = result.concepts
        if wanted and found and (one := found.of(wanted.channel)):
            least = found.scale if found.lacks(one) else one.scale  # noise is not drawn as a map
            maps[0] = one.strength, one.scale, least
            names = followed_caption(explained), *names[1:]
        intensities = self._smoother(maps, result.region.inner)
        panels = tuple(map(Panel, names, intensities, signs))
        return ExplainedPicture(explained.picture, result.region.box, panels)


class MapSmoother:
    """Turns the strengths of one map after the other into drawn intensities.

    `average` of the previous intensities stays with each map, `smoothing` of the previous scale.
    """

    def __init__(self, average: float = 0.0, smoothing: float = SMOOTHING):
        self._average, self._smoothing = average, smoothing
        self._scales: list[Scale] = []
        self._previous: list[np.ndarray] = []

    def __call__(
        self, maps: Sequence[tuple[np.ndarray, float, float]], inner: Box
    ) -> list[np.ndarray]:
        """The intensities of the next maps, float32 [h, w] or [h, w, 3] in [-1, 1]."""
        self._scales = self._scales or [Scale(self._smoothing) for _ in maps]
        new = [
            intensity(strength, inner, scale / smoothed(max(scale, least)))
            for (strength, scale, least), smoothed in zip(maps, self._scales, strict=True)
        ]
        if self._average and self._previous and self._previous[0].shape == new[0].shape:
            kept = self._average
            new = [
                kept * old + (1 - kept) * now for old, now in zip(self._previous, new, strict=True)
            ]
        self._previous = new
        return new
