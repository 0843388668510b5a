"""The viewer's contents and wishes, as one immutable value. No threads, no clock, no drawing."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from realtime_lrp.config import Config
from realtime_lrp.config.names import AUTO
from realtime_lrp.engine.result import Aim, ConceptRequest, Result
from realtime_lrp.errors import UsageError
from realtime_lrp.realtime.engine_cache import EngineChoice
from realtime_lrp.realtime.explaining import MapRequest
from realtime_lrp.realtime.faithfulness import Mask
from realtime_lrp.realtime.latest import Item
from realtime_lrp.realtime.viewer.lecture import LectureStep, Words, words_for
from realtime_lrp.relevance.maps.targets import Target
from realtime_lrp.system.geometry import Box, Extent, Pixel
from realtime_lrp.video.source import Action, Timeline
from realtime_lrp.view.controls import Controls, Menu, arrange_controls
from realtime_lrp.view.hud import figure_size
from realtime_lrp.view.look import Look

NOTICE_S = 4.0  # seconds for which a notice is shown
END_S = 2.0  # within this many seconds a second press of Esc, q or End ends
BRUSH = 0.06  # radius of the brush at the start, as a share of the picture's shorter side
CONTROLS_S = 3.0  # seconds for which buttons are shown after the mouse moved


class Order(NamedTuple):
    """Work outside the state: for the loop, or as in `Source.control`."""

    what: Action | Literal["next_source", "snapshot", "record", "full_screen"]
    value: float = 0


@dataclass(frozen=True)
class Pointer:
    """The mouse over the canvas."""

    at: Pixel = (-1, -1)  # its pixel of the canvas
    button: str = ""  # which button is down: "left", "right" or ""
    holds: str = ""  # what it was pressed on: "picture", "box", "bar", "button", "menu", "frame"
    start: Pixel = (0, 0)  # where it was pressed
    since: float = 0.0  # `time.monotonic()` when the mouse moved first after a rest
    until: float = 0.0  # when it rests, unless it moves again


@dataclass(frozen=True)
class Notice:
    """A line that is shown for a few seconds."""

    text: str = ""
    until: float = 0.0


@dataclass(frozen=True, eq=False)
class NetworkFacts:
    """The facts about an engine's network, which no picture changes."""

    labels: tuple[str, ...] = ()  # the name of each class
    read_target: Callable[[str], Target] = lambda words: Target()
    warning: str = ""  # why all answers may be wrong, or what would explain better, or ""
    unsuited: frozenset[str] = frozenset()  # methods and composites that it has no use for
    auto_composite: str = AUTO  # the composite that `lrp.composite: auto` stands for
    concept_layers: tuple[str, ...] = ()  # the layers whose channels can be shown
    described_layers: tuple[str, ...] = ()  # those whose channels have pictures or names, or all
    concept_layer: str = ""  # the layer that is shown first, or ""


@dataclass(frozen=True, eq=False)
class DrawnView:
    """The drawing that is on the screen, and what it shows."""

    shown: Item[np.ndarray] | None = None  # the frame, None before the first
    answer: Result | None = None  # the newest map's; None before the first
    facts: NetworkFacts = NetworkFacts()  # about the network of the answer
    pictures: tuple[Box, ...] = ()  # where the picture stands on the canvas, each time
    timeline: Timeline | None = None  # where the source stands, None where it has no timeline
    concept_rows: tuple[tuple[Box, int], ...] = ()  # where each channel has its row in the panel
    free: Box = (0, 0, 0, 0)  # where a list covers no picture, if it has room there
    size: Extent = (0, 0)  # rows and columns of the canvas


@dataclass(frozen=True, eq=False, kw_only=True)
class ViewerState(DrawnView):
    """The state of the viewer."""

    config: Config  # the configuration it started with
    request: MapRequest  # what the relevance thread is to explain, and how
    look: Look  # how maps are drawn
    text: str  # what stands beside the picture: "presenter", "figures" or "none"
    text_size: str  # see `view.hud.TEXT_SIZES`
    panels: tuple[str, ...]  # methods and composites that stand side by side with the main one
    mirror: bool  # whether pictures are mirrored
    lecture: tuple[LectureStep, ...] = ()  # what the clicker goes through, if anything
    step: int = 0  # which step of it is shown
    alone: bool = False  # whether of several networks the first one is shown alone
    tiled: bool = False  # whether all maps stand side by side
    stepping: bool = False  # whether the next picture is awaited while the picture is frozen
    seeking: bool = False  # whether a frozen film was sought: then every further picture is awaited
    pinned: bool = False  # whether what is pointed at stays when the pointer moves on
    brush: float = BRUSH  # radius of the brush, as a share of the picture's shorter side
    menu: Menu | None = None  # the list that is open
    last_command: str = ""  # the name of what was done last by typing
    framing: bool = False  # whether the next drag draws the rectangle that the network will see
    list_froze: bool = False  # whether the picture is frozen only because a list is open
    full_screen: bool = False  # whether the window is to fill the screen
    end_until: float = 0.0  # another press before this `time.monotonic()` ends
    about: bool = False  # whether a sentence about each method is shown
    concept_layer: str = ""  # what the panel of concepts shows when it appears; "" is the default
    pointer: Pointer = field(default_factory=Pointer)  # the mouse
    notice: Notice = field(default_factory=Notice)  # the line that is shown for a few seconds
    ended: bool = False  # whether the viewer is to end
    before_versus: str = "top1"  # the target before one class was set against another
    following: bool = False  # whether the best class takes the place of the first of two
    orders: tuple[Order, ...] = ()  # what has to be done outside, oldest first
    now: float = 0.0  # the time of the event while it is handled

    @property
    def words(self) -> Words:
        return words_for(self.config.live.lecture)

    @property
    def frozen(self) -> Item[np.ndarray] | None:
        return self.request.frame

    @property
    def box(self) -> int | None:
        return self.request.box

    @property
    def mask(self) -> np.ndarray | None:
        return self.request.mask.pixels if self.request.mask else None

    def with_aim(self, **changes: Any) -> "ViewerState":
        """The state with another aim of the request; the same state if that is no other one."""
        aim = replace(self.request.aim, **changes)
        return self if aim == self.request.aim else self.with_request(aim=aim)

    @property
    def aim(self) -> Aim:
        return self.request.aim

    @property
    def points(self) -> bool:
        """Whether the pointer chooses what is explained."""
        answer = self.answer
        return bool(answer and (answer.segments or answer.found is not None))

    def with_mask(self, pixels: np.ndarray | None) -> "ViewerState":
        return self.with_request(mask=None if pixels is None else Mask(pixels))

    def controls(self, now: float) -> Controls | None:
        """The controls, if they are shown: not while somebody paints, and not with menus."""
        pointer = self.pointer
        busy = self.menu or pointer.holds in ("picture", "menu", "frame")
        if busy or (now >= pointer.until and pointer.holds != "bar"):
            return None
        letters = figure_size(*self.size, self.text_size)
        return arrange_controls(self.size, letters, self.timeline is not None, self.words)

    @property
    def with_figures(self) -> bool:
        return self.text != "none" or self.about or self.request.probe

    @property
    def choice(self) -> EngineChoice:
        """The choice of the engine; with a first answer `auto` has the name that it stands for."""
        return self.request.choice.with_composite(self.facts.auto_composite)

    @property
    def named_panels(self) -> tuple[str, ...]:
        """The panels; with a first answer "lrp" has the name of the composite."""
        lrp = self.facts.auto_composite if self.answer else "lrp"
        return tuple(lrp if name == "lrp" else name for name in self.panels)

    @property
    def target(self) -> Target:
        """The requested target; all classes while the network does not know it."""
        with suppress(UsageError):
            return self.facts.read_target(self.request.target)
        return Target()

    def with_request(self, **changes: Any) -> "ViewerState":
        return replace(self, request=replace(self.request, **changes))

    def with_choice(self, **changes: Any) -> "ViewerState":
        """The state with another engine; no map stands beside itself, none that is unsuited."""
        choice = replace(self.request.choice, **changes)
        main = choice.with_composite(self.choice.composite)
        without = {main.name, choice.method, *self.facts.unsuited}
        also = (
            tuple(panel for panel in self.named_panels if panel not in without)
            if self.tiled
            else ()
        )
        return self.with_request(choice=replace(choice, also=also))

    def with_notice(self, text: str, seconds: float = NOTICE_S) -> "ViewerState":
        return replace(self, notice=Notice(text, self.now + seconds))

    def with_order(self, *order: Any) -> "ViewerState":
        return replace(self, orders=(*self.orders, Order(*order)))

    def present_config(self) -> Config:
        """The configuration that gives the present view."""
        first = self.config
        shown = self.request.concepts
        layer = shown.layer if shown else self.concept_layer
        aim = self.aim
        region = self.request.region  # one that was drawn replaces the settings of what is seen
        text = ",".join(f"{edge:.4g}" for edge in region) if region else None
        seen = {"region": text} | ({"follow": None} if region else {})
        return self.request.choice.config(first).changed(
            lrp={
                "target": self.request.target, "precision": first.lrp.precision,
                "contrast": aim.contrast,
            },
            overlay=vars(self.look),
            input={
                "mirror": self.mirror, "pixel": aim.pixel,
                "at": aim.at and ",".join(f"{share:.4g}" for share in aim.at),
                **seen,
            },
            live={
                "panels": list(self.panels), "text": self.text, "text_size": self.text_size,
                "concepts": shown is not None, "lecture": None,
            },
            concepts={"layer": layer or first.concepts.layer},
        )  # fmt: skip


def first_state(
    config: Config, request: MapRequest, lecture: tuple[LectureStep, ...] = ()
) -> ViewerState:
    """The state at the start."""
    if config.live.concepts:
        request = replace(request, concepts=ConceptRequest())
    lrp = "lrp" if config.lrp.composite == AUTO else config.lrp.composite
    panels = (lrp if name == "lrp" else name for name in config.live.panels)
    return ViewerState(
        config=config,
        request=request,
        look=Look.of(config.overlay),
        text=config.live.text,
        text_size=config.live.text_size,
        panels=tuple(dict.fromkeys(panels)),  # each once
        mirror=config.input.mirror,
        lecture=lecture,
        alone=bool(lecture),
    )
