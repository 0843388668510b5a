"""The best pictures of each channel, while pictures go by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np

from realtime_lrp.engine.result import shares_of

if TYPE_CHECKING:
    from realtime_lrp.relevance.concepts.concepts import Peaks

KEPT = 256  # pictures that are remembered for each channel; of equal ones a row shows one
OFTEN = 4  # a channel is often relevant where it is among the four with the largest shares

THUMBNAIL = 8
"""Rows and columns of the grey thumbnail by which nearly equal pictures are recognised."""

ALIKE, ALIKE_PART = 3.0, 0.3
"""Mean difference of grey values, out of 255, and as a part of their standard deviation, below
which two pictures are alike. Frames of a bottle that is moved about differ by 0.11 (median), 900
drawings of symbols by 0.38 or more."""


class Best:
    """The pictures with the largest values of each channel, largest first after `keep`.

    Attributes:
      values: float32 [channels, n].
      pictures: int32 [channels, n], their numbers.
      positions: int32 [channels, n], where in the layer.
    """

    def __init__(self, channels: int):
        self.values: np.ndarray = np.zeros((channels, 0), np.float32)
        self.pictures: np.ndarray = np.zeros((channels, 0), np.int32)
        self.positions: np.ndarray = np.zeros((channels, 0), np.int32)

    def add(self, first: int, values: np.ndarray, positions: np.ndarray) -> None:
        """Takes pictures into account, from the `first` number on; arrays are [B, channels]."""
        numbers = np.arange(first, first + len(values), dtype=np.int32)[:, None]
        numbers = np.broadcast_to(numbers, values.shape)
        self.values = np.concatenate([self.values, values.T], axis=1)
        self.pictures = np.concatenate([self.pictures, numbers.T], axis=1)
        self.positions = np.concatenate([self.positions, positions.T], axis=1)
        if self.values.shape[1] > 2 * KEPT:
            self.keep()

    def keep(self) -> None:
        """Sorts, and forgets all but the best of each channel."""
        order = np.argsort(-self.values, axis=1, kind="stable")[:, :KEPT]
        self.values, self.pictures, self.positions = (
            np.take_along_axis(array, order, axis=1)
            for array in (self.values, self.pictures, self.positions)
        )


@dataclass(eq=False)
class Ranking:
    """What is known of the channels of a layer.

    Attributes:
      relevant: pictures with the largest shares (`shares_of`).
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
        return cls(Best(channels), Best(channels), often, by_class)

    def add(self, first: int, peaks: Peaks, scores: np.ndarray) -> None:
        """Takes pictures into account, from the `first` number on; scores float32 [B, classes]."""
        shares = shares_of(peaks.shares)
        self.relevant.add(first, shares, peaks.positions)
        self.activating.add(first, peaks.activations, peaks.active_positions)
        largest = np.argsort(-np.abs(shares), axis=1, kind="stable")[:, :OFTEN]
        self.often += np.bincount(largest.ravel(), minlength=shares.shape[1])
        np.add.at(self.by_class, scores.argmax(1), np.maximum(shares, 0))


def thumbnail_of(picture: np.ndarray) -> np.ndarray:
    """The thumbnail of a picture uint8 [h, w, 3]: uint8 [THUMBNAIL * THUMBNAIL], grey."""
    grey = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
    return cv2.resize(grey, (THUMBNAIL, THUMBNAIL), interpolation=cv2.INTER_AREA).reshape(-1)


def are_alike(thumbnails: np.ndarray, thumbnail: np.ndarray) -> np.ndarray:
    """Which of some thumbnails, uint8 [N, THUMBNAIL * THUMBNAIL], are nearly equal to another."""
    differences = np.abs(thumbnails.astype(np.int16) - thumbnail).mean(-1)
    limit = max(ALIKE, ALIKE_PART * float(thumbnail.std()))
    return np.asarray(differences < limit)
