"""Begins workers, and decides which of those that are lost or cannot begin are replaced."""

import logging
from collections.abc import Callable

from realtime_lrp.commands.video.archive.cluster import Cluster, Share
from realtime_lrp.commands.video.archive.crew import Member, Step
from realtime_lrp.commands.video.archive.losses import Losses
from realtime_lrp.commands.video.archive.orders import Loaded, Order
from realtime_lrp.errors import Error

SAME_FOR_ALL = (2, 78)
"""Exit codes of errors of loading that come on every machine."""

MOST_UNABLE = 8
"""The job ends if so many machines, one after another, cannot load the network, and none can."""

log = logging.getLogger(__name__)


class Hiring:
    """Begins workers.

    The first one begins alone, as it says how much memory a worker takes. A machine that cannot
    load the network gets no worker any more: it would fail again there.

    Args:
      cluster: where workers run.
      share: what each gets.
      losses: counts those that do not get ready.
      order: what they load the network for.

    Attributes:
      members: the workers.
      newest: the number of the worker that was begun last.
      loaded: what the first worker said of itself, or None.
    """

    def __init__(self, cluster: Cluster, share: Share, losses: Losses, order: Order):
        self._cluster, self._share, self._losses, self._order = cluster, share, losses, order
        self.members: list[Member] = []
        self.newest = 0
        self.loaded: Loaded | None = None
        self._wanted, self._memory, self._unable = 1, 0, 0
        self._loading = False, False
        self._fitting: Callable[[Loaded], int] = lambda _: self._wanted
        self._told: set[tuple[str, str]] = set()

    def begin(
        self, workers: int, loading: tuple[bool, bool], fitting: Callable[[Loaded], int]
    ) -> None:
        """Takes over what is wanted; the arguments are those of `Job.run`."""
        self._wanted, self._loading, self._fitting = workers, loading, fitting

    def hire_missing(self, parts: Callable[[], int]) -> None:
        """Begins workers: the first one alone, then as many as there are parts to do.

        Args:
          parts: gives how many parts are to be done.
        """
        wanted = self._wanted if self.loaded else 1
        if len(self.members) >= wanted:
            return
        left = parts()
        while len(self.members) < min(wanted, left):
            self._hire()

    def _hire(self) -> None:
        handle = self._cluster.new_worker(self._share, self._memory)
        self.newest += 1
        member = Member(self.newest, handle)
        self.members.append(member)
        member.begin(self._cluster, Step("load"), self._order, *self._loading)

    def ready(self, member: Member, loaded: Loaded) -> None:
        """Notes that a worker has loaded the network."""
        member.loaded, first = loaded, self.loaded is None
        self._unable = 0
        self._losses.worker_ready()
        self._memory = max(self._memory, loaded.bytes)
        log.info(
            "worker %d: %s on %s of %s", member.number, loaded.precision, loaded.device, loaded.node
        )
        if first:
            self.loaded = loaded
            self._wanted = min(self._wanted, self._fitting(loaded))

    def remove(self, member: Member) -> None:
        """Ends a worker; `hire_missing` begins another one."""
        self.members.remove(member)
        self._cluster.end_worker(member.handle)

    def lost(self, member: Member, why: str) -> None:
        """Counts a worker that was removed because it was lost.

        Raises:
          TemporaryError: so many were lost that nothing is done any more.
        """
        others = self._ready() if member.loaded is None else 0
        if self._losses.worker_lost(why, others):
            self._wanted = others

    def unready(self, member: Member, newest: int, why: str) -> None:
        """Removes a worker that does not get ready.

        Args:
          member: the worker.
          newest: the number of the worker that was begun last when it was noticed.
          why: what is known of it.

        Raises:
          TemporaryError: none gets ready.
        """
        waits = not member.answers and self._cluster.may_be_waiting(self._share, len(self.members))
        self.remove(member)
        log.warning("worker %d is lost (%s)", member.number, why)
        ready = self._ready()
        if not waits and self._losses.worker_unready(member.number, newest, why, ready):
            self._wanted = ready

    def unable(self, member: Member, error: Error) -> None:
        """Removes a worker that cannot load the network, and goes on without it.

        Args:
          member: the worker.
          error: what its loading has raised.

        Raises:
          Error: this one, if it is the same for all workers, or none can load the network.
        """
        if error.exit_code in SAME_FOR_ALL:
            raise error
        first, self._unable = self.loaded is None, self._unable + 1
        machine = self._cluster.exclude_machine(member.handle)
        self.remove(member)
        room = self._cluster.room(self._share)
        if not self.members and (not room or self._unable >= MOST_UNABLE):
            raise error
        self._wanted = max(1, min(self._wanted - 1, room) if first else self._wanted - 1)
        if (machine, str(error)) in self._told:
            return
        self._told.add((machine, str(error)))
        who = machine or f"worker {member.number}"
        log.warning("%s cannot load the network: %s The job goes on without it.", who, error)

    def _ready(self) -> int:
        return sum(one.loaded is not None for one in self.members)
