"""A detector's boxes as they are drawn, and how a box is known again in the next picture.

Must not import TensorFlow: the live view opens its window before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from realtime_lrp.engine.result import DrawnMap, FoundBox, Result
from realtime_lrp.engine.segments import region_outlines
from realtime_lrp.system.geometry import FloatBox, overlap
from realtime_lrp.view.hud import Colour
from realtime_lrp.view.look import Look, colormap_named
from realtime_lrp.view.painting import COLOURS, PALE, Drawn, Outline, Painted, paint, tinted

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine

SAME = 0.7  # least intersection over union of a box with itself in an earlier picture
REMEMBERED = 32  # most boxes that are remembered; the one last seen longest ago is forgotten


class BoxNumbers:
    """Gives a box its number again, by overlap or class; a new one has a free number and colour."""

    def __init__(self) -> None:
        self._source = ""
        # number -> the box, and in how many pictures since it was not found
        self._known: dict[int, tuple[FoundBox, int]] = {}
        self._next = 0

    def __call__(self, result: Result, source: str = "") -> Result:
        """The result with the numbers; in another source boxes lie elsewhere."""
        if result.found is None:
            return result
        elsewhere = source != self._source
        self._source = source
        pairs = []
        for number, (known, unseen) in self._known.items():
            for place, one in enumerate(result.found):
                shared = 0.0 if elsewhere else overlap(known.box, one.box)
                if known.label == one.label or (shared >= SAME and not unseen):
                    pairs.append((-shared, unseen, number, place))
        numbers: dict[int, int] = {}  # place among the found boxes -> number
        for _, _, number, place in sorted(pairs):
            if place not in numbers and number not in numbers.values():
                numbers[place] = number
        kept = sorted(self._known.items(), key=lambda item: item[1][1])[:REMEMBERED]
        self._known = {number: (one, unseen + 1) for number, (one, unseen) in kept}
        seen = [(replace(one, maps=()), 0) for one in result.found]  # maps take memory
        self._known |= {number: seen[place] for place, number in numbers.items()}
        for place in {*range(len(seen))} - {*numbers}:
            numbers[place] = self._new()
            self._known[numbers[place]] = seen[place]
        found = (replace(one, number=numbers[place]) for place, one in enumerate(result.found))
        return replace(result, found=tuple(found))

    def place_of(self, number: int | None) -> FloatBox | None:
        """The last place of a box, in pixels of the picture."""
        known = self._known.get(number) if number is not None else None
        return known[0].box if known else None

    def _new(self) -> int:
        """A new number: of a free colour, else of the one that was not seen for longest."""
        unseen: dict[int, int] = {}  # colour -> for how many pictures none of its boxes was found
        for number, (_, pictures) in self._known.items():
            colour = number % len(COLOURS)
            unseen[colour] = min(pictures, unseen.get(colour, pictures))
        candidates = range(self._next, self._next + len(COLOURS))
        number = max(candidates, key=lambda n: unseen.get(n % len(COLOURS), math.inf))
        self._next = number + 1
        return number


def part_of(result: Result, number: int | None) -> Result:
    """The box with a number; the whole result where there is none."""
    return next((one for one in result.found or () if one.number == number), result)


def colour_of(box: FoundBox) -> Colour:
    """The colour in which a box is drawn, RGB."""
    return COLOURS[box.number % len(COLOURS)]


def outlines_of(
    engine: Engine,
    result: Result,
    alone: int | None = None,
    name: Callable[[str], str] = lambda label: label,
    inside: str = "{share} inside",
) -> tuple[Outline, ...]:
    """Each box's outline and texts ("star 93 %", "71 % inside"), or the outlines of regions.

    `name` writes a label, for example in another language.
    """
    if result.segments:
        return region_outlines(engine, result, result.segments, name, inside)
    part = part_of(result, alone)
    contrast = result.target.contrasts
    return tuple(
        Outline(
            one.box, f"{name(engine.label(one.label))} {100 * one.score:.0f} %",
            "" if contrast else inside.replace("{share}", f"{100 * one.inside:.0f} %"),
            colour_of(one),
        )
        if part in (result, one)
        else Outline(one.box, "", "", PALE)
        for one in result.found or ()
    )  # fmt: skip


def drawn_map(result: Result, look: Look, index: int = 0) -> Drawn:
    """A map, ready to be painted; each box in its colour, if no colour map is set."""
    one = result.maps[index]
    found = result.found or ()
    plain = look.colormap is not None or one.strength.ndim == 3 or result.target.contrasts
    if plain or not found:
        return drawable(one, result, one.fade, one.signed, one.name)
    strengths = [box.maps[index].strength for box in found]
    strength = cropped(tinted(strengths, list(map(colour_of, found))), result)
    return Drawn(strength, 1.0, 1.0, one.signed, one.name)


def drawable(
    one: DrawnMap, result: Result, fade: float = 1.0, signed: bool = False, name: str = ""
) -> Drawn:
    """A map of the result's picture or of a channel, ready to be painted."""
    return Drawn(cropped(one.strength, result), one.peak, fade, signed, name)


def cropped(strength: np.ndarray, result: Result) -> np.ndarray:
    """The part of a map that lies on the picture, without borders."""
    x0, y0, x1, y1 = result.region.inner
    return strength[y0:y1, x0:x1]


def look_of(engine: Engine) -> Look:
    """How maps are drawn in files: as configured, always as heat, with the colour map itself."""
    look = replace(Look.of(engine.config.overlay), style="heat", average=0.0)
    return replace(look, colormap=colormap_named(look.colormap)) if look.colormap else look


def painted(engine: Engine, picture: np.ndarray, result: Result) -> Painted:
    """The first map of a result, scaled by itself, and its boxes."""
    look = look_of(engine)
    outlines = outlines_of(engine, result)
    return paint(picture, [drawn_map(result, look)], look, result.region.box, outlines)
