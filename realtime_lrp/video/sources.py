"""What `--source` names: a camera, a stream, a screen, files, or a synthetic picture.

A new source with a name is a row in `SOURCES`.
"""

import dataclasses
import functools
import re
import threading
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import numpy as np

from realtime_lrp.errors import MissingInputError, UnavailableError, masked
from realtime_lrp.video import cameras
from realtime_lrp.video.cameras import Camera, CameraSettings
from realtime_lrp.video.files import PICTURES, VIDEOS, inputs_of
from realtime_lrp.video.isolated import Isolated
from realtime_lrp.video.libraries import av, cv2
from realtime_lrp.video.playback import Playback
from realtime_lrp.video.reader import FORMATS, MOST_BAD_PACKETS, MOST_PIXELS
from realtime_lrp.video.screen import Screen
from realtime_lrp.video.source import Source

OPEN_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 5.0


STREAMS = f"{FORMATS},rtsp,rtp,jpeg_pipe,png_pipe"
"""What streams come in, as FFmpeg calls it."""


def _formats(url: str) -> dict[str, str]:
    """What a server may answer with: a playlist, which names others, only where asked for one."""
    if urlsplit(url).path.lower().endswith((".m3u8", ".m3u", ".mpd")):
        return {}
    return {"format_whitelist": STREAMS}


class Stream(Source):
    """A network stream: MJPEG over HTTP, RTSP, whatever FFmpeg reads from a URL."""

    steady = alive = True

    def __init__(self, url: str, stop: threading.Event):
        super().__init__(stop)
        self.described = masked(url)
        try:
            self._container = av.open(
                url,
                timeout=(OPEN_TIMEOUT_S, READ_TIMEOUT_S),
                options={
                    "fflags": "nobuffer",
                    "fpsprobesize": "0",
                    "analyzeduration": "0",
                    "max_redirects": "0",
                    **_formats(url),
                },
            )
            stream = self._container.streams.video[0]
            if stream.codec_context is None:
                raise ValueError("a codec that nothing here decodes")
            stream.codec_context.options = {"max_pixels": str(MOST_PIXELS)}
            self._frames = self._decoded(stream)
        except (av.FFmpegError, OSError, ValueError, IndexError) as error:
            reason = getattr(error, "strerror", None) or "no video in it"
            if isinstance(error, av.ExitError):  # FFmpeg's word for the end of our timeout
                reason = "no answer"
            raise UnavailableError(
                f"The stream {masked(url)} cannot be opened ({reason}). "
                "Check the address (of a playlist its own, of a redirection its end) and that its "
                "server runs."
            ) from None
        self._to_rgb = av.video.reformatter.VideoReformatter()

    def read(self) -> np.ndarray | None:
        try:
            frame = next(self._frames, None)
        except (av.FFmpegError, OSError):
            return None
        if frame is None:
            return None
        return self._to_rgb.reformat(frame, format="rgb24").to_ndarray()

    def close(self) -> None:
        self._container.close()

    def _decoded(self, stream: "av.VideoStream") -> Iterator["av.VideoFrame"]:
        """Frames; a damaged one costs itself, many in a row or a failing connection the stream."""
        bad_in_a_row = 0
        for packet in self._container.demux(stream):
            try:
                frames = packet.decode()
            except av.FFmpegError:
                bad_in_a_row += 1
                if bad_in_a_row > MOST_BAD_PACKETS:
                    return
                continue
            bad_in_a_row = 0
            yield from frames


class Synthetic(Source):
    """A disc that circles over a moving gradient, 640 x 480."""

    size = (480, 640)
    described = "synthetic"

    def __init__(self, fps: int, stop: threading.Event):
        super().__init__(stop)
        self.fps = fps
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
    rows, columns = np.indices(size)
    return ((rows + columns) // 5 % 256).astype(np.uint8)


def moving_picture(number: int, size: tuple[int, int], fps: int) -> np.ndarray:
    """A disc that circles over a moving gradient, uint8 [*size, 3] RGB.

    Args:
      number: of the frame.
      size: (rows, columns).
      fps: frames a second; the disc turns by a radian a second.
    """
    grey, turn = _slope(size) + np.uint8(number % 256), number / fps
    picture = cv2.merge([grey, 255 - grey, np.full_like(grey, 128)])
    rows, columns = size
    y, x = rows * (0.5 + 0.23 * np.sin(turn)), columns * (0.5 + 0.23 * np.cos(turn))
    radius = round(0.15 * min(size))
    return cv2.circle(picture, (int(x), int(y)), radius, (235, 80, 40), -1, cv2.LINE_AA)


def _number(name: str, more: str, least: int) -> int:
    if re.fullmatch(r"\d{1,3}", more) and int(more) >= least:
        return int(more)
    raise MissingInputError(
        f"There is no source {masked(f'{name}:{more}')!r}. Expected {name} alone, or {name}: and a "
        f"number from {least} to 999."
    )


SOURCES: dict[str, Callable[[str, threading.Event], Source]] = {
    "synthetic": lambda more, stop: Synthetic(_number("synthetic", more or "30", 1), stop),
    "screen": lambda more, stop: Screen(_number("screen", more or "1", 0), stop),
}
"""Sources that are called "NAME" or "NAME:MORE": what opens them, of MORE or "" and what ends their
waits (see `Source`)."""


def open_source(
    words: str, stop: threading.Event, asked: CameraSettings | None = None, isolated: bool = False
) -> Source:
    """Opens what `--source` names.

    Args:
      words: a name out of `SOURCES` ("synthetic", "synthetic:60", frames a second, "screen",
        "screen:2"), "0", "/dev/video0", a URL, a file, folder or glob, or a part of a camera's
        name.
      stop: ends the source's waits.
      asked: how a camera is to film.
      isolated: whether a camera is read by a child process.

    Raises:
      UnavailableError: the camera, stream or screen cannot be opened.
      MissingInputError: there is no such file, and no such camera.
    """
    named = re.fullmatch(r"([^:]+)(?::(.+))?", words, re.DOTALL)
    if named and named[1] in SOURCES:
        return SOURCES[named[1]](named[2] or "", stop)
    if words.isdecimal() or words.startswith("/dev/"):
        return _camera(int(words) if words.isdecimal() else words, stop, asked, isolated)
    if "://" in words:
        return Stream(words, stop)
    try:
        return Playback(inputs_of([words], PICTURES + VIDEOS, "source"), stop)
    except MissingInputError:
        if cameras.named(words):
            return _camera(words, stop, asked, isolated)
    raise MissingInputError(
        f"There is no source {masked(words)!r}: no such file, folder or match, and no camera that "
        f"is called so. {cameras.there_are()}"
    )


def _camera(
    device: int | str, stop: threading.Event, asked: CameraSettings | None, isolated: bool
) -> Camera | Isolated:
    if isolated:
        cameras.check_there(device)  # a process for each try is dear
        words = [device, *dataclasses.astuple(asked or CameraSettings())]
        return Isolated(cameras.open_camera, words, stop)
    return Camera(device, stop, asked)
