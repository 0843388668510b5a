"""Asks workers how far they are, and tells what they have to say."""

import logging
import time
from collections.abc import Sequence

from realtime_lrp.commands.video.archive.cluster import Cluster, Share
from realtime_lrp.commands.video.archive.crew import Member
from realtime_lrp.commands.video.archive.orders import Status

EVERY_S = 1.0
"""How often workers are asked."""

WAITING_S = 60.0
"""After so long without any worker a line says what they wait for."""

log = logging.getLogger(__name__)


class Watcher:
    """Asks the workers about once a second.

    Args:
      cluster: where they are.
    """

    def __init__(self, cluster: Cluster):
        self._cluster = cluster
        self._begun, self._asked = time.monotonic(), 0.0
        self._said: set[str] = set()
        self._warned = False

    def is_due(self) -> bool:
        """Whether it is time to ask."""
        return time.monotonic() - self._asked >= EVERY_S

    def ask(self, members: Sequence[Member], share: Share) -> None:
        """Asks those that have answered before; the answers are for `take`.

        Args:
          members: the workers.
          share: what each needs.
        """
        self._asked = time.monotonic()
        for member in members:
            if member.loaded and member.status is None:
                member.status = self._cluster.call(member.handle, "status")
        if any(one.loaded for one in members):
            self._begun = self._asked
        waited = self._asked - self._begun
        if waited > WAITING_S and not self._warned:
            self._warned = True
            log.warning(
                "no worker for %.0f s: each waits for a machine that has %g cores and "
                "%g GPUs to spare", waited, share.cpus, share.gpus,
            )  # fmt: skip

    def take(self, member: Member, status: Status) -> None:
        """Takes an answer; each line of the workers' logs is told once."""
        member.status = None
        member.frames, member.file = status.frames, status.file
        for line in status.log:
            if line not in self._said:
                self._said.add(line)
                log.warning("%s", line)
