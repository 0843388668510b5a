"""`live`: camera, relevance and window, each at its own pace.

    capture thread -> [newest frame] -> relevance thread -> [newest map] -> render loop -> window

The render loop, on the main thread, shows each new frame at once with the newest map over it.
"""

import functools
import logging
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from realtime_lrp.config import Config
from realtime_lrp.modes.engine import VIEWER_COMPOSITE, Engine, Result, turned
from realtime_lrp.modes.stats import Stats
from realtime_lrp.video.capture import Capture
from realtime_lrp.video.files import check_output
from realtime_lrp.video.slot import Item, Slot
from realtime_lrp.video.sources import open_source
from realtime_lrp.view.follow import Follower
from realtime_lrp.view.overlay import Layer, Painter, lay_over
from realtime_lrp.view.text import draw_lines
from realtime_lrp.view.window import Window, require_display

log = logging.getLogger(__name__)

POLL_S = 0.02
STOP_S = 2.0


@dataclass(frozen=True)
class Map:
    """A finished map.

    Attributes:
      layer: its picture.
      frame: what it explains.
      line: the best label with its score.
    """

    layer: Layer
    frame: Item[np.ndarray]
    line: str

    @functools.cached_property
    def follower(self) -> Follower:
        """Carries the layer along."""
        return Follower(self.frame.value, self.layer)

    def layer_on(self, frame: Item[np.ndarray], follow: str) -> Layer | None:
        """The layer for a frame; None where the frame has another size."""
        if frame.value.shape != self.frame.value.shape:
            return None
        if follow == "flow" and frame.number != self.frame.number:
            return self.follower(frame.value)
        return self.layer


class RelevanceThread:
    """Loads the network, then explains the newest frame again and again.

    Attributes:
      maps: the slot that holds the newest map.
      engine: the network, None while it is loaded.
    """

    def __init__(self, config: Config, frames: Slot[np.ndarray]):
        self.maps: Slot[Map] = Slot()
        self.engine: Engine | None = None
        self._config = config
        self._frames = frames
        self._stats: Stats | None = None
        self._begin = threading.Event()
        self._error: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="relevance", daemon=True)

    def __enter__(self) -> "RelevanceThread":
        self._thread.start()
        return self

    def __exit__(self, *exception) -> None:
        self._stop.set()
        self._begin.set()
        self._thread.join(STOP_S)

    def check(self) -> None:
        """Raises what ended the thread."""
        if self._error is not None:
            raise self._error

    def begin(self, stats: Stats) -> None:
        """Lets it explain what is captured from now on, and count its maps."""
        self._stats = stats
        self._begin.set()

    def _run(self) -> None:
        try:
            self.engine = Engine(self._config, VIEWER_COMPOSITE, moving=True)
            in_sync = self._config.overlay.follow == "sync"
            painter = self.engine.painter(0.0) if in_sync else self.engine.painter()
            self._begin.wait()
            number, begun = self._frames.count, deque()
            while not self._stop.is_set():
                frame = self._frames.newest(after=number, timeout_s=0 if begun else 0.1)
                if frame is not None:
                    number = frame.number
                    begun.append((frame, time.monotonic(), self.engine.begin([frame.value])))
                if begun and (frame is None or len(begun) == self.engine.in_flight):
                    self._finish(*begun.popleft(), painter)
        except Exception as error:
            self._error = error

    def _finish(
        self,
        frame: Item[np.ndarray],
        begin: float,
        results: Callable[[], list[Result]],
        painter: Painter,
    ) -> None:
        (result,) = results()
        line = self.engine.line(result)
        layer = self.engine.layer(painter, result)
        seconds = time.monotonic() - begin
        if not self._stats.maps:
            log.info("first map after %.1f s of preparation", seconds)
        self._stats.map_made(1, seconds)
        self.maps.put(Map(layer, frame, line), frame.time)


class View:
    """Composes what is shown: the newest frame, the newest map over it, and the figures.

    Frames that were captured before the view existed do not count.

    Args:
      capture: where frames come from.
      maps: where maps come from.
      stats: counts frames.
      show: gets each composed picture, uint8 [H, W, 3] RGB.
      follow: as the configuration has it.
    """

    def __init__(
        self,
        capture: Capture,
        maps: Slot[Map],
        stats: Stats,
        show: Callable[[np.ndarray], None],
        follow: str = "flow",
    ):
        self._follow = follow
        self._capture = capture
        self._maps = maps
        self._stats = stats
        self._show = show
        self._missed = capture.frames.count
        self._frame: Item[np.ndarray] | None = None
        self._drawn: tuple | None = None
        self._drawn_map = 0
        self._frame_meter, self._map_meter = Meter(), Meter()

    def step(self) -> None:
        """Shows the next frame if one comes within `POLL_S`; redraws if a map came instead."""
        before = self._frame.number if self._frame else self._missed
        if self._follow == "sync":
            newest_map = self._maps.newest(self._drawn_map, timeout_s=POLL_S) or self._maps.newest()
            fresh = newest_map and newest_map.value.frame
            fresh = fresh if fresh and fresh.number > before else None
        else:
            fresh = self._capture.frames.newest(after=before, timeout_s=POLL_S)
            newest_map = self._maps.newest()
        self._frame = fresh or self._frame
        self._drawn_map = newest_map.number if newest_map else 0
        state = (
            self._frame and self._frame.number,
            newest_map and newest_map.number,
            self._capture.trouble,
        )
        if self._frame is None or state == self._drawn:
            return
        self._map_meter.reached(newest_map.number if newest_map else 0)
        self._frame_meter.reached(self._frame.number)
        self._show(self._composed(self._frame, newest_map))
        self._drawn = state
        if fresh:
            self._count(fresh, fresh.number - before - 1, newest_map)

    def finish(self) -> None:
        """Closes the account: what was captured and not drawn until now was dropped."""
        count = self._capture.frames.count
        self._stats.frames_captured = count - self._missed
        self._stats.frames_dropped += count - (self._frame.number if self._frame else self._missed)
        self._stats.reconnects = self._capture.reconnects

    def _count(self, frame: Item, dropped: int, newest_map: Item | None) -> None:
        now = time.monotonic()
        self._stats.frames_shown += 1
        self._stats.frames_dropped += dropped
        self._stats.frame_age_ms.append(1000 * (now - frame.time))
        if newest_map:
            self._stats.map_age_ms.append(1000 * (now - newest_map.time))

    def _composed(self, frame: Item[np.ndarray], newest_map: Item[Map] | None) -> np.ndarray:
        picture = frame.value
        whole = (0, 0, picture.shape[1], picture.shape[0])
        layer = newest_map and newest_map.value.layer_on(frame, self._follow)
        if layer:
            picture = lay_over(picture, layer)
            draw_lines(picture, [newest_map.value.line], layer.box, bottom=True)
        else:
            picture = picture.copy()
        draw_lines(picture, [self._figures(newest_map)], whole, bottom=False)
        return picture

    def _figures(self, newest_map: Item[Map] | None) -> str:
        if self._capture.trouble:
            return self._capture.trouble
        if newest_map is None:
            return f"{self._frame_meter.rate():.0f} fps   preparing the first map"
        age = 1000 * (time.monotonic() - newest_map.time)
        return (
            f"{self._frame_meter.rate():.0f} fps   {self._map_meter.rate():.1f} maps/s   "
            f"map {age:.0f} ms old"
        )


class Meter:
    """How often a number went up, a second, over the last seconds."""

    def __init__(self, window_s: float = 3.0):
        self._window_s = window_s
        self._seen: deque[tuple[float, int]] = deque()

    def reached(self, number: int) -> None:
        """Notes that the number is here now."""
        now = time.monotonic()
        if not self._seen or number != self._seen[-1][1]:
            self._seen.append((now, number))
        while len(self._seen) > 2 and now - self._seen[0][0] > self._window_s:
            self._seen.popleft()

    def rate(self) -> float:
        """Steps a second; 0 before the second one."""
        if len(self._seen) < 2:
            return 0.0
        return (len(self._seen) - 1) / max(self._seen[-1][0] - self._seen[0][0], 1e-9)


def run(
    config: Config,
    duration_s: float | None = None,
    stats: Path | None = None,
) -> list[str]:
    """Runs until `q`, ESC, the window's X, SIGINT, SIGTERM or the end of the duration.

    Args:
      config: the effective configuration.
      duration_s: seconds from the first map, or None.
      stats: where the figures go, or None.

    Returns:
      One line of figures; none if it was stopped before the first picture.

    Raises:
      UnavailableError: the source cannot be opened, or there is no display.
      OutputError: the figures cannot be written there.
    """
    windowed = config.live.display == "window"
    if windowed:
        require_display()
    if stats:
        check_output(stats, overwrite=True)
    capture = Capture(
        lambda stop: open_source(config.live.source, stop),
        lambda picture: turned(picture, config.input.mirror),
    )
    relevance = RelevanceThread(config, capture.frames)
    with stop_signals() as stopped, capture, relevance:
        while not (stopped.wait(POLL_S) or (relevance.engine and capture.frames.count)):
            capture.check()
            relevance.check()
        if stopped.is_set():
            return []
        figures = Stats(relevance.engine.device, relevance.engine.precision, reconnects=0)
        with Window() if windowed else nullcontext() as window:
            show, follow = window.show if window else _unseen, config.overlay.follow
            view = View(capture, relevance.maps, figures, show, follow)
            relevance.begin(figures)
            while not (stopped.is_set() or (window and window.closed())):
                capture.check()
                relevance.check()
                view.step()
                if duration_s is not None and figures.seconds() >= duration_s:
                    break
            view.finish()
        figures.traces = relevance.engine.explainer.traces
    if stats:
        figures.write(stats, live=True)
    return [figures.summary()]


def _unseen(picture: np.ndarray) -> None:
    """Where a picture goes without a window."""


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """Lends an event that SIGINT and SIGTERM set; the second signal ends the program at once."""
    stopped = threading.Event()

    def stop(number, frame):
        if stopped.is_set():
            raise SystemExit(128 + number)
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
