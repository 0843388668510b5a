"""The live viewer from start to end: connects the parts and runs the render loop.

Each turn makes events of keys and mouse, carries out the commands in the state, lets the view draw,
and makes events of what the other parts report.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from pathlib import Path
from threading import Event as Stop
from typing import Any, Protocol

import numpy as np

from realtime_lrp.commands.live.saver import Saver
from realtime_lrp.commands.live.sources import Sources
from realtime_lrp.config import Config, check_names
from realtime_lrp.engine.provenance import provenance_of
from realtime_lrp.errors import Error, UnavailableError, UsageError, first_line, masked
from realtime_lrp.models.gallery import load_gallery
from realtime_lrp.realtime.capture import Capture
from realtime_lrp.realtime.explaining import RelevanceThread, first_request
from realtime_lrp.realtime.networks import further_threads
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.realtime.viewer.actions import ESCAPE_NOTICE
from realtime_lrp.realtime.viewer.events import Event, KeyPressed, MouseMoved, NoticeGiven
from realtime_lrp.realtime.viewer.state import ESCAPE_S, Command, LoopFiles, SeekTo, first_state
from realtime_lrp.realtime.viewer.view import View
from realtime_lrp.system import memory
from realtime_lrp.system.atomic import check_output
from realtime_lrp.system.signals import stop_signals
from realtime_lrp.video.cameras import CameraSettings
from realtime_lrp.video.libraries import draw_in_one_thread
from realtime_lrp.video.sources import opener_of
from realtime_lrp.view.exhibit import draw_card
from realtime_lrp.view.window.display import require_display
from realtime_lrp.view.window.window import Mouse, Window

POLL_S = 0.02  # how often errors, keys and the first frame are looked for at the start
PAUSE_S = 0.005  # pause of the render loop while nobody waits for a picture


class Opening:
    """The time until the first frame. `q` and Esc twice end it; other keys have no effect."""

    def __init__(self, config: Config, window: Window | None):
        names = (Path(one.name).name for one in (config.model, *config.live.also_models))
        self._title = f"Loading {', '.join(names)}"
        self._text = f"Source: {masked(config.live.source)}"
        self._window = window
        self._left, self._escape_until = False, 0.0
        self._shown: tuple[tuple[int, int], str] | None = None
        self.show()

    def show(self, trouble: str = "") -> None:
        """Draws the card where there is none yet, or where it has changed."""
        if self._window is None:
            return
        escape = ESCAPE_NOTICE if time.monotonic() < self._escape_until else ""
        appearance = self._window.size, escape or trouble or self._text
        if appearance == self._shown:
            return
        self._shown = appearance
        canvas = np.zeros((*self._window.size, 3), np.uint8)
        draw_card(canvas, self._title, appearance[1])
        self._window.show(canvas)
        self._ended()  # the window draws while it is asked for events

    def wait(self, stopped: Stop, capture: Capture, *threads: RelevanceThread) -> bool:
        """Waits for the first frame; returns False if the program is to end."""
        while not capture.frames.count:
            if stopped.wait(POLL_S) or self._ended():
                return False
            capture.check()
            for thread in threads:
                thread.check(patient=self._window is not None)
            self.show(capture.trouble)
        return not stopped.is_set()

    def _ended(self) -> bool:
        if self._window is None:
            return False
        for event in self._window.events():
            if isinstance(event, str):
                self._press(event)
        return self._left or self._window.closed

    def _press(self, key: str) -> None:
        """Notes a key; the second Esc counts within `ESCAPE_S`, with no other key between."""
        now, escape = time.monotonic(), key == "Escape"
        self._left = self._left or key == "q" or (escape and now < self._escape_until)
        self._escape_until = now + ESCAPE_S if escape else 0.0


class RemoteTurns(Protocol):
    """Its part of the render loop's turns."""

    def events(self) -> list[Event]:
        """What happened there since the last turn."""

    def wants_picture(self) -> bool:
        """Whether the view is to be drawn again for it. Asked where nothing else shows the view."""

    def publish(self, drawn: bool) -> None:
        """Shows the view there."""


class Remote(Protocol):
    """Where the view is shown and controlled besides the window, or instead of it."""

    def canvas_size(self, view: View) -> tuple[int, int]:
        """Rows and columns of the canvas where no window decides them."""

    def opened(
        self,
        view: View,
        capture: Capture,
        relevance: RelevanceThread,
        figures: Callable[[], dict[str, Any]],
    ) -> AbstractContextManager[RemoteTurns]:
        """Shows a view while the context lasts."""


def run(
    config: Config,
    duration_s: float | None = None,
    stats: Path | None = None,
    record: Path | None = None,
    overwrite: bool = False,
    window: type | None = Window,
    remote: Remote | None = None,
) -> list[str]:
    """Runs until `q`, Esc twice, the window's X, SIGINT, SIGTERM or the end of the duration.

    `duration_s` counts from the first map; `window` is a class, `Window` or one like it. Returns a
    line for each file that was saved, and one of figures if there was a map.
    """
    memory.limit_kept_memory()
    draw_in_one_thread()
    check_names(config)
    if config.concepts.gallery or config.concepts.names:
        # Before anything is shown or printed.
        load_gallery(config).check_names()
    windowed = window is not None and config.live.display == "window"
    if windowed and window is Window:
        _require_display(config)
    _check_outputs(stats, record)
    saver = Saver(config, record, overwrite, by_key=windowed)
    figures, state = Stats("", "", reconnects=0), first_state(config, first_request(config))
    sources = Sources(config)
    capture = Capture(sources.opener(), sources.turned)
    patient = windowed or remote is not None
    relevance = RelevanceThread(config, capture.frames, state.request, figures, patient)
    further = further_threads(config, capture.frames, figures, patient, relevance)
    threads = [relevance, *further]
    report = partial(_report, figures, threads, stats)
    with stop_signals() as stopped, ExitStack() as stack:
        stack.callback(report)  # last, when all parts have ended
        stack.callback(saver.finish)
        stack.enter_context(capture)
        shown = window() if window and windowed else None
        opening = Opening(config, shown)
        for thread in threads:
            stack.enter_context(thread)
        if shown:
            stack.enter_context(shown)  # last, so that it is closed first
        if not opening.wait(stopped, capture, *threads):
            stopped.set()
        size = shown and (lambda: shown.size)
        only_remote = remote is not None and not windowed and record is None
        if remote and only_remote:
            size = lambda: remote.canvas_size(view)  # noqa: E731
        view: View = View(
            state, capture, relevance, figures, shown.show if shown else _show_nowhere,
            size, saver.status, figures_in_picture=not only_remote, further=further,
        )  # fmt: skip
        finish = partial(_finish, view, capture, threads, saver)
        if shown:
            shown.on_lost = lambda: (finish(), report())
        turns = None
        if remote and not stopped.is_set():
            now = partial(figures_now, figures, capture, threads)
            turns = stack.enter_context(remote.opened(view, capture, relevance, now))
        loop = Loop(view, capture, saver, sources, shown, turns, only_remote)
        try:
            while not stopped.is_set() and loop.turn():
                begun = only_remote or view.first.explained  # else a film would have no picture
                if begun and duration_s is not None and figures.seconds() >= duration_s:
                    break
        finally:
            if shown:
                shown.on_lost = _do_nothing  # it is done here
            finish()
    if saver.failure:
        raise saver.failure
    return [*saver.finish(), *(figures.summaries() if relevance.engine else ())]


def _finish(view: View, capture: Capture, threads: Sequence[RelevanceThread], saver: Saver) -> None:
    view.finish()
    capture.end()
    for thread in threads:
        thread.end()
    saver.finish()


def _report(figures: Stats, threads: Sequence[RelevanceThread], stats: Path | None) -> None:
    """Completes the figures and writes them; without an engine there are none."""
    _note_engines(figures, threads)
    if stats and (engine := threads[0].engine):
        figures.write(stats, live=True, provenance=provenance_of(engine, None, "live"))


def figures_now(
    figures: Stats, capture: Capture, threads: Sequence[RelevanceThread]
) -> dict[str, Any]:
    """The figures until now; for the render loop's thread."""
    figures.frames_captured, figures.reconnects = capture.frames.count, capture.reconnects
    _note_engines(figures, threads)
    return figures.as_dict(live=True)


def _note_engines(figures: Stats, threads: Sequence[RelevanceThread]) -> None:
    """Notes in the figures of each network what computed its maps."""
    for of_one, thread in zip((figures, *figures.further.values()), threads, strict=True):
        if engine := thread.engine:
            of_one.device, of_one.precision = engine.device, engine.precision
            of_one.traces, of_one.maps_in_flight = engine.explainer.traces, engine.in_flight


class Loop:
    """The render loop: sends events to the state, and carries out the commands in it."""

    def __init__(
        self,
        view: View,
        capture: Capture,
        saver: Saver,
        sources: Sources,
        window: Window | None,
        remote: RemoteTurns | None = None,
        only_remote: bool = False,
    ):
        self._only_remote = only_remote
        self._view, self._capture = view, capture
        self._saver, self._sources = saver, sources
        self._window, self._remote = window, remote
        self._due: list[Command | SeekTo | LoopFiles] = []

    def turn(self) -> bool:
        """One turn; False when the viewer is to end."""
        view, remote = self._view, self._remote
        self._capture.check()
        view.check(patient=self._window is not None or remote is not None)
        self.handle_events(map(_event_of, self._window.events()) if self._window else ())
        self.handle_events(remote.events() if remote else ())
        if view.state.ended or (self._window and self._window.closed):
            return False  # showing a picture would open the window again
        canvas = self._drawn()
        if canvas is not None and view.frame and view.first.explained:
            self._saver.record(canvas, view.frame, view.first.explained)
        if news := self._saver.news():
            view.send(NoticeGiven(news))
        view.note_refusals()
        if remote:
            remote.publish(drawn=canvas is not None)
        return True

    def _drawn(self) -> np.ndarray | None:
        """The view, if it changed and somebody sees it."""
        if self._only_remote and self._remote and not self._remote.wants_picture():
            time.sleep(PAUSE_S)
            return None
        return self._view.step()

    def handle_events(self, events: Iterable[Event]) -> None:
        """Sends events to the state, then carries out the commands."""
        view = self._view
        for event in events:
            self._due += view.send(event)
        self._sources.mirror = view.state.mirror
        if view.first.scene:  # nothing can be saved before something is shown
            due, self._due = self._due, []
            for command in due:
                self.perform(command)

    def perform(self, command: Command | SeekTo | LoopFiles) -> None:
        view, saver = self._view, self._saver
        try:
            if self._sources.perform(command, self._capture, view.send):
                return
            match command:
                case Command.SNAPSHOT:
                    view.send(NoticeGiven(saver.snapshot(view)))
                case Command.RECORD:
                    view.send(NoticeGiven(saver.toggle_recording(view)))
                case Command.FULL_SCREEN if self._window:
                    self._window.fill_screen(view.state.full_screen)
        except Error as error:
            view.send(NoticeGiven(first_line(error)))


def _require_display(config: Config) -> None:
    """Refuses to run without a display; a source that is not there is told first."""
    try:
        require_display()
    except UnavailableError:
        with suppress(UnavailableError):
            opener_of(config.live.source, CameraSettings.of(config.live))
        raise


def _check_outputs(stats: Path | None, record: Path | None) -> None:
    """Refuses figures that cannot be written, or that would replace the film or its sidecar."""
    if stats is None:
        return
    check_output(stats, overwrite=True)
    if record and stats.resolve() in (record.resolve(), record.resolve().with_suffix(".jsonl")):
        raise UsageError(f"--record and --stats would both write {str(stats)!r}.")


def _event_of(event: str | Mouse) -> Event:
    if isinstance(event, Mouse):
        return MouseMoved(event.x, event.y, event.button)
    return KeyPressed(event)


def _show_nowhere(picture: np.ndarray) -> None:
    """Stands for the window where there is none."""


def _do_nothing() -> None:
    """Stands for work that is done."""
