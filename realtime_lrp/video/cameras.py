"""Cameras of this machine, by number, path or name, and what they are asked for."""

import logging
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from realtime_lrp.errors import UnavailableError
from realtime_lrp.video.libraries import cv2
from realtime_lrp.video.reader import MOST_BAD_PACKETS
from realtime_lrp.video.source import Source

LINUX = sys.platform.startswith("linux")
SYSTEM = Path("/sys/class/video4linux")
"""Where Linux tells of its cameras."""

BUFFERS = 2
"""One that is filled while the other is decoded: with a single one every second frame is lost."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CameraSettings:
    """How a camera is to film; what is None is left to it.

    Attributes:
      size: (width, height) in pixels.
      fps: frames a second.
      format: four letters, for example "MJPG".
    """

    size: tuple[int, int] | None = None
    fps: float | None = None
    format: str | None = None

    def __str__(self) -> str:
        words = [
            f"{self.size[0]} x {self.size[1]}" if self.size else "",
            f"{self.fps:g} fps" if self.fps else "",
            self.format or "",
        ]
        return ", ".join(word for word in words if word)

    def matches(self, given: "CameraSettings") -> bool:
        """Whether a camera films so; what it does not tell counts as right."""
        return (
            self.size in (None, given.size)
            and (not (self.fps and given.fps) or abs(self.fps - given.fps) < 0.5)
            and (not (self.format and given.format) or self.format == given.format)
        )


class Camera(Source):
    """A camera.

    Args:
      device: its number, its path, or a part of its name.
      stop: ends every wait.
      asked: how it is to film.

    Raises:
      UnavailableError: there is no such camera, or it cannot be opened.
    """

    steady = alive = True

    def __init__(
        self, device: int | str, stop: threading.Event, asked: CameraSettings | None = None
    ):
        super().__init__(stop)
        self._name, self._asked = f"camera {device}", asked or CameraSettings()
        self._capture = cv2.VideoCapture()
        node = device if isinstance(device, int) else node_of(device)
        try:
            opened = self._capture.open(node, cv2.CAP_V4L2 if LINUX else cv2.CAP_ANY)
        except (cv2.error, OverflowError):
            opened = False
        if not opened:
            self._capture.release()
            raise _unavailable(device)
        self._ask()
        self.described = f"{self._name}, {self._given()}"
        self._told = False

    def read(self) -> np.ndarray | None:
        for _ in range(MOST_BAD_PACKETS):
            if not self._capture.grab():
                return None
            picture = self._capture.retrieve()[1]
            if picture is not None and picture.size:  # a damaged one is none
                self._tell(picture.shape)
                return cv2.cvtColor(picture, cv2.COLOR_BGR2RGB)
        return None

    def close(self) -> None:
        self._capture.release()

    def _ask(self) -> None:
        """In the order that drivers need: the sizes there are depend on the format."""
        letters, (width, height) = self._asked.format, self._asked.size or (None, None)
        asked = [
            (cv2.CAP_PROP_FOURCC, letters and cv2.VideoWriter.fourcc(*letters)),
            (cv2.CAP_PROP_FRAME_WIDTH, width),
            (cv2.CAP_PROP_FRAME_HEIGHT, height),
            (cv2.CAP_PROP_FPS, self._asked.fps),
            (cv2.CAP_PROP_BUFFERSIZE, BUFFERS),
        ]
        for name, value in asked:
            if value:
                self._capture.set(name, value)

    def _given(self, shape: tuple[int, ...] | None = None) -> CameraSettings:
        """How the camera films, as its driver says; the size of a picture is surer."""
        get = self._capture.get
        width, height = get(cv2.CAP_PROP_FRAME_WIDTH), get(cv2.CAP_PROP_FRAME_HEIGHT)
        size = (shape[1], shape[0]) if shape else (int(width), int(height))
        letters = (int(get(cv2.CAP_PROP_FOURCC)) & 0xFFFFFFFF).to_bytes(4, "little")
        format_ = letters.decode("latin-1").strip() if letters.isascii() else ""
        return CameraSettings(
            size, max(0.0, get(cv2.CAP_PROP_FPS)), format_ if format_.isalnum() else None
        )

    def _tell(self, shape: tuple[int, ...]) -> None:
        """Logs, at the first picture, what was asked for and what came."""
        if self._told:
            return
        self._told, given = True, self._given(shape)
        self.described = f"{self._name}, {given}"
        asked = f"asked {self._asked}; " if str(self._asked) else ""
        tell = log.info if self._asked.matches(given) else log.warning
        tell("%s: %sgot %s", self._name, asked, given)


def open_camera(
    device: int | str,
    size: Sequence[int] | None,
    fps: float | None,
    format: str | None,
    stop: threading.Event,
) -> Camera:
    """A `Camera` that is asked for what `CameraSettings` holds."""
    return Camera(device, stop, CameraSettings((size[0], size[1]) if size else None, fps, format))


def check_there(device: int | str) -> None:
    """Refuses a camera that is not plugged in, where that can be told without opening it.

    Raises:
      UnavailableError: it is not there.
    """
    if LINUX:
        node = f"/dev/video{device}" if isinstance(device, int) else node_of(device)
        if not os.path.exists(node):
            raise _unavailable(device)


def _unavailable(device: int | str) -> UnavailableError:
    return UnavailableError(
        f"Camera {device!r} cannot be opened. Check that it is plugged in and not in use, "
        "or choose another with --source (a number, URL, file or 'synthetic')."
    )


def names() -> dict[str, str]:
    """The system's name of each camera by its path, for example "/dev/video0"; on Linux only."""
    found = {}
    for node in sorted(SYSTEM.glob("video*"), key=lambda node: (len(node.name), node.name)):
        try:
            index, name = (node / "index").read_text(), (node / "name").read_text()
        except OSError:  # unplugged just now
            continue
        if index.strip() == "0":  # the others carry no pictures
            found[f"/dev/{node.name}"] = name.strip()
    return found


def named(part: str) -> list[str]:
    """The paths of the cameras with this in their name, in whatever case."""
    return [node for node, name in names().items() if part.lower() in name.lower()]


def there_are() -> str:
    """A sentence on the cameras that can be named."""
    if not LINUX:
        return "Cameras are called by their number here: 0, 1 and so on."
    listed = ", ".join(f"{name} ({node})" for node, name in names().items())
    return f"Cameras here: {listed or 'none'}."


def node_of(device: str) -> str:
    """The path of a camera that is called by a path or by a part of its name.

    Raises:
      UnavailableError: none or several have that name.
    """
    if device.startswith("/dev/"):
        return os.path.realpath(device)
    found = named(device)
    if len(found) != 1:
        raise UnavailableError(
            f"{f'{len(found)} cameras' if found else 'No camera'} can be called {device!r}. "
            f"{there_are()}"
        )
    return found[0]
