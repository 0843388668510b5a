"""Colour maps as short strings, compiled to tables of 256 colours.

A map is a list of hexadecimal colours at equal distances. Relevance 0 is the first colour, or the
middle one where the map is signed: negative relevance to the left, positive to the right.
"""

from dataclasses import dataclass

import numpy as np

from realtime_lrp.errors import unknown

# name: (colours, signed)
_MAPS = {
    "fire": ("700 c00 f20 f70 fb0", False),
    "hot": ("000 f00 ff0 fff", False),
    "gray": ("000 fff", False),
    "bwr": ("00f fff f00", True),
    "coldnhot": ("0ff 00f 000 f00 ff0", True),
    "icefire": ("0bf 07f 02f 00c 007 700 c00 f20 f70 fb0", True),
}


@dataclass(frozen=True)
class Colormap:
    """A table of colours.

    Attributes:
      table: uint8 [256, 3] RGB.
      signed: whether relevance 0 is entry 128 (else entry 0, and negative relevance is not drawn).
    """

    table: np.ndarray
    signed: bool

    def __call__(self, relevance: np.ndarray) -> np.ndarray:
        """Colours of relevance in [-1, 1], float [...] -> uint8 [..., 3]."""
        place = relevance * 127.5 + 127.5 if self.signed else relevance * 255
        return np.take(self.table, np.clip(np.rint(place), 0, 255).astype(np.uint8), axis=0)


def compile_colours(text: str) -> np.ndarray:
    """The table uint8 [256, 3] of colours such as "000 f00 fff"."""
    stops = np.array([[int(digit * 2, 16) for digit in colour] for colour in text.split()], float)
    where = np.linspace(0, len(stops) - 1, 256)
    channels = [np.interp(where, np.arange(len(stops)), channel) for channel in stops.T]
    return np.rint(np.stack(channels, axis=-1)).astype(np.uint8)


COLORMAPS = {
    name: Colormap(compile_colours(text), signed) for name, (text, signed) in _MAPS.items()
}
"""Every colour map by name."""


def by_sign(signed: bool) -> str:
    """The colour map for maps that can be negative, or cannot."""
    return "icefire" if signed else "fire"


def colormap_named(name: str) -> Colormap:
    """A colour map by name.

    Raises:
      UsageError: there is none of this name; the message gives the nearest.
    """
    if name not in COLORMAPS:
        raise unknown("colormap", name, COLORMAPS, {"grey": "gray", "seismic": "bwr"})
    return COLORMAPS[name]
