"""Recorded files: every frame of a video with its time, and H.264 files from frames."""

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from realtime_lrp.errors import DamagedInputError, MissingInputError, OutputError
from realtime_lrp.video.libraries import av

log = logging.getLogger(__name__)

CONTAINERS = {".mp4": "mp4", ".mov": "mov", ".mkv": "matroska"}
MOST_BAD_PACKETS = 50


@dataclass(frozen=True)
class TimedFrame:
    """A frame and when it is shown.

    Attributes:
      picture: uint8 [H, W, 3] RGB, upright.
      pts: presentation time in units of the reader's `time_base`.
    """

    picture: np.ndarray
    pts: int


class VideoReader:
    """Reads the frames of a video file in order.

    Attributes:
      fps: average frames a second, a `Fraction`.
      time_base: seconds per unit of `TimedFrame.pts`, a `Fraction`.
      frames: how many frames the file claims to have, 0 where it does not say.
      bad_packets: how many packets could not be decoded so far.

    Raises:
      MissingInputError: there is no such file.
      DamagedInputError: the file is no video.
    """

    def __init__(self, path: Path):
        self._path = path
        self._container = _open(path)
        if not self._container.streams.video:
            self._container.close()
            raise DamagedInputError(f"{str(path)!r} has no video stream. Expected a video file.")
        self._stream = self._container.streams.video[0]
        self._stream.thread_type = "AUTO"
        self.fps = Fraction(self._stream.average_rate or self._stream.guessed_rate or 25)
        self.time_base = Fraction(self._stream.time_base or 1 / self.fps)
        self.frames = self._stream.frames
        self.bad_packets = 0

    def __enter__(self) -> "VideoReader":
        return self

    def __exit__(self, *exception) -> None:
        self._container.close()

    def __iter__(self) -> Iterator[TimedFrame]:
        """Yields every frame that can be decoded, all at the size of the first.

        Raises:
          DamagedInputError: nothing in the file can be decoded.
        """
        to_rgb = av.video.reformatter.VideoReformatter()
        step = max(1, round(1 / (self.fps * self.time_base)))
        last, size = None, {}
        for frame in self._decoded():
            pts = frame.pts
            if pts is None or (last is not None and pts <= last):
                pts = 0 if last is None else last + step
            last = pts
            size = size or {"width": frame.width, "height": frame.height}
            picture = to_rgb.reformat(frame, format="rgb24", **size).to_ndarray()
            yield TimedFrame(_upright(picture, frame.rotation), pts)
        if last is None:
            raise DamagedInputError(f"Nothing in {str(self._path)!r} can be decoded.")
        if self.bad_packets:
            log.warning("%s: skipped %d damaged packets", self._path, self.bad_packets)

    def _decoded(self) -> Iterator["av.VideoFrame"]:
        in_a_row = 0
        packets = self._container.demux(self._stream)
        while in_a_row < MOST_BAD_PACKETS:
            try:
                packet = next(packets, None)
                if packet is None:
                    return
                frames = packet.decode()
            except av.FFmpegError:
                self.bad_packets += 1
                in_a_row += 1
                packets = self._container.demux(self._stream)  # an error ended the old one
                continue
            in_a_row = 0
            yield from frames


class VideoWriter:
    """Writes H.264 into MP4, MOV or Matroska, BT.709, sizes made even by repeating the last line.

    Args:
      path: the file to write.
      container: the ending that names the container, for example ".mp4".
      fps: nominal frames a second.
      time_base: seconds per unit of the times given to `write`.

    Raises:
      OSError: the file cannot be written; also from `write` and on leaving the context.
      OutputError: from `write`, H.264 cannot hold frames of this size.
    """

    def __init__(self, path: Path, container: str, fps: Fraction, time_base: Fraction):
        options = {"movflags": "faststart"} if CONTAINERS[container] != "matroska" else {}
        self._container = av.open(path, "w", format=CONTAINERS[container], options=options)
        self._stream = self._container.add_stream("libx264", rate=fps)
        self._stream.options = {"crf": "18", "preset": "veryfast"}
        self._stream.pix_fmt = "yuv420p"
        context = self._stream.codec_context
        self._stream.time_base = context.time_base = time_base
        context.colorspace = context.color_primaries = context.color_trc = 1  # BT.709
        context.color_range = 1  # limited
        self._size: tuple[int, ...] | None = None
        self._to_yuv = av.video.reformatter.VideoReformatter()

    def __enter__(self) -> "VideoWriter":
        return self

    def __exit__(self, kind, *exception) -> None:
        if kind is not None:  # the file is given up, what closing it says does not matter
            with suppress(Exception):
                self._container.close()
            return
        try:
            self._container.mux(self._stream.encode(None))
        finally:
            self._container.close()

    def write(self, picture: np.ndarray, pts: int) -> None:
        """Appends a frame uint8 [H, W, 3] RGB, shown at `pts`; all have the size of the first."""
        size = picture.shape[:2]
        if self._size is None:
            self._size = size
            self._stream.height, self._stream.width = (side + side % 2 for side in size)
        if size != self._size:
            raise ValueError(f"Expected a frame of {self._size}. Received {size}.")
        odd = [(0, side % 2) for side in size]
        picture = np.pad(picture, [*odd, (0, 0)], mode="edge") if any(map(sum, odd)) else picture
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
        frame = self._to_yuv.reformat(
            frame, format="yuv420p", dst_colorspace="ITU709", dst_color_range="MPEG"
        )
        frame.pts, frame.time_base = pts, self._stream.codec_context.time_base
        try:
            packets = self._stream.encode(frame)
        except av.FFmpegError as error:
            raise OutputError(
                f"Frames of {size[1]} x {size[0]} pixels cannot be encoded as H.264 ({error})."
            ) from None
        self._container.mux(packets)


def _open(path: Path) -> "av.container.InputContainer":
    if path.is_dir():
        raise MissingInputError(f"{str(path)!r} is a folder. Expected a video file.")
    try:
        return av.open(path)
    except FileNotFoundError:
        raise MissingInputError(f"There is no video {str(path)!r}.") from None
    except PermissionError as error:
        raise MissingInputError(f"{str(path)!r} cannot be read ({error.strerror}).") from None
    except (av.FFmpegError, ValueError, OSError):
        raise DamagedInputError(
            f"{str(path)!r} is no video that can be read. Expected MP4, MOV, MKV, WebM or AVI."
        ) from None


def _upright(picture: np.ndarray, rotation: int) -> np.ndarray:
    """Turned as the file's display matrix says (degrees counter-clockwise)."""
    return np.ascontiguousarray(np.rot90(picture, rotation // 90 % 4)) if rotation else picture
