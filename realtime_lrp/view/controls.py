"""Buttons, the bar of a film and the brush, and lists of classes and commands to type in.

`realtime/viewer/pointing.py` has the effect of a click.
"""

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import cv2
import numpy as np

from realtime_lrp.system.geometry import Box, Extent, Pixel, contains
from realtime_lrp.view import hud
from realtime_lrp.view.keys import BUTTONS, COMMANDS, MOUSE, Command, find, key_text
from realtime_lrp.view.text import WHITE, draw_text, text_width

STEPS = {"Up": -1, "Down": 1, "Page_Up": -10, "Page_Down": 10}  # how far a key moves the cursor
WIDTH = 34  # greatest width of a list, in heights of a letter
SHIFT = 4  # OpenCV draws circles at this many binary places of a pixel
FILL = (38, 38, 44)
EDGE = (120, 120, 130)
CASED = ((0, 0, 0), 3), (WHITE, 1)  # colours and widths of lines that show on any ground


@dataclass(frozen=True)
class BarPosition:
    """The bar's contents."""

    share: float
    position: str
    length: str


@dataclass(frozen=True)
class Controls:
    """The controls' places on the canvas."""

    buttons: Mapping[str, Box]  # action -> its button
    track: Box | None  # the part of the bar from start to end; None without a bar
    area: Box  # all of them, with the gaps
    letters: int  # the height of letters, in pixels

    def at(self, x: int, y: int) -> str:
        """The action of the button there, "bar", "gap" between them, or ""."""
        named = [*self.buttons.items(), ("bar", self.track), ("gap", self.area)]
        return next((name for name, box in named if box and contains(box, x, y)), "")


@functools.lru_cache(maxsize=8)
def arrange_controls(
    size: Extent, letters: int, with_bar: bool, words: Callable[[str], str] = str
) -> Controls:
    """Arranges the controls at the lower edge of a canvas; `words` translates the buttons."""
    rows, columns = size
    height = round(2.2 * letters)
    gap = max(2, letters // 3)
    lines: list[dict[str, int]] = [{}]  # action -> width of its button
    for action, one in BUTTONS.items():
        width = max(text_width(words(text), letters) for text in (one.button, one.undo))
        width += round(1.3 * letters)
        if lines[-1] and sum(lines[-1].values()) + gap * len(lines[-1]) + width > columns - 2 * gap:
            lines.append({})
        lines[-1][action] = width
    y = rows - gap - len(lines) * (height + gap)
    top = y + gap
    boxes: dict[str, Box] = {}
    for row in lines:
        y += gap
        x = (columns - sum(row.values()) - gap * (len(row) - 1)) // 2
        for action, width in row.items():
            boxes[action] = x, y, x + width, y + height
            x += width + gap
        y += height
    track = None
    if with_bar:
        top -= height + gap
        clock = 5 * letters
        track = gap + clock, top, columns - gap - clock, top + height
    return Controls(boxes, track, (0, top - gap, columns, rows), letters)


def draw_controls(
    canvas: np.ndarray, controls: Controls, progress: BarPosition | None, running: Collection[str],
    pointer: Pixel, words: Callable[[str], str] = str,
) -> None:  # fmt: skip
    """Draws the controls in place."""
    letters = controls.letters
    if progress and controls.track:
        _draw_bar(canvas, controls.track, progress, letters)
    for action, (x0, y0, x1, y1) in controls.buttons.items():
        edge = hud.WARNING if contains((x0, y0, x1, y1), *pointer) else EDGE
        cv2.rectangle(canvas, (x0, y0), (x1 - 1, y1 - 1), FILL, -1)
        cv2.rectangle(canvas, (x0, y0), (x1 - 1, y1 - 1), edge, 1)
        label = words(BUTTONS[action].undo if action in running else BUTTONS[action].button)
        x = (x0 + x1 - text_width(label, letters)) // 2
        draw_text(canvas, label, (x, (y0 + y1) // 2 + round(0.36 * letters)), letters, WHITE)


def draw_brush(
    canvas: np.ndarray, box: Box, middle: Pixel, radius: int, shape: tuple[int, ...]
) -> None:
    """Outlines in place what the brush covers: pixels of a picture of this shape in a box."""
    x0, y0, x1, y1 = box
    part = canvas[y0:y1, x0:x1]
    scale = (x1 - x0) / shape[1]
    x, y = (round(((at + 0.5) * scale - 0.5) * 2**SHIFT) for at in middle)
    r = round((radius + 0.5) * scale * 2**SHIFT)
    for colour, width in CASED:
        cv2.circle(part, (x, y), r, colour, width, cv2.LINE_AA, SHIFT)


def draw_frame(canvas: np.ndarray, start: Pixel, end: Pixel) -> None:
    """Outlines in place the rectangle between two places."""
    for colour, width in CASED:
        cv2.rectangle(canvas, start, end, colour, width)


def _draw_bar(canvas: np.ndarray, track: Box, progress: BarPosition, letters: int) -> None:
    x0, y0, x1, y1 = track
    cv2.rectangle(canvas, (0, y0), (canvas.shape[1] - 1, y1 - 1), FILL, -1)
    middle = (y0 + y1) // 2
    half = max(2, letters // 6)
    x = x0 + round((x1 - 1 - x0) * progress.share)
    hud.draw_bar(canvas, (x0, middle - half, x1, middle + half + 1), progress.share)
    cv2.circle(canvas, (x, middle), max(4, letters // 2), WHITE, -1, cv2.LINE_AA)
    base = middle + round(0.36 * letters)
    left = x0 - letters - text_width(progress.position, letters)
    draw_text(canvas, progress.position, (left, base), letters, WHITE)
    draw_text(canvas, progress.length, (x1 + letters, base), letters, hud.DIM)


@dataclass(frozen=True, eq=False)
class Menu:
    """A list to choose from: letters narrow it down, arrows move the cursor."""

    typed: str = ""
    cursor: int = 0  # its position among the entries found
    words: Callable[[str], str] = str  # translates what is not an entry

    least = WIDTH  # letters that the column needs beside the picture
    head: ClassVar[tuple[str, ...]] = ()  # lines about keys, above the entries

    def found(self) -> Sequence[Any]:
        """The entries that fit what was typed."""
        raise NotImplementedError

    def texts(self, entry: Any) -> tuple[str, str]:
        """The texts at both ends of an entry's line."""
        raise NotImplementedError

    def empty(self) -> str:
        """The text if nothing is found."""
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

    def click(self, canvas: Extent, size: int, free: Box, x: int, y: int) -> "Menu | None":
        """The list with the cursor on the entry at x, y; None where there is none."""
        column, first_y, shown = self._place(canvas, size, free, len(self.found()))
        number = shown.start + (y - first_y) // round(hud.STEP * size)
        inside = column[0] <= x < column[2] and number in shown
        return replace(self, cursor=number) if inside else None

    def draw(self, canvas: np.ndarray, size: int, free: Box) -> None:
        """Draws the list in a black column: where figures are, in the middle, or everywhere."""
        found = self.found()
        (x0, y0, x1, y1), _, shown = self._place(canvas.shape[:2], size, free, len(found))
        canvas[y0:y1, x0:x1] = 0
        entries = []
        for number in shown:
            colour = hud.WARNING if number == self.cursor else WHITE
            entries.append(hud.line(*self.texts(found[number]), size, colour, colour))
        words = self.words
        foot = [
            hud.line(words(left), words(right), size, WHITE, hud.DIM) for left, right in self.foot()
        ]
        parts = [*self._head(size, len(found)), *entries, hud.Strip(size // 2), *foot]
        hud.draw_parts(canvas, parts, x0 + size, 0, x1 - x0 - 2 * size)

    def _head(self, size: int, count: int) -> list[hud.Strip]:
        lines = [hud.line(self.words(text), "", size, hud.DIM) for text in self.head]
        place = self.words(f"{min(self.cursor + 1, count)} of {count}")
        lines.append(hud.line(f"> {self.typed}_   ({place})", "", size))
        if not count:
            lines.append(hud.line(self.words(self.empty()), "", size, hud.WARNING))
        return [hud.Strip(size // 2), *lines, hud.Strip(size // 2)]

    def _place(
        self, canvas: Sequence[int], size: int, free: Box, count: int
    ) -> tuple[Box, int, range]:
        """The column of the list, the y of its first entry, and the entries in sight."""
        rows, columns = canvas[:2]
        width = min(columns - 2 * size, WIDTH * size)
        x0, x1 = (columns - width) // 2, (columns - width) // 2 + width
        top = hud.height_of(self._head(size, count))
        if free[2] - free[0] >= self.least * size and free[3] - free[1] >= rows // 2:
            x0, _, x1, _ = free
        elif width > columns // 2:
            x0, x1 = 0, columns
        fits = max(1, (rows - top - size) // round(hud.STEP * size) - len(self.foot()))
        first = max(0, min(self.cursor - fits // 2, count - fits))  # the cursor is in sight
        return (x0, 0, x1, rows), top, range(first, min(first + fits, count))


@dataclass(frozen=True, eq=False)
class ClassList(Menu):
    """The classes."""

    entries: Sequence[tuple[int, str]] = ()  # index and label, best first when they came
    # the present ones, float32 [classes]
    scores: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))

    least = 13
    head = ("Enter: explain it", "Tab: compare with it", "Esc: back")

    def with_scores(self, scores: np.ndarray, labels: Sequence[str]) -> "ClassList":
        """The list with other scores; an empty list gets its entries."""
        if self.entries:
            return replace(self, scores=scores)
        order = np.argsort(-scores, kind="stable").tolist()
        entries = tuple((index, self.words(labels[index])) for index in order)
        return replace(self, scores=scores, entries=entries)

    def found(self) -> list[tuple[int, str]]:
        """The classes whose label contains what was typed, or whose number begins with it."""
        typed = self.typed
        return [
            (index, label)
            for index, label in self.entries
            if typed in label.lower() or (typed.isdecimal() and str(index).startswith(typed))
        ]

    def texts(self, entry: tuple[int, str]) -> tuple[str, str]:
        index, label = entry
        return f"{label} ({index})", hud.percent(float(self.scores[index]))

    def empty(self) -> str:
        return "no class of this name" if self.entries else "no class yet"


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
        """Lines that are no commands, shown while nothing is typed."""
        return [] if self.typed else [(meaning, what) for what, meaning in MOUSE]
