"""The state of one recording in a job: which of its parts wait, are explained, are done."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from math import lcm

from realtime_lrp.commands.video.archive.kept import KeptParts
from realtime_lrp.commands.video.archive.orders import Facts, Order, Planned
from realtime_lrp.commands.video.messages import Piece
from realtime_lrp.commands.video.task import Task
from realtime_lrp.errors import Error
from realtime_lrp.results.records import CHUNK
from realtime_lrp.system.atomic import refuse_busy
from realtime_lrp.view.overlay import SMOOTHING, Scale

PLAN = -1
"""Stands for the number of a part where the parts are still to be found."""

SUSPECT = 2
"""A part that was lost with so many workers comes after all others: it may have ended them."""

LOOKED_AT = 256
"""So many of the first parts are looked at for one that a worker may do."""


@dataclass
class Part:
    """A part of a recording.

    Attributes:
      piece: which frames; None for all of the recording.
      scales: of its maps, once they are computed.
      after: the smoothed scale after its last map, once that is known.
      facts: once it is done.
    """

    piece: Piece | None
    scales: list[float] | None = None
    after: float | None = None
    facts: Facts | None = None


@dataclass
class FileWork:
    """A recording on its way to a film.

    Attributes:
      number: its place in the job.
      task: the recording and its outputs.
      order: what is asked of workers.
      size: of the recording, in bytes.
      plan: how it is cut, once that is known.
      parts: its parts, once they are known.
      attempts: how often each part has failed.
      lost: the steps at which each part was lost with its worker, by their kinds, see `Losses`.
      error: why it has no film, or None.
      generation: raised when the recording is begun again in one piece; what belongs to an earlier
        one is not used.
    """

    number: int
    task: Task
    order: Order
    size: int
    kept: KeptParts | None = None
    plan: Planned | None = None
    parts: list[Part] = field(default_factory=list)
    attempts: dict[int, int] = field(default_factory=dict)
    lost: dict[int, list[str]] = field(default_factory=dict)
    error: Error | None = None
    generation: int = 0

    @cached_property
    def name(self) -> str:
        """The name of the recording."""
        return self.task.source.name

    def begin(self) -> None:
        """Looks for what earlier runs have done.

        Raises:
          Error: another process makes the film, or its outputs cannot be made.
        """
        refuse_busy(self.task.target)
        config = self.order.config
        wanted = f"{self.task.fingerprint}-{config.lrp.precision}-{self.order.maps}"
        self.kept = KeptParts(self.task.target, f"{wanted}-{self.order.summary}")
        self.task.note_begun()
        if self.kept.plan:
            self.cut(self.kept.plan)

    def cut(self, plan: Planned) -> None:
        """Takes over how the recording is cut, and which parts are done."""
        self.plan = plan
        self.parts = [Part(piece) for piece in plan.pieces] or [Part(None)]
        for number, part in enumerate(self.parts):
            part.facts = self.keeper.done(number)
            part.after = part.facts.scale if part.facts else None

    @property
    def keeper(self) -> KeptParts:
        """Where its parts are kept, after `begin`."""
        if self.kept is None:
            raise ValueError("The recording has not been begun.")
        return self.kept

    def in_one_piece(self) -> None:
        """Starts again without cutting."""
        self.keeper.remove()
        self.keeper.claim()
        self.generation, self.attempts, self.lost = self.generation + 1, {}, {}
        frames = self.plan.frames if self.plan else 0
        self.plan, self.parts = Planned((), frames, ()), [Part(None)]

    def has_failed(self, number: int) -> bool:
        """Whether a part has failed, or was lost with its worker."""
        return number in self.attempts or number in self.lost

    def give_back(self) -> None:
        """Leaves the recording for a later run, which goes on with the parts that are done."""
        self.task.note_failed()
        if self.kept:
            self.kept.release()

    @property
    def done(self) -> bool:
        """Whether all parts are done."""
        return bool(self.parts) and all(part.facts for part in self.parts)

    @property
    def parts_left(self) -> int:
        """How many parts are to be done; 1 if it is not cut yet."""
        return sum(part.facts is None for part in self.parts) if self.parts else 1

    @property
    def unit(self) -> int:
        """Parts begin with multiples of it: then batches and files of raw maps are the same."""
        video = self.order.config.video
        batches = lcm(8, 16) if video.batch == "auto" else video.batch
        return (lcm(batches, CHUNK) if self.order.maps else batches) * video.stride

    @property
    def frames_done(self) -> int:
        """How many frames are done."""
        return sum(part.facts.frames for part in self.parts if part.facts)

    def explained(self, number: int, scales: list[float]) -> None:
        """Notes the scales of a part's maps, and what they mean for the parts after it."""
        self.parts[number].scales = scales
        for here in range(number, len(self.parts)):
            part = self.parts[here]
            before = self.scale_before(here)
            if part.after is None and part.scales is not None and (not here or before is not None):
                scale = Scale(SMOOTHING, before)
                for new in part.scales:
                    scale(new)
                part.after = scale.value

    def scale_before(self, number: int) -> float | None:
        """The smoothed scale before a part; None before any map, or as long as it is unknown."""
        return self.parts[number - 1].after if number else None

    def can_draw(self, number: int) -> bool:
        """Whether a part that is explained can be drawn."""
        return number == 0 or self.parts[number - 1].after is not None


@dataclass(order=True)
class Waiting:
    """A part that is to be computed; the first files and parts come first."""

    file_number: int
    number: int
    work: FileWork = field(compare=False)
    generation: int = field(default=0, compare=False)
    not_before: float = field(default=0.0, compare=False)

    @property
    def alive(self) -> bool:
        """Whether it is still wanted."""
        return self.work.error is None and self.generation == self.work.generation


class Queue:
    """The parts that are to be computed, those of the first recordings first."""

    def __init__(self) -> None:
        self._others: list[Waiting] = []
        self._suspects: list[Waiting] = []

    def put(self, work: FileWork, number: int, not_before: float = 0.0) -> None:
        """Adds a part; it is not taken before a time of `time.monotonic`."""
        waiting = Waiting(work.number, number, work, work.generation, not_before)
        suspect = len(work.lost.get(number, ())) >= SUSPECT
        heapq.heappush(self._suspects if suspect else self._others, waiting)

    def retries_later(self, now: float) -> bool:
        """Whether a part waits for its next try, which is no suspect."""
        return any(one.alive and one.not_before > now for one in self._others)

    def take(
        self, now: float, allowed: Callable[[Waiting], bool], suspects: bool = False
    ) -> Waiting | None:
        """Removes and gives the first part that may be taken.

        Args:
          now: the time of `time.monotonic`.
          allowed: whether the worker may have it.
          suspects: gives one of those that may end workers, instead of one of the others.
        """
        heap = self._suspects if suspects else self._others
        passed: list[Waiting] = []
        found = None
        while heap and found is None and len(passed) < LOOKED_AT:
            one = heapq.heappop(heap)
            if not one.alive:
                continue
            if one.not_before <= now and allowed(one):
                found = one
            else:
                passed.append(one)
        for one in passed:
            heapq.heappush(heap, one)
        return found
