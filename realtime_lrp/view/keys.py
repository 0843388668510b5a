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
    """An action and its keys."""

    keys: tuple[str, ...]
    action: str
    meaning: str
    button: str = ""  # what its button says while the mouse moves; "" for none
    undo: str = ""  # what that says while the picture is frozen, or a recording runs


def _group(*rows: tuple[str, ...]) -> tuple[Binding, ...]:
    return tuple(Binding(tuple(keys.split()), *words) for keys, *words in rows)


BINDINGS: dict[str, tuple[Binding, ...]] = {
    "What is computed": _group(
        *((key, "composite", f"LRP: {name}") for key, name in COMPOSITE_KEYS.items()),
        ("b", "next_method", "next method: guided_backprop, grad_cam, ...", "Method"),
        ("n", "previous_method", "previous method"),
        ("p", "panels", "several maps side by side", "Side by side"),
        ("Tab", "choose_panels", "choose which maps stand side by side"),
        ("F2", "concepts", "concepts: the four channels with most relevance"),
        ("F3", "lower_layer", "concepts of the layer before, nearer the picture"),
        ("F4", "higher_layer", "concepts of the next layer, nearer the answer"),
        ("/", "about", "what this method shows, and what not"),
        ("x", "random", "random weights: does the map change?"),
        ("a", "probe", "blur what is relevant: does the answer fall?"),
    ),
    "What is explained": _group(
        ("t", "next_target", "explain all classes, the best, the five best", "Target"),
        ("d", "lock", "lock the best class; again: follow the best"),
        ("l", "choose", "choose a class from a list"),
        ("v", "versus", "the best class against the next; again: back"),
    ),
    "How it is drawn": _group(
        *(row[:3] for one in LOOK_SETTINGS for row in one.bindings),
        ("g", "channels", "one map, or one for each of red, green, blue"),
        ("m", "mirror", "mirror left and right"),
    ),
    "The picture": _group(
        ("f space", "freeze", "freeze, go on", "Freeze", "Go on"),
        (".", "step", "next picture, one at a time"),
        ("c", "next_source", "next source"),
        ("e", "next_file", "next file"),
        ("w", "previous_file", "previous file"),
        ("F6", "loop", "start again after the last file: on, off"),
        ("Page_Down Right Down", "clicker_next", "clicker: next method, or file"),
        ("Page_Up Left Up", "clicker_previous", "clicker: previous method, or file"),
        ("]", "larger_brush", "larger brush"),
        ("[", "smaller_brush", "smaller brush"),
        ("BackSpace Delete", "uncover", "remove all patches"),
    ),
    "The window": _group(
        ("s", "snapshot", "snapshot: the view, its raw maps, the settings", "Snapshot"),
        ("r", "record", "record, stop recording", "Record", "Stop"),
        ("u", "presenter", "presenter view: a large answer"),
        (",", "text_size", "size of text"),
        ("i", "figures", "all figures, none, as at the start"),
        ("8", "answer", "show or hide the answer"),
        ("9", "rates", "show or hide rates, ages, device"),
        ("0", "setting", "show or hide what is computed"),
        ("F11 F5 z", "full_screen", "full screen", "Full screen"),
        ("h ? F1", "help", "this help; again: its next page", "Help"),
        ("Escape", "escape", "leave a list or full screen; twice: end"),
        ("q", "quit", "end", "End"),
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

BUTTONS = {one.action: one for group in BINDINGS.values() for one in group if one.button}
"""Action -> the binding that has a button, in the order of the help."""

UNNAMED = "unnamed"  # the name of keys without one, such as Menu or Print


def key_text(keys: Sequence[str]) -> str:
    """Keys in words, for the help."""
    names = {"space": "Space", "Escape": "Esc", "Page_Up": "Page Up", "Page_Down": "Page Down"}
    return ", ".join(names.get(key, key) for key in keys)


def table() -> str:
    """All keys as a list in Markdown."""
    rows = []
    for group, bindings in BINDINGS.items():
        rows.append(f"- **{group}**")
        rows += [f"    - `{key_text(one.keys)}`: {one.meaning}" for one in bindings]
    rows.append("- **The mouse**")
    rows += [f"    - {button}: {meaning}" for button, meaning in MOUSE]
    return "\n".join(rows) + "\n"
