"""Network streams: MJPEG over HTTP, RTSP, whatever FFmpeg reads from a URL."""

import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import numpy as np

from realtime_lrp.errors import UnavailableError, masked
from realtime_lrp.video.libraries import av
from realtime_lrp.video.reader import FORMATS, MOST_BAD_PACKETS, MOST_PIXELS
from realtime_lrp.video.source import Source

OPEN_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 5.0
STREAMS = f"{FORMATS},rtsp,rtp,jpeg_pipe,png_pipe"
"""Container formats of streams, by FFmpeg's names."""


class Stream(Source):
    """A network stream; a read returns after `READ_TIMEOUT_S` at the latest."""

    steady = alive = True

    def __init__(self, url: str, stop: threading.Event):
        super().__init__(stop)
        self.described = masked(url)
        # a playlist names other addresses: it is accepted only if the URL asks for one
        asks = urlsplit(url).path.lower().endswith((".m3u8", ".m3u", ".mpd"))
        formats = {} if asks else {"format_whitelist": STREAMS}
        try:
            self._container = av.open(
                url,
                timeout=(OPEN_TIMEOUT_S, READ_TIMEOUT_S),
                options={
                    "fflags": "nobuffer",
                    "fpsprobesize": "0",
                    "analyzeduration": "0",
                    "max_redirects": "0",
                    **formats,
                },
            )
            stream = self._container.streams.video[0]
            if stream.codec_context is None:
                raise ValueError("a codec that nothing here decodes")
            stream.codec_context.options = {"max_pixels": str(MOST_PIXELS)}
            self._frames = self._decoded(stream)
        except (av.FFmpegError, OSError, ValueError, IndexError) as error:
            reason = getattr(error, "strerror", None) or "no video in it"
            if isinstance(error, av.ExitError):  # how FFmpeg reports our timeout
                reason = "no answer"
            raise UnavailableError(
                f"The stream {masked(url)} cannot be opened ({reason}). "
                "Check that its server runs, and the address: playlists must end in .m3u8, .m3u or "
                ".mpd, and redirections are not followed."
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
        """Yields frames, skipping damaged ones; ends after many of them in a row."""
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
