"""The channels of the view as pages show them: their maps in a message, their pictures by request.

A page asks for the gallery's pictures of a channel once and keeps them. No request names a file.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from realtime_lrp.commands.serve.visitors import join_message
from realtime_lrp.models.gallery import Gallery
from realtime_lrp.video.libraries import cv2
from realtime_lrp.video.pictures import encode_picture
from realtime_lrp.view.concepts import ConceptPanel, ConceptRow, map_over

MAP_ROWS = 144
"""Rows of each channel's map."""

EXAMPLES, EXAMPLE_SIDE = 6, 96
"""Pictures of the gallery for each channel, at most, and their rows and columns."""

GAP, GROUND = ((0, 0), (0, 4), (0, 0)), 0x2C
"""Columns between two of them, and their grey, which the page's buttons have."""

QUALITY = 80
"""Of the JPEGs."""

ENCODED = 256
"""Channels whose pictures are kept encoded: 2 to 3 MB."""

NOTHING = join_message({"type": "concepts", "shown": False}, b"")
"""The message while no channels are shown."""


def concepts_message(panel: ConceptPanel, gallery: Gallery | None, layers: Sequence[str]) -> bytes:
    """What a page shows of the channels: JSON, and their maps side by side as one JPEG."""
    known = gallery.channels(panel.title) if gallery else {}
    pictured = {channel for channel, one in known.items() if one.relevant}
    rows = [one for one in panel.rows if one is not None and not panel.note]
    entries = [
        {
            "channel": one.channel,
            "name": one.name,
            "bar": round(min(abs(one.share), 1.0), 3),
            "against": one.share < 0,
            "percent": one.figure,
            "examples": one.channel in pictured,
            "followed": one.followed,
        }
        for one in rows
    ]
    with_pictures = gallery.layers if gallery else ()
    fields = {
        "type": "concepts", "shown": True, "layer": panel.title, "layers": layers,
        "without_pictures": [one for one in layers if with_pictures and one not in with_pictures],
        "with_pictures": panel.with_pictures, "why": panel.note or panel.warning,
        "rows": entries,
    }  # fmt: skip
    maps = [_drawn_map(panel, one) for one in rows]
    picture = encode_picture(".jpg", np.hstack(maps), quality=QUALITY) if maps else b""
    return join_message(fields, picture)


def _drawn_map(panel: ConceptPanel, row: ConceptRow) -> np.ndarray:
    """The map of a channel over the region of the picture, uint8 [MAP_ROWS, columns, 3] RGB."""
    rows, columns = panel.picture.shape[:2]
    size = max(1, round(MAP_ROWS * columns / rows)), MAP_ROWS
    return map_over(
        cv2.resize(panel.picture, size, interpolation=cv2.INTER_AREA), row.intensity, panel
    )


class Examples:
    """The gallery's pictures of channels, side by side as JPEG. Any thread may ask.

    Attributes:
      gallery: where they come from; None while there is none.
    """

    def __init__(self) -> None:
        self.gallery: Gallery | None = None
        self._encoded = lru_cache(ENCODED)(_encoded)

    def __call__(self, layer: str, channel: str) -> bytes:
        """The pictures of a channel, as a page named it; b"" if there are none."""
        gallery = self.gallery
        number = int(channel) if channel.isdecimal() and len(channel) < 8 else -1
        if gallery is None or number not in gallery.channels(layer):
            return b""
        return self._encoded(gallery, layer, number)


def _encoded(gallery: Gallery, layer: str, channel: int) -> bytes:
    size = EXAMPLE_SIDE, EXAMPLE_SIDE
    pictures = [
        np.pad(cv2.resize(one, size, interpolation=cv2.INTER_AREA), GAP, constant_values=GROUND)
        for one in gallery.pictures(layer, channel)[:EXAMPLES]
    ]
    return encode_picture(".jpg", np.hstack(pictures), quality=QUALITY) if pictures else b""
