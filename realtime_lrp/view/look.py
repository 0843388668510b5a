"""How maps are drawn: one value, `Look`, which everything that draws maps gets whole.

`LOOK_SETTINGS` says how a field of it is changed while pictures move: its keys, the help, the words
of its notice and its control on the page follow from its row.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from realtime_lrp.view.colormaps import COLORMAPS, Colormap, colormap_named


@dataclass(frozen=True)
class Look:
    """How maps are drawn: the fields are keys of the section `overlay` of the configuration."""

    # its name, or one of a program's own; None goes by the map's signs
    colormap: str | Colormap | None
    opacity: float  # 0 to 1, of the strongest relevance
    style: str  # "heat", "contour" or "off"
    follow: str  # "flow", "hold" or "sync"
    average: float  # how much of the previous maps stays in each new one, 0 to 1

    @classmethod
    def of(cls, section: Any) -> "Look":
        return cls(**{field.name: getattr(section, field.name) for field in fields(cls)})

    @property
    def paired(self) -> bool:
        """Whether only pictures with their own map are shown."""
        return self.follow == "sync"

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
    # those to go through, round and round; for a number from 0 to 1 none
    values: Callable[[], Sequence[Any]] = tuple
    # value -> what it is called, where that is not the value itself
    words: tuple[tuple[Any, str], ...] = ()
    on_page: bool = False  # whether it has a control there, besides its commands

    @property
    def commands(self) -> list[tuple[str, str, int]]:
        """The actions that change it, what they are called, and their direction: 1 or -1."""
        forward = f"next_{self.name}"
        if self.values():
            return [(forward, f"next {self.label}", 1)]
        back = f"previous_{self.name}"
        return [(forward, f"more {self.label}", 1), (back, f"less {self.label}", -1)]

    def says(self, value: Any) -> str:
        text = f"{value:.1f}" if isinstance(value, float) else str(value)
        return f"{self.label}: {dict(self.words).get(value, text)}"

    def accepts(self, value: Any) -> bool:
        """Whether a page may choose this value."""
        if self.values():
            return value in self.values()
        return not isinstance(value, bool | str) and 0 <= value <= 1

    def moved(self, value: Any, by: int) -> Any:
        """The value after the present one, or before it (by = -1)."""
        if not (values := self.values()):
            return round(min(max(value + 0.1 * by, 0.0), 1.0), 2)
        return next_of(values, value, by)


def next_of(values: Sequence[Any], present: Any, by: int) -> Any:
    """The value after the present one, or before it (by = -1), round and round.

    Where the present one is none of the values: the first, or the last.
    """
    position = values.index(present) if present in values else min(-by, 0)
    return values[(position + by) % len(values)]


LOOK_SETTINGS = (
    LookSetting(
        "colormap",
        "colours",
        values=lambda: (None, *sorted(COLORMAPS)),
        words=((None, "by sign (fire or icefire)"),),
    ),
    LookSetting("opacity", "opacity", on_page=True),
    LookSetting(
        "style",
        "style",
        values=lambda: ("heat", "contour", "off"),
        words=(("contour", "outline (contour)"), ("off", "no map")),
        on_page=True,
    ),
    LookSetting(
        "follow",
        "motion",
        values=lambda: ("flow", "hold", "sync"),
        words=(
            ("flow", "the map is carried along"), ("hold", "the map is held"),
            ("sync", "the map is shown with its own picture"),
        ),
    ),
)  # fmt: skip
"""The fields that commands and pages change."""
