"""Reads and writes still pictures."""

import itertools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from realtime_lrp.errors import DamagedInputError, OutputError
from realtime_lrp.system.files import atomic_file, read_limited
from realtime_lrp.system.terminal import captured_stderr
from realtime_lrp.video.descriptions import description_in, xmp_packet
from realtime_lrp.video.files import why_unreadable
from realtime_lrp.video.libraries import cv2

MOST_BYTES = 2**30  # largest file; twice the largest decoded picture, of 4 x 16 bits

JPEG = (".jpg", ".jpeg")
JPEG_XMP = b"http://ns.adobe.com/xap/1.0/\0"  # how a segment of a JPEG begins that holds XMP
MAX_SEGMENT = 65_533  # maximum number of bytes in it
EXTRA_SAMPLES = 338  # the tag of a TIFF that says what the alpha of its pixels is
WRONG_COLOURS = (b"P7", b"PF", b"Pf")  # starts of files that OpenCV reads with wrong colours

log = logging.getLogger(__name__)


def mirrored(picture: np.ndarray, mirror: bool | None) -> np.ndarray:
    """The picture, uint8 [H, W, 3], with left and right swapped where `mirror` is true."""
    return np.ascontiguousarray(picture[:, ::-1]) if mirror else picture


def read_picture(path: Path) -> np.ndarray:
    """Reads a picture as uint8 [H, W, 3] RGB, upright according to its EXIF, without transparency.

    Of a file with several pages or of an animation it is the first picture.
    """
    return first_pages(path, 1)[0]


def first_pages(path: Path, most: int = 2) -> list[np.ndarray]:
    """The first pictures of a file, at most `most`, as `read_picture`; at least one.

    Several are the pages of a document or the frames of an animation.
    """

    def decode(data: np.ndarray, flags: int) -> Any:
        return [*cv2.imdecodemulti(data, flags, range=(0, most))[1]] or None

    pages: list[np.ndarray] = _decode(path, decode)
    return pages


def _decode(path: Path, decode: Callable[[np.ndarray, int], Any]) -> Any:
    """Decodes a file with one of OpenCV's decoders; raises what `read_picture` raises."""
    data = np.frombuffer(_with_plain_alpha(read_limited(path, MOST_BYTES, "a picture")), np.uint8)
    try:
        with captured_stderr() as printed:
            fit = data.size and bytes(data[:2]) not in WRONG_COLOURS and _chunks_fit(data)
            decoded = decode(data, cv2.IMREAD_COLOR_RGB) if fit else None
    except cv2.error as error:
        if "CV_IO_MAX_IMAGE" in str(error):
            raise DamagedInputError(
                f"{str(path)!r} is too large. Expected at most 8192 x 8192 pixels."
            ) from None
        decoded = None
    if decoded is None:
        raise DamagedInputError(
            f"{str(path)!r} is no picture that can be read{why_unreadable(path, 'picture')}. "
            "Expected for example PNG, JPEG, WebP, AVIF, GIF, JPEG 2000, BMP or TIFF."
        )
    if printed:
        log.warning("%s: %s", path, printed[0])
    return decoded


def _with_plain_alpha(data: bytes) -> bytes:
    """The bytes of a picture; libtiff multiplies colours by an alpha that is said to be plain (2).

    A TIFF gets another value there: they are multiplied already (1).
    """
    order: Literal["little", "big"] = "big" if data[:2] == b"MM" else "little"
    if data[:4] not in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
        return data
    for width, size in itertools.product((4, 8), (2, 4)):  # of TIFF and BigTIFF, of the value
        kind = 3 if size == 2 else 4
        parts = ((EXTRA_SAMPLES, 2), (kind, 2), (1, width))
        entry = b"".join(number.to_bytes(count, order) for number, count in parts)
        plain, multiplied = (entry + value.to_bytes(size, order) for value in (2, 1))
        data = data.replace(plain, multiplied)
    return data


def _chunks_fit(data: np.ndarray) -> bool:
    """False for a PNG with a chunk longer than the file, for which OpenCV would allocate memory."""
    if bytes(data[:8]) != b"\x89PNG\r\n\x1a\n":
        return True
    at = 8
    name = b""
    while at < data.size and name != b"IEND":
        name = bytes(data[at + 4 : at + 8])
        at += 12 + int.from_bytes(bytes(data[at : at + 4]))
    return at <= data.size


def write_picture(
    path: Path, picture: np.ndarray, overwrite: bool = False, description: str = ""
) -> None:
    """Writes uint8 [H, W, 3] RGB in the format of the ending, with a description as XMP."""
    with atomic_file(path, overwrite) as part:
        part.write_bytes(encode_picture(path.suffix.lower(), picture, description))


def encode_picture(
    suffix: str, picture: np.ndarray, description: str = "", quality: int = 95
) -> bytes:
    """The bytes of a file of a picture uint8 [H, W, 3] RGB; `quality` is of a JPEG, 0 to 100."""
    options = [cv2.IMWRITE_JPEG_QUALITY, quality] if suffix in JPEG else []
    bgr = cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)
    xmp = np.frombuffer(_xmp(suffix, description) if description else b"", np.uint8)
    if xmp.size:
        done, data = cv2.imencodeWithMetadata(suffix, bgr, [cv2.IMAGE_METADATA_XMP], [xmp], options)
    else:
        done, data = cv2.imencode(suffix, bgr, options)
    if not done:
        rows, columns, _ = picture.shape
        raise OutputError(f"A picture of {columns} x {rows} cannot be written as {suffix}.")
    return data.tobytes()


def read_description(path: Path) -> str | None:
    """The description that a picture file holds as XMP, or None."""
    _, kinds, metadata = _decode(path, cv2.imdecodeWithMetadata)
    found = dict(zip(kinds, metadata, strict=True)).get(cv2.IMAGE_METADATA_XMP)
    return None if found is None else description_in(found.tobytes().removeprefix(JPEG_XMP))


def _xmp(suffix: str, description: str) -> bytes:
    """XMP as `imencodeWithMetadata` of OpenCV 5.0 needs it for a valid file; b"" if too long."""
    packet = xmp_packet(description)
    if suffix in JPEG:  # it leaves out the name of the segment
        packet = JPEG_XMP + packet
        if len(packet) > MAX_SEGMENT:
            log.warning("the picture does not say how it was made: that is too long for a JPEG")
            return b""
        return packet
    return packet + b"\0" if suffix == ".png" else packet  # it reads on until a zero byte
