"""Ends the program when the display is lost in the middle of a call, where nothing can be raised.

A display that stops answering blocks the call for ever, and not even a signal interrupts it. When
the connection breaks, Qt calls `exit`, whose handlers then crash in libraries that still work.
"""

import ctypes
import logging
import os
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

from realtime_lrp.errors import Error, UnavailableError
from realtime_lrp.system.temporary import remove_temporary_folders

CHECKS, PAUSE_S = 20, 1.0
"""The display counts as dead when so many checks, so far apart, find the same call waiting.

Checks are counted, not seconds: while the program itself is stopped there are none.
"""

GONE = "The display is gone. Start again when there is one, or with --display none."
SILENT = f"The display has not answered for {CHECKS} s. Start again when it does."

log = logging.getLogger(__name__)


def end_program(message: str, finish: Callable[[], object]) -> NoReturn:
    """Ends the process with exit code 69, without unwinding it.

    Args:
      message: is logged as an error.
      finish: called before the end, to complete files.
    """
    try:
        log.error(message)
        finish()
    except Error as error:
        log.error("%s", error)
    finally:
        remove_temporary_folders()
        os._exit(UnavailableError.exit_code)


class ExitHook:
    """Calls a function if the C library's `exit` is called inside `with hook: ...`.

    It comes before all other exit handlers. On other systems than Linux nothing is called.

    Args:
      function: has to end the process, or the other handlers follow.
    """

    def __init__(self, function: Callable[[], object]):
        self._function, self._inside, self._process = function, False, os.getpid()
        self._handler = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._called)
        self._group = ctypes.create_string_buffer(1)  # its address names the handlers to remove
        self._c = ctypes.PyDLL(None) if sys.platform == "linux" else None

    def __enter__(self) -> None:
        if self._c:
            self._inside = True
            self._c["__cxa_atexit"](self._handler, None, self._group)

    def __exit__(self, *exception: object) -> None:
        if self._c:
            self._inside = False
            self._c["__cxa_finalize"](self._group)  # calls the handler once more and removes it

    def _called(self, _: object) -> None:
        if self._inside and os.getpid() == self._process:
            self._function()


class DisplayWatch:
    """Watches the calls that wait for the display: `with watch: ...`.

    Args:
      end: called with a message when a call never returns or ends the process.
      checks, pause_s: see `CHECKS`.
    """

    def __init__(self, end: Callable[[str], None], checks: int = CHECKS, pause_s: float = PAUSE_S):
        self._checks, self._pause_s, self._end = checks, pause_s, end
        self._call, self._waiting = 0, False
        self._hook = ExitHook(lambda: end(GONE))
        self._stop = threading.Event()
        threading.Thread(target=self._run, name="display watch", daemon=True).start()

    def __enter__(self) -> None:
        self._call, self._waiting = self._call + 1, True
        self._hook.__enter__()

    def __exit__(self, *exception: object) -> None:
        self._hook.__exit__()
        self._waiting = False

    def stop(self) -> None:
        """Watches no longer for calls that do not return."""
        self._stop.set()

    def _run(self) -> None:
        last, same = 0, 0
        while not self._stop.wait(self._pause_s):
            same = same + 1 if self._waiting and self._call == last else 0
            last = self._call
            if same >= self._checks:
                self._end(SILENT)
                return
