"""The workers of a job: what each does now, and what it has explained and not yet drawn."""

from dataclasses import dataclass, field
from typing import Any

from realtime_lrp.commands.video.archive.filework import FileWork, Waiting
from realtime_lrp.commands.video.archive.orders import Loaded

MOST_UNDRAWN = 3
"""A worker explains no further part while so many wait to be drawn, 90 MB each for 60 s at the
usual size; but for the part that they wait for."""


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
    alone: bool = False

    @property
    def where(self) -> str:
        """The machine, for messages."""
        return f" on {self.node}" if self.node else ""

    def is_at(self, *kinds: str) -> bool:
        """Whether it is at a step of one of these kinds."""
        return any(step.kind in kinds for step in self.steps.values())

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
