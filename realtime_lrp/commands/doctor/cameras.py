"""Opens and measures cameras and the chosen source.

Linux (Video4Linux2) is asked for the formats of a camera without starting it; on other systems only
the first camera is looked at.
"""

import errno
import os
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from realtime_lrp.commands.doctor.run import Mark, Row, failed_row
from realtime_lrp.config import Settings
from realtime_lrp.errors import Error, UnavailableError, masked
from realtime_lrp.realtime.capture import BLACK, FIRST_FRAME_S
from realtime_lrp.video import cameras
from realtime_lrp.video.source import Source
from realtime_lrp.video.sources import open_source

NODES = Path("/dev")
"""The folder of Linux's camera devices."""

MEASURE_S = 2.0
"""How long a source is read."""


def every_camera(settings: Settings) -> Iterator[Row]:
    """A row for each camera, or one that says that there is none."""
    found = False
    for node, name in (_nodes() if cameras.LINUX else {"0": "the first camera"}).items():
        try:
            offers = formats(node) if cameras.LINUX else []
            if offers is None:
                continue
            measurement = measure(node, settings)
            mark, advice = judge(measurement, settings)
            offered = f"; it offers {', '.join(offers)}" if offers else ""
            said = f"{name} ({node}): {describe(measurement)}{offered}"
            yield Row(mark, "camera", said, advice)
        except (Error, OSError) as error:
            yield _failed_camera(node, name, error)
        found = True
    if not found:
        yield Row(
            "warning", "camera", "none found",
            "plug one in, or pass it to this virtual machine or container; without one: --source "
            "URL (http, rtsp), --source screen, a file, or --source synthetic",
        )  # fmt: skip


def chosen_source(settings: Settings) -> Iterator[Row]:
    """Opens and measures the source that the user chose."""
    name = settings.config.live.source
    measurement = measure(name, settings)
    mark, advice = judge(measurement, settings)
    yield Row(mark, "source", f"{masked(name)}: {describe(measurement)}", advice)


def _nodes() -> dict[str, str]:
    """Path -> name of each camera, including devices that the system does not list."""
    found = cameras.names()
    for node in sorted(NODES.glob("video[0-9]*")):
        if not (cameras.SYSTEM / node.name).exists():
            found[str(node)] = "a camera without a name"
    return found


def _failed_camera(node: str, name: str, error: Error | OSError) -> Row:
    found = failed_row("warning", "camera", error).found
    advice = f"close other programs that use it (fuser -v {node} lists them), or replug it"
    if isinstance(error, PermissionError):
        found = "you have no permission to use it"
        advice = "sudo usermod -aG video USER, then log out and in again"
    elif isinstance(error, FileNotFoundError):
        found = f"there is no {node}"
        advice = f"pass it to this container, for example with docker run --device {node}"
    return Row("warning", "camera", f"{name} ({node}): {found}", advice)


@dataclass(frozen=True)
class Measurement:
    """What a source gave: pictures a second, None if only one came, and the last one, RGB.

    `alive` is a camera or the like, which may give black pictures.
    """

    described: str
    alive: bool
    fps: float | None
    last: np.ndarray


def measure(name: str, settings: Settings) -> Measurement:
    """Opens a source, named as for `--source`, and reads it for `MEASURE_S`."""
    live, stop = settings.config.live, threading.Event()
    alarm = threading.Timer(FIRST_FRAME_S + MEASURE_S, stop.set)
    alarm.start()
    measurement: Measurement | None = None
    try:
        with open_source(name, stop, cameras.CameraSettings.of(live)) as source:
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
    if measurement.fps and measurement.fps < 20:
        tips = "more light makes cameras faster"
        if settings.config.live.camera_format is None:
            tips += "; so may --set live.camera_format=MJPG, or a smaller live.camera_size"
        return "warning", f"it is slow: {tips}"
    return "ok", ""


QUERYCAP, ENUM_FMT, ENUM_FRAMESIZES = 0x80685600, 0xC0405602, 0xC02C564A
"""Request codes from linux/videodev2.h: `VIDIOC_QUERYCAP` and so on."""

CAPABILITIES, FORMAT, SIZE = "=84x2I12x", "=3I32s4s16x", "=I4sI6I8x"
"""Layouts of their structures: capabilities of the device and of this node; index, type, flags,
description and four-letter code of a format; index, code, kind of size, and either the size or the
smallest, the largest and the step of each side."""

GIVES_PICTURES, HAS_NODE_CAPABILITIES = 0x1001, 0x80000000
"""Capability flags: pictures in one plane or several; the capabilities of the node are valid."""

CAPTURE = 1
DISCRETE = 1


def formats(node: str) -> list[str] | None:
    """Each format of a camera with its largest size, for example "MJPG up to 1920 x 1080".

    None if it is not a camera: video encoders are called /dev/video* as well.
    """
    camera = os.open(node, os.O_RDWR | os.O_NONBLOCK)
    try:
        return list(_formats(camera)) if _is_camera(camera) else None
    finally:
        os.close(camera)


def _is_camera(camera: int) -> bool:
    """Whether the device gives pictures; assumed if it does not answer."""
    import fcntl

    try:
        answer = fcntl.ioctl(camera, QUERYCAP, bytes(struct.calcsize(CAPABILITIES)))
    except OSError:
        return True
    device, node = struct.unpack(CAPABILITIES, answer)
    return bool((node if device & HAS_NODE_CAPABILITIES else device) & GIVES_PICTURES)


def _formats(camera: int) -> Iterator[str]:
    for fields in _enumerate(camera, ENUM_FMT, FORMAT, CAPTURE, 0, b"", bytes(4)):
        code = fields[4]
        sizes = _enumerate(camera, ENUM_FRAMESIZES, SIZE, code, *[0] * 7)
        largest = max(map(_size, sizes), default=None)
        up_to = f" up to {largest[0]} x {largest[1]}" if largest else ""
        yield code.decode("ascii", "replace").strip() + up_to


def _enumerate(camera: int, request: int, layout: str, *fields: int | bytes) -> Iterator[tuple]:
    """Yields a camera's answers for index 0, 1, ... until it reports the end."""
    import fcntl

    for index in range(1000):
        try:
            answer = fcntl.ioctl(camera, request, struct.pack(layout, index, *fields))
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOTTY):  # the end, or not supported
                return
            raise
        yield struct.unpack(layout, answer)


def _size(fields: tuple) -> tuple[int, int]:
    """Width and height; the largest of a range."""
    kind, sides = fields[2], fields[3:]
    return (sides[0], sides[1]) if kind == DISCRETE else (sides[1], sides[4])
