"""Cameras of this machine, by number, path or name, and their settings."""

import logging
import os
import struct
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from realtime_lrp.errors import UnavailableError
from realtime_lrp.video.libraries import cv2
from realtime_lrp.video.source import Source

if TYPE_CHECKING:
    from realtime_lrp.config.schema import Live

LINUX = sys.platform.startswith("linux")
SYSTEM = Path("/sys/class/video4linux")  # where Linux lists its cameras
BUFFERS = 2  # one fills while the other is decoded; one alone loses half the frames
MOST_BAD_PICTURES = 50  # damaged pictures in a row after which a camera counts as lost

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CameraSettings:
    """How a camera is to film; None leaves it to the camera."""

    size: tuple[int, int] | None = None  # width, height
    fps: float | None = None
    format: str | None = None  # four letters, for example "MJPG"

    @classmethod
    def of(cls, live: "Live") -> "CameraSettings":
        return cls(live.camera_size, live.camera_fps, live.camera_format)

    def __str__(self) -> str:
        size = f"{self.size[0]} x {self.size[1]}" if self.size else ""
        fps = f"{self.fps:g} fps" if self.fps else ""
        return ", ".join(filter(None, (size, fps, self.format)))

    def matches(self, given: "CameraSettings") -> bool:
        """Whether a camera films as these settings ask; what it does not say counts as right."""
        return (
            self.size in (None, given.size)
            and (not (self.fps and given.fps) or abs(self.fps - given.fps) < 0.5)
            and (not (self.format and given.format) or self.format == given.format)
        )


class Camera(Source):
    """A camera with the settings of `CameraSettings`."""

    steady = alive = True

    def __init__(self, device: int | str, settings: Mapping[str, Any], stop: threading.Event):
        super().__init__(stop)
        self._name = f"camera {device}"
        self._settings = msgspec.convert(settings, CameraSettings)
        self._capture = cv2.VideoCapture()
        node = device if isinstance(device, int) else node_of(device)
        try:
            opened = self._capture.open(node, cv2.CAP_V4L2 if LINUX else cv2.CAP_ANY)
        except (cv2.error, OverflowError):
            opened = False
        if not opened:
            self._capture.release()
            raise _unavailable(device)
        letters = self._settings.format
        width, height = self._settings.size or (None, None)
        for name, value in (  # drivers need this order: the possible sizes depend on the format
            (cv2.CAP_PROP_FOURCC, letters and cv2.VideoWriter.fourcc(*letters)),
            (cv2.CAP_PROP_FRAME_WIDTH, width),
            (cv2.CAP_PROP_FRAME_HEIGHT, height),
            (cv2.CAP_PROP_FPS, self._settings.fps),
            (cv2.CAP_PROP_BUFFERSIZE, BUFFERS),
        ):
            if value:
                self._capture.set(name, value)
        self.described = f"{self._name}, {self._given()}"
        self._logged = False  # whether the camera's settings are logged

    def read(self) -> np.ndarray | None:
        for _ in range(MOST_BAD_PICTURES):
            if not self._capture.grab():
                return None
            picture = self._capture.retrieve()[1]
            if picture is not None and picture.size:  # not a damaged one
                if not self._logged:
                    self._logged = True
                    given = self._given(picture.shape)
                    self.described = f"{self._name}, {given}"
                    asked = f"asked {self._settings}; " if str(self._settings) else ""
                    write = log.info if self._settings.matches(given) else log.warning
                    write("%s: %sgot %s", self._name, asked, given)
                return cv2.cvtColor(picture, cv2.COLOR_BGR2RGB)
        return None

    def close(self) -> None:
        self._capture.release()

    def _given(self, shape: tuple[int, ...] | None = None) -> CameraSettings:
        """How the camera films according to its driver; the shape of a picture overrides that."""
        get = self._capture.get
        width, height = get(cv2.CAP_PROP_FRAME_WIDTH), get(cv2.CAP_PROP_FRAME_HEIGHT)
        size = (shape[1], shape[0]) if shape else (int(width), int(height))
        letters = (int(get(cv2.CAP_PROP_FOURCC)) & 0xFFFFFFFF).to_bytes(4, "little")
        format_ = letters.decode("latin-1").strip() if letters.isascii() else ""
        return CameraSettings(
            size, max(0.0, get(cv2.CAP_PROP_FPS)), format_ if format_.isalnum() else None
        )


def check_plugged_in(device: int | str) -> None:
    """Refuses a camera that is not plugged in, if the system says so without opening it."""
    if LINUX:
        node = f"/dev/video{device}" if isinstance(device, int) else node_of(device)
        if not os.path.exists(node):
            raise _unavailable(device)


def _unavailable(device: int | str) -> UnavailableError:
    return UnavailableError(
        f"Camera {device!r} cannot be opened. Check that it is plugged in and not in use, "
        "or choose another source with --source (a number, URL, file or 'synthetic')."
    )


def names() -> dict[str, str]:
    """Path of each camera, for example "/dev/video0", and the system's name for it; Linux only."""
    found = {}
    for node in sorted(SYSTEM.glob("video*"), key=lambda node: (len(node.name), node.name)):
        try:
            index = (node / "index").read_text()
            name = (node / "name").read_text()
        except OSError:  # was unplugged just now
            continue
        if index.strip() == "0":  # the others give no pictures
            found[f"/dev/{node.name}"] = name.strip()
    return found


def with_name(part: str) -> list[str]:
    """The paths of the cameras whose names contain a text, in upper or lower case."""
    return [node for node, name in names().items() if part.lower() in name.lower()]


def describe_all() -> str:
    """A sentence that lists the cameras."""
    if not LINUX:
        return "Cameras are called by their number here: 0, 1 and so on."
    listed = ", ".join(f"{name} ({node})" for node, name in names().items())
    return f"Cameras here: {listed or 'none'}."


def node_of(device: str) -> str:
    """The path of a camera, given its path or a part of its name."""
    if device.startswith("/dev/"):
        return os.path.realpath(device)
    found = with_name(device)
    if len(found) != 1:
        raise UnavailableError(
            f"{f'{len(found)} cameras match' if found else 'No camera matches'} {device!r}. "
            f"{describe_all()}"
        )
    return found[0]


def gives_pictures(node: str) -> bool:
    """Whether a device of Linux is a camera: video encoders are called /dev/video* as well.

    The request VIDIOC_QUERYCAP of linux/videodev2.h fills in what the device and this node can do;
    what does not answer counts as a camera.
    """
    import fcntl

    layout = "=84x2I12x"
    valid = 0x80000000
    capture = 0x1001
    camera = os.open(node, os.O_RDWR | os.O_NONBLOCK)
    try:
        answer = fcntl.ioctl(camera, 0x80685600, bytes(struct.calcsize(layout)))
    except OSError:
        return True
    finally:
        os.close(camera)
    of_device, of_node = struct.unpack(layout, answer)
    return bool((of_node if of_device & valid else of_device) & capture)
