"""The one table of the live viewer's commands: their words, keys and buttons.

Help, keys and buttons of window and page, and the table in docs/live.md, are made from it. What a
command does is in `realtime/viewer/actions.py`.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from realtime_lrp.config.names import COMPOSITES, METHODS
from realtime_lrp.view.hud import TEXT_SIZES
from realtime_lrp.view.look import LOOK_SETTINGS


@dataclass(frozen=True)
class Command:
    """Something that the viewer does."""

    action: str  # what it does, or of what a value is chosen
    meaning: str  # found by any of these words
    keys: tuple[str, ...] = ()  # none: found by typing alone
    button: str = ""  # what its button says while the mouse moves; "" for none
    undo: str = ""  # what that says while the picture is frozen, or a recording runs
    value: Any = None  # what is chosen
    chooses: bool = False  # whether a value is chosen, which may be None

    @property
    def name(self) -> str:
        return f"{self.action}:{self.value}" if self.chooses else self.action


def _commands(*rows: tuple[str, ...]) -> tuple[Command, ...]:
    made = []
    for action, meaning, keys, *buttons in rows:
        button, undo = (*buttons, "", "")[:2]
        made.append(Command(action, meaning, tuple(keys.split()), button, undo))
    return tuple(made)


def _choices(action: str, meanings: Iterable[tuple[Any, str]]) -> tuple[Command, ...]:
    return tuple(Command(action, text, value=value, chooses=True) for value, text in meanings)


KEYED = _commands(
    ("freeze", "freeze the picture, go on", "space", "Freeze", "Go on"),
    ("panels", "several maps side by side", "p", "Side by side"),
    ("concepts", "concepts: what channels found", "c", "Concepts"),
    ("probe", "blur what is relevant: does the answer fall?", "a"),
    ("random", "random weights: does the map change?", "x"),
    ("choose", "explain a class from a list, lock it", "l", "Class"),
    ("versus", "compare the best class with the next; again: back", "v"),
    ("frame", "draw a rectangle (region) that is seen alone; again: let go", "z"),
    ("pixel", "explain the region that you point at, or its pixel alone", "e"),
    ("uncover", "remove all patches", "BackSpace Delete"),
    ("snapshot", "snapshot: the view, its raw maps, the settings", "s", "Snapshot"),
    ("record", "record, stop recording", "r", "Record", "Stop"),
    ("presenter", "all figures, or the large answer alone", "u"),
    ("full_screen", "full screen", "f F11 F5", "Full screen"),
    ("help", "all commands: type words, Enter does it", "h ? F1 / Return", "More"),
    ("escape", "leave a list or full screen; twice: end", "Escape"),
    ("quit", "end, if pressed twice", "q", "End"),
)
"""Those that have keys of their own."""

CLICKER = _commands(
    ("clicker_next", "clicker: next step, box, method or file", "Page_Down Right Down"),
    ("clicker_previous", "clicker: previous step, box, method or file", "Page_Up Left Up"),
)
"""The keys that a presenter's clicker sends."""

TYPED = (
    *_commands(
        ("networks", "the first network alone, or all side by side", ""),
        ("about", "what this method shows, and what not", ""),
        ("next_box", "next box of a detector alone; after the last: all", ""),
        ("next_method", "next method", ""),
        ("previous_method", "previous method", ""),
        ("lower_layer", "concepts of the layer before, nearer the picture", ""),
        ("higher_layer", "concepts of the next layer, nearer the answer", ""),
        ("lock", "lock the best class; again: follow the best", ""),
        ("step", "next picture, one at a time (step)", ""),
        ("next_source", "next source (camera)", ""),
        ("next_file", "next file", ""),
        ("previous_file", "previous file", ""),
        ("larger_brush", "larger brush", ""),
        ("smaller_brush", "smaller brush", ""),
        ("mirror", "mirror left and right", ""),
        ("channels", "one map, or one for each of red, green, blue", ""),
        *((action, meaning, "") for one in LOOK_SETTINGS for action, meaning, _ in one.commands),
    ),
    *_choices("text", (("none", "no text beside the picture"),)),
    *_choices("text_size", ((name, f"{name} text (letters)") for name in TEXT_SIZES)),
    *(command for one in LOOK_SETTINGS
      for command in _choices(one.name, ((value, one.says(value)) for value in one.values()))),
)  # fmt: skip
"""Commands that are found by typing alone, without targets and methods."""

COMMANDS = (*KEYED, *CLICKER, *TYPED)

MOUSE = (
    ("left button", "cover a part of the picture"),
    ("right button", "uncover it"),
    ("dragging with Shift", "draws a rectangle that the network sees alone; z: let go"),
    ("click on a channel", "its map alone; again or Esc: the whole map"),
    ("moving over the picture", "explains the region, or the box, under the pointer"),
    ("click on a region or box", "pins it; again or Esc: lets it go"),
    ("moving", "shows buttons, and for films a bar to seek"),
)
"""The mouse's actions."""

BY_KEY = {key: one for one in COMMANDS for key in one.keys}
BUTTONS = {one.action: one for one in KEYED if one.button}  # action -> command
UNNAMED = "unnamed"  # the name of keys without one, such as Menu or Print


def commands(targets: Mapping[str, str], unsuited: Collection[str] = ()) -> tuple[Command, ...]:
    """All commands that suit a network; `targets` are those that are no class -> their words."""
    rules = COMPOSITES.known()
    names = [one for one in (*rules, *METHODS.known()) if one not in ("lrp", *unsuited)]
    return (
        *COMMANDS,
        *_choices("target", ((one, f"explain {text}") for one, text in targets.items())),
        *_choices("composite", ((name, f"LRP: {name}") for name in names if name in rules)),
        *_choices("method", ((name, f"method: {name}") for name in names if name not in rules)),
        *_choices("panel", ((name, f"beside the map, on or off: {name}") for name in names)),
    )


def find(typed: str, among: Sequence[Command]) -> list[Command]:
    """The commands with a word that begins as each typed one does; best first, then short ones."""
    wanted = _words(typed)
    ranked = ((_rank(one, wanted), one) for one in among)
    found = [(rank, one) for rank, one in ranked if rank is not None]
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def _rank(command: Command, wanted: Sequence[str]) -> tuple[int, int] | None:
    """How well a command fits, the least is best; None if it does not."""
    shown = _words(command.meaning)
    named = _words(command.name)
    rank = 0
    for word in wanted:
        whole = {word, word.removesuffix("s")}
        if whole & set(shown):
            continue
        begins = [any(one.startswith(word) for one in words) for words in (shown, named)]
        if not (any(begins) or whole & set(named)):
            return None
        rank += 1 if begins[0] else 2
    return rank, len(shown) if wanted else 0


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower())


def key_text(keys: Sequence[str]) -> str:
    """Keys in words, for the help."""
    names = {"space": "Space", "Escape": "Esc", "Page_Up": "Page Up", "Page_Down": "Page Down",
             "Return": "Enter"}  # fmt: skip
    return ", ".join(names.get(key, key) for key in keys)
