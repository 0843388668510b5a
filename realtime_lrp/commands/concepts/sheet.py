"""A picture of a whole gallery: a row for each channel, for whoever gives them names."""

from collections.abc import Iterator

import numpy as np

from realtime_lrp.models.concept_names import ChannelNames
from realtime_lrp.models.gallery import ChannelContents, Gallery
from realtime_lrp.video.region import resize
from realtime_lrp.view.text import draw_text, fitted

TILE, GAP = 64, 4
"""Side of a picture on the sheet, and the pixels between two."""

TEXT_WIDTH, TEXT_SIZE = 150, 13
"""Pixels for the text of a row, and the size of its letters."""

BACKGROUND = 24
"""Brightness behind everything."""


def gallery_sheet(gallery: Gallery, names: ChannelNames) -> np.ndarray:
    """All pictures of a gallery: for each channel the relevant ones, then the activating ones.

    Args:
      gallery: has some.
      names: names of channels.

    Returns:
      uint8 [H, W, 3] RGB, about as wide as high.
    """
    rows = [
        _row(gallery, layer, channel, known, names.get(layer, {}).get(channel, ""))
        for layer in gallery.layers
        for channel, known in _in_order(gallery, layer)
    ]
    width, height = max(row.shape[1] for row in rows), TILE + GAP
    rows = [
        np.pad(r, ((0, 0), (0, width - r.shape[1]), (0, 0)), constant_values=BACKGROUND)
        for r in rows
    ]
    columns = max(1, round(np.sqrt(len(rows) * height / width)))
    each = -(-len(rows) // columns)
    sheet = np.full((each * height + GAP, columns * width, 3), BACKGROUND, np.uint8)
    for number, row in enumerate(rows):
        y, x = GAP + number % each * height, number // each * width
        sheet[y : y + TILE, x : x + width] = row
    return sheet


def _in_order(gallery: Gallery, layer: str) -> Iterator[tuple[int, ChannelContents]]:
    """The channels of a layer, that which is relevant most often first."""
    yield from sorted(gallery.channels(layer).items(), key=lambda one: (-one[1].often, one[0]))


def _row(
    gallery: Gallery, layer: str, channel: int, known: ChannelContents, name: str
) -> np.ndarray:
    """The text and the pictures of a channel, uint8 [TILE, W, 3]."""
    parts = [gallery.pictures(layer, channel), gallery.activating(layer, channel)]
    all_known = gallery.channels(layer).values()
    count = max(len(one.relevant) for one in all_known)
    compared = max(len(one.activating) for one in all_known)
    step, gap = TILE + GAP, 4 * GAP
    width = TEXT_WIDTH + (count + compared) * step + 2 * gap
    row = np.full((TILE, width, 3), BACKGROUND, np.uint8)
    lines = [name or f"channel {channel}", layer if not name else f"{channel} of {layer}"]
    lines += [f"{label.replace('_', ' ')} {share:.0%}" for label, share in known.classes[:2]]
    for number, line in enumerate(lines):
        text = fitted(line, TEXT_WIDTH - 2 * GAP, TEXT_SIZE)
        draw_text(row, text, (GAP, TEXT_SIZE + number * (TEXT_SIZE + 2)), TEXT_SIZE)
    for kind, pictures in enumerate(parts):
        for number, picture in enumerate(pictures):
            x = TEXT_WIDTH + kind * (count * step + gap) + number * step
            row[:, x : x + TILE] = resize(picture, (TILE, TILE))
    return row
