"""The viewer's events. Those with a tag are also messages of a page; types limit what it sends."""

import time
from typing import Annotated, Any

import msgspec
import numpy as np

from realtime_lrp.realtime.engine_cache import EngineChoice
from realtime_lrp.realtime.latest import Item
from realtime_lrp.realtime.viewer.state import DrawnView
from realtime_lrp.system.geometry import Box

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Side = Annotated[int, msgspec.Meta(ge=-10_000, le=10_000)]
Position = tuple[Side, Side]  # x and y, in pixels of the canvas


class Event(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """Something that happened, and when."""

    time: float = msgspec.field(default_factory=time.monotonic)


class KeyPressed(Event, frozen=True):
    """A key, by a name out of `view.keys`. What it does depends on the open menu."""

    key: str


class LessonKey(Event, frozen=True, tag="hold"):
    """A button of a lesson is down on a page, again and again, or was let go; see `Teacher`."""

    key: Name
    by: Name  # tells people apart
    down: bool = True


class Chosen(Event, frozen=True):
    """One of `actions.ACTIONS`, or a value of one of `handle.CHOICES`."""

    what: str
    value: Any = None


class MouseMoved(Event, frozen=True):
    """The mouse moved over the canvas, or a button of it went down or up."""

    x: int  # pixels of the canvas
    y: int
    button: str  # the one that is down: "left", "right" or ""; "frame" draws a rectangle


class OnCanvas(Event, frozen=True, kw_only=True):
    """Something happened on the canvas of a page, at positions there."""

    pictures: tuple[Box, ...] = ()  # boxes of the pictures if it is not the window's canvas


class Pointed(OnCanvas, frozen=True, tag="point"):
    """The pointer is over the canvas, or left it."""

    at: Position | None


class Clicked(OnCanvas, frozen=True, tag="click"):
    """A click, or a tap."""

    at: Position
    paints: bool  # whether it covers the picture where it hits no box


class Brushed(OnCanvas, frozen=True, tag="stroke"):
    """The brush went straight from one position to another."""

    start: Position
    end: Position
    cover: bool = True


class Framed(OnCanvas, frozen=True, tag="frame"):
    """A rectangle was drawn."""

    start: Position
    end: Position


class FrameDrawn(Event, frozen=True):
    """A frame is on the screen."""

    drawn: DrawnView


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
