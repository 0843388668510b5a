"""A detector's boxes as they are drawn, and how a box is known again in the next picture.

Must not import TensorFlow: the live view opens its window before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from realtime_lrp.engine.result import FoundBox, Result
from realtime_lrp.system.geometry import FloatBox
from realtime_lrp.view.boxes import COLOURS, PALE, Outline, tinted
from realtime_lrp.view.look import Look

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine

SAME = 0.3
"""Least intersection over union of a box with the same box in an earlier picture."""

KEPT = 15  # a box that is not found in so many pictures is forgotten


class BoxNumbers:
    """Gives a box the number that it had before, by its overlap with earlier boxes.

    One that was lost for some pictures has to be of the same class. A new box gets a number that no
    other had, and a colour that no other has, if one is left.
    """

    def __init__(self) -> None:
        self._series: object = None
        # number -> the box, and in how many pictures since it was not found
        self._known: dict[int, tuple[FoundBox, int]] = {}
        self._next = 0

    def __call__(self, result: Result, series: object = None) -> Result:
        """The result with the numbers; those of another series are all new."""
        if result.found is None:
            return result
        if series != self._series:
            self._series, self._known = series, {}
        pairs = sorted(
            ((overlap(known.box, one.box), number, place)
             for number, (known, unseen) in self._known.items()
             for place, one in enumerate(result.found)
             if not unseen or known.label == one.label),
            reverse=True,
        )  # fmt: skip
        numbers: dict[int, int] = {}  # place among the found boxes -> number
        for shared, number, place in pairs:
            if shared >= SAME and place not in numbers and number not in numbers.values():
                numbers[place] = number
        self._known = {n: (one, k + 1) for n, (one, k) in self._known.items() if k < KEPT}
        seen = [(one._replace(maps=()), 0) for one in result.found]  # maps take memory
        self._known |= {number: seen[place] for place, number in numbers.items()}
        for place in {*range(len(seen))} - {*numbers}:
            numbers[place] = self._new()
            self._known[numbers[place]] = seen[place]
        found = (one._replace(number=numbers[place]) for place, one in enumerate(result.found))
        return replace(result, found=tuple(found))

    def _new(self) -> int:
        """A new number: of a free colour, else of the one that was not seen for longest."""
        unseen: dict[int, int] = {}  # colour -> for how many pictures none of its boxes was found
        for number, (_, pictures) in self._known.items():
            colour = number % len(COLOURS)
            unseen[colour] = min(pictures, unseen.get(colour, pictures))
        candidates = range(self._next, self._next + len(COLOURS))
        number = max(candidates, key=lambda n: unseen.get(n % len(COLOURS), KEPT + 1))
        self._next = number + 1
        return number


def overlap(one: FloatBox, other: FloatBox) -> float:
    """Intersection over union of two boxes, from 0 to 1."""
    low, high = np.maximum(one[:2], other[:2]), np.minimum(one[2:], other[2:])
    shared = float(np.prod(np.maximum(high - low, 0)))
    areas = ((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
    return shared / whole if (whole := sum(areas) - shared) > 0 else 0.0


def box_numbered(result: Result, number: int | None) -> FoundBox | None:
    """The box with a number, or None."""
    return next((one for one in result.found or () if one.number == number), None)


def outlines_of(engine: Engine, result: Result, alone: int | None = None) -> tuple[Outline, ...]:
    """What is drawn of the boxes: "star 93 %", "71 % inside"; of others than the one alone less."""
    single, contrast = box_numbered(result, alone), " - " in str(result.target)
    return tuple(
        Outline(
            one.box, f"{engine.label(one.label).replace('_', ' ')} {100 * one.score:.0f} %",
            "" if contrast else f"{100 * one.inside:.0f} % inside",
            COLOURS[one.number % len(COLOURS)],
        )
        if single in (None, one)
        else Outline(one.box, "", "", PALE)
        for one in result.found or ()
    )  # fmt: skip


def drawn_map(
    result: Result, look: Look, index: int = 0, alone: int | None = None
) -> tuple[np.ndarray, float]:
    """Strength and scale of a map as it is drawn.

    With several boxes the relevance of each has its colour, unless a colour map is chosen or
    classes are set against each other; a box alone is drawn as any other map.
    """
    single = box_numbered(result, alone)
    one = single.maps[index] if single else result.maps[index]
    if single or not result.found or look.colormap is not None:
        return one.strength, one.scale
    if " - " in str(result.target) or one.strength.ndim == 3:
        return one.strength, one.scale
    colours = [COLOURS[box.number % len(COLOURS)] for box in result.found]
    return tinted([box.maps[index].strength for box in result.found], colours), 1.0
