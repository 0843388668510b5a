"""A picture of a gallery: a row for each channel that matters, for whoever gives them names."""

import numpy as np

from realtime_lrp.errors import UsageError
from realtime_lrp.models.concept_names import ChannelNames
from realtime_lrp.models.gallery import SHOWN, ChannelContents, Gallery
from realtime_lrp.video.region import resize
from realtime_lrp.view.text import draw_text, fitted

TILE, GAP = 64, 4  # side of a picture on the sheet, and the pixels between two
TEXT_WIDTH, TEXT_SIZE = 150, 13  # pixels for the text of a row, and the size of its letters
BACKGROUND = 24  # brightness behind everything
HEADING = 24  # rows of pixels above the pictures, for the words that say which are which
MOST_CHANNELS = 200  # of a layer that are listed: more than that nobody names

MOST_ROWS = 600
"""How many channels without a name a sheet shows; of many layers it has fewer of each. As PNG that
takes 510 MB of memory."""

MOST_WITH_NAMES = 1000  # more rows, with those that have a name, are refused
LEAST_CLASS = 0.01  # a class with a smaller part of a channel's relevance is not mentioned


def listed_channels(
    gallery: Gallery, layer: str, names: ChannelNames, most: int | None = None
) -> list[tuple[int, ChannelContents]]:
    """The channels of a layer that are worth a name, the most often relevant one first.

    They are those that were relevant for a picture, at most `most` (None: `MOST_CHANNELS`), and
    those that have a name.
    """
    named = names.get(layer, {})
    known = sorted(gallery.channels(layer).items(), key=lambda one: (-one[1].often, one[0]))
    relevant = [number for number, one in known if one.relevant]
    first = set(relevant[: MOST_CHANNELS if most is None else most])
    return [(number, one) for number, one in known if number in first or number in named]


def class_words(known: ChannelContents) -> list[str]:
    """The classes that a channel speaks for, with their parts: "tabby cat 40%"."""
    shown = [(label, part) for label, part in known.classes if part >= LEAST_CLASS]
    return [f"{label.replace('_', ' ')} {part:.0%}" for label, part in shown]


def gallery_sheet(gallery: Gallery, names: ChannelNames) -> np.ndarray:
    """The pictures of `listed_channels`: the relevant ones, then the activating ones.

    uint8 [H, W, 3] RGB, about as wide as high.
    """
    most = min(MOST_CHANNELS, MOST_ROWS // max(1, len(gallery.layers)))
    channels = [
        (layer, channel, known)
        for layer in gallery.layers
        for channel, known in listed_channels(gallery, layer, names, most)
    ]
    if len(channels) > MOST_WITH_NAMES:
        raise UsageError(
            f"The sheet would have {len(channels)} rows, more than {MOST_WITH_NAMES}, as so many "
            "channels have names. Draw it with fewer names."
        )
    count = min(SHOWN, max((len(known.relevant) for *_, known in channels), default=0))
    compared = min(SHOWN, max((len(known.activating) for *_, known in channels), default=0))
    step = TILE + GAP
    starts = TEXT_WIDTH, TEXT_WIDTH + count * step + 4 * GAP
    width = starts[1] + compared * step + 4 * GAP
    columns = max(1, round(np.sqrt(len(channels) * step / width)))
    each = -(-len(channels) // columns)
    sheet = np.full((HEADING + each * step + GAP, columns * width, 3), BACKGROUND, np.uint8)
    headings = ("most relevance", "most activation") if compared else ("most relevance",)
    for column in range(columns):
        for start, text in zip(starts, headings, strict=False):
            draw_text(sheet, text, (column * width + start, HEADING - 8), TEXT_SIZE)
    for number, (layer, channel, known) in enumerate(channels):
        y, x = HEADING + number % each * step, number // each * width
        row = sheet[y : y + TILE, x : x + width]
        name = names.get(layer, {}).get(channel, "")
        _write_beside(row, layer, channel, known, name)
        kinds = gallery.pictures(layer, channel), gallery.activating(layer, channel)
        for start, pictures in zip(starts, kinds, strict=True):
            for place, picture in enumerate(pictures):
                left = start + place * step
                row[:, left : left + TILE] = resize(picture, (TILE, TILE))
    return sheet


def _write_beside(
    row: np.ndarray, layer: str, channel: int, known: ChannelContents, name: str
) -> None:
    """Draws the text of a channel into its row, uint8 [TILE, W, 3]."""
    lines = [name or f"channel {channel}", layer if not name else f"{channel} of {layer}"]
    lines += class_words(known)[:2]
    text = np.ascontiguousarray(row[:, :TEXT_WIDTH])
    for number, line in enumerate(lines):
        fits = fitted(line, TEXT_WIDTH - 2 * GAP, TEXT_SIZE)
        draw_text(text, fits, (GAP, TEXT_SIZE + number * (TEXT_SIZE + 2)), TEXT_SIZE)
    row[:, :TEXT_WIDTH] = text
