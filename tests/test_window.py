"""The window on a real display: pictures, keys, the mouse, the whole screen, a lost display."""

import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest
from faults.clock import until
from program import (
    opened_window,
    repeating,
    running,
    virtual_display,
    with_display,
    xdotool,
)

from realtime_lrp.view import full_screen
from realtime_lrp.view.window import GONE, Keyboard, pygame

pytestmark = pytest.mark.usefixtures("light_scripts")

SHOWING = """
import select, sys, time
import numpy as np
from realtime_lrp.view.full_screen import FullScreen
from realtime_lrp.view.window import Window

kind, turn_s = sys.argv[1:3]
with (FullScreen if kind == "exhibit" else Window)() as window:
    window.on_lost = lambda: print("files are complete", flush=True)
    said = None
    print("open", flush=True)
    while not select.select([sys.stdin], [], [], float(turn_s))[0]:
        if window.closed and kind != "exhibit":
            break
        picture = np.full((*window.size, 3), (200, 0, 0), np.uint8)
        picture[len(picture) // 2 :] = 0, 0, 200
        window.show(picture)
        if kind == "exhibit":
            window.tend()
        for event in window.events():
            if event == "F11":
                window.fill_screen(True)
            print(event, sorted(window.held) if event == "Return" else "", flush=True)
        if said != (said := window.size):
            print(said, flush=True)
"""
"""A red half above a blue one; what happens is printed. It ends when its input does."""

LETTERS = "abcdefghijklmnopqrst"
OTHER = "(", "Mouse", "open"


class Screen:
    """A virtual display of 800 x 600."""

    def __init__(self, name, file):
        self.name, self._file = name, file

    def xdotool(self, words):
        return xdotool(self.name, *words.split())

    def pixels(self):
        """The screen including the pointer: uint8 [H, W, 3] RGB."""
        data = self._file.read_bytes()
        header = np.frombuffer(data, ">u4", 25)
        columns, rows, colours = (int(header[place]) for place in (4, 5, 19))
        drawn = np.frombuffer(data, np.uint8, rows * columns * 4, int(header[0]) + 12 * colours)
        return drawn.reshape(rows, columns, 4)[..., 2::-1]

    def covered(self):
        """Whether all pixels are the window's."""
        upper, lower = np.split(self.pixels(), 2)
        return (upper == (200, 0, 0)).all() and (lower == (0, 0, 200)).all()

    def shown(self):
        """Whether a picture is shown whole, wherever the window is."""
        red, blue = ((self.pixels() == colour).all(-1) for colour in ((200, 0, 0), (0, 0, 200)))
        return min(red.sum(), blue.sum()) > 10_000 and abs(int(red.sum()) - int(blue.sum())) < 500


@pytest.fixture
def screen(request, tmp_path):
    """A display with openbox, or a bare one if the parameter says so."""
    managed = getattr(request, "param", "managed") == "managed"
    with virtual_display("800x600", "-fbdir", str(tmp_path), managed=managed) as (name, server):
        screen = Screen(name, tmp_path / "Xvfb_screen0")
        screen.server = server
        yield screen


@contextmanager
def showing(screen, kind="exhibit", turn_s=0.004, folder=None):
    """A window; yields its process, the lines that it printed, and its id."""
    environment = with_display(screen.name)
    if folder:
        environment["PATH"] = f"{folder}:{environment['PATH']}"
    printed = screen._file.with_name("printed")
    with (
        open(printed, "w") as out,
        running(
            sys.executable, "-c", SHOWING, kind, str(turn_s), stdin=subprocess.PIPE, stdout=out,
            stderr=subprocess.PIPE, text=True, env=environment,
        ) as process,
    ):  # fmt: skip
        lines = lambda: printed.read_text().splitlines()  # noqa: E731
        window = opened_window(screen.name, process)
        until(screen.covered if kind == "exhibit" else screen.shown)
        yield process, lines, window
        if process.poll() is None:
            process.stdin.close()
            assert process.wait(60) == 0


def disturb(screen, process, words):
    """Disturbs a window while its process is stopped: sees the harm, then the repair."""
    process.send_signal(signal.SIGSTOP)
    screen.xdotool(words)
    until(lambda: not screen.covered())
    process.send_signal(signal.SIGCONT)
    until(screen.covered)


def hears(screen, lines, key):
    """Whether a key reaches the window, pressed again until it does."""

    def heard():
        screen.xdotool(f"key {key}")
        return any(line.split()[:1] == [key] for line in lines())

    until(heard)
    return True


@pytest.mark.gui
def test_an_exhibit_comes_back_whatever_is_done_to_its_window(screen):
    """It covers the screen again, with the focus and no pointer; nothing closes it."""
    screen.xdotool("mousemove 400 100")
    with showing(screen) as (process, lines, window):
        until(lambda: "(600, 800)" in lines())
        disturb(screen, process, f"windowminimize {window}")
        screen.xdotool(f"windowmove {window} 100 100 windowsize {window} 300 200")
        with showing_other(screen):
            until(screen.covered)
            assert hears(screen, lines, "k")
        screen.xdotool("key alt+F4")
        screen.xdotool("click 4 click 6 click 3 key ctrl+s ctrl+c Menu")
        assert hears(screen, lines, "j")
        assert screen.covered() and process.poll() is None


@contextmanager
def showing_other(screen):
    """Another program's window above all others, with the focus."""
    seen = "search --onlyvisible --class ."
    code = "import pygame as p, time; p.display.init(); w = p.Window('other'); time.sleep(99)"
    before = len(screen.xdotool(seen).split())
    with running(sys.executable, "-c", code, env=with_display(screen.name)):
        until(lambda: len(screen.xdotool(seen).split()) > before)
        yield


@pytest.mark.gui
@pytest.mark.parametrize("screen", ["bare"], indirect=True)
def test_without_a_window_manager_an_exhibit_has_the_screen_and_the_keys(screen):
    """And the mouse, in pixels of the picture."""
    with showing(screen) as (_, lines, _):
        screen.xdotool("mousemove 400 100 click 1 click 3")
        assert hears(screen, lines, "k")
        mouse = [line.strip() for line in lines() if line.startswith("Mouse")]
        assert "Mouse(x=400, y=100, button='left')" in mouse
        assert "Mouse(x=400, y=100, button='right')" in mouse
        assert screen.covered(), "no pointer"


@pytest.mark.gui
def test_a_window_is_never_black_fills_the_screen_and_closes_by_its_cross(screen):
    """Also after another size, and after it was hidden."""
    with showing(screen, "window") as (process, lines, window):
        screen.xdotool(f"windowsize --sync {window} 420 300")
        until(lambda: "(300, 420)" in lines() and screen.shown())
        screen.xdotool(f"windowminimize {window}")
        until(lambda: not screen.shown())
        screen.xdotool(f"windowactivate {window}")
        until(screen.shown)
        assert hears(screen, lines, "F11")
        until(screen.covered)
        screen.xdotool("key alt+F4")
        assert process.wait(60) == 0


@pytest.mark.gui
@pytest.mark.parametrize("kind", ["window", "exhibit"])
def test_each_of_20_presses_arrives_in_order(kind, screen):
    """They come every 25 ms, a picture takes 150 ms; a held key with a command comes once."""
    last = {"window": "Page_Down", "exhibit": "q"}[kind]
    with showing(screen, kind, turn_s=0.15) as (_, lines, window):
        keys = lambda: [line.split()[0] for line in lines() if not line.startswith(OTHER)]  # noqa: E731
        screen.xdotool(f"windowfocus --sync {window} type --delay 25 {LETTERS}")
        until(lambda: len(keys()) >= len(LETTERS))
        with repeating(screen.name):
            screen.xdotool(f"keydown Escape keydown {last}")
            until(lambda: last in keys()[20:])
            time.sleep(0.9)  # the display repeats a key after 0.66 s
            screen.xdotool("key Return")
            until(lambda: "Return" in keys())
            screen.xdotool(f"keyup Escape keyup {last}")
    assert "".join(keys()[:20]) == LETTERS
    assert keys().count("Escape") == 1
    assert keys()[20:].count(last) == 1
    if kind == "exhibit":
        (at_return,) = (line for line in lines() if line.startswith("Return"))
        assert "'Escape'" in at_return and "'q'" in at_return


@pytest.mark.gui
@pytest.mark.skipif(not shutil.which("setxkbmap"), reason="setxkbmap is not installed")
def test_keys_of_other_layouts_have_the_names_of_the_table(screen):
    """German: what a key writes. Chinese and Russian: letters as on a US keyboard."""
    with showing(screen, "window") as (_, lines, window):
        heard = lambda: [line.strip() for line in lines() if not line.startswith(OTHER)]  # noqa: E731
        screen.xdotool(f"windowfocus --sync {window}")
        for layout, keys, names in (
            ("de", "key --clearmodifiers 29 shift+20 shift+16", ["z", "?", "/"]),  # y - 7
            ("cn", "key 38 24 61", ["a", "q", "/"]),
            ("ru", "key 38 24 53", ["a", "q", "x"]),
        ):
            count = len(heard())
            subprocess.run(["setxkbmap", layout], env=with_display(screen.name), check=True)
            xdotool(screen.name, *keys.split())
            until(lambda start=count: len(heard()) >= start + 3)
            assert heard()[count:] == names, layout


def pressed(key, text="", mod=0, scancode=pygame.KSCAN_A):
    """The names of a press."""
    about = {"key": key, "mod": mod, "scancode": scancode, "unicode": text}
    name = Keyboard().name(pygame.Event(pygame.KEYDOWN, **about))
    return [name] if name else []


@pytest.mark.parametrize(
    ("press", "names"),
    [
        ((pygame.K_q, "Q", pygame.KMOD_LSHIFT), ["q"]),
        ((pygame.K_8, "[", pygame.KMOD_RALT), ["["]),
        ((pygame.K_SPACE, " "), ["space"]),
        ((pygame.K_c, "", pygame.KMOD_LCTRL), []),
        ((pygame.K_x, "x", pygame.KMOD_LALT), []),
        ((pygame.K_PAGEDOWN,), ["Page_Down"]),
        ((pygame.K_F4, "", pygame.KMOD_LALT), []),
        ((pygame.K_KP7, "7", pygame.KMOD_NUM), ["7"]),
        ((pygame.K_KP7,), ["Home"]),
        ((pygame.K_KP_ENTER, "\r"), ["Return"]),
        ((pygame.K_KP_PLUS, "+"), ["+"]),
        ((pygame.K_LSHIFT, "", pygame.KMOD_LSHIFT, pygame.KSCAN_LSHIFT), []),
        ((pygame.K_PRINTSCREEN, "", 0, pygame.KSCAN_PRINTSCREEN), ["unnamed"]),
        ((0x444, "ф"), ["a"]),
        ((0x11B, "ě", 0, pygame.KSCAN_2), ["2"]),
    ],
)
def test_presses_have_the_names_of_the_key_table(press, names):
    """With Shift, AltGr, the keypad, other alphabets; none with Ctrl, Alt or Super."""
    assert pressed(*press) == names


@pytest.mark.gui
@pytest.mark.parametrize("lost", ["server", "connection"])
def test_a_lost_display_ends_the_program_with_its_files_complete(lost, screen):
    """With exit code 69 and one line."""
    with showing(screen, "window") as (process, lines, window):
        if lost == "server":
            screen.server.kill()
        else:
            screen.xdotool(f"windowkill {window}")
        assert process.wait(60) == 69
        assert process.stderr.read() == f"{GONE}\n"
        assert lines()[-1] == "files are complete"


@pytest.mark.gui
def test_an_exhibit_keeps_the_session_awake_while_it_runs(screen, tmp_path):
    """The tool that does so ends when the exhibit is killed."""
    tool, told = tmp_path / full_screen.INHIBIT[0], tmp_path / "told"
    tool.write_text(f'#!/bin/sh\necho "$@" > {told}\ncat\necho ended >> {told}\n')
    tool.chmod(0o755)
    with showing(screen, folder=tmp_path) as (process, _, _):
        until(lambda: told.exists() and told.read_text().split() == list(full_screen.INHIBIT[1:]))
        process.kill()
        process.wait()
        until(lambda: told.read_text().endswith("ended\n"))
