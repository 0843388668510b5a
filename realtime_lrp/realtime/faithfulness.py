"""How the score changes when parts of the picture are removed: patches that the user paints.

The probe removes the most relevant patches, and random ones (region perturbation: Samek et al.
2017, "Evaluating the visualization of what a deep neural network has learned").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cv2
import numpy as np

from realtime_lrp.engine.boxes import part_of
from realtime_lrp.engine.result import FoundBox

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine
    from realtime_lrp.engine.result import Result

COVER = 128  # the grey of a painted patch
GRID = 14  # patches along a side of what the network sees
SHARE = 0.1  # the share of the patches that are flipped
DRAWS = 3  # how many random choices of patches are tried on each picture
KEPT = 30  # pictures during which random patches stay, so that people can see them
BLUR = 0.12  # a flipped patch is blurred: the standard deviation, as a share of the longer side
NEW_SHARE = 0.2  # the weight of each new picture in the means


@dataclass(frozen=True, eq=False)
class ProbeResult:
    """Probabilities of one class, means over the latest pictures."""

    class_: int
    whole: float  # with all patches
    relevant: float  # without the most relevant patches
    at_random: float  # without as many random patches
    # patches of the newest picture, bool [rows, columns] over the network's input
    relevant_patches: np.ndarray
    random_patches: np.ndarray  # the first choice


@dataclass(frozen=True, eq=False)
class Mask:
    """The covered part of pictures; equal to itself alone."""

    pixels: np.ndarray  # bool [H, W]


def covered(picture: np.ndarray, mask: Mask | None) -> np.ndarray:
    """A picture, or a copy of it, grey where a mask of its size is set: uint8 [H, W, 3]."""
    if mask is None or mask.pixels.shape != picture.shape[:2]:
        return picture
    changed = picture.copy()
    changed[mask.pixels] = COVER
    return changed


class Probe:
    """The faithfulness probe, with means over the latest pictures."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)
        self._means: np.ndarray | None = None
        self._pictures = 0
        self._series: tuple[object, ...] = ()

    def of_map(
        self,
        engine: Engine,
        picture: np.ndarray,
        result: Result,
        mask: Mask | None,
        still: bool,
        alone: int | None = None,
    ) -> ProbeResult | None:
        """Probes the first map of a picture, uint8 [H, W, 3] RGB with the patches of the mask.

        Only the positive part of the map counts. The means start anew where engine, class or
        patches change; a still picture has its own. Of a detector it is the map of the box that is
        shown alone, else of the one that was found first; None where nothing is found.
        """
        if result.found == ():
            return None
        class_ = (*result.target.classes, int(np.argmax(result.scores)))[0]
        shown = part_of(result, alone)
        number = None
        place = None
        whole = result.scores[class_]
        if shown.found:
            shown = min(shown.found, key=lambda one: one.number)
        if isinstance(shown, FoundBox):
            number = shown.number
            place = shown.place
            class_ = shown.label
            whole = shown.score
        series = engine, class_, mask, number  # each stroke makes a new mask
        if still or series != self._series:
            self._means = None
        self._series = series
        strength = shown.maps[0].strength.astype(np.float32)
        strength = strength if strength.ndim == 2 else strength.sum(-1)
        extracted = result.region.extract(picture)
        size = extracted.shape[:2]
        grid = (min(GRID, size[0]), min(GRID, size[1]))
        count = max(1, round(SHARE * grid[0] * grid[1]))
        weight = cv2.resize(np.maximum(strength, 0), grid[::-1], interpolation=cv2.INTER_AREA)
        strongest = np.argsort(-weight.ravel(), kind="stable")[:count]
        generators = np.random.default_rng(self._pictures // KEPT), *[self._rng] * (DRAWS - 1)
        self._pictures += 1
        choices = [strongest, *(rng.permutation(weight.size)[:count] for rng in generators)]
        chosen = [np.isin(np.arange(weight.size), choice).reshape(grid) for choice in choices]
        blurred = cv2.GaussianBlur(extracted, (0, 0), BLUR * max(size))
        pictures = []
        for patches in chosen:
            flipped = patches.astype(np.uint8)
            flipped = cv2.resize(flipped, size[::-1], interpolation=cv2.INTER_NEAREST)
            pictures.append(np.where(flipped[..., None] > 0, blurred, extracted))
        probabilities = engine.scores(np.stack(pictures), place)[:, class_]
        new = np.array([whole, probabilities[0], probabilities[1:].mean()])
        old = new if self._means is None else self._means
        self._means = old + NEW_SHARE * (new - old)
        whole, relevant, at_random = map(float, self._means)
        return ProbeResult(class_, whole, relevant, at_random, chosen[0], chosen[1])
