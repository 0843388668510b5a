"""Ends the program when the display stops answering: nothing else can, not even a signal."""

import logging
import os
import threading
from collections.abc import Callable

from realtime_lrp.errors import UnavailableError

CHECKS, PAUSE_S = 20, 1.0
"""The display counts as dead when so many checks, so far apart, find the same call waiting.

Checks are counted, not seconds: while the program itself is stopped there are none.
"""

log = logging.getLogger(__name__)


def _end_program() -> None:
    log.error("The display has not answered for %.0f s. Start again when it does.", CHECKS)
    os._exit(UnavailableError.exit_code)


class DisplayWatch:
    """Watches the calls that wait for the display: `with watch: ...`.

    Args:
      checks, pause_s: see `CHECKS`.
      end: called when a call never returns.
    """

    def __init__(
        self,
        checks: int = CHECKS,
        pause_s: float = PAUSE_S,
        end: Callable[[], None] = _end_program,
    ):
        self._checks, self._pause_s, self._end = checks, pause_s, end
        self._call, self._waiting = 0, False
        self._stop = threading.Event()
        threading.Thread(target=self._run, name="display watch", daemon=True).start()

    def __enter__(self) -> None:
        self._call, self._waiting = self._call + 1, True

    def __exit__(self, *exception: object) -> None:
        self._waiting = False

    def stop(self) -> None:
        """Watches no longer."""
        self._stop.set()

    def _run(self) -> None:
        last, same = 0, 0
        while not self._stop.wait(self._pause_s):
            same = same + 1 if self._waiting and self._call == last else 0
            last = self._call
            if same >= self._checks:
                self._end()
                return
