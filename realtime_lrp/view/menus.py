"""Screens over the picture: the help, and the list of classes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from realtime_lrp.view.hud import DIM, WARNING, figure_size, percent
from realtime_lrp.view.keys import BINDINGS, MOUSE, shown
from realtime_lrp.view.text import WHITE, darken, draw_text, fitted, text_width


def draw_help(canvas: np.ndarray) -> None:
    """Draws every key and what it does, in place."""
    rows, columns = canvas.shape[:2]
    darken(canvas, (0, 0, columns, rows), 0.15)
    groups = [(name, [(shown(b.keys), b.meaning) for b in all_]) for name, all_ in BINDINGS.items()]
    groups.append(("The mouse, on the picture", list(MOUSE)))
    count = sum(len(rows_) + 2 for _, rows_ in groups)
    beside = 1 if rows > columns else 2
    per_column = count if beside == 1 else -(-count // 2) + 2
    size = min(figure_size(rows, columns), int(rows / (per_column * 1.4 + 1)))
    step, width, x, y = round(1.4 * size), columns // beside, size, size
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


@dataclass
class ClassList:
    """A list of classes to choose from: letters narrow it, arrows go through it.

    Attributes:
      entries: (index, label), best first when the list was opened.
      scores: float32 [classes], the present ones.
      typed: what the labels have to hold.
      place: the chosen one of those that do.
    """

    entries: Sequence[tuple[int, str]]
    scores: np.ndarray
    typed: str = ""
    place: int = 0

    def found(self) -> list[tuple[int, str]]:
        """The entries whose label holds what was typed, or whose number begins with it."""
        return [
            one
            for one in self.entries
            if self.typed in one[1].lower().replace("_", " ")
            or (self.typed.isdecimal() and str(one[0]).startswith(self.typed))
        ]

    def chosen(self) -> int | None:
        """The index of the class under the cursor; None where nothing is found."""
        found = self.found()
        return found[self.place][0] if found else None

    def press(self, key: str) -> None:
        """Letters, BackSpace and arrows."""
        steps = {"Up": -1, "Down": 1, "Page_Up": -10, "Page_Down": 10}
        if key in steps:
            last = max(0, len(self.found()) - 1)
            self.place = min(max(0, self.place + steps[key]), last)
            return
        if key in ("BackSpace", "Delete"):
            self.typed = self.typed[:-1]
        elif len(key) == 1 or key == "space":
            self.typed += {"space": " "}.get(key, key)
        self.place = 0

    def draw(self, canvas: np.ndarray) -> None:
        """Draws the list, in place."""
        rows, columns = canvas.shape[:2]
        size = figure_size(rows, columns)
        step, width = round(1.45 * size), min(columns - 2 * size, 30 * size)
        x = (columns - width) // 2
        fits = max(1, (rows - 5 * step) // step)
        darken(canvas, (x, 0, x + width, rows), 0.12)
        found = self.found()
        head = ("Enter: explain it    Esc: back", "Tab: the present class against it")
        typed = f"> {self.typed}_   ({min(self.place + 1, len(found))} of {len(found)})"
        for number, line in enumerate((*head, typed)):
            colour = DIM if number < len(head) else WHITE
            draw_text(canvas, line, (x + size, (number + 1) * step), size, colour)
        first = max(0, min(self.place - fits // 2, len(found) - fits))
        for number, (index, label) in enumerate(found[first : first + fits]):
            y = (number + 5) * step
            colour = WARNING if first + number == self.place else WHITE
            label = fitted(f"{index}  {label.replace('_', ' ')}", width - 6 * size, size)
            draw_text(canvas, label, (x + size, y), size, colour)
            score = percent(float(self.scores[index]))
            draw_text(canvas, score, (x + width - 4 * size, y), size, colour)
        if not found:
            draw_text(canvas, "no class is called so", (x + size, 5 * step), size, WARNING)
