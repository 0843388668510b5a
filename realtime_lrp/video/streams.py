"""Sources with an address: live streams, cameras that answer with one picture, films."""

import threading
import time
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from realtime_lrp.errors import masked
from realtime_lrp.video.containers import open_address, pipe_of, unavailable
from realtime_lrp.video.frames import MOST_PIXELS, Deinterlacer, FrameConverter
from realtime_lrp.video.libraries import av
from realtime_lrp.video.playback import Playback
from realtime_lrp.video.source import PATIENCE_S, Source

UNDECODED_S = 90.0  # a stream without a decoded picture for this long counts as lost
TOLD_EVERY_S = 0.25  # how often a stream tells that data comes
LEAST_PAUSE_S = 0.2  # after which a camera is asked again for its present picture
MOST_PAUSE_S = 3.0  # the same while the picture does not change
LIVE = ("mpjpeg", "rtsp", "rtp", "sdp")  # FFmpeg's formats of pictures that come when made
LISTS = ("hls", "dash")  # FFmpeg's formats of pictures that come in pieces of seconds


def open_stream(url: str, stop: threading.Event) -> Source:
    """Opens an address. Films play at their own speed and start again at their end."""
    if pipe_of(url):
        return Snapshots(url, stop)
    stream = Stream(url, stop)
    opened = stream.container
    name = opened.format.name
    ends = opened.duration or opened.size > 0
    pieces = name.startswith(LISTS)  # pieces have their own clock
    if not pieces and (name.startswith(LIVE) or not ends):
        return stream
    stream.close()
    return Snapshots(url, stop) if name.endswith("_pipe") else Playback([url], stop)


class Stream(Source):
    """A live stream: pictures as they come, at once."""

    steady = alive = True
    patience_s = PATIENCE_S

    def __init__(self, url: str, stop: threading.Event):
        super().__init__(stop)
        self.described = masked(url)
        self.container = open_address(url, fpsprobesize="0", analyzeduration="0")
        try:
            stream = self.container.streams.video[0]
            if stream.codec_context is None:
                raise ValueError("a codec that nothing here decodes")
        except (IndexError, ValueError) as error:
            self.container.close()
            raise unavailable(url, error) from None
        stream.codec_context.options = {"max_pixels": str(MOST_PIXELS)}
        self._stream = stream
        self._frames = self._decoded()
        self._size: tuple[int, int] | None = None

    def read(self) -> np.ndarray | None:
        try:
            frame = next(self._frames)
        except (av.FFmpegError, OSError, StopIteration):
            return None
        if self._size != (size := (frame.width, frame.height)):
            aspect = self._stream.sample_aspect_ratio
            self._convert = FrameConverter(frame, aspect, square=True)
            self._size = size
        return self._convert(frame)

    def close(self) -> None:
        self.container.close()

    def _decoded(self) -> Iterator["av.VideoFrame"]:
        """Yields frames; damaged packets, and those before the first key frame, have none."""
        deinterlaced = Deinterlacer(self._stream.time_base or Fraction(1, 90000))
        decoded = told = time.monotonic()
        for packet in self.container.demux(self._stream):
            now = time.monotonic()
            if now - told > TOLD_EVERY_S:
                self.on_wait()
                told = now
            try:
                for frame in packet.decode():
                    yield from deinterlaced(frame)
                    decoded = now
            except av.FFmpegError:
                pass
            if now - decoded > UNDECODED_S:
                return


class Snapshots(Source):
    """A camera that answers each request with its present picture: it is asked again and again."""

    steady = True
    patience_s = PATIENCE_S

    def __init__(self, url: str, stop: threading.Event):
        super().__init__(stop)
        self._url = url
        self.described = masked(url)
        self._last: np.ndarray | None = None
        self._pause_s = LEAST_PAUSE_S

    def read(self) -> np.ndarray | None:
        if self._last is not None and self.stop.wait(self._pause_s):
            return None
        picture = self._asked()
        same = self._last is not None and np.array_equal(picture, self._last)
        self._pause_s = min(2 * self._pause_s, MOST_PAUSE_S) if same else LEAST_PAUSE_S
        self._last = picture
        return picture

    def _asked(self) -> np.ndarray:
        with open_address(self._url) as container:
            try:
                stream = container.streams.video[0]
                stream.codec_context.options = {"max_pixels": str(MOST_PIXELS)}
                frame = next(container.decode(stream))
            except (av.FFmpegError, IndexError, StopIteration) as error:
                raise unavailable(self._url, error) from None
            return FrameConverter(frame, stream.sample_aspect_ratio, square=True)(frame)
