"""What a page gets besides pictures: settings, figures and notices, as JSON.

Figures are the same rows, bars and legends as in the window; the page draws them as text.
"""

from collections.abc import Collection
from typing import Any

import msgspec
import numpy as np

from realtime_lrp.commands.serve.messages import ACTIONS
from realtime_lrp.config.about import ABOUT
from realtime_lrp.config.names import COMPOSITES, METHODS
from realtime_lrp.engine.wording import name_classes
from realtime_lrp.realtime.explaining import RelevanceThread
from realtime_lrp.realtime.viewer.actions import panel_names, targets_for
from realtime_lrp.realtime.viewer.compose import passing_notice
from realtime_lrp.realtime.viewer.pointing import progress
from realtime_lrp.realtime.viewer.view import View
from realtime_lrp.view import keys
from realtime_lrp.view.colormaps import colormap_named
from realtime_lrp.view.hud import Bar, Entry, Legend, percent
from realtime_lrp.view.look import LOOK_SETTINGS

STOPS = 16
"""Colours of a legend."""

OWN_KEYS = {"s": "snapshot: download the view", "r": "record a film, stop and download it",
            "l": "choose a class", "z": "full screen", "h ? F1": "this help"}  # fmt: skip
"""Keys of `PAGE_ACTIONS`, as the page has them."""


def news(view: View, relevance: RelevanceThread, trouble: str, now: float) -> bytes:
    """What the page shows at this moment."""
    state, choice = view.state, view.state.choice
    explained = view.explained
    shown = explained.names if explained else ()
    old = explained is not None and relevance.choice != state.request.choice
    return msgspec.json.encode(
        {
            "type": "news",
            "method": choice.method,
            "composite": choice.composite,
            "target": _target_text(view),
            "look": {one.name: getattr(state.look, one.name) for one in LOOK_SETTINGS},
            "tiled": state.tiled,
            "panels": state.panels,
            "concepts": state.request.concepts is not None,
            "main": choice.name,
            "timeline": _timeline_fields(view),
            "text_size": state.text_size,
            "frozen": state.frozen is not None,
            "brush": state.brush,
            "covered": state.mask is not None,
            "presenting": state.presenting,
            "left": [[entry_fields(one) for one in block] for block in view.columns.left],
            "right": [[entry_fields(one) for one in block] for block in view.columns.right],
            "notice": passing_notice(state, now, relevance.doing, shown, old),
            "trouble": trouble,
            "loading": relevance.doing if relevance.engine_cache is None else "",
            "maps": round(view.rates.maps.rate(), 1),
        }
    )


def choices(labels: tuple[str, ...], unsuited: Collection[str] = ()) -> bytes:
    """What the page offers this network; it does not change."""
    return msgspec.json.encode(
        {
            "type": "choices",
            "methods": [name for name in METHODS.known() if name not in unsuited],
            "composites": [name for name in COMPOSITES.known() if name not in unsuited],
            "look": [(one.name, one.label, one.values()) for one in LOOK_SETTINGS if one.label],
            "panels": [(name, ABOUT.get(name, "")) for name in panel_names(unsuited)],
            "targets": (*targets_for(len(labels)), *labels),
            "keys": _keys(),
        }
    )


def _keys() -> list[tuple[str, list[tuple[str, str, str]]]]:
    """The keys that the page has by heading: in words, what they do, the first one's name."""
    groups = [
        (heading, [(keys.key_text(one.keys), one.meaning, one.keys[0]) for one in bindings
                   if one.action in ACTIONS or one.action == "composite"])
        for heading, bindings in keys.BINDINGS.items()
    ]  # fmt: skip
    own = [
        (keys.key_text(names.split()), meaning, names.split()[0])
        for names, meaning in OWN_KEYS.items()
    ]
    return [("The page", own), *((heading, rows) for heading, rows in groups if rows)]


def _target_text(view: View) -> str:
    """The target as the page's field has it: classes by name."""
    target, answer = view.state.request.target, view.state.answer
    if answer is None:
        return str(target)
    return name_classes(target, len(answer.labels), answer.labels.__getitem__)


def _timeline_fields(view: View) -> dict[str, Any] | None:
    """Where the film is; None for sources without an end."""
    timeline = view.state.timeline
    return None if timeline is None else vars(progress(timeline))


def entry_fields(entry: Entry) -> dict[str, Any]:
    """An entry of the figures as the page draws it."""
    fields = {"kind": type(entry).__name__.lower(), **vars(entry)}
    if isinstance(entry, Bar):
        return fields | {"share": float(entry.share), "percent": percent(entry.share)}
    if isinstance(entry, Legend):
        table = colormap_named(entry.colormap).table
        stops = table[np.linspace(0, len(table) - 1, STOPS).round().astype(int)]
        return fields | {"colours": [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in stops.tolist()]}
    return fields
