"""The workers of a job: what each does now, and what it has explained and not yet drawn."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from realtime_lrp.commands.video.archive.cluster import Cluster
from realtime_lrp.commands.video.archive.filework import PLAN, FileWork, Waiting
from realtime_lrp.commands.video.archive.orders import Loaded
from realtime_lrp.commands.video.messages import Piece
from realtime_lrp.commands.video.overlay import THUMBNAILS
from realtime_lrp.errors import InternalError

MOST_UNDRAWN = 3
"""A worker explains no further part while so many wait to be drawn, 90 MB each for 60 s at the
usual size; but for the part that they wait for."""

RESTS_S = 60.0
"""A worker whose disk is full gets no parts for so long, if others can do them."""


STARTS_S = 60.0
"""A worker that has not answered after so long waits for a machine, which may never be free."""


@dataclass
class Step:
    """A call of a worker.

    Attributes:
      kind: the method: "load", "plan", "whole", "explain", "draw".
      work: the recording; None for "load".
      number: of the part.
      generation: of the recording.
    """

    kind: str
    work: FileWork | None = None
    number: int = 0
    generation: int = 0

    @property
    def alive(self) -> bool:
        """Whether its result is still wanted."""
        work = self.work
        return work is None or (work.error is None and work.generation == self.generation)


@dataclass
class Member:
    """A worker.

    Attributes:
      number: its place, for people.
      handle: what the cluster knows it by.
      loaded: once it is ready.
      steps: the calls that it is at, by what the cluster knows them by.
      undrawn: the parts that it has explained: (recording, generation, number).
      status: the call that asks how far it is, or None.
      answers: it has answered such a call.
      node: the machine, once it has.
      loading_s: how long it was not ready, in seconds.
      silent_s: how long it owes the answer to the present one, in seconds.
      frames: how many frames it has explained.
      made: how many of them are in parts that are done.
      file: what it works at.
      rests_until: it gets no parts before, as its disk is full, if others can do them.
      alone: it does nothing besides its present part, which ended a worker before.
    """

    number: int
    handle: Any
    loaded: Loaded | None = None
    steps: dict[Any, Step] = field(default_factory=dict)
    undrawn: list[tuple[FileWork, int, int]] = field(default_factory=list)
    status: Any = None
    answers: bool = False
    node: str = ""
    loading_s: float = 0.0
    silent_s: float = 0.0
    frames: int = 0
    made: int = 0
    file: str = ""
    rests_until: float = 0.0
    alone: bool = False

    @property
    def where(self) -> str:
        """The machine, for messages."""
        return f" on {self.node}" if self.node else ""

    def begin(self, cluster: Cluster, step: Step, *arguments: Any) -> None:
        """Begins a step."""
        self.steps[cluster.call(self.handle, step.kind, *arguments)] = step

    def compute(self, cluster: Cluster, work: FileWork, number: int, seconds: float) -> None:
        """Begins to compute a part, or to look for the parts.

        Args:
          cluster: where the worker is.
          work: the recording.
          number: of the part, or `PLAN`.
          seconds: about how long a part of the recording lasts.
        """
        step = Step("plan", work, number, work.generation)
        if number == PLAN:
            self.begin(cluster, step, work.order, seconds, work.unit, THUMBNAILS)
        elif (piece := work.parts[number].piece) is None:
            step.kind = "whole"
            self.begin(cluster, step, work.order)
        else:
            step.kind = "explain"
            self.begin(cluster, step, work.order, piece)

    def draw(self, cluster: Cluster, work: FileWork, number: int) -> None:
        """Begins to draw a part that it has explained."""
        part = work.parts[number]
        if not isinstance(part.piece, Piece) or part.after is None:
            raise InternalError("A part is to be drawn that was not explained.")
        piece = msgspec.structs.replace(part.piece, scale=work.scale_before(number))
        step = Step("draw", work, number, work.generation)
        self.begin(cluster, step, work.order, piece, part.after)

    def is_at(self, *kinds: str) -> bool:
        """Whether it is at a step of one of these kinds."""
        return any(step.kind in kinds for step in self.steps.values())

    def rests(self, now: float, members: "Iterable[Member]") -> bool:
        """Whether it leaves the parts to others of these, as its disk is full."""
        others = (one for one in members if one.rests_until <= now)
        return self.rests_until > now and any(one.is_there for one in others)

    @property
    def is_there(self) -> bool:
        """Whether it works or soon may: it does not wait for a machine, as far as is known."""
        return self.loaded is not None or self.answers or self.loading_s < STARTS_S

    def may_compute(self, waiting: Waiting) -> bool:
        """Whether it may begin with a part now."""
        if waiting.work.has_failed(waiting.number) and self.steps:
            return False  # it may have ended a worker: no other part is lost with it again
        first = not waiting.work.parts or waiting.work.can_draw(max(0, waiting.number))
        return first or len(self.undrawn) < MOST_UNDRAWN

    def take_drawable(self) -> tuple[FileWork, int] | None:
        """Removes and gives a part that it has explained and can draw."""
        for place, (work, generation, number) in enumerate(self.undrawn):
            if work.error or generation != work.generation:
                del self.undrawn[place]
                return self.take_drawable()
            if work.can_draw(number):
                del self.undrawn[place]
                return work, number
        return None
