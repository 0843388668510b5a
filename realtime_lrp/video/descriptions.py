"""The description that other programs show of a picture or a film: written, and read back.

Pictures and .mov have it as XMP (Dublin Core, ISO 16684), other films as a tag. A film may come
from anybody, so that a child process reads it: this module, run by itself.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from realtime_lrp.system.child_command import output_of
from realtime_lrp.system.version import __version__
from realtime_lrp.video.libraries import av

TIMEOUT_S = 20.0
MAX_BYTES = 1 << 22
"""Longest description, or packet of XMP, that is read."""

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
    """The metadata of a film: what is kept of that of its source, and a comment added to it."""
    kept = {key: value for key, value in source.items() if key.lower() in KEPT_METADATA}
    comments = "\n".join(filter(None, (source.get("comment"), comment)))
    return {**kept, "comment": comments, "encoder": f"realtime_lrp {__version__}"}


def read_film_description(path: Path) -> str | None:
    """The description of a film, or None; also for a file that makes the reader crash or hang."""
    try:
        done = output_of(__name__, os.fspath(path.absolute()), timeout_s=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout.decode(errors="replace") or None


def _read(path: Path) -> str | None:
    options = {"export_xmp": "1"}
    with av.open(path, format=FORMATS[path.suffix.lower()], options=options) as film:
        tags = {key.lower(): text for key, text in film.metadata.items()}
    if description := tags.get("description"):
        return description
    return description_in(tags.get("xmp", "").encode())


def main() -> None:
    """Prints the description of the film that is named on the command line."""
    try:
        description = _read(Path(sys.argv[1])) or ""
    except (av.FFmpegError, ValueError, UnicodeError):
        description = ""
    sys.stdout.buffer.write(description.encode(errors="replace")[:MAX_BYTES])
    sys.stdout.buffer.flush()
    os._exit(0)  # threads of a damaged file may never end


if __name__ == "__main__":
    main()
