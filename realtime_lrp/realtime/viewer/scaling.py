"""From the raw maps of explained frames to what is drawn."""

from __future__ import annotations

import numpy as np

from realtime_lrp.realtime.explaining import ExplainedFrame
from realtime_lrp.realtime.viewer.concept_view import followed_caption, followed_map
from realtime_lrp.view.look import Look
from realtime_lrp.view.overlay import SMOOTHING, Scale, intensity
from realtime_lrp.view.scene import ExplainedPicture, Panel


class MapScaler:
    """Scales the maps of one explained frame after the other, and averages them.

    Scale and average follow the last maps of the same engine, target, file (or camera) and followed
    channel; a change starts anew. Of pairs of a picture and its map each is scaled by itself.
    """

    def __init__(self) -> None:
        self._series: tuple[object, ...] | None = None
        self._scales: list[Scale] = []
        self._previous: list[np.ndarray] = []
        self._last: tuple[ExplainedFrame, ExplainedPicture] | None = None

    def __call__(self, explained: ExplainedFrame | None, look: Look) -> ExplainedPicture | None:
        """The maps to draw; the same object as long as the same frame is given."""
        if explained is None:
            self._series = self._last = None  # so that the engine can be freed
            return None
        one = followed_map(explained)
        series = (
            explained.engine, explained.request.target, explained.frame.source,
            one and (explained.request.concepts, one.channel), look.paired, look.average,
        )  # fmt: skip
        if series != self._series:
            self._series, self._last, self._previous = series, None, []
            smoothing = 0.0 if look.paired else SMOOTHING
            self._scales = [Scale(smoothing) for _ in explained.result.maps]
        if self._last is None or self._last[0] is not explained:
            average = 0.0 if look.paired else look.average
            self._last = explained, self._scaled(explained, average)
        return self._last[1]

    def _scaled(self, explained: ExplainedFrame, average: float) -> ExplainedPicture:
        result, names = explained.result, explained.names
        maps = [(one.strength, one.scale, one.scale * one.shortfall) for one in result.maps]
        one, found = followed_map(explained), result.concepts
        if one and found:
            least = found.scale if found.lacks(one) else one.scale  # noise is not drawn as a map
            maps[0] = one.strength, one.scale, least
            names = followed_caption(explained), *names[1:]
        new = [
            intensity(strength, result.region.inner, scale / smoothed(max(scale, least)))
            for (strength, scale, least), smoothed in zip(maps, self._scales, strict=True)
        ]
        if average and self._previous and self._previous[0].shape == new[0].shape:
            pairs = zip(self._previous, new, strict=True)
            new = [average * old + (1 - average) * now for old, now in pairs]
        self._previous = new
        panels = tuple(map(Panel, names, new, (one.signed for one in result.maps)))
        return ExplainedPicture(explained.picture, result.region.box, panels)
