"""Detects whether somebody stands before the camera, by comparing with the empty room."""

import numpy as np

from realtime_lrp.video.libraries import cv2

SIZE = (96, 72)  # (columns, rows) of the small pictures that are compared
PERIOD_S = 0.2  # time between two pictures that are compared

LEARNING = 0.002
BACKGROUND = 0.7
"""Weight of a new picture in the model of the room, and the share of that model that is background:
what stands still becomes part of the room after about 40 seconds."""

FIRST = 10  # the first pictures, which are taken to show the empty room
SHARE = 0.02  # share of the picture that has to differ, in two successive comparisons
MIDDLE = 110.0  # median that all pictures are scaled to, so that clouds and lamps do not count
DEVIATIONS = 25.0  # squared standard deviations from the empty room at which a pixel differs


class Presence:
    """Compares pictures with the empty room now and then.

    The room is a mixture of Gaussians for each pixel (Zivkovic 2004, "Improved adaptive Gaussian
    mixture model for background subtraction"): noise, flicker and daylight do not count.
    """

    def __init__(self) -> None:
        self._seen_at = -np.inf
        self.forget()

    def forget(self) -> None:
        """Starts again with learning the empty room."""
        self._room = cv2.createBackgroundSubtractorMOG2(
            history=500, varThreshold=DEVIATIONS, detectShadows=False
        )
        self._room.setBackgroundRatio(BACKGROUND)
        self._looks = 0
        self._differing = 0
        self.present = False

    def look(self, picture: np.ndarray, now: float) -> bool:
        """Whether somebody is there, in a picture uint8 [H, W, 3] RGB at a time in seconds."""
        if now - self._seen_at < PERIOD_S:
            return self.present
        self._seen_at = now
        small = cv2.resize(picture, SIZE, interpolation=cv2.INTER_AREA)
        small = cv2.GaussianBlur(small, (3, 3), 0)
        small = cv2.convertScaleAbs(small, alpha=MIDDLE / max(1.0, np.median(small)))
        self._looks += 1
        learning = 1 / self._looks if self._looks <= FIRST else LEARNING
        differs = self._room.apply(small, learningRate=learning)
        counts = self._looks > FIRST and np.count_nonzero(differs) > SHARE * differs.size
        self._differing = self._differing + 1 if counts else 0
        self.present = self._differing >= 2
        return self.present
