"""Whether there is a display. To be asked first: Qt ends the process where it cannot connect."""

import ctypes
import ctypes.util
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from realtime_lrp.errors import UnavailableError

RETRY_S, PAUSE_S = 1.0, 0.05
"""How long a refused connection is tried again, and the pause between two tries: an X server may
refuse connections while it resets, which it does when its last client leaves."""


@contextmanager
def display_connection() -> Iterator[None]:
    """Keeps a connection to the display open, so that an X server does not reset meanwhile.

    Raises:
      UnavailableError: there is no display.
    """
    if sys.platform != "linux":
        yield
        return
    xcb = _library() if os.environ.get("DISPLAY") else None
    connection = _connect(xcb) if xcb else None
    if xcb is None or connection is None:
        raise UnavailableError(
            "There is no display to open a window on. Set DISPLAY to a running one, "
            "or add --display none."
        )
    try:
        yield
    finally:
        xcb.xcb_disconnect(connection)


def require_display() -> None:
    """Refuses to continue without a display.

    Raises:
      UnavailableError: there is no display.
    """
    with display_connection():
        pass


def display_reachable() -> bool:
    """Whether a window can be opened."""
    try:
        require_display()
    except UnavailableError:
        return False
    return True


def _connect(xcb: ctypes.CDLL) -> ctypes.c_void_p | None:
    """A connection to the X server; None where it refuses all tries."""
    end = time.monotonic() + RETRY_S
    while True:
        connection = ctypes.c_void_p(xcb.xcb_connect(None, None))
        if not xcb.xcb_connection_has_error(connection):
            return connection
        xcb.xcb_disconnect(connection)
        if time.monotonic() > end:
            return None
        time.sleep(PAUSE_S)


def _library() -> ctypes.CDLL | None:
    """The library XCB, or None."""
    try:
        xcb = ctypes.CDLL(ctypes.util.find_library("xcb") or "libxcb.so.1")
    except OSError:
        return None
    xcb.xcb_connect.restype = ctypes.c_void_p
    return xcb
