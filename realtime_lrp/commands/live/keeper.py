"""What is kept of a live view: recordings and pictures; failing to keep one never ends the view."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from realtime_lrp.commands.live.view import View
from realtime_lrp.config import Config, Settings
from realtime_lrp.engine.wording import describe_target
from realtime_lrp.errors import Error, OutputError
from realtime_lrp.realtime.explaining import ExplainedFrame
from realtime_lrp.realtime.latest import Item
from realtime_lrp.results.records import map_record
from realtime_lrp.results.snapshot import Snapshot, save_snapshot
from realtime_lrp.system.atomic import check_output, stale_parts_in
from realtime_lrp.video.recorder import Recorder, check_film

STEM = "realtime_lrp"
"""With this begins the name of everything that is kept by key."""

log = logging.getLogger(__name__)


class Keeper:
    """Keeps pictures and recordings of the view.

    Args:
      config: the effective configuration.
      record: the film that is recorded from the first picture on, or None.
      overwrite: whether that one may replace a file.
      by_key: whether pictures and recordings may be kept by key.

    Attributes:
      failure: why that film is not whole, or None.

    Raises:
      UsageError: its name has another ending.
      OutputError: it cannot be made.
    """

    def __init__(self, config: Config, record: Path | None, overwrite: bool, by_key: bool = True):
        self._config = config
        self._target, self._overwrite = record, overwrite
        self._recorder: Recorder | None = None
        self._threads: list[threading.Thread] = []
        self._names: set[Path] = set()
        self._news: deque[str] = deque()
        self._lines: list[str] = []
        self._asked = record
        self.failure: Error | None = None
        self._row: tuple[ExplainedFrame, dict[str, Any]] | None = None
        folder = Path(config.live.folder)
        if by_key:
            try:
                check_output(folder / f"{STEM}.png", overwrite=True)
            except Error as error:
                log.warning("keys cannot keep anything: %s", error)
        for part in stale_parts_in(folder, f"{STEM}-*.part"):
            log.warning("%s is what a run that was ended left; rename it to keep it", part)
        if record:
            check_film(record, overwrite)

    def take(self, view: View, canvas: np.ndarray) -> None:
        """Records a canvas if a recording runs and there is a map.

        Raises:
          OutputError: the first recording, asked for at the start, cannot be made.
          TransferError: there is no room for it.
        """
        if view.map is None or view.frame is None:
            return
        if self._target and self._recorder is None:
            self._recorder = Recorder(self._target, canvas.shape[:2], self._overwrite)
        if self._recorder is None:
            return
        self._recorder.put(canvas, time.monotonic(), self._described(view.frame, view.map))
        if self._recorder.trouble:
            self._end_in_the_background()

    def toggle(self, canvas_size: tuple[int, int]) -> str:
        """Begins a recording, or ends the one that runs; a line for people."""
        if self._target:
            self._end_in_the_background()
            return "recording ends"
        try:
            target = self._name(".mp4")
            self._recorder = Recorder(target, canvas_size)
        except Error as error:
            return str(error)
        self._target = target
        return f"recording {target.name}"

    def news(self) -> str:
        """A line for the screen about what has been finished since the last call; or ""."""
        return self._news.popleft() if self._news else ""

    def snapshot(self, view: View, shown: Config) -> str:
        """Keeps what is shown, with the configuration that asks for it; a line for people."""
        if view.scene is None or view.canvas is None or view.map is None:
            return "there is no map yet"
        try:
            target = self._name(".png")
        except Error as error:
            return str(error)
        shot = _snapshot(view.canvas, view.scene.picture, view.map, Settings(shown, {}))
        self._in_the_background(self._kept, target, shot)
        return f"keeping {target.name}"

    def status(self) -> str:
        """A line about the recording that runs; "" without one."""
        recorder = self._recorder
        if recorder is None:
            return ""
        minutes, seconds = divmod(int(recorder.seconds), 60)
        lost = f", {recorder.dropped} left out" if recorder.dropped else ""
        return f"recording {minutes}:{seconds:02d}{lost}"

    def finish(self) -> list[str]:
        """Ends everything.

        Returns:
          A line for each thing that was kept.
        """
        self._end_in_the_background()
        for thread in self._threads:
            thread.join()
        return self._lines

    def _in_the_background(self, work: Callable[..., None], *words: Any) -> None:
        thread = threading.Thread(target=work, args=words, daemon=True)
        self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]
        thread.start()

    def _kept(self, target: Path, shot: Snapshot) -> None:
        try:
            save_snapshot(target, shot)
        except Error as error:
            self._news.append(str(error))
            return
        self._lines.append(f"picture -> {target} (and {target.with_suffix('.npz').name})")
        self._news.append(f"kept: {target.name}")

    def _end_in_the_background(self) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder:
            self._in_the_background(self._finished, recorder, self._target == self._asked)
        self._target = None

    def _finished(self, recorder: Recorder, asked_at_start: bool) -> None:
        try:
            lines = recorder.finish()
            self._lines += lines
            self._news.append(lines[-1] if recorder.trouble else lines[0])
        except Error as error:
            self.failure = error if asked_at_start else self.failure
            self._news.append(str(error))

    def _name(self, suffix: str) -> Path:
        """A new name in the configured folder, after date and time."""
        folder = Path(self._config.live.folder).resolve()
        stem = time.strftime(f"{STEM}-%Y%m%d-%H%M%S")
        for number in range(1, 100):
            target = folder / f"{stem}{f'-{number}' if number > 1 else ''}{suffix}"
            beside = target.with_suffix(".npz" if suffix == ".png" else ".jsonl")
            if not (target in self._names or target.exists() or beside.exists()):
                check_output(target, overwrite=False)
                self._names.add(target)
                return target
        raise OutputError(f"There is no free name in {str(folder)!r}.")

    def _described(self, frame: Item[np.ndarray], made: ExplainedFrame) -> dict[str, Any]:
        if self._row is None or self._row[0] is not made:
            target = describe_target(made.engine, made.request.target, made.scores)
            row = map_record(made.engine, target, made.result)
            row |= {
                "method": made.engine.settings.lrp.method,
                "map": made.engine.name,
                "explained_score": made.explained[0],
                "map_frame": made.frame.number,
            }
            self._row = made, row
        now = time.monotonic()
        return {
            **self._row[1],
            "captured_frame": frame.number,
            "picture_age_ms": round(1000 * (now - frame.time), 1),
            "map_age_ms": round(1000 * (now - made.frame.time), 1),
        }


def _snapshot(
    canvas: np.ndarray, picture: np.ndarray, explained: ExplainedFrame, settings: Settings
) -> Snapshot:
    engine, drawn = explained.engine, explained.finding
    return Snapshot(
        canvas=canvas,
        picture=picture,
        explained_picture=None if drawn.picture is picture else drawn.picture,
        engine=engine,
        target=describe_target(engine, explained.request.target, explained.scores),
        result=explained.result,
        names=[panel.name for panel in drawn.panels],
        computed={
            "method": engine.settings.lrp.method,
            "map": engine.name,
            "precision": engine.precision,
            "device": engine.device,
            "weights": engine.settings.model.weights,
            "probe": explained.request.probe,
            "explained": explained.explained,
            "sums": [one.total for one in explained.result.maps],
        },
        settings=settings,
    )
