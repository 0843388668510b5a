"""What can happen to the viewer. Plain data; each event carries the time at which it happened."""

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from realtime_lrp.realtime.engine_cache import EngineChoice
from realtime_lrp.realtime.latest import Item
from realtime_lrp.realtime.viewer.state import Answer
from realtime_lrp.system.geometry import Box
from realtime_lrp.video.source import Timeline


@dataclass(frozen=True, eq=False)
class Event:
    """Something that happened."""

    time: float = field(default_factory=time.monotonic, kw_only=True)


@dataclass(frozen=True, eq=False)
class KeyPressed(Event):
    """A key, by a name out of `view.keys`. What it does depends on the open menu."""

    key: str


@dataclass(frozen=True, eq=False)
class Held(Event):
    """A button of a lesson is down on a page, again and again, or was let go; see `Teacher`."""

    key: str
    by: str  # tells people apart
    down: bool = True


@dataclass(frozen=True, eq=False)
class ActionChosen(Event):
    """An action, by a name out of `view.keys.COMMANDS`."""

    action: str


@dataclass(frozen=True, eq=False)
class Chosen(Event):
    """A value of one of `handle.CHOICES`."""

    what: str
    value: Any


@dataclass(frozen=True, eq=False)
class MouseMoved(Event):
    """The mouse moved over the canvas, or a button of it went down or up."""

    x: int  # pixels of the canvas
    y: int
    button: str  # which button is down: "left", "right" or ""


@dataclass(frozen=True, eq=False)
class Clicked(Event):
    """A click, or a tap, on the canvas of a page."""

    at: tuple[int, int]
    paints: bool  # whether it covers the picture where it hits no box
    pictures: tuple[Box, ...] = ()  # as of `Painted`


@dataclass(frozen=True, eq=False)
class Painted(Event):
    """The brush went straight from one position of the canvas to another.

    `pictures` are the boxes of the pictures if that is another canvas than the window's.
    """

    start: tuple[int, int]
    end: tuple[int, int]
    cover: bool
    pictures: tuple[Box, ...] = ()


@dataclass(frozen=True, eq=False)
class FrameDrawn(Event):
    """A frame is on the screen."""

    frame: Item[np.ndarray]
    answer: Answer | None  # the newest one; None before the first map
    # where its picture stands on the canvas; several boxes side by side
    pictures: tuple[Box, ...] = ()
    timeline: Timeline | None = None  # where the source stands, None where it has no timeline
    # where each channel has its row in the panel of concepts
    concept_rows: tuple[tuple[Box, int], ...] = ()
    free: Box = (0, 0, 0, 0)  # where a list covers no picture


@dataclass(frozen=True, eq=False)
class CanvasResized(Event):
    """The canvas has another size."""

    size: tuple[int, int]


@dataclass(frozen=True, eq=False)
class FrameStepped(Event):
    """The frame came that a step waited for."""

    frame: Item[np.ndarray]


@dataclass(frozen=True, eq=False)
class FileSkipped(Event):
    """The source went on to another file."""


@dataclass(frozen=True, eq=False)
class SourceChanged(Event):
    """The viewer went over to another source."""

    text: str


@dataclass(frozen=True, eq=False)
class ChoiceRefused(Event):
    """An engine could not be prepared."""

    choice: EngineChoice  # which one
    reason: str
    shown: EngineChoice  # the choice of the engine whose maps are shown


@dataclass(frozen=True, eq=False)
class NoticeGiven(Event):
    """There is something to tell the user."""

    text: str
