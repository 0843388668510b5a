"""A description as an XMP packet: the metadata that pictures and QuickTime films can hold.

Other programs show it as the description (Dublin Core, ISO 16684).
"""

from xml.etree import ElementTree
from xml.sax.saxutils import escape

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
MAX_BYTES = 1 << 22
"""Larger packets are not read."""


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
