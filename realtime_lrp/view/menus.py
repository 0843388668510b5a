"""The lists to choose from, over the picture: of classes, and of maps side by side."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import cv2
import numpy as np

from realtime_lrp.config.about import ABOUT
from realtime_lrp.view.hud import BAR, DIM, WARNING, percent
from realtime_lrp.view.text import WHITE, darken, draw_text, fitted, wrapped

STEPS = {"Up": -1, "Down": 1, "Page_Up": -10, "Page_Down": 10}  # how far a key moves the cursor


def moved(cursor: int, key: str, count: int) -> int:
    """The position of the cursor in a list of `count` entries after one of `STEPS`."""
    return min(max(0, cursor + STEPS[key]), max(0, count - 1))


def first_shown(cursor: int, count: int, fits: int) -> int:
    """The first of `count` entries that is drawn where `fits` have room: the cursor is in sight."""
    return max(0, min(cursor - fits // 2, count - fits))


@dataclass(frozen=True)
class ListColumn:
    """The darkened column of the canvas that a list is drawn in, all measures in pixels."""

    x: int
    width: int
    step: int

    @classmethod
    def drawn_on(cls, canvas: np.ndarray, size: int) -> "ListColumn":
        """Darkens the column of the canvas, uint8 [H, W, 3] RGB; `size` is the letters' height."""
        rows, columns = canvas.shape[:2]
        width = min(columns - 2 * size, 30 * size)
        x = (columns - width) // 2
        darken(canvas, (x, 0, x + width, rows), 0.12)
        return cls(x, width, round(1.45 * size))


@dataclass(frozen=True, eq=False)
class ClassList:
    """A list of classes to choose from: letters narrow it down, arrows move the cursor."""

    # (index, label), best first when they came; none before the first map
    entries: Sequence[tuple[int, str]] = ()
    # float32 [classes], the present ones
    scores: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    typed: str = ""  # the part of the name that was typed
    cursor: int = 0  # the position of the cursor among the entries found

    def with_scores(self, scores: np.ndarray, labels: Sequence[str]) -> "ClassList":
        """The list with other scores; an empty list gets its entries."""
        if self.entries:
            return replace(self, scores=scores)
        order = np.argsort(-scores, kind="stable").tolist()
        return replace(self, scores=scores, entries=tuple((n, labels[n]) for n in order))

    def found(self) -> list[tuple[int, str]]:
        """The entries whose label contains what was typed, or whose number begins with it."""
        return [
            entry
            for entry in self.entries
            if self.typed in entry[1].lower().replace("_", " ")
            or (self.typed.isdecimal() and str(entry[0]).startswith(self.typed))
        ]

    def chosen(self) -> int | None:
        """The index of the class under the cursor; None where nothing is found."""
        found = self.found()
        return found[self.cursor][0] if found else None

    def press(self, key: str) -> "ClassList":
        """The list after a letter, BackSpace or an arrow."""
        if key in STEPS:
            return replace(self, cursor=moved(self.cursor, key, len(self.found())))
        typed = self.typed
        if key in ("BackSpace", "Delete"):
            typed = typed[:-1]
        elif len(key) == 1 or key == "space":
            typed += {"space": " "}.get(key, key)
        return replace(self, typed=typed, cursor=0)


def draw_class_list(canvas: np.ndarray, listed: ClassList, size: int) -> None:
    """Draws the list of classes, in place."""
    column = ListColumn.drawn_on(canvas, size)
    x, width, step = column.x, column.width, column.step
    fits = max(1, (canvas.shape[0] - 5 * step) // step)
    found = listed.found()
    head = ("Enter: explain it    Esc: back", "Tab: the present class against it")
    typed = f"> {listed.typed}_   ({min(listed.cursor + 1, len(found))} of {len(found)})"
    for number, line in enumerate((*head, typed)):
        colour = DIM if number < len(head) else WHITE
        draw_text(canvas, line, (x + size, (number + 1) * step), size, colour)
    first = first_shown(listed.cursor, len(found), fits)
    for number, (index, label) in enumerate(found[first : first + fits]):
        y = (number + 5) * step
        colour = WARNING if first + number == listed.cursor else WHITE
        label = fitted(f"{index}  {label.replace('_', ' ')}", width - 6 * size, size)
        draw_text(canvas, label, (x + size, y), size, colour)
        score = percent(float(listed.scores[index]))
        draw_text(canvas, score, (x + width - 4 * size, y), size, colour)
    if not found:
        text = "no class of this name" if listed.entries else "the classes come with the first map"
        draw_text(canvas, text, (x + size, 5 * step), size, WARNING)


HEAD = ("Enter: show them side by side", "Space: on, off    Esc: back")
ABOUT_LINES = 5  # lines of the sentence about the entry under the cursor, at most


@dataclass(frozen=True)
class PanelList:
    """A list of maps to choose from: arrows move the cursor, Space chooses."""

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
    """Draws the list, in place, with a sentence about the entry under the cursor."""
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
        filled = main or name in listed.chosen
        corners = (x + size, y - size + 2), (x + 2 * size, y + 2)
        cv2.rectangle(canvas, *corners, BAR if filled else DIM, -1 if filled else 1)
        text = name + (" (the main map)" if main else "")
        draw_text(canvas, fitted(text, width - 4 * size, size), (x + 3 * size, y), size, colour)
        y += step
    about = ABOUT.get(listed.names[listed.cursor], "")
    for line in wrapped(about, width - 2 * size, size)[:ABOUT_LINES]:
        y += step
        draw_text(canvas, line, (x + size, y), size, DIM)
