"""The description that other programs show of a picture or a film: written, and read back.

Pictures and .mov have it as XMP (Dublin Core, ISO 16684), other films as a tag. A film may come
from anybody, so that a child process reads it.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from realtime_lrp.errors import Error
from realtime_lrp.system.call import call_in_child
from realtime_lrp.system.program import __version__
from realtime_lrp.video.libraries import av

MAX_CPU_S = 5.0
MAX_BYTES = 1 << 22  # longest description, or packet of XMP, that is read

KEPT_METADATA = ("title", "artist", "date", "creation_time", "location", "copyright")

FORMATS = {".mp4": "mov", ".mov": "mov", ".mkv": "matroska"}

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


def xmp_packet(description: str) -> bytes:
    """The packet that holds a description."""
    return (PACKET % escape(description)).encode()


def description_in(packet: bytes) -> str | None:
    """The description that a packet of any program holds, or None."""
    packet = packet.strip(b"\0 \n")
    if len(packet) > MAX_BYTES or b"<!" in packet:  # declarations could make it huge
        return None
    try:
        root = ElementTree.fromstring(packet)
    except ElementTree.ParseError:
        return None
    found = root.find(f".//{{{DC}}}description/{{{RDF}}}Alt/{{{RDF}}}li")
    return None if found is None else found.text


def description_tags(container: str, description: str) -> dict[str, str]:
    """The metadata of a film that hold a description; `container` is for example ".mp4"."""
    if not description:
        return {}
    if container == ".mov":  # has no tag for descriptions
        return {"xmp": xmp_packet(description).decode()}
    return {"description": description}


def film_metadata(source: Mapping[str, str], comment: str) -> dict[str, str]:
    """The metadata of a film: its source's, as far as it is kept, and a comment added to it."""
    kept = {key: value for key, value in source.items() if key.lower() in KEPT_METADATA}
    comments = "\n".join(filter(None, (source.get("comment"), comment)))
    return {**kept, "comment": comments, "encoder": f"realtime_lrp {__version__}"}


def read_film_description(path: Path) -> str | None:
    """The description of a film, or None; also for a file that makes the reader crash or hang."""
    try:
        return call_in_child(str(path), _read, os.fspath(path.absolute()), cpu_s=MAX_CPU_S) or None
    except Error:
        return None


def _read(path: str) -> str:
    options = {"export_xmp": "1"}
    try:
        with av.open(path, format=FORMATS[Path(path).suffix.lower()], options=options) as film:
            tags = {key.lower(): text for key, text in film.metadata.items()}
        found = tags.get("description") or description_in(tags.get("xmp", "").encode()) or ""
    except (av.FFmpegError, ValueError, UnicodeError):
        return ""
    return found[:MAX_BYTES]
