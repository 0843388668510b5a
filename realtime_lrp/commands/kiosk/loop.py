"""The exhibit's main loop, one turn at a time: read input, take pictures, decide, draw."""

import functools
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

import numpy as np

from realtime_lrp.commands.kiosk.camera import ClipSource, SourcePart
from realtime_lrp.commands.kiosk.keys import ExitLock, VisitorChoices
from realtime_lrp.commands.kiosk.moment import Moment
from realtime_lrp.commands.kiosk.network import RelevancePart, SmoothedAnswer, knows_nothing
from realtime_lrp.commands.kiosk.pages import drawn_page, pages_of, with_captions
from realtime_lrp.commands.kiosk.screen import Screen, ScreenArtist, canvas_size
from realtime_lrp.commands.kiosk.settings import load_captions, with_seconds
from realtime_lrp.commands.kiosk.states import Fault, ScreenState, StateMachine
from realtime_lrp.config import Config
from realtime_lrp.config.values import parse_hours
from realtime_lrp.engine.segments import row_column
from realtime_lrp.realtime.capture import OpenSource
from realtime_lrp.realtime.explaining import ExplainedFrame
from realtime_lrp.realtime.latest import Item
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.realtime.viewer.maps import MapPainter
from realtime_lrp.system import machine
from realtime_lrp.video.cameras import CameraSettings
from realtime_lrp.video.pictures import mirrored
from realtime_lrp.video.presence import Presence
from realtime_lrp.video.sources import open_source
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

    `screen` is what was drawn last.
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
        self.captions = load_captions(kiosk.languages, kiosk.captions)
        self._stats = stats
        self._clock = clock
        self._wall_clock = wall_clock
        self._is_open = parse_hours(kiosk.hours)
        self._machine = StateMachine(kiosk.idle_seconds, kiosk.countdown_seconds, now)
        self._visitor = VisitorChoices(len(self.captions), now)
        self._lock = ExitLock(kiosk.pin)
        self._presence = Presence()
        self._answer = SmoothedAnswer(kiosk.sure, kiosk.perhaps, config.lrp.target == "top1")
        self.camera = SourcePart(
            "camera",
            open_camera
            or functools.partial(open_source, live.source, camera=CameraSettings.of(live)),
            functools.partial(mirrored, mirror=config.input.mirror),
        )
        open_clips = functools.partial(ClipSource, kiosk.clips)
        self._clip = SourcePart("clip", open_clips, lambda picture: picture)
        self._look = Look.of(config.overlay)
        self._artist = ScreenArtist(self._look)
        self._paint = MapPainter()
        self._pages = pages_of(config)
        self.page = self._pages[-1]
        self.screen = Screen()
        self.state = self._machine.state
        self.card = "starting"
        self._open = True
        self._pointed: tuple[float, float] | None = None  # see `_point`
        self._pointed_at = -POINTED_S
        self._fault: Fault | None = Fault("starting")
        self._shown_source = "clip"  # or "camera", or "" while closed
        self._shown: Item[np.ndarray] | None = None
        self._maps_after = 0  # maps of earlier pictures belong to another source
        self._moved_at = -SYMBOL_S
        self._drawn_at = -1.0
        self._show_first_card(now)
        self.network = RelevancePart(config, stats, now)

    @property
    def left(self) -> bool:
        return self._lock.opened

    def step(self) -> bool:
        """One turn; returns whether the screen was drawn.

        Raises:
          Error: the network never loaded, and only another configuration can mend that.
          TemporaryError: a part is broken.
        """
        now = self._clock()
        size = canvas_size(self._window.size)
        events = self._lock.handle(self._window.events(), self._window.held, size, now)
        self._visitor.handle(events, self._artist.buttons, now)
        self._point(now)
        self._open = self._is_open(self._wall_clock())
        self.camera.update(self._open, now)
        self._clip.update(self._shown_source == "clip", now)
        self.network.update(now)
        fresh = self._take_picture(now)
        self._decide(now)
        if not self._is_drawing_due(now, fresh):
            return False
        self._draw(now)
        return True

    def end(self) -> None:
        self._stats.frames_captured = self.camera.captured
        self._stats.reconnects = self.camera.reconnects
        for part in (self.camera, self._clip):
            part.release()
        self.network.stop()

    @property
    def answer(self) -> str:
        return self._answer.answer.name if self._answer.answer else ""

    @property
    def described(self) -> str:
        return f"{self.state} ({self.card})" if self.card else str(self.state)

    def _show_first_card(self, now: float) -> None:
        """Shows a card before the import of TensorFlow keeps the processor busy."""
        with suppress(Exception):  # the loop draws next, and handles what fails
            self._show(Moment(now, self.state, now, 0.0, "clip", self.captions[0]))
            self._window.events()  # lets the window paint it

    def _take_picture(self, now: float) -> bool:
        """Takes the newest pictures; returns whether the one that is shown is new."""
        source = self._shown_source
        frame = self.camera.newest(POLL_S if source == "camera" else 0.0)
        if frame and self._presence.look(frame.value, now):
            self._moved_at = now
        if source != "camera":
            clip_due = source == "clip" and self._is_next_drawing_due(now)
            frame = self._clip.newest(0.0) if clip_due else None
        if frame is None:
            return False
        self._shown = frame
        self.network.submit(frame.value, frame.time, now)
        return True

    @property
    def _is_closed(self) -> bool:
        return self.state == ScreenState.CLOSED

    def _decide(self, now: float) -> None:
        network = self.network.fault(now)
        camera = self.camera.fault(now)
        loading = network is not None and network.card == "starting"
        self._fault = (network if loading else camera or network) if self._open else None
        card = self._fault.card if self._fault else ""
        before = self.described
        present = self._is_visitor_there(now, card)
        self.state = self._machine.step(now, self._open, card, present)
        self.card = card if self.state == ScreenState.CARD else ""
        if self.described != before:
            log.info("%s -> %s", before, self.described)
            self._enter_state(now)
        source = self._source_of_state()
        if source != self._shown_source:
            self._shown_source = source
            self._shown = None
            self._maps_after = self.network.submitted
            self._answer.reset()
            self.network.pause()

    def _is_visitor_there(self, now: float, card: str) -> bool:
        if self._presence.present and card not in BLIND:
            return True
        engine = self.network.engine
        if engine is None or not knows_nothing(engine):
            return False
        answer = self._answer.answer
        symbol_seen = answer is not None and answer.sure and self._shown_source == "camera"
        return symbol_seen and now - self._moved_at < SYMBOL_S

    def _enter_state(self, now: float) -> None:
        if self.state == ScreenState.CLOSED:
            self._presence.forget()
            self._visitor.visitor_left(now)
        elif self.state == ScreenState.ATTRACT:
            self._visitor.visitor_left(now)
            machine.return_freed_memory()
        elif self.state == ScreenState.ACTIVE:
            self._visitor.visitor_came(now)

    def _source_of_state(self) -> str:
        """Whose pictures the present state shows: "camera", "clip" or ""."""
        if self.state == ScreenState.CLOSED:
            return ""
        if self.state in (ScreenState.ACTIVE, ScreenState.IDLE):
            return "camera"
        stays = self.card in OVER_CAMERA and self._shown_source == "camera"
        return "camera" if stays else "clip"

    def _is_next_drawing_due(self, now: float) -> bool:
        """Whether the screen has to be drawn even if no picture is new."""
        dark = self._is_closed and not (self._lock.asking or self._lock.held)
        fps = CLOSED_FPS if dark else self._config.kiosk.attract_fps
        return now - self._drawn_at >= 1 / fps

    def _is_drawing_due(self, now: float, fresh: bool) -> bool:
        live = self._shown_source == "camera"
        if (fresh and live) or self._is_next_drawing_due(now):
            return True
        if not live:
            time.sleep(POLL_S)
        return False

    def _draw(self, now: float) -> None:
        explained = self._newest_map()
        self._answer.update(explained)
        moment = Moment(
            now=now,
            state=self.state,
            since=self._machine.since,
            left_s=self._machine.countdown(now),
            source=self._shown_source,
            captions=self.captions[0 if self._lock.asking else self._visitor.language(now)],
            engine=self.network.engine,
            explained=explained,
            failing=self.network.failing,
            answer=self._answer.answer,
            explains=self._answer.belongs_to(explained),
            old=self._artist.elsewhere,
            network=self.network,
            touched=self._visitor.touched(),
        )
        for page in self._pages:
            page.update(moment)
        self.page = next(page for page in self._pages if page.due(moment))
        self._ask_network()
        self._show(moment)
        self._count_ages(explained)
        self._window.tend()
        self._drawn_at = now
        self._stats.frames_shown += 1

    def _show(self, moment: Moment) -> None:
        self.screen = self._screen(moment)
        size = canvas_size(self._window.size)
        self._window.show(self._artist.draw(size, self.screen, moment.now))

    def _point(self, now: float) -> None:
        """Notes the place of a segmentation that was touched, until `POINTED_S` later.

        A touch beside the picture or on background lets go.
        """
        touched = self._visitor.beside
        self._visitor.beside = None
        explained = self._newest_map()
        if now - self._pointed_at > POINTED_S or self.state != ScreenState.ACTIVE:
            self._pointed = None
        if touched is None or explained is None or explained.result.segments is None:
            return
        at = self._artist.place_at(*touched)
        segments = explained.result.segments
        if at:
            seen = explained.result.region.box
            shape = explained.picture.shape
            place = row_column(segments, seen, shape, at)
            empty = segments.classes[place] == explained.engine.explainer.background
            at = None if empty else at
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
        target = self._config.lrp.target
        unsure = target == "top1" and seen is not None and not seen.sure
        unsure = unsure and not (self.network.engine and self.network.engine.detects)
        self.network.ask(str(seen.index) if seen and unsure else target, self._pointed)

    def _newest_map(self) -> ExplainedFrame | None:
        explained = self.network.newest(self._maps_after)
        if explained is None or self._shown_source == "camera":
            return explained
        behind = self.network.submitted - explained.frame.number
        return explained if behind <= MAX_CLIP_LAG_S * self._config.kiosk.attract_fps else None

    def _screen(self, moment: Moment) -> Screen:
        page = self.page
        lock = self._lock
        words = moment.captions["leave"]
        kept = page.kept()
        explained = kept or moment.explained
        maps = self._paint(explained, self._look)
        if maps and explained and (explained.result.found or explained.result.segments):
            maps = with_captions(maps, explained, moment.captions)
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

    def _count_ages(self, explained: ExplainedFrame | None) -> None:
        """Notes how old the picture and the map on the screen are."""
        if self._shown_source == "camera" and self._shown and self.state != ScreenState.CARD:
            now = time.monotonic()
            self._stats.frame_age_ms.append(1000 * (now - self._shown.time))
            if explained:
                self._stats.map_age_ms.append(1000 * (now - explained.frame.time))
