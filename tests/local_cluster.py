"""A cluster in this process: its workers' calls are done when they are made, in order."""

import logging
from concurrent.futures import Future

from realtime_lrp.commands.video.archive.worker import Worker


class LocalCluster:
    """Takes the place of `Cluster`; a job then runs without Ray and without other processes.

    Attributes:
      workers: those that were begun.
      made: makes a worker, of the number of threads.
    """

    local = True
    made = Worker

    def __init__(self, address=None):
        self.workers = []

    def resources(self):
        return 1, 0

    def new_worker(self, share, memory):
        self.workers.append(self.made(0, logging.getLogger().level))
        return self.workers[-1]

    def call(self, worker, method, *arguments):
        call = Future()
        try:
            call.set_result(getattr(worker, method)(*arguments))
        except BaseException as error:
            call.set_exception(error)
        return call

    def wait(self, calls, timeout_s):
        return list(calls)

    def get(self, call):
        return call.result()

    def end_worker(self, worker):
        if log := getattr(worker, "_log", None):
            logging.getLogger().removeHandler(log)

    def close(self):
        pass
