"""The geometry of the symbols, before they are made to look drawn by hand.

A `Sketch` holds polylines in a unit frame: x to the right, y down, about -1..1, float64 [N, 2].
Every symbol is a function of a random generator, because people draw the same thing in different
ways: an arrow as one stroke or as a block, a tree with tiers or with a crown. The name of the
function is the name of the class.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

Points = np.ndarray
Rng = np.random.Generator


@dataclass
class Sketch:
    """The strokes of one symbol.

    Attributes:
        outlines: closed polylines, which may be filled.
        inside: open polylines drawn on top of the outlines (a door, an eye).
        outside: open polylines next to the outlines (a stalk, a handle).
    """

    outlines: list[Points] = field(default_factory=list)
    inside: list[Points] = field(default_factory=list)
    outside: list[Points] = field(default_factory=list)

    def lines(self) -> list[Points]:
        """All polylines: outlines, inside, outside."""
        return [*self.outlines, *self.inside, *self.outside]

    def map(self, change: Callable[[Points], Points]) -> "Sketch":
        """A copy with `change` applied to each polyline."""
        return Sketch(
            [change(p) for p in self.outlines],
            [change(p) for p in self.inside],
            [change(p) for p in self.outside],
        )


def arc(
    centre: tuple[float, float],
    radius: float | tuple[float, float],
    start: float = 0.0,
    stop: float = 360.0,
    count: int = 33,
) -> Points:
    """Points on an arc of an ellipse; angles in degrees, clockwise from the right.

    Returns:
        float64 [count, 2].
    """
    angles = np.deg2rad(np.linspace(start, stop, count))
    unit = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return np.asarray(centre) + unit * np.asarray(radius)


def rotated(points: Points, degrees: float) -> Points:
    """The points rotated clockwise around the origin."""
    angle = np.deg2rad(degrees)
    cos, sin = np.cos(angle), np.sin(angle)
    return points @ np.array([[cos, sin], [-sin, cos]])


def _path(*pairs: tuple[float, float]) -> Points:
    return np.array(pairs, dtype=float)


def _box(left: float, top: float, right: float, bottom: float) -> Points:
    return _path((left, top), (right, top), (right, bottom), (left, bottom))


def _mirrored(rng: Rng, sketch: Sketch) -> Sketch:
    return sketch.map(lambda p: p * (-1, 1)) if rng.random() < 0.5 else sketch


def circle(rng: Rng) -> Sketch:
    """A closed round line, up to a tenth out of round."""
    start = rng.uniform(0, 360)
    return Sketch([arc((0, 0), (1, rng.uniform(0.88, 1.12)), start, start + 360)[:-1]])


def square(rng: Rng) -> Sketch:
    """A four-sided box, at most 1.3 times as wide as high."""
    height = rng.uniform(0.77, 1.3)
    return Sketch([_box(-1, -height, 1, height)])


def triangle(rng: Rng) -> Sketch:
    """Three corners, apex up, now and then down."""
    points = _path((rng.normal(0, 0.25), -1), (1, 0.75), (-1, 0.75)) * (1, rng.uniform(0.85, 1.15))
    return Sketch([points * (1, -1) if rng.random() < 0.12 else points])


def star(rng: Rng) -> Sketch:
    """Five points, as an outline or in one crossing line."""
    tips = arc((0, 0), 1, -90, 270, 6)[:-1]
    if rng.random() < 0.35:
        return Sketch([tips[[0, 2, 4, 1, 3]]])
    notches = arc((0, 0), rng.uniform(0.34, 0.5), -54, 306, 6)[:-1]
    return Sketch([np.stack([tips, notches], axis=1).reshape(-1, 2)])


def heart(rng: Rng) -> Sketch:
    """Two lobes and a tip below."""
    t = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    height = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    points = np.stack([np.sin(t) ** 3, -height / 17 * rng.uniform(0.85, 1.2)], axis=1)
    return Sketch([np.roll(points, rng.integers(0, 2) * 20, axis=0)])


def arrow(rng: Rng) -> Sketch:
    """A shaft with a head, in one of four directions."""
    head, spread = rng.uniform(0.0, 0.4), rng.uniform(0.4, 0.75)
    thick = rng.uniform(0.15, 0.4) * spread
    if rng.random() < 0.5:
        barbs = _path((head, -spread), (1, 0), (head, spread))
        sketch = Sketch(outside=[_path((-1, 0), (1, 0)), barbs])
    else:
        upper = _path((-1, -thick), (head, -thick), (head, -spread), (1, 0))
        sketch = Sketch([np.concatenate([upper, upper[-2::-1] * (1, -1)])])
    direction = 90.0 * rng.integers(0, 4)
    return sketch.map(lambda p: rotated(p, direction))


def cross(rng: Rng) -> Sketch:
    """Two crossing bars: a plus or a diagonal cross, as lines or as a block."""
    long, t = rng.uniform(0.85, 1.15), rng.uniform(0.15, 0.34)
    if rng.random() < 0.65:
        sketch = Sketch(outside=[_path((-1, 0), (1, 0)), _path((0, -long), (0, long))])
    else:
        corner = _path((t, -t), (t, -1), (-t, -1))
        sketch = Sketch([np.concatenate([rotated(corner, -90.0 * k) for k in range(4)])])
    diagonal = 45.0 * rng.integers(0, 2)
    return sketch.map(lambda p: rotated(p, diagonal))


def moon(rng: Rng) -> Sketch:
    """A crescent, open to the right or to the left."""
    opening = rng.uniform(40, 75)
    outer = arc((0, 0), 1, opening, 360 - opening, 30)
    tip = np.sin(np.deg2rad(opening))
    bulge = rng.uniform(0.25, 0.6)
    inner = arc((np.cos(np.deg2rad(opening)), 0), (bulge, tip), 270, 90, 18)[1:-1]
    return _mirrored(rng, Sketch([np.concatenate([outer, inner])]))


def house(rng: Rng) -> Sketch:
    """A box with a roof, mostly with a door, at times with a window or a chimney."""
    eaves, over = rng.uniform(-0.3, 0.1), rng.uniform(0, 0.22)
    body, roof = (
        _box(-0.8, eaves, 0.8, 1),
        _path((-0.8 - over, eaves), (0, -1), (0.8 + over, eaves)),
    )
    if rng.random() < 0.4:
        sketch = Sketch([np.concatenate([roof, body[2:]])])
    else:
        sketch = Sketch([body, roof])
    left = rng.uniform(-0.55, 0.2)
    if rng.random() < 0.75:
        sketch.inside.append(_path((left, 1), (left, 0.4), (left + 0.35, 0.4), (left + 0.35, 1)))
    if rng.random() < 0.4:
        middle = left + 0.55 if left < 0 else left - 0.35
        sketch.inside.append(_box(middle, 0.3, middle + 0.25, 0.6)[[0, 1, 2, 3, 0]])
    if rng.random() < 0.3:
        sketch.outside.append(_path((0.4, -0.55), (0.4, -0.95), (0.6, -0.95), (0.6, -0.35)))
    return sketch


def smiley(rng: Rng) -> Sketch:
    """A round face with two eyes and a smile."""
    apart, high = rng.uniform(0.28, 0.45), rng.uniform(-0.4, -0.2)
    tall = rng.uniform(0.05, 0.2)
    wide = rng.uniform(0.4, 0.65)
    smile = arc((0, 0.05), (wide, rng.uniform(0.4, 0.65)), 15, 165, 15)
    eyes = [arc((side * apart, high), (0.06, tall), count=9) for side in (-1, 1)]
    sketch = circle(rng)
    sketch.inside = [*eyes, smile]
    if rng.random() < 0.3:
        sketch.inside.append(_path((0, -0.1), (-0.08, 0.12), (0.06, 0.14)))
    return sketch


def lightning(rng: Rng) -> Sketch:
    """A flash: a zigzag as a block, or as one line with a point."""
    if rng.random() < 0.3:
        zigzag = _path((0.3, -1), (-0.45, 0.0), (0.4, -0.1), (-0.3, 1))
        return _mirrored(rng, Sketch(outside=[zigzag * (rng.uniform(0.9, 1.3), 1)]))
    high = rng.uniform(-0.1, 0.15)
    bolt = _path(
        (-0.1, -1), (0.5, -1), (0.15, high - 0.2), (0.6, high - 0.25), (-0.35, 1),
        (-0.05, high + 0.15), (-0.5, high + 0.2),
    )  # fmt: skip
    return _mirrored(rng, Sketch([bolt * (rng.uniform(0.9, 1.25), 1)]))


def flower(rng: Rng) -> Sketch:
    """Petals round a centre, often with a stalk and leaves."""
    count = int(rng.integers(5, 9))
    ring, core = 0.62, rng.uniform(0.22, 0.32)
    around = arc((0, 0), ring, -90, 270, count + 1)[:-1]
    if rng.random() < 0.5:
        petal = ring * np.sin(np.pi / count) * rng.uniform(0.95, 1.1)
        outlines = [arc(centre, petal, count=17)[:-1] for centre in around]
    else:
        t = np.linspace(0, 2 * np.pi, 12 * count, endpoint=False)
        reach = 0.55 + 0.45 * np.abs(np.sin(count * t / 2)) ** 0.7
        outlines = [np.stack([np.sin(t), -np.cos(t)], axis=1) * reach[:, None]]
    sketch = Sketch(outlines, [arc((0, 0), core, count=17)])
    return _with_stalk(rng, sketch) if rng.random() < 0.6 else sketch


def _with_stalk(rng: Rng, sketch: Sketch) -> Sketch:
    end = rng.uniform(1.9, 2.6)
    bend = rng.uniform(-0.2, 0.2)
    sketch.outside.append(_path((0, 0.95), (bend, (end + 0.9) / 2), (bend / 2, end)))
    if rng.random() < 0.6:
        foot = (bend, end - 0.6)
        leaf = np.asarray(foot) + _path((0, 0), (0.35, -0.4), (0.75, -0.45), (0.5, -0.1), (0, 0))
        sketch.outside.append(leaf)
    return sketch


def tree(rng: Rng) -> Sketch:
    """A fir of two or three tiers, or a broad crown, on a trunk."""
    crown = _fir_crown(rng) if rng.random() < 0.6 else _leafy_crown(rng)
    half = rng.uniform(0.1, 0.2)
    foot = rng.uniform(1.3, 1.8)
    trunk = _path((-half, 0.8), (-half * 1.2, foot), (half * 1.2, foot), (half, 0.8))
    return Sketch([crown], outside=[trunk])


def _fir_crown(rng: Rng) -> Points:
    tiers = int(rng.integers(2, 4))
    levels = np.linspace(-1, 0.8, tiers + 1)
    right: list[tuple[float, float]] = [(0, -1.0)]
    for k, level in enumerate(levels[1:]):
        wide = 0.5 + 0.4 * (k + 1) / tiers
        right += [(wide, level), (wide * rng.uniform(0.4, 0.55), level - 0.02)]
    side = _path(*right[:-1])
    return np.concatenate([side, side[:0:-1] * (-1, 1)])


def _leafy_crown(rng: Rng) -> Points:
    count = int(rng.integers(6, 10))
    t = np.linspace(0, 2 * np.pi, 10 * count, endpoint=False)
    reach = 0.82 + 0.18 * np.abs(np.sin(count * t / 2))
    return np.stack([np.sin(t), -np.cos(t) * 0.9], axis=1) * reach[:, None]


def fish(rng: Rng) -> Sketch:
    """A body, a tail and an eye, swimming left or right."""
    high = rng.uniform(0.4, 0.65)
    tail = rng.uniform(0.3, 0.5)
    if rng.random() < 0.5:
        body = arc((-0.2, 0), (0.8, high), 20, 340, 30)
        outlines = [np.concatenate([body, _path((1, -tail), (0.85, 0), (1, tail))])]
    else:
        fin = _path((0.55, 0), (1, -tail), (1, tail))
        outlines = [arc((-0.25, 0), (0.8, high), count=30)[:-1], fin]
    sketch = Sketch(outlines, [arc((-0.65, -0.12), 0.06, count=9)])
    if rng.random() < 0.5:
        sketch.inside.append(arc((-0.75, 0), (0.4, high), -45, 45, 9))
    return _mirrored(rng, sketch)


def cup(rng: Rng) -> Sketch:
    """A mug with a handle, at times with steam."""
    high, foot = rng.uniform(0.7, 1.0), rng.uniform(0.65, 0.95)
    body = _path((-0.8, -high), (0.8, -high), (0.8 * foot, high), (-0.8 * foot, high))
    handle = arc((0.74, -0.05), (rng.uniform(0.4, 0.6), rng.uniform(0.35, 0.55)), -85, 85, 15)
    sketch = Sketch([body], outside=[handle])
    if rng.random() < 0.4:
        rise = np.linspace(0, 1, 12)
        for x in (-0.3, 0.0, 0.3):
            wave = np.stack([x + 0.08 * np.sin(rise * 7), -high - 0.12 - 0.5 * rise], axis=1)
            sketch.outside.append(wave)
    return _mirrored(rng, sketch)


SYMBOLS: dict[str, Callable[[Rng], Sketch]] = {
    shape.__name__: shape
    for shape in (
        circle, square, triangle, star, heart, arrow, cross, moon, house, smiley, lightning,
        flower, tree, fish, cup,
    )
}  # fmt: skip
