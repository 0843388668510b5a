"""The view of one network: its newest maps, its figures, its part of the canvas."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from realtime_lrp.config.names import ABOUT, AUTO
from realtime_lrp.engine.wording import nothing_found, sight_note
from realtime_lrp.errors import UsageError
from realtime_lrp.realtime.capture import Capture
from realtime_lrp.realtime.explaining import ExplainedFrame, RelevanceThread
from realtime_lrp.realtime.faithfulness import covered
from realtime_lrp.realtime.latest import Item
from realtime_lrp.realtime.networks import request_for, target_for
from realtime_lrp.realtime.viewer import figures
from realtime_lrp.realtime.viewer.events import ChoiceRefused, Event, NoticeGiven
from realtime_lrp.realtime.viewer.maps import FIGURES_S, MapPainter, followed_caption
from realtime_lrp.realtime.viewer.state import NetworkFacts, ViewerState
from realtime_lrp.system.geometry import Extent
from realtime_lrp.view.hud import Block, Legend, Paragraph, Row
from realtime_lrp.view.painting import Painted
from realtime_lrp.view.scene import Patches, Scene

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine
    from realtime_lrp.realtime.engine_cache import EngineChoice

OLD_MAP_S = 0.3  # how long a map may be another method's than the chosen one until a notice says so
OLD_ANSWER_MS = 1000  # an answer is marked as old when its picture reaches this age


@dataclass(eq=False)
class NetworkView:
    """The newest maps and figures of a network; a further one follows what the first is asked."""

    relevance: RelevanceThread
    capture: Capture
    name: str = ""
    first: NetworkView | None = None  # the first network's view, for a further network
    newest: ExplainedFrame | None = None
    number: int = 0  # how many maps there were
    explained: ExplainedFrame | None = None  # drawn last
    has_map: bool = False  # whether its map was drawn: not on a picture of another file or size
    maps: Painted | None = None  # the maps of `newest`, ready for drawing
    scene: Scene | None = None  # drawn last
    left: tuple[Block, ...] = ()  # the figures at the left
    right: tuple[Block, ...] = ()
    problem: str = ""  # why it cannot explain the target
    refusal: str = ""  # why it cannot explain by the requested method
    old: str = ""  # says that its answer is to an earlier picture than the one shown
    # boxes of the map that are gone from the picture, and whether that shows something else
    lost: tuple[frozenset[int], bool] = (frozenset(), False)
    ready: bool = False  # whether the newest map is as chosen, or as it stays
    _legends: tuple[Legend | None, ...] = ()  # each map's legend
    _followed: tuple[object, ...] = ()  # what the first was asked for, and both engines
    _known: Engine | None = None  # the engine of the facts
    _columns_key: tuple[object, ...] = ()
    _old_since: float = math.inf  # when the newest map was no longer as chosen

    def __post_init__(self) -> None:
        self.stats = self.relevance.stats
        self.rates = figures.Rates(self.stats, self.relevance.waiting)
        self._paint = MapPainter()
        self._facts = NetworkFacts()

    def take(self, state: ViewerState) -> None:
        """Takes the newest maps, if there are any; notes since when they are not as chosen."""
        relevance = self.relevance
        if self.first:
            self._follow(state, self.first.relevance.engine)
        item = relevance.maps.newest()
        self.number = item.number if item else 0
        self.newest = explained = item.value if item else None
        self.maps = self._paint(explained, state.look)
        self.rates.maps.reached(self.number)
        own = explained is None or explained.engine is relevance.engine
        as_chosen = own and relevance.choice == relevance.request.choice
        self.ready = explained is not None and (as_chosen or bool(self.refusal))
        self._old_since = math.inf if as_chosen else min(self._old_since, time.monotonic())

    def passing(self, state: ViewerState) -> str:
        """The lines for the screen alone: no recording and no snapshot has them."""
        now = time.monotonic()
        doing = self.relevance.doing
        notice = state.notice.text if now < state.notice.until and not self.first else ""
        if doing or not self.newest:
            return state.words(notice or doing or "preparing the first map")
        old = now - self._old_since > OLD_MAP_S
        if old and not (self.first and self.refusal):  # its figures say why its map is another's
            choice = self._choice(state)
            shown = self.newest.names
            missing = [name for name in (choice.name, *choice.also) if name not in shown]
            awaited = ", ".join(missing) or ("random weights" if choice.random else choice.name)
            still = f" (still shown: {shown[0]})" if shown[0] != choice.name else ""
            notice = _lines(notice, f"preparing {awaited}{still}")
        return state.words(notice)

    def compose(
        self, state: ViewerState, version: int, frame: Item[np.ndarray], size: Extent
    ) -> Scene:
        """The scene to draw; it is kept in `scene`."""
        if self.problem:
            state = replace(state, look=replace(state.look, style="off"))
        explained = self.newest
        drawn = self.maps
        self._renew_columns(state, version, frame)
        own = explained is not None and explained.frame.value is frame.value
        if explained and explained.frame.value.shape != frame.value.shape:
            explained = drawn = None  # the map does not belong on this picture
        elif explained and drawn and not fits(explained, frame):
            # empty maps, without boxes, on the first picture of another file: it gets its maps soon
            empty = (
                replace(overlay, alpha=np.zeros_like(overlay.alpha)) for overlay in drawn.overlays
            )
            explained = None
            drawn = Painted(frame.value, tuple(empty))
        if explained and own and explained.request.mask is state.request.mask:
            picture = explained.picture
        else:
            picture = covered(frame.value, state.request.mask)
        self.scene = Scene(
            size=size,
            picture=picture,
            explained=drawn,
            tiled=state.tiled,
            look=state.look,
            left=self.left,
            right=self.right,
            legends=self._legends if state.tiled and drawn else (),
            notice=state.words(self._notice(explained if drawn else None)),
            with_figures=state.with_figures,
            text_size=state.text_size,
            awaited=self._awaited(state, drawn, explained) if state.tiled and drawn else (),
            patches=_flipped_patches(state, explained),
            roams=explained is not None and explained.result.region.found is not None,
            network="" if state.alone else self.name,
            title=state.words(followed_caption(explained)) if explained and drawn else "",
        )
        self.explained = self.newest
        self.has_map = bool(self.newest) and drawn is self.maps and not self.problem
        return self.scene

    def _notice(self, explained: ExplainedFrame | None) -> str:
        """The line that recordings have too."""
        trouble = "" if self.first else self.capture.trouble
        if trouble or not explained:
            return trouble
        result = explained.result
        nothing = result.found == () and nothing_found(result.target, explained.engine.label)
        return _lines(nothing or "", sight_note(result))

    def _renew_columns(self, state: ViewerState, version: int, frame: Item[np.ndarray]) -> None:
        """Renews the figures a few times a second at most, but at once where other things change.

        Figures, legends and sentences are always of the map that is drawn, and there is no answer
        until the first map of another file.
        """
        now = time.monotonic()
        lost, elsewhere = self.lost
        explained = self.newest and replace(self.newest, lost=lost)
        explains = explained and (explained.engine, explained.request, explained.frame.source)
        found = explained and [(one.number, one.label) for one in explained.boxes or ()]
        outdated = explained is not None and not fits(explained, frame)
        problems = self.problem, self.refusal
        key = (now // FIGURES_S, explains, found, outdated, elsewhere, version, problems)
        if key == self._columns_key:
            return
        self._columns_key = key
        self.rates.picture_ms = 1000 * (now - frame.time)
        self.rates.map_ms = 1000 * (now - explained.frame.time) if explained else None
        left, right = list[Block](), list[Block]()
        maps = self.maps.overlays if explained and self.maps and not self.problem else ()
        legends = [figures.legend_of(one, state.look, explained) for one in maps if explained]
        if explained and state.about:
            names = explained.names if state.tiled else explained.names[:1]
            left += [(Paragraph(name, ABOUT.get(name, "")),) for name in names]
        self.old = ""
        if explained and explained.frame.value is not frame.value:
            age_ms = self.rates.map_ms or 0
            self.old = "of the picture before" if elsewhere or outdated else ""
            if age_ms >= OLD_ANSWER_MS:
                self.old = f"of a picture {age_ms / 1000:.1f} s ago"
        if explained and not outdated:
            legend = None if state.tiled or not legends else legends[0]
            right = self._answer_blocks(state, explained, legend)
            if self.refusal and state.with_figures:
                right.append((Paragraph("", self.refusal),))
            if state.request.probe and not self.first:
                right.append(figures.probe_rows(explained, state.text == "presenter"))
        if state.text == "figures":
            source = self.capture.source.described or "..."
            left.append(figures.rate_rows(self.rates, state, source, explained, bool(self.first)))
        self.left = state.words.blocks(left)
        self.right = state.words.blocks(right)
        self._legends = tuple(map(state.words.entry, legends))

    def _answer_blocks(
        self, state: ViewerState, explained: ExplainedFrame, legend: Legend | None
    ) -> list[Block]:
        """The answer and what explains it; with the legend of a map that stands alone."""
        blocks = list[Block]()
        if state.text == "presenter":
            blocks = figures.presented(explained, legend, self.problem or self.old)
        elif state.text == "figures":
            setting = figures.setting_rows(explained, self.name, self.problem)
            marks = [Row("old", self.old, warn=True)] if self.old else []
            answer = (*marks, *figures.answer_bars(explained))
            blocks = [answer, (*setting, legend) if legend else setting]
        empty = [] if self.problem else figures.empty_maps(explained)[: None if state.tiled else 1]
        if blocks:
            sentences = (Paragraph(text, "") for text in dict.fromkeys(filter(None, empty)))
            blocks[-1] = (*blocks[-1], *sentences)
        return blocks

    def _choice(self, state: ViewerState) -> EngineChoice:
        """The requested engine, with the composite that `auto` is for this network."""
        engine = self.relevance.engine
        return state.request.choice.with_composite(engine.auto_composite if engine else AUTO)

    def _awaited(
        self, state: ViewerState, drawn: Painted, explained: ExplainedFrame | None
    ) -> tuple[str, ...]:
        """The maps that stand side by side with the others as soon as they are computed."""
        unsuited = explained.engine.explainer.unsuited if explained else state.facts.unsuited
        choice = self._choice(state)
        shown = [panel.name for panel in drawn.overlays]
        wanted = [choice.name, *(name for name in choice.also if name not in unsuited)]
        missing = [name for name in wanted if name not in shown]
        return tuple(missing[: max(0, len(wanted) - len(shown))])

    def refused(self) -> Event | None:
        """The event of an engine that could not be prepared; a further network keeps the choice."""
        cache = self.relevance.engine_cache
        refused = cache and cache.refused()
        if refused and self.first:
            self.refusal = refused[1]
            return NoticeGiven(f"{self.name}: {self.refusal}")
        return ChoiceRefused(*refused, self.relevance.choice) if refused else None

    def facts(self) -> NetworkFacts:
        """The facts about the network of the newest map."""
        engine = self.explained and self.explained.engine
        if engine and engine is not self._known:
            explainer = engine.explainer
            layers = engine.concepts.layers
            gallery = engine.gallery
            described = (layer for layer in layers if gallery and gallery.described(layer))
            self._known = engine
            self._facts = NetworkFacts(
                labels=tuple(map(engine.label, range(explainer.classes))),
                read_target=explainer.read_target,
                warning=engine.network.warning or explainer.advice,
                unsuited=frozenset(explainer.unsuited),
                auto_composite=engine.auto_composite,
                concept_layers=layers,
                described_layers=tuple(described) or layers,
                concept_layer=engine.concept_layer or "",
            )
        return self._facts

    def _follow(self, state: ViewerState, first: Engine | None) -> None:
        """Requests what the first network is asked for, in the words of this one."""
        relevance = self.relevance
        engines = first, relevance.engine
        if self._followed == (state.request, *engines):
            return
        self._followed = state.request, *engines
        self.problem = ""
        try:
            target = target_for(state.request.target, *engines)
        except UsageError as error:
            target = "top1"
            self.problem = str(error)
        request = request_for(relevance.config, state.request, target)
        if request.choice != relevance.request.choice:
            self.refusal = ""
        relevance.request = request


def fits(explained: ExplainedFrame, frame: Item[np.ndarray]) -> bool:
    """Whether a map is of a frame's file or camera, and its size; not of one mirrored since."""
    then = explained.frame
    mirrored = then.number == frame.number and then.value is not frame.value
    same_size = then.value.shape == frame.value.shape
    return same_size and then.source == frame.source and not mirrored


def _lines(*texts: str) -> str:
    return "\n".join(filter(None, texts))


def _flipped_patches(state: ViewerState, explained: ExplainedFrame | None) -> Patches | None:
    """The patches that the faithfulness probe flipped, placed in the picture."""
    probed = explained and explained.probed
    if not (explained and probed and state.request.probe):
        return None
    region = explained.result.region
    rows, columns = region.size
    box = region.in_picture((0, 0, columns, rows))
    return Patches(probed.relevant_patches, probed.random_patches, box)
