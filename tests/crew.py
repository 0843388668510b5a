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
    """

    local = True

    def __init__(self, on_call=lambda method, arguments: None):
        self.calls, self._on_call = [], on_call

    def resources(self):
        return [2], 0

    def may_be_waiting(self, share, workers):
        return False

    def new_worker(self, share, memory):
        return Handle()

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

    def __init__(self):
        self.worker, self.threads = Worker(0), ThreadPoolExecutor(1)
        logging.getLogger().removeHandler(self.worker._log)  # the job logs in this process, too


def lost(*_):
    """What `get` raises where a worker is gone."""
    raise cluster.WorkerLostError(f"killed on {socket.gethostname()}")
