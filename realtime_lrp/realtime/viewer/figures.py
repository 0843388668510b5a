"""The figures beside the picture: how fast, how old, what the answer is and what explains it."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from realtime_lrp.engine import wording
from realtime_lrp.engine.boxes import colour_of
from realtime_lrp.engine.result import FoundBox, ResultMap
from realtime_lrp.engine.segments import class_name, colour_of_class, why
from realtime_lrp.realtime.explaining import TOP, ExplainedFrame
from realtime_lrp.realtime.stats import Meter, Stats
from realtime_lrp.realtime.viewer.state import ViewerState
from realtime_lrp.relevance.maps.account import State
from realtime_lrp.relevance.maps.targets import tidied
from realtime_lrp.view import hud
from realtime_lrp.view.hud import PRESENTED_SCALE, Bar, Block, Legend, Row, percent
from realtime_lrp.view.look import Look
from realtime_lrp.view.painting import ColouredMap

BIASES_SHOWN = 0.005  # what biases took is shown from this share of what started on
PRESENTED = 3  # how many classes the presenter view names
UNTAUGHT = hud.Paragraph("random weights", "This network has learnt nothing.", PRESENTED_SCALE)
UNFAITHFUL = "Blurring what is relevant changes this answer no more than blurring anything else."
BUSY = 0.85  # the others wait for a stage that works for this share of the time or more


@dataclass
class Rates:
    """The rates of capture, screen and maps, and the ages of what is shown."""

    stats: Stats
    network_waits: Meter  # seconds that the stage waits for frames, each second
    drawing_waits: Meter = field(default_factory=Meter)
    captured: Meter = field(default_factory=Meter)  # how many a second
    shown: Meter = field(default_factory=Meter)
    maps: Meter = field(default_factory=Meter)
    picture_ms: float = 0.0  # age of the shown picture
    map_ms: float | None = None  # age of the shown map, None before the first

    def limit(self) -> str:
        """The stage that the others wait for: the one that waits least, if it hardly waits."""
        busy = {"network": 1 - self.network_waits.rate(), "drawing": 1 - self.drawing_waits.rate()}
        stage = max(busy, key=lambda name: busy[name])
        return stage if busy[stage] >= BUSY else "camera"


def presented(explained: ExplainedFrame, legend: Legend | None, problem: str = "") -> list[Block]:
    """The presenter view: the answer, what is explained, and three bars, or one for each box."""
    engine = explained.engine
    boxes = explained.boxes
    if boxes == ():
        seen = explained.result.found  # but no longer
        text = "..." if seen else wording.nothing_found(explained.result.target, engine.label)
        return [(hud.Paragraph(text, ""),)]
    shown = answer_bars(explained)
    bars = [one for one in shown if isinstance(one, Bar)]
    if not bars:  # a value, which is no share of anything
        return [shown]
    own = explained.answers[0][0] if explained.result.segments else bars[0].name
    best = next((bar for bar in bars if bar.name == own), Bar(own, 0))
    longest = max(map(engine.label, range(engine.explainer.classes)), key=len)
    is_lrp = engine.config.lrp.method == "lrp"  # whose rules say nothing to lay people
    method = Row("method", "LRP" if is_lrp else tidied(engine.name))
    untaught = [UNTAUGHT] if engine.config.model.weights == "random" else []
    why = hud.Line(problem or _why(explained), f"why: “{longest}”", warn=bool(problem))
    large = [replace(bar, scale=PRESENTED_SCALE) for bar in bars if bar is not best]
    if boxes and len(boxes) > 1:
        return [(replace(best, scale=PRESENTED_SCALE), *large), (*untaught, why, method)]
    named = {engine.label(index) for index in explained.result.target.classes}
    named_first = sorted(large, key=lambda one: one.name not in named)[: PRESENTED - 1]
    others = sorted(named_first, key=lambda one: -one.share)
    answer = hud.Headline(best.name, best.share, longest, best.before)
    below = (legend,) if legend else ()
    return [(answer,), (*untaught, why, *below, *others, method)]


def _why(explained: ExplainedFrame) -> str:
    engine = explained.engine
    target = explained.result.target
    if explained.result.segments:
        return why(engine, explained.result.segments)
    if sides := _sides(explained):
        return f"why: {sides[0]}, not {sides[1]}"
    if explained.shown is not explained.result or (str(target) == "top1" and not engine.detects):
        return f"why: “{explained.answers[0][0]}”"
    quote = "“{}”" if explained.result.target.classes else "{}"
    return f"why: {quote.format(wording.describe_target(engine, target))}"


def empty_maps(explained: ExplainedFrame) -> list[str]:
    """A sentence for each map that does not show its whole score; "" for other maps."""
    result = explained.result
    named = " or ".join(f"“{explained.engine.label(index)}”" for index in result.target.classes)

    def sentence(one: ResultMap) -> str:
        if named and one.kind.by_rules and one.account.fade < 1:
            return f"no part of this picture speaks for {named}"
        return wording.map_note(one) if one.state in wording.STATES else ""

    return [] if result.found == () else [sentence(one) for one in explained.maps]


def rate_rows(
    rates: Rates, state: ViewerState, source: str, explained: ExplainedFrame | None, further: bool
) -> Block:
    """The rates, below source and device; less of a frozen picture and of a further network."""
    device = Row("runs in", explained.engine.computed if explained else "...")
    maps = Row("maps", f"{rates.maps.rate():.1f} /s")
    age = Row("age of map", _milliseconds(rates.map_ms))
    if further:
        return device, maps, age
    if state.frozen:
        frozen = Row("frozen for", f"{rates.picture_ms / 1000:.0f} s")
        return Row("source", source), device, frozen
    return (
        Row("source", source),
        device,
        Row("camera", f"{rates.captured.rate():.1f} fps"),
        Row("shown", f"{rates.shown.rate():.1f} fps"),
        maps,
        Row("dropped", f"{rates.stats.frames_dropped}"),
        Row("age of picture", _milliseconds(rates.picture_ms)),
        age,
        Row("slowest part", "..." if rates.map_ms is None else rates.limit()),
    )


def answer_bars(explained: ExplainedFrame) -> Block:
    """The best classes and those named, or boxes; a mark is the probability without patches."""
    scores = explained.result.scores
    engine = explained.engine
    before = explained.uncovered

    def bar(index: int, score: float, **more: Any) -> Bar:
        mark = None if before is None else float(before[index])
        return Bar(engine.label(index), score, mark, **more)

    if segments := explained.result.segments:
        return tuple(
            Bar(engine.label(index), area, colour=colour_of_class(engine, index))
            for index, area in segments.areas()[:TOP]
        )
    if explained.boxes is not None:
        boxes = sorted(explained.boxes, key=lambda one: one.number)  # steady
        return tuple(bar(box.label, box.score, colour=colour_of(box)) for box in boxes)
    if engine.explainer.classes == 1:  # a value, which is no share of anything
        return tuple(Row(label, f"{value:.4g}") for label, value in explained.answers)
    best = np.argsort(-scores)[:TOP].tolist()
    shown = [*best, *(index for index in explained.result.target.classes if index not in best)]
    return tuple(bar(one, float(scores[one])) for one in shown)


def probe_rows(explained: ExplainedFrame, presenting: bool = False) -> Block:
    """The faithfulness probe's result; marks stand at the class's score without blurring."""
    probed = explained.probed
    if probed is None:
        ready = explained.engine.scores_ready
        return (Row("faithfulness", "..." if ready else "preparing the test"),)
    gap = round(100 * probed.at_random) - round(100 * probed.relevant)
    named = Row(explained.engine.label(probed.class_), percent(probed.whole))
    scale = PRESENTED_SCALE if presenting else 1.0
    bars = (
        Bar("relevant blurred", probed.relevant, probed.whole, scale),
        Bar("random blurred", probed.at_random, probed.whole, scale),
    )
    points = Row("faithfulness", f"{gap:+d} points" if gap else "0 points", warn=gap <= 0)
    told = (hud.Paragraph("", UNFAITHFUL),) if gap <= 0 else ()
    return bars if presenting else (named, *bars, points, *told)


def setting_rows(explained: ExplainedFrame, name: str = "", problem: str = "") -> Block:
    """The method that explains the answer, and whether any relevance is lost."""
    engine = explained.engine
    lrp = engine.config.lrp
    target = wording.describe_target(engine, explained.result.target, explained.answers)
    if explained.result.segments:
        target = why(engine, explained.result.segments).removeprefix("why: ")
    if isinstance(explained.shown, FoundBox) and target == wording.EACH_BOX:
        target = f"the box of “{engine.label(explained.shown.label)}”"
    rows = [
        Row("network", name or engine.network.name),
        Row("LRP" if lrp.method == "lrp" else "method", engine.name),
        Row("weights", "random", warn=True) if engine.config.model.weights == "random" else None,
        Row("target", problem or target, warn=bool(problem)),
        *([] if problem else _sum_rows(explained)),
    ]
    return tuple(row for row in rows if row)


def _sum_rows(explained: ExplainedFrame) -> list[Row]:
    """The account of each map: what reached the pixels of what started, and what biases took."""
    rows = []
    accounted = [one for one in explained.maps if one.accounted]
    for one in accounted:
        share = wording.share_text(one.total / one.started) if one.started else "-"
        text = f"{one.total:.3g} of {one.started:.3g} ({share})"
        text = "about 0" if one.state in (State.ZERO, State.FAINT) else text
        rows.append(Row(one.name if len(accounted) > 1 else "relevance", text, not one.closes))
        share = f" ({wording.share_text(one.taken_by_biases / one.started)})" if one.started else ""
        if abs(one.taken_by_biases) > BIASES_SHOWN * one.started_magnitude:
            rows.append(Row("biases took", f"{one.taken_by_biases:.3g}{share}"))
    if loss := explained.loss:
        name = "lost in" if loss.share > 0 else "gained in"
        where = loss.layer or "too few samples"
        rows.append(Row(name, f"{where}: {percent(abs(loss.share))}", warn=True))
    return rows


def legend_of(panel: ColouredMap, look: Look, explained: ExplainedFrame) -> Legend | None:
    """The meaning of a map's colours, warm ones for the first class; None if they are channels."""
    if panel.by_channel:
        return None
    colormap = look.named(panel.signed)
    sides = _sides(explained)
    if not look.colours(panel.signed).signed:
        return Legend(colormap, "no relevance", f"for {sides[0]}" if sides else "most")
    by_rules = all(one.kind.by_rules for one in explained.maps if one.name == panel.name)
    if sides:
        verb = "for" if by_rules else "raises"
        return Legend(colormap, f"{verb} {sides[1]}", f"{verb} {sides[0]}")
    return Legend(colormap, *(("against", "for") if by_rules else ("lowers it", "raises it")))


def _sides(explained: ExplainedFrame) -> list[str]:
    """The two sides of a contrast in words, classes in quotes; none without a contrast."""
    target = explained.result.target
    if (segments := explained.result.segments) and segments.contrast:
        names = (class_name(explained.engine, one) for one in (segments.label, segments.other))
        return [name if name == "the others" else f"“{name}”" for name in names]
    if not target.contrasts:
        return []
    named = [f"“{explained.engine.label(index)}”" for index in target.classes]
    return [*named, *(["the others"] if target.rest else [])]


def _milliseconds(value: float | None) -> str:
    return "..." if value is None else f"{value:.0f} ms"
