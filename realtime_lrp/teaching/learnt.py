"""How much relevance lies on the thing that was shown, not around it: what a network learnt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from realtime_lrp.engine.engine import Engine
from realtime_lrp.teaching.lesson import NOTHING

SMOOTHING = 2.0  # deviation in pixels with which pictures are smoothed before they are compared
DIFFERS = 25  # grey levels by which a colour of a smoothed pixel differs from the empty scene
EXPLAINED, FEWEST_EXPLAINED = 12, 3  # pictures of each class: at most, and to tell anything
SMALL, LARGE = 0.005, 0.8  # shares of the area that are no thing: noise; another light or camera
IN_EVERY_CLASS = 0.5  # share of its pictures; a pixel that differs in more is background: a hand

SENTENCES = {
    "thing": "it looks at what was shown",
    "both": "it looks at what was shown and at the background",
    "background": "it looks at the background: show the same thing at other places",
    "unclear": "what it looks at is not clear yet; show it and the empty scene for longer",
}

ByClass = Mapping[str, Sequence[np.ndarray]]  # name of a class -> its pictures or maps


@dataclass(frozen=True)
class Focus:
    """The thing's shares, 0 to 1, of the mean relevance and of the picture's area."""

    relevance: float
    area: float
    doubt: float = 0.0  # twice the standard error of the relevance

    @property
    def verdict(self) -> str:
        """A key of `SENTENCES`: the same for all shares of relevance within the doubt."""
        ends = {self._verdict(self.relevance + one) for one in (-self.doubt, self.doubt)}
        return ends.pop() if len(ends) == 1 else "unclear"

    def _verdict(self, relevance: float) -> str:
        """Most relevance is on the thing, more than by chance, or neither."""
        if not SMALL <= self.area <= LARGE or self.area >= relevance >= 0.5:
            return "unclear"
        if relevance >= 0.5:
            return "thing"
        return "both" if relevance >= 1.5 * self.area else "background"


def differs(picture: np.ndarray, scene: np.ndarray) -> np.ndarray:
    """Pixels [h, w] at which a picture differs from the empty scene, both uint8 [h, w, 3]."""
    both = (cv2.GaussianBlur(one.astype(np.float32), (0, 0), SMOOTHING) for one in (picture, scene))
    return np.abs(np.subtract(*both)).max(2) > DIFFERS


def what_it_learnt(engine: Engine, aside: ByClass) -> dict[str, Focus]:
    """The looks at pictures kept aside, uint8 [h, w, 3] each; {} without the empty scene."""
    if NOTHING not in aside:
        return {}
    shown = {name: pictures[-EXPLAINED:] for name, pictures in aside.items() if name != NOTHING}
    maps = {}
    for name, some in shown.items():
        number = (engine.network.labels or []).index(name)
        found = engine.explain(some, [number] * len(some))
        maps[name] = [one.maps[0].relevance for one in found]
    empty = np.median(np.stack(aside[NOTHING][-EXPLAINED:]), axis=0).astype(np.uint8)
    return looks(empty, shown, maps)


def looks(scene: np.ndarray, pictures: ByClass, maps: ByClass) -> dict[str, Focus]:
    """The looks at the pictures of each class, with their maps, float32 [h, w, C]."""
    masks = {
        name: np.stack([differs(one, scene) for one in some]) for name, some in pictures.items()
    }
    if len(masks) > 1:
        always = np.min([mask.mean(0) for mask in masks.values()], axis=0) >= IN_EVERY_CLASS
        masks = {name: mask & ~always for name, mask in masks.items()}
    found = {}
    for name, mask in masks.items():
        positive = np.maximum(np.stack([one.sum(2) for one in maps[name]]), 0)
        whole = positive.sum((1, 2))
        shares = (positive * mask).sum((1, 2)) / np.where(whole > 0, whole, 1)
        few = len(shares) < FEWEST_EXPLAINED
        doubt = 1.0 if few else 2 * float(shares.std(ddof=1)) / len(shares) ** 0.5
        found[name] = Focus(float(shares.mean()), float(mask.mean()), doubt)
    return found
