"""The keys and the mouse of the live viewer: their names and what they do.

The help screen and the table in docs/live.md are made from `BINDINGS`. What an action does is in
`realtime/viewer/actions.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from realtime_lrp.view.look import LOOK_SETTINGS

COMPOSITE_KEYS = {
    "1": "zplus",
    "2": "epsilon",
    "3": "epsilon_plus",
    "4": "epsilon_plus_flat",
    "5": "epsilon_alpha2_beta1",
    "6": "epsilon_alpha2_beta1_flat",
    "7": "epsilon_gamma_box",
}


@dataclass(frozen=True)
class Binding:
    """An action and its keys.

    Attributes:
      keys: names as `name_of` returns them.
      action: the name of the action.
      meaning: what it does, for the help.
    """

    keys: tuple[str, ...]
    action: str
    meaning: str


def _group(*rows: tuple[str, str, str]) -> tuple[Binding, ...]:
    return tuple(Binding(tuple(keys.split()), action, meaning) for keys, action, meaning in rows)


BINDINGS: dict[str, tuple[Binding, ...]] = {
    "What is computed": _group(
        *((key, "composite", f"LRP: {name}") for key, name in COMPOSITE_KEYS.items()),
        ("b", "next_method", "next method: guided_backprop, grad_cam, ..."),
        ("n", "previous_method", "previous method"),
        ("p", "panels", "several maps side by side"),
        ("Tab", "choose_panels", "choose which maps stand side by side"),
        ("F2", "concepts", "concepts: the four channels with most relevance"),
        ("F3", "lower_layer", "concepts of the layer before, nearer the picture"),
        ("F4", "higher_layer", "concepts of the next layer, nearer the answer"),
        ("/", "about", "what this method shows, and what not"),
        ("x", "random", "random weights: does the map change?"),
        ("a", "probe", "blur what is relevant: does the answer fall?"),
    ),
    "What is explained": _group(
        ("t", "next_target", "explain all classes, the best, the five best"),
        ("d", "lock", "lock the best class; again: follow the best"),
        ("l", "choose", "choose a class from a list"),
        ("v", "versus", "the best class against the next; again: back"),
    ),
    "How it is drawn": _group(
        *(row[:3] for one in LOOK_SETTINGS for row in one.bindings),
        ("g", "channels", "one map, or one for each of red, green, blue"),
        ("m", "mirror", "mirror left and right"),
    ),
    "The window": _group(
        ("s", "snapshot", "snapshot: the view, its raw maps, the settings"),
        ("r", "record", "record, stop recording"),
        ("u", "presenter", "presenter view: a large answer"),
        (",", "text_size", "size of text"),
        ("i", "figures", "all figures, none, as at the start"),
        ("8", "answer", "show or hide the answer"),
        ("9", "rates", "show or hide rates, ages, device"),
        ("0", "setting", "show or hide what is computed"),
        ("F11 F5 z", "full_screen", "full screen"),
        ("h ? F1", "help", "this help; again: its next page"),
        ("Escape", "escape", "leave a list or full screen; twice: end"),
        ("q", "quit", "end"),
    ),
    "The picture": _group(
        ("f space", "freeze", "freeze, go on"),
        (".", "step", "next picture, one at a time"),
        ("c", "next_source", "next source"),
        ("e", "next_file", "next file"),
        ("w", "previous_file", "previous file"),
        ("F6", "loop", "start again after the last file: on, off"),
        (
            "Page_Down Right Down",
            "clicker_next",
            "clicker: next method, or file",
        ),
        ("Page_Up Left Up", "clicker_previous", "clicker: previous method, or file"),
        ("]", "larger_brush", "larger brush"),
        ("[", "smaller_brush", "smaller brush"),
        ("BackSpace Delete", "uncover", "remove all patches"),
    ),
}
"""Heading -> the bindings below it."""

MOUSE = (
    ("left button", "cover a part of the picture"),
    ("right button", "uncover it"),
    ("click on a channel", "its map alone; again or Esc: the whole map"),
    ("moving", "shows buttons, and for films a bar to seek"),
)
"""What the mouse does."""

ACTIONS = {key: one.action for group in BINDINGS.values() for one in group for key in one.keys}
"""Key name -> action."""

UNNAMED = "unnamed"
"""The name of keys without one, such as Menu or Print."""

_NAMES = {
    8: "BackSpace", 127: "BackSpace", 9: "Tab", 13: "Return", 10: "Return", 27: "Escape",
    32: "space", 0xFFFF: "Delete", 0x2E0000: "Delete",
    0xFF51: "Left", 0xFF52: "Up", 0xFF53: "Right", 0xFF54: "Down",
    0xFF55: "Page_Up", 0xFF56: "Page_Down", 0xFF8D: "Return",
    0x250000: "Left", 0x260000: "Up", 0x270000: "Right", 0x280000: "Down",
    0x210000: "Page_Up", 0x220000: "Page_Down",
    0xF700: "Up", 0xF701: "Down", 0xF702: "Left", 0xF703: "Right",
    0xF72C: "Page_Up", 0xF72D: "Page_Down",
    0xFF50: "Home", 0xFF57: "End", 0xFF63: "Insert",
    0x240000: "Home", 0x230000: "End", 0x2D0000: "Insert", 0xF729: "Home", 0xF72B: "End",
}  # fmt: skip
"""Codes of keys that are not letters: of Qt and GTK, of Windows, of macOS."""

for _first, _step in ((0xFFBE, 1), (0x700000, 0x10000), (0xF704, 1)):
    _NAMES |= {_first + number * _step: f"F{number + 1}" for number in range(12)}


def name_of(code: int) -> str | None:
    """The name of a key, from the code that `cv2.waitKeyEx` returned.

    Letters are lower case, because OpenCV's window returns the same code with and without Shift.

    Returns:
      The name; None where there was no key, or one without a name.
    """
    if code in _NAMES:
        return _NAMES[code]
    letter = code & 0xFF
    if code == -1 or (code > 0xFF and code >> 8 != 0xFFFFFF) or letter < 32 or 127 <= letter < 160:
        return None
    return chr(letter).lower()


def key_text(keys: Sequence[str]) -> str:
    """Keys in words, for the help."""
    names = {"space": "Space", "Escape": "Esc", "Page_Up": "Page Up", "Page_Down": "Page Down"}
    return ", ".join(names.get(key, key) for key in keys)


def table() -> str:
    """All keys as a table in Markdown."""
    rows = ["| key | |", "|---|---|"]
    for group, bindings in BINDINGS.items():
        rows.append(f"| **{group}** | |")
        rows += [f"| `{key_text(one.keys)}` | {one.meaning} |" for one in bindings]
    rows.append("| **The mouse** | |")
    rows += [f"| {button} | {meaning} |" for button, meaning in MOUSE]
    return "\n".join(rows) + "\n"
