"""The page about single channels of the network: when it is shown, and which channel it is about.

It takes turns with the page of the answer. Nothing is computed for it while it is not due. Change
how long it stays here; what it says is in `pages`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from realtime_lrp.config import Config
from realtime_lrp.engine.concept_result import ConceptRequest
from realtime_lrp.errors import first_line
from realtime_lrp.models.gallery import Gallery
from realtime_lrp.realtime.explaining import ExplainedFrame
from realtime_lrp.realtime.viewer.concept_view import described_layers
from realtime_lrp.view.elements import Pictures

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine

ANSWER_S = 12.0
"""Seconds of the same answer after which the page is due."""

CONCEPT_S, CHANNELS = 8.0, 2
"""Seconds for which each channel is shown, and how many are shown in a turn."""

AHEAD_S = 2.0
"""Channels are computed from this many seconds before the page is due."""

WAIT_S = 6.0
"""If nothing can be shown for this long, the page is left out until its next turn."""

FORGIVEN_S = 1.5
"""The page stays if the answer is gone for less than this."""

PICTURES = 6
"""Pictures of the gallery, at most."""

REST_S = 600.0
"""If computing channels fails, or explaining while they are, none are computed for this long."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ShownConcept:
    """A channel that is shown.

    Attributes:
      channel: its number in the layer.
      name: "" if it has none.
      pictures: pictures that it answers to, possibly none.
      answer: the network's label of the answer in which it takes part.
    """

    channel: int
    name: str
    pictures: Pictures
    answer: str


class ConceptTurns:
    """Decides when the page is shown, and of which channel.

    Args:
      describe: what there is to show of a channel, or None.

    Attributes:
      shown: the channel that is shown, or None: the page of the answer.
      answer: the class of the present answer, or None.
    """

    def __init__(self, describe: Callable[[int], ShownConcept | None]):
        self._describe = describe
        self._answered_at = 0.0
        self.start_over(None, 0.0)

    def start_over(self, answer: int | None, now: float) -> None:
        """Shows the page of an answer, and no channel before `ANSWER_S`."""
        self.shown: ShownConcept | None = None
        self.answer, self._done = answer, set[int]()
        self._next_at = now + ANSWER_S

    def wanted(self, now: float) -> bool:
        """Whether channels have to be computed."""
        due = self.answer is not None and now >= self._next_at - AHEAD_S
        return due or self.shown is not None

    def update(self, answer: int | None, channels: Iterable[tuple[int, float]], now: float) -> None:
        """Takes in what the network says.

        Args:
          answer: the class of the present answer, or None.
          channels: number and share of the newest map's channels, the largest share first.
          now: the time.
        """
        if answer is not None:
            self._answered_at = now
        elif now - self._answered_at < FORGIVEN_S:
            answer = self.answer
        if answer != self.answer:
            self.start_over(answer, now)
        if answer is not None and now >= self._next_at:
            self._take_turn(channels, now)

    def _take_turn(self, channels: Iterable[tuple[int, float]], now: float) -> None:
        """Shows the next channel; the answer again if all were shown or none can be."""
        found = self._next_channel(channels) if len(self._done) < CHANNELS else None
        if found:
            self.shown = found
            self._done.add(found.channel)
            self._next_at = now + CONCEPT_S
        elif self._done or now - self._next_at > WAIT_S:
            self.start_over(self.answer, now)

    def _next_channel(self, channels: Iterable[tuple[int, float]]) -> ShownConcept | None:
        """The first channel that speaks for the answer, was not shown in this turn, and can be."""
        for channel, share in channels:
            if share > 0 and channel not in self._done and (found := self._describe(channel)):
                return found
        return None


class ConceptPart:
    """The page's side of the loop. Whatever fails leaves the page out, and the log says so once.

    Args:
      config: the effective configuration.
      note_error: called with what is wrong with the gallery or the names.
    """

    def __init__(self, config: Config, note_error: Callable[[str], None]):
        self._config, self._note_error = config, note_error
        self._engine: Engine | None = None
        self._gallery: Gallery | None = None
        self._layer = ""
        self._turns = ConceptTurns(self._described)
        self._rests_until = 0.0
        self._problem = ""

    @property
    def shown(self) -> ShownConcept | None:
        """The channel that is shown, or None: the page of the answer."""
        return self._turns.shown

    def use(self, engine: Engine | None) -> None:
        """Finds layer, pictures and names for an engine; does so once for each."""
        if not self._config.kiosk.concepts or engine is None or engine is self._engine:
            return
        self._engine, self._gallery = engine, None
        try:
            from realtime_lrp.engine.gallery import gallery_of  # imports TensorFlow

            gallery = gallery_of(engine, self._config)
            self._layer = _layer_for(engine, gallery, self._config.concepts.layer)
        except Exception as error:  # the exhibit goes on, whatever is wrong with a file
            self._leave_out(first_line(error))
            return
        if not engine.concept_layers():
            self._leave_out("it needs LRP, and a network with layers of rows and columns")
        elif gallery.names.get(self._layer) or gallery.channels(self._layer):
            self._gallery = gallery
        else:
            self._leave_out(f"there are no pictures or names for the channels of {self._layer!r}")

    def _leave_out(self, why: str) -> None:
        """Shows no channels of this network; says so once."""
        self._gallery = None
        self._turns.start_over(None, 0.0)
        self._tell(why, "the page is left out")

    def _rest(self, why: str, now: float) -> None:
        """Computes no channels for `REST_S`; says so once while the reason stays the same."""
        self._rests_until = now + REST_S
        self._tell(why, f"the page is left out for {REST_S:.0f} s")

    def _tell(self, why: str, what: str) -> None:
        if why != self._problem:
            text = f"concepts: {what}: {why}"
            log.warning("%s", text)
            self._note_error(text)
        self._problem = why

    def update(
        self, answer: int | None, explained: ExplainedFrame | None, failing: bool, now: float
    ) -> ConceptRequest | None:
        """Takes in the newest map; returns which channels are to be computed, or None.

        Args:
          answer: the class of the answer that is shown; None for none, or if no page is due.
          explained: the newest map, or None.
          failing: whether maps cannot be computed at the moment.
          now: the time.
        """
        if self._gallery is None:
            return None
        found = explained.concepts if explained else None
        wanted = self._turns.wanted(now)
        if wanted and found and found.problem:
            self._rest(found.problem, now)
        elif wanted and failing:
            self._rest("explaining failed", now)
        elif found and found.maps:
            self._problem = ""
        if now < self._rests_until:
            self._turns.start_over(None, now)
            return None
        channels = [(one.channel, one.share) for one in found.maps] if found else []
        self._turns.update(answer, channels, now)
        if not self._turns.wanted(now):
            return None
        return ConceptRequest(self._layer, self.shown.channel if self.shown else None)

    def belongs(self, explained: ExplainedFrame | None) -> bool:
        """Whether a frame has the map of what is shown: of the channel, or of the answer."""
        wanted = explained.request.concepts if explained else None
        shown = self.shown.channel if self.shown else None
        return (wanted.channel if wanted else None) == shown

    def _described(self, channel: int) -> ShownConcept | None:
        """A channel with its name and pictures; None without both."""
        gallery, engine, answer = self._gallery, self._engine, self._turns.answer
        if gallery is None or engine is None or answer is None:
            return None
        pictures = tuple(gallery.pictures(self._layer, channel))[:PICTURES]
        name = gallery.name(self._layer, channel)
        if not (name or pictures):
            return None
        return ShownConcept(channel, name, Pictures(pictures), engine.label(answer))


def _layer_for(engine: Engine, gallery: Gallery, wanted: str | None) -> str:
    """The layer whose channels are shown: the wanted one, or the last with pictures or names."""
    return wanted or (described_layers(engine, gallery) or ("",))[-1]
