"""Requests to an X11 desktop: full screen, no pointer, no screen saver.

Without X11, as on other systems, nothing is requested.
"""

import logging
import os
import shutil
import subprocess

from realtime_lrp.view.window.screen_power import ScreenPower
from realtime_lrp.view.window.x11 import X11Window

try:
    from Xlib import X
    from Xlib.display import Display
    from Xlib.protocol.event import ClientMessage
    from Xlib.protocol.request import GetScreenSaver
    from Xlib.xobject.drawable import Window
except ImportError:  # not Linux
    pass

INHIBIT = (
    "systemd-inhibit", "--what=idle:sleep", "--who=realtime-lrp", "--why=exhibit", "--mode=block",
    "cat",
)  # fmt: skip
"""Keeps the session awake until its standard input closes, which is when this program ends."""

WHEEL = (4, 5, 6, 7)
"""The button numbers of mouse wheels in X11."""

ADD, PAGER = 1, 2
"""Numbers of the window manager protocol: set a window's state; the request comes from a pager."""

log = logging.getLogger(__name__)


class Desktop:
    """Keeps a window of this program on the screen, and the screen awake.

    Create it before the window: Qt then receives wheels as buttons, which can be withheld from it.

    Args:
      x11: finds the window.

    Attributes:
      power: keeps the screen on, or off.
    """

    def __init__(self, x11: X11Window):
        os.environ.setdefault("QT_XCB_NO_XI2", "1")
        self._x11 = x11
        self.power = ScreenPower(x11)
        self._pointer_hidden_by: Display | None = None
        self._saver: GetScreenSaver | None = None
        self._inhibitor: subprocess.Popen[bytes] | None = None
        self._begun = False

    def hold(self) -> bool:
        """Restores everything; cheap enough to be called once a second.

        The window comes to the front, fills the screen and has the focus. The pointer is hidden,
        the wheel has no effect, screen saver and energy saving are off.

        Returns:
          False where X11 works and there is no such window.
        """
        self._look_after_inhibitor()
        self.power.apply()
        return self._x11.find() and self._x11.attempt(self._hold, otherwise=True)

    def close(self) -> None:
        """Restores the desktop as it was before."""
        if self._saver:
            self._x11.attempt(self._restore, otherwise=None)
        self.power.restore()
        self._x11.close()  # this shows the pointer
        if self._inhibitor:
            self._inhibitor.communicate()
            self._inhibitor = None

    def _restore(self) -> None:
        display = self._x11.connection
        if self._saver:
            self._set_saver(self._saver, self._saver.timeout)
        display.sync()

    def _look_after_inhibitor(self) -> None:
        if not self._begun:
            self._begun, self._inhibitor = True, _inhibitor()
        if self._inhibitor and self._inhibitor.poll() is not None:
            log.info("the session may fall asleep: %s failed", INHIBIT[0])
            self._inhibitor = None

    def _keep_awake(self) -> None:
        display = self._x11.connection
        saver = display.get_screen_saver()
        if saver.timeout:
            self._saver = saver
            self._set_saver(saver, 0)
            display.force_screen_saver(X.ScreenSaverReset)

    def _set_saver(self, saver: "GetScreenSaver", timeout_s: int) -> None:
        self._x11.connection.set_screen_saver(
            timeout_s, saver.interval, saver.prefer_blanking, saver.allow_exposures
        )

    def _hold(self) -> bool:
        self._keep_awake()
        self._hide_pointer()
        window, display = self._x11.window, self._x11.connection
        if window is None:
            return True
        if self._x11.managed:
            self._ask_manager(window)
        else:
            self._x11.cover_screen()
        for button in WHEEL:
            asynchronous = X.GrabModeAsync, X.GrabModeAsync
            window.grab_button(
                button, X.AnyModifier, False, X.ButtonPressMask, *asynchronous, X.NONE, X.NONE
            )
        display.flush()
        return True

    def _hide_pointer(self) -> None:
        """Hides the pointer; it stays hidden as long as the connection is open."""
        display = self._x11.connection
        if display is not self._pointer_hidden_by:
            self._pointer_hidden_by = display
            display.xfixes_query_version()
            display.screen().root.xfixes_hide_cursor()

    def _ask_manager(self, window: "Window") -> None:
        full = self._x11.connection.intern_atom("_NET_WM_STATE_FULLSCREEN")
        root = self._x11.connection.screen().root
        for name, words in {
            "_NET_WM_STATE": (ADD, full, 0, PAGER, 0),
            "_NET_ACTIVE_WINDOW": (PAGER, X.CurrentTime, 0, 0, 0),
        }.items():
            kind = self._x11.connection.intern_atom(name)
            message = ClientMessage(window=window, client_type=kind, data=(32, words))
            root.send_event(message, X.SubstructureRedirectMask | X.SubstructureNotifyMask)


def _inhibitor() -> subprocess.Popen[bytes] | None:
    if not shutil.which(INHIBIT[0]):
        return None
    quiet = subprocess.DEVNULL
    own = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
    return subprocess.Popen(INHIBIT, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, env=own)
