"""The figures beside the picture: how fast, how old, what the answer is and what explains it."""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from realtime_lrp.modes.engine import Engine
from realtime_lrp.modes.live.relevance import Map
from realtime_lrp.view.hud import Bar, Block, Row, percent

KEEPS_UP = 0.9
"""A stage keeps up with another one from this share of its rate on."""


class Meter:
    """How often a number went up, a second, over the last seconds."""

    def __init__(self, window_s: float = 3.0):
        self._window_s = window_s
        self._seen: deque[tuple[float, int]] = deque()

    def reached(self, number: int) -> None:
        """Notes that the number is here now."""
        now = time.monotonic()
        if not self._seen or number != self._seen[-1][1]:
            self._seen.append((now, number))
        while len(self._seen) > 2 and now - self._seen[0][0] > self._window_s:
            self._seen.popleft()

    def rate(self) -> float:
        """How far the number rose, a second; 0 before it did, and where it stands still."""
        if len(self._seen) < 2:
            return 0.0
        (first, low), (last, high) = self._seen[0], self._seen[-1]
        until = max(last, time.monotonic() - 2 * (last - self._seen[-2][0]))
        return (high - low) / max(until - first, 1e-9)


@dataclass
class Rates:
    """The rates of the three threads, and the ages of what they handed over last."""

    captured: Meter = field(default_factory=Meter)
    shown: Meter = field(default_factory=Meter)
    maps: Meter = field(default_factory=Meter)
    dropped: int = 0
    picture_ms: float = 0.0
    map_ms: float | None = None
    frozen: bool = False

    @property
    def limit(self) -> str:
        """Which of the three limits the others."""
        if self.frozen:
            return "the frozen picture"
        captured, shown, maps = (one.rate() for one in (self.captured, self.shown, self.maps))
        if shown < KEEPS_UP * captured:
            return "drawing"
        return "network" if maps < KEEPS_UP * captured else "camera"

    def block(self) -> Block:
        """As rows."""
        return (
            Row("camera", f"{self.captured.rate():.1f} fps"),
            Row("shown", f"{self.shown.rate():.1f} fps"),
            Row("maps", f"{self.maps.rate():.1f} /s"),
            Row("dropped", f"{self.dropped}"),
            Row("age of picture", _milliseconds(self.picture_ms)),
            Row("age of map", _milliseconds(self.map_ms)),
            Row("the limit is", self.limit if self.map_ms is not None else "..."),
        )


def answer(made: Map) -> Block:
    """The five best classes; with patches on the picture also what they were without."""
    before = made.uncovered or [None] * len(made.scores)
    return tuple(
        Bar(label, score, old) for (label, score), old in zip(made.scores, before, strict=True)
    )


def faithfulness(made: Map) -> Block:
    """What the faithfulness probe says."""
    if made.flipped is None:
        return (Row("faithfulness", "..."),)
    flipped = made.flipped
    gap = flipped.at_random - flipped.relevant
    return (
        Row("as it is", percent(flipped.whole)),
        Row("most relevant flipped", percent(flipped.relevant)),
        Row("random flipped", percent(flipped.at_random)),
        Row("faithfulness", f"{100 * gap:+.0f} points", warn=gap <= 0),
    )


def setting(made: Map) -> Block:
    """What explains it, and whether the relevance is all there."""
    engine = made.engine
    lrp = engine.settings.lrp
    by_rules = lrp.method == "lrp"
    rows = [
        Row("network", engine.network.name),
        Row("LRP" if by_rules else "method", engine.name),
        Row("weights", "random", warn=True) if engine.settings.model.weights == "random" else None,
        Row("target", target_words(engine, made.request.target, made.scores)),
        *_sums(made),
        Row("computed in", engine.precision),
        Row("on", engine.device),
    ]
    return tuple(row for row in rows if row)


def target_words(
    engine: Engine, target: str | int, scores: Sequence[tuple[str, float]] = ()
) -> str:
    """A target as people read it: classes by name, the best one with its name."""
    if target == "top1" and scores:
        return f"the best: {scores[0][0]}"
    words = {"all": "all classes", "top1": "the best"}.get(str(target))
    if words:
        return words
    sides = [side.strip() for side in str(target).split(" - ")]
    classes = engine.explainer.classes
    named = [engine.label(int(s)) if s.isdecimal() and int(s) < classes else s for s in sides]
    return " - ".join(named)


def _sums(made: Map) -> list[Row]:
    """The sum of each map that has to be the explained score, against it."""
    if all(total is None for total in made.totals):
        return []
    explained = made.explained[0]
    rows = [
        Row("relevance", f"{total:.3g} of {explained:.3g}")
        for total in made.totals
        if total is not None
    ]
    kept = "kept" if made.conserved else "NOT KEPT"
    return [*rows, Row("conservation", kept, warn=not made.conserved)]


def _milliseconds(value: float | None) -> str:
    return "..." if value is None else f"{value:.0f} ms"
