"""What a page may send, and the event of the viewer that each message is.

Messages are checked by their types alone before anything looks at them; wrong ones end the
connection.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from realtime_lrp.config.names import COMPOSITES, METHODS
from realtime_lrp.engine.wording import TARGETS
from realtime_lrp.errors import Error, UsageError, unknown
from realtime_lrp.realtime.explaining import RelevanceThread
from realtime_lrp.realtime.viewer import events
from realtime_lrp.realtime.viewer.handle import command_event
from realtime_lrp.view import keys
from realtime_lrp.view.look import LOOK_SETTINGS

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine

PAGE_ACTIONS = frozenset(("choose", "snapshot", "record", "full_screen", "help", "escape", "quit"))
"""Actions that the page does by itself, or that belong to a window: nobody ends the server."""


def commands_of_pages() -> dict[str, keys.Command]:
    """What a page may ask for by name."""
    known = keys.commands(TARGETS)
    return {one.name: one for one in known if one.action not in PAGE_ACTIONS}


Name = Annotated[str, Meta(min_length=1, max_length=200)]
Position = Annotated[int, Meta(ge=-10_000, le=10_000)]


class Shown(msgspec.Struct, tag="shown", frozen=True):
    """The picture that was sent last is on the screen."""


class Do(msgspec.Struct, tag="do", frozen=True):
    """A command of `view.keys`, by its name: found by typing, by key or by button."""

    name: Name


class Choice(msgspec.Struct, tag="choice", frozen=True):
    """Another value of something: what is computed or explained, or how it is drawn."""

    what: Name
    value: bool | int | float | Name


class Stroke(msgspec.Struct, tag="stroke", frozen=True):
    """The brush went from one position of the canvas to another."""

    start: tuple[Position, Position]
    end: tuple[Position, Position]
    cover: bool = True


Message = Shown | Do | Choice | Stroke

MOST_TEXT = 4096  # characters of a message
MOST_BYTES = 128 * 1024  # of a picture of a visitor's camera, which comes as it is, as JPEG

_decoder = msgspec.json.Decoder(Message)


def read_message(text: str) -> Message:
    """The message in a text; ValueError if it is none, or too long."""
    if len(text) > MOST_TEXT:
        raise ValueError(f"Expected at most {MOST_TEXT} characters.")
    return _decoder.decode(text)


def event_of(message: Message, relevance: RelevanceThread) -> events.Event | None:
    """The event that a message is; None if a page cannot ask for that."""
    try:
        return _event(message, relevance)
    except Error as error:
        return events.NoticeGiven(str(error))


def _event(message: Message, relevance: RelevanceThread) -> events.Event | None:
    match message:
        case Do(name):
            command = commands_of_pages().get(name)
            return command_event(command, time.monotonic()) if command else None
        case Stroke(start, end, cover):
            return events.Painted(start, end, cover)
        case Choice(what, value):
            checked = _checked(what, value, relevance)
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
            target = _engine(relevance).explainer.canonical(value.strip())
            return int(target) if str(target).isdecimal() else target
        case "layer", str():
            layers = _engine(relevance).concepts.layers
            if value not in layers:
                raise unknown("layer", value, layers)
        case "channel", int():
            engine, wanted = _engine(relevance), relevance.request.concepts
            layer = (wanted.layer if wanted else "") or engine.concept_layer or ""
            known = engine.explainer.channel_counts().get(layer, 0)
            if not 0 <= value < known:
                raise UsageError(f"There is no channel {value}: {layer!r} has {known}.")
        case "position", int() | float():
            return float(value)
        case _:
            drawn = (one for one in LOOK_SETTINGS if one.name == what)
            return value if any(one.accepts(value) for one in drawn) else None
    return value


def _engine(relevance: RelevanceThread) -> Engine:
    if relevance.engine is None:
        raise UsageError("The network is not loaded yet: its classes and layers are not known.")
    return relevance.engine
