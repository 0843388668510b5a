"""Keys of a real window: each press arrives, in order, however slowly pictures are drawn."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time

import pytest
from faults.clock import until
from program import opened_window, repeating, with_display, xdotool

from realtime_lrp.commands.kiosk.lock import hash_pin
from realtime_lrp.view.window import display as display_module
from realtime_lrp.view.window.keyboard import key_name
from realtime_lrp.view.window.watch import GONE, DisplayWatch
from realtime_lrp.view.window.x11 import X11Window

pytestmark = pytest.mark.usefixtures("light_scripts")

LETTERS = "abcdefghijklmnopqrst"

SLOW = """
import threading
import time
import numpy as np
from realtime_lrp.view.window.{module} import {kind}

with {kind}() as window:
    print("open", flush=True)
    while True:
        time.sleep(0.15)
        window.show(np.zeros((*window.size, 3), np.uint8))
        for event in window.events():
            if isinstance(event, str):
                print(event, flush=True)
"""
"""A window whose pictures take 150 ms; prints its keys."""

SLOW_EXHIBIT = """
import sys, time
from realtime_lrp.cli import main
from realtime_lrp.commands.kiosk.screen import ScreenArtist

draw = ScreenArtist.draw
ScreenArtist.draw = lambda *arguments: (time.sleep(0.15), draw(*arguments))[1]
main()
"""


@pytest.mark.gui
@pytest.mark.parametrize(
    ("module", "kind", "repeated"),
    [("window", "Window", False), ("full_screen", "FullScreen", True)],
)
def test_each_of_20_presses_arrives_in_order(module, kind, repeated, display):
    """They come every 25 ms, a picture takes 150 ms; a held Esc repeats in the exhibit only."""
    code = SLOW.format(module=module, kind=kind)
    pipe, keys = {"stdout": subprocess.PIPE, "text": True}, []
    with subprocess.Popen(
        [sys.executable, "-c", code], env=with_display(display), **pipe
    ) as process:
        try:
            assert process.stdout.readline() == "open\n"
            reader = threading.Thread(target=lambda: keys.extend(map(str.strip, process.stdout)))
            reader.start()
            xdotool(display, "search", "--name", "^realtime_lrp$", "windowfocus", "--sync")
            xdotool(display, "type", "--delay", "25", LETTERS)
            until(lambda: len(keys) >= len(LETTERS))
            with repeating(display):
                xdotool(display, "keydown", "Escape")
                if repeated:
                    until(lambda: keys.count("Escape") > 1)
                else:
                    time.sleep(0.9)  # the display repeats it after 0.66 s
                xdotool(display, "keyup", "Escape")
            xdotool(display, "key", "Return")
            until(lambda: "Return" in keys)
        finally:
            xdotool(display, "keyup", "Escape")
            process.kill()
        reader.join(60)
    assert "".join(keys).replace("Escape", "") == f"{LETTERS}Return"
    assert (keys.count("Escape") > 1) == repeated


@pytest.mark.gui
@pytest.mark.release
def test_a_pin_typed_at_60_ms_opens_a_slow_exhibit(display, tmp_path):
    """A picture takes 150 ms; the exhibit ends with exit code 0 after q is held and 4711 typed."""
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps({"kiosk": {"pin": hash_pin("4711"), "exit_key": "q"}}))
    words = ("kiosk", "--config", config, "--source", "synthetic")
    state = {"STATE_DIRECTORY": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", SLOW_EXHIBIT, *map(str, words)],
        env=with_display(display) | state,
        stderr=subprocess.PIPE,
    ) as process:
        opened_window(display, process)
        time.sleep(3)
        with repeating(display):
            xdotool(display, "keydown", "q")
            time.sleep(6.5)
            xdotool(display, "keyup", "q")
        xdotool(display, "key", "--delay", "60", "4", "7", "1", "1", "Return")
        try:
            assert process.wait(60) == 0
        finally:
            process.kill()


GERMAN = {
    24: (0x71, 0x51, 0x71, 0x51, 0x40, 0x7D9),  # q Q q Q @
    20: (0xDF, 0x3F, 0xDF, 0x3F, 0x5C, 0xBF),  # ss ? ss ? \
    17: (0x38, 0x28, 0x38, 0x28, 0x5B),  # 8 ( 8 ( [
    65: (0x20,),
    9: (0xFF1B, 0, 0xFF1B),
    22: (0xFF08, 0xFF08),
    79: (0xFF95, 0xFFB7, 0xFF95, 0xFFB7),  # Home 7 on the keypad
    81: (0xFF9A, 0xFFB9, 0xFF9A, 0xFFB9),  # Page Up 9
    104: (0xFF8D,),
    112: (0xFF55,),
    95: (0xFFC8,),
    50: (0xFFE1,),
    99: (0x6B, 0x4B, 0x6CC, 0x6EC),  # Latin k, Cyrillic
    98: (0x6CC, 0x6EC, 0x6B, 0x4B),  # Cyrillic, Latin k
    45: (0x6CC, 0x6EC),  # Cyrillic alone
    11: (0x1EC, 0x32),  # Czech: e with caron, 2
    135: (0xFF67,),  # Menu
}
"""Key code -> keysyms of a keyboard mapping."""


@pytest.mark.parametrize(
    ("code", "state", "name"),
    [
        (24, 0, "q"), (24, 0x01, "q"), (24, 0x02, "q"), (24, 0x80, "@"), (20, 0x01, "?"),
        (17, 0, "8"), (17, 0x80, "["), (65, 0, "space"), (65, 0x01, "space"), (9, 0, "Escape"),
        (22, 0x01, "BackSpace"), (79, 0x10, "7"), (79, 0, "Home"), (79, 0x11, "Home"),
        (81, 0, "Page_Up"), (81, 0x10, "9"), (104, 0x10, "Return"), (112, 0, "Page_Up"),
        (95, 0, "F11"), (50, 0, None), (24, 0x04, None), (24, 0x08, None), (24, 0x40, None),
        (24, 0x2000, "q"), (99, 0x2000, "k"), (17, 0x2080, "8"), (200, 0, None),
        (98, 0, "k"), (45, 0, "k"), (45, 0x01, "k"), (11, 0, "2"), (11, 0x01, "2"),
        (135, 0, "unnamed"),
    ],
)  # fmt: skip
def test_x11_presses_have_the_names_of_the_key_table(code, state, name):
    """With Shift, AltGr, the keypad, other layouts; none with Ctrl, Alt or Super."""
    keysyms = GERMAN.get(code, ())
    assert key_name(code, state, lambda n: keysyms[n] if n < len(keysyms) else 0) == name


def test_a_display_that_never_answers_ends_the_program():
    """When one call waits for long; not while calls return, nor between calls."""
    ended, steps = threading.Event(), Steps()
    watch = DisplayWatch(lambda message: ended.set(), checks=3, pause_s=0)
    watch._stop = steps
    steps.done.acquire()
    for _ in range(20):
        with watch:
            steps.look(3)
    steps.look(20)
    with watch:
        steps.look(3)
        assert not ended.is_set()
        steps.due.release()
        assert ended.wait(60)


class Steps:
    """Stands for the pauses of a watch, which looks when a test lets it.

    Attributes:
      due: released for each look.
      done: released after each look, and before the first one.
    """

    def __init__(self):
        self.due, self.done = threading.Semaphore(0), threading.Semaphore(0)

    def wait(self, seconds):
        """Waits until a look is due."""
        self.done.release()
        self.due.acquire()
        return False

    def look(self, times):
        """Lets the watch look so many times."""
        for _ in range(times):
            self.due.release()
            self.done.acquire()


class ResettingServer:
    """Stands for the library XCB while an X server refuses the first connections."""

    def __init__(self, refusals):
        self.refusals, self.open = refusals, set()

    def xcb_connect(self, *_):
        """A new connection; it has to be closed in any case."""
        self.open.add(number := len(self.open) + 1)
        return number

    def xcb_connection_has_error(self, _):
        """Whether this one is refused."""
        self.refusals -= 1
        return self.refusals >= 0

    def xcb_disconnect(self, connection):
        """Closes it."""
        self.open.remove(connection.value)


@pytest.mark.skipif(sys.platform != "linux", reason="X11 is of Linux")
def test_a_refused_connection_is_tried_again_and_the_accepted_one_is_kept(monkeypatch):
    """Else an X server that resets when its last client leaves would end the program through Qt."""
    monkeypatch.setenv("DISPLAY", ":1")
    server = ResettingServer(refusals=2)
    monkeypatch.setattr(display_module, "PAUSE_S", 0.001)
    monkeypatch.setattr(display_module, "_library", lambda: server)
    with display_module.display_connection():
        assert server.open == {1} and server.refusals == -1
    assert server.open == set()
    monkeypatch.setattr(display_module, "RETRY_S", 0.0)
    server.refusals = 1_000
    assert not display_module.display_reachable() and server.open == set()


@pytest.mark.gui
def test_a_window_that_the_manager_has_lost_is_shown(display, monkeypatch):
    """A manager that has just started may lose what a new window asks for; it is asked again."""
    from Xlib import X, Xatom
    from Xlib.display import Display

    monkeypatch.setenv("DISPLAY", display)
    connection, ours = Display(display), X11Window("lost")
    window = connection.screen().root.create_window(0, 0, 90, 90, 0, X.CopyFromParent)
    for name, kind, bits, value in (
        ("_NET_WM_NAME", connection.intern_atom("UTF8_STRING"), 8, b"lost"),
        ("_NET_WM_PID", Xatom.CARDINAL, 32, [os.getpid()]),
    ):
        window.change_property(connection.intern_atom(name), kind, bits, value)
    connection.sync()
    assert not ours.find() and ours.managed
    ours.ask_manager()
    until(ours.find)
    assert window.get_attributes().map_state == X.IsViewable
    ours.close(), connection.close()


LOST = """
import os, sys, time
import numpy as np
from realtime_lrp.errors import UnavailableError
from realtime_lrp.view.window.window import Window

with Window() as window:
    window.on_lost = lambda: print("files are complete", flush=True)
    print("open", flush=True)
    try:
        while True:
            window.show(np.zeros((*window.size, 3), np.uint8))
            window.events()
            time.sleep({pause_s})
    except UnavailableError as error:
        window.on_lost()
        print(error, file=sys.stderr, flush=True)
        os._exit(error.exit_code)
"""
"""A window until its display is lost, between two calls of OpenCV or inside one."""


@pytest.mark.gui
@pytest.mark.skipif(not shutil.which("Xvfb"), reason="Xvfb is not installed")
@pytest.mark.parametrize("pause_s", [0, 0.05])
@pytest.mark.parametrize("lost", ["server", "connection"])
def test_a_lost_display_ends_the_program_with_its_files_complete(lost, pause_s):
    """With exit code 69 and one line, whoever notices it first: this program or Qt."""
    read, write = os.pipe()
    with subprocess.Popen(["Xvfb", "-displayfd", str(write)], pass_fds=[write]) as server:
        os.close(write)
        with os.fdopen(read) as answer:
            display = f":{answer.readline().strip()}"
        with subprocess.Popen(
            [sys.executable, "-c", LOST.format(pause_s=pause_s)],
            env=with_display(display), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            try:
                assert process.stdout.readline() == "open\n"
                if lost == "server":
                    server.kill()
                else:
                    disconnect(display, opened_window(display, process))
                assert process.communicate(timeout=120) == ("files are complete\n", f"{GONE}\n")
                assert process.returncode == 69
            finally:
                process.kill()
                server.kill()


def disconnect(display, window):
    """Ends the connection that a window was opened on, as xkill does."""
    from Xlib.display import Display  # not on every system

    connection = Display(display)
    connection.create_resource_object("window", int(window)).kill_client()
    connection.sync()  # else the request may be lost when it closes
    connection.close()
