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

THUMBNAIL = 8
"""Rows and columns of the grey thumbnail by which nearly equal pictures are recognised."""

ALIKE = 3.0
"""Mean difference of grey values, out of 255, below which two pictures count as equal. Of frames of
a still scene, and of copies, only the best is kept."""


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
        self, values: np.ndarray, positions: np.ndarray, place: Place, thumbnail: np.ndarray
    ) -> None:
        """Takes a picture into account; only values above 0 count.

        Args:
          values: float32 [channels].
          positions: int32 [channels].
          place: of the picture.
          thumbnail: uint8 [THUMBNAIL * THUMBNAIL].
        """
        better = np.nonzero((values > self.values[:, -1]) & (values > 0))[0]
        if not better.size:
            return
        before = self.values[better]
        differences = np.abs(self.thumbnails[better].astype(np.int16) - thumbnail).mean(2)
        alike = (differences < ALIKE) & np.isfinite(before)
        beaten = alike & (before >= values[better, None])
        channels, alike = better[~beaten.any(1)], alike[~beaten.any(1)]
        replaced = np.where(alike.any(1), alike.argmax(1), -1)
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
      relevant: pictures with the largest shares, see `shares_of`.
      activating: pictures with the largest activation anywhere.
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
        return cls(
            Best.empty(channels, RELEVANT), Best.empty(channels, ACTIVATING), often, by_class
        )

    def add(
        self, peaks: Peaks, scores: np.ndarray, places: list[Place], thumbnails: np.ndarray
    ) -> None:
        """Takes a batch of pictures into account.

        Args:
          peaks: of these pictures.
          scores: float32 [B, classes].
          places: of each.
          thumbnails: uint8 [B, THUMBNAIL * THUMBNAIL].
        """
        shares = shares_of(peaks.shares)
        count = min(OFTEN, shares.shape[1])
        for number, place in enumerate(places):
            share, thumbnail = shares[number], thumbnails[number]
            self.relevant.add(share, peaks.positions[number], place, thumbnail)
            self.activating.add(
                peaks.activations[number], peaks.active_positions[number], place, thumbnail
            )
            self.often[np.argsort(-np.abs(share), kind="stable")[:count]] += 1
            self.by_class[scores[number].argmax()] += np.maximum(share, 0)


def thumbnail_of(picture: np.ndarray) -> np.ndarray:
    """The thumbnail of a picture uint8 [h, w, 3]: uint8 [THUMBNAIL * THUMBNAIL], grey."""
    grey = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
    return cv2.resize(grey, (THUMBNAIL, THUMBNAIL), interpolation=cv2.INTER_AREA).reshape(-1)
