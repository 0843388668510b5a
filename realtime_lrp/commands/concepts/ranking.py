"""The best pictures of each channel, while pictures go by: a few for each, however many come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np

from realtime_lrp.commands.concepts.pictures import Place
from realtime_lrp.engine.concept_result import shares_of

if TYPE_CHECKING:
    from realtime_lrp.relevance.references import Peaks

RELEVANT, ACTIVATING = 6, 3
"""How many pictures are kept for each channel: with most relevance, and with most activation."""

OFTEN = 4
"""A channel counts as often relevant where it is among so many with the largest shares."""

ROOM = 2
"""How many times as many are remembered, for when crops of them are alike."""

THUMBNAIL = 8
"""Rows and columns of the grey thumbnail by which nearly equal pictures are recognised."""

ALIKE, ALIKE_PART = 3.0, 0.3
"""Mean difference of grey values, out of 255, and as a part of their standard deviation, below
which two pictures are alike. Frames of a bottle that is moved about differ by 0.11 (median), 900
drawings of symbols by 0.38 or more."""


@dataclass(eq=False)
class Best:
    """The pictures with the largest values of each channel, largest first.

    Attributes:
      values: float32 [channels, count]; -inf where there is none.
      places: int32 [channels, count, 2].
      positions: int32 [channels, count], where in the layer.
      thumbnails: uint8 [channels, count, THUMBNAIL * THUMBNAIL].
    """

    values: np.ndarray
    places: np.ndarray
    positions: np.ndarray
    thumbnails: np.ndarray

    @classmethod
    def empty(cls, channels: int, count: int) -> Best:
        """Of no picture yet; has room for `count` of each channel."""
        return cls(
            np.full((channels, count), -np.inf, np.float32),
            np.zeros((channels, count, 2), np.int32),
            np.zeros((channels, count), np.int32),
            np.zeros((channels, count, THUMBNAIL**2), np.uint8),
        )

    def add(
        self,
        values: np.ndarray,
        positions: np.ndarray,
        place: Place,
        thumbnail: np.ndarray,
        apart: int = 0,
    ) -> None:
        """Takes a picture into account; only values above 0 count.

        Args:
          values: float32 [channels].
          positions: int32 [channels].
          place: of the picture.
          thumbnail: uint8 [THUMBNAIL * THUMBNAIL].
          apart: of frames of one file that are nearer than this, only the best is kept.
        """
        better = np.nonzero((values > self.values[:, -1]) & (values > 0))[0]
        if not better.size:
            return
        before = self.values[better]
        file, frame = place
        near = self.places[better] - (file, frame)
        same = (near[..., 0] == 0) & (np.abs(near[..., 1]) < apart)
        same |= are_alike(self.thumbnails[better], thumbnail)
        same &= np.isfinite(before)
        beaten = (same & (before >= values[better, None])).any(1)
        channels, same = better[~beaten], same[~beaten]
        self.values[channels] = np.where(same, -np.inf, self.values[channels])
        replaced = self.values[channels].argmin(1)
        self.values[channels, replaced] = values[channels]
        self.positions[channels, replaced] = positions[channels]
        self.places[channels, replaced] = place
        self.thumbnails[channels, replaced] = thumbnail
        order = np.argsort(-self.values[channels], axis=1, kind="stable")
        for array in (self.values, self.places, self.positions, self.thumbnails):
            shape = *order.shape, *[1] * (array.ndim - 2)
            array[channels] = np.take_along_axis(array[channels], order.reshape(shape), 1)


@dataclass(eq=False)
class Ranking:
    """What is known of the channels of a layer.

    Attributes:
      relevant: pictures with the largest shares (`shares_of`), `ROOM` times as many as are shown.
      activating: pictures with the largest activation anywhere, the same.
      often: int64 [channels], in how many pictures a channel was among the `OFTEN` largest.
      by_class: float64 [classes, channels], positive shares summed over the pictures of a class.
    """

    relevant: Best
    activating: Best
    often: np.ndarray
    by_class: np.ndarray

    @classmethod
    def empty(cls, channels: int, classes: int) -> Ranking:
        """Of no picture yet."""
        often, by_class = np.zeros(channels, np.int64), np.zeros((classes, channels))
        relevant, activating = (
            Best.empty(channels, ROOM * count) for count in (RELEVANT, ACTIVATING)
        )
        return cls(relevant, activating, often, by_class)

    def add(
        self,
        peaks: Peaks,
        scores: np.ndarray,
        places: list[Place],
        thumbnails: np.ndarray,
        apart: int = 0,
    ) -> None:
        """Takes a batch of pictures into account.

        Args:
          peaks: of these pictures.
          scores: float32 [B, classes].
          places: of each.
          thumbnails: uint8 [B, THUMBNAIL * THUMBNAIL].
          apart: as in `Best.add`.
        """
        shares = shares_of(peaks.shares)
        count = min(OFTEN, shares.shape[1])
        for number, place in enumerate(places):
            share, thumbnail = shares[number], thumbnails[number]
            active, active_at = peaks.activations[number], peaks.active_positions[number]
            self.relevant.add(share, peaks.positions[number], place, thumbnail, apart)
            self.activating.add(active, active_at, place, thumbnail, apart)
            self.often[np.argsort(-np.abs(share), kind="stable")[:count]] += 1
            self.by_class[scores[number].argmax()] += np.maximum(share, 0)


def thumbnail_of(picture: np.ndarray) -> np.ndarray:
    """The thumbnail of a picture uint8 [h, w, 3]: uint8 [THUMBNAIL * THUMBNAIL], grey."""
    grey = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
    return cv2.resize(grey, (THUMBNAIL, THUMBNAIL), interpolation=cv2.INTER_AREA).reshape(-1)


def are_alike(thumbnails: np.ndarray, thumbnail: np.ndarray) -> np.ndarray:
    """Which of some thumbnails, uint8 [..., THUMBNAIL * THUMBNAIL], are nearly equal to another."""
    differences = np.abs(thumbnails.astype(np.int16) - thumbnail).mean(-1)
    limit = max(ALIKE, ALIKE_PART * float(thumbnail.std()))
    return np.asarray(differences < limit)
