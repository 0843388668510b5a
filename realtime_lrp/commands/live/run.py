"""The live viewer from start to end: connects the parts and runs the render loop."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from realtime_lrp.commands.live.saver import Saver, snapshot_of
from realtime_lrp.config import Config, check_names
from realtime_lrp.engine.measured import quicker_network
from realtime_lrp.errors import Error, UnavailableError, UsageError, first_line, masked
from realtime_lrp.models.gallery import load_gallery
from realtime_lrp.realtime.capture import Capture, OpenSource
from realtime_lrp.realtime.explaining import RelevanceThread, first_request
from realtime_lrp.realtime.networks import further_threads
from realtime_lrp.realtime.stats import Stats, write_figures
from realtime_lrp.realtime.viewer import events
from realtime_lrp.realtime.viewer.events import Event, NoticeGiven
from realtime_lrp.realtime.viewer.handle import show_step
from realtime_lrp.realtime.viewer.lecture import load_lecture, with_networks
from realtime_lrp.realtime.viewer.state import Order, first_state
from realtime_lrp.realtime.viewer.view import View
from realtime_lrp.system import machine
from realtime_lrp.system.files import check_output
from realtime_lrp.system.signals import stop_signals
from realtime_lrp.video.cameras import CameraSettings
from realtime_lrp.video.libraries import draw_in_one_thread
from realtime_lrp.video.pictures import mirrored
from realtime_lrp.video.source import Action
from realtime_lrp.video.sources import open_source, opener_of
from realtime_lrp.view.exhibit import draw_card
from realtime_lrp.view.window import Mouse, Window, require_display

if TYPE_CHECKING:
    from realtime_lrp.commands.serve.web_page import WebPage

log = logging.getLogger(__name__)
PAUSE_S = 0.005  # pause of the render loop while nobody waits for a picture
MAPS_FOR_PACE = 5  # after this many maps it is known how quick the network is


def run(
    config: Config, duration_s: float | None = None, stats: Path | None = None,
    record: Path | None = None, overwrite: bool = False, window: type | None = Window,
    serves: bool = False, new_token: bool = False, teach: Callable[..., Any] | None = None,
) -> list[str]:  # fmt: skip
    """Runs until `q` or Esc, twice, the window's X, SIGINT, SIGTERM or the end of the duration.

    `duration_s` counts from the first map; `window` is a class, `Window` or one like it; `serves`
    shows the web page as well, or instead; `teach` makes the `Teacher` of the first network.
    Returns a line for each file that was saved, and one of figures if there was a map.
    """
    machine.limit_kept_memory()
    draw_in_one_thread()
    check_names(config)
    lecture = load_lecture(config)
    config = with_networks(config)
    if config.concepts.gallery or config.concepts.names:
        load_gallery(config)  # before anything is shown or printed
    windowed = window is not None and config.live.display == "window"
    if windowed and window is Window:
        try:
            require_display()
        except UnavailableError:
            with suppress(UnavailableError):  # the error for a missing source comes first
                opener_of(config.live.source, CameraSettings.of(config.live))
            raise
    if stats:
        check_output(stats, overwrite=True)
        if record and stats.resolve() in (record.resolve(), record.resolve().with_suffix(".jsonl")):
            raise UsageError(f"--record and --stats would both write {str(stats)!r}.")
    saver = Saver(config, record, overwrite, by_key=windowed)
    state = first_state(config, first_request(config), lecture)
    sources = Sources(config)
    if lecture:
        state = show_step(state, 0)
    capture = Capture(sources.opener(), sources.turned)
    changeable = windowed or serves
    first = RelevanceThread(config, capture.frames, state.request, Stats(reconnects=0), changeable)
    threads = [first, *further_threads(config, capture.frames, changeable, first)]
    teacher = teach(capture.frames, first) if teach else None
    status = lambda: f"{saver.status()}   {teacher.status() if teacher else ''}".strip()  # noqa: E731
    with stop_signals() as stopped, ExitStack() as stack:
        shown = window() if window and windowed else None
        size = shown and (lambda: shown.size)
        pages = _pages() if serves else None
        page_alone = serves and not windowed and record is None
        if pages and page_alone:
            size = lambda: pages.canvas_size(view)  # noqa: E731
        view: View = View(
            state, capture, threads, shown.show if shown else lambda picture: None,
            size, status, figures_in_picture=not page_alone, teacher=teacher,
        )  # fmt: skip

        def report() -> None:
            figures = view.figures()
            if stats and (engine := first.engine):  # there are none without an engine
                write_figures(stats, figures, engine.provenance(None, "live"))

        def finish() -> None:
            view.finish()
            capture.end()
            for thread in threads:
                thread.end()
            saver.finish()

        def lose() -> None:
            finish()
            report()

        stack.callback(report)  # last, when all parts have ended
        stack.callback(saver.finish)
        page = None
        if pages:
            kept = partial(snapshot_of, view)
            page = stack.push(pages(config.serve, view, kept, new_token, teacher))  # it listens
        loop = Loop(view, saver, sources, shown, page, teacher)
        stack.enter_context(capture)
        loop.show_card()
        for part in (*threads, teacher, page, shown):  # closed in the opposite order
            if part:
                stack.enter_context(part)
        if shown:
            shown.on_lost = lose
        try:
            while not stopped.is_set() and loop.turn():
                begun = page_alone or view.first.explained  # else a film would have no picture
                if begun and duration_s is not None and first.stats.seconds() >= duration_s:
                    break
        finally:
            if shown:
                shown.on_lost = lambda: None  # it is done here
            finish()
    if failure := saver.failure or (teacher and teacher.failure):
        raise failure
    return [*saver.finish(), *view.summaries()]


def _pages() -> type[WebPage]:
    try:
        from realtime_lrp.commands.serve.web_page import WebPage
    except ModuleNotFoundError as error:
        raise UnavailableError(
            f"The web page needs the library {error.name!r}, which is not installed. "
            'Run: pip install "realtime-lrp[serve]"'
        ) from None
    return WebPage


@dataclass(eq=False)
class Loop:
    """The render loop: each turn handles events, carries out orders, draws, hears the others."""

    view: View
    saver: Saver
    sources: Sources
    window: Window | None
    page: WebPage | None = None
    teacher: Any = None  # a `Teacher`, whose module imports TensorFlow
    _due: list[Order] = field(default_factory=list)
    _card: tuple[object, ...] = ()
    _pace_noted: bool = False

    def turn(self) -> bool:
        """One turn; False when the viewer is to end."""
        view = self.view
        page = self.page
        view.capture.check()
        view.check(patient=self.window is not None or page is not None)
        if self.teacher:
            self.teacher.check()
        self.handle_events(map(_event_of, self.window.events()) if self.window else ())
        self.handle_events(page.events() if page else ())
        if view.state.ended or (self.window and self.window.closed):
            return False  # showing a picture would open the window again
        canvas = None
        if page and not view.figures_in_picture and not page.wants_picture():
            time.sleep(PAUSE_S)  # nobody sees it
        else:
            canvas = view.step()
            self.show_card()
        if canvas is not None and view.frame and view.first.explained:
            self.saver.record(canvas, view.frame, view.first.explained)
        for news in (self.saver.news, self.teacher.news if self.teacher else ()):
            while news:
                view.send(news.popleft())
        self._note_pace()
        if page:
            page.publish(drawn=canvas is not None)
        return True

    def _note_pace(self) -> None:
        """Says once what would be quick where the network is slow."""
        relevance = self.view.first.relevance
        if self._pace_noted or not relevance.engine or relevance.stats.maps < MAPS_FOR_PACE:
            return
        self._pace_noted = True
        pace = 1000 * relevance.engine.in_flight / np.median(list(relevance.stats.map_ms))
        if text := quicker_network(self.view.state.config.model.name, pace):
            log.warning("%s", text)
            self.view.send(NoticeGiven(text))

    def show_card(self) -> None:
        """Says in the window what is loaded, until the first picture comes."""
        view = self.view
        window = self.window
        if window is None or view.frame:
            return
        state = view.state
        config = state.config
        told = state.notice.text if time.monotonic() < state.notice.until else ""
        text = told or view.capture.trouble or f"Source: {masked(config.live.source)}"
        if self._card != (card := (window.size, text)):
            self._card = card
            canvas = np.zeros((*window.size, 3), np.uint8)
            names = (Path(one.name).name for one in (config.model, *config.live.also_models))
            draw_card(canvas, f"Loading {', '.join(names)}", text)
            window.show(canvas)

    def handle_events(self, happened: Iterable[Event]) -> None:
        view = self.view
        for event in happened:
            typed = view.state.menu and isinstance(event, events.KeyPressed)
            if typed or not (self.teacher and self.teacher.takes(event)):
                self._due += view.send(event)
        self.sources.mirror = view.state.mirror
        while self._due and view.first.scene:  # nothing can be saved before something is shown
            self.perform(self._due.pop(0))

    def perform(self, order: Order) -> None:
        view = self.view
        event: Event | None = None
        try:
            match order.what:
                case "snapshot":
                    event = NoticeGiven(self.saver.snapshot(view))
                case "record":
                    event = NoticeGiven(self.saver.toggle_recording(view))
                case "full_screen":
                    if self.window:
                        self.window.fill_screen(view.state.full_screen)
                case what:
                    event = self.sources.perform(what, order.value, view.capture)
        except Error as error:
            event = NoticeGiven(first_line(error))
        if event:
            view.send(event)


def _event_of(happened: str | Mouse) -> Event:
    if isinstance(happened, Mouse):
        return events.MouseMoved(happened.x, happened.y, happened.button)
    return events.KeyPressed(happened)


class Sources:
    """`live.source`, then `live.sources`, through which a key goes round and round."""

    def __init__(self, config: Config):
        self.mirror = config.input.mirror
        self._camera = CameraSettings.of(config.live)
        self._names = list(dict.fromkeys([config.live.source, *config.live.sources]))
        self._present = 0

    def opener(self) -> OpenSource:
        return partial(open_source, self._names[self._present], camera=self._camera)

    def turned(self, picture: np.ndarray) -> np.ndarray:
        """The picture, mirrored while that is wanted; for the capture thread."""
        return mirrored(picture, self.mirror)

    def perform(
        self, what: Action | Literal["next_source"], value: float, capture: Capture
    ) -> Event | None:
        """Goes over to the next source, or controls the present one; the event for the state."""
        source = capture.source
        match what:
            case "next_source" if len(self._names) < 2:
                return NoticeGiven("there is one source; name others with live.sources")
            case "next_source":
                self._present = (self._present + 1) % len(self._names)
                capture.switch(self.opener())
                return events.SourceChanged(f"source: {masked(self._names[self._present])}")
            case "skip" if source.files < 2:
                none = "this source has no files to go through"
                return NoticeGiven("there is only one file" if source.files else none)
        source.control(what, value)
        return events.FileSkipped() if what == "skip" else None
