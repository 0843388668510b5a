"""Live sources: cameras, URLs, recordings played at their own speed, a synthetic picture.

A source is opened, read and closed by one thread. `read` returns uint8 [H, W, 3] RGB, or None when
the source is lost or was told to stop; it takes as long as the source takes.
"""

import functools
import logging
import re
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from realtime_lrp.errors import DamagedInputError, Error, UnavailableError
from realtime_lrp.video.files import PICTURES, VIDEOS, inputs_of, masked
from realtime_lrp.video.libraries import av, cv2
from realtime_lrp.video.pictures import read_picture
from realtime_lrp.video.reader import MOST_BAD_PACKETS, VideoReader

OPEN_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 5.0
PICTURE_S = 3.0

log = logging.getLogger(__name__)


class Source:
    """Where frames come from.

    Args:
      stop: ends every wait of the source when it is set.

    Attributes:
      steady: frames come one after the other without pauses.
      alive: a camera looks at the world: no two of its pictures are the same.
    """

    steady = False
    alive = False

    def __init__(self, stop: threading.Event):
        self.stop = stop

    def read(self) -> np.ndarray | None:
        """The next frame, uint8 [H, W, 3] RGB; None when the source is lost or told to stop."""
        raise NotImplementedError

    def close(self) -> None:
        """Gives the device or file back."""

    def __enter__(self) -> "Source":
        return self

    def __exit__(self, *exception) -> None:
        self.close()


class Camera(Source):
    """A camera of this machine, by index or device path."""

    steady = alive = True

    def __init__(self, device: int | str, stop: threading.Event):
        super().__init__(stop)
        self._capture = cv2.VideoCapture()
        try:
            opened = self._capture.open(device)
        except (cv2.error, OverflowError):
            opened = False
        if not opened:
            self._capture.release()
            raise UnavailableError(
                f"Camera {device!r} cannot be opened. Check that it is plugged in and not in use, "
                "or choose another with --source (a number, URL, file or 'synthetic')."
            )

    def read(self):
        delivered, picture = self._capture.read()
        return cv2.cvtColor(picture, cv2.COLOR_BGR2RGB) if delivered else None

    def close(self):
        self._capture.release()


class Stream(Source):
    """A network stream: MJPEG over HTTP, RTSP, whatever FFmpeg reads from a URL."""

    steady = alive = True

    def __init__(self, url: str, stop: threading.Event):
        super().__init__(stop)
        try:
            self._container = av.open(
                url,
                timeout=(OPEN_TIMEOUT_S, READ_TIMEOUT_S),
                options={"fflags": "nobuffer", "fpsprobesize": "0", "analyzeduration": "0"},
            )
            self._frames = self._decoded(self._container.streams.video[0])
        except (av.FFmpegError, OSError, ValueError, IndexError) as error:
            reason = getattr(error, "strerror", None) or "no video in it"
            raise UnavailableError(
                f"The stream {masked(url)} cannot be opened ({reason}). "
                "Check the address and that its server runs."
            ) from None
        self._to_rgb = av.video.reformatter.VideoReformatter()

    def read(self):
        try:
            frame = next(self._frames, None)
        except (av.FFmpegError, OSError):
            return None
        if frame is None:
            return None
        return self._to_rgb.reformat(frame, format="rgb24").to_ndarray()

    def close(self):
        self._container.close()

    def _decoded(self, stream) -> Iterator["av.VideoFrame"]:
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


class Playback(Source):
    """Recordings at their own speed, pictures for `PICTURE_S` each, again and again."""

    def __init__(self, files: Sequence[Path], stop: threading.Event):
        super().__init__(stop)
        self._frames = self._played(files)
        self._due = None

    def read(self):
        return next(self._frames, None)

    def close(self):
        self._frames.close()

    def _played(self, files: Sequence[Path]) -> Iterator[np.ndarray]:
        playable = list(files)
        while playable and not self.stop.is_set():
            for file in list(playable):
                try:
                    yield from self._frames_of(file)
                except Error as error:
                    if len(files) == 1:
                        raise
                    log.warning("%s", error)
                    playable.remove(file)
        if not playable:
            raise DamagedInputError(f"None of the {len(files)} files can be played.")

    def _frames_of(self, file: Path) -> Iterator[np.ndarray]:
        if file.suffix.lower() in PICTURES:
            yield from self._paced([(read_picture(file), PICTURE_S)])
            return
        with VideoReader(file) as reader:
            yield from self._paced(_with_durations(reader))

    def _paced(self, frames) -> Iterator[np.ndarray]:
        """Yields each frame when it is due; a player that fell behind catches up or starts anew."""
        for picture, duration_s in frames:
            now = time.monotonic()
            due = now if self._due is None or now - self._due > 1.0 else self._due
            if self.stop.wait(max(0.0, due - now)):
                return
            self._due = due + duration_s
            yield picture


class Synthetic(Source):
    """A disc that circles over a moving gradient, 640 x 480."""

    size = (480, 640)

    def __init__(self, fps: int, stop: threading.Event):
        super().__init__(stop)
        self.fps = fps
        self._start = time.monotonic()
        self._count = 0

    def read(self):
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


def open_source(words: str, stop: threading.Event) -> Source:
    """Opens what `--source` names.

    Args:
      words: "0", "/dev/video0", a URL, "synthetic", "synthetic:60" (frames a second), or a file,
        folder or glob.
      stop: ends the source's waits.

    Raises:
      UnavailableError: the camera or stream cannot be opened.
      MissingInputError: there is no such file.
    """
    if synthetic := re.fullmatch(r"synthetic(?::([1-9]\d{0,2}))?", words):
        return Synthetic(int(synthetic[1] or 30), stop)
    if words.isdecimal():
        return Camera(int(words), stop)
    if words.startswith("/dev/"):
        return Camera(words, stop)
    if "://" in words:
        return Stream(words, stop)
    files = inputs_of([words], PICTURES + VIDEOS, "source")
    return Playback(files, stop)


def _with_durations(reader: VideoReader) -> Iterator[tuple[np.ndarray, float]]:
    """Yields (picture, seconds until the next one); the last lasts one average frame."""
    before = None
    for frame in reader:
        if before is not None:
            yield before.picture, float((frame.pts - before.pts) * reader.time_base)
        before = frame
    if before is not None:
        yield before.picture, float(1 / reader.fps)
