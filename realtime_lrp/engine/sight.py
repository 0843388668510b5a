"""The part of a picture that the network sees: all, a region, or a followed thing.

Every region is made here. Must not import TensorFlow with the module: an exported explanation
needs none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from realtime_lrp.config import Config
from realtime_lrp.config.schema import Input
from realtime_lrp.config.values import corners
from realtime_lrp.engine.result import Result
from realtime_lrp.errors import UsageError
from realtime_lrp.relevance.maps.targets import OneTarget, Target, class_label, tidied
from realtime_lrp.system.geometry import Box, FloatBox, area, overlap
from realtime_lrp.video.region import Region, box_at, region_of

if TYPE_CHECKING:
    from realtime_lrp.engine.device import Device

MARGIN = 0.3  # how much the network sees beside a thing, as a share of the thing's longer side

SMOOTHED_S = 0.25  # seconds after which a region has gone all but 1/e of the way to its thing
KEPT_S = 1.0  # seconds for which a lost thing is taken to be at its last place
LARGER = 1.5  # another thing is followed once it is this many times as large as the followed one

Find = Callable[[Sequence[np.ndarray] | np.ndarray, float], list[list[FloatBox]]]
"""Finds things in pictures, the largest first; takes their `aspect`, see `region_of`."""


class Sight:
    """Chooses the region of each picture; a thing to follow is found on a device, or the CPU."""

    def __init__(self, chosen: Input, size: tuple[int, int], fit: str, on: Device | None = None):
        # the configured region, as fractions of a picture
        self.fixed = corners(chosen.region) if chosen.region else None
        self._size = size
        self._fit = fit
        self._find: Find | None = None
        if chosen.follow:
            from realtime_lrp.engine.loading import Finder  # needs TensorFlow

            self._find = Finder(chosen.follow, on)
        self._track = Track()

    @property
    def follows(self) -> bool:
        """Whether the region depends on the contents of a picture."""
        return self._find is not None

    def region(
        self, size: tuple[int, int], aspect: float = 1.0, fixed: FloatBox | None = None
    ) -> Region:
        """The region of a picture of (rows, columns), whatever its contents."""
        within = fixed and box_at(fixed, size)
        return region_of(size, self._size, self._fit, aspect, within)

    def regions(
        self, pictures: Sequence[np.ndarray] | np.ndarray, fixed: FloatBox | None = None,
        aspect: float = 1.0, times: Sequence[float] = (), source: object = "",
    ) -> list[Region]:  # fmt: skip
        """The regions of pictures, uint8 [H, W, 3]; those with `times` (s) follow each other."""
        sizes = [picture.shape[:2] for picture in pictures]
        if fixed or not self._find:
            return [self.region(size, aspect, fixed) for size in sizes]
        regions = []
        for n, (found, size) in enumerate(zip(self._find(pictures, aspect), sizes, strict=True)):
            around_it = partial(around, size=size, shape=self._size[1] / self._size[0] / aspect)
            box = around_it(found[0]) if found else None
            if times:
                box = self._track(found, times[n], source, around_it)
            region = region_of(size, self._size, self._fit, aspect, box)
            regions.append(replace(region, found=box is not None))
        return regions


@dataclass(frozen=True)
class Begun:
    """Results that are being computed; calling it waits for them."""

    wait: Callable[[], list[Result]]
    done: Callable[[], bool] = lambda: True  # whether there is nothing to wait for

    def __call__(self) -> list[Result]:
        return self.wait()


class PictureEngine:
    """Members that an engine and an exported explanation have in common."""

    config: Config
    network: Any
    explainer: Any
    sight: Sight
    segments: bool
    begin: Callable[..., Begun]

    @property
    def composite(self) -> str:
        """The composite that LRP uses."""
        return self.config.lrp.composite

    @property
    def name(self) -> str:
        """The name of the map: its composite, or its method where that is not LRP."""
        return self.composite if self.config.lrp.method == "lrp" else self.config.lrp.method

    @property
    def fit(self) -> str:
        """How pictures are fitted to the network's input: "crop", "squash" or "letterbox"."""
        if self.config.input.fit != "auto":
            return self.config.input.fit
        return "letterbox" if self.segments else str(self.network.fit)

    def label(self, index: int) -> str:
        """The name of a class as people read it."""
        return tidied(class_label(index, self.network.labels))

    def region(self, size: tuple[int, int], aspect: float = 1.0) -> Region:
        """The region of a picture of (rows, columns) that the network sees; follows nothing."""
        return self.sight.region(size, aspect, self.sight.fixed)

    def explain(
        self, pictures: Sequence[np.ndarray], targets: Sequence[OneTarget] | None = None
    ) -> list[Result]:
        """Explains pictures, uint8 [H, W, 3] RGB each, as one batch; see `begin`."""
        return self.begin(pictures, targets)()

    def _seen(
        self,
        pictures: Sequence[np.ndarray] | np.ndarray,
        targets: Sequence[OneTarget] | None,
        regions: Sequence[Region] | None,
    ) -> tuple[Sequence[np.ndarray] | np.ndarray, Sequence[Region], list[Target]]:
        """The parts of pictures that the network sees, their regions and their targets."""
        if regions is None:
            regions = self.sight.regions(pictures, self.sight.fixed)
            pictures = [one.extract(p) for one, p in zip(regions, pictures, strict=True)]
        count = len(pictures)
        targets = [self.explainer.target] * count if targets is None else targets
        if len(targets) != count:
            raise UsageError(
                f"Expected one target for each of {count} pictures. Received {len(targets)}."
            )
        return pictures, regions, list(map(self.explainer.read_target, targets))


class Track:
    """The region of a thing over time: it moves smoothly, and always holds the thing."""

    def __init__(self) -> None:
        self._source: object = ""
        self._seen = self._time = -math.inf
        self._box: np.ndarray | None = None  # float64 [4], smoothed

    def __call__(
        self, found: Sequence[FloatBox], now: float, source: object,
        around: Callable[[FloatBox], Box],
    ) -> Box | None:  # fmt: skip
        """The region, None for the whole picture: the thing was not found for `KEPT_S`."""
        if source != self._source or abs(now - self._time) > KEPT_S:
            self._box = None
        self._source, passed, self._time = source, max(now - self._time, 0.0), now
        if found:
            before = tuple(self._box) if self._box is not None else (0.0, 0.0, 0.0, 0.0)
            thing = max(found, key=lambda other: overlap(before, other))
            if not overlap(before, thing) or LARGER * area(thing) <= area(found[0]):
                thing = found[0]  # the largest, in place of the one that was followed
            self._seen = now
            new = np.array(thing)
            if self._box is not None:
                kept = math.exp(-passed / SMOOTHED_S)
                smoothed = kept * self._box + (1 - kept) * new
                box = np.array(around(tuple(smoothed)))
                holds = (box[:2] <= new[:2]).all() and (box[2:] >= new[2:]).all()
                new = smoothed if holds else new
            self._box = new
        elif now - self._seen > KEPT_S:
            self._box = None
        return None if self._box is None else around(tuple(self._box))


def around(thing: FloatBox, size: tuple[int, int], shape: float) -> Box:
    """The box around a thing with its margin; width / height is `shape` if there is room."""
    rows, columns = size
    x0, y0, x1, y1 = thing
    margin = 2 * MARGIN * max(x1 - x0, y1 - y0)
    height = max(y1 - y0 + margin, (x1 - x0 + margin) / shape)
    height = min(height, rows, columns / shape)
    left, right = _within((x0 + x1) / 2, height * shape, columns)
    top, bottom = _within((y0 + y1) / 2, height, rows)
    return left, top, right, bottom


def _within(middle: float, length: float, most: int) -> tuple[int, int]:
    """A span around a middle, moved so that all of it lies between 0 and `most`."""
    whole = min(max(round(length), 1), most)
    start = min(max(round(middle - whole / 2), 0), most - whole)
    return start, start + whole
