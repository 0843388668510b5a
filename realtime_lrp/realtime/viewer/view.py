"""The step of the render loop: picks the newest frame and map, draws them, keeps the account.

A frame counts once: as shown when it is drawn for the first time, as dropped when a later one was.
Runs on the main thread. It sends events to the state; the state alone decides what is shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from realtime_lrp.realtime.capture import Capture
from realtime_lrp.realtime.explaining import ExplainedFrame, RelevanceThread
from realtime_lrp.realtime.latest import Item
from realtime_lrp.realtime.meter import Waiting
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.realtime.viewer import events
from realtime_lrp.realtime.viewer.compose import (
    Columns,
    compose,
    draw_over,
    passing_notice,
)
from realtime_lrp.realtime.viewer.figures import Rates, figure_columns
from realtime_lrp.realtime.viewer.handle import handle
from realtime_lrp.realtime.viewer.scaling import MapScaler
from realtime_lrp.realtime.viewer.state import Answer, Command, LoopFiles, SeekTo, ViewerState
from realtime_lrp.view.scene import Artist, ExplainedPicture, Scene

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine

POLL_S = 0.01
"""Maximum wait for a frame, before keys and mouse are read again."""

SOON_S = 0.05
"""How long a new map or figure waits for the next frame, to be drawn with it."""

OLD_MAP_S = 0.3
"""How long a map may be another method's than the chosen one until a notice says so."""

FIGURES_S = 0.25
"""How often the figures change, at most: faster ones cannot be read."""


class View:
    """Holds the viewer's state and draws it.

    Frames that were captured before the view existed do not count.

    Args:
      state: at the start.
      capture: where frames come from.
      relevance: where maps come from.
      stats: counts frames.
      show: gets each canvas with menus and notices, uint8 [H, W, 3] RGB.
      size: returns rows and columns of the canvas; None is those of the picture.
      status: returns a mark for the recording that runs, or "".
      figures_in_picture: whether the figures are drawn on the canvas; else whoever shows it shows
        the `columns`, too.

    Attributes:
      state: changes with each event.
      scene, canvas: what was drawn last, without menus; None before.
      explained: the frame whose maps and figures were drawn last; None before the first map.
      has_map: whether its map was drawn: not on the picture of another file or size.
      frame: the one that is shown, or None.
      columns: the figures.
      rates: what they are made of.
      figures_in_picture: as given.
    """

    def __init__(
        self,
        state: ViewerState,
        capture: Capture,
        relevance: RelevanceThread,
        stats: Stats,
        show: Callable[[np.ndarray], None],
        size: Callable[[], tuple[int, int]] | None = None,
        status: Callable[[], str] = lambda: "",
        figures_in_picture: bool = True,
    ):
        self.state = state
        self.scene: Scene | None = None
        self.canvas: np.ndarray | None = None
        self.explained: ExplainedFrame | None = None
        self.has_map = False
        self._newest_explained: ExplainedFrame | None = None
        self.frame: Item[np.ndarray] | None = None
        self._capture = capture
        self._relevance = relevance
        self._stats = stats
        self._show = show
        self._size = size
        self._status = status
        self.figures_in_picture = figures_in_picture
        self._artist = Artist()
        self._scale_maps = MapScaler(state.config.overlay.average)
        self._maps: ExplainedPicture | None = None
        self._labels: tuple[Engine, tuple[str, ...]] | None = None
        self._answer: tuple[ExplainedFrame, Answer] | None = None
        self._first_number = capture.frames.count
        self._version = 0  # counts the changes of the state that can be seen
        self._moves = 0  # counts those of the mouse that change nothing else
        self._drawn: tuple[object, object] = None, None
        self._drawn_at = 0.0
        self.rates, self._waiting = Rates(), Waiting()
        self.columns = Columns()
        self._columns_key: tuple[object, ...] = ()
        self._old_since: float | None = None

    def send(self, event: events.Event) -> tuple[Command | SeekTo | LoopFiles, ...]:
        """Changes the state; returns the commands that the caller is to carry out."""
        state = handle(self.state, event)
        if isinstance(event, events.MouseMoved) and not state.pointer.holds:
            self._moves += 1
        else:
            self._version += state is not self.state
        self._set(state)
        return state.commands

    def step(self) -> np.ndarray | None:
        """Draws again if anything changed; waits up to `POLL_S` for a frame.

        Returns:
          The canvas without menus, if it was drawn.
        """
        before = self.frame.number if self.frame else self._first_number
        with self._waiting:
            fresh, self._newest_explained = self._newest(before)
        self._maps = self._scale_maps(self._newest_explained, self.state.paired)
        frame, frozen = fresh or self.frame, self.state.frozen
        if frozen and frame and frozen.number == frame.number:
            frame = frozen  # it may have been mirrored
        self.frame = frame
        self._measure()
        self._note_old_map()
        at_once, soon = self._appearance()
        waited = time.monotonic() - self._drawn_at > SOON_S
        changed = at_once != self._drawn[0] or (waited and soon != self._drawn[1])
        if frame is None or not changed:
            return None
        self._drawn, self._drawn_at = (at_once, soon), time.monotonic()
        self._draw(frame)
        if fresh:
            self._count(frame, fresh.number - before - 1)
        return self.canvas

    def finish(self) -> None:
        """Closes the account: frames captured and not drawn until now were dropped."""
        count = self._capture.frames.count
        self._stats.frames_captured = count - self._first_number
        self._drop(count - (self.frame.number if self.frame else self._first_number))
        self._stats.reconnects = self._capture.reconnects

    def _set(self, state: ViewerState) -> None:
        self.state = replace(state, commands=())
        if self._relevance.request is not state.request:
            self._relevance.request = state.request

    def _newest(self, before: int) -> tuple[Item[np.ndarray] | None, ExplainedFrame | None]:
        """The next frame to show, None if there is none, and the newest explained frame."""
        maps, frames, paired = self._relevance.maps, self._capture.frames, self.state.paired
        newest = maps.newest()
        number, explained = (newest.number, newest.value) if newest else (0, None)
        if frozen := self.state.frozen:
            return self._next_frozen(frozen, before, number, explained), explained
        if not paired:
            return frames.newest(before, POLL_S), explained
        if explained is None or explained.frame.number <= before:
            maps.newest(number, POLL_S)
            return None, explained
        return explained.frame, explained

    def _next_frozen(
        self,
        frozen: Item[np.ndarray],
        before: int,
        map_number: int,
        explained: ExplainedFrame | None,
    ) -> Item[np.ndarray] | None:
        """The frozen frame, if it is not on the screen yet; takes the next step if one is due."""
        if not self.state.stepping:
            self._relevance.maps.newest(map_number, POLL_S)
        elif stepped := self._capture.frames.newest(max(before, frozen.number), POLL_S):
            self.send(events.FrameStepped(stepped))
            frozen = stepped
        own = explained is not None and explained.frame.number == frozen.number
        waits = self.state.paired and not own
        return None if waits or frozen.number <= before else frozen

    def _measure(self) -> None:
        self.rates.captured.reached(self._capture.frames.count)
        self.rates.shown.reached(self._stats.frames_shown)
        self.rates.maps.reached(self._relevance.maps.count)
        self.rates.drawing_waits.reached(self._waiting.seconds)
        self.rates.network_waits.reached(self._relevance.waiting.seconds)

    def _appearance(self) -> tuple[object, object]:
        """What a drawing depends on: what is drawn at once, and what waits for the next frame."""
        number, size = self.frame and self.frame.number, self._size and self._size()
        lines = self._capture.trouble, self._passing(), self._status()
        now = time.monotonic()
        resting = now >= self.state.pointer.until
        at_once = number, self._version, lines, size, resting
        return at_once, (self._newest_explained, now // FIGURES_S, self._moves)

    def _draw(self, frame: Item[np.ndarray]) -> None:
        size = self._size() if self._size else frame.value.shape[:2]
        if size != self.state.size:
            self.send(events.CanvasResized(size))
        state, explained = self.state, self._newest_explained
        self._update_columns(frame, explained)
        self.scene = scene = compose(
            state, frame, explained, self._maps, self.columns, self._capture.trouble, size
        )
        if not self.figures_in_picture:
            self.scene = scene = replace(scene, left=(), right=(), with_figures=False)
        self.explained, self.has_map = explained, bool(explained) and scene.explained is self._maps
        self.canvas = self._artist.draw(scene)
        answer = self._answer_of(explained) if explained else None
        pictures, timeline = scene.arrangement.pictures, self._capture.timeline
        self._set(handle(state, events.FrameDrawn(frame, answer, pictures, timeline)))
        status, passing, now = self._status(), self._passing(), time.monotonic()
        self._show(draw_over(self.canvas, self._artist, scene, self.state, status, passing, now))

    def _answer_of(self, explained: ExplainedFrame) -> Answer:
        if self._answer is None or self._answer[0] is not explained:
            engine, target = explained.engine, explained.request.target
            scores, canonical = explained.result.scores, engine.explainer.canonical(target)
            labels, warning = self._labels_of(engine, len(scores)), engine.network.warning
            answer = Answer(scores, labels, target, canonical, warning)
            self._answer = explained, answer
        return self._answer[1]

    def _labels_of(self, engine: Engine, classes: int) -> tuple[str, ...]:
        if self._labels is None or self._labels[0] is not engine:
            self._labels = engine, tuple(map(engine.label, range(classes)))
        return self._labels[1]

    def _passing(self) -> str:
        now, shown = (
            time.monotonic(),
            self._newest_explained.names if self._newest_explained else (),
        )
        old = self._old_since is not None and now - self._old_since > OLD_MAP_S
        return passing_notice(self.state, now, self._relevance.doing, shown, old)

    def _note_old_map(self) -> None:
        """Notes since when the map shown is not of the chosen engine."""
        explained, relevance = self._newest_explained, self._relevance
        own = explained is None or explained.engine is relevance.engine
        if own and relevance.choice == self.state.request.choice:
            self._old_since = None
        elif self._old_since is None:
            self._old_since = time.monotonic()

    def _update_columns(self, frame: Item[np.ndarray], explained: ExplainedFrame | None) -> None:
        """Renews the figures a few times a second at most, but at once where other things change.

        These are the state, and what the map explains and how: figures, legends and sentences are
        always of the map that is drawn.
        """
        now = time.monotonic()
        explains = explained and (explained.engine, explained.request, explained.frame.source)
        key = (now // FIGURES_S, explains, self._version)
        if key == self._columns_key:
            return
        self._columns_key = key
        self.rates.picture_ms = 1000 * (now - frame.time)
        self.rates.map_ms = 1000 * (now - explained.frame.time) if explained else None
        self.columns = figure_columns(
            self.state, explained, self._maps, self.rates, self._capture.described
        )

    def _count(self, frame: Item[np.ndarray], dropped: int) -> None:
        now = time.monotonic()
        self._stats.frames_shown += 1
        self._drop(dropped)
        self._stats.frame_age_ms.append(1000 * (now - frame.time))
        if self._newest_explained:
            self._stats.map_age_ms.append(1000 * (now - self._newest_explained.frame.time))

    def _drop(self, frames: int) -> None:
        self.rates.dropped += frames
        self._stats.frames_dropped = self.rates.dropped
