"""`doctor`: each finding with what to do about it, whatever raises, crashes or hangs."""

import fcntl
import os
import subprocess
import sys
from collections import namedtuple
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import media
import numpy as np
import pytest
from faults.clock import until
from faults.server import MjpegServer

from realtime_lrp import config
from realtime_lrp.commands.doctor import checks
from realtime_lrp.commands.doctor import run as doctor
from realtime_lrp.commands.doctor.checks import Row
from realtime_lrp.engine import engine
from realtime_lrp.errors import UnavailableError
from realtime_lrp.models.applications import APPLICATIONS
from realtime_lrp.video import cameras as video_cameras
from realtime_lrp.video import reader, sources, writer
from realtime_lrp.video.source import Source
from realtime_lrp.view.window import window

ROOT = Path(__file__).parents[1]
SETTINGS = config.load()


def only(rows):
    """The one row of a check."""
    (row,) = rows
    return row


def test_everything_is_found_on_one_page(run):
    """Symbols are named, films are written and read back; exit code 0, at most 100 columns."""
    code, out, err = run("doctor", "--source", "synthetic", "--display", "none")
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert max(map(len, lines)) <= 100 and len(lines) <= 40
    assert lines[-1] == "The demo runs on this machine, and files can be processed."
    marks = {line[9:26].strip(): (line[:9].strip(), line[26:]) for line in lines if line[:1] > " "}
    for name, words in {
        "program": "realtime_lrp 0.",
        "packages": "TensorFlow 2.",
        "source": "synthetic: 640 x 480, ",
        "display": "not needed",
        "network": "shapes names 4 of 4 symbols of the demo's clip correctly; a map takes",
        "codecs": "h264, hevc, av1: written and read back",
        "fonts": "sans and uni draw",
    }.items():
        assert marks[name][0] == "ok" and marks[name][1].startswith(words), name
    assert "missing" not in [mark for mark, _ in marks.values()]


@pytest.fixture
def reported(monkeypatch):
    """Makes every group return these rows."""

    def report(*rows):
        monkeypatch.setattr(doctor, "run_group", lambda group, settings: rows)

    return report


def test_something_missing_exits_with_69(run, reported):
    """Warnings do not. -q hides the report, but not the reason."""
    reported(Row("warning", "camera", "none is there", "plug one in"))
    assert run("doctor")[0] == 0
    reported(Row("missing", "codecs", "no h264", "install it"), Row("ok", "fonts", "good"))
    code, out, err = run("doctor")
    assert code == 69
    assert err.startswith("realtime-lrp: Something needed is missing: codecs. ")
    assert "missing  codecs  no h264\n                 -> install it\nok       fonts" in out
    assert run("doctor", "-q")[:2] == (69, "")


@pytest.mark.parametrize(
    ("given", "group", "mark"),
    [
        ({}, "cameras", "warning"),
        ({"options": {"--source": "screen"}}, "source", "missing"),
        ({"sets": ("live.source=screen",)}, "source", "missing"),
        ({"file": "my.yaml"}, "source", "warning"),
    ],
)
def test_a_source_that_is_named_is_tried_instead_of_cameras(given, group, mark, tmp_path):
    """A source from the command line has to give pictures."""
    (tmp_path / "my.yaml").write_text("live: {source: screen}\n")
    file = tmp_path / given.pop("file") if "file" in given else None
    found = doctor.groups(config.load(file, **given))[1]
    assert (found.name, found.mark) == (group, mark)


FAULTS = """
import os, signal, sys, tempfile, time
from realtime_lrp.commands.doctor import checks
from realtime_lrp.commands.doctor.checks import Row

def good(settings):
    print("noise")
    yield Row("ok", "good", settings.config.live.source)

def raises(settings):
    raise OSError("no such thing")

def crashes(settings):
    print("built for another processor", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGILL)

def hangs(settings):
    yield Row("ok", "before", "good")
    tempfile.mkdtemp("hangs")
    time.sleep(60)

rows = "program", "libraries", "configuration", "disks", "temporary"
for row in rows:
    setattr(checks, row, lambda settings: ())
for row, name in zip(rows, FAULT):
    setattr(checks, row, globals()[name])
"""


@pytest.mark.parametrize(
    ("fault", "rows"),
    [
        (("raises", "good"), [("program", "failed: OSError: no such thing"), ("good", "film.mp4")]),
        (
            ("good", "crashes", "raises"),
            [
                ("good", "film.mp4"),
                ("system", "failed: it ended with SIGILL (built for another processor)"),
            ],
        ),
        (
            ("hangs", "good"),
            [("before", "good"), ("system", "failed: it did not finish within 20 seconds")],
        ),
    ],
)
def test_a_failing_check_leaves_the_others(fault, rows, tmp_path, temporary_folder, monkeypatch):
    """An exception costs one row, a crash or a hang the rest of its group; no file is left."""
    monkeypatch.setenv("TMPDIR", str(temporary_folder))
    (tmp_path / "sitecustomize.py").write_text(f"FAULT = {fault}\n{FAULTS}")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    settings = config.load(options={"--source": "film.mp4"})

    class Watched(subprocess.Popen):
        """Its time is up once it hangs."""

        def communicate(self, given, timeout):
            self.stdin.write(given)
            self.stdin.close()
            self.stdin = None
            hangs = lambda: [*temporary_folder.rglob("*hangs")]  # noqa: E731
            until(lambda: hangs() or self.poll() is not None)
            return super().communicate(timeout=0.1 if hangs() else None)

    monkeypatch.setattr(doctor.subprocess, "Popen", Watched)
    found = doctor.run_group(replace(doctor.SYSTEM), settings)
    assert [(row.name, row.found) for row in found] == rows
    assert {row.advice for row in found if row.mark == "warning"} == {doctor.SYSTEM.advice}


@pytest.mark.parametrize(
    ("group", "words", "advice"),
    [
        (doctor.MEDIA, "libGL.so.1: cannot open", "apt install libgl1"),
        (doctor.MEDIA, "it is damaged", "reinstall OpenCV"),
    ],
)
def test_a_library_that_cannot_be_loaded_is_one_row(group, words, advice, tmp_path, monkeypatch):
    """Whatever needs OpenCV says why it does not load, and what to install."""
    (tmp_path / "cv2.py").write_text(f"raise ImportError({words!r})")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    row = doctor.run_group(group, SETTINGS)[-1]
    assert (row.mark, row.found) == ("missing", f"failed: ImportError: {words}")
    assert row.advice.startswith(advice)


def test_the_program_itself_loads_nothing_that_may_be_missing():
    """`doctor` has to run on machines on which libraries are missing."""
    code = (
        "import realtime_lrp.commands.doctor.run, sys\n"
        "print({'tensorflow', 'keras', 'cv2', 'av', 'numpy'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


# Cameras


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Linux' folders of cameras: two that film, a node without pictures, one that is not known."""
    known, nodes = tmp_path / "video4linux", tmp_path / "dev"
    nodes.mkdir()
    monkeypatch.setattr(video_cameras, "SYSTEM", known)
    monkeypatch.setattr(video_cameras, "LINUX", True)
    monkeypatch.setattr(checks, "NODES", nodes)
    for node, index, name in [("video0", 0, "C920"), ("video1", 1, "C920"), ("video2", 0, "Coder")]:
        (known / node).mkdir(parents=True)
        (known / node / "index").write_text(f"{index}\n")
        (known / node / "name").write_text(f"{name}\n")
    for number in (0, 1, 2, 7):
        (nodes / f"video{number}").touch()
    return nodes


class Filmed(Source):
    """A camera with pictures of one colour, so many seconds after each other by a clock of its own.

    With None for the seconds none ever comes.
    """

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
    """What the next source gives."""
    monkeypatch.setattr(checks, "time", SimpleNamespace(monotonic=lambda: Filmed.now))

    def give(level=90, each_s=1 / 32, error=None):
        def opened(words, stop, camera):
            if error:
                raise error
            return Filmed(level, each_s, stop)

        monkeypatch.setattr(sources, "open_source", opened)

    return give


def test_every_camera_is_opened_and_measured(machine, films_so, monkeypatch):
    """With its name and measured rate; video encoders are not listed as cameras."""
    monkeypatch.setattr(video_cameras, "gives_pictures", lambda node: node != "/dev/video2")
    films_so()
    first, unknown = checks.every_camera(SETTINGS)
    assert first.mark == unknown.mark == "ok"
    seen = "64 x 48, 32.0 fps measured (it claims 64 x 48, 30 fps, YUYV)"
    assert first.found == f"C920 (/dev/video0): {seen}"
    assert unknown.found == f"a camera without a name ({machine}/video7): {seen}"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"level": 1}, "the picture is black"),
        ({"each_s": 1 / 16}, "live.camera_format=MJPG"),
        ({"error": UnavailableError("Camera 0 cannot be opened. Check it.")}, "fuser -v"),
    ],
)
def test_a_camera_that_is_no_good_is_a_warning(given, words, machine, films_so, monkeypatch):
    """Black, slow, or in use: each with what to do."""
    monkeypatch.setattr(video_cameras, "gives_pictures", lambda node: True)
    films_so(**given)
    first = next(checks.every_camera(SETTINGS))
    assert first.mark == "warning" and words in first.advice


@pytest.mark.parametrize(
    ("error", "found", "advice"),
    [
        (PermissionError(13, "Permission denied"), "no permission", "usermod -aG video "),
        (FileNotFoundError(2, "No such file"), "there is no /dev/video0", "docker run --device"),
    ],
)
def test_a_camera_that_may_not_be_opened_says_how(error, found, advice, machine, monkeypatch):
    """The advice names the device's group, or how to pass it into a container."""

    def refused(node):
        raise error

    monkeypatch.setattr(video_cameras, "gives_pictures", refused)
    row = next(checks.every_camera(SETTINGS))
    assert row.mark == "warning" and found in row.found and advice in row.advice


def test_without_a_camera_there_are_other_sources(monkeypatch, tmp_path):
    """On Linux none is listed; elsewhere the first one is tried."""
    monkeypatch.setattr(video_cameras, "SYSTEM", tmp_path)
    monkeypatch.setattr(checks, "NODES", tmp_path)
    row = only(checks.every_camera(SETTINGS))
    assert (row.mark, row.found) == ("warning", "none found")
    assert "--source synthetic" in row.advice


def test_a_coder_is_no_camera(tmp_path, monkeypatch):
    """By the capabilities of Linux' structure: those of the node, where the device says so."""
    node = tmp_path / "video0"
    node.touch()
    assert video_cameras.gives_pictures(str(node))  # a file answers nothing
    for device, of_node, films in (
        (1, 0, True),
        (0x80000001, 0x8000, False),
        (0x80008000, 1, True),
    ):
        answer = bytes(84) + np.array([device, of_node, 0, 0, 0], np.uint32).tobytes()
        monkeypatch.setattr(fcntl, "ioctl", lambda camera, request, given, answer=answer: answer)
        assert video_cameras.gives_pictures(str(node)) is films


def test_a_stream_is_measured_and_its_password_hidden(monkeypatch):
    """Of a real server."""
    monkeypatch.setattr(checks, "MEASURE_S", 0.7)
    with MjpegServer() as server:
        url = server.url.replace("//", "//me:secret@")
        row = only(checks.chosen_source(config.load(options={"--source": url})))
    assert row.mark == "ok" and "secret" not in row.found
    assert "/camera.mjpg: 320 x 240, " in row.found and row.found.endswith(" fps measured")


# The display


@pytest.mark.parametrize(
    ("variables", "found", "advice"),
    [
        ({}, "none (the variable DISPLAY is not set)", "graphical session"),
        ({"DISPLAY": ":4321"}, "the display :4321", "XAUTHORITY"),
    ],
)
def test_a_display_that_is_not_there_is_a_warning(variables, found, advice, monkeypatch):
    """And no window is tried."""
    monkeypatch.setattr(window, "Window", None)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    row = only(checks.display(SETTINGS))
    assert row.mark == "warning" and row.found.startswith(found) and advice in row.advice


@pytest.mark.gui
def test_a_window_opens(display, monkeypatch):
    """For a moment, in a process of its own; the screen has its size."""
    monkeypatch.setenv("DISPLAY", display)
    row = only(doctor.run_group(doctor.DISPLAY, SETTINGS))
    assert (row.mark, row.found) == ("ok", "a window opens, screen 1280 x 800")


# What computes


def test_wrong_names_are_missing_with_their_location(tmp_path):
    """As `realtime-lrp config` reports them; without a file or --set there is no row."""
    file = tmp_path / "my.yaml"
    file.write_text("lrp:\n  composite: zpluss\nlive:\n  panels: [gradient, grad_came]\n")
    rows = list(checks.configuration(config.load(file, check=None)))
    assert [row.mark for row in rows] == ["missing"] * 2
    assert rows[0].found.startswith(f"{file}:2: lrp.composite: ") and "'zplus'" in rows[0].found
    assert rows[1].found.startswith(f"{file}:4: live.panels")
    row = only(checks.configuration(config.load(sets=("lrp.keep=0.5",))))
    assert (row.mark, row.found) == ("ok", "1 x --set")
    assert list(checks.configuration(SETTINGS)) == []


def test_a_network_that_names_symbols_wrongly_is_missing(monkeypatch):
    """As with other weights; maps are computed in the precision that is configured."""

    class Untrained:
        network = SimpleNamespace(labels=["star", "heart", "house", "fish"])

        def __init__(self, chosen, **options):
            self.computed = f"{chosen.lrp.precision} on CPU"

        def explain(self, pictures):
            return [SimpleNamespace(scores=np.array([0.9, 0.1, 0.0, 0.0]))]

    monkeypatch.setattr(engine, "Engine", Untrained)
    row = only(checks.network(config.load(sets=("lrp.precision=float32",))))
    assert row.mark == "missing" and row.found.startswith("shapes names 1 of 4 symbols")
    assert row.found.endswith(" ms (float32 on CPU)")


@pytest.mark.parametrize(
    ("there", "model", "mark"),
    [(False, None, "warning"), (False, "shapes", "ok"), (True, "VGG16", "ok")],
)
def test_weights_are_listed_and_never_downloaded(there, model, mark, tmp_path, monkeypatch):
    """A warning only where the network is one that needs them."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    path = APPLICATIONS["vgg16"].weights
    path.parent.mkdir()
    if there:
        path.write_bytes(b"weights")
    options = {"--model": model} if model else {}
    row = only(checks.weights(config.load(options=options)))
    assert (row.mark, row.found) == (mark, f"downloaded: {'vgg16' if there else 'none'}")
    assert ("528 MB" in row.advice and str(path) in row.advice) == (mark == "warning")


# Films, fonts, folders


@pytest.mark.parametrize(("codec", "mark"), [("h264", "missing"), ("av1", "warning")])
def test_a_broken_codec_is_reported(codec, mark, monkeypatch):
    """Other pictures are read than were written; only H.264 is needed."""

    class Faulty(reader.VideoReader):
        def __init__(self, path):
            super().__init__(path)
            self._faulty = path.stem == codec

        def __iter__(self):
            for frame in super().__iter__():
                yield replace(frame, picture=255 - frame.picture) if self._faulty else frame

    monkeypatch.setattr(writer, "CODECS", {name: writer.CODECS[name] for name in ("h264", "av1")})
    monkeypatch.setattr(reader, "VideoReader", Faulty)
    row, good = checks.codecs(SETTINGS)
    assert row.mark == mark and row.found.startswith(f"{codec}: pictures read back")
    assert "force-reinstall av" in row.advice
    rest = {"h264": "av1", "av1": "h264"}[codec]
    assert (good.mark, good.found) == ("ok", f"{rest}: written and read back")


Usage = namedtuple("Usage", "total used free")


def test_folders_without_room_or_permission_are_warnings(tmp_path, monkeypatch):
    """Films and downloads each with their folder; one that will be made counts as its parent."""
    folder = tmp_path / "films"
    folder.mkdir()
    settings = config.load(sets=(f"live.folder={folder}",), check=None)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "none" / "yet"))
    monkeypatch.setattr(checks.shutil, "disk_usage", lambda path: Usage(0, 0, 2e9))
    found = [(row.mark, row.found) for row in checks.disks(settings)]
    folders = folder, f"{tmp_path}/none/yet/models"
    assert found == [("ok", f"2.0 GB free in {one}") for one in folders]
    monkeypatch.setattr(checks.shutil, "disk_usage", lambda path: Usage(0, 0, 5e8))
    row, _ = checks.disks(settings)
    assert row.mark == "warning" and row.advice.startswith("free some space, or ")

    def refused(dir):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(checks.tempfile, "TemporaryFile", refused)
    _, row = checks.disks(settings)
    assert row.mark == "warning" and "cannot be written (Read-only file system)" in row.found
    assert "KERAS_HOME" in row.advice
    assert not (tmp_path / "none").exists()


def test_packages_installed_twice_or_not_at_all_are_reported(monkeypatch):
    """Two packages that contain OpenCV overwrite each other."""
    brought = {
        **{name: [name] for name in ("tensorflow", "keras", "numpy")},
        "cv2": ["opencv-python", "opencv-contrib-python", "opencv-python"],
    }
    monkeypatch.setattr(checks.metadata, "packages_distributions", lambda: brought)
    monkeypatch.setattr(checks.metadata, "version", lambda name: "1.2")
    there, twice, none = checks.libraries(SETTINGS)
    assert there.found == "TensorFlow 1.2, Keras 1.2, OpenCV 1.2 and 1.2, NumPy 1.2"
    assert twice.mark == "warning" and "opencv-contrib-python and opencv-python" in twice.found
    assert (none.mark, none.found) == ("missing", "PyAV is not installed")
