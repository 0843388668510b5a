"""Opens what `--source` names: a camera, a stream, a screen, files, or a synthetic picture."""

import functools
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from realtime_lrp.errors import MissingInputError, UnavailableError, first_line, masked
from realtime_lrp.system.object_store import local_path
from realtime_lrp.video import cameras
from realtime_lrp.video.cameras import CameraSettings
from realtime_lrp.video.containers import asks_for_playlist, is_address
from realtime_lrp.video.files import PICTURES, VIDEOS, inputs_of
from realtime_lrp.video.libraries import cv2
from realtime_lrp.video.picture_process import ChildSource
from realtime_lrp.video.playback import Playback
from realtime_lrp.video.source import Source
from realtime_lrp.video.streams import open_stream

SCREEN_FPS = 30


def _number_in(name: str, more: str, usual: int, least: int) -> int:
    """The number of "NAME:NUMBER", the usual one of "NAME"."""
    if not more:
        return usual
    if re.fullmatch(r"\d{1,3}", more) and int(more) >= least:
        return int(more)
    raise MissingInputError(
        f"There is no source {masked(f'{name}:{more}')!r}. Expected {name!r} without a number, or "
        f"'{name}:' and a number from {least} to 999."
    )


class Synthetic(Source):
    """A disc that circles over a moving gradient, 640 x 480; `more` says how often a second."""

    size = (480, 640)
    described = "synthetic"

    def __init__(self, more: str, stop: threading.Event):
        super().__init__(stop)
        self.fps = _number_in("synthetic", more, usual=30, least=1)
        self._start = time.monotonic()
        self._count = 0

    def read(self) -> np.ndarray | None:
        due = self._start + self._count / self.fps
        if self.stop.wait(max(0.0, due - time.monotonic())):
            return None
        self._count += 1
        return moving_picture(self._count, self.size, self.fps)


@functools.cache
def _slope(size: tuple[int, int]) -> np.ndarray:
    return (np.indices(size).sum(0) // 5 % 256).astype(np.uint8)


def moving_picture(number: int, size: tuple[int, int], fps: int) -> np.ndarray:
    """A frame by its number, uint8 [*size, 3] RGB; the disc moves by one radian a second."""
    grey = _slope(size) + np.uint8(number % 256)
    turn = number / fps
    picture = cv2.merge([grey, 255 - grey, np.full_like(grey, 128)])
    rows, columns = size
    y, x = rows * (0.5 + 0.23 * np.sin(turn)), columns * (0.5 + 0.23 * np.cos(turn))
    radius = round(0.15 * min(size))
    return cv2.circle(picture, (int(x), int(y)), radius, (235, 80, 40), -1, cv2.LINE_AA)


class ScreenSource(Source):
    """Gives what is on a screen, `SCREEN_FPS` times a second at most; `more` is its number."""

    steady = True

    def __init__(self, more: str, stop: threading.Event):
        super().__init__(stop)
        number = _number_in("screen", more, usual=1, least=0)
        self.described = f"screen {number}"
        import mss

        try:
            self._grabber = mss.MSS()
            together, *screens = self._grabber.monitors
        except (mss.ScreenShotError, OSError) as error:
            raise UnavailableError(
                f"No screen can be read ({first_line(error)}). "
                "Start it in a graphical session, or choose another --source."
            ) from None
        screens = screens or [together]
        if not 1 <= number <= len(screens):
            self._grabber.close()
            raise UnavailableError(
                f"There is no screen {number}. There {'is' if len(screens) == 1 else 'are'} "
                f"{len(screens)}, numbered from 1: --source screen:1."
            )
        self._area = screens[number - 1]
        self._due = time.monotonic()

    def read(self) -> np.ndarray | None:
        if self.stop.wait(max(0.0, self._due - time.monotonic())):
            return None
        self._due = max(self._due, time.monotonic()) + 1 / SCREEN_FPS
        shot = self._grabber.grab(self._area)
        picture = np.frombuffer(shot.raw, np.uint8).reshape(shot.height, shot.width, 4)
        return cv2.cvtColor(picture, cv2.COLOR_BGRA2RGB)

    def close(self) -> None:
        self._grabber.close()


def open_source(words: str, stop: threading.Event, camera: CameraSettings | None = None) -> Source:
    """Opens what `words` name, as `--source` does, until `stop` is set.

    They are a name out of `SOURCES` ("synthetic", "synthetic:60" with frames a second, "screen",
    "screen:2"), a camera ("0", "/dev/video0" or a part of its name), a URL, or a file, folder or
    glob. Sources of this package are read by a child process; rows that a program adds to `SOURCES`
    are opened in this process. Raises UnavailableError for a camera, stream or screen that cannot
    be opened, MissingInputError if there is no such file and no such camera.
    """
    opener, arguments = opener_of(words, camera or CameraSettings())
    if opener.__module__.partition(".")[0] == __package__.partition(".")[0]:
        return ChildSource(opener, arguments, stop)
    return opener(*arguments, stop)


def open_files(files: Sequence[Path], stop: threading.Event) -> Source:
    """Plays recordings and pictures, read by a child process, see `Playback`."""
    return ChildSource(Playback, [list(map(str, files))], stop)


SOURCES: dict[str, Callable[[str, threading.Event], Source]] = {
    "synthetic": Synthetic,
    "screen": ScreenSource,
}
"""Name -> what opens the source called "NAME" or "NAME:MORE".

The opener is called as `opener(MORE or "", stop)`; `stop` ends the source's waits, see `Source`.
"""


def opener_of(words: str, camera: CameraSettings) -> tuple[Callable[..., Source], list[Any]]:
    """The function that opens a source, and its arguments without `stop`."""
    named = re.fullmatch(r"([^:]+)(?::(.+))?", words, re.DOTALL)
    if named and named[1] in SOURCES:
        return SOURCES[named[1]], [named[2] or ""]
    if words.isdecimal() or words.startswith("/dev/"):
        return _camera(int(words) if words.isdecimal() else words, camera)
    if is_address(words) and (asks_for_playlist(words) or not words.startswith("file://")):
        return open_stream, [words]
    words = local_path(words)
    try:
        return Playback, [list(map(str, inputs_of([words], PICTURES + VIDEOS, "source")))]
    except MissingInputError:
        if cameras.with_name(words):
            return _camera(words, camera)
    raise MissingInputError(
        f"There is no source {masked(words)!r}: no such file, folder or match, and no camera of "
        f"that name. {cameras.describe_all()}"
    )


def _camera(device: int | str, settings: CameraSettings) -> tuple[Callable[..., Source], list[Any]]:
    cameras.check_plugged_in(device)  # a child process for each retry would cost too much
    return cameras.Camera, [device, asdict(settings)]
