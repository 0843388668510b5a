"""`doctor`: each finding with what to do about it, whatever raises, crashes or hangs."""

import fcntl
import os
import re
import struct
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import media
import pytest
from faults.cameras import linux_cameras
from faults.clock import until
from faults.server import MjpegServer

from realtime_lrp import config
from realtime_lrp.commands.doctor import checks
from realtime_lrp.commands.doctor import run as doctor
from realtime_lrp.commands.doctor.checks import Finding
from realtime_lrp.errors import UnavailableError
from realtime_lrp.video import cameras as video_cameras
from realtime_lrp.video import sources
from realtime_lrp.video.source import Source

SETTINGS = config.load()


def only(rows):
    (row,) = rows
    return row


@pytest.mark.release
def test_everything_is_found_on_one_page(run):
    code, out, err = run("doctor", "--source", "synthetic", "--display", "none")
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert max(map(len, lines)) <= 100 and len(lines) <= 40
    assert lines[-1] == "The demo runs on this machine, and files can be processed."
    rows = [re.split(" {2,}", line, maxsplit=2) for line in lines[:-2] if line[:1] > " "]
    marks = {name: (mark, found) for mark, name, found in rows}
    for name, words in {
        "program": "realtime_lrp 0.", "packages": "TensorFlow 2.",
        "source": "synthetic: 640 x 480, ", "display": "not needed",
        "network": "shapes names 4 of 4 symbols of the demo's clip correctly; a map takes",
        "codecs": "h264, hevc, av1: written and read back",
    }.items():  # fmt: skip
        assert marks[name][0] == "ok" and marks[name][1].startswith(words), name
    assert "missing" not in [mark for mark, _ in marks.values()]


@pytest.fixture
def reported(monkeypatch):
    def report(*rows):
        monkeypatch.setattr(doctor, "run_group", lambda group, settings: rows)

    return report


def test_something_missing_exits_with_69(run, reported):
    reported(Finding("warning", "none is there", "plug one in", "camera"))
    assert run("doctor")[0] == 0
    reported(
        Finding("missing", "no h264", "install it", "codecs"), Finding("ok", "good", name="more")
    )
    code, out, err = run("doctor")
    assert code == 69
    assert err.startswith("realtime-lrp: Something needed is missing: codecs. ")
    assert "missing  codecs  no h264\n                 -> install it\nok       more" in out
    assert run("doctor", "-q")[:2] == (69, "")


def test_a_source_that_is_named_is_tried_instead_of_cameras(tmp_path):
    file = tmp_path / "my.yaml"
    file.write_text("live: {source: screen}\n")
    for loaded, group, mark in (
        (config.load(), "cameras", "warning"),
        (config.load(options={"--source": "screen"}), "source", "missing"),
        (config.load(sets=("live.source=screen",)), "source", "missing"),
        (config.load(file), "source", "warning"),
    ):
        found = doctor.groups(loaded)[1]
        assert (found.name, found.mark) == (group, mark)


FAULTS = """
import os, signal, sys, time
from realtime_lrp.commands.doctor import checks
from realtime_lrp.commands.doctor.checks import Finding

def good(settings):
    print("noise")
    yield Finding("ok", settings.config.live.source)

def raises(settings):
    raise OSError("no such thing")

def crashes(settings):
    print("built for another processor", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGILL)

def hangs(settings):
    yield Finding("ok", "good")
    open(os.path.join(os.path.dirname(__file__), "hangs"), "w").close()
    time.sleep(60)

rows = "program", "libraries", "films", "downloads"
for row in rows:
    setattr(checks, row, lambda settings: ())
for row, name in zip(rows, FAULT):
    setattr(checks, row, globals()[name])
"""


@pytest.mark.parametrize(
    ("fault", "rows"),
    [
        (("raises", "good"),
         [("program", "failed: OSError: no such thing"), ("packages", "film.mp4")]),
        (("good", "crashes", "raises"),
         [("program", "film.mp4"),
          ("system", "failed: it ended with SIGILL (built for another processor)")]),
        (("hangs", "good"),
         [("program", "good"), ("system", "failed: it did not finish within 20 seconds")]),
    ],
)  # fmt: skip
def test_a_failing_check_leaves_the_others(fault, rows, tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(f"FAULT = {fault}\n{FAULTS}")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{Path(__file__).parents[1]}")
    settings = config.load(options={"--source": "film.mp4"})

    class Watched(subprocess.Popen):
        """Its time is up once it hangs."""

        def communicate(self, given, timeout):
            self.stdin.write(given)
            self.stdin.close()
            self.stdin = None
            hangs = tmp_path / "hangs"
            until(lambda: hangs.exists() or self.poll() is not None)
            return super().communicate(timeout=0.1 if hangs.exists() else None)

    monkeypatch.setattr(doctor.subprocess, "Popen", Watched)
    found = doctor.run_group(replace(doctor.SYSTEM), settings)
    assert [(row.name, row.found) for row in found] == rows
    assert {row.advice for row in found if row.mark == "warning"} == {doctor.SYSTEM.advice}


@pytest.fixture
def machine(tmp_path, monkeypatch):
    linux_cameras(monkeypatch, tmp_path, "C920", "Coder")


class Filmed(Source):
    """A camera of one colour with a picture every so many seconds of its own clock, or none."""

    alive = True
    described = "camera 0, 64 x 48, 30 fps, YUYV"
    now = 0.0

    def __init__(self, level, each_s, stop):
        super().__init__(stop)
        self._picture, self._each_s = media.plain((level,) * 3, (48, 64)), each_s

    def read(self):
        if self._each_s is None:
            self.stop.wait()
            return None
        Filmed.now += self._each_s
        return self._picture


@pytest.fixture
def films_so(monkeypatch):
    monkeypatch.setattr(checks, "time", SimpleNamespace(monotonic=lambda: Filmed.now))

    def give(level=90, each_s=1 / 32, error=None):
        def opened(words, stop, camera):
            if error:
                raise error
            return Filmed(level, each_s, stop)

        monkeypatch.setattr(sources, "open_source", opened)

    return give


def test_every_camera_is_opened_and_measured(machine, films_so, monkeypatch):
    monkeypatch.setattr(video_cameras, "gives_pictures", lambda node: node != "/dev/video2")
    films_so()
    camera = only(checks.every_camera(SETTINGS))
    seen = "64 x 48, 32.0 fps measured (it claims 64 x 48, 30 fps, YUYV)"
    assert (camera.mark, camera.found) == ("ok", f"C920 (/dev/video0): {seen}")


def test_a_camera_that_is_no_good_is_a_warning(machine, films_so, monkeypatch):
    monkeypatch.setattr(video_cameras, "gives_pictures", lambda node: True)
    in_use = UnavailableError("Camera 0 cannot be opened. Check it.")
    for given, words in (
        ({"level": 1}, "the picture is black"), ({"each_s": 1 / 16}, "live.camera_format=MJPG"),
        ({"error": in_use}, "fuser -v"),
    ):  # fmt: skip
        films_so(**given)
        first = next(checks.every_camera(SETTINGS))
        assert first.mark == "warning" and words in first.advice


def test_a_coder_is_no_camera(tmp_path, monkeypatch):
    """By the capabilities of Linux' structure: those of the node, where the device says so."""
    node = tmp_path / "video0"
    node.touch()
    assert video_cameras.gives_pictures(str(node))  # a file answers nothing
    for device, of_node, films in (
        (1, 0, True), (0x80000001, 0x8000, False), (0x80008000, 1, True),
    ):  # fmt: skip
        answer = bytes(84) + struct.pack("=5I", device, of_node, 0, 0, 0)
        monkeypatch.setattr(fcntl, "ioctl", lambda camera, request, given, answer=answer: answer)
        assert video_cameras.gives_pictures(str(node)) is films


def test_a_stream_is_measured_and_its_password_hidden(monkeypatch):
    monkeypatch.setattr(checks, "MEASURE_S", 0.7)
    with MjpegServer() as server:
        url = server.url.replace("//", "//me:secret@")
        row = only(checks.chosen_source(config.load(options={"--source": url})))
    assert row.mark == "ok" and "secret" not in row.found
    assert "/camera.mjpg: 320 x 240, " in row.found and row.found.endswith(" fps measured")
