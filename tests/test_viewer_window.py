"""The viewer as a user has it: a real window under Xvfb, real keys, real files that it keeps."""

import json
import shutil
import signal
import time
from itertools import chain, repeat
from types import SimpleNamespace

import av
import cv2
import numpy as np
import pytest
from faults.clock import busy, until
from faults.server import MjpegServer
from program import opened_window, screenshot, start, xdotool

from realtime_lrp import config
from realtime_lrp.commands.live import run as live
from realtime_lrp.results.provenance import find_provenance
from realtime_lrp.view.hud import WARNING

NAMES = {".": "period", "+": "plus", "=": "equal", "-": "minus", "?": "question"}
NAMES |= {"]": "bracketright", "[": "bracketleft"}


class Screen:
    """A window and what can be done with it."""

    def __init__(self, display, process, folder):
        self.display, self.process, self.folder = display, process, folder
        self.window = opened_window(display, process)
        xdotool(display, "windowfocus", "--sync", self.window)

    def press(self, *keys, pause_s=0.12):
        """Presses keys one after the other."""
        for key in keys:
            xdotool(self.display, "key", NAMES.get(key, key))
            time.sleep(pause_s)
            assert self.process.poll() is None, (key, self.process.stderr.read())


def warm(picture):
    """How many pixels have the colour of notices and headings."""
    return int((np.abs(picture.astype(int) - WARNING).sum(-1) < 30).sum())


def viewer(display, model, *words):
    """The viewer on the demo's clip."""
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
        """Waits for so many further pictures."""
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
    """At the end the view has the map of the transformer, too."""
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
