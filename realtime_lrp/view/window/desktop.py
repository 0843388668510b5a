"""Requests to an X11 desktop: full screen, no pointer, no screen saver.

They go through a connection of their own. Without X11, as on other systems, nothing is requested.
"""

import contextlib
import io
import logging
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from typing import TypeVar

try:
    from Xlib import X
    from Xlib.display import Display
    from Xlib.error import XError
    from Xlib.protocol.event import ClientMessage
    from Xlib.protocol.request import GetScreenSaver
    from Xlib.xobject.drawable import Window
except ImportError:  # not Linux
    Display = None

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

T = TypeVar("T")


class Desktop:
    """Keeps a window of this program on the screen, and the screen awake.

    Create it before the window: Qt then receives wheels as buttons, which can be withheld from it.

    Args:
      title: the window's title.
    """

    def __init__(self, title: str):
        os.environ.setdefault("QT_XCB_NO_XI2", "1")
        self._title = title
        self._display: Display | None = None
        self._saver: GetScreenSaver | None = None
        self._saves_energy = False
        self._inhibitor: subprocess.Popen[bytes] | None = None
        self._begun = False
        self._held: Window | None = None

    def hold(self) -> bool:
        """Restores everything; cheap enough to be called once a second.

        The window comes to the front, fills the screen and has the focus. The pointer is hidden,
        the wheel has no effect, screen saver and energy saving are off.

        Returns:
          False where X11 works and there is no such window.
        """
        if Display is None:
            return True
        self._look_after_inhibitor()
        return self._try(self._hold, otherwise=True)

    def shows(self, grey: int) -> bool:
        """Whether the middle of the window has this grey, 0 to 255; True without X11."""
        window = self._held
        if not window:
            return True
        return self._try(lambda: _pixel(window) == bytes([grey] * 3), otherwise=False)

    def map_again(self) -> None:
        """Takes the window off the screen and puts it back."""
        if window := self._held:
            self._try(lambda: (window.unmap(), window.map()), otherwise=None)

    def close(self) -> None:
        """Restores the desktop as it was before."""
        if display := self._display:
            with contextlib.suppress(Exception):
                if self._saver:
                    self._set_saver(self._saver, self._saver.timeout)
                if self._saves_energy:
                    display.dpms_enable()
                display.sync()
        self._leave()
        if self._inhibitor:
            self._inhibitor.communicate()
            self._inhibitor = None

    def _try(self, request: Callable[[], T], otherwise: T) -> T:
        """The result of a request; `otherwise` where it fails."""
        try:
            return request()
        except XError as error:  # the window has just gone
            log.debug("%s", error)
        except Exception as error:
            log.debug("the connection to the display is lost: %s", error)
            self._leave()
        return otherwise

    @property
    def _connection(self) -> "Display":
        """The connection; made when it is first needed."""
        self._display = self._display or _connected()
        return self._display

    def _leave(self) -> None:
        """Closes the connection; the pointer is visible again."""
        if self._display:
            with contextlib.suppress(Exception):
                self._display.close()
        self._display = self._held = None

    def _look_after_inhibitor(self) -> None:
        if not self._begun:
            self._begun, self._inhibitor = True, _inhibitor()
        if self._inhibitor and self._inhibitor.poll() is not None:
            log.info("the session may fall asleep: %s failed", INHIBIT[0])
            self._inhibitor = None

    def _keep_awake(self) -> None:
        display = self._connection
        saver = display.get_screen_saver()
        if saver.timeout:
            self._saver = saver
            self._set_saver(saver, 0)
            display.force_screen_saver(X.ScreenSaverReset)
        if display.has_extension("DPMS") and display.dpms_info().state:
            self._saves_energy = True
            display.dpms_disable()

    def _set_saver(self, saver: "GetScreenSaver", timeout_s: int) -> None:
        self._connection.set_screen_saver(
            timeout_s, saver.interval, saver.prefer_blanking, saver.allow_exposures
        )

    def _hold(self) -> bool:
        display = self._connection
        while display.pending_events():  # those of the wheel
            display.next_event()
        self._keep_awake()
        managed = self._managed()
        window = self._held = self._window(managed)
        if window is None:
            return False
        if managed is None:
            self._place(window)
        else:
            self._ask_manager(window)
        for button in WHEEL:
            asynchronous = X.GrabModeAsync, X.GrabModeAsync
            window.grab_button(
                button, X.AnyModifier, False, X.ButtonPressMask, *asynchronous, X.NONE, X.NONE
            )
        display.flush()
        return True

    def _place(self, window: "Window") -> None:
        """Places the window where there is no window manager to do it."""
        screen = self._connection.screen().root.get_geometry()
        size = {"width": screen.width, "height": screen.height, "border_width": 0}
        window.map()
        window.configure(x=0, y=0, stack_mode=X.Above, **size)
        window.set_input_focus(X.RevertToPointerRoot, X.CurrentTime)

    def _ask_manager(self, window: "Window") -> None:
        full = self._connection.intern_atom("_NET_WM_STATE_FULLSCREEN")
        root = self._connection.screen().root
        for name, words in {
            "_NET_WM_STATE": (ADD, full, 0, PAGER, 0),
            "_NET_ACTIVE_WINDOW": (PAGER, X.CurrentTime, 0, 0, 0),
        }.items():
            kind = self._connection.intern_atom(name)
            message = ClientMessage(window=window, client_type=kind, data=(32, words))
            root.send_event(message, X.SubstructureRedirectMask | X.SubstructureNotifyMask)

    def _managed(self) -> "list[Window] | None":
        """The windows of the window manager; None where there is no window manager."""
        root = self._connection.screen().root
        sign = self._value(root, "_NET_SUPPORTING_WM_CHECK")
        if not sign:
            return None
        try:  # this property outlives a window manager that died
            self._opened(sign[0]).get_geometry()
        except XError:
            return None
        return [self._opened(one) for one in self._value(root, "_NET_CLIENT_LIST") or ()]

    def _window(self, managed: "list[Window] | None") -> "Window | None":
        """The window, or None."""
        root = self._connection.screen().root
        wanted = self._title.encode(), os.getpid()
        for one in root.query_tree().children if managed is None else managed:
            process = self._value(one, "_NET_WM_PID")
            if (self._value(one, "_NET_WM_NAME"), process and process[0]) == wanted:
                return one
        return None

    def _opened(self, number: int) -> "Window":
        return self._connection.create_resource_object("window", number)

    def _value(self, window: "Window", name: str) -> Sequence[int] | None:
        """A property of a window, or None."""
        found = window.get_full_property(self._connection.intern_atom(name), X.AnyPropertyType)
        return found.value if found else None


def _pixel(window: "Window") -> bytes:
    """The colour in the middle of a window."""
    size = window.get_geometry()
    middle = size.width // 2, size.height // 2, 1, 1
    return window.get_image(*middle, X.ZPixmap, 0xFFFFFFFF).data[:3]


def _connected() -> "Display":
    """A connection that hides the pointer while it is open."""
    with contextlib.redirect_stdout(io.StringIO()):  # where it warns about a missing .Xauthority
        display = Display()
    display.set_error_handler(lambda error, request: None)
    display.xfixes_query_version()
    display.screen().root.xfixes_hide_cursor()
    return display


def _inhibitor() -> subprocess.Popen[bytes] | None:
    if not shutil.which(INHIBIT[0]):
        return None
    quiet = subprocess.DEVNULL
    own = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
    return subprocess.Popen(INHIBIT, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, env=own)
