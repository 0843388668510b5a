"""The figures beside the picture: how fast, how old, what the answer is and what explains it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from realtime_lrp.engine.wording import describe_target
from realtime_lrp.realtime.explaining import ExplainedFrame
from realtime_lrp.realtime.meter import Meter
from realtime_lrp.relevance.methods import METHODS
from realtime_lrp.view.colormaps import by_sign, colormap_named
from realtime_lrp.view.hud import Bar, Block, Legend, Row, percent
from realtime_lrp.view.scene import Look

TINY = 1e-4
"""Below this a score is called about 0: what is lost of it is rounding."""

KEEPS_UP = 0.9
"""A stage keeps up with another one from this share of its rate on."""


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
    in_sync: bool = False

    @property
    def limit(self) -> str:
        """Which of the three limits the others."""
        captured, shown, maps = (one.rate() for one in (self.captured, self.shown, self.maps))
        if shown < KEEPS_UP * (maps if self.in_sync else captured):
            return "drawing"
        return "network" if maps < KEEPS_UP * captured else "camera"

    def block(self, source: str) -> Block:
        """As rows, below what the source is."""
        if self.frozen:
            return (Row("source", source), Row("frozen for", f"{self.picture_ms / 1000:.0f} s"))
        return (
            Row("source", source),
            Row("camera", f"{self.captured.rate():.1f} fps"),
            Row("shown", f"{self.shown.rate():.1f} fps"),
            Row("maps", f"{self.maps.rate():.1f} /s"),
            Row("dropped", f"{self.dropped}"),
            Row("age of picture", _milliseconds(self.picture_ms)),
            Row("age of map", _milliseconds(self.map_ms)),
            Row("the limit is", self.limit if self.map_ms is not None else "..."),
        )


def answer(made: ExplainedFrame) -> Block:
    """The five best classes, and the target where it is another one.

    With patches on the picture also what they were without.
    """
    if made.engine.explainer.classes == 1:  # a value, which is no share of anything
        return tuple(Row(label, f"{value:.4g}") for label, value in made.scores)
    before: Sequence[float | None] = made.uncovered or [None] * len(made.scores)
    bars = [Bar(label, score, old) for (label, score), old in zip(made.scores, before, strict=True)]
    target = made.request.target
    if isinstance(target, int):
        label = made.engine.label(target)
        if label not in (bar.name for bar in bars):
            bars.append(Bar(label, float(made.result.scores[target])))
    return tuple(bars)


def faithfulness(made: ExplainedFrame) -> Block:
    """What the faithfulness probe says."""
    if made.flipped is None:
        return (Row("faithfulness", "..."),)
    flipped = made.flipped
    gap = round(100 * flipped.at_random) - round(100 * flipped.relevant)
    return (
        Row(made.engine.label(flipped.class_), percent(flipped.whole)),
        Row("most relevant flipped", percent(flipped.relevant)),
        Row("random flipped", percent(flipped.at_random)),
        Row("faithfulness", f"{gap:+d} points" if gap else "none", warn=gap <= 0),
    )


def setting(made: ExplainedFrame, look: Look) -> Block:
    """What explains it, what its colours mean, and whether the relevance is all there."""
    engine = made.engine
    lrp = engine.settings.lrp
    by_rules = lrp.method == "lrp"
    rows = [
        Row("network", engine.network.name),
        Row("LRP" if by_rules else "method", engine.name),
        Row("weights", "random", warn=True) if engine.settings.model.weights == "random" else None,
        Row("target", describe_target(engine, made.request.target, made.scores)),
        *_sums(made),
        Row("runs in", f"{engine.precision} on {engine.device}"),
        _legend(made, look),
    ]
    return tuple(row for row in rows if row)


def _sums(made: ExplainedFrame) -> list[Row]:
    """The sum of each map that has to be the explained score, against it."""
    explained, shown = made.explained[0], made.finding.panels
    several = sum(total is not None for total in made.totals) > 1
    rows = []
    for panel, total, kept in zip(shown, made.totals, made.conserved, strict=True):
        if total is not None:
            words = f"{_short(total)} of {_short(explained)}"
            if abs(explained) > TINY:
                words += f" ({100 * total / explained:.0f} %)"
            elif abs(total) <= TINY:
                words = "about 0"
            rows.append(Row(panel.name if several else "relevance", words, warn=not kept))
    if not any(panel.intensity.any() for panel in shown):
        rows.append(Row("map", "zero everywhere", warn=True))
    return rows


def _short(value: float) -> str:
    return f"{value:.3g}" if abs(value) > TINY else "about 0"


def _legend(made: ExplainedFrame, look: Look) -> Legend | None:
    """What the colours of the chosen map mean; none where its channels are the colours."""
    panel = made.finding.panels[0]
    if panel.intensity.ndim == 3:
        return None
    colormap = look.colormap or by_sign(panel.signed)
    if not colormap_named(colormap).signed:
        return Legend(colormap, "no relevance", "most")
    by_gradient = panel.name in METHODS and not METHODS[panel.name].by_rules
    return Legend(colormap, *(("lowers it", "raises it") if by_gradient else ("against", "for")))


def _milliseconds(value: float | None) -> str:
    return "..." if value is None else f"{value:.0f} ms"
