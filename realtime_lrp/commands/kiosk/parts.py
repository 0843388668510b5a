"""The parts that can fail, and what is wrong with them: the camera, the clips, the network."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from realtime_lrp.config import ASSETS, Config
from realtime_lrp.errors import (
    DamagedInputError,
    Error,
    MissingInputError,
    TemporaryError,
    UnavailableError,
    UsageError,
    first_line,
    masked,
)
from realtime_lrp.realtime.capture import DARK, FROZEN, Capture
from realtime_lrp.realtime.explaining import RelevanceThread, first_request
from realtime_lrp.realtime.latest import Slot
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.video.files import PICTURES, VIDEOS, inputs_of
from realtime_lrp.video.source import PictureSource
from realtime_lrp.video.sources import open_files
from realtime_lrp.view.text import undrawable

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine
    from realtime_lrp.teaching.teacher import Teacher

CLIP = ASSETS / "demo.mp4"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Fault:
    """The reason why the exhibit shows no maps: its card, and seconds until it should be over."""

    card: str
    remaining_s: float = 0.0


def broken(part: str, why: str) -> TemporaryError:
    """Ends the process, for what only a new one mends."""
    return TemporaryError(
        f"The {part} is broken: {masked(why)}. The service manager starts the exhibit again."
    )


RETRY_S = 2.0  # seconds that the card of a camera counts down before its first picture has come
OPENING_S = 10.0  # seconds that a camera may take for its first picture before a card says so
CLIP_S = 15.0  # seconds that a clip may take for its first picture, which a new process reads
GONE_S = 60.0  # seconds without the camera after which the card asks for the staff


def camera_fault(camera: Capture, now: float) -> Fault | None:
    """What is wrong with a camera, at a time in seconds; None also while it is released."""
    missing_s = now - camera.good_at
    begins = camera.begins
    trouble = camera.trouble  # another thread may change both
    if camera.rests or not (begins or trouble):
        return None
    if begins:
        return Fault("camera" if missing_s > OPENING_S else "starting", RETRY_S)
    card = {FROZEN: "frozen", DARK: "dark"}.get(trouble, "camera")
    if card == "camera" and missing_s > GONE_S:
        card = "staff"
    return Fault(card, camera.next_try - now)


def open_clips(clips: Sequence[str], stop: threading.Event) -> PictureSource:
    """Plays clips in a loop; the included clip if there are none, or they do not play."""

    def pictures() -> Iterator[np.ndarray]:
        try:
            yield from _played(clips or [str(CLIP)], stop)
        except Error as error:
            log.warning("the clips cannot be played, using the included one: %s", first_line(error))
            yield from _played([str(CLIP)], stop)

    source = PictureSource(pictures(), stop)
    source.patience_s = CLIP_S
    return source


def _played(clips: Sequence[str], stop: threading.Event) -> Iterator[np.ndarray]:
    with open_files(inputs_of(clips, PICTURES + VIDEOS, "clip"), stop) as playback:
        while (picture := playback.read()) is not None:
            yield picture


SLOW_S, HUNG_S = 5.0, 20.0  # seconds without a map until a card says so, until the process ends
SLOW_FACTOR, HUNG_FACTOR = 3, 8  # times its last map for which a slow network has time instead
FAILING_S = 30.0  # seconds of errors after which only a new process can help
LOADING_S = 900.0  # seconds that loading, downloading included, may take
ASLEEP_S = 2.0  # after a gap this long between two looks waiting for a map starts anew
OFFLINE_S = 30.0  # seconds until the next try after a failed download of weights

PERMANENT = UsageError, DamagedInputError, MissingInputError, ImportError
"""Loading errors that no retry mends."""


class RelevancePart:
    """The relevance `thread`, started again while its weights cannot be downloaded."""

    def __init__(self, config: Config, stats: Stats, now: float):
        self.engine: Engine | None = None  # the newest map's; None before the first
        # What is wrong with a gallery, which is not shown, must not keep the network from loading.
        self._config = config.changed(concepts={"gallery": None, "names": None})
        self._stats = stats
        self.frames: Slot[np.ndarray] = Slot()  # what is explained
        self._start(now)

    def _start(self, now: float) -> None:
        self._untaught: Engine | None = None  # the network before the first lesson
        self.thread = RelevanceThread(
            self._config, self.frames, first_request(self._config), self._stats,
            changeable=self._config.kiosk.teach,
        )  # fmt: skip
        self.thread.start()
        self._started_at = self._watched_at = now
        self._failing_since: float | None = None
        self._restart_at: float | None = None
        self.waiting_since: float | None = None  # when the picture was submitted
        self._maps = 0

    def submit(self, picture: np.ndarray, captured: float, now: float) -> None:
        self.frames.put(picture, captured)
        if self.waiting_since is None:
            self.waiting_since = now

    def ask(self, target: str, at: tuple[float, float] | None = None) -> None:
        """Asks for maps of a target, of a segmentation at a place, as configured without one."""
        request = self.thread.request
        aim = replace(request.aim, at=at or first_request(self._config).aim.at)
        if (target, aim) != (request.target, request.aim):
            self.thread.request = replace(request, target=target, aim=aim)

    def teach(self, classes: Sequence[str]) -> Teacher:
        """Begins a lesson, which `forget` ends; nothing of it is written."""
        from realtime_lrp.teaching.lesson import Lesson  # these import TensorFlow
        from realtime_lrp.teaching.teacher import Teacher

        self._untaught = self._untaught or self.thread.engine  # the engine may be a taught one
        return Teacher(Lesson(classes), self.frames, self.thread, lambda *_: "").__enter__()

    def forget(self, teacher: Teacher) -> None:
        """Ends a lesson, and goes back to the network before it."""
        teacher.end()
        if self._untaught and self.thread.engine_cache:
            self.thread.engine_cache.exchange(self._untaught, self.thread.choice)

    def watch(self, now: float) -> Fault | None:
        """Notes new maps and errors; returns the fault that keeps maps from coming.

        Raises:
          Error: the network never loaded, and only another configuration can mend that.
          TemporaryError: the thread ended, hangs or keeps failing.
        """
        if self._restart_at is not None and now >= self._restart_at:
            self._start(now)
        thread = self.thread
        if now - self._watched_at > ASLEEP_S and self.waiting_since is not None:
            self.waiting_since = now  # the process itself was stopped
        self._watched_at = now
        if not thread.failing:
            self._failing_since = None
        if thread.maps.count != self._maps:
            self._maps = thread.maps.count
            self.waiting_since = None
            self._note_engine(thread.engine)
        if self._restart_at is None and not thread.alive:
            self._note_end()
            self._restart_at = now + OFFLINE_S
        if self._restart_at is not None:
            return Fault("network", self._restart_at - now)
        waited_s = 0.0 if self.waiting_since is None else now - self.waiting_since
        if thread.failing:
            self._failing_since = self._failing_since or now
            _check(now - self._failing_since, FAILING_S, "it keeps failing")
            return Fault("network", 1.0)
        if self.engine is None:
            _check(now - self._started_at, LOADING_S, "loading takes too long")
            return Fault("starting")
        # a network that always needs long has longer
        last_s = self._stats.map_ms[-1] / 1000 if self._stats.map_ms else 0.0
        longest_s = max(HUNG_S, HUNG_FACTOR * last_s)
        _check(waited_s, longest_s, "it hangs")
        slow = waited_s > max(SLOW_S, SLOW_FACTOR * last_s)
        return Fault("slow", longest_s - waited_s) if slow else None

    def _note_engine(self, engine: Engine | None) -> None:
        """Remembers it; the log says once which letters of its labels the fonts lack."""
        labels = engine.network.labels if engine and engine is not self.engine else None
        if missing := undrawable("".join(dict.fromkeys("".join(labels or ())))):
            told = "labels: the fonts have no %s; translate them in the captions"
            log.warning(told, " ".join(missing))
        self.engine = engine

    def _note_end(self) -> None:
        """The thread ended: logs that its weights cannot be downloaded, or raises the reason."""
        why = "its thread ended"
        try:
            self.thread.check()
        except Exception as error:
            why = first_line(error)
            if self.engine is None and isinstance(error, UnavailableError):
                log.warning("the network cannot be loaded, trying again: %s", masked(why))
                return
            if self.engine is None and isinstance(error, PERMANENT):
                raise
        raise broken("network", why)


def _check(waited_s: float, longest_s: float, why: str) -> None:
    if waited_s > longest_s:
        raise broken("network", why)
