"""What lost workers and failed parts mean: which part is given up, and when the job ends."""

import logging

from realtime_lrp.commands.video.archive.filework import FileWork
from realtime_lrp.commands.video.archive.orders import DiskFailed
from realtime_lrp.errors import (
    DamagedInputError,
    Error,
    InternalError,
    TemporaryError,
    TransferError,
)
from realtime_lrp.system.channel import Failed
from realtime_lrp.system.child_errors import failure

ATTEMPTS = 3
"""How often a part is tried that fails, or that ends the workers that have it."""

AT_ONCE = (65, 66, 2, 73, 78)
"""Exit codes of errors that come again at each attempt."""

MOST_LOST = 10
"""How often a part is tried if workers are lost from outside: killed, or with their machines."""

MOST_LOSSES = 12
"""The job ends after so many lost workers in a row, none of which did anything."""

MOST_UNREADY = 3
"""So many workers are begun, one after another, in place of one that does not get ready."""

log = logging.getLogger(__name__)


class Losses:
    """Counts what was lost.

    A lost worker is blamed on the parts that it had. If the same step of such a part succeeds
    later, it was not to blame: from then on workers are lost from outside in this job, and parts
    are tried more often.

    Attributes:
      from_outside: whether workers are lost from outside.
    """

    def __init__(self) -> None:
        self._in_a_row = self._begun_in_vain = self._unready = self._replaced = 0
        self.from_outside = False

    def worker_lost(self, why: str, others: int = 0) -> bool:
        """Notes a lost worker; gives whether no more are to be begun.

        Args:
          why: what is known of its end.
          others: if it had not loaded the network yet, how many others have; else 0.

        Raises:
          TemporaryError: so many were lost that nothing is done any more.
        """
        if others:
            self._begun_in_vain += 1
            return self._no_more(self._begun_in_vain >= MOST_LOSSES, others)
        self._in_a_row += 1
        if self._in_a_row >= MOST_LOSSES:
            raise TemporaryError(
                f"{MOST_LOSSES} workers were lost in a row ({why}). Look at the memory of the "
                "machines, then start again with --resume: what is done is kept."
            )
        return False

    def part_failed(self, work: FileWork, number: int, error: Error) -> bool:
        """Notes that a part has failed; gives whether its recording is given up."""
        count = work.attempts[number] = work.attempts.get(number, 0) + 1
        return count >= ATTEMPTS or error.exit_code in AT_ONCE

    def part_lost(self, work: FileWork, number: int, kind: str, why: str) -> Error | None:
        """Notes that a part was lost with its worker.

        Args:
          work: the recording.
          number: of the part.
          kind: of the step at which the worker was; "" if it was at another one, too.
          why: what is known of the worker's end.

        Returns:
          The error of the recording if it is given up; None if the part is tried again.
        """
        work.lost.setdefault(number, []).append(kind)
        lost = len(work.lost[number])
        if lost < (MOST_LOST if self.from_outside else ATTEMPTS):
            return None
        kind_of_error = TemporaryError if self.from_outside else DamagedInputError
        return kind_of_error(
            f"{work.name} ended {lost} workers ({why}). If something else ended them, start again "
            "with --resume: what is done is kept."
        )

    def step_done(self, work: FileWork, number: int, kind: str) -> None:
        """Notes that a worker has done a step, and that its result is here.

        Args:
          work: the recording.
          number: of the part.
          kind: of the step.
        """
        self._in_a_row = 0
        self.from_outside |= kind in work.lost.get(number, ())

    def worker_ready(self) -> None:
        """Notes that a worker can begin."""
        self._unready = self._begun_in_vain = 0

    def worker_unready(self, number: int, newest: int, why: str, ready: int) -> bool:
        """Notes that a worker did not get ready; gives whether no more are to be begun.

        Args:
          number: of the worker; those that were begun together count once.
          newest: the number of the worker that was begun last.
          why: what is known of it.
          ready: how many others are ready.

        Raises:
          TemporaryError: none gets ready.
        """
        if number <= self._replaced:
            return False
        self._unready, self._replaced = self._unready + 1, newest
        if self._unready < MOST_UNREADY:
            return False
        if not ready:
            raise TemporaryError(
                f"{MOST_UNREADY} workers, one after another, did not get ready (the last one: "
                f"{why}). Look whether that machine can read the model, then start again with "
                "--resume: what is done is kept."
            )
        self._unready = 0
        return self._no_more(True, ready)

    def _no_more(self, enough: bool, others: int) -> bool:
        if enough:
            log.warning("no more workers are begun, as they do not get ready: %d go on", others)
        return enough


def error_of(name: str, failed: Failed) -> Error:
    """The error that a worker reports.

    Args:
      name: of the recording, for messages.
      failed: what the worker sent.
    """
    error = failure(name, failed)
    if isinstance(error, OSError):
        return TransferError(f"A worker's read or write failed ({error.strerror or error}).")
    return error if isinstance(error, Error) else InternalError(f"unexpected {error}")


def unkept(work: FileWork, error: OSError) -> TransferError:
    """The error where the job itself cannot write a part."""
    return TransferError(
        f"Writing beside {str(work.task.target)!r} failed ({error.strerror or error}). "
        "Make room, then start again with --resume: what is done is kept."
    )


def no_room(failed: DiskFailed, who: str = "") -> TransferError:
    """The error where a worker's disk has no room.

    Args:
      failed: what the worker sent.
      who: how the message begins.
    """
    return TransferError(
        f"{who}{failed.why}. Make room there, or start the workers with TMPDIR set to another "
        "folder."
    )
