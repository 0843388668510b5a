"""Our window as the X server knows it, through a connection of our own.

OpenCV keeps only the last key that came between two calls of `waitKey`. A second client of the
window gets every press in order, however long drawing takes. Without X11, as on other systems,
nothing here does anything.
"""

import contextlib
import functools
import io
import logging
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar

from realtime_lrp.view.window.keyboard import key_name

try:
    from Xlib import X
    from Xlib.display import Display
    from Xlib.error import XError
    from Xlib.protocol.event import ConfigureNotify, Expose, KeyPress, KeyRelease, MapNotify
    from Xlib.xobject.drawable import Window
except ImportError:  # not Linux
    Display = None

SEARCH_S = 1.0
"""Pause between two searches for a window that was not found."""

RELEASED_MS, REPEATED_MS = 5, 2000
"""A held key: X11 reports its release and a further press, within the first time of each other.
The second one is longer than the slowest keyboard takes to begin with that.
"""

TITLE_BAR = 48
"""Rows that the title bar of a window manager may take, in pixels."""

log = logging.getLogger(__name__)

T = TypeVar("T")


class X11Window:
    """Finds our window on the X server; reads its keys.

    Args:
      title: the window's title; the process has to be this one as well.
      once: names of keys that come once, however long they are held.

    Attributes:
      window: the window as it was found last, or None.
      managed: whether there was a window manager then.
      lost: whether the X server is gone; `check` notices it.
    """

    def __init__(self, title: str, once: Collection[str] = ()):
        self.window: Window | None = None
        self.managed = self.lost = False
        self._title, self._once = title, once
        self._pressed = 0, 0  # code of the last key, and time
        self._released: int | None = None  # time of its first release since then
        self._display: Display | None = None
        self._searched = 0.0

    def attempt(self, request: Callable[[], T], otherwise: T) -> T:
        """The result of a request; `otherwise` where there is no X11 or the request fails."""
        if Display is None:
            return otherwise
        try:
            return request()
        except XError as error:  # the window has just gone
            log.debug("%s", error)
        except Exception as error:
            log.debug("the connection to the display is lost: %s", error)
            self.close()
            self.lost = not _reachable()
        return otherwise

    @property
    def connection(self) -> "Display":
        """The connection to the X server; made when it is first needed."""
        if self._display is None:
            with contextlib.redirect_stdout(io.StringIO()):  # it warns of a missing .Xauthority
                self._display = Display()
            self._display.set_error_handler(lambda error, request: None)
        return self._display

    def find(self) -> bool:
        """Looks for the window, and reads its keys from then on.

        Returns:
          False where X11 works and there is no such window.
        """
        return self.attempt(self._find, otherwise=True)

    def check(self) -> None:
        """Notices whether the X server is gone; takes microseconds."""
        if self.window:
            self.attempt(self.connection.pending_events, otherwise=0)

    def keys(self) -> list[str] | None:
        """The names of the keys pressed since the last call, oldest first.

        Returns:
          None where the window is not known, so that no keys come this way.
        """
        if self.window is None:
            if Display is not None and time.monotonic() > self._searched + SEARCH_S:
                self.find()
                self.ask_manager()
            return None
        return self.attempt(lambda: list(self._read_keys()), otherwise=None)

    def shows(self, grey: int) -> bool:
        """Whether the middle of the window has this grey, 0 to 255; True without X11."""
        window = self.window
        if not window:
            return True
        return self.attempt(lambda: _pixel(window) == bytes([grey] * 3), otherwise=False)

    def remind(self, size: tuple[int, int]) -> None:
        """Tells Qt again that its window is on the screen, and how large it is.

        Qt loses events if many wait, as they do while this program is busy: its log lacked 8 to 49
        in a row. A window that it takes for hidden it never draws.

        Args:
          size: rows and columns of the window, as Qt knows them.
        """
        if window := self.window:
            self.attempt(lambda: self._remind(window, size), otherwise=None)

    def ask_manager(self) -> None:
        """Asks the window manager again to show our window, if it does not know it.

        One that has just started sometimes overlooks a new window, which then never appears.
        """
        if self.managed and self.window is None:
            self.attempt(self._ask_manager, otherwise=None)

    def free_area(self) -> tuple[int, int] | None:
        """Rows and columns that a window can take on the screen, without its title bar.

        Returns:
          None without X11.
        """
        return self.attempt(self._free_area, otherwise=None)

    def cover_screen(self) -> None:
        """Places the window over the whole screen, where there is no window manager to do it."""
        if self.window:
            self.attempt(self._cover_screen, otherwise=None)

    def close(self) -> None:
        """Closes the connection; the next request opens another one."""
        if self._display:
            with contextlib.suppress(Exception):
                self._display.close()
        self._display = self.window = None

    def value(self, window: "Window", name: str) -> Sequence[int] | None:
        """A property of a window, or None."""
        found = window.get_full_property(self.connection.intern_atom(name), X.AnyPropertyType)
        return found.value if found else None

    def _free_area(self) -> tuple[int, int]:
        root = self.connection.screen().root
        screen = root.get_geometry()
        if self._client_list() is None:
            return screen.height, screen.width
        area = self.value(root, "_NET_WORKAREA") or (0, 0, screen.width, screen.height)
        return area[3] - TITLE_BAR, area[2]

    def _remind(self, window: "Window", size: tuple[int, int]) -> None:
        if window.get_attributes().map_state != X.IsViewable:
            return
        known, real = {"event": window, "window": window, "override": 0}, window.get_geometry()
        window.send_event(MapNotify(**known))
        if size != (real.height, real.width):
            at = self.connection.screen().root.translate_coords(window, 0, 0)
            area = {"x": at.x, "y": at.y, "width": real.width, "height": real.height}
            border = {"above_sibling": X.NONE, "border_width": 0}
            window.send_event(ConfigureNotify(**known, **area, **border))
        window.send_event(Expose(window=window, x=0, y=0, width=1, height=1, count=0))
        self.connection.flush()

    def _ask_manager(self) -> None:
        for window in filter(self._is_ours, self.connection.screen().root.query_tree().children):
            if window.get_attributes().map_state == X.IsUnmapped:
                log.info("the window manager has lost the window and is asked again")
                window.map()
        self.connection.flush()

    def _cover_screen(self) -> None:
        window, screen = self.window, self.connection.screen().root.get_geometry()
        if window is None or self.managed:
            return
        size = {"width": screen.width, "height": screen.height, "border_width": 0}
        window.map()
        window.configure(x=0, y=0, stack_mode=X.Above, **size)
        window.set_input_focus(X.RevertToPointerRoot, X.CurrentTime)
        self.connection.flush()

    def _find(self) -> bool:
        self._searched = time.monotonic()
        client_list = self._client_list()
        self.managed = client_list is not None
        root = self.connection.screen().root
        candidates = client_list if client_list is not None else _descendants(root)
        found = next(filter(self._is_ours, candidates), None)
        if found and (self.window is None or found.id != self.window.id):
            found.change_attributes(event_mask=X.KeyPressMask | X.KeyReleaseMask)
            self.connection.sync()
        self.window = found
        return found is not None

    def _is_ours(self, window: "Window") -> bool:
        try:
            process = self.value(window, "_NET_WM_PID")
            title = self.value(window, "_NET_WM_NAME")
        except XError:  # another program's window that has just gone
            return False
        return (title, process and process[0]) == (self._title.encode(), os.getpid())

    def _client_list(self) -> "list[Window] | None":
        """The windows of the window manager; None where there is no window manager."""
        root = self.connection.screen().root
        sign = self.value(root, "_NET_SUPPORTING_WM_CHECK")
        if not sign:
            return None
        try:  # this property outlives a window manager that died
            self._opened(sign[0]).get_geometry()
        except XError:
            return None
        return [self._opened(number) for number in self.value(root, "_NET_CLIENT_LIST") or ()]

    def _opened(self, number: int) -> "Window":
        return self.connection.create_resource_object("window", number)

    def _read_keys(self) -> "Iterator[str]":
        display = self.connection
        while display.pending_events():  # others than keys are dropped, such as those of the wheel
            event = display.next_event()
            if event.type == X.MappingNotify:
                display.refresh_keyboard_mapping(event)
            elif isinstance(event, KeyRelease):
                if self._released is None and event.detail == self._pressed[0]:
                    self._released = event.time
            elif isinstance(event, KeyPress):
                keysym = functools.partial(display.keycode_to_keysym, event.detail)
                name = key_name(event.detail, event.state, keysym)
                repeats = self._repeats(event.detail, event.time)
                if name and not (repeats and name in self._once):
                    yield name

    def _repeats(self, code: int, time_ms: int) -> bool:
        """Whether a press, now noted as the last one, is of a key that is held.

        X11 reports a release just before the press: of a held key the first since its last press.
        """
        (last, pressed_ms), released_ms = self._pressed, self._released
        self._pressed, self._released = (code, time_ms), None
        down = released_ms is None or time_ms - released_ms <= RELEASED_MS
        return code == last and down and time_ms - pressed_ms <= REPEATED_MS


def _descendants(window: "Window", depth: int = 3) -> "Iterator[Window]":
    """The windows in a window: a window manager may have put ours into a frame."""
    for child in window.query_tree().children if depth else ():
        yield child
        with contextlib.suppress(XError):
            yield from _descendants(child, depth - 1)


def _reachable() -> bool:
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            Display().close()
    except Exception:
        return False
    return True


def _pixel(window: "Window") -> bytes:
    """The colour in the middle of a window."""
    size = window.get_geometry()
    middle = size.width // 2, size.height // 2, 1, 1
    return window.get_image(*middle, X.ZPixmap, 0xFFFFFFFF).data[:3]
