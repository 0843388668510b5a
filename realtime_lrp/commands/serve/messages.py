"""What a page may send, and the event of the viewer that each message is.

Messages are checked by their types alone before anything looks at them; wrong ones end the
connection.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

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
    """Something else is computed or explained."""

    what: Literal["method", "composite", "target", "layer"]
    value: Name


class Look(msgspec.Struct, tag="look", frozen=True):
    """Maps are drawn otherwise: the value of a field of `view.look.Look`."""

    name: Name
    value: bool | float | Name


class Stroke(msgspec.Struct, tag="stroke", frozen=True):
    """The brush went from one position of the canvas to another."""

    start: tuple[Position, Position]
    end: tuple[Position, Position]
    cover: bool = True


class Follow(msgspec.Struct, tag="follow", frozen=True):
    """A row of a channel was clicked: its map alone lies over the picture, or no longer."""

    channel: Annotated[int, Meta(ge=0, le=1_000_000)]


class Seek(msgspec.Struct, tag="seek", frozen=True):
    """The film goes on after this share of it."""

    share: Annotated[float, Meta(ge=0, le=1)]


Message = Shown | Do | Choice | Look | Stroke | Follow | Seek

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
        case Choice("method", name):
            METHODS.check(name)
            return events.Chosen("method", name)
        case Choice("composite", name):
            COMPOSITES.check(name)
            return events.Chosen("composite", name)
        case Choice("target", text):
            target = _engine(relevance).explainer.canonical(text.strip())
            return events.Chosen("target", int(target) if str(target).isdecimal() else target)
        case Choice("layer", name):
            _check_known("layer", [name], _engine(relevance).concepts.layers)
            return events.Chosen("layer", name)
        case Look(name, value) if any(
            one.name == name and one.accepts(value) for one in LOOK_SETTINGS
        ):
            return events.Chosen(name, value)
        case Stroke(start, end, cover):
            return events.Painted(start, end, cover)
        case Follow(channel):
            return _channel(channel, relevance)
        case Seek(share):
            return events.Chosen("position", share)
    return None


def _engine(relevance: RelevanceThread) -> Engine:
    if relevance.engine is None:
        raise UsageError("The network is not loaded yet: its classes and layers are not known.")
    return relevance.engine


def _check_known(kind: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise unknown(kind, name, known)


def _channel(number: int, relevance: RelevanceThread) -> events.Event:
    engine, wanted = _engine(relevance), relevance.request.concepts
    layer = (wanted.layer if wanted else "") or engine.concept_layer or ""
    known = engine.explainer.channel_counts().get(layer, 0)
    if number >= known:
        raise UsageError(f"There is no channel {number}: {layer!r} has {known}.")
    return events.Chosen("channel", number)
