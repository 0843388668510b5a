"""The viewer as a user has it: a real window under Xvfb, real keys, real files that it keeps."""

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from itertools import chain, repeat
from types import SimpleNamespace

import av
import cv2
import media
import numpy as np
import psutil
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
from viewer import Viewer, explained_frame, green_square

from realtime_lrp import config
from realtime_lrp.commands.live import run as live
from realtime_lrp.engine import engine as engines
from realtime_lrp.errors import UnavailableError
from realtime_lrp.realtime import capture
from realtime_lrp.realtime import stats as module
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.realtime.viewer import view
from realtime_lrp.results.provenance import find_provenance
from realtime_lrp.view.hud import WARNING
from realtime_lrp.view.window import GONE, INHIBIT, Keyboard, pygame

pytestmark = pytest.mark.usefixtures("light_scripts")

NAMES = {".": "period", "+": "plus", "=": "equal", "-": "minus", "?": "question"}
NAMES |= {"]": "bracketright", "[": "bracketleft"}


class Screen:
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


def viewer(display, model, folder, *words):
    """The program on the included clip, which plays slowly: the machine has less to draw."""
    clip = media.slowed(config.ASSETS / "demo.mp4", folder / "clip.mp4")
    network = ("--model", model, "--preprocess", "tf", "--target", "top1")
    settings = ("--source", clip, "--set", f"live.folder={folder}")
    return start("live", *settings, *network, *words, DISPLAY=display)


@pytest.mark.gui
def test_a_snapshot_is_what_the_window_shows_with_the_data_behind_it(display, tiny_model, tmp_path):
    with viewer(display, tiny_model, tmp_path, "--set", "live.text=none", "-v") as process:
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


SHOWING = """
import select, sys, time
import numpy as np
from realtime_lrp.view.window import FullScreen
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


def test_presses_have_the_names_of_the_key_table():
    for press, names in (
        ((pygame.K_q, "Q", pygame.KMOD_LSHIFT), ["q"]),
        ((pygame.K_8, "[", pygame.KMOD_RALT), ["["]), ((pygame.K_SPACE, " "), ["space"]),
        ((pygame.K_c, "", pygame.KMOD_LCTRL), []), ((pygame.K_x, "x", pygame.KMOD_LALT), []),
        ((pygame.K_PAGEDOWN,), ["Page_Down"]), ((pygame.K_F4, "", pygame.KMOD_LALT), []),
        ((pygame.K_KP7, "7", pygame.KMOD_NUM), ["7"]), ((pygame.K_KP7,), ["Home"]),
        ((pygame.K_KP_ENTER, "\r"), ["Return"]), ((pygame.K_KP_PLUS, "+"), ["+"]),
        ((pygame.K_LSHIFT, "", pygame.KMOD_LSHIFT, pygame.KSCAN_LSHIFT), []),
        ((pygame.K_PRINTSCREEN, "", 0, pygame.KSCAN_PRINTSCREEN), ["unnamed"]),
        ((0x444, "ф"), ["a"]), ((0x11B, "ě", 0, pygame.KSCAN_2), ["2"]),
    ):  # fmt: skip
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
    tool, told = tmp_path / INHIBIT[0], tmp_path / "told"
    tool.write_text(f'#!/bin/sh\necho "$@" > {told}\ncat\necho ended >> {told}\n')
    tool.chmod(0o755)
    with showing(screen, folder=tmp_path) as (process, _, _):
        until(lambda: told.exists() and told.read_text().split() == list(INHIBIT[1:]))
        process.kill()
        process.wait()
        until(lambda: told.read_text().endswith("ended\n"))


FIGURE_NAMES = {
    "frames_captured", "frames_shown", "frames_dropped", "maps", "display_fps", "maps_per_s",
    "map_ms", "frame_age_ms", "map_age_ms", "reconnects", "maps_in_flight", "traces", "device",
    "precision",
}  # fmt: skip


def settings(model, source, **more):
    options = {"--model": str(model), "--source": source, "--display": "none", **more}
    return config.load(options={"--preprocess": "tf", **options}, command="live").config


def test_the_picture_goes_on_while_a_map_takes_long(monkeypatch, tmp_path, tiny_model):
    for name in ("STALLED_S", "FIRST_FRAME_S"):
        monkeypatch.setattr(capture, name, 1e9)  # the server here shares our interpreter
    figures_made, ended = [], threading.Event()

    def new_figures(*words, **more):
        figures_made.append(Stats(*words, **more))
        return figures_made[0]

    class Slow(engines.Engine):
        def begin(self, *words, **more):
            enough = figures_made[0].frames_shown + 10
            until(lambda: figures_made[0].frames_shown >= enough or ended.is_set())
            assert not ended.is_set(), "no further map is needed"
            return super().begin(*words, **more)

    class Ending(live.Loop):
        def turn(self):
            if figures_made[0].maps == 3:
                ended.set()
                signal.raise_signal(signal.SIGTERM)
            return super().turn()

    monkeypatch.setattr(live, "Stats", new_figures)
    monkeypatch.setattr(engines, "Engine", Slow)
    monkeypatch.setattr(live, "Loop", Ending)
    with MjpegServer(fps=30, size=(480, 640)) as server:
        live.run(settings(tiny_model, server.url), stats=tmp_path / "s.json")
        sent = server.sent
    figures = json.loads((tmp_path / "s.json").read_text())
    assert set(figures) == {*FIGURE_NAMES, "provenance"}
    captured, shown, dropped = (figures[f"frames_{n}"] for n in ("captured", "shown", "dropped"))
    assert 0 <= captured - shown - dropped <= 2
    assert 30 <= shown <= captured <= sent
    assert (figures["maps"], figures["traces"], figures["reconnects"]) == (3, 1, 0)
    assert figures["display_fps"] > 3 * figures["maps_per_s"]
    (made,) = figures_made
    assert min(made.map_age_ms) > min(made.map_ms)
    assert figures["map_ms"]["p50"] > figures["frame_age_ms"]["p50"]


def test_a_frame_is_shown_at_once_and_a_dropped_one_is_counted(monkeypatch):
    monkeypatch.setattr(view, "time", SimpleNamespace(monotonic=lambda: 5.0))
    viewer = Viewer()
    canvases = []
    for batch in (1, 3, 1, 0, 2):
        for _ in range(batch):
            viewer.capture.frames.put(media.plain(size=(120, 160)), 4.75)
        canvases.append(viewer.view.step())
    stats = viewer.stats
    assert [canvas is not None for canvas in canvases] == [True, True, True, False, True]
    assert stats.frames_shown == 4
    assert stats.frames_dropped == 3
    assert viewer.capture.frames.count == stats.frames_shown + stats.frames_dropped
    assert list(stats.frame_age_ms) == [250] * 4


def test_however_short_the_duration_a_film_has_the_first_map(tiny_model, tmp_path):
    film = tmp_path / "film.mp4"
    live.run(settings(tiny_model, "synthetic"), duration_s=1e-9, record=film)
    rows = [json.loads(line) for line in film.with_suffix(".jsonl").read_text().splitlines()]
    assert rows[0]["map_frame"] > 0


def moved(number, x, seed):
    """A textured square at column x on a still ground, as a frame."""
    from realtime_lrp.realtime.latest import Item

    rng = np.random.default_rng(seed)
    ground = np.repeat(rng.integers(60, 120, (30, 40, 3)), 8, 0).repeat(8, 1).astype(np.uint8)
    square = np.repeat(rng.integers(0, 256, (10, 10, 3)), 6, 0).repeat(6, 1).astype(np.uint8)
    ground[90:150, x : x + 60] = square
    return Item(ground, number, time.monotonic())


@pytest.mark.parametrize(("motion", "offset"), [("flow", 0), ("hold", -20)])
def test_the_overlay_stays_on_what_moves(motion, offset):
    drawn = np.zeros((60, 60, 3), np.float32)
    drawn[23:37, 20:35, 1] = 1  # rows 92 to 148, columns 120 to 180 of the box from 40 to 280
    for seed in range(5, 10):
        viewer = Viewer(**{"--motion": motion, "--opacity": 1})
        first, second = moved(1, 120, seed), moved(2, 140, seed)
        viewer.capture.frames.put(first.value, first.time)
        viewer.maps.put(explained_frame(first, drawn, (40, 0, 280, 240)), first.time)
        viewer.view.step()
        viewer.capture.frames.put(second.value, second.time)
        viewer.view.step()
        assert green_square(viewer.shown[0]) == pytest.approx(149.5, abs=1.5)
        assert green_square(viewer.shown[-1]) == pytest.approx(169.5 + offset, abs=3)


@pytest.mark.parametrize("name", [pytest.param("", marks=pytest.mark.release), ":987"])
def test_without_a_display_the_message_says_so(name, tiny_model):
    """An unreachable display would abort the process inside OpenCV: exit 69 instead."""
    with start(*("live", "--source", "synthetic", "--model", tiny_model), DISPLAY=name) as process:
        assert process.wait(60) == 69
        message = process.stderr.read()
    assert "--display none" in message
    assert len(message.splitlines()) <= 2


@pytest.mark.release
@pytest.mark.gui
def test_the_demo_opens_a_window(display, tmp_path):
    with start("demo", "--duration", 2, DISPLAY=display, cwd=tmp_path) as process:
        opened_window(display, process)
        assert process.wait(60) == 0, process.stderr.read()
    assert list(tmp_path.iterdir()) == []


class Starting(Viewer):
    """A viewer whose source has given no picture yet; `cards` are what the window showed."""

    def __init__(self, **options):
        super().__init__(**options)
        self.cards = []
        self.window.size, self.window.show = (360, 640), self.cards.append

    def turns(self, *keys):
        """A turn for each key; whether the viewer goes on."""
        goes_on = True
        for key in keys:
            self.window.heard.append(key)
            goes_on = goes_on and self.loop.turn()
        return goes_on


def test_the_card_is_there_before_anything_else_and_changes_with_the_trouble():
    viewer = Starting()
    viewer.loop.show_card()
    (card,) = viewer.cards
    assert card.shape == (360, 640, 3) and card.max() > 200
    viewer.capture.trouble = "no camera"
    assert viewer.loop.turn() and viewer.loop.turn()
    assert len(viewer.cards) == 2 and (viewer.cards[1] != card).any()
    viewer.capture.trouble = ""
    viewer.frame(np.zeros((8, 8, 3), np.uint8))
    assert viewer.loop.turn()
    assert len(viewer.cards) == 2 and viewer.shown


def test_keys_do_before_the_first_picture_what_they_do_later():
    for keys, ends in {
        "q": False, "q q": True, "h l q q": False, "h Escape q q": True, "q f q": False,
    }.items():  # fmt: skip
        assert Starting().turns(*keys.split()) is not ends, keys


def test_closing_the_window_and_a_fault_end_the_start():
    viewer = Starting()
    viewer.window.closed = True
    assert not viewer.loop.turn()

    def check():
        raise UnavailableError("no such camera")

    viewer = Starting()
    viewer.capture.check = check
    with pytest.raises(UnavailableError, match="no such camera"):
        viewer.loop.turn()


@pytest.fixture
def clock(monkeypatch):
    """The time in seconds; set its first entry."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_rates_run_from_the_first_map(clock):
    stats = Stats("CPU", "float32")
    stats.frames_shown = 300
    assert stats.display_fps() is stats.maps_per_s() is None
    stats.map_made(1, 0.5)
    clock[0] += 4
    stats.frames_shown += 120
    stats.map_made(20, 1.0)
    assert stats.display_fps() == 30
    assert stats.maps_per_s() == 5
    assert stats.maps == 21 and stats.seconds() == 4
    stats = Stats("CPU", "float32")
    stats.map_made(8, 0.4)
    stats.frame_age_ms.extend(range(101))
    assert list(stats.map_ms) == [pytest.approx(50)] * 8, "eight maps after 0.4 s"
    figures = stats.as_dict(live=True)
    assert figures["maps"] == 8 and figures["map_ms"] == {"p50": 50, "p99": 50}
    assert figures["frame_age_ms"] == {"p50": 50, "p99": 99}


def viewed(tmp_path, source, seconds):
    """Figures of `live` without a display, and (MiB, threads, files) of each second."""
    figures, samples = tmp_path / "figures.json", []
    words = ("--model", "shapes", "--display", "none", "--duration", seconds, "--stats", figures)
    with start("live", "--source", source, *words) as process:
        program = psutil.Process(process.pid)
        while process.poll() is None:
            samples.append(sample(program))
            time.sleep(1.0)
        _, err = process.communicate(timeout=20)
        assert process.returncode == 0, err
    assert err == ""
    return json.loads(figures.read_text()), [one for one in samples if one]


def sample(program):
    """What the program holds; None where it is ending."""
    try:
        return program.memory_full_info().uss / 2**20, program.num_threads(), program.num_fds()
    except psutil.NoSuchProcess:
        return None


@pytest.mark.release
def test_100000_pictures_leave_nothing_behind(tmp_path):
    figures, samples = viewed(tmp_path, "synthetic:240", 450)
    on_their_way = figures["frames_captured"] - figures["frames_shown"] - figures["frames_dropped"]
    assert 0 <= on_their_way <= 2 and figures["maps"] > 0
    assert (figures["traces"], figures["reconnects"]) == (1, 0)
    memory, threads, files = np.array(samples[120:]).T  # as many durations as are kept
    assert figures["frames_captured"] > 100_000
    assert memory[-60:].mean() - memory[:60].mean() < 1.0
    assert len(set(threads)) <= 2 and threads[-1] <= threads[0] and files[-1] <= files[0]
