"""Stands for Ray: makes films in this process, and loses workers on purpose."""

import copy
import logging
from pathlib import Path

from realtime_lrp.commands.video.cluster import make_film
from realtime_lrp.errors import TemporaryError


class HereCluster:
    """Stands for `Cluster`; gives two workers.

    Args:
      on_call: called with the recording's name before each film; what it raises, `get` raises.
      after: the same, once the film is there.
    """

    count = 2

    def __init__(self, on_call=lambda name: None, after=lambda name: None):
        self._on_call, self._after = on_call, after
        self.made, self._calls = [], []

    def __call__(self, config, options):
        """What stands for the class."""
        self._job = config, options
        return self

    def begin(self, task):
        self._calls.append((*self._job, task, 1, Path.cwd(), None, logging.root.level))
        return len(self._calls) - 1

    def wait(self, calls, timeout_s):
        return calls[:1]

    def get(self, call):
        order = self._calls[call]
        name = order[2].source.name
        self._on_call(name)
        level = logging.root.level
        try:
            self.made.append(name)
            outcome = make_film(*copy.deepcopy(order))
            self._after(name)
            return outcome
        finally:
            logging.root.setLevel(level)

    def close(self):
        pass


def lost(*_):
    """What `get` raises where a worker was lost at each try."""
    raise TemporaryError("was lost with its worker 4 times")
