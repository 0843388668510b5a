"""The lists to choose from, over the picture: of classes, and of maps side by side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from realtime_lrp.config.names import ABOUT
from realtime_lrp.view.blocks import Part, draw_parts, height_of, line
from realtime_lrp.view.hud import DIM, STEP, WARNING, Colour, percent
from realtime_lrp.view.text import WHITE, darken, wrapped

STEPS = {"Up": -1, "Down": 1, "Page_Up": -10, "Page_Down": 10}  # how far a key moves the cursor


def draw_list(
    canvas: np.ndarray,
    size: int,
    head: Sequence[Part],
    row: Callable[[int, Colour], Part],
    count: int,
    cursor: int,
    foot: Sequence[Part] = (),
    foot_lines: int = 0,
) -> None:
    """Draws a list in a darkened column, in place; letters are `size` pixels high.

    `row` makes an entry in a colour, by its number. `foot_lines` are kept free below the entries.
    """
    rows, columns = canvas.shape[:2]
    width = min(columns - 2 * size, 30 * size)
    x = (columns - width) // 2
    darken(canvas, (x, 0, x + width, rows), 0.12)
    free = rows - height_of(head) - 2 * size
    fits = max(1, free // round(STEP * size) - foot_lines)
    first = max(0, min(cursor - fits // 2, count - fits))  # the cursor is in sight
    shown = range(first, min(first + fits, count))
    entries = [row(number, WARNING if number == cursor else WHITE) for number in shown]
    parts = [Part(size // 2), *head, Part(size), *entries, Part(size), *foot]
    draw_parts(canvas, parts, x + size, 0, width - 2 * size)


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
        if key in STEPS:
            return replace(self, cursor=_moved(self.cursor, key, len(self.found())))
        typed = self.typed
        if key in ("BackSpace", "Delete"):
            typed = typed[:-1]
        elif len(key) == 1 or key == "space":
            typed += {"space": " "}.get(key, key)
        return replace(self, typed=typed, cursor=0)

    def draw(self, canvas: np.ndarray, size: int) -> None:
        """Draws the list of classes, in place."""
        found = self.found()
        typed = f"> {self.typed}_   ({min(self.cursor + 1, len(found))} of {len(found)})"
        head = [
            line("Enter: explain it    Esc: back", "", size, DIM),
            line("Tab: the present class against it", "", size, DIM),
            line(typed, "", size),
        ]
        if not found:
            text = (
                "no class of this name" if self.entries else "the classes come with the first map"
            )
            head.append(line(text, "", size, WARNING))

        def row(number: int, colour: Colour) -> Part:
            index, label = found[number]
            score = percent(float(self.scores[index]))
            return line(f"{index}  {label.replace('_', ' ')}", score, size, colour, colour)

        draw_list(canvas, size, head, row, len(found), self.cursor)


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
            return replace(self, cursor=_moved(self.cursor, key, len(self.names)))
        name = self.names[self.cursor]
        if key != "space" or name == self.main:
            return self
        return replace(self, chosen=self.chosen ^ {name})

    def panels(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name in self.chosen)

    def draw(self, canvas: np.ndarray, size: int) -> None:
        """Draws the list, in place, with a sentence about the entry under the cursor."""
        head = [
            line("Enter: show them side by side", "", size, DIM),
            line("Space: on, off    Esc: back", "", size, DIM),
        ]

        def row(number: int, colour: Colour) -> Part:
            name = self.names[number]
            state = "main map" if name == self.main else "shown" if name in self.chosen else "-"
            return line(name, state, size, colour, colour)

        about = ABOUT.get(self.names[self.cursor], "")
        width = min(canvas.shape[1] - 2 * size, 30 * size) - 2 * size
        foot = [line(one, "", size, DIM) for one in wrapped(about, width, size)[:ABOUT_LINES]]
        draw_list(canvas, size, head, row, len(self.names), self.cursor, foot, ABOUT_LINES)


def _moved(cursor: int, key: str, count: int) -> int:
    return min(max(0, cursor + STEPS[key]), max(0, count - 1))
