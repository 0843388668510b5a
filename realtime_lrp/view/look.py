"""How maps are drawn: one value, `Look`, which whatever draws maps gets whole; colour maps."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from realtime_lrp.errors import UsageError


@dataclass(frozen=True)
class Colormap:
    """A `table` of colours, uint8 [256, 3] RGB; a `signed` one can draw negative relevance."""

    table: np.ndarray
    signed: bool = False  # relevance 0 is entry 128, else 0

    @classmethod
    def of(cls, colours: str, signed: bool = False) -> "Colormap":
        """A colour map that runs through a few colours.

        Args:
          colours: two or more at equal distances, three hexadecimal digits each: "000 f00 fff".
            Relevance 0 is the first colour, in a signed map the middle one: negative to its left.
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
    """A colour map by name, or itself; the UsageError for a wrong name gives the nearest."""
    if isinstance(name, Colormap):
        return name
    if name not in COLORMAPS:
        # the configuration is a third of what a child process that draws would import
        from realtime_lrp.config.names import COLORMAPS as NAMES

        NAMES.check(name)
    return COLORMAPS[name]


@dataclass(frozen=True)
class Look:
    """How maps are drawn: the fields are keys of the section `overlay` of the configuration."""

    colormap: str | Colormap | None  # a name, or a program's own; None goes by the map's signs
    opacity: float  # 0 to 1, of the strongest relevance
    style: str  # "heat", "contour" or "off"
    motion: str  # "flow" or "hold"
    average: float  # how much of the previous maps stays in each new one, 0 to 1

    @classmethod
    def of(cls, section: Any) -> "Look":
        return cls(**{field.name: getattr(section, field.name) for field in fields(cls)})

    def named(self, signed: bool) -> str | Colormap:
        """The colour map of maps that can be negative, or cannot; by its name where it has one."""
        return self.colormap or ("icefire" if signed else "fire")

    def colours(self, signed: bool) -> Colormap:
        return colormap_named(self.named(signed))


@dataclass(frozen=True)
class LookSetting:
    """How a field of `Look` is changed while pictures move."""

    name: str  # of the field
    label: str  # what it is called in commands, in notices and on the page
    values: Callable[[], Sequence[Any]] = tuple  # a key goes through them; a share has none
    words: tuple[tuple[Any, str], ...] = ()  # a value and what it is called, if not the same
    on_page: bool = False  # whether it has a control there, besides its commands

    @property
    def commands(self) -> list[tuple[str, str, int]]:
        """The actions that change it, what they are called, and their direction: 1 or -1."""
        if self.values():
            return [(f"next_{self.name}", f"next {self.label}", 1)]
        more = f"next_{self.name}", f"more {self.label}", 1
        return [more, (f"previous_{self.name}", f"less {self.label}", -1)]

    def says(self, value: Any) -> str:
        text = f"{value:.1f}" if isinstance(value, float) else str(value)
        return f"{self.label}: {dict(self.words).get(value, text)}"

    def accepts(self, value: Any) -> bool:
        """Whether a page may choose this value."""
        if values := self.values():
            return value in values
        return not isinstance(value, bool | str) and 0 <= value <= 1

    def moved(self, value: Any, by: int) -> Any:
        """The value after the present one, or before it (by = -1)."""
        if not (values := self.values()):
            return round(min(max(value + 0.1 * by, 0.0), 1.0), 2)
        return next_of(values, value, by)


def next_of(values: Sequence[Any], present: Any, by: int) -> Any:
    """The value after the present one, or before (by = -1), round and round; else an end."""
    position = values.index(present) if present in values else min(-by, 0)
    return values[(position + by) % len(values)]


LOOK_SETTINGS = (
    LookSetting(
        "colormap", "colours", lambda: (None, *sorted(COLORMAPS)),
        ((None, "by sign (fire or icefire)"),),
    ),
    LookSetting("opacity", "opacity", on_page=True),
    LookSetting(
        "style", "style", lambda: ("heat", "contour", "off"),
        (("contour", "outline (contour)"), ("off", "no map")), on_page=True,
    ),
    LookSetting(
        "motion", "motion", lambda: ("flow", "hold"),
        (("flow", "the map is carried along"), ("hold", "the map is held")),
    ),
)  # fmt: skip
"""The fields that change while pictures move: commands, notices and the page's controls follow."""
