"""Measures how fast a source gives pictures, and finds what is wrong with them."""

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
"""Slower cameras get a warning."""


@dataclass(frozen=True)
class Measurement:
    """What a source gave.

    Attributes:
      described: how the source describes itself.
      alive: whether it is a camera or the like, which may give black pictures.
      fps: pictures a second; None if only one came.
      last: the last picture, uint8 [H, W, 3] RGB.
    """

    described: str
    alive: bool
    fps: float | None
    last: np.ndarray


def measure(name: str, settings: Settings) -> Measurement:
    """Opens a source and reads it for `MEASURE_S`.

    Args:
      name: as for `--source`.
      settings: size, rate and format that cameras are asked for.

    Raises:
      UnavailableError: it cannot be opened, or gives no picture within `FIRST_FRAME_S`.
      Error: what else `open_source` raises.
    """
    live, stop = settings.config.live, threading.Event()
    camera = CameraSettings.of(live)
    alarm = threading.Timer(FIRST_FRAME_S + MEASURE_S, stop.set)
    alarm.start()
    measurement: Measurement | None = None
    try:
        with open_source(name, stop, camera) as source:
            measurement = _read(source)
    except UnavailableError:
        if not stop.is_set():  # else opening was ended
            raise
    finally:
        alarm.cancel()
    if measurement is None:
        silent = f"It gave no picture within {FIRST_FRAME_S:.0f} seconds."
        raise UnavailableError(silent if stop.is_set() else "It opens but gives no picture.")
    return measurement


def _read(source: Source) -> Measurement | None:
    """Reads for `MEASURE_S`; None if no picture came."""
    times: list[float] = []
    while (picture := source.read()) is not None:
        times.append(time.monotonic())
        last, span = picture, times[-1] - times[0]
        if span >= MEASURE_S:
            break
    if not times:
        return None
    fps = (len(times) - 1) / span if span else None
    return Measurement(source.described, source.alive, fps, last)


def describe(measurement: Measurement) -> str:
    """Size and measured rate of the pictures, and what a camera claims."""
    rows, columns = measurement.last.shape[:2]
    rate = f"{measurement.fps:.1f} fps measured" if measurement.fps else "one picture"
    name, _, claim = measurement.described.partition(", ")
    claimed = f" (it claims {claim})" if claim and name.startswith("camera ") else ""
    return f"{columns} x {rows}, {rate}{claimed}"


def judge(measurement: Measurement, settings: Settings) -> tuple[Mark, str]:
    """The mark of a source that gives pictures, and what to do if they are not good."""
    if not measurement.alive:
        return "ok", ""
    if measurement.last.mean() <= BLACK:
        return "warning", "the picture is black: remove the lens cover, switch on a light"
    if measurement.fps and measurement.fps < SLOW_FPS:
        tips = "more light makes cameras faster"
        if settings.config.live.camera_format is None:
            tips += "; so may --set live.camera_format=MJPG, or a smaller live.camera_size"
        return "warning", f"it is slow: {tips}"
    return "ok", ""
