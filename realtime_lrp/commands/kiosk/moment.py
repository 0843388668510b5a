"""A page of the exhibit, and the moment that it shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from realtime_lrp.commands.kiosk.network import RelevancePart, SeenThing
from realtime_lrp.commands.kiosk.settings import Captions
from realtime_lrp.commands.kiosk.states import ScreenState
from realtime_lrp.config import Config
from realtime_lrp.config.names import EMBEDDED
from realtime_lrp.realtime.explaining import ExplainedFrame
from realtime_lrp.view.exhibit import Element

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine


@dataclass(frozen=True)
class Moment:
    """Everything that a page depends on; times are seconds of a monotonic clock."""

    now: float
    state: ScreenState
    since: float  # when the state began
    left_s: float  # in the state idle, until the exhibit starts over
    source: str  # whose pictures are shown: "camera", "clip" or ""
    captions: Captions
    engine: Engine | None = None  # None before the first map
    explained: ExplainedFrame | None = None
    failing: bool = False  # whether maps cannot be computed at the moment
    answer: SeenThing | None = None
    explains: bool = False  # whether the map explains the answer
    old: bool = False  # whether the answer is to another picture than the shown one
    network: RelevancePart | None = None
    touched: str = ""  # the button that is held, or was touched since the last drawing

    @property
    def colours(self) -> str:
        """The key of the sentence on what the colours of the map mean."""
        signed = self.explained is not None and self.explained.result.maps[0].signed
        return "colours_signed" if signed else "colours"


class ExhibitPage:
    """A page. Write a class like those in `pages`, and add it to `PAGES` there."""

    # the key of the section `kiosk` that switches the page on, and the section of the captions that
    # it needs; "" for a page that is always there
    setting: ClassVar[str] = ""
    # what is explained; "": what the configuration says
    target = ""

    def __init__(self, config: Config):
        self.config = config

    def update(self, moment: Moment) -> None:
        """Takes in what happened; called before each drawing, whether or not the page is due."""

    def due(self, moment: Moment) -> bool:
        """Whether the page is shown, unless one before it is."""
        raise NotImplementedError

    def elements(self, moment: Moment) -> list[Element]:
        """The page's elements above the buttons."""
        raise NotImplementedError

    def kept(self) -> ExplainedFrame | None:
        """The frame to show instead of the present picture and map; None for the present one."""
        return None

    def shows_map(self, moment: Moment) -> bool:
        """Whether the map is shown: where the page names the answer that it explains."""
        return moment.explains

    def button(self, moment: Moment) -> str:
        """The text of its button on every page, named as its setting; "" while there is none."""
        return ""


def known(config: Config) -> str:
    """The key of the caption for what the network knows: drawn symbols or everyday objects."""
    return "drawing" if config.model.name.lower() in EMBEDDED else "objects"
