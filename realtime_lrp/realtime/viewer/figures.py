"""The figures beside the picture: how fast, how old, what the answer is and what explains it.

Texts and numbers only; `view.hud` draws them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from realtime_lrp.engine.wording import describe_target
from realtime_lrp.realtime.explaining import ExplainedFrame
from realtime_lrp.realtime.meter import Meter
from realtime_lrp.realtime.viewer.compose import Columns
from realtime_lrp.realtime.viewer.state import ViewerState
from realtime_lrp.view.colormaps import by_sign, colormap_named
from realtime_lrp.view.hud import Bar, Block, Legend, Row, percent
from realtime_lrp.view.scene import ExplainedPicture, Look, Panel

TINY = 1e-4
"""Scores below this are shown as "about 0": what relevance they lose is rounding."""

BIASES_SHOWN = 0.005
"""What biases took is shown from this share of what started on."""

KEEPS_UP = 0.9
"""A stage keeps up with another one from this share of its rate on."""

_ALL_ZERO = Row("map", "zero everywhere", warn=True)


@dataclass
class Rates:
    """The rates of capture, screen and maps, and the ages of what is shown.

    Attributes:
      captured, shown, maps: how many a second.
      dropped: frames that were never shown.
      picture_ms: age of the shown picture.
      map_ms: age of the shown map, None before the first.
    """

    captured: Meter = field(default_factory=Meter)
    shown: Meter = field(default_factory=Meter)
    maps: Meter = field(default_factory=Meter)
    dropped: int = 0
    picture_ms: float = 0.0
    map_ms: float | None = None

    def limit(self, paired: bool) -> str:
        """The stage that the others wait for.

        Args:
          paired: whether only pictures with their own map are shown.
        """
        captured, shown, maps = (one.rate() for one in (self.captured, self.shown, self.maps))
        if shown < KEEPS_UP * (maps if paired else captured):
            return "drawing"
        return "network" if maps < KEEPS_UP * captured else "camera"


def figure_columns(
    state: ViewerState,
    explained: ExplainedFrame | None,
    drawn: ExplainedPicture | None,
    rates: Rates,
    source: str,
) -> Columns:
    """The figures that the state asks for.

    Args:
      state: says which figures are shown.
      explained: the newest explanation, or None.
      drawn: its maps, ready for drawing.
      rates: as they are now.
      source: the source in words, or "".
    """
    left, right = [], []
    if "rates" in state.figures:
        left.append(rate_rows(rates, state, source or "..."))
    if explained and drawn:
        if "answer" in state.figures:
            right.append(answer_bars(explained))
        if "setting" in state.figures:
            right.append(setting_rows(explained, drawn, state.look))
        if state.request.probe:
            right.append(probe_rows(explained))
    return Columns(tuple(left), tuple(right))


def rate_rows(rates: Rates, state: ViewerState, source: str) -> Block:
    """The rates as rows, below the source; of a frozen picture only its age."""
    if state.frozen:
        return (Row("source", source), Row("frozen for", f"{rates.picture_ms / 1000:.0f} s"))
    return (
        Row("source", source),
        Row("camera", f"{rates.captured.rate():.1f} fps"),
        Row("shown", f"{rates.shown.rate():.1f} fps"),
        Row("maps", f"{rates.maps.rate():.1f} /s"),
        Row("dropped", f"{rates.dropped}"),
        Row("age of picture", _milliseconds(rates.picture_ms)),
        Row("age of map", _milliseconds(rates.map_ms)),
        Row("the limit is", "..." if rates.map_ms is None else rates.limit(state.paired)),
    )


def answer_bars(explained: ExplainedFrame) -> Block:
    """The best classes, and the target where it is another one.

    Where patches are painted, each bar has a mark at the probability without them.
    """
    scores, engine = explained.scores, explained.engine
    if engine.explainer.classes == 1:  # a value, which is no share of anything
        return tuple(Row(label, f"{value:.4g}") for label, value in scores)
    before: Sequence[float | None] = explained.uncovered or [None] * len(scores)
    bars = [Bar(label, score, old) for (label, score), old in zip(scores, before, strict=True)]
    target = explained.request.target
    if isinstance(target, int):
        label = engine.label(target)
        if label not in (bar.name for bar in bars):
            bars.append(Bar(label, float(explained.result.scores[target])))
    return tuple(bars)


def probe_rows(explained: ExplainedFrame) -> Block:
    """What the faithfulness probe found."""
    probed = explained.probed
    if probed is None:
        return (Row("faithfulness", "..."),)
    gap = round(100 * probed.at_random) - round(100 * probed.relevant)
    return (
        Row(explained.engine.label(probed.class_), percent(probed.whole)),
        Row("most relevant flipped", percent(probed.relevant)),
        Row("random flipped", percent(probed.at_random)),
        Row("faithfulness", f"{gap:+d} points" if gap else "none", warn=gap <= 0),
    )


def setting_rows(explained: ExplainedFrame, drawn: ExplainedPicture, look: Look) -> Block:
    """What explains the answer, what the colours mean, and whether any relevance is lost."""
    engine = explained.engine
    model, lrp = engine.config.model, engine.config.lrp
    target = describe_target(engine, explained.request.target, explained.scores)
    rows = [
        Row("network", engine.network.name),
        Row("LRP" if lrp.method == "lrp" else "method", engine.name),
        Row("weights", "random", warn=True) if model.weights == "random" else None,
        Row("target", target),
        *_sum_rows(explained),
        None if any(panel.intensity.any() for panel in drawn.panels) else _ALL_ZERO,
        Row("runs in", engine.computed),
        _legend(drawn.panels[0], look),
    ]
    return tuple(row for row in rows if row)


def _sum_rows(explained: ExplainedFrame) -> list[Row]:
    """The account of each map: what reached the pixels of what started, and what biases took."""
    several = sum(total is not None for total in explained.totals) > 1
    rows = []
    for name, total, kept, one in zip(
        explained.names, explained.totals, explained.conserved, explained.result.maps, strict=True
    ):
        if total is not None:
            text = _sum_text(total, one.started)
            rows.append(Row(name if several else "relevance", text, warn=not kept))
            if abs(one.taken_by_biases) > BIASES_SHOWN * one.started_magnitude:
                rows.append(Row("biases took", _short(one.taken_by_biases)))
    if loss := explained.loss:
        name = "lost in" if loss.share > 0 else "gained in"
        rows.append(Row(name, f"{loss.layer}: {percent(abs(loss.share))}", warn=True))
    return rows


def _sum_text(total: float, started: float) -> str:
    if abs(started) > TINY:
        return f"{_short(total)} of {_short(started)} ({100 * total / started:.0f} %)"
    return "about 0" if abs(total) <= TINY else f"{_short(total)} of {_short(started)}"


def _short(value: float) -> str:
    return f"{value:.3g}" if abs(value) > TINY else "about 0"


def _legend(panel: Panel, look: Look) -> Legend | None:
    """What the colours of a map mean; None where its channels are the colours."""
    from realtime_lrp.relevance.methods import METHODS  # imports TensorFlow, loaded by now

    if panel.intensity.ndim == 3:
        return None
    colormap = look.colormap or by_sign(panel.signed)
    if not colormap_named(colormap).signed:
        return Legend(colormap, "no relevance", "most")
    by_gradient = panel.name in METHODS and not METHODS[panel.name].by_rules
    return Legend(colormap, *(("lowers it", "raises it") if by_gradient else ("against", "for")))


def _milliseconds(value: float | None) -> str:
    return "..." if value is None else f"{value:.0f} ms"
