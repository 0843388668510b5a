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

ROOM = 4
"""How many times as many are remembered, for when some of them turn out to be the same."""

THUMBNAIL = 8
"""Rows and columns of the grey thumbnail by which nearly equal pictures are recognised."""

ALIKE, ALIKE_PART = 3.0, 0.3
"""Mean difference of grey values, out of 255, and as a part of their standard deviation, below
which two pictures are alike. Frames of a bottle that is moved about differ by 0.11 (median), 900
drawings of symbols by 0.38 or more."""


@dataclass(eq=False)
class Best:
    """The pictures with the largest values of each channel, largest first.

    Pictures that are the same, that is alike or near in time, take one place. Of a slow change
    each picture is the same as the next, and one place would go along with the change. So a place
    also remembers the picture with which it was begun, its anchor, and takes a better picture only
    within half the distance from that. Two places can come to hold the same; `repeats` tells
    which, when a row is chosen.

    Attributes:
      values: float32 [channels, count]; -inf where there is none.
      places: int32 [channels, count, 2].
      positions: int32 [channels, count], where in the layer.
      thumbnails: uint8 [channels, count, THUMBNAIL * THUMBNAIL].
      anchor_places: int32 [channels, count, 2].
      anchor_thumbnails: uint8 [channels, count, THUMBNAIL * THUMBNAIL].
    """

    values: np.ndarray
    places: np.ndarray
    positions: np.ndarray
    thumbnails: np.ndarray
    anchor_places: np.ndarray
    anchor_thumbnails: np.ndarray

    @classmethod
    def empty(cls, channels: int, count: int) -> Best:
        """Of no picture yet; has room for `count` of each channel."""
        return cls(
            np.full((channels, count), -np.inf, np.float32),
            np.zeros((channels, count, 2), np.int32),
            np.zeros((channels, count), np.int32),
            np.zeros((channels, count, THUMBNAIL**2), np.uint8),
            np.zeros((channels, count, 2), np.int32),
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
          apart: frames of one file that are nearer than this are the same.
        """
        better = np.nonzero((values > self.values[:, -1]) & (values > 0))[0]
        if not better.size:
            return
        before, one = self.values[better], (place, thumbnail)
        same = _are_same(self.places[better], self.thumbnails[better], one, apart)
        same &= np.isfinite(before)
        new = ~(same & (before >= values[better, None])).any(1)
        channels, same = better[new], same[new]
        anchors = self.anchor_places[channels], self.anchor_thumbnails[channels]
        same &= _are_same(*anchors, one, apart, 0.5)
        replaced = np.where(same.any(1), same.argmax(1), -1)
        begun = channels[replaced < 0]
        self.anchor_places[begun, -1] = place
        self.anchor_thumbnails[begun, -1] = thumbnail
        self.values[channels, replaced] = values[channels]
        self.positions[channels, replaced] = positions[channels]
        self.places[channels, replaced] = place
        self.thumbnails[channels, replaced] = thumbnail
        order = np.argsort(-self.values[channels], axis=1, kind="stable")
        for array in vars(self).values():
            shape = *order.shape, *[1] * (array.ndim - 2)
            array[channels] = np.take_along_axis(array[channels], order.reshape(shape), 1)

    def repeats(self, channel: int, rank: int, shown: list[int], apart: int = 0) -> bool:
        """Whether a picture of a channel is the same as one of those with other ranks.

        Args:
          channel: its number.
          rank: of the picture, 0 is the best.
          shown: the other ranks.
          apart: as in `add`.
        """
        if not shown:
            return False
        file, frame = self.places[channel, rank].tolist()
        one = (file, frame), self.thumbnails[channel, rank]
        others = self.places[channel, shown], self.thumbnails[channel, shown]
        return bool(_are_same(*others, one, apart).any())


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


def _are_same(
    places: np.ndarray,
    thumbnails: np.ndarray,
    one: tuple[Place, np.ndarray],
    apart: int,
    part: float = 1.0,
) -> np.ndarray:
    """Which of some pictures are alike to another one, or near it: bool [...].

    Args:
      places: int32 [..., 2].
      thumbnails: uint8 [..., THUMBNAIL * THUMBNAIL].
      one: place and thumbnail of the other picture.
      apart: as in `Best.add`.
      part: of the usual distances, in time and between thumbnails.
    """
    place, thumbnail = one
    away = places - np.array(place)
    near = (away[..., 0] == 0) & (np.abs(away[..., 1]) < part * apart)
    return near | are_alike(thumbnails, thumbnail, part)


def thumbnail_of(picture: np.ndarray) -> np.ndarray:
    """The thumbnail of a picture uint8 [h, w, 3]: uint8 [THUMBNAIL * THUMBNAIL], grey."""
    grey = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
    return cv2.resize(grey, (THUMBNAIL, THUMBNAIL), interpolation=cv2.INTER_AREA).reshape(-1)


def are_alike(thumbnails: np.ndarray, thumbnail: np.ndarray, part: float = 1.0) -> np.ndarray:
    """Which of some thumbnails, uint8 [..., THUMBNAIL * THUMBNAIL], are nearly equal to another.

    `part` is how much of the usual difference they may have.
    """
    differences = np.abs(thumbnails.astype(np.int16) - thumbnail).mean(-1)
    limit = max(ALIKE, ALIKE_PART * float(thumbnail.std()))
    return np.asarray(differences < part * limit)
