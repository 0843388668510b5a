"""The viewer as a user has it: a real window under Xvfb, real keys, real files that it keeps."""

import json
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import chain, repeat
from types import SimpleNamespace

import av
import cv2
import numpy as np
import pytest
from faults.clock import busy, until
from faults.server import MjpegServer
from program import (
    opened_window,
    repeating,
    running,
    screenshot,
    start,
    virtual_display,
    with_display,
    xdotool,
)

from realtime_lrp import config
from realtime_lrp.commands.live import run as live
from realtime_lrp.results.provenance import find_provenance
from realtime_lrp.view import full_screen
from realtime_lrp.view.hud import WARNING
from realtime_lrp.view.window import GONE, Keyboard, pygame

pytestmark = pytest.mark.usefixtures("light_scripts")

NAMES = {".": "period", "+": "plus", "=": "equal", "-": "minus", "?": "question"}
NAMES |= {"]": "bracketright", "[": "bracketleft"}


class Screen:
    """A window and what can be done with it."""

    def __init__(self, display, process, folder):
        self.display, self.process, self.folder = display, process, folder
        self.window = opened_window(display, process)
        xdotool(display, "windowfocus", "--sync", self.window)

    def press(self, *keys, pause_s=0.12):
        for key in keys:
            xdotool(self.display, "key", NAMES.get(key, key))
            time.sleep(pause_s)
            assert self.process.poll() is None, (key, self.process.stderr.read())


def warm(picture):
    """How many pixels have the colour of notices and headings."""
    return int((np.abs(picture.astype(int) - WARNING).sum(-1) < 30).sum())


def viewer(display, model, *words):
    network = ("--model", model, "--preprocess", "tf", "--target", "top1")
    return start("live", "--source", config.ASSETS / "demo.mp4", *network, *words, DISPLAY=display)


@pytest.mark.gui
def test_a_snapshot_is_what_the_window_shows_with_the_data_behind_it(display, tiny_model, tmp_path):
    """The .png has the window's pixels, the .npz the maps of all panels, picture and settings."""
    words = "--set", f"live.folder={tmp_path}", "--set", "live.text=none", "-v"
    with viewer(display, tiny_model, *words) as process:
        while "first map" not in process.stderr.readline():
            assert process.poll() is None, process.communicate()
        screen = Screen(display, process, tmp_path)
        # frozen, no other picture is explained
        screen.press("space", "p", "h", *"bwr", "Return", pause_s=0.2)
        npz = kept_with_further_maps(screen, tmp_path)
        picture = npz.with_suffix(".png")
        until(picture.exists)  # the maps are kept before it
        kept = cv2.imread(str(picture))[..., ::-1]
        assert kept.shape == (720, 1280, 3)
        right = np.ascontiguousarray(kept[60:660, 660:1200])  # on the left there is a notice
        until(lambda: stands_on(screenshot(display, tmp_path / "s.png"), right))
        xdotool(display, "key", "q", "q")
        assert process.wait(120) == 0
    assert find_provenance(picture).settings["overlay.colormap"] == "bwr"
    with np.load(npz) as data:
        assert data["relevance"].shape == (32, 32, 3) and data["relevance"].any()
        assert data["further"].shape == (2, 32, 32, 3)
        assert list(data["names"]) == ["epsilon_plus_flat", "guided_backprop", "grad_cam"]
        assert data["picture"].shape == (480, 640, 3)
        assert json.loads(str(data["asked"]))["device"] == "CPU"
        (tmp_path / "again.yaml").write_text(str(data["config"]))
        settings = config.load(tmp_path / "again.yaml").config
        assert settings.model.name == str(tiny_model) and settings.overlay.colormap == "bwr"


def stands_on(screen, picture):
    """Whether a picture is somewhere on the screen, each pixel as it is."""
    rows, columns, _ = picture.shape
    _, _, (x, y), _ = cv2.minMaxLoc(cv2.matchTemplate(screen, picture, cv2.TM_SQDIFF))
    return np.array_equal(screen[y : y + rows, x : x + columns], picture)


def kept_with_further_maps(screen, folder):
    """The kept picture, once it has the maps that keys asked for, of the frozen frame itself."""
    for _ in range(60):
        screen.press("s", pause_s=1.0)
        newest = max(folder.glob("realtime*.npz"), default=None)
        if newest is None:
            continue
        with np.load(newest) as data:
            if len(data["further"]) == 2 and not data["explained_picture"].size:
                return newest
    raise AssertionError("the further maps never came")


@pytest.mark.release
@pytest.mark.gui
@pytest.mark.parametrize("way", ["close", signal.SIGTERM])
def test_closing_ends_soon_with_the_recording_whole(way, display, tiny_model, tmp_path):
    """By the window's X within 3 s, and by a signal; as many lines as frames, in true time."""
    film = tmp_path / "view.mp4"
    with MjpegServer(size=(480, 640)) as server:
        words = ("live", "--source", server.url, "--model", tiny_model, "--preprocess", "tf")
        words += ("--composite", "zplus", "--precision", "float32")
        with start(*words, "--record", film, "-v", DISPLAY=display) as process:
            while "first map" not in process.stderr.readline():
                assert process.poll() is None, process.communicate()
            Screen(display, process, tmp_path)
            until(lambda: recorded_s(film) > 1)
            begin = time.monotonic()
            if way == "close":
                xdotool(display, "key", "alt+F4")
            else:
                process.send_signal(way)
            assert process.wait(120) == 0
            assert way != "close" or time.monotonic() - begin < 3 * busy()
            said = process.stdout.read()
    assert str(film) in said
    rows = [json.loads(line) for line in film.with_suffix(".jsonl").read_text().splitlines()]
    with av.open(film) as container:
        times = [frame.time for frame in container.decode(video=0)]
    assert len(times) == len(rows)
    np.testing.assert_allclose(times, [row["time"] for row in rows], atol=0.002)
    assert times[-1] - times[0] > 1
    explained = [row for row in rows if row["map_frame"]]
    most = max(explained, key=lambda row: row["relevance_sum"])  # less where units have only biases
    assert most["relevance_sum"] == pytest.approx(most["explained_score"], rel=0.2)
    assert sorted(p.name for p in tmp_path.iterdir() if "s.png" not in p.name) == [
        "view.jsonl", "view.mp4",
    ]  # fmt: skip


def recorded_s(film):
    """How many seconds of a film have been written to the disk by now."""
    for part in film.parent.glob(f"{film.stem}.jsonl.*.part"):
        lines = part.read_text().splitlines(keepends=True)
        return max((json.loads(line)["time"] for line in lines if line.endswith("\n")), default=0)
    return 0


class Scripted:
    """A window whose keys a script presses, a generator that is asked at every turn."""

    size, closed = (360, 640), False

    def __init__(self, script):
        self.shown, self.keys = [], script(self)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def show(self, canvas):
        self.shown.append(canvas)

    def events(self):
        return filter(None, [next(self.keys)])

    def pictures(self, count):
        end = len(self.shown) + count
        while len(self.shown) < end:
            yield ""


def test_a_full_disk_ends_the_recording_and_not_the_view(tmp_path, monkeypatch, tiny_model):
    """A line on the screen, the film is whole, a second one is refused with a line."""
    free = chain([2**39] * 3, repeat(2**20))  # it is full while a film is recorded
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=next(free)))

    def script(window):
        yield from window.pictures(15)
        yield "r"
        while not list(tmp_path.glob("*.mp4")):
            yield ""
        yield from window.pictures(10)
        yield "r"
        yield from window.pictures(10)
        yield from ("q", "q")

    window = Scripted(script)
    options = {"--source": "synthetic", "--model": str(tiny_model), "--preprocess": "none"}
    chosen = config.load(sets=(f"live.folder={tmp_path}",), options=options, command="live").config
    lines = live.run(chosen, window=lambda: window)
    (film,) = tmp_path.glob("*.mp4")
    with av.open(film) as container:
        frames = sum(1 for _ in container.decode(video=0))
    assert frames >= 3  # as many as came in three seconds
    assert any(f"{frames} frames" in line and film.name in line for line in lines)
    assert any("the disk is full" in line for line in lines)
    assert max(warm(canvas[250:]) for canvas in window.shown[-20:-10]) > 100, "a line on the screen"
    assert [p.suffix for p in sorted(tmp_path.iterdir())] == [".jsonl", ".mp4"]


@pytest.mark.release
@pytest.mark.gui
def test_a_clicker_plays_the_lecture_to_its_end(display, tiny_model, tmp_path):
    words = "--set", f"live.folder={tmp_path}", "--lecture", "de", "-v"
    with viewer(display, tiny_model, *words) as process:
        while "first map" not in process.stderr.readline():
            assert process.poll() is None, process.communicate()
        screen = Screen(display, process, tmp_path)
        screen.press(*["Next"] * 5, pause_s=2)

        def both_explained():
            screen.press("s", pause_s=1)
            return any("relevance_2" in np.load(file) for file in tmp_path.glob("*.npz"))

        until(both_explained)
        xdotool(display, "key", "q", "q")
        assert process.wait(120) == 0


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


class Display:
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
        screen = Display(name, tmp_path / "Xvfb_screen0")
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
    with showing(screen) as (_, lines, _):
        screen.xdotool("mousemove 400 100 click 1 click 3")
        assert hears(screen, lines, "k")
        mouse = [line.strip() for line in lines() if line.startswith("Mouse")]
        assert "Mouse(x=400, y=100, button='left')" in mouse
        assert "Mouse(x=400, y=100, button='right')" in mouse
        assert screen.covered(), "no pointer"


@pytest.mark.gui
def test_a_window_is_never_black_fills_the_screen_and_closes_by_its_cross(screen):
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
    about = {"key": key, "mod": mod, "scancode": scancode, "unicode": text}
    name = Keyboard().name(pygame.Event(pygame.KEYDOWN, **about))
    return [name] if name else []


@pytest.mark.parametrize(
    ("press", "names"),
    [
        ((pygame.K_q, "Q", pygame.KMOD_LSHIFT), ["q"]),
        ((pygame.K_8, "[", pygame.KMOD_RALT), ["["]), ((pygame.K_SPACE, " "), ["space"]),
        ((pygame.K_c, "", pygame.KMOD_LCTRL), []), ((pygame.K_x, "x", pygame.KMOD_LALT), []),
        ((pygame.K_PAGEDOWN,), ["Page_Down"]), ((pygame.K_F4, "", pygame.KMOD_LALT), []),
        ((pygame.K_KP7, "7", pygame.KMOD_NUM), ["7"]), ((pygame.K_KP7,), ["Home"]),
        ((pygame.K_KP_ENTER, "\r"), ["Return"]), ((pygame.K_KP_PLUS, "+"), ["+"]),
        ((pygame.K_LSHIFT, "", pygame.KMOD_LSHIFT, pygame.KSCAN_LSHIFT), []),
        ((pygame.K_PRINTSCREEN, "", 0, pygame.KSCAN_PRINTSCREEN), ["unnamed"]),
        ((0x444, "ф"), ["a"]), ((0x11B, "ě", 0, pygame.KSCAN_2), ["2"]),
    ],
)  # fmt: skip
def test_presses_have_the_names_of_the_key_table(press, names):
    """With Shift, AltGr, the keypad, other alphabets; none with Ctrl, Alt or Super."""
    assert pressed(*press) == names


@pytest.mark.gui
@pytest.mark.parametrize("lost", ["server", "connection"])
def test_a_lost_display_ends_the_program_with_its_files_complete(lost, screen):
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
    tool, told = tmp_path / full_screen.INHIBIT[0], tmp_path / "told"
    tool.write_text(f'#!/bin/sh\necho "$@" > {told}\ncat\necho ended >> {told}\n')
    tool.chmod(0o755)
    with showing(screen, folder=tmp_path) as (process, _, _):
        until(lambda: told.exists() and told.read_text().split() == list(full_screen.INHIBIT[1:]))
        process.kill()
        process.wait()
        until(lambda: told.read_text().endswith("ended\n"))
