"""Asks workers how far they are, and tells what they have to say."""

import logging
import time
from collections.abc import Sequence
from math import inf

from realtime_lrp.commands.video.archive.cluster import Cluster, Share
from realtime_lrp.commands.video.archive.crew import Member
from realtime_lrp.commands.video.archive.orders import Status

EVERY_S = 1.0
"""How often workers are asked."""

WAITING_S = 60.0
"""After so long without any worker a line says what they wait for."""

HANGS_S = 120.0
"""A worker that has answered once and then does not answer for so long is given up."""

READY_S = 600.0
"""A worker that is not ready after so long is given up: its machine hangs, or its file server."""

MOST_COUNTED_S = 10.0
"""Most that counts of the time between two questions: the job itself may have been stopped."""

log = logging.getLogger(__name__)


class Watcher:
    """Asks the workers about once a second.

    Args:
      cluster: where they are.
    """

    def __init__(self, cluster: Cluster):
        self._cluster = cluster
        self._begun, self._asked = time.monotonic(), -inf
        self._said: set[str] = set()
        self._warned = False

    def is_due(self) -> bool:
        """Whether it is time to ask."""
        return time.monotonic() - self._asked >= EVERY_S

    def ask(self, members: Sequence[Member], share: Share) -> None:
        """Asks those that owe no answer; the answers are for `take`.

        Args:
          members: the workers.
          share: what each needs.
        """
        before, self._asked = self._asked, time.monotonic()
        since = min(self._asked - before, MOST_COUNTED_S) if before > -inf else 0.0
        for member in members:
            if member.loaded is None:
                member.loading_s += since
            if member.status is None:
                member.status, member.silent_s = self._cluster.call(member.handle, "status"), 0.0
            elif member.answers:
                member.silent_s += since
        if any(one.loaded for one in members):
            self._begun = self._asked
        waited = self._asked - self._begun
        if waited > WAITING_S and not self._warned:
            self._warned = True
            if self._cluster.local:
                log.warning("the first worker is still loading after %.0f s", waited)
                return
            log.warning(
                "no worker for %.0f s: each loads, or waits for a machine that has %g cores and "
                "%g GPUs to spare", waited, share.cpus, share.gpus,
            )  # fmt: skip

    def hanging(self, members: Sequence[Member]) -> list[Member]:
        """Those that have answered before and do not any more."""
        silent = [member for member in members if member.silent_s > HANGS_S]
        return [one for one in silent if not self._cluster.wait([one.status], 0)]

    def unready(self, members: Sequence[Member]) -> list[Member]:
        """Those that have not loaded the network in time."""
        late = [one for one in members if one.loaded is None and one.loading_s > READY_S]
        return [one for one in late if not self._cluster.wait(list(one.steps), 0)]

    def take(self, member: Member, status: Status) -> None:
        """Takes an answer; each line of the workers' logs is told once."""
        member.status, member.silent_s, member.answers = None, 0.0, True
        member.frames, member.file, member.node = status.frames, status.file, status.node
        for line in status.log:
            if line not in self._said:
                self._said.add(line)
                log.warning("%s", line)
