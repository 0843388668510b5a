"""The exhibit's main loop, one turn at a time: read input, take pictures, decide, draw."""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import partial

import numpy as np

from realtime_lrp.commands.kiosk.games import PAGES
from realtime_lrp.commands.kiosk.keys import ExitLock, VisitorChoices
from realtime_lrp.commands.kiosk.pages import Moment, drawn_page
from realtime_lrp.commands.kiosk.parts import Fault, RelevancePart, broken, camera_fault, open_clips
from realtime_lrp.commands.kiosk.settings import captions_of, label, with_seconds
from realtime_lrp.commands.kiosk.states import (
    ScreenState,
    SmoothedAnswer,
    StateMachine,
    knows_nothing,
)
from realtime_lrp.config import Config
from realtime_lrp.config.values import parse_hours
from realtime_lrp.engine.boxes import outlines_of
from realtime_lrp.engine.segments import row_column
from realtime_lrp.realtime.capture import Capture, OpenSource
from realtime_lrp.realtime.explaining import ExplainedFrame
from realtime_lrp.realtime.latest import Item
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.realtime.viewer.maps import MapPainter
from realtime_lrp.system import machine
from realtime_lrp.video.cameras import CameraSettings
from realtime_lrp.video.pictures import mirrored
from realtime_lrp.video.presence import Presence
from realtime_lrp.video.sources import open_source
from realtime_lrp.view.exhibit import Screen, ScreenArtist, canvas_size
from realtime_lrp.view.look import Look
from realtime_lrp.view.window import FullScreen, NullWindow

CLOSED_FPS = 2.0
POLL_S = 0.02  # seconds that a turn waits for a picture, or until the next drawing
MAX_CLIP_LAG_S = 2.0  # a clip's picture waits for its own map, unless that is further behind
POINTED_S = 15.0  # seconds for which the region that was touched last is explained
SYMBOL_S = 300.0  # seconds after a motion for which a symbol, left behind, counts as a visitor
BLIND = ("starting", "camera", "staff", "frozen", "dark")  # cards while the camera sees nobody
OVER_CAMERA = ("network", "slow")  # cards that keep the camera's picture behind them

log = logging.getLogger(__name__)


class Exhibit:
    """The exhibit, on the main thread: `state`, name of the `card` ("" for none), and `page` shown.

    `open_camera` and the clocks, monotonic seconds and local time, can be replaced.
    """

    def __init__(
        self,
        config: Config,
        window: FullScreen | NullWindow,
        stats: Stats,
        open_camera: OpenSource | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], datetime] = datetime.now,
    ):
        kiosk = config.kiosk
        live = config.live
        now = clock()
        self._config = config
        self._window = window
        self.captions = [captions_of(code, kiosk.captions) for code in kiosk.languages]
        self._stats = stats
        self._clock = clock
        self._wall_clock = wall_clock
        self._is_open = parse_hours(kiosk.hours)
        self._machine = StateMachine(kiosk.idle_seconds, kiosk.countdown_seconds, now)
        self._visitor = VisitorChoices(len(self.captions), now)
        self.lock = ExitLock(kiosk.pin)
        self._presence = Presence()
        self._answer = SmoothedAnswer(kiosk.sure, kiosk.perhaps, config.lrp.target == "top1")
        camera = partial(open_source, live.source, camera=CameraSettings.of(live))
        self.camera = Capture(None, partial(mirrored, mirror=config.input.mirror))
        self._sources: dict[str, tuple[Capture, OpenSource]] = {
            "camera": (self.camera, open_camera or camera),
            "clip": (Capture(None), partial(open_clips, kiosk.clips)),
        }
        self._taken = dict.fromkeys(self._sources, 0)  # number of the picture taken last
        self._look = Look.of(config.overlay)
        self._artist = ScreenArtist(self._look)
        self._paint = MapPainter()
        self._outlined = [
            partial(outlines_of, name=partial(label, captions), inside=captions["inside"])
            for captions in self.captions
        ]
        wanted = [page for page in PAGES if not page.setting or getattr(kiosk, page.setting)]
        self._pages = [page(config) for page in wanted]
        self.page = self._pages[-1]
        self.screen = Screen()
        self.state = self._machine.state
        self.card = "starting"
        self._pointed: tuple[float, float] | None = None  # see `_point`
        self._pointed_at = -POINTED_S
        self._fault: Fault | None = Fault("starting")
        self._shown_source = "clip"  # or "camera", or "" while closed
        self._shown: Item[np.ndarray] | None = None
        self._maps_after = 0  # maps of earlier pictures belong to another source
        self._moved_at = -SYMBOL_S
        self._drawn_at = -1.0
        with suppress(Exception):  # the loop draws next, and handles what fails
            # a card before the import of TensorFlow keeps the processor busy
            self._show(Moment(now, self.state, now, 0.0, "clip", self.captions[0]))
            self._window.events()  # lets the window paint it
        self.network = RelevancePart(config, stats, now)
        for capture, _ in self._sources.values():
            capture.start()

    def step(self) -> bool:
        """One turn; returns whether the screen was drawn. Raises as `RelevancePart.watch`."""
        now = self._clock()
        size = canvas_size(self._window.size)
        events = self.lock.handle(self._window.events(), self._window.held, size, now)
        self._visitor.handle(events, self._artist.buttons, now)
        self._point(now)
        is_open = self._is_open(self._wall_clock())
        needed = {"camera": is_open, "clip": self._shown_source == "clip"}
        for name, (capture, source) in self._sources.items():
            if not capture.supervised:
                raise broken(name, "its thread ended")
            if capture.rests == needed[name]:
                capture.switch(source if needed[name] else None)
        fresh = self._take_picture(now)
        self._decide(now, is_open)
        live = self._shown_source == "camera"
        if not ((fresh and live) or self._is_drawing_due(now)):
            if not live:
                time.sleep(POLL_S)
            return False
        self._draw(now)
        return True

    def end(self) -> None:
        self._stats.frames_captured = self.camera.frames.count
        self._stats.reconnects = self.camera.reconnects
        for capture, _ in self._sources.values():
            capture.end()
        self.network.thread.end()

    @property
    def answer(self) -> str:
        return self._answer.answer.name if self._answer.answer else ""

    @property
    def described(self) -> str:
        return f"{self.state} ({self.card})" if self.card else str(self.state)

    def _take_picture(self, now: float) -> bool:
        """Takes the newest pictures; returns whether the one that is shown is new."""
        source = self._shown_source
        frame = self._newest("camera", POLL_S if source == "camera" else 0.0)
        if frame and self._presence.look(frame.value, now):
            self._moved_at = now
        if source != "camera":
            clip_due = source == "clip" and self._is_drawing_due(now)
            frame = self._newest("clip") if clip_due else None
        if frame is None:
            return False
        self._shown = frame
        self.network.submit(frame.value, frame.time, now)
        return True

    def _newest(self, source: str, timeout_s: float = 0.0) -> Item[np.ndarray] | None:
        frame = self._sources[source][0].frames.newest(self._taken[source], timeout_s)
        if frame:
            self._taken[source] = frame.number
        return frame

    @property
    def _is_closed(self) -> bool:
        return self.state == ScreenState.CLOSED

    def _decide(self, now: float, is_open: bool) -> None:
        network = self.network.watch(now)
        camera = camera_fault(self.camera, now)
        loading = network is not None and network.card == "starting"
        self._fault = (network if loading else camera or network) if is_open else None
        card = self._fault.card if self._fault else ""
        before = self.described
        present = self._is_visitor_there(now, card)
        self.state = self._machine.step(now, is_open, card, present)
        self.card = card if self.state == ScreenState.CARD else ""
        if self.described != before:
            log.info("%s -> %s", before, self.described)
            if self.state == ScreenState.ACTIVE:
                self._visitor.visitor_came(now)
            elif self.state in (ScreenState.ATTRACT, ScreenState.CLOSED):
                self._visitor.visitor_left(now)
                machine.return_freed_memory()
            if self._is_closed:
                self._presence.forget()
        visited = self.state in (ScreenState.ACTIVE, ScreenState.IDLE)
        stays = self.card in OVER_CAMERA and self._shown_source == "camera"
        source = "" if self._is_closed else "camera" if visited or stays else "clip"
        if source != self._shown_source:
            self._shown_source = source
            self._shown = None
            self._maps_after = self.network.frames.count
            self._answer.reset()
            self.network.waiting_since = None  # a missing map is no fault

    def _is_visitor_there(self, now: float, card: str) -> bool:
        if self._presence.present and card not in BLIND:
            return True
        engine = self.network.engine
        if engine is None or not knows_nothing(engine):
            return False
        answer = self._answer.answer
        symbol_seen = answer is not None and answer.sure and self._shown_source == "camera"
        return symbol_seen and now - self._moved_at < SYMBOL_S

    def _is_drawing_due(self, now: float) -> bool:
        """Whether the screen has to be drawn even if no picture is new."""
        dark = self._is_closed and not (self.lock.asking or self.lock.held)
        fps = CLOSED_FPS if dark else self._config.kiosk.attract_fps
        return now - self._drawn_at >= 1 / fps

    def _draw(self, now: float) -> None:
        explained = self._newest_map()
        self._answer.update(explained)
        moment = Moment(
            now=now,
            state=self.state,
            since=self._machine.since,
            left_s=self._machine.countdown(now),
            source=self._shown_source,
            captions=self.captions[0 if self.lock.asking else self._visitor.language(now)],
            engine=self.network.engine,
            explained=explained,
            failing=bool(self.network.thread.failing),
            answer=self._answer.answer,
            explains=self._answer.belongs_to(explained),
            old=self._artist.elsewhere,
            network=self.network,
            touched=self._visitor.touched,
            held=self._visitor.held,
        )
        self._visitor.touched = ""
        for page in self._pages:
            page.update(moment)
        self.page = next(page for page in self._pages if page.due(moment))
        self._ask_network()
        self._show(moment)
        if self._shown_source == "camera" and self._shown and self.state != ScreenState.CARD:
            shown_at = time.monotonic()
            self._stats.frame_age_ms.append(1000 * (shown_at - self._shown.time))
            if explained:
                self._stats.map_age_ms.append(1000 * (shown_at - explained.frame.time))
        self._window.tend()
        self._drawn_at = now
        self._stats.frames_shown += 1

    def _point(self, now: float) -> None:
        """Notes the place of a segmentation that was touched, until `POINTED_S` later.

        A touch beside the picture or on background lets go.
        """
        touched = self._visitor.beside
        self._visitor.beside = None
        explained = self._newest_map()
        if now - self._pointed_at > POINTED_S or self.state != ScreenState.ACTIVE:
            self._pointed = None
        segments = explained.result.segments if explained else None
        if touched is None or explained is None or segments is None:
            return
        at = self._artist.place_at(*touched)
        if at:
            place = row_column(segments, explained.result.region.box, explained.picture.shape, at)
            if segments.classes[place] == explained.engine.explainer.background:
                at = None
        self._pointed = at
        self._pointed_at = now

    def _ask_network(self) -> None:
        """Asks for maps of what is seen while that is unsure; of all boxes.

        The best class of each picture, target top1, may then be another one; a sure answer is the
        best class nearly always. A game has its own target until it is closed.
        """
        targets = (page.target for page in self._pages if page.target)
        if target := next(targets, ""):  # a taught network has other classes than before
            self.network.ask(target)
            return
        seen = self._answer.seen
        engine = self.network.engine
        target = self._config.lrp.target
        if target == "top1" and seen and engine and not (seen.sure or engine.detects):
            target = str(seen.index)
        self.network.ask(target, self._pointed)

    def _newest_map(self) -> ExplainedFrame | None:
        """The newest map of a picture of the source that is shown."""
        item = self.network.thread.maps.newest()
        if item is None or item.value.frame.number <= self._maps_after:
            return None
        behind = self.network.frames.count - item.value.frame.number
        late = behind > MAX_CLIP_LAG_S * self._config.kiosk.attract_fps
        return None if late and self._shown_source != "camera" else item.value

    def _show(self, moment: Moment) -> None:
        self.screen = self._screen(moment)
        size = canvas_size(self._window.size)
        self._window.show(self._artist.draw(size, self.screen, moment.now))

    def _screen(self, moment: Moment) -> Screen:
        page = self.page
        lock = self.lock
        captions = moment.captions
        words = captions["leave"]
        kept = page.kept()
        explained = kept or moment.explained
        maps = self._paint(explained, self._look, self._outlined[self.captions.index(captions)])
        # A clip's pictures are too far apart for a map to follow the motion between them.
        with_own_map = explained is not None and (kept or self._shown_source == "clip")
        shown = explained.frame if explained and with_own_map else self._shown
        told = words["wrong" if lock.wrong else "pin"]
        if lock.wait_s:
            told = with_seconds(words["wait"], lock.wait_s)
        return Screen(
            picture=shown.value if shown else None,
            explained=maps if kept or page.shows_map(moment) else None,
            page=None if self._is_closed else drawn_page(page, moment, self.captions, self._pages),
            card=self._card(moment),
            pad=(words["title"], told, lock.typed) if lock.asking else None,
            held=lock.held,
        )

    def _card(self, moment: Moment) -> tuple[str, str] | None:
        captions = moment.captions
        if self._is_closed:
            return None
        if self._visitor.privacy(moment.now):
            return captions["privacy"]["title"], captions["privacy"]["text"]
        if self.state == ScreenState.CARD and self._fault:
            card = captions["cards"][self._fault.card]
            return card["title"], with_seconds(card["text"], self._fault.remaining_s)
        return None
