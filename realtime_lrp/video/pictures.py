"""Reads and writes still pictures."""

import logging
from pathlib import Path

import numpy as np

from realtime_lrp.errors import DamagedInputError, OutputError
from realtime_lrp.system.atomic import atomic_file
from realtime_lrp.system.quiet import captured_stderr
from realtime_lrp.system.reading import read_limited
from realtime_lrp.video.libraries import cv2

MOST_BYTES = 2**30
"""Maximum size of a file; the largest picture that is decoded has half of it with 4 x 16 bits."""

log = logging.getLogger(__name__)


def mirrored(picture: np.ndarray, mirror: bool | None) -> np.ndarray:
    """The picture, uint8 [H, W, 3], with left and right swapped where `mirror` is true."""
    return np.ascontiguousarray(picture[:, ::-1]) if mirror else picture


def read_picture(path: Path) -> np.ndarray:
    """Reads a picture as uint8 [H, W, 3] RGB, upright according to its EXIF, without transparency.

    Raises:
      MissingInputError: there is no such file, or it cannot be read.
      DamagedInputError: it is no picture, or has more than 8192 x 8192 pixels.
    """
    data = np.frombuffer(read_limited(path, MOST_BYTES, "a picture"), np.uint8)
    try:
        with captured_stderr() as printed:
            whole = data.size and _chunks_fit(data)
            picture = cv2.imdecode(data, cv2.IMREAD_COLOR_RGB) if whole else None
    except cv2.error as error:
        if "CV_IO_MAX_IMAGE" in str(error):
            raise DamagedInputError(
                f"{str(path)!r} is too large. Expected at most 8192 x 8192 pixels."
            ) from None
        picture = None
    if picture is None:
        raise DamagedInputError(
            f"{str(path)!r} is no picture that can be read. Expected PNG, JPEG, WebP, BMP or TIFF."
        )
    if printed:
        log.warning("%s: %s", path, printed[0])
    return picture


def _chunks_fit(data: np.ndarray) -> bool:
    """False for a PNG with a chunk longer than the file, for which OpenCV would allocate memory."""
    if bytes(data[:8]) != b"\x89PNG\r\n\x1a\n":
        return True
    at, name = 8, b""
    while at < data.size and name != b"IEND":
        name = bytes(data[at + 4 : at + 8])
        at += 12 + int.from_bytes(bytes(data[at : at + 4]))
    return at <= data.size


def write_picture(path: Path, picture: np.ndarray, overwrite: bool = False) -> None:
    """Writes a picture uint8 [H, W, 3] RGB in the format of the file's ending.

    Raises:
      OutputError: the file cannot be made.
      TransferError: the write failed.
    """
    with atomic_file(path, overwrite) as part:
        jpeg = path.suffix.lower() in (".jpg", ".jpeg")
        quality = [cv2.IMWRITE_JPEG_QUALITY, 95] if jpeg else []
        done, data = cv2.imencode(path.suffix, cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), quality)
        if not done:
            raise OutputError(f"{str(path)!r} cannot be encoded as {path.suffix}.")
        part.write_bytes(data.tobytes())
