"""The list of methods and composites whose maps stand side by side, over the picture."""

from dataclasses import dataclass, replace

import cv2
import numpy as np

from realtime_lrp.config.about import ABOUT
from realtime_lrp.system.geometry import Box
from realtime_lrp.view.hud import BAR, DIM, WARNING
from realtime_lrp.view.menus import STEPS, ListColumn, first_shown, moved
from realtime_lrp.view.text import WHITE, draw_text, fitted, wrapped

HEAD = ("Enter: show them side by side", "Space: on, off    Esc: back")
ABOUT_LINES = 5
"""Lines of the sentence about the entry under the cursor, at most."""


@dataclass(frozen=True)
class PanelList:
    """A list of maps to choose from: arrows move the cursor, Space chooses.

    Attributes:
      names: methods and composites.
      main: the one whose map is always there.
      chosen: those whose maps stand beside it.
      cursor: the position of the cursor.
    """

    names: tuple[str, ...]
    main: str
    chosen: frozenset[str]
    cursor: int = 0

    def press(self, key: str) -> "PanelList":
        """The list after Space or an arrow; other keys change nothing."""
        if key in STEPS:
            return replace(self, cursor=moved(self.cursor, key, len(self.names)))
        name = self.names[self.cursor]
        if key != "space" or name == self.main:
            return self
        return replace(self, chosen=self.chosen ^ {name})

    def panels(self) -> tuple[str, ...]:
        """The chosen names, in the order of the list."""
        return tuple(name for name in self.names if name in self.chosen)


def draw_panel_list(canvas: np.ndarray, listed: PanelList, size: int) -> None:
    """Draws the list, in place, with a sentence about the entry under the cursor.

    Args:
      canvas: uint8 [H, W, 3] RGB.
      listed: the list.
      size: the height of letters in pixels.
    """
    column = ListColumn.drawn_on(canvas, size)
    x, width, step = column.x, column.width, column.step
    for number, line in enumerate(HEAD):
        draw_text(canvas, line, (x + size, (number + 1) * step), size, DIM)
    fits = max(1, canvas.shape[0] // step - len(HEAD) - ABOUT_LINES - 2)
    first = first_shown(listed.cursor, len(listed.names), fits)
    y = (len(HEAD) + 2) * step
    for number, name in enumerate(listed.names[first : first + fits], first):
        colour = WARNING if number == listed.cursor else WHITE
        main = name == listed.main
        _draw_box(
            canvas, (x + size, y - size + 2, x + 2 * size, y + 2), main or name in listed.chosen
        )
        text = name + (" (the main map)" if main else "")
        draw_text(canvas, fitted(text, width - 4 * size, size), (x + 3 * size, y), size, colour)
        y += step
    about = ABOUT.get(listed.names[listed.cursor], "")
    for line in wrapped(about, width - 2 * size, size)[:ABOUT_LINES]:
        y += step
        draw_text(canvas, line, (x + size, y), size, DIM)


def _draw_box(canvas: np.ndarray, box: Box, filled: bool) -> None:
    x0, y0, x1, y1 = box
    cv2.rectangle(canvas, (x0, y0), (x1, y1), BAR if filled else DIM, -1 if filled else 1)
