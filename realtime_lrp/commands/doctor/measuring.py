"""How fast a source gives pictures, and what is wrong with them."""

import threading
import time
from dataclasses import dataclass

import numpy as np

from realtime_lrp.commands.doctor.rows import Mark
from realtime_lrp.config import Settings
from realtime_lrp.errors import UnavailableError
from realtime_lrp.realtime.capture import BLACK, FIRST_FRAME_S
from realtime_lrp.video.cameras import CameraSettings
from realtime_lrp.video.source import Source
from realtime_lrp.video.sources import open_source

MEASURE_S = 2.0
SLOW_FPS = 20.0
"""Slower cameras are named."""


@dataclass(frozen=True)
class Measured:
    """What a source gave.

    Attributes:
      told: what it says of itself.
      alive: it looks at the world.
      fps: pictures a second; None where a single one came.
      last: the last picture, uint8 [H, W, 3] RGB.
    """

    told: str
    alive: bool
    fps: float | None
    last: np.ndarray


def measured(words: str, settings: Settings) -> Measured:
    """Opens what `--source` names, and reads it for `MEASURE_S`.

    Raises:
      UnavailableError: it cannot be opened, or no picture comes within `FIRST_FRAME_S`.
      Error: what else `open_source` raises.
    """
    live, stop = settings.config.live, threading.Event()
    camera = CameraSettings(live.camera_size, live.camera_fps, live.camera_format)
    alarm = threading.Timer(FIRST_FRAME_S + MEASURE_S, stop.set)
    alarm.start()
    taken: Measured | None = None
    try:
        with open_source(words, stop, camera) as source:
            taken = _measured(source)
    except UnavailableError:
        if not stop.is_set():  # else opening was ended
            raise
    finally:
        alarm.cancel()
    if taken is None:
        silent = f"It gave no picture within {FIRST_FRAME_S:.0f} seconds."
        raise UnavailableError(silent if stop.is_set() else "It opens but gives no picture.")
    return taken


def _measured(source: Source) -> Measured | None:
    times: list[float] = []
    while (picture := source.read()) is not None:
        times.append(time.monotonic())
        last, span = picture, times[-1] - times[0]
        if span >= MEASURE_S:
            break
    if not times:
        return None
    fps = (len(times) - 1) / span if span else None
    return Measured(source.described, source.alive, fps, last)


def described(taken: Measured) -> str:
    """The size and the pace of its pictures, and what a camera says of itself."""
    rows, columns = taken.last.shape[:2]
    pace = f"{taken.fps:.1f} fps measured" if taken.fps else "one picture"
    camera, _, told = taken.told.partition(", ")
    says = f" (it says {told})" if told and camera.startswith("camera ") else ""
    return f"{columns} x {rows}, {pace}{says}"


def trouble(taken: Measured, settings: Settings) -> tuple[Mark, str]:
    """The mark of a source that gives pictures, and what to do where they are not good."""
    if not taken.alive:
        return "ok", ""
    if taken.last.mean() <= BLACK:
        return "warning", "the picture is black: take off the cover, switch on a light"
    if taken.fps and taken.fps < SLOW_FPS:
        words = "more light makes cameras faster"
        if settings.config.live.camera_format is None:
            words += "; so may --set live.camera_format=MJPG, or a smaller live.camera_size"
        return "warning", f"it is slow: {words}"
    return "ok", ""
