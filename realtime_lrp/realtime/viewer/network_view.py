"""What the view knows of one network: its newest maps, its figures, its part of the canvas."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from realtime_lrp.errors import UsageError
from realtime_lrp.realtime.explaining import ExplainedFrame, RelevanceThread
from realtime_lrp.realtime.latest import Item
from realtime_lrp.realtime.networks import request_for, target_for
from realtime_lrp.realtime.viewer.compose import Columns, compose, fits, passing_notice
from realtime_lrp.realtime.viewer.concept_view import described_layers
from realtime_lrp.realtime.viewer.events import ChoiceRefused, Event, NoticeGiven
from realtime_lrp.realtime.viewer.figures import Rates, figure_columns
from realtime_lrp.realtime.viewer.scaling import MapScaler
from realtime_lrp.realtime.viewer.state import Answer, Notice, ViewerState
from realtime_lrp.view.look import Look
from realtime_lrp.view.scene import ExplainedPicture, Scene

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine

OLD_MAP_S = 0.3  # how long a map may be another method's than the chosen one until a notice says so
FIGURES_S = 0.25  # how often the figures change, at most: faster ones cannot be read


class NetworkView:
    """The newest maps and the figures of one network."""

    further = False

    def __init__(self, relevance: RelevanceThread, name: str = ""):
        self.relevance, self.stats, self.name = relevance, relevance.stats, name
        self.newest: ExplainedFrame | None = None
        self.explained: ExplainedFrame | None = None  # drawn last
        self.has_map = False  # whether its map was drawn: not on a picture of another file or size
        self.maps: ExplainedPicture | None = None  # those of `newest`, ready for drawing
        self.scene: Scene | None = None  # drawn last
        self.columns, self.rates = Columns(), Rates()
        self.problem = ""  # why it cannot explain the target
        self.refusal = ""  # why it cannot explain by the requested method
        self._scale_maps = MapScaler()
        self._labels: tuple[Engine, tuple[str, ...]] | None = None
        self._answer: tuple[ExplainedFrame, Answer] | None = None
        self._columns_key: tuple[object, ...] = ()
        self._old_since: float | None = None

    def take(self, newest: ExplainedFrame | None, look: Look) -> None:
        """Makes the newest maps, if there are any, ready for drawing."""
        self.newest, self.maps = newest, self._scale_maps(newest, look)

    def measure(self) -> None:
        """Notes how many maps there are, how long the thread has waited, whether they are old."""
        self._note_old_map()
        self.rates.maps.reached(self.relevance.maps.count)
        self.rates.network_waits.reached(self.relevance.waiting.seconds)

    def _note_old_map(self) -> None:
        """Notes since when the map shown is not of the chosen engine."""
        explained, relevance = self.newest, self.relevance
        own = explained is None or explained.engine is relevance.engine
        if own and relevance.choice == relevance.request.choice:
            self._old_since = None
        elif self._old_since is None:
            self._old_since = time.monotonic()

    def passing(self, state: ViewerState) -> str:
        state = self._named(state)
        now, shown = time.monotonic(), self.newest.names if self.newest else ()
        old = self._old_since is not None and now - self._old_since > OLD_MAP_S
        return passing_notice(state, now, self.relevance.doing, shown, old)

    def prepare(
        self, state: ViewerState, version: int, frame: Item[np.ndarray], source: str
    ) -> None:
        """Renews the figures a few times a second at most, but at once where other things change.

        These are the state, and what the map explains and how: figures, legends and sentences are
        always of the map that is drawn, and there is no answer until the first map of another file.
        """
        now, explained = time.monotonic(), self.newest
        explains = explained and (explained.engine, explained.request, explained.frame.source)
        outdated = explained is not None and not state.paired and not fits(explained, frame)
        key = (now // FIGURES_S, explains, outdated, version, self.problem, self.refusal)
        if key == self._columns_key:
            return
        self._columns_key = key
        self.rates.picture_ms = 1000 * (now - frame.time)
        self.rates.map_ms = 1000 * (now - explained.frame.time) if explained else None
        self.columns = figure_columns(
            state, explained, self.maps, self.rates, source,
            name=self.name, problem=self.problem, refusal=self.refusal, further=self.further,
            outdated=outdated, own=explained is not None and explained.frame.value is frame.value,
        )  # fmt: skip

    def compose(
        self, state: ViewerState, frame: Item[np.ndarray], trouble: str, size: tuple[int, int]
    ) -> Scene:
        """The scene to draw; it is kept in `scene`."""
        self.scene = compose(
            self._named(state),
            frame,
            self.newest,
            self.maps,
            self.columns,
            trouble,
            size,
            "" if state.alone else self.name,
        )
        self.explained = self.newest
        self.has_map = bool(self.newest) and self.scene.explained is self.maps
        return self.scene

    def _named(self, state: ViewerState) -> ViewerState:
        """The state with the name of the composite that `auto` is for this network."""
        engine, choice = self.relevance.engine, state.request.choice
        named = choice.with_composite(engine.auto_composite) if engine else choice
        return state if named is choice else state.with_request(choice=named)

    def refused(self) -> Event | None:
        """What the state is told if an engine could not be prepared."""
        cache = self.relevance.engine_cache
        refused = cache and cache.refused()
        return ChoiceRefused(*refused, self.relevance.choice) if refused else None

    def answer(self) -> Answer | None:
        explained = self.explained
        if explained is None:
            return None
        if self._answer is None or self._answer[0] is not explained:
            engine, target = explained.engine, explained.request.target
            scores, canonical = explained.result.scores, engine.explainer.canonical(target)
            labels, unsuited = self._labels_of(engine, len(scores)), engine.explainer.unsuited
            warning = engine.network.warning or engine.explainer.advice
            self._answer = explained, Answer(
                scores, labels, target, canonical, warning, unsuited, engine.auto_composite,
                engine.concepts.layers, described_layers(engine, engine.gallery),
                engine.concept_layer or "",
            )  # fmt: skip
        return self._answer[1]

    def _labels_of(self, engine: Engine, classes: int) -> tuple[str, ...]:
        if self._labels is None or self._labels[0] is not engine:
            self._labels = engine, tuple(map(engine.label, range(classes)))
        return self._labels[1]


class FollowingNetworkView(NetworkView):
    """A network beside the first one, which follows what is asked of the first."""

    further = True

    def __init__(self, relevance: RelevanceThread, name: str, first: NetworkView):
        super().__init__(relevance, name)
        self._first = first
        self._followed: tuple[object, ...] = ()

    def follow(self, state: ViewerState) -> None:
        """Requests what the state asks for, in the words of this network."""
        engines = self._first.relevance.engine, self.relevance.engine
        wanted = state.request, *engines
        if wanted == self._followed:
            return
        self._followed, relevance, self.problem = wanted, self.relevance, ""
        try:
            target = target_for(state.request.target, *engines)
        except UsageError as error:
            target, self.problem = "top1", str(error)
        request = request_for(relevance.config, state.request, target)
        if request.choice != relevance.request.choice:
            self.refusal = ""
        relevance.request = request

    def refused(self) -> Event | None:
        """As of the first network, but what is chosen stays: others can explain by it."""
        event = super().refused()
        if not isinstance(event, ChoiceRefused):
            return None
        self.refusal = event.reason if event.choice else ""
        return NoticeGiven(f"{self.name}: {event.reason}")

    def passing(self, state: ViewerState) -> str:
        """The lines about this network alone: what the user is told stands at the first one."""
        if self.refusal and self.newest and not self.relevance.doing:
            return ""  # the figures say why its map is another one's
        return super().passing(replace(state, notice=Notice(), lecture=()))

    def compose(
        self, state: ViewerState, frame: Item[np.ndarray], trouble: str, size: tuple[int, int]
    ) -> Scene:
        """As of the first network; without a map if it has no such class."""
        if self.problem:
            state = replace(state, look=replace(state.look, style="off"))
        if state.paired and self.newest:
            frame = self.newest.frame  # each network shows pictures at its own pace
        scene = super().compose(state, frame, "", size)
        self.has_map = self.has_map and not self.problem
        return scene
