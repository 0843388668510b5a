"""Reads and writes still pictures, and the descriptions in pictures and films.

Other programs show these. Pictures and .mov have them as XMP (Dublin Core, ISO 16684), other films
as a tag. A film may come from anybody, so that a child process reads it.
"""

import itertools
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import numpy as np

from realtime_lrp.errors import DamagedInputError, Error, OutputError
from realtime_lrp.system.child import call_in_child
from realtime_lrp.system.files import atomic_file, read_limited
from realtime_lrp.system.program import __version__
from realtime_lrp.system.terminal import captured_stderr
from realtime_lrp.video.files import why_unreadable
from realtime_lrp.video.libraries import av, cv2

MOST_BYTES = 2**30  # largest file; twice the largest decoded picture, of 4 x 16 bits

JPEG = (".jpg", ".jpeg")
JPEG_XMP = b"http://ns.adobe.com/xap/1.0/\0"  # how a segment of a JPEG begins that holds XMP
MAX_SEGMENT = 65_533  # maximum number of bytes in it
EXTRA_SAMPLES = 338  # the tag of a TIFF that says what the alpha of its pixels is
WRONG_COLOURS = (b"P7", b"PF", b"Pf")  # starts of files that OpenCV reads with wrong colours

MAX_CPU_S = 5.0
MAX_DESCRIPTION = 1 << 22  # longest description, or packet of XMP, that is read
KEPT_METADATA = ("title", "artist", "date", "creation_time", "location", "copyright")
FILM_FORMATS = {".mp4": "mov", ".mov": "mov", ".mkv": "matroska"}
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
DC = "http://purl.org/dc/elements/1.1/"
PACKET = (
    '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>'
    f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="{RDF}">'
    f'<rdf:Description rdf:about="" xmlns:dc="{DC}"><dc:description><rdf:Alt>'
    '<rdf:li xml:lang="x-default">%s</rdf:li>'
    "</rdf:Alt></dc:description></rdf:Description></rdf:RDF></x:xmpmeta>"
    '<?xpacket end="w"?>'
)

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
    """The first pictures of a file, pages or frames, at most `most`, as `read_picture`."""
    pages: list[np.ndarray] = _decode(
        path, lambda data, flags: cv2.imdecodemulti(data, flags, range=(0, most))[1]
    )
    return [*pages]


def _decode(path: Path, decode: Callable[[np.ndarray, int], Any]) -> Any:
    """Decodes a file with one of OpenCV's decoders; raises what `read_picture` raises."""
    data = np.frombuffer(_with_plain_alpha(read_limited(path, MOST_BYTES, "a picture")), np.uint8)
    try:
        with captured_stderr() as printed:
            fit = data.size and bytes(data[:2]) not in WRONG_COLOURS and _chunks_fit(data)
            decoded = decode(data, cv2.IMREAD_COLOR_RGB) if fit else ()
    except cv2.error as error:
        if "CV_IO_MAX_IMAGE" in str(error):
            raise DamagedInputError(
                f"{str(path)!r} is too large. Expected at most 8192 x 8192 pixels."
            ) from None
        decoded = ()
    if not decoded:
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


def xmp_packet(description: str) -> bytes:
    """The packet that holds a description."""
    return (PACKET % escape(description)).encode()


def description_in(packet: bytes) -> str | None:
    """The description that a packet of any program holds, or None."""
    packet = packet.strip(b"\0 \n")
    if len(packet) > MAX_DESCRIPTION or b"<!" in packet:  # declarations could make it huge
        return None
    try:
        root = ElementTree.fromstring(packet)
    except ElementTree.ParseError:
        return None
    found = root.find(f".//{{{DC}}}description/{{{RDF}}}Alt/{{{RDF}}}li")
    return None if found is None else found.text


def film_metadata(source: Mapping[str, str], comment: str) -> dict[str, str]:
    """The metadata of a film: its source's, as far as it is kept, and a comment added to it."""
    kept = {key: value for key, value in source.items() if key.lower() in KEPT_METADATA}
    comments = "\n".join(filter(None, (source.get("comment"), comment)))
    return {**kept, "comment": comments, "encoder": f"realtime_lrp {__version__}"}


def read_film_description(path: Path) -> str | None:
    """The description of a film, or None; also for a file that makes the reader crash or hang."""
    try:
        return (
            call_in_child(str(path), _film_description, os.fspath(path.absolute()), cpu_s=MAX_CPU_S)
            or None
        )
    except Error:
        return None


def _film_description(path: str) -> str:
    options = {"export_xmp": "1"}
    try:
        with av.open(path, format=FILM_FORMATS[Path(path).suffix.lower()], options=options) as film:
            tags = {key.lower(): text for key, text in film.metadata.items()}
        found = tags.get("description") or description_in(tags.get("xmp", "").encode()) or ""
    except (av.FFmpegError, ValueError, UnicodeError):
        return ""
    return found[:MAX_DESCRIPTION]
