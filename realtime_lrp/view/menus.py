"""The lists that typing narrows down, over the picture: of classes, and of commands."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from realtime_lrp.system.geometry import Box
from realtime_lrp.view.hud import DIM, STEP, WARNING, Part, draw_parts, height_of, line, percent
from realtime_lrp.view.keys import COMMANDS, MOUSE, Command, find, key_text
from realtime_lrp.view.text import WHITE

STEPS = {"Up": -1, "Down": 1, "Page_Up": -10, "Page_Down": 10}  # how far a key moves the cursor
WIDTH = 34  # greatest width of a list, in heights of a letter


@dataclass(frozen=True)
class _Place:
    """Where a list stands on a canvas: the column, and the entries that are in sight."""

    column: Box
    first_y: int
    shown: range


@dataclass(frozen=True, eq=False)
class Menu:
    """A list to choose from: letters narrow it down, arrows move the cursor."""

    typed: str = ""
    cursor: int = 0  # its position among the entries found

    least = WIDTH  # letters that the column needs beside the picture
    head: ClassVar[tuple[str, ...]] = ()  # lines above the entries, in which keys are told

    def found(self) -> Sequence[Any]:
        """The entries that fit what was typed."""
        raise NotImplementedError

    def texts(self, entry: Any) -> tuple[str, str]:
        """What stands at the left and at the right of an entry's line."""
        raise NotImplementedError

    def empty(self) -> str:
        """What is said where nothing is found."""
        raise NotImplementedError

    def foot(self) -> list[tuple[str, str]]:
        """Lines below the entries."""
        return []

    def chosen(self) -> Any:
        """The entry under the cursor; None where nothing is found."""
        found = self.found()
        return found[self.cursor] if found else None

    def press(self, key: str) -> "Menu":
        if key in STEPS:
            last = max(0, len(self.found()) - 1)
            return replace(self, cursor=min(max(0, self.cursor + STEPS[key]), last))
        typed = self.typed
        if key in ("BackSpace", "Delete"):
            typed = typed[:-1]
        elif len(key) == 1 or key == "space":
            typed += {"space": " "}.get(key, key)
        return replace(self, typed=typed, cursor=0)

    def click(self, canvas: tuple[int, int], size: int, free: Box, x: int, y: int) -> "Menu | None":
        """The list with the cursor on the entry at x, y; None where there is none."""
        place = self._place(canvas, size, free, len(self.found()))
        number = place.shown.start + (y - place.first_y) // round(STEP * size)
        inside = place.column[0] <= x < place.column[2] and number in place.shown
        return replace(self, cursor=number) if inside else None

    def draw(self, canvas: np.ndarray, size: int, free: Box) -> None:
        """Draws the list in a black column, in place; letters are `size` pixels high.

        The column is the free area where that is wide enough, else in the middle, else everywhere.
        """
        found = self.found()
        place = self._place(canvas.shape[:2], size, free, len(found))
        x0, y0, x1, y1 = place.column
        canvas[y0:y1, x0:x1] = 0
        entries = []
        for number in place.shown:
            colour = WARNING if number == self.cursor else WHITE
            entries.append(line(*self.texts(found[number]), size, colour, colour))
        foot = [line(left, right, size, WHITE, DIM) for left, right in self.foot()]
        parts = [*self._head(size, len(found)), *entries, Part(size // 2), *foot]
        draw_parts(canvas, parts, x0 + size, 0, x1 - x0 - 2 * size)

    def _head(self, size: int, count: int) -> list[Part]:
        lines = [line(text, "", size, DIM) for text in self.head]
        typed = f"> {self.typed}_   ({min(self.cursor + 1, count)} of {count})"
        lines.append(line(typed, "", size))
        if not count:
            lines.append(line(self.empty(), "", size, WARNING))
        return [Part(size // 2), *lines, Part(size // 2)]

    def _place(self, canvas: Sequence[int], size: int, free: Box, count: int) -> _Place:
        rows, columns = canvas[:2]
        width = min(columns - 2 * size, WIDTH * size)
        x, top = (columns - width) // 2, height_of(self._head(size, count))
        if free[2] - free[0] >= self.least * size and free[3] - free[1] >= rows // 2:
            x, width = free[0], free[2] - free[0]
        elif width > columns // 2:
            x, width = 0, columns
        fits = max(1, (rows - top - size) // round(STEP * size) - len(self.foot()))
        first = max(0, min(self.cursor - fits // 2, count - fits))  # the cursor is in sight
        return _Place((x, 0, x + width, rows), top, range(first, min(first + fits, count)))


@dataclass(frozen=True, eq=False)
class ClassList(Menu):
    """The classes."""

    # (index, label), best first when they came; none before the first map
    entries: Sequence[tuple[int, str]] = ()
    # float32 [classes], the present ones
    scores: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))

    least, head = 13, ("Enter: explain it", "Tab: compare with it", "Esc: back")

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

    def texts(self, entry: tuple[int, str]) -> tuple[str, str]:
        index, label = entry
        return f"{label.replace('_', ' ')} ({index})", percent(float(self.scores[index]))

    def empty(self) -> str:
        return "no class of this name" if self.entries else "the classes come with the first map"


@dataclass(frozen=True)
class CommandBox(Menu):
    """All commands, those with keys first: the help, and what finds the others."""

    commands: tuple[Command, ...] = COMMANDS

    head = "Type a few words, such as outline.", "Enter or a click: do it    Esc: back"

    def found(self) -> list[Command]:
        return find(self.typed, self.commands)

    def texts(self, entry: Command) -> tuple[str, str]:
        return entry.meaning, key_text(entry.keys)

    def empty(self) -> str:
        return "no command has these words"

    def foot(self) -> list[tuple[str, str]]:
        """What is no command: while nothing is typed."""
        return [] if self.typed else [(meaning, what) for what, meaning in MOUSE]
