"""Small galleries of plain pictures."""

import numpy as np

from realtime_lrp.models.gallery import (
    ChannelContents,
    Contents,
    Gallery,
    LayerContents,
    NamesFile,
    encode_picture,
    write_gallery,
)

SIDE = 96


def _contents(layer, channels, described, few=6):
    entries = {channel: ChannelContents(tuple(range(few)), ()) for channel in described}
    pictures = [encode_picture(np.full((SIDE, SIDE, 3), 30 * n, np.uint8), 90) for n in range(1, 7)]
    layers = (LayerContents(layer, channels, entries),)
    sizes = tuple(map(len, pictures))
    return Contents(network="shapes", layers=layers, side=SIDE, sizes=sizes), pictures


def gallery_of(layer, channels, described=(5,), names=None, few=6):
    """A gallery with `few` pictures for some channels, of grey 30, 60, ... 180, and names."""
    contents, pictures = _contents(layer, channels, described, few)
    named = NamesFile({layer: names or {}}, {(layer,): "names.yaml:1"})
    return Gallery(contents, b"".join(pictures), named)


def gallery_file(path, layer, channels):
    """Writes a gallery with pictures for all channels."""
    write_gallery(path, *_contents(layer, channels, range(channels)))
    return path
