"""Screens over the picture: the help, and the list of classes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from realtime_lrp.view.hud import DIM, WARNING, figure_size, percent
from realtime_lrp.view.keys import BINDINGS, MOUSE, key_text
from realtime_lrp.view.text import WHITE, darken, draw_text, fitted, text_width

STEPS = {"Up": -1, "Down": 1, "Page_Up": -10, "Page_Down": 10}
"""How far a key moves the cursor."""


def draw_help(canvas: np.ndarray) -> None:
    """Draws all keys and what they do, in place."""
    rows, columns = canvas.shape[:2]
    darken(canvas, (0, 0, columns, rows), 0.15)
    groups = [
        (name, [(key_text(b.keys), b.meaning) for b in all_]) for name, all_ in BINDINGS.items()
    ]
    groups.append(("The mouse, on the picture", list(MOUSE)))
    count = sum(len(lines) + 2 for _, lines in groups)
    columns_of_text = 1 if rows > columns else 2
    per_column = count if columns_of_text == 1 else -(-count // 2) + 2
    size = min(figure_size(rows, columns), int(rows / (per_column * 1.4 + 1)))
    step, width, x, y = round(1.4 * size), columns // columns_of_text, size, size
    key_width = size + max(text_width(keys, size) for _, lines in groups for keys, _ in lines)
    for name, lines in groups:
        if y + (len(lines) + 1) * step > rows - size // 2:
            x, y = x + width, size
        draw_text(canvas, name, (x, y + size), size, WARNING)
        y += step
        for keys, meaning in lines:
            draw_text(canvas, fitted(keys, key_width, size), (x, y + size), size)
            room = width - key_width - 2 * size
            draw_text(canvas, fitted(meaning, room, size), (x + key_width, y + size), size, DIM)
            y += step
        y += step // 2


@dataclass(frozen=True, eq=False)
class ClassList:
    """A list of classes to choose from: letters narrow it down, arrows move the cursor.

    Attributes:
      entries: (index, label), best first when the list was opened.
      scores: float32 [classes], the present ones.
      typed: the part of the name that was typed.
      cursor: the position of the cursor among the entries found.
    """

    entries: Sequence[tuple[int, str]]
    scores: np.ndarray
    typed: str = ""
    cursor: int = 0

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
            last = max(0, len(self.found()) - 1)
            return replace(self, cursor=min(max(0, self.cursor + STEPS[key]), last))
        typed = self.typed
        if key in ("BackSpace", "Delete"):
            typed = typed[:-1]
        elif len(key) == 1 or key == "space":
            typed += {"space": " "}.get(key, key)
        return replace(self, typed=typed, cursor=0)


def draw_class_list(canvas: np.ndarray, listed: ClassList) -> None:
    """Draws the list of classes, in place."""
    rows, columns = canvas.shape[:2]
    size = figure_size(rows, columns)
    step, width = round(1.45 * size), min(columns - 2 * size, 30 * size)
    x = (columns - width) // 2
    fits = max(1, (rows - 5 * step) // step)
    darken(canvas, (x, 0, x + width, rows), 0.12)
    found = listed.found()
    head = ("Enter: explain it    Esc: back", "Tab: the present class against it")
    typed = f"> {listed.typed}_   ({min(listed.cursor + 1, len(found))} of {len(found)})"
    for number, line in enumerate((*head, typed)):
        colour = DIM if number < len(head) else WHITE
        draw_text(canvas, line, (x + size, (number + 1) * step), size, colour)
    first = max(0, min(listed.cursor - fits // 2, len(found) - fits))
    for number, (index, label) in enumerate(found[first : first + fits]):
        y = (number + 5) * step
        colour = WARNING if first + number == listed.cursor else WHITE
        label = fitted(f"{index}  {label.replace('_', ' ')}", width - 6 * size, size)
        draw_text(canvas, label, (x + size, y), size, colour)
        score = percent(float(listed.scores[index]))
        draw_text(canvas, score, (x + width - 4 * size, y), size, colour)
    if not found:
        draw_text(canvas, "no class of this name", (x + size, 5 * step), size, WARNING)
