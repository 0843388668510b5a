"""What a network learnt: how much relevance lies on the thing that was shown, not around it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from realtime_lrp.engine.engine import Engine
from realtime_lrp.models.teaching import NOTHING

SMOOTHING = 2.0  # deviation in pixels with which pictures are smoothed before they are compared
DIFFERS = 25  # of 255, by which some colour of a smoothed pixel differs from the empty scene
EXPLAINED = 12  # pictures of each class, at most
IN_EVERY_CLASS = 0.5
"""What differs in at least this part of the pictures of every class is background: face, hand."""

SENTENCES = {
    "thing": "it looks at what was shown",
    "both": "it looks at what was shown and at the background",
    "background": "it looks at the background: show the same thing at other places",
}


@dataclass(frozen=True)
class Focus:
    """Where a network looks: shares, 0 to 1, of relevance and of the picture's area."""

    relevance: float
    area: float

    @property
    def verdict(self) -> str:
        """A key of `SENTENCES`: most relevance on the thing, more than by chance, or neither."""
        if self.relevance >= 0.5 and self.relevance > self.area:
            return "thing"
        return "both" if self.relevance >= 1.5 * self.area > 0 else "background"


def differs(picture: np.ndarray, scene: np.ndarray) -> np.ndarray:
    """Where a picture shows something else than the empty scene, both uint8 [h, w, 3]: [h, w]."""
    smooth, empty = (
        cv2.GaussianBlur(one.astype(np.float32), (0, 0), SMOOTHING) for one in (picture, scene)
    )
    return np.abs(smooth - empty).max(2) > DIFFERS


def what_it_learnt(engine: Engine, aside: Mapping[str, Sequence[np.ndarray]]) -> dict[str, Focus]:
    """Where a network looks in pictures kept aside; {} without the empty scene among them.

    The pictures, by class, are uint8 [rows, columns, 3] of the network's input.
    """
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


def looks(
    scene: np.ndarray,
    pictures: Mapping[str, Sequence[np.ndarray]],
    maps: Mapping[str, Sequence[np.ndarray]],
) -> dict[str, Focus]:
    """Where the network looks in the pictures of each class, with their maps, float32 [h, w, C]."""
    masks = {
        name: np.stack([differs(one, scene) for one in some]) for name, some in pictures.items()
    }
    if len(masks) > 1:
        always = np.min([mask.mean(0) for mask in masks.values()], axis=0) >= IN_EVERY_CLASS
        masks = {name: mask & ~always for name, mask in masks.items()}
    found = {}
    for name, mask in masks.items():
        positive = np.maximum(np.stack([one.sum(2) for one in maps[name]]), 0)
        whole = float(positive.sum())
        share = float(positive[mask].sum()) / whole if whole else 0.0
        found[name] = Focus(share, float(mask.mean()))
    return found
