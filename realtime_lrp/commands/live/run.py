"""The live viewer from its start to its end: wires the parts and runs the render loop."""

import functools
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from realtime_lrp.commands.live.controls import Controls
from realtime_lrp.commands.live.keeper import Keeper
from realtime_lrp.commands.live.view import View
from realtime_lrp.config import Config, check_names
from realtime_lrp.errors import Error, UsageError, first_line, masked
from realtime_lrp.realtime.capture import Capture, OpenSource
from realtime_lrp.realtime.explaining import RelevanceThread, first_request
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.system import memory
from realtime_lrp.system.atomic import check_output
from realtime_lrp.system.signals import stop_signals
from realtime_lrp.video.cameras import CameraSettings
from realtime_lrp.video.pictures import mirrored
from realtime_lrp.video.sources import open_source
from realtime_lrp.view.window.window import Window, require_display

START_POLL_S = 0.02


def run(
    config: Config,
    duration_s: float | None = None,
    stats: Path | None = None,
    record: Path | None = None,
    overwrite: bool = False,
    window: type = Window,
) -> list[str]:
    """Runs until `q`, ESC, the window's X, SIGINT, SIGTERM or the end of the duration.

    Args:
      config: the effective configuration.
      duration_s: seconds from the first map, or None.
      stats: where the figures go, or None.
      record: a film of what is shown, or None.
      overwrite: whether the film may replace a file.
      window: what stands for the window, a class like `Window`.

    Returns:
      A line for each thing that was kept, and one of figures, if there was a map.

    Raises:
      UsageError: a name that is not known, or two outputs of one name.
      UnavailableError: the source cannot be opened, or there is no display.
      OutputError: the figures or the film cannot be written there.
      TransferError: the film could not be finished.
    """
    memory.keep_little()
    check_names(config)
    windowed = config.live.display == "window"
    if windowed and window is Window:
        require_display()
    if stats:
        check_output(stats, overwrite=True)
        if record and stats.resolve() in (record.resolve(), record.resolve().with_suffix(".jsonl")):
            raise UsageError(f"--record and --stats would both write {str(stats)!r}.")
    keeper = Keeper(config, record, overwrite, by_key=windowed)
    request, figures = first_request(config), Stats("", "", reconnects=0)
    controls, sources = Controls(config, request), _Sources(config)
    capture = Capture(sources.opener(), lambda picture: mirrored(picture, controls.mirror))
    relevance = RelevanceThread(config, capture.frames, request, figures, changeable=windowed)
    with stop_signals() as stopped, ExitStack() as stack:
        stack.callback(keeper.finish)
        stack.enter_context(capture)
        stack.enter_context(relevance)
        while not (stopped.wait(START_POLL_S) or capture.frames.count):
            capture.check()
            relevance.check(patient=windowed)
        shown = stack.enter_context(window()) if windowed and not stopped.is_set() else None
        controls.attach(capture, relevance, shown)
        view = View(
            capture, relevance, figures, controls,
            shown.show if shown else _unseen, shown and (lambda: shown.size), keeper.status,
        )  # fmt: skip
        while not stopped.is_set():
            capture.check()
            relevance.check(patient=windowed)
            for event in shown.events() if shown else ():
                controls.handle(event)
            if controls.ended or (shown and shown.closed):  # showing would open it again
                break
            canvas = view.step()
            if canvas is not None:
                keeper.take(view, canvas)
            if news := keeper.news():
                controls.say(news)
            if refused := relevance.engine_cache and relevance.engine_cache.refused():
                controls.refuse(*refused, relevance.choice)
            _do_wanted(controls, keeper, view, sources, capture)
            if duration_s is not None and figures.seconds() >= duration_s:
                break
        view.finish()
        for part in (capture, relevance):
            part.end()
        lines = keeper.finish()
    if engine := relevance.engine:
        figures.device, figures.precision = engine.device, engine.precision
        figures.traces = engine.explainer.traces
        lines = [*lines, figures.summary()]
        if stats:
            figures.write(stats, live=True)
    if keeper.failure:
        raise keeper.failure
    return lines


class _Sources:
    """The sources that a key goes through."""

    def __init__(self, config: Config):
        live = config.live
        self._camera = CameraSettings(live.camera_size, live.camera_fps, live.camera_format)
        self._all = list(dict.fromkeys([live.source, *live.sources]))
        self._place = 0

    def opener(self) -> OpenSource:
        """Opens the present source."""
        return functools.partial(open_source, self._all[self._place], camera=self._camera)

    def next(self, capture: Capture, controls: Controls) -> str:
        """Goes over to the next source; a line for people."""
        if len(self._all) < 2:
            return "there is one source; name others with live.sources"
        controls.forget_frame()
        self._place = (self._place + 1) % len(self._all)
        capture.switch(self.opener())
        return f"source: {masked(self._all[self._place])}"


def _do_wanted(
    controls: Controls, keeper: Keeper, view: View, sources: _Sources, capture: Capture
) -> None:
    """Does what keys asked for and the controls cannot."""
    if view.scene is None:  # nothing is shown yet
        return
    wanted, controls.wanted = controls.wanted, []
    for one in wanted:
        try:
            if one == "snapshot":
                controls.say(keeper.snapshot(view, controls.settings()))
            elif one == "record":
                controls.say(keeper.toggle(view.scene.size))
            elif one == "source":
                controls.say(sources.next(capture, controls))
        except Error as error:
            controls.say(first_line(error))


def _unseen(picture: np.ndarray) -> None:
    """Where a picture goes without a window."""
