"""The exhibit, turn by turn, on the main thread: it listens, looks, decides and draws."""

import functools
import logging
import time
from collections.abc import Callable, Sequence
from datetime import datetime

import numpy as np

from realtime_lrp.commands.kiosk.captions import Captions
from realtime_lrp.commands.kiosk.lock import ExitLock
from realtime_lrp.commands.kiosk.pages import PageBuilder
from realtime_lrp.commands.kiosk.relevance_part import RelevancePart
from realtime_lrp.commands.kiosk.restarts import Fault, RestartBudget
from realtime_lrp.commands.kiosk.screen import ScreenArtist, ScreenContent, canvas_size
from realtime_lrp.commands.kiosk.source_part import SourcePart
from realtime_lrp.commands.kiosk.sources import ClipSource, camera_opener, checked_and_mirrored
from realtime_lrp.commands.kiosk.states import Observation, State, StateMachine
from realtime_lrp.commands.kiosk.temperature import TemperatureWatch
from realtime_lrp.commands.kiosk.visitor import NOTHING, SmoothedAnswer, VisitorChoices
from realtime_lrp.config import Config
from realtime_lrp.config.hours import parse_hours
from realtime_lrp.engine.engine import Engine
from realtime_lrp.realtime.capture import OpenSource
from realtime_lrp.realtime.explaining import ExplainedFrame
from realtime_lrp.realtime.latest import Item
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.system import memory
from realtime_lrp.video.presence import Presence
from realtime_lrp.view.colormaps import by_sign
from realtime_lrp.view.exhibit import Page
from realtime_lrp.view.scene import Look
from realtime_lrp.view.text import undrawable
from realtime_lrp.view.window.full_screen import FullScreen
from realtime_lrp.view.window.window import Mouse

CLOSED_FPS = 2.0
POLL_S = 0.02
"""So long a turn of the loop waits for a picture, or for the next drawing."""

TYPING_S = 0.001
"""The same while a PIN is typed: OpenCV keeps one key of those that come between two turns."""

PAIR_S = 2.0
"""Of a clip the pictures are shown with their own maps, unless these come later than this."""

SYMBOL_S = 300.0
"""A symbol counts as somebody for so long after the last motion: one may be left lying about."""

SWAP_S = 600.0
"""Seconds after which picture and page change sides, while nobody is there."""

BLIND = ("starting", "camera", "staff", "frozen", "dark")
"""Cards of a camera that sees nobody."""

BEHIND_CAMERA = ("network", "slow", "hot")
"""Cards that have the camera's picture behind them if it was there before."""

log = logging.getLogger(__name__)


class NullWindow:
    """Stands for the window where there is none."""

    size = (720, 1280)
    reopened = 0

    def events(self) -> list[str | Mouse]:
        """Nothing happens."""
        return []

    def show(self, picture: np.ndarray) -> None:
        """Shows nothing."""

    def tend(self) -> None:
        """Nothing is to be done."""

    def close(self) -> None:
        """Nothing is to be taken away."""


class Kiosk:
    """The exhibit.

    Args:
      config: the effective configuration.
      captions: in every language.
      window: where it is shown, like `FullScreen`.
      stats: counts pictures and maps.
      open_camera: opens the camera; None: the one of the configuration.
      clock: seconds that never go back.
      wall: date and time, for the opening hours.

    Attributes:
      state: what is shown.
      card: the name of the card that is shown, or "".
      budget: counts restarts.
      camera, network: the parts that are watched.
    """

    def __init__(
        self,
        config: Config,
        captions: Sequence[Captions],
        window: FullScreen | NullWindow,
        stats: Stats,
        open_camera: OpenSource | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = datetime.now,
    ):
        kiosk, now = config.kiosk, clock()
        self._config, self._captions, self._window, self._stats = config, captions, window, stats
        self._clock, self._wall = clock, wall
        self._hours = parse_hours(kiosk.hours)
        self._machine = StateMachine(kiosk.idle_seconds, kiosk.countdown_seconds, now)
        self._visitor = VisitorChoices(len(captions), kiosk.language_seconds, now)
        self._lock = ExitLock(kiosk.exit_key, kiosk.exit_corner, kiosk.pin)
        self._presence, self._answer, self._heat = (
            Presence(),
            SmoothedAnswer(),
            TemperatureWatch(kiosk.hot),
        )
        self.budget = RestartBudget()
        self.camera = SourcePart(
            "camera",
            open_camera or camera_opener(config),
            lambda picture: checked_and_mirrored(picture, config.input.mirror),
            self.budget,
        )
        open_clips = functools.partial(ClipSource, kiosk.clips, self._note)
        self._clip = SourcePart("clip", open_clips, lambda picture: picture, self.budget)
        self.network = RelevancePart(config, stats, self.budget, now)
        self._prepared_for: Engine | None = None
        self._stage, self._exhibit = self._prepared(signed=False)
        self.state, self.card = self._machine.state, "starting"
        self._trouble: Fault | None = Fault("starting")
        self._on_stage, self._maps_after = "clip", 0
        self._shown: Item[np.ndarray] | None = None
        self._moved_at = -SYMBOL_S
        self._swapped = False
        self._drawn_at = -1.0

    @property
    def left(self) -> bool:
        """Whether the staff left it."""
        return self._lock.opened

    def step(self) -> bool:
        """One turn of the loop; whether the screen was drawn.

        Raises:
          Error: the network cannot be loaded, and never was.
          TemporaryError: a part had to be started again too often.
        """
        now = self._clock()
        self._listen(now)
        self._tend(now)
        fresh = self._look(now)
        self._decide(now)
        if not self._due(now, fresh):
            return False
        self._draw(now)
        return True

    def end(self) -> None:
        """Closes the account and gives the camera back."""
        self._stats.frames_captured = self.camera.captured
        self._stats.reconnects = self.camera.reconnects
        for part in (self.camera, self._clip):
            part.release()
        self.network.end()

    @property
    def temperature(self) -> float | None:
        """Degrees Celsius of the processor, None where that is not known."""
        return self._heat.temperature

    @property
    def answer(self) -> str:
        """The class that the network sees, "" for none."""
        return self._answer.name

    @property
    def opens(self) -> datetime | None:
        """When it opens; None while it is open."""
        now = self._wall()
        return None if self._hours.is_open(now) else self._hours.next_change(now)

    def _listen(self, now: float) -> None:
        size = canvas_size(self._window.size)
        events = self._window.events()
        if self._window.reopened > self.budget.spent["window"]:  # what was held there is let go
            self.budget.spent["window"] = self._window.reopened
            self._lock.let_go()
            events = [*events, Mouse(0, 0, "")]
        events = self._lock.handle(events, size, now)
        self._visitor.handle(events, self._stage.places, now)

    def _tend(self, now: float) -> None:
        self._open = self._hours.is_open(self._wall())
        self.camera.tend(self._open, now)
        self._clip.tend(self._on_stage == "clip", now)
        self.network.tend(now)
        engine = self.network.engine
        if engine and engine is not self._prepared_for:
            self._prepared_for = engine
            self._stage, self._exhibit = self._prepared(engine.explainer.signed)
            self._check_labels(engine)

    def _look(self, now: float) -> bool:
        """Takes in the newest pictures; whether the one on the stage is new."""
        live = self._on_stage == "camera"
        wait_s = POLL_S if live and not self._lock.asking else 0.0
        frame = self.camera.newest(wait_s)
        if frame and self._presence.look(frame.value, now):
            self._moved_at = now
        if not live:
            frame = None
            if self._is_time(now) and self._on_stage == "clip":
                frame = self._clip.newest(0.0)
        if frame is None:
            return False
        self._shown = frame
        if self._rests:
            self.network.rest()
        else:
            self.network.show(frame.value, frame.time, now)
        return True

    @property
    def _rests(self) -> bool:
        """Whether the network has to cool down."""
        return self._trouble is not None and self._trouble.card == "hot"

    def _decide(self, now: float) -> None:
        self._trouble = self._what_is_wrong(now) if self._open else None
        card = self._trouble.card if self._trouble else ""
        seen = Observation(now, self._open, card, self._is_somebody_there(now, card))
        before = self.state, self.card
        self.state = self._machine.step(seen)
        self.card = card if self.state == State.CARD else ""
        if (self.state, self.card) != before:
            self._changed(*before, now)
        if self.state in (State.ATTRACT, State.CARD):
            self._swapped = bool(int(now / SWAP_S) % 2)

    def _what_is_wrong(self, now: float) -> Fault | None:
        network, camera = self.network.trouble(now), self.camera.trouble(now)
        if network and network.card == "starting":
            return network
        return self._heat.trouble(now) or camera or network

    def _is_somebody_there(self, now: float, card: str) -> bool:
        if self._presence.present and card not in BLIND:
            return True
        knows_nothing = self.network.engine and NOTHING in (
            self.network.engine.network.labels or ()
        )
        symbol = bool(knows_nothing and self._answer.name and self._on_stage == "camera")
        return symbol and now - self._moved_at < SYMBOL_S

    def _changed(self, state: State, card: str, now: float) -> None:
        words = (f"{state} ({card})" if card else state, self.described)
        log.info("%s -> %s", *words)
        if self.state == State.CLOSED:
            self._presence.forget()
        elif self.state == State.ATTRACT:
            self._visitor.go(now)
            memory.give_back()
        elif self.state == State.ACTIVE:
            self._visitor.come(now)
        on_stage = self._what_is_on_stage()
        if on_stage != self._on_stage:
            self._on_stage, self._shown = on_stage, None
            self._maps_after = self.network.shown
            self._answer.hear(None)
            self.network.rest()

    @property
    def described(self) -> str:
        """The state, and the card."""
        return f"{self.state} ({self.card})" if self.card else str(self.state)

    def _what_is_on_stage(self) -> str:
        if self.state == State.CLOSED:
            return ""
        if self.state in (State.ACTIVE, State.IDLE):
            return "camera"
        keeps = self.state == State.CARD and self.card in BEHIND_CAMERA
        return "camera" if keeps and self._on_stage == "camera" else "clip"

    def _is_time(self, now: float) -> bool:
        """Whether the screen is drawn although nothing is new."""
        rests = self.state == State.CLOSED and not (self._lock.asking or self._lock.held)
        fps = CLOSED_FPS if rests else self._config.kiosk.attract_fps
        return now - self._drawn_at >= 1 / fps

    def _due(self, now: float, fresh: bool) -> bool:
        if (fresh and self._on_stage == "camera") or self._is_time(now):
            return True
        if self._on_stage != "camera":
            time.sleep(TYPING_S if self._lock.asking else POLL_S)
        return False

    def _draw(self, now: float) -> None:
        size, made = canvas_size(self._window.size), self._made()
        self._answer.hear(made)
        view = None if self.state == State.CLOSED else self._view(made, now)
        words = self._captions[0 if self._lock.asking else self._visitor.language(now)]
        canvas = self._stage.draw(size, view, words, self._lock, now)
        self._count(made)
        self._window.show(canvas)
        self._window.tend()
        self._drawn_at = now
        self._stats.frames_shown += 1

    def _made(self) -> ExplainedFrame | None:
        """The newest map of what is on the stage."""
        made = None if self._rests else self.network.newest(self._maps_after)
        if made is None or self._on_stage == "camera":
            return made
        behind = self.network.shown - made.frame.number
        return made if behind <= PAIR_S * self._config.kiosk.attract_fps else None

    def _view(self, made: ExplainedFrame | None, now: float) -> ScreenContent:
        # A clip's pictures are too far apart for a map to be carried along.
        shown = made.frame if made and self._on_stage == "clip" else self._shown
        return ScreenContent(
            picture=shown.value if shown else None,
            made=made if self._answer.is_of(made) else None,
            page=self._page(now),
            trouble=self._trouble if self.state == State.CARD else None,
            privacy=self._visitor.privacy(now),
            swapped=self._swapped,
        )

    def _page(self, now: float) -> Page:
        language, machine, exhibit = self._visitor.language(now), self._machine, self._exhibit
        if self.state == State.IDLE:
            return exhibit.idle(language, machine.countdown(now), machine.countdown_s)
        if self._on_stage == "camera":
            answer = self._answer
            return exhibit.active(language, answer.name, answer.share, now - machine.since)
        return exhibit.attract(language, now)

    def _count(self, made: ExplainedFrame | None) -> None:
        if self._on_stage == "camera" and self._shown and self.state != State.CARD:
            now = time.monotonic()
            self._stats.frame_age_ms.append(1000 * (now - self._shown.time))
            if made:
                self._stats.map_age_ms.append(1000 * (now - made.frame.time))

    def _note(self, error: str) -> None:
        self.budget.note(error, self._clock())

    def _check_labels(self, engine: Engine) -> None:
        """Tells which letters of the network's own names the fonts lack."""
        letters = dict.fromkeys("".join(engine.network.labels or ()))
        if lacking := undrawable("".join(letters)):
            text = f"labels: the fonts have no {' '.join(lacking)}; translate them in the captions"
            log.warning("%s", text)
            self._note(text)

    def _prepared(self, signed: bool) -> tuple[ScreenArtist, PageBuilder]:
        """What draws maps that can be negative, or cannot."""
        overlay = self._config.overlay
        colormap = overlay.colormap or by_sign(signed)
        stage = ScreenArtist(Look(colormap, overlay.opacity, overlay.style, overlay.follow))
        drawing = self._config.model.name == "shapes"
        return stage, PageBuilder(tuple(self._captions), drawing, colormap, signed)
