"""What is kept of a live view: recordings and pictures; failing to keep one never ends the view."""

import logging
import time
from pathlib import Path
from typing import Any

import numpy as np

from realtime_lrp.config import Config, Settings
from realtime_lrp.errors import Error, OutputError, UsageError
from realtime_lrp.modes.live import snapshot
from realtime_lrp.modes.live.relevance import Map
from realtime_lrp.modes.live.view import View
from realtime_lrp.modes.records import described
from realtime_lrp.video.files import check_output
from realtime_lrp.video.recorder import Recorder
from realtime_lrp.video.slot import Item
from realtime_lrp.video.writer import CONTAINERS

log = logging.getLogger(__name__)


class Keeper:
    """Keeps pictures and recordings of the view.

    Args:
      config: the effective configuration.
      record: the film that is recorded from the first picture on, or None.
      overwrite: whether that one may replace a file.

    Raises:
      UsageError: its name has another ending.
      OutputError: it cannot be made.
    """

    def __init__(self, config: Config, record: Path | None, overwrite: bool):
        self._config = config
        self._target, self._overwrite = record, overwrite
        self._recorder: Recorder | None = None
        self._told = False
        self._lines: list[str] = []
        self._row: tuple[Map, dict[str, Any]] | None = None
        if record:
            if record.suffix.lower() not in CONTAINERS:
                raise UsageError(
                    f"{str(record)!r}: expected a name that ends in .mp4, .mov or .mkv."
                )
            check_output(record, overwrite)
            check_output(record.with_suffix(".jsonl"), overwrite)

    def take(self, view: View, canvas: np.ndarray) -> str:
        """Records a canvas if a recording runs; a line for the screen if that has just ended."""
        if self._target and self._recorder is None:
            self._begin(canvas)
        if self._recorder is None:
            return ""
        time_ = time.monotonic() if view.frozen else view.frame.time
        self._recorder.put(canvas, time_, self._described(view.frame, view.map))
        if self._recorder.trouble and not self._told:
            self._told = True
            return self._recorder.trouble
        return ""

    def toggle(self) -> str:
        """Begins a recording with the next canvas, or ends the one that runs; a line for people."""
        if self._target:
            lines = self._ended()
            return lines[0] if lines else "recording ended"
        try:
            self._target, self._overwrite = self._name(".mp4"), False
        except Error as error:
            return str(error)
        return f"recording {self._target.name}"

    def snapshot(self, view: View) -> str:
        """Keeps what is shown; a line for people."""
        if view.scene is None or view.map is None:
            return "there is no map yet"
        try:
            target = self._name(".png")
            snapshot.keep(target, view.scene, view.map, Settings(self._config, {}))
        except Error as error:
            return str(error)
        self._lines.append(f"picture -> {target} (and {target.with_suffix('.npz').name})")
        return f"kept: {target.name}"

    def status(self) -> tuple[str, bool]:
        """A line about the recording that runs, and whether it is a warning; "" without one."""
        recorder = self._recorder
        if recorder is None:
            return "", False
        if recorder.trouble:
            return "recording stopped", True
        minutes, seconds = divmod(int(recorder.seconds), 60)
        lost = f", {recorder.dropped} left out" if recorder.dropped else ""
        return f"recording {minutes}:{seconds:02d}{lost}", bool(recorder.dropped)

    def finish(self) -> list[str]:
        """Ends everything.

        Returns:
          A line for each thing that was kept.

        Raises:
          TransferError: a recording could not be finished.
        """
        self._ended(raising=True)
        return self._lines

    def _begin(self, canvas: np.ndarray) -> None:
        self._told = False
        self._recorder = Recorder(self._target, canvas.shape[:2], self._overwrite)

    def _ended(self, raising: bool = False) -> list[str]:
        recorder, self._recorder, self._target = self._recorder, None, None
        if recorder is None:
            return []
        try:
            lines = recorder.finish()
        except Error as error:
            if raising:
                raise
            log.error("%s", error)
            lines = [str(error)]
        self._lines += lines
        return lines

    def _name(self, suffix: str) -> Path:
        """A new name in the configured folder, after date and time."""
        folder = Path(self._config.live.folder)
        stem = time.strftime("realtime_lrp-%Y%m%d-%H%M%S")
        for number in range(1, 100):
            target = folder / f"{stem}{f'-{number}' if number > 1 else ''}{suffix}"
            beside = target.with_suffix(".npz" if suffix == ".png" else ".jsonl")
            if not target.exists() and not beside.exists():
                check_output(target, overwrite=False)
                return target
        raise OutputError(f"There is no free name in {str(folder)!r}.")

    def _described(self, frame: Item, made: Map | None) -> dict[str, Any]:
        if made is None:
            return {"map_frame": None}
        if self._row is None or self._row[0] is not made:
            row = described(made.engine, str(made.request.target), made.result)
            row |= {
                "method": made.engine.settings.lrp.method,
                "composite": made.engine.composite,
                "explained_score": made.explained[0],
                "map_frame": made.frame.number,
            }
            self._row = made, row
        age = round(1000 * (time.monotonic() - made.frame.time), 1)
        return {**self._row[1], "captured_frame": frame.number, "map_age_ms": age}
