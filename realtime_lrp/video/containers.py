"""Opens recordings and addresses with FFmpeg, which may then read nothing else."""

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from realtime_lrp.errors import DamagedInputError, MissingInputError, UnavailableError, masked
from realtime_lrp.video.files import why_unreadable
from realtime_lrp.video.libraries import av

FORMATS = (
    "mov,matroska,avi,mpeg,mpegts,asf,flv,ogg,mxf,mxf_opatom,gxf,dv,nut,rm,wtv,gif,apng,ivf,obu,"
    "h264,hevc,vvc,m4v,mpegvideo,mjpeg,mpjpeg,yuv4mpegpipe,dhav,mlv,nsv,nuv,swf"
)
"""Container formats of recordings, by FFmpeg's names; no playlists, which name other files."""

PIPES = {
    ".jpg": "jpeg_pipe", ".jpeg": "jpeg_pipe", ".png": "png_pipe", ".webp": "webp_pipe",
    ".bmp": "bmp_pipe", ".tif": "tiff_pipe", ".tiff": "tiff_pipe",
}  # fmt: skip
"""Endings of pictures -> FFmpeg's formats of them, where they come from a server."""

STREAMS = ",".join([FORMATS, "rtsp,rtp", *dict.fromkeys(PIPES.values())])
"""Container formats of addresses, by FFmpeg's names."""

PLAYLISTS = (".m3u8", ".m3u", ".mpd")

OPEN_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 300.0  # slow cameras are silent for long; who waits for them gives up before


def is_address(words: str | Path) -> bool:
    """Whether something is an address and no path."""
    return "://" in str(words) and not isinstance(words, Path)


def asks_for_playlist(url: str) -> bool:
    """Whether an address asks for a playlist, which names other addresses."""
    return urlsplit(url).path.lower().endswith(PLAYLISTS)


def pipe_of(url: str) -> str | None:
    """FFmpeg's format of the still picture that an address asks for by its ending."""
    return PIPES.get(Path(urlsplit(url).path).suffix.lower())


def open_address(url: str, **options: str) -> "av.container.InputContainer":
    """Opens an address; raises UnavailableError with the reason, without secrets."""
    formats = {} if asks_for_playlist(url) else {"format_whitelist": STREAMS}
    try:
        return av.open(
            url,
            format=pipe_of(url),
            timeout=(OPEN_TIMEOUT_S, READ_TIMEOUT_S),
            options={"max_redirects": "0", **formats, **options},
            metadata_errors="replace",
        )
    except (av.FFmpegError, OSError, ValueError) as error:
        raise unavailable(url, error) from None


def unavailable(url: str, error: Exception) -> UnavailableError:
    """The error for an address that gives no pictures."""
    reason: Any = getattr(error, "strerror", None) or "no video in it"
    if isinstance(error, av.ExitError):  # how FFmpeg reports our timeout
        reason = "no answer"
    return UnavailableError(
        f"The stream {masked(url)} cannot be opened ({reason}). "
        "Check that its server runs, and the address: playlists must end in .m3u8, .m3u or "
        ".mpd, and redirections are not followed."
    )


def open_recording(path: Path) -> "av.container.InputContainer":
    """Opens a file; raises MissingInputError or DamagedInputError with the reason."""
    if path.is_dir():
        raise MissingInputError(f"{str(path)!r} is a folder. Expected a video file.")
    try:
        if path.exists() and not path.is_file():
            raise MissingInputError(f"{str(path)!r} is a device or a pipe. Expected a video file.")
        return av.open(
            os.path.abspath(path),  # FFmpeg takes "12:30.mp4" for a URL
            options={"format_whitelist": FORMATS},
            metadata_errors="replace",
        )
    except FileNotFoundError:
        raise MissingInputError(f"There is no video {str(path)!r}.") from None
    except PermissionError as error:
        raise MissingInputError(f"{str(path)!r} cannot be read ({error.strerror}).") from None
    except (av.FFmpegError, ValueError, OSError):
        raise DamagedInputError(
            f"{str(path)!r} is no video that can be read{why_unreadable(path, 'video')}. "
            "Expected MP4, MOV, MKV, WebM or AVI."
        ) from None
