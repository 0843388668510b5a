"""The exhibit as it is installed: a real process on a real display."""

import json
import os
import stat
import threading
import time
from pathlib import Path

import psutil
import pytest
from faults.clock import until
from faults.server import MjpegServer
from program import opened_window, repeating, screenshot, start, xdotool

from realtime_lrp.commands.kiosk.keys import hash_pin
from realtime_lrp.view.exhibit import ACCENT, BACKGROUND, KEY_COLOUR


class OpenFiles:
    """Notes, a hundred times a second, the files that a process and its children can write.

    Attributes:
      files: the paths that were seen.
    """

    def __init__(self, pid):
        self._pid, self.files, self._stop = pid, set(), threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self):
        """Ends; returns the files."""
        self._stop.set()
        self._thread.join()
        return self.files

    def _look(self):
        while not self._stop.wait(0.01):
            for process in self._processes():
                self._look_at(Path(f"/proc/{process}"))

    def _processes(self):
        try:
            return [self._pid, *(one.pid for one in psutil.Process(self._pid).children(True))]
        except psutil.NoSuchProcess:
            return []

    def _look_at(self, process):
        try:
            for link in (process / "fd").iterdir():
                flags = int((process / "fdinfo" / link.name).read_text().split()[3], 8)
                if flags & os.O_ACCMODE and stat.S_ISREG(link.stat().st_mode):
                    self.files.add(os.readlink(link))
        except (OSError, IndexError):  # closed, or ended, meanwhile
            return


@pytest.mark.release
@pytest.mark.gui
def test_the_first_card_is_shown_while_tensorflow_is_imported(display, tmp_path, new_processes):
    """And the window answers: `p` shows the privacy card before there is an engine."""
    shot = tmp_path / "shot.png"
    words = ("kiosk", "--source", "synthetic", "--set", "kiosk.languages=[en]")
    with start(*words, DISPLAY=display, STATE_DIRECTORY=str(tmp_path)) as process:
        until(lambda: (screenshot(display, shot) == ACCENT).all(-1).sum() > 500)
        card = screenshot(display, shot)
        xdotool(display, "key", "p")
        until(lambda: (screenshot(display, shot) != card).mean() > 0.02)
        health = json.loads((tmp_path / "health.json").read_text())
        assert (health["state"], health["card"]) == ("card", "starting")
        process.terminate()
        assert process.wait(300) == 0


@pytest.mark.release
@pytest.mark.gui
def test_visitors_cannot_leave_and_no_picture_is_written(display, tmp_path):
    """Keys, clicks and the window manager do not end it; holding the key and the PIN do, with 0.

    Only the log and the health file are left, and no other file was open for writing.
    """
    for name in ("home", "work", "tmp"):
        (tmp_path / name).mkdir()
    environment = {
        "HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp"), "DISPLAY": display,
        "XDG_STATE_HOME": str(tmp_path / "home"), "KERAS_HOME": str(Path.home() / ".keras"),
        "XDG_CACHE_HOME": str(tmp_path / "home" / ".cache"),
    }  # fmt: skip
    sets = [f"kiosk.pin={hash_pin('4711')}", "live.folder=."]
    words = [word for one in sets for word in ("--set", one)]
    with (
        MjpegServer() as server,
        start(
            "kiosk", "--source", server.url, *words, cwd=tmp_path / "work", **environment
        ) as process,
    ):
        opened_window(display, process)
        open_files = OpenFiles(process.pid)
        health = tmp_path / "home" / "realtime-lrp" / "health.json"
        shot = tmp_path / "shot.png"
        until(lambda: health.exists() and '"state": "active"' in health.read_text())
        screenshot(display, shot)
        tree = files_in(tmp_path)
        for key in ("Escape", "q", "ctrl+c", "ctrl+q", "ctrl+s", "alt+F4", "F11", "r", "s"):
            xdotool(display, "key", key)
        for button in (1, 2, 3, 4, 4, 5):
            xdotool(display, "mousemove", 400, 300, "click", button)
        xdotool(display, "mousemove", 3, 3, "mousedown", 1, "sleep", 1, "mouseup", 1)
        time.sleep(1.2)
        assert process.poll() is None
        assert_full_screen(screenshot(display, shot))
        assert files_in(tmp_path) == tree

        with repeating(display):
            xdotool(display, "keydown", "q")
            until(lambda: (screenshot(display, shot) == KEY_COLOUR).all(-1).sum() > 10_000)
            xdotool(display, "keyup", "q")
        for digits in ("1234", "4711"):
            assert process.poll() is None
            time.sleep(1.2)
            for digit in digits:
                xdotool(display, "key", digit, "sleep", 0.15)
            xdotool(display, "key", "Return")
        assert process.wait(300) == 0
        written = {Path(file).name.partition(".")[0] for file in open_files.stop() if is_ours(file)}
        assert written <= {"kiosk", "health", "precision", "running"}  # the last one is the lock
        assert "Traceback" not in process.stderr.read()
    shot.unlink()
    left = [name for name in files_in(tmp_path) if is_ours(name)]
    assert left == [
        "home/.cache/realtime-lrp/precision.json",
        "home/realtime-lrp/health.json",
        "home/realtime-lrp/kiosk.log",
        "home/realtime-lrp/running",
    ]


def is_ours(file):
    """Whether a file is one of ours.

    Others are Matplotlib's list of fonts, what TensorFlow prints (kept in memory while it is
    imported) and the network's own weights.
    """
    return not (
        "/matplotlib/" in file or "/memfd:" in file or Path(file).name == "model.weights.h5"
    )


def files_in(folder):
    """All files in a folder, sorted, except those being written."""
    found = (file for file in folder.rglob("*") if file.is_file())
    names = (str(file.relative_to(folder)) for file in found)
    return sorted(name for name in names if not name.endswith(".part"))


def assert_full_screen(shot):
    """Asserts that the page is at the right edge of the screen and the picture fills the rest."""
    assert (shot[5, -5:] == BACKGROUND).all() or (shot[5, :5] == BACKGROUND).all()
    page = (shot == BACKGROUND).all(-1).mean(axis=0) > 0.2
    assert page.mean() == pytest.approx(0.36, abs=0.02), "the page's share of the width"
