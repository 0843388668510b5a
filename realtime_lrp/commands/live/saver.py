"""Saves recordings and snapshots of the live view. A failed save never ends the view."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from realtime_lrp.config import Config
from realtime_lrp.config.provenance import Provenance
from realtime_lrp.engine.wording import describe_target
from realtime_lrp.errors import Error, OutputError
from realtime_lrp.realtime.explaining import ExplainedFrame
from realtime_lrp.realtime.latest import Item
from realtime_lrp.realtime.viewer.events import NoticeGiven
from realtime_lrp.realtime.viewer.network_view import NetworkView
from realtime_lrp.realtime.viewer.state import ViewerState
from realtime_lrp.realtime.viewer.view import View
from realtime_lrp.results.companions import Snapshot, concept_records, map_record, save_snapshot
from realtime_lrp.system.files import check_output, parts_in
from realtime_lrp.video.recorder import Recorder, check_film

STEM = "realtime_lrp"  # how the names of files begin that are saved by key
log = logging.getLogger(__name__)


class Saver:
    """Saves in background threads; `record` is a film that runs from the first map on."""

    def __init__(self, config: Config, record: Path | None, overwrite: bool, by_key: bool = True):
        self.failure: Error | None = None  # why that film is incomplete
        self._config = config
        self._asked_at_start = self._film = record
        self._overwrite = overwrite
        self._recorder: Recorder | None = None
        self._threads: list[threading.Thread] = []
        self._names: set[Path] = set()
        self.news: deque[NoticeGiven] = deque()  # about files that are finished, for the view
        self._lines: list[str] = []
        self._record_of: tuple[ExplainedFrame, dict[str, Any]] | None = None
        folder = Path(config.live.folder)
        if by_key:
            try:
                check_output(folder / f"{STEM}.png", overwrite=True)
            except Error as error:
                log.warning("keys cannot save anything: %s", error)
        for part, target, running in parts_in(folder):
            if target.name.startswith(f"{STEM}-") and not running:
                log.warning("%s was left by a run that was killed; rename it to keep it", part)
        if record:
            check_film(record, overwrite)

    def record(
        self, canvas: np.ndarray, frame: Item[np.ndarray], explained: ExplainedFrame
    ) -> None:
        """Appends a canvas to the recording, if one runs."""
        if self._film is None:
            return
        if self._recorder is None:
            provenance = partial(explained.engine.provenance, None, "live")
            size = canvas.shape[:2]
            self._recorder = Recorder(self._film, size, self._overwrite, provenance=provenance)
        self._recorder.put(canvas, time.monotonic(), self._sidecar_row(frame, explained))
        if self._recorder.trouble:
            self._end_recording()

    def toggle_recording(self, view: View) -> str:
        """Starts a recording, or ends the one that runs; returns a notice."""
        if self._film:
            self._end_recording()
            return "recording ends"
        if view.canvas is None:
            return "there is no picture yet"

        def provenance() -> Provenance | None:
            if (explained := view.first.explained) is None:
                return None
            return explained.engine.provenance(_config_of(view.state, explained), "live")

        film = self._free_name(".mp4")
        self._recorder = Recorder(film, view.canvas.shape[:2], provenance=provenance)
        self._film = film
        return f"recording {film.name}"

    def snapshot(self, view: View) -> str:
        """Saves what is shown, with the maps and the configuration; returns a notice."""
        snapshot = snapshot_of(view)
        if snapshot is None:
            return "there is no map yet"
        target = self._free_name(".png")

        def save() -> str:
            save_snapshot(target, snapshot)
            self._lines.append(f"picture -> {target} (and {target.with_suffix('.npz').name})")
            return f"saved {target.name}"

        self._in_background(save)
        return f"saving {target.name}"

    def status(self) -> str:
        """A line about the recording that runs, or ""."""
        if (recorder := self._recorder) is None:
            return ""
        minutes, seconds = divmod(int(recorder.seconds), 60)
        dropped = f", {recorder.dropped} left out" if recorder.dropped else ""
        return f"recording {minutes}:{seconds:02d}{dropped}"

    def finish(self) -> list[str]:
        """Ends the recording and waits for all files; returns a line for each."""
        self._end_recording()
        for thread in self._threads:
            thread.join()
        return self._lines

    def _in_background(self, save: Callable[[], str], asked_at_start: bool = False) -> None:
        """Saves something in a thread; what `save` returns becomes a notice."""

        def run() -> None:
            try:
                text = save()
            except Error as error:
                self.failure = error if asked_at_start else self.failure
                text = str(error)
            self.news.append(NoticeGiven(text))

        thread = threading.Thread(target=run, daemon=True)
        self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]
        thread.start()

    def _end_recording(self) -> None:
        recorder = self._recorder
        film = self._film
        self._recorder = self._film = None
        if recorder is None or film is None:
            return

        def finish() -> str:
            lines = recorder.finish()
            self._lines += lines
            if recorder.trouble:
                return lines[-1]
            if not recorder.frames:
                return "no picture came: nothing is saved"
            return f"saved {film.name}, {recorder.seconds:.1f} s"

        self._in_background(finish, film == self._asked_at_start)

    def _free_name(self, suffix: str) -> Path:
        """A new name in the configured folder, made of date and time."""
        folder = Path(self._config.live.folder).resolve()
        stem = time.strftime(f"{STEM}-%Y%m%d-%H%M%S")
        for number in range(1, 100):
            target = folder / f"{stem}{f'-{number}' if number > 1 else ''}{suffix}"
            companion = target.with_suffix(".npz" if suffix == ".png" else ".jsonl")
            if not (target in self._names or target.exists() or companion.exists()):
                check_output(target, overwrite=False)
                self._names.add(target)
                return target
        raise OutputError(f"There is no free name in {str(folder)!r}.")

    def _sidecar_row(self, frame: Item[np.ndarray], explained: ExplainedFrame) -> dict[str, Any]:
        """The line of a recorded canvas; what depends on the map alone is computed once."""
        if self._record_of is None or self._record_of[0] is not explained:
            engine = explained.engine
            target = describe_target(engine, explained.result.target, explained.answers)
            row = map_record(engine, target, explained.result)
            row |= {
                "method": engine.config.lrp.method,
                "map": engine.name,
                "explained_score": explained.result.explained[0],
                "map_frame": explained.frame.number,
                "lost_in": explained.loss.layer if explained.loss else None,
            }
            if (found := explained.result.concepts) and found.maps:
                row["concept_layer"] = found.layer
                names = engine.gallery.names if engine.gallery else {}
                row["concepts"] = concept_records(found.by_channel, names.get(found.layer, {}))
            self._record_of = explained, row
        now = time.monotonic()
        return {
            **self._record_of[1],
            "captured_frame": frame.number,
            "picture_age_ms": round(1000 * (now - frame.time), 1),
            "map_age_ms": round(1000 * (now - explained.frame.time), 1),
        }


def _config_of(state: ViewerState, explained: ExplainedFrame) -> Config:
    """The configuration that gives the maps shown; the state may already ask for others."""
    computed = explained.engine.config
    panels = explained.engine.also if state.tiled else state.panels
    present = state.present_config().changed(
        lrp={
            "method": computed.lrp.method, "composite": computed.lrp.composite,
            "target": explained.request.target,
        },
        overlay={"map": computed.overlay.map},
        live={"panels": list(panels)},
    )  # fmt: skip
    return present.model_copy(update={"model": computed.model})


def snapshot_of(view: View) -> Snapshot | None:
    """The view with the data behind it; None if the first network has no map."""
    first, *others = (_snapshot_of_network(view, network) for network in view.networks)
    if first is None:
        return None
    further = {
        number: replace(own, config=own.config.changed(live={"also_models": []}))
        for number, own in enumerate(others, 2)
        if own
    }
    return replace(first, further=further)


def _snapshot_of_network(view: View, network: NetworkView) -> Snapshot | None:
    explained = network.explained
    scene = network.scene
    if not network.has_map or scene is None or view.canvas is None or explained is None:
        return None
    picture = scene.picture
    engine = explained.engine
    request = explained.request
    return Snapshot(
        canvas=view.canvas,
        picture=picture,
        explained_picture=None if explained.picture is picture else explained.picture,
        engine=engine,
        target=describe_target(engine, explained.result.target, explained.answers),
        result=explained.result,
        probe=request.probe,
        followed_channel=request.concepts.channel if request.concepts else None,
        config=_config_of(view.state, explained),
    )
