"""Workers of an archive's job as threads of this process, which can be lost on purpose."""

import logging
import socket
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from realtime_lrp.commands.video.archive import cluster
from realtime_lrp.commands.video.archive.worker import Worker


class ThreadCluster:
    """Stands for `Cluster`.

    Args:
      on_call: called with (method, arguments) before each call; what it raises, `get` raises.

    Attributes:
      calls: the methods that were called, with their arguments.
      machines: how many there are; each worker knows the number of its own.
    """

    local = True
    machines = 1

    def __init__(self, on_call=lambda method, arguments: None):
        self.calls, self._on_call, self._excluded = [], on_call, set()

    def resources(self):
        return [2], 0

    def may_be_waiting(self, share, workers):
        return False

    def exclude_machine(self, handle):
        self._excluded.add(handle.worker.machine)
        return f"machine {handle.worker.machine}"

    def room(self, share):
        return self.machines - len(self._excluded)

    def new_worker(self, share, memory):
        left = set(range(self.machines)) - self._excluded
        return Handle(min(left, default=0))

    def call(self, handle, method, *arguments):
        self.calls.append((method, arguments))

        def do():
            self._on_call(method, arguments)
            return getattr(handle.worker, method)(*arguments)

        if method in ("status", "read", "drop", "close"):
            future = Future()
            future.set_result(getattr(handle.worker, method)(*arguments))
            return future
        return handle.threads.submit(do)

    def wait(self, calls, timeout_s):
        return list(wait(calls, timeout_s, FIRST_COMPLETED).done)

    def get(self, call):
        return call.result()

    def end_worker(self, handle):
        handle.worker.close()
        handle.threads.shutdown(wait=False)

    def close(self):
        pass

    def count(self, method):
        """How often a method was called."""
        return sum(name == method for name, _ in self.calls)


class Handle:
    """A worker, and the thread in which it works."""

    def __init__(self, machine):
        self.worker, self.threads = Worker(0), ThreadPoolExecutor(1)
        self.worker.machine = machine
        logging.getLogger().removeHandler(self.worker._log)  # the job logs in this process, too


def lost(*_):
    """What `get` raises where a worker is gone."""
    raise cluster.WorkerLostError(f"killed on {socket.gethostname()}")
