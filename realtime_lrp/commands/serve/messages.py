"""Messages between a page and the server.

Each message of a page is an event of the viewer, and is checked by its type before anything looks
at it. A page gets pictures, and as JSON settings, figures (those of the window), notices, channels.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from realtime_lrp.config.names import COMPOSITES, METHODS
from realtime_lrp.errors import Error, UsageError, unknown
from realtime_lrp.models.gallery import Gallery
from realtime_lrp.realtime.explaining import RelevanceThread
from realtime_lrp.realtime.viewer import events
from realtime_lrp.realtime.viewer.actions import commands_for
from realtime_lrp.realtime.viewer.events import Name
from realtime_lrp.realtime.viewer.pointing import progress
from realtime_lrp.realtime.viewer.state import ViewerState
from realtime_lrp.realtime.viewer.view import View
from realtime_lrp.relevance.maps.targets import TARGETS
from realtime_lrp.system.geometry import Box
from realtime_lrp.video.libraries import cv2
from realtime_lrp.video.pictures import encode_picture
from realtime_lrp.view import keys
from realtime_lrp.view.concepts import ConceptPanel, map_over
from realtime_lrp.view.hud import Bar, Block, Entry, Headline, Legend, percent
from realtime_lrp.view.look import LOOK_SETTINGS, colormap_named

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine

WINDOW_ACTIONS = frozenset(("escape", "quit"))  # nobody ends the server
OF_PAGE = frozenset(("choose", "snapshot", "record", "full_screen", "help"))
"""Actions that the page does by itself."""

OF_BROWSER = "F5", "F11"  # keys that are not the page's


# What a page sends

Number = Annotated[float, Meta(ge=-1e6, le=1e6)]


class Shown(msgspec.Struct, tag="shown", frozen=True):
    """The picture that was sent last is on the screen."""


class Do(msgspec.Struct, tag="do", frozen=True):
    """A command of `view.keys`, by its name: found by typing, by key or by button."""

    name: Name


class SetValue(msgspec.Struct, tag="choice", frozen=True):
    """Another value of something: what is computed or explained, or how it is drawn."""

    what: Name
    value: bool | Number | Name


Message = (
    Shown | Do | SetValue | events.Brushed | events.LessonKey | events.Pointed | events.Clicked
    | events.Framed
)  # fmt: skip

MOST_TEXT = 4096  # characters of a message
MOST_BYTES = 128 * 1024  # largest picture of a visitor's camera, a JPEG

_decoder = msgspec.json.Decoder(Message)


def read_message(text: str) -> Message:
    """The message in a text; ValueError if it is none, or too long."""
    if len(text) > MOST_TEXT:
        raise ValueError(f"Expected at most {MOST_TEXT} characters.")
    return _decoder.decode(text)


def event_of(
    message: Message, relevance: RelevanceThread, pictures: tuple[Box, ...] = ()
) -> events.Event | None:
    """The event of a message, or None; `pictures` are boxes where the canvas is the page's own."""
    match message:
        case Do(name):
            named = (one for one in keys.commands(TARGETS) if one.name == name)
            command = next(named, None)
            if command is None or command.action in OF_PAGE | WINDOW_ACTIONS:
                return None
            return events.Chosen(command.action, command.value)
        case events.Event():  # a page decides neither its time nor where pictures stand
            own = {} if isinstance(message, events.LessonKey) else {"pictures": pictures}
            return msgspec.structs.replace(message, time=time.monotonic(), **own)
        case SetValue(what, value):
            try:
                checked = _checked(what, value, relevance)
            except Error as error:
                return events.NoticeGiven(str(error))
            return None if checked is None else events.Chosen(what, checked)
    return None


def _checked(what: str, value: Any, relevance: RelevanceThread) -> Any:
    """A value as the viewer takes it; None if a page cannot choose it."""
    match what, value:
        case "method", str():
            METHODS.check(value)
        case "composite", str():
            COMPOSITES.check(value)
        case "target", str():
            return str(_engine(relevance).explainer.read_target(value))
        case "layer", str():
            layers = _engine(relevance).concepts.layers
            if value not in layers:
                raise unknown("layer", value, layers)
        case "channel", float():
            engine = _engine(relevance)
            wanted = relevance.request.concepts
            layer = (wanted.layer if wanted else "") or engine.concept_layer or ""
            known = engine.explainer.channel_counts().get(layer, 0)
            if value not in range(known):
                raise UsageError(f"There is no channel {value:g}: {layer!r} has {known}.")
            return int(value)
        case ("line", str()) | ("position", float()):
            pass
        case _:
            accepted = any(one.name == what and one.accepts(value) for one in LOOK_SETTINGS)
            return value if accepted else None
    return value


def _engine(relevance: RelevanceThread) -> Engine:
    if relevance.engine is None:
        raise UsageError("The network is not loaded yet: its classes and layers are not known.")
    return relevance.engine


# What a page gets

STOPS = 16  # colours of a legend
MAP_ROWS = 144  # rows of each channel's map
EXAMPLES, EXAMPLE_SIDE = 6, 96  # pictures of a channel, at most; their rows and columns
GAP, GROUND = ((0, 0), (0, 4), (0, 0)), 0x2C  # columns between pictures, and their grey
QUALITY = 80  # JPEG quality, 1 to 100
ENCODED = 256  # channels whose pictures are kept encoded: 2 to 3 MB


class VisitorMap(msgspec.Struct, tag="map", frozen=True):
    """The answer to a picture of a visitor's camera; the map follows as PNG, if there is one."""

    number: int  # of the picture
    reason: str = ""  # why there is no map
    box: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 1.0)  # shares of its width and height
    outlines: Sequence[dict[str, Any]] = ()
    blocks: list[list[dict[str, Any]]] | None = None


def news(view: View, lesson: dict[str, Any] | None) -> str:
    """The page's contents at this moment; `lesson` is `Teacher.fields`, None without one."""
    state = view.state
    first = view.first
    newest = first.newest
    region = (0.0, 0.0, 1.0, 1.0)
    alone = newest and not (state.tiled or len(view.networks) > 1 or newest.request.region)
    if newest and alone and newest.result.region.found is None:
        region = in_shares(newest.result.region.box, newest.picture)
    left, right = map(figure_fields, view.columns)
    labels = state.facts.labels
    said = {
        "type": "news",
        "method": state.choice.method,
        "composite": state.choice.composite,
        "target": state.target.words(labels.__getitem__) if labels else state.request.target,
        "look": {one.name: getattr(state.look, one.name) for one in LOOK_SETTINGS},
        "tiled": state.tiled,
        "concepts": state.request.concepts is not None,
        "timeline": vars(progress(state.timeline)) if state.timeline else None,
        "text_size": state.text_size,
        "frozen": state.frozen is not None,
        "brush": state.brush,
        "framing": state.framing,
        "covered": state.mask is not None,
        "left": left,
        "right": right,
        "notice": first.passing(state),
        "trouble": view.capture.trouble,
        "loading": first.relevance.doing if first.relevance.engine_cache is None else "",
        "lesson": lesson,
        "maps": round(first.rates.maps.rate(), 1),
        "points": state.points,  # whether the pointer chooses what is explained
        "region": region,  # what the network sees, if that is always at the same place
    }
    return msgspec.json.encode(said).decode()


def in_shares(box: Sequence[float], picture: np.ndarray) -> tuple[float, float, float, float]:
    """A box x0, y0, x1, y1 in shares of the width and height of a picture, [H, W, 3]."""
    rows, columns = picture.shape[:2]
    x0, y0, x1, y1 = box
    return x0 / columns, y0 / rows, x1 / columns, y1 / rows


def choices(state: ViewerState) -> str:
    """The page's choices for this network; they do not change."""
    known = commands_for(state)
    unsuited = state.facts.unsuited
    offered = {
        "type": "choices",
        "methods": [name for name in METHODS.known() if name not in unsuited],
        "composites": [name for name in COMPOSITES.known() if name not in unsuited],
        "look": [
            (one.name, state.words(one.label.capitalize()), one.values())
            for one in LOOK_SETTINGS
            if one.on_page
        ],
        "targets": [
            *(str(one.value) for one in known if one.action == "target"), *state.facts.labels
        ],
        "commands": [
            (keys.key_text(pressed), one.meaning, one.name, pressed)
            for one in known
            if one.action not in WINDOW_ACTIONS
            for pressed in [[key for key in one.keys if key not in OF_BROWSER]]
        ],
    }  # fmt: skip
    return msgspec.json.encode(offered).decode()


def figure_fields(blocks: Iterable[Block]) -> list[list[dict[str, Any]]]:
    """Blocks of figures as the page draws them."""
    return [[_entry_fields(entry) for entry in block] for block in blocks]


def _entry_fields(entry: Entry) -> dict[str, Any]:
    fields = {"kind": type(entry).__name__.lower(), **vars(entry)}
    if isinstance(entry, Bar | Headline):
        return fields | {"share": float(entry.share), "percent": percent(entry.share)}
    if isinstance(entry, Legend):
        table = colormap_named(entry.colormap).table
        stops = table[np.linspace(0, len(table) - 1, STOPS).round().astype(int)]
        return fields | {"colours": [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in stops.tolist()]}
    return fields


def join_message(fields: VisitorMap | dict[str, Any], picture: bytes = b"") -> bytes:
    """JSON and a picture as one message: "j", the JSON's length in 4 bytes, JSON, picture."""
    text = msgspec.json.encode(fields)
    return b"j" + len(text).to_bytes(4, "little") + text + picture


def concepts_message(
    panel: ConceptPanel | None = None, gallery: Gallery | None = None, layers: Sequence[str] = ()
) -> bytes:
    """The channels for a page, if any are shown: JSON, and their maps side by side as JPEG."""
    if panel is None:
        return join_message({"type": "concepts", "shown": False})
    known = gallery.channels(panel.title) if gallery else {}
    rows = () if panel.note else panel.rows
    with_pictures = (gallery and gallery.layers) or layers
    fields = {
        "type": "concepts",
        "shown": True,
        "layer": panel.title,
        "layers": layers,
        "without_pictures": [layer for layer in layers if layer not in with_pictures],
        "with_pictures": panel.with_pictures,
        "why": panel.note or panel.warning,
        "rows": [
            {
                "channel": row.channel, "name": row.name, "percent": row.figure,
                "bar": round(min(abs(row.share), 1.0), 3), "against": row.share < 0,
                "examples": row.channel in known and bool(known[row.channel].relevant),
                "followed": row.followed,
            }
            for row in rows
        ],
    }  # fmt: skip
    height, width, _ = panel.picture.shape
    size = max(1, round(MAP_ROWS * width / height)), MAP_ROWS
    region = cv2.resize(panel.picture, size, interpolation=cv2.INTER_AREA)
    maps = [map_over(region, row.drawn, panel.look) for row in rows]
    picture = encode_picture(".jpg", np.hstack(maps), quality=QUALITY) if maps else b""
    return join_message(fields, picture)


@lru_cache(ENCODED)
def examples(gallery: Gallery | None, layer: str, channel: str) -> bytes:
    """A gallery's pictures of a channel, as a page named it, side by side as JPEG; b"" for none."""
    number = int(channel) if channel.isdecimal() and len(channel) < 8 else -1
    if gallery is None or number not in gallery.channels(layer):
        return b""
    size = EXAMPLE_SIDE, EXAMPLE_SIDE
    pictures = [
        np.pad(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), GAP, constant_values=GROUND)
        for picture in gallery.pictures(layer, number)[:EXAMPLES]
    ]
    return encode_picture(".jpg", np.hstack(pictures), quality=QUALITY) if pictures else b""
