"""Runs a job: hands out parts to workers, hands out again what is lost, publishes what is done.

    recordings -> plan -> parts ---> explain (a worker) --> draw (the same worker) --> kept --> join
                             ^                 |                      |                 |
                             +--- lost with its worker, or failed ----+        beside the film

The brightness of a map depends on the maps before it, back to the first one. So a part is explained
at once, and drawn when the scales of all maps before it are known; both need no other part's
pictures. One thread hands out; another one joins and publishes.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from realtime_lrp.commands.video.archive.cluster import Cluster, Share, WorkerLostError
from realtime_lrp.commands.video.archive.crew import RESTS_S, Member, Step
from realtime_lrp.commands.video.archive.fetching import fetch
from realtime_lrp.commands.video.archive.filework import PLAN, FileWork, Queue, Waiting
from realtime_lrp.commands.video.archive.hiring import Hiring
from realtime_lrp.commands.video.archive.losses import Losses, error_of, no_room, unkept
from realtime_lrp.commands.video.archive.orders import (
    DiskFailed,
    Explained,
    Loaded,
    Made,
    Planned,
    Uncut,
)
from realtime_lrp.commands.video.archive.publishing import publish
from realtime_lrp.commands.video.archive.results import FailedFile, Listener
from realtime_lrp.commands.video.archive.watching import Watcher
from realtime_lrp.commands.video.messages import Report
from realtime_lrp.errors import (
    Error,
    InternalError,
    TransferError,
)
from realtime_lrp.results.failures import Failures
from realtime_lrp.system.atomic import write_error
from realtime_lrp.system.channel import Failed

PART_S = 60.0
"""About how long a part of a recording lasts, in seconds."""

AGAIN_S = 2.0
"""A part that has failed waits this long."""

TICK_S = 0.5
CLOSING_S = 1.0
"""Workers get so long to remove their temporary folders."""

log = logging.getLogger(__name__)


class Job:
    """The recordings of a job and the workers that share them.

    Args:
      cluster: where workers run.
      share: what each worker gets.
      works: the recordings that are not finished yet.
      total: how many recordings there are.
      listener: hears of each file.
      ended: called for each file that is finished or failed, with the event's name, the
        recording, and its report or error.
      show: called about once a second.

    Attributes:
      works: the recordings.
      members: the workers.
      finished: how many films are done.
      frames: how many frames the films of this run have.
      parts_done: how many parts are done.
      parts_known: how many parts there are, as far as recordings have been cut.
      map_ms: milliseconds that maps took.
      maps: how many were computed.
    """

    def __init__(
        self,
        cluster: Cluster,
        share: Share,
        works: Sequence[FileWork],
        total: int,
        listener: Listener,
        ended: Callable[[str, FileWork, Any], None],
        show: Callable[["Job"], None],
    ):
        self._cluster, self._share = cluster, share
        self._losses = Losses()
        self._hiring = Hiring(cluster, share, self._losses, works[0].order)
        self.members = self._hiring.members
        self.works, self._listener, self._ended, self._show = works, listener, ended, show
        self._unbegun = deque(works)
        self._queue = Queue()
        self._under_way: dict[int, FileWork] = {}
        self._publishing: dict[Future[Report], FileWork] = {}
        self._publisher = ThreadPoolExecutor(1, "publishing")
        self._total, self._failures = total, Failures(total, "videos done")
        self.finished, self.frames, self.maps = total - len(works), 0, 0
        self.parts_done = self.parts_known = 0
        self.map_ms: deque[float] = deque(maxlen=10_000)
        self.begun = time.monotonic()
        self._watcher = Watcher(cluster)

    def run(
        self, workers: int, loading: tuple[bool, bool], fitting: Callable[[Loaded], int]
    ) -> Iterator[tuple[FileWork, Report]]:
        """Does everything; yields each recording whose film is done.

        Args:
          workers: how many workers are wanted.
          loading: what `Worker.load` takes besides an order.
          fitting: how many workers there is memory for, from what the first says of itself.

        Raises:
          Error: the network cannot be loaded, the output's disk is full, or some files failed.
        """
        self._hiring.begin(workers, loading, fitting)
        try:
            while self._unbegun or self._under_way or self._publishing:
                self._hiring.hire_missing(self._parts_left)
                self._hand_out()
                self._collect()
                yield from self._published()
                self._watch()
        except (KeyboardInterrupt, Error) as stop:
            self._failures.log_stop(stop, self.finished)
            raise
        self._failures.raise_worst(self.finished)

    def close(self, wait: bool) -> None:
        """Ends the workers; waits for the film that is being joined, if told so."""
        closing = [self._cluster.call(member.handle, "close") for member in self.members]
        with suppress(WorkerLostError):
            deadline = time.monotonic() + CLOSING_S
            while closing and (left := deadline - time.monotonic()) > 0:
                closed = self._cluster.wait(closing, left)
                closing = [call for call in closing if call not in closed]
        for member in self.members:
            self._cluster.end_worker(member.handle)
        self._publisher.shutdown(wait=wait, cancel_futures=True)
        for work in self.under_way:
            work.give_back()

    @property
    def loaded(self) -> Loaded | None:
        """What the first worker said of itself, once it was ready."""
        return self._hiring.loaded

    @property
    def under_way(self) -> list[FileWork]:
        """The recordings that are begun and not finished."""
        return [*self._under_way.values(), *self._publishing.values()]

    # workers

    def _parts_left(self) -> int:
        return len(self._unbegun) + sum(work.parts_left for work in self._under_way.values())

    def _lose(self, member: Member, why: str) -> None:
        """Gives away what a lost worker was at; another one is begun in its place."""
        self._hiring.remove(member)
        log.warning("worker %d is lost (%s)", member.number, why)
        for one, generation, number in member.undrawn:
            if generation == one.generation and not one.error:
                self._queue.put(one, number)
        for step in member.steps.values():
            work = step.work if step.alive else None
            kind = step.kind if len(member.steps) == 1 else ""  # else the other step is suspected
            if work and (error := self._losses.part_lost(work, step.number, kind, why)):
                self._give_up(work, error)
            elif work:
                self._queue.put(work, step.number, time.monotonic() + AGAIN_S)
        self._hiring.lost(member, why)

    # handing out

    def _hand_out(self) -> None:
        now = time.monotonic()
        for member in self.members:
            if member.loaded is None:
                continue
            if member.alone and member.steps:
                continue
            if not member.is_at("draw") and (drawable := member.take_drawable()):
                member.draw(self._cluster, *drawable)
            if member.is_at("plan", "whole", "explain") or member.rests(now, self.members):
                continue
            member.alone = False
            if waiting := self._next_part(member, now):
                member.alone = waiting.work.has_failed(waiting.number)
                member.compute(self._cluster, waiting.work, waiting.number, PART_S)

    def _next_part(self, member: Member, now: float) -> Waiting | None:
        """Takes a part from the queue; one that may end workers comes last."""
        take = partial(self._queue.take, now, member.may_compute)
        if self._losses.from_outside and (waiting := take(suspects=True)):
            return waiting
        if waiting := take() or (take() if self._begin_next() else None):
            return waiting
        busy = any(step.work for one in self.members for step in one.steps.values())
        return None if busy or self._queue.retries_later(now) else take(suspects=True)

    def _begin_next(self) -> bool:
        """Puts the parts of the next recording into the queue."""
        while self._unbegun:
            work = self._unbegun.popleft()
            self._under_way[work.number] = work
            try:
                self._begin(work)
            except Error as error:
                self._give_up(work, error)
            except OSError as error:  # a name that is too long, for example
                self._give_up(work, write_error(work.task.target, error))
            if work.number in self._under_way:
                return True
        return False

    def _begin(self, work: FileWork) -> None:
        if work.task.refused:
            raise work.task.refused
        work.begin()
        if work.plan:
            self._put_parts(work)
        else:
            self._queue.put(work, PLAN)

    def _put_parts(self, work: FileWork) -> None:
        self.parts_known += len(work.parts)
        for number, part in enumerate(work.parts):
            if part.facts is None:
                self._queue.put(work, number)
            else:
                self.parts_done += 1
        self._publish_if_done(work)

    # collecting

    def _collect(self) -> None:
        calls = {call: member for member in self.members for call in member.steps}
        asked = {member.status: member for member in self.members if member.status is not None}
        waited = [*calls, *asked]
        if not waited:
            time.sleep(TICK_S / 5)
            return
        quick = 0.02 if self._publishing else TICK_S
        for call in self._cluster.wait(waited, quick):
            member = calls.get(call) or asked[call]
            if member not in self.members:
                continue  # it was lost with another call
            try:
                result = self._cluster.get(call)
                if call in asked:
                    self._watcher.take(member, result)
                else:
                    self._take(member, member.steps[call], result)
                    del member.steps[call]  # not before: its worker may be lost with the result
            except WorkerLostError as lost:
                self._lose(member, str(lost))

    def _take(self, member: Member, step: Step, result: Any) -> None:
        work = step.work
        if isinstance(result, Failed):
            self._take_failure(member, step, result)
            return
        if isinstance(result, DiskFailed):
            self._take_disk_failure(member, step, result)
            return
        if work is None:
            self._hiring.ready(member, result)
            return
        if not step.alive:
            if isinstance(result, Made):
                self._cluster.call(member.handle, "drop", result.folder)
            return
        if isinstance(result, Planned):
            work.cut(result)
            if result.pieces:
                work.keeper.begin(result)
            self._put_parts(work)
        elif isinstance(result, Explained):
            work.explained(step.number, result.scales)
            member.undrawn.append((work, work.generation, step.number))
        elif isinstance(result, Uncut):
            log.info("%s is made in one piece: %s", work.name, result.why)
            work.in_one_piece()
            self._queue.put(work, 0)
        elif isinstance(result, Made):
            self._keep(member, work, step.number, result)
        self._losses.step_done(work, step.number, step.kind)

    def _take_failure(self, member: Member, step: Step, failed: Failed) -> None:
        work = step.work
        error = error_of(work.name if work else "a worker", failed)
        if work is None:
            self._hiring.unable(member, error)
        elif step.alive:
            self._failed(work, step.number, error)

    def _take_disk_failure(self, member: Member, step: Step, failed: DiskFailed) -> None:
        """Leaves the part to another worker; if there is none, it has failed."""
        if step.work is None:
            self._hiring.unable(member, no_room(failed))
            return
        now = time.monotonic()
        rested, member.rests_until = member.rests_until > now, now + RESTS_S
        rests = member.rests(now, self.members)
        if rests and not rested:
            log.warning("worker %d rests: %s", member.number, failed.why)
        if step.alive and rests:
            self._queue.put(step.work, step.number)
        elif step.alive:
            error = no_room(failed, "No worker has room on its disk: ")
            self._failed(step.work, step.number, error)

    def _keep(self, member: Member, work: FileWork, number: int, made: Made) -> None:
        """Fetches what a worker has made."""
        try:
            work.keeper.add(number, made, partial(fetch, self._cluster, member.handle, made))
        except OSError as error:
            raise unkept(work, error) from error
        self._cluster.call(member.handle, "drop", made.folder)
        part = work.parts[number]
        part.facts, part.scales = made.facts, None
        self.parts_done += 1
        member.made += made.facts.frames
        self.maps += len(made.map_ms)
        self.map_ms.extend(made.map_ms)
        self._publish_if_done(work)

    # ends of recordings

    def _failed(self, work: FileWork, number: int, error: Error) -> None:
        if self._losses.part_failed(work, number, error):
            self._give_up(work, error)
        else:
            log.info("%s, part %d: %s; it is tried again", work.name, number + 1, error)
            self._queue.put(work, number, time.monotonic() + AGAIN_S)

    def _give_up(self, work: FileWork, error: Error) -> None:
        work.error = error
        self._under_way.pop(work.number, None)
        work.give_back()
        if self._total > 1:
            self._failures.add(work.task.source, error)
        failed = FailedFile(work.order.source, str(error), error.exit_code)
        self._tell(lambda: self._listener.failed(failed))
        self._ended("failed", work, error)
        if self._total == 1:
            raise error

    def _publish_if_done(self, work: FileWork) -> None:
        if not work.done or work.plan is None or self._under_way.pop(work.number, None) is None:
            return
        facts = [part.facts for part in work.parts if part.facts]
        future = self._publisher.submit(
            publish, work.task, work.order, work.keeper, work.plan, facts, self._listener.finished
        )
        self._publishing[future] = work

    def _published(self) -> Iterator[tuple[FileWork, Report]]:
        for future in [future for future in self._publishing if future.done()]:
            work = self._publishing.pop(future)
            error = future.exception()
            if isinstance(error, OSError):
                error = write_error(work.task.target, error)
            if error is None:
                work.keeper.remove()
                self.finished += 1
                report = future.result()
                self.frames += report.frames
                self._ended("done", work, report)
                yield work, report
            elif isinstance(error, TransferError) or work.plan is None:
                raise error
            elif isinstance(error, InternalError) and work.plan.pieces:
                log.warning("%s is made in one piece: its parts cannot be joined", work.name)
                log.info("%s", error)
                work.in_one_piece()
                self._under_way[work.number] = work
                self._queue.put(work, 0)
            elif isinstance(error, Error):
                self._give_up(work, error)
            else:
                raise error

    def _tell(self, call: Callable[[], None]) -> None:
        """Tells the listener something where it hears of finished films, too."""
        self._publisher.submit(call).add_done_callback(_log_error)

    def _watch(self) -> None:
        if self._watcher.is_due():
            self._watcher.ask(self.members, self._share)
            for member in self._watcher.hanging(self.members):
                why = f"it did not answer for {member.silent_s:.0f} s" + member.where
                self._lose(member, why)
            newest = self._hiring.newest
            for member in self._watcher.unready(self.members):
                why = f"it was not ready after {member.loading_s:.0f} s" + member.where
                self._hiring.unready(member, newest, why)
            self._show(self)


def _log_error(future: "Future[None]") -> None:
    if not future.cancelled() and (error := future.exception()):
        log.warning("%s", error)
