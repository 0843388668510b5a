"""The step of the render loop: picks the newest frame and maps, draws them, keeps the account.

A frame counts once: as shown when it is drawn for the first time, as dropped when a later one was.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from realtime_lrp.realtime.capture import Capture
from realtime_lrp.realtime.explaining import RelevanceThread
from realtime_lrp.realtime.latest import Item
from realtime_lrp.realtime.networks import network_names
from realtime_lrp.realtime.viewer import events
from realtime_lrp.realtime.viewer.handle import handle
from realtime_lrp.realtime.viewer.maps import FIGURES_S, ConceptView
from realtime_lrp.realtime.viewer.network_view import NetworkView
from realtime_lrp.realtime.viewer.pointing import brush_at_pointer, brush_radius, progress
from realtime_lrp.realtime.viewer.state import DrawnView, Order, ViewerState
from realtime_lrp.system.geometry import Extent, moved
from realtime_lrp.view import hud
from realtime_lrp.view.concepts import ConceptPanel
from realtime_lrp.view.controls import draw_brush, draw_controls, draw_frame
from realtime_lrp.view.scene import SplitArtist, SplitScene, boxes_of, room_above

POLL_S = 0.01  # maximum wait for a frame, before keys and mouse are read again
SMALL, READABLE = 128, 320  # a longer side below SMALL pixels becomes READABLE or more on a canvas
SOON_S = 0.05  # how long a new map or figure waits for the next frame, to be drawn with it


@dataclass(eq=False)
class View:
    """Holds the viewer's state and draws it; frames captured before it existed do not count.

    Where figures are not in the picture, whoever shows it shows `columns` and `concepts` as well.
    """

    state: ViewerState
    capture: Capture
    threads: Sequence[RelevanceThread]
    show: Callable[[np.ndarray], None]  # gets each canvas with menus and notices
    size: Callable[[], Extent] | None = None
    status: Callable[[], str] = lambda: ""
    figures_in_picture: bool = True
    teacher: Any = None  # a `Teacher`, whose module imports TensorFlow
    split: SplitScene | None = None
    canvas: np.ndarray | None = None
    frame: Item[np.ndarray] | None = None
    concepts: ConceptPanel | None = None

    def __post_init__(self) -> None:
        names = network_names(self.state.config) if len(self.threads) > 1 else ("",)
        (thread, name), *others = zip(self.threads, names, strict=True)
        capture = self.capture
        self.first = first = NetworkView(thread, capture, name)
        self._further = [NetworkView(thread, capture, name, first) for thread, name in others]
        self._networks = [self.first, *self._further]
        self._artist = SplitArtist()
        self._concept_view = ConceptView(self.first.name)
        self._first_number = self.capture.frames.count
        self._version = 0  # counts the changes of the state that can be seen
        self._moves = 0  # counts moves of the mouse that change nothing else
        self._drawn: tuple[object, object] = None, None
        self._drawn_at = 0.0

    @property
    def networks(self) -> list[NetworkView]:
        """Those that are shown."""
        return self._networks[:1] if self.state.alone else self._networks

    @property
    def columns(self) -> tuple[list[hud.Block], list[hud.Block]]:
        """The figures at the left and at the right, those of further networks below the first's."""
        left = [block for network in self.networks for block in network.left]
        right = [block for network in self.networks for block in network.right]
        looks = self.teacher and self.teacher.looks
        return left, [*right, *([looks] if looks else ()), *_block_of(self._said)]

    @property
    def _said(self) -> str:
        """The sentence of a lecture's step, as soon as the step is seen; "" for none."""
        lecture = self.state.lecture
        seen = all(network.ready for network in self.networks)
        return lecture[self.state.step].say if lecture and seen else ""

    def send(self, event: events.Event) -> tuple[Order, ...]:
        """Changes the state; returns the orders that the caller is to carry out."""
        state = handle(self.state, event)
        if isinstance(event, events.MouseMoved) and not state.pointer.holds:
            self._moves += 1
        else:
            self._version += state is not self.state
        self._set(state)
        return state.orders

    def step(self) -> np.ndarray | None:
        """Draws again if anything changed; waits up to `POLL_S` for a frame."""
        before = self.frame.number if self.frame else self._first_number
        for network in self._networks:
            network.take(self.state)
        with self.first.rates.drawing_waits:
            if frozen := self.state.frozen:
                fresh = self._next_frozen(frozen, before)
            else:
                fresh = self.capture.frames.newest(before, POLL_S)
        frame = fresh or self.frame
        frozen = self.state.frozen
        if frozen and frame and frozen.number == frame.number:
            frame = frozen  # it may have been mirrored
        self.frame = frame
        self.first.rates.captured.reached(self.capture.frames.count)
        self.first.rates.shown.reached(self.first.stats.frames_shown)
        at_once, soon = self._appearance()
        waited = time.monotonic() - self._drawn_at > SOON_S
        changed = at_once != self._drawn[0] or (waited and soon != self._drawn[1])
        if frame is None or not changed:
            return None
        self._drawn = (at_once, soon)
        self._drawn_at = time.monotonic()
        self._draw(frame)
        if fresh:
            self._count(frame, fresh.number - before - 1)
        return self.canvas

    def check(self, patient: bool) -> None:
        """Raises what ended a network's thread; sends events of engines that were refused."""
        for network in self._networks:
            network.relevance.check(patient=patient)
            if event := network.refused():
                self.send(event)

    def finish(self) -> None:
        """Closes the account: frames captured and not drawn until now were dropped."""
        self._note_counts()
        stats = self.first.stats
        drawn = self.frame.number if self.frame else self._first_number
        stats.frames_dropped = (stats.frames_dropped or 0) + self.capture.frames.count - drawn

    def figures(self) -> dict[str, Any]:
        """The figures until now, as `--stats` writes them."""
        self._note_counts()
        figures = self.first.stats.as_dict(live=True)
        if self._further:
            further = ((one.name, one.stats) for one in self._further)
            figures["also_models"] = {
                name: stats.of_network() if stats.device else None for name, stats in further
            }
        return figures

    def summaries(self) -> list[str]:
        """A line of figures for each network; none before the first one is loaded."""
        self._note_counts()
        if self.first.relevance.engine is None:
            return []
        return [
            network.stats.summary(network.name if network.first else "")
            for network in self._networks
        ]

    def _note_counts(self) -> None:
        stats = self.first.stats
        stats.frames_captured = self.capture.frames.count - self._first_number
        stats.reconnects = self.capture.reconnects
        for network in self._networks:
            if engine := network.relevance.engine:
                network.stats.note_engine(engine)

    def _set(self, state: ViewerState) -> None:
        self.state = replace(state, orders=())
        self.first.relevance.request = state.request

    def _next_frozen(self, frozen: Item[np.ndarray], before: int) -> Item[np.ndarray] | None:
        """The frozen frame, if it is not on the screen yet; takes the next step if one is due."""
        if not self.state.stepping:
            self.first.relevance.maps.newest(self.first.number, POLL_S)
        elif stepped := self.capture.frames.newest(max(before, frozen.number), POLL_S):
            self.send(events.FrameStepped(stepped))
            frozen = stepped
        return None if frozen.number <= before else frozen

    def _appearance(self) -> tuple[object, object]:
        """Values behind a drawing: some are drawn at once, some wait for the next frame."""
        number = self.frame and self.frame.number
        size = self.size and self.size()
        lines = self.capture.trouble, *self._passing(), self.status()
        lines += self.teacher.panel() if self.teacher else ()
        now = time.monotonic()
        resting = now >= self.state.pointer.until
        at_once = number, self._version, lines, size, resting
        newest = [network.newest for network in self.networks]
        return at_once, (newest, now // FIGURES_S, self._moves)

    def _draw(self, frame: Item[np.ndarray]) -> None:
        size = self.size() if self.size else canvas_size(frame.value)
        self.split = split = self._scenes(frame, size)
        lost = self._artist.lost(split)
        if lost != [network.lost for network in self.networks]:
            for network, of_network in zip(self.networks, lost, strict=True):
                network.lost = of_network
            self.split = split = self._scenes(frame, size)
        self.canvas = self._artist.draw(split)
        explained = self.first.explained
        timeline = self.capture.source.timeline
        answer = explained.result if explained else None
        drawn = DrawnView(
            frame, answer, self.first.facts(), split.pictures, timeline, split.concept_rows,
            split.free, size,
        )  # fmt: skip
        self._set(handle(self.state, events.FrameDrawn(drawn)))
        self.show(self._drawn_over(self.canvas, split))

    def _drawn_over(self, canvas: np.ndarray, split: SplitScene) -> np.ndarray:
        """The canvas, or a copy of it with menus, controls and notices: what the screen shows."""
        state = self.state
        status = self.status()
        now = time.monotonic()
        frozen = state.words("frozen" if status else "frozen: Space goes on")
        marks = status if not state.frozen or state.list_froze else f"{status}   {frozen}".strip()
        pairs = zip(self._passing(), split.scenes, strict=True)
        notices = ["" if one.notice else text for text, one in pairs]
        moving = now < state.pointer.until or state.pointer.holds
        if not (any(notices) or marks or state.menu or moving):
            return canvas
        artist = self._artist
        controls = state.controls(now)
        canvas = artist.buffers.copy(canvas)
        rows = controls.area[1] if controls else split.size[0]
        box = moved(split.scenes[-1].arrangement.marks, *split.boxes[-1][:2])
        box = moved(box, 0, min(0, rows - box[3]))  # stands above the controls
        if marks and controls:
            rows = min(rows, box[1])
        for number, notice in enumerate(notices):
            if notice:
                area = split.notice_area(number, notice, rows)
                letters = split.scenes[number].letters
                artist.decals.draw(canvas, hud.draw_notice, notice, area, letters)
        if marks:
            artist.decals.draw(canvas, hud.draw_marks, marks, box, split.letters)
        if state.shown and (brush := brush_at_pointer(state, now)):
            draw_brush(canvas, *brush, brush_radius(state), state.shown.value.shape)
        if state.pointer.holds == "frame":
            draw_frame(canvas, state.pointer.start, state.pointer.at)
        if controls:
            bar = progress(state.timeline) if state.timeline else None
            running = {"freeze": bool(state.frozen), "record": status.startswith("recording")}
            undone = [action for action, runs in running.items() if runs]
            draw_controls(canvas, controls, bar, undone, state.pointer.at, state.words)
        if state.menu:
            state.menu.draw(canvas, split.letters, split.free)
        return canvas

    def _scenes(self, frame: Item[np.ndarray], size: Extent) -> SplitScene:
        state = self.state
        self.concepts = self._concept_view.panel(state, self.first.newest, self.first.old)
        concepts = self.concepts if self.figures_in_picture else None
        with_figures = self.figures_in_picture and not (concepts and concepts.answer[0])
        several = len(self.networks) > 1 or state.tiled or concepts is not None
        said = self._said if self.figures_in_picture else ""
        below, beside = (said, "") if several else ("", said)
        letters = hud.figure_size(*size, state.text_size)
        room = room_above(below, size, letters)
        boxes = boxes_of(room, frame.value.shape, len(self.networks), letters, concepts)
        scenes = []
        for network, (x0, y0, x1, y1) in zip(self.networks, boxes, strict=True):
            scene = network.compose(state, self._version, frame, (y1 - y0, x1 - x0))
            lesson = [self.teacher.panel()] if self.teacher and network is self.first else []
            network.scene = replace(
                scene,
                right=(*scene.right, *lesson, *_block_of(beside)),
                with_figures=with_figures and (scene.with_figures or beside != ""),
                untitled=state.words("the whole map") if concepts else "",
            )
            scenes.append(network.scene)
        return SplitScene(size, tuple(scenes), boxes, concepts, below)

    def _passing(self) -> tuple[str, ...]:
        return tuple(network.passing(self.state) for network in self.networks)

    def _count(self, frame: Item[np.ndarray], dropped: int) -> None:
        now = time.monotonic()
        stats = self.first.stats
        stats.frames_shown += 1
        stats.frames_dropped = (stats.frames_dropped or 0) + dropped
        stats.frame_age_ms.append(1000 * (now - frame.time))
        for network in self._networks:
            if network.newest:
                network.stats.map_age_ms.append(1000 * (now - network.newest.frame.time))


def _block_of(said: str) -> list[hud.Block]:
    """A sentence of a lecture as a block of figures; none for ""."""
    return [(hud.Paragraph(said, "", hud.NOTICE_SCALE),)] if said else []


def canvas_size(picture: np.ndarray) -> Extent:
    """Rows and columns of the canvas for a picture, where no window says it: small ones grow."""
    rows, columns = picture.shape[:2]
    longer = max(rows, columns)
    factor = -(-READABLE // longer) if longer < SMALL else 1
    return rows * factor, columns * factor
