"""The viewer's events. Plain data; each event carries the time at which it happened."""

import time
from typing import Any

import msgspec
import numpy as np

from realtime_lrp.realtime.engine_cache import EngineChoice
from realtime_lrp.realtime.latest import Item
from realtime_lrp.realtime.viewer.state import Answer
from realtime_lrp.system.geometry import Box
from realtime_lrp.video.source import Timeline


class Event(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Something that happened."""

    time: float = msgspec.field(default_factory=time.monotonic)


class KeyPressed(Event, frozen=True):
    """A key, by a name out of `view.keys`. What it does depends on the open menu."""

    key: str


class Held(Event, frozen=True):
    """A button of a lesson is down on a page, again and again, or was let go; see `Teacher`."""

    key: str
    by: str  # tells people apart
    down: bool = True


class ActionChosen(Event, frozen=True):
    """An action, by a name out of `view.keys.COMMANDS`."""

    action: str


class Chosen(Event, frozen=True):
    """A value of one of `handle.CHOICES`."""

    what: str
    value: Any


class MouseMoved(Event, frozen=True):
    """The mouse moved over the canvas, or a button of it went down or up."""

    x: int  # pixels of the canvas
    y: int
    button: str  # which button is down: "left", "right" or ""


class Pointed(Event, frozen=True):
    """The pointer of a page is over its canvas, or left it."""

    at: tuple[int, int] | None
    pictures: tuple[Box, ...] = ()  # as of `Painted`


class Clicked(Event, frozen=True):
    """A click, or a tap, on the canvas of a page."""

    at: tuple[int, int]
    paints: bool  # whether it covers the picture where it hits no box
    pictures: tuple[Box, ...] = ()  # as of `Painted`


class Painted(Event, frozen=True):
    """The brush went straight from one position of the canvas to another.

    `pictures` are the boxes of the pictures if that is another canvas than the window's.
    """

    start: tuple[int, int]
    end: tuple[int, int]
    cover: bool
    pictures: tuple[Box, ...] = ()


class Framed(Event, frozen=True):
    """A rectangle was drawn on the canvas of a page."""

    start: tuple[int, int]
    end: tuple[int, int]
    pictures: tuple[Box, ...] = ()  # as of `Painted`


class FrameDrawn(Event, frozen=True):
    """A frame is on the screen."""

    frame: Item[np.ndarray]
    answer: Answer | None  # the newest one; None before the first map
    # where its picture stands on the canvas; several boxes side by side
    pictures: tuple[Box, ...] = ()
    timeline: Timeline | None = None  # where the source stands, None where it has no timeline
    # where each channel has its row in the panel of concepts
    concept_rows: tuple[tuple[Box, int], ...] = ()
    free: Box = (0, 0, 0, 0)  # where a list covers no picture


class CanvasResized(Event, frozen=True):
    """The canvas has another size."""

    size: tuple[int, int]


class FrameStepped(Event, frozen=True):
    """The frame came that a step waited for."""

    frame: Item[np.ndarray]


class FileSkipped(Event, frozen=True):
    """The source went on to another file."""


class SourceChanged(Event, frozen=True):
    """The viewer went over to another source."""

    text: str


class ChoiceRefused(Event, frozen=True):
    """An engine could not be prepared."""

    choice: EngineChoice  # which one
    reason: str
    shown: EngineChoice  # the choice of the engine whose maps are shown


class NoticeGiven(Event, frozen=True):
    """There is something to tell the user."""

    text: str
