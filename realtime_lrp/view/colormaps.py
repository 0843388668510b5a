"""Colour maps as short strings, compiled to tables of 256 colours.

A new colour map is a row in `COLORMAPS`.
"""

import re
from dataclasses import dataclass

import numpy as np

from realtime_lrp.errors import UsageError


@dataclass(frozen=True)
class Colormap:
    """A table of colours.

    Attributes:
      table: uint8 [256, 3] RGB.
      signed: whether the map can draw negative relevance. Then relevance 0 is entry 128, else 0.
    """

    table: np.ndarray
    signed: bool = False

    @classmethod
    def of(cls, colours: str, signed: bool = False) -> "Colormap":
        """A colour map that runs through a few colours.

        Args:
          colours: two or more at equal distances, three hexadecimal digits each: "000 f00 fff".
            Relevance 0 is the first colour. In a signed map it is the middle one, with negative
            relevance to its left and positive to its right.
          signed: whether negative relevance is drawn.

        Raises:
          UsageError: the text is not a list of colours.
        """
        if not re.fullmatch(r"\s*[0-9a-fA-F]{3}(\s+[0-9a-fA-F]{3})+\s*", colours):
            raise UsageError(
                "Expected two or more colours of three hexadecimal digits, such as '000 f00 fff'. "
                f"Received {colours!r}.",
                "colormap",
            )
        stops = np.array([[int(digit * 2, 16) for digit in one] for one in colours.split()], float)
        where = np.linspace(0, len(stops) - 1, 256)
        channels = [np.interp(where, np.arange(len(stops)), channel) for channel in stops.T]
        return cls(np.rint(np.stack(channels, axis=-1)).astype(np.uint8), signed)

    def __call__(self, relevance: np.ndarray) -> np.ndarray:
        """Colours of relevance in [-1, 1], float [...] -> uint8 [..., 3]."""
        entry = relevance * 127.5 + 127.5 if self.signed else relevance * 255
        return np.take(self.table, np.clip(np.rint(entry), 0, 255).astype(np.uint8), axis=0)


COLORMAPS: dict[str, Colormap] = {
    "fire": Colormap.of("700 c00 f20 f70 fb0"),
    "hot": Colormap.of("000 f00 ff0 fff"),
    "gray": Colormap.of("000 fff"),
    "bwr": Colormap.of("00f fff f00", signed=True),
    "coldnhot": Colormap.of("0ff 00f 000 f00 ff0", signed=True),
    "icefire": Colormap.of("0bf 07f 02f 00c 007 700 c00 f20 f70 fb0", signed=True),
}
"""Every colour map by name."""


def colormap_named(name: str | Colormap) -> Colormap:
    """A colour map by name, or itself.

    Raises:
      UsageError: there is none of this name; the message gives the nearest.
    """
    if isinstance(name, Colormap):
        return name
    if name not in COLORMAPS:
        # the configuration is a third of what a child process that draws would import
        from realtime_lrp.config.names import COLORMAPS as NAMES

        NAMES.check(name)
    return COLORMAPS[name]
