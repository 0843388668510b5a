"""What a page of the exhibit is, and what it depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from realtime_lrp.commands.kiosk.answer import Answer
from realtime_lrp.commands.kiosk.captions import Captions
from realtime_lrp.commands.kiosk.states import State
from realtime_lrp.config import Config
from realtime_lrp.engine.result import ConceptRequest
from realtime_lrp.realtime.explaining import ExplainedFrame
from realtime_lrp.view.elements import Element

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine

SHORT_NAME = 12
"""Names of up to this many letters are set in the largest type."""


@dataclass(frozen=True)
class Moment:
    """What a page depends on; times are seconds of a monotonic clock."""

    now: float
    state: State
    since: float  # when the state began
    left_s: float  # in the state idle, until the exhibit starts over
    source: str  # whose pictures are shown: "camera", "clip" or ""
    captions: Captions
    engine: Engine | None = None  # None before the first map
    explained: ExplainedFrame | None = None
    failing: bool = False  # whether maps cannot be computed at the moment
    answer: Answer | None = None


class ExhibitPage:
    """A page. Write a class like those in `pages`, and add it to `PAGES` there."""

    # the key of the section `kiosk` that switches the page on, and the section of the captions that
    # it needs; "" for a page that is always there
    setting: ClassVar[str] = ""
    # the channels that the network is asked for, for the sake of this page; or None
    request: ConceptRequest | None = None
    # the channel whose map is laid over the picture instead of the answer's, or None
    channel: int | None = None

    def __init__(self, config: Config):
        self.config = config

    def update(self, moment: Moment) -> None:
        """Takes in what happened; called before each drawing, whether or not the page is due."""

    def due(self, moment: Moment) -> bool:
        """Whether the page is shown, unless one before it is."""
        raise NotImplementedError

    def elements(self, moment: Moment) -> list[Element]:
        """What is on it, above the buttons."""
        raise NotImplementedError
