"""The exhibit's window on real displays, with and without a window manager."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from program import with_display, xdotool

from realtime_lrp.view.window import desktop, screen_power, x11

pytestmark = [pytest.mark.gui, pytest.mark.usefixtures("light_scripts")]

EXHIBIT = """
import logging, select, sys
import cv2, numpy as np
from realtime_lrp.view.window import full_screen, window, x11

logging.basicConfig(level="INFO", format="%(message)s")
class Ordinary(window.Window):
    reopened = 0

    def __init__(self):
        super().__init__()
        self.fill_screen(True)

    def tend(self):
        pass

if "--alone" in sys.argv:
    x11.Display = None
with (Ordinary if "--ordinary" in sys.argv else full_screen.FullScreen)() as window:
    said = None
    while not select.select([sys.stdin], [], [], 0.004)[0]:
        picture = np.full((*window.size, 3), (200, 0, 0), np.uint8)
        picture[len(picture) // 2 :] = 0, 0, 200
        window.show(picture)
        window.tend()
        for event in window.events():
            print(event, flush=True)
        if said != (said := (window.size, window.reopened)):
            print(said, flush=True)
"""
"""A red half above a blue one; what happens is printed. It ends when its input does."""

INHIBITOR = """#!/bin/sh
echo "$@" > {0}
cat
echo ended >> {0}
"""


class Screen:
    """A virtual display; `display` is a connection to it."""

    def __init__(self, name, file):
        self.name, self.file, self.display = name, file, x11.Display(name)
        self.root = self.display.screen().root
        self.size = 600, 800

    def xdotool(self, words):
        return xdotool(self.name, *words.split())

    def pixels(self):
        """The screen including the pointer: uint8 [H, W, 3] RGB."""
        data = self.file.read_bytes()
        header = np.frombuffer(data, ">u4", 25)
        columns, rows, colours = (int(header[place]) for place in (4, 5, 19))
        start = int(header[0]) + 12 * colours
        drawn = np.frombuffer(data, np.uint8, rows * columns * 4, start)
        return drawn.reshape(rows, columns, 4)[: self.size[0], : self.size[1], 2::-1]

    def covered(self):
        """Whether all pixels are the window's."""
        upper, lower = np.split(self.pixels(), 2)
        return (upper == (200, 0, 0)).all() and (lower == (0, 0, 200)).all()

    def managed(self):
        """Whether the window manager has started."""
        sign = self.display.intern_atom("_NET_SUPPORTING_WM_CHECK")
        return self.root.get_full_property(sign, desktop.X.AnyPropertyType)

    def window(self):
        found = []
        within(
            60, lambda: found.extend(self.xdotool("search --name ^realtime_lrp$").split()) or found
        )
        return int(found[-1])

    def send(self, kind, words, to_manager):
        """Sends a message to the window, or to the window manager about it."""
        x, atom = desktop.X, self.display.intern_atom
        words = [atom(word) if isinstance(word, str) else word for word in words]
        window = self.display.create_resource_object("window", self.window())
        message = desktop.ClientMessage(
            window=window,
            client_type=atom(kind),
            data=(32, words + [0] * (5 - len(words))),
        )
        mask = x.SubstructureRedirectMask | x.SubstructureNotifyMask
        (self.root if to_manager else window).send_event(message, mask if to_manager else 0)
        self.display.sync()

    def open_window(self):
        """Opens a white window above all others, with the focus."""
        self.display.set_error_handler(lambda error, request: None)  # a manager maps it later
        window = self.root.create_window(50, 60, 300, 200, 0, 24, background_pixel=0xFFFFFF)
        window.map()
        window.set_input_focus(desktop.X.RevertToNone, desktop.X.CurrentTime)
        self.display.sync()

    def become(self, rows, columns):
        """Changes the size of the screen."""
        display, root = self.display, self.root
        known = root.xrandr_get_screen_resources()
        crtc, output, at = known.crtcs[0], known.outputs[0], known.config_timestamp
        display.xrandr_set_crtc_config(crtc, at, 0, 0, 0, 1, [])
        root.xrandr_set_screen_size(columns, rows, 200, 150)
        mode = root.xrandr_create_mode((0, columns, rows, *[0] * 8, 5, 0), "small").mode
        display.xrandr_add_output_mode(output, mode)
        display.xrandr_set_crtc_config(crtc, at, 0, 0, mode, 1, [output])
        self.size = rows, columns


@contextmanager
def started(*words, **more):
    """Starts a process that does not outlive the block."""
    process = subprocess.Popen(words, **{"stderr": subprocess.DEVNULL, **more})
    try:
        yield process
    finally:
        process.kill()
        process.wait(60)


@pytest.fixture
def screen(request, tmp_path):
    """A display with openbox, or a bare one if the parameter says so."""
    missing = [name for name in ("Xvfb", "openbox", "xdotool") if not shutil.which(name)]
    if missing or x11.Display is None:
        pytest.skip(f"not installed: {', '.join(missing) or 'python-xlib'}")
    read, write = os.pipe()
    words = ("-displayfd", str(write), "-fbdir", str(tmp_path), "-screen", "0", "800x600x24")
    with ExitStack() as stack:
        stack.enter_context(started("Xvfb", *words, pass_fds=[write]))
        os.close(write)
        with os.fdopen(read) as answer:
            screen = Screen(f":{answer.readline().strip()}", tmp_path / "Xvfb_screen0")
        if getattr(request, "param", "managed") == "managed":
            manager = started("openbox", env=with_display(screen.name))
            screen.manager = stack.enter_context(manager)
            within(60, screen.managed)
        yield screen


@contextmanager
def exhibit(screen, *words, folder=None):
    """A window that covers the screen; yields its process and the lines that it printed."""
    environment = with_display(screen.name)
    if folder:
        environment["PATH"] = f"{folder}:{environment['PATH']}"
    pipe, lines = subprocess.PIPE, []
    command = (sys.executable, "-c", EXHIBIT, *words)
    with started(*command, stdin=pipe, stdout=pipe, text=True, env=environment) as process:
        reader = threading.Thread(target=lambda: lines.extend(map(str.strip, process.stdout)))
        reader.start()
        within(90, lambda: lines and screen.covered())
        yield process, lines
        process.stdin.close()
        process.wait(60)
        reader.join(60)


def within(seconds, condition):
    """Waits for a condition; fails if it is not met in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def disturb(screen, process, how):
    """Disturbs a window while its process is stopped: sees the harm, then the repair."""
    process.send_signal(signal.SIGSTOP)
    how()
    within(60, lambda: not screen.covered())
    process.send_signal(signal.SIGCONT)
    within(60, screen.covered)


def hears(screen, lines, key):
    """Whether a key reaches the window."""
    count = lines.count(key)
    press(screen, key, lambda: lines.count(key) > count)
    return True


def press(screen, key, condition):
    """Presses a key, again each 10 s: a window that just gets the focus back may miss it."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "pressed in vain"
        screen.xdotool(f"key {key}")
        with suppress(AssertionError):
            within(10, condition)


def test_under_a_window_manager_it_comes_back(screen):
    """Whatever happens to it: it covers the screen again, with the focus and no pointer."""
    screen.xdotool("mousemove 400 100")
    state = ["_NET_WM_STATE", [0, "_NET_WM_STATE_FULLSCREEN"]]
    with exhibit(screen) as (process, lines):
        assert lines[-1] == "((600, 800), 0)"
        disturb(screen, process, partial(screen.send, *state, to_manager=True))
        disturb(screen, process, lambda: screen.xdotool(f"windowminimize {screen.window()}"))
        disturb(screen, process, screen.open_window)
        assert hears(screen, lines, "k")
        screen.xdotool(f"windowmove {screen.window()} 100 100")
        screen.xdotool(f"windowsize {screen.window()} 300 200")
        within(60, screen.covered)
        press(screen, "alt+F4", lambda: lines[-1] == "((600, 800), 1)")
        within(60, screen.covered)
        assert hears(screen, lines, "j")
        screen.xdotool(f"windowclose {screen.window()}")
        within(60, lambda: lines[-1] == "((600, 800), 2)" and screen.covered())
        screen.manager.kill()
        disturb(screen, process, lambda: screen.xdotool(f"windowmove {screen.window()} 90 90"))
        assert hears(screen, lines, "m")
    assert process.returncode == 0


@pytest.mark.parametrize("screen", ["bare"], indirect=True)
def test_without_a_window_manager_it_has_the_screen_and_the_keys(screen):
    """It is placed and focused; pointer and screen saver come back at the end."""
    display, delete = screen.display, ["WM_PROTOCOLS", ["WM_DELETE_WINDOW"]]
    with exhibit(screen) as (process, lines):
        screen.xdotool("mousemove 400 100 click 1 click 3")
        assert hears(screen, lines, "k")
        assert lines[-5] == "Mouse(x=400, y=100, button='left')"
        assert lines[-3] == "Mouse(x=400, y=100, button='right')"
        assert screen.covered(), "no pointer, no menu"
        disturb(screen, process, lambda: screen.xdotool(f"windowmove {screen.window()} 100 90"))
        disturb(screen, process, lambda: screen.xdotool(f"windowsize {screen.window()} 300 300"))
        disturb(screen, process, screen.open_window)
        assert hears(screen, lines, "h")
        screen.send(*delete, to_manager=False)
        within(60, lambda: lines[-1] == "((600, 800), 1)" and screen.covered())
        disturb(screen, process, partial(screen.become, 480, 640))
        within(60, lambda: "((480, 640), 1)" in lines)
        assert hears(screen, lines, "j")
        display.set_screen_saver(300, 60, 1, 1)
        within(60, lambda: display.get_screen_saver().timeout == 0)
    screen.xdotool("mousemove 300 300")
    assert len(np.unique(screen.pixels()[290:310, 290:310])) > 1, "the pointer is seen again"
    assert display.get_screen_saver().timeout == 300


def test_qt_is_told_again_what_it_has_missed(screen):
    """A window that Qt takes for hidden, or for small, is drawn again."""
    from Xlib.protocol.event import ConfigureNotify, UnmapNotify  # not on every system

    area = {"x": 0, "y": 0, "width": 300, "height": 200, "border_width": 0, "override": 0}
    hidden = partial(UnmapNotify, from_configure=0)
    small = partial(ConfigureNotify, above_sibling=desktop.X.NONE, **area)

    def deceive(event):
        window = screen.display.create_resource_object("window", screen.window())
        window.send_event(event(event=window, window=window))
        window.fill_rectangle(window.create_gc(foreground=0xFFFFFF), 0, 0, 800, 600)
        screen.display.sync()

    with exhibit(screen) as (process, lines):
        for event in (hidden, small):
            disturb(screen, process, partial(deceive, event))
        assert hears(screen, lines, "k")


@pytest.mark.parametrize("screen", ["bare", "managed"], indirect=True)
def test_an_ordinary_window_is_never_black_and_can_fill_the_screen(screen):
    """Also without a window manager, where it was sometimes never drawn; keys reach it."""
    screen.display.xfixes_query_version()
    screen.root.xfixes_hide_cursor()  # it is over the middle
    screen.display.sync()
    with exhibit(screen, "--ordinary") as (process, lines):
        screen.xdotool(f"windowfocus --sync {screen.window()}")
        assert hears(screen, lines, "k")
    assert process.returncode == 0


def test_opencv_offers_visitors_nothing(screen, tmp_path):
    """OpenCV's own keys save and open nothing, the wheel does not zoom, the session stays awake."""
    tool, told = tmp_path / desktop.INHIBIT[0], tmp_path / "told"
    tool.write_text(INHIBITOR.format(told))
    tool.chmod(0o755)
    with exhibit(screen, folder=tmp_path) as (process, lines):
        windows = screen.xdotool("search --onlyvisible --name .")
        screen.xdotool("mousemove 400 100 click 4 click 4 click 6 keydown ctrl click 4 keyup ctrl")
        screen.xdotool("key ctrl+s ctrl+p ctrl+x ctrl+z ctrl+plus ctrl+Left ctrl+c Menu click 3")
        assert hears(screen, lines, "k")
        assert screen.covered()
        assert screen.xdotool("search --onlyvisible --name .") == windows
        assert "((600, 800), 1)" not in lines
        assert told.read_text().split() == list(desktop.INHIBIT[1:])
        process.kill()
        within(60, lambda: told.read_text().endswith("ended\n"))


@pytest.mark.release
def test_without_x11_a_zoom_is_undone_by_reopening(screen):
    """The wheel then zooms the window for less than two seconds."""
    with exhibit(screen, "--alone") as (_, lines):
        screen.xdotool("mousemove 400 100 click 4 click 4 click 4")
        within(3, lambda: "((600, 800), 1)" in lines and not screen.pixels()[301:, 10, 0].any())


@pytest.mark.parametrize("screen", ["bare"], indirect=True)
def test_a_broken_x11_connection_is_reopened(screen, monkeypatch):
    """Nothing is raised; the next look at the desktop has a connection."""
    monkeypatch.setenv("DISPLAY", screen.name)
    monkeypatch.setenv("QT_XCB_NO_XI2", "")
    window = x11.X11Window("there is no such window")
    one = desktop.Desktop(window)
    assert not one.hold()
    first = window.connection
    first.display.socket.shutdown(2)
    assert one.hold(), "nothing is known"
    one.power.off = True
    assert not one.hold()
    assert one.power.fault == screen_power.NO_DPMS, "of Xvfb"
    assert window.connection is not first
    monkeypatch.setenv("DISPLAY", ":987")
    one.close()
    assert one.hold()
    one.close()


class PowerSwitch:
    """The DPMS of an X server.

    Attributes:
      enabled, level: as the server has them; the level is 0 while the screen is on, 3 while off.
      done: the requests that change something.
    """

    def __init__(self, enabled=False, capable=True, obeys=True):
        self.enabled, self.level, self.done = enabled, 0, []
        self._capable, self._obeys = capable, obeys

    def has_extension(self, name):
        return name == "DPMS"

    def dpms_capable(self):
        return SimpleNamespace(capable=self._capable)

    def dpms_info(self):
        return SimpleNamespace(state=self.enabled, power_level=self.level)

    def dpms_enable(self):
        self.enabled = True
        self.done.append("enable")

    def dpms_disable(self):
        self.enabled, self.level = False, 0
        self.done.append("disable")

    def dpms_force_level(self, level):
        assert self.enabled, "a server refuses this"
        self.level = level if self._obeys else 0
        self.done.append(level)

    def sync(self):
        pass

    def close(self):
        pass


def power_of(server):
    """The power of a screen, over a connection to a server."""
    window = x11.X11Window("")
    window._display = server
    return screen_power.ScreenPower(window)


@pytest.mark.parametrize("before", [True, False])
def test_energy_saving_is_off_until_the_end(before):
    """It is switched off whenever it is on, and on again at the end if it was on at first."""
    server = PowerSwitch(enabled=before)
    power = power_of(server)
    for _ in range(2):
        power.apply()
        assert not server.enabled and power.fault == ""
    power.restore()
    assert server.enabled == before
    assert server.done == (["disable", "enable"] if before else [])


def test_a_screen_is_switched_off_and_on():
    """Off again after input woke it; on at once when wanted, and at the end of the program."""
    server = PowerSwitch()
    power = power_of(server)
    power.off = True
    for _ in range(3):
        power.apply()
        assert server.level == 3 and power.fault == ""
    assert server.done == ["enable", 3]
    server.level = 0
    power.apply()
    assert server.level == 3
    power.off = False
    power.apply()
    assert (server.level, server.enabled) == (0, False)
    power.off = True
    power.apply()
    power.restore()
    assert (server.level, server.enabled) == (0, False)


def test_a_screen_that_cannot_be_switched_off_is_told():
    """Without DPMS, where it has no effect, and where the X server is gone; nothing is raised."""
    dead = SimpleNamespace(close=lambda: None)
    for server, fault in (
        (PowerSwitch(capable=False), screen_power.NO_DPMS),
        (PowerSwitch(obeys=False), screen_power.STAYS_ON),
        (dead, screen_power.NO_X11),
    ):
        power = power_of(server)
        power.off = True
        power.apply()
        assert power.fault == fault
        if server is not dead:
            power.off = False
            power.apply()
            assert power.fault == ""
        power.restore()
