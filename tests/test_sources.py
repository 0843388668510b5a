"""What `--source` names: cameras, screens, streams and files."""

import functools
import io
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import cv2
import media
import numpy as np
import pytest
from faults.cameras import Awaited, Device, Scripted, World, linux_cameras
from faults.clock import SkippingClock, until
from faults.server import MjpegServer

from realtime_lrp.errors import DamagedInputError, MissingInputError, UnavailableError
from realtime_lrp.realtime import capture as capture_module
from realtime_lrp.realtime.capture import DARK, FROZEN, LOST, NO_PICTURE, Capture
from realtime_lrp.system.child import Channel, Failed
from realtime_lrp.system.shared import SharedPicture
from realtime_lrp.video import cameras, picture_process
from realtime_lrp.video.cameras import Camera
from realtime_lrp.video.picture_process import ChildSource, Facts, Given, Next
from realtime_lrp.video.playback import Playback
from realtime_lrp.video.reader import VideoReader
from realtime_lrp.video.source import Source, Timeline
from realtime_lrp.video.sources import ScreenSource, Synthetic, open_source


@pytest.fixture
def stop():
    event = threading.Event()
    yield event
    event.set()


class FakeDriver:
    """Stands for `cv2.VideoCapture`; in its script None is a damaged picture, the end a loss."""

    def __init__(self, script=(), exists=True, **given):
        self.calls, self.script, self.exists, self.given = [], list(script), exists, given
        self.released = False

    def open(self, device, api):
        self.calls.append((device, api))
        return self.exists

    def set(self, name, value):
        self.calls.append((name, value))
        return False

    def get(self, name):
        values = {
            cv2.CAP_PROP_FRAME_WIDTH: self.given.get("width", 640),
            cv2.CAP_PROP_FRAME_HEIGHT: self.given.get("height", 480),
            cv2.CAP_PROP_FPS: self.given.get("fps", 30.0),
            cv2.CAP_PROP_FOURCC: self.given.get("format", cv2.VideoWriter.fourcc(*"YUYV")),
        }
        return float(values[name])

    def grab(self):
        return bool(self.script)

    def retrieve(self):
        return True, self.script.pop(0)

    def release(self):
        self.released = True


@pytest.fixture
def driver(monkeypatch):
    """Makes a fake driver the one that the next cameras meet."""

    def installed(*script, **given):
        fake = FakeDriver(script, **given)
        monkeypatch.setattr(cv2, "VideoCapture", lambda: fake)
        return fake

    return installed


@pytest.fixture
def system(tmp_path, monkeypatch):
    linux_cameras(monkeypatch, tmp_path, "HD Pro Webcam C920", "Integrated Webcam: front")


def filmed(rows, columns):
    """A picture as OpenCV has it: blue."""
    return media.plain((255, 0, 0), (rows, columns))


def test_a_camera_is_asked_in_the_right_order(driver, stop, monkeypatch):
    monkeypatch.setattr(cameras, "LINUX", True)
    fake = driver(filmed(720, 1280), width=1280, height=720, format=1196444237.0)
    with Camera(3, {"size": (1280, 720), "fps": 30, "format": "MJPG"}, stop) as camera:
        assert fake.calls == [
            (3, cv2.CAP_V4L2), (cv2.CAP_PROP_FOURCC, cv2.VideoWriter.fourcc(*"MJPG")),
            (cv2.CAP_PROP_FRAME_WIDTH, 1280), (cv2.CAP_PROP_FRAME_HEIGHT, 720),
            (cv2.CAP_PROP_FPS, 30), (cv2.CAP_PROP_BUFFERSIZE, 2),
        ]  # fmt: skip
        assert (camera.read() == (0, 0, 255)).all()
        assert camera.read() is None
        assert camera.described == "camera 3, 1280 x 720, 30 fps, MJPG"
        assert not fake.released
    assert fake.released


def test_a_damaged_picture_of_a_camera_is_not_a_loss(driver, stop):
    driver(filmed(480, 640), None, np.zeros((0, 0, 3), np.uint8), filmed(480, 640))
    camera = Camera(0, {}, stop)
    pictures = [camera.read() for _ in range(3)]
    assert [one is not None for one in pictures] == [True, True, False]


def test_a_camera_is_found_by_a_part_of_its_name(system, driver, stop):
    for words, node in (("c920", "/dev/video0"), ("Integrated", "/dev/video2")):
        fake = driver(filmed(480, 640))
        camera = Camera(words, {}, stop)
        assert fake.calls[0][0] == node
        assert camera.described == f"camera {words}, 640 x 480, 30 fps, YUYV"
    listed = r"Cameras here: HD Pro Webcam C920 \(/dev/video0\), Integrated Webcam: front \(/dev/v"
    with pytest.raises(UnavailableError, match=f"2 cameras match 'webcam'. {listed}"):
        Camera("webcam", {}, stop)
    with pytest.raises(UnavailableError, match=f"No camera matches 'c270'. {listed}"):
        Camera("c270", {}, stop)
    with pytest.raises(MissingInputError, match=f"(?s)'c270'.*no such file.*no camera.*{listed}"):
        open_source("c270", stop)


def test_sources_that_are_not_there_are_refused(stop, monkeypatch):
    for words in ("97", "99999999999", "/dev/video97", "http://127.0.0.1:9/none.mjpg"):
        with pytest.raises(UnavailableError):
            open_source(words, stop)
    for words in ("none.mp4", "screen:", "synthetic:0"):
        with pytest.raises(MissingInputError):
            open_source(words, stop)
    for display in ("", ":987", "nonsense"):
        monkeypatch.setenv("DISPLAY", display)
        with pytest.raises(UnavailableError, match="No screen can be read"):
            ScreenSource("", stop)


RED_WINDOW = """
import numpy
from realtime_lrp.view.window import Window
with Window() as window:
    print("open", flush=True)
    while True:
        window.show(numpy.full((*window.size, 3), (200, 0, 0), numpy.uint8))
        window.events()
"""


@pytest.mark.gui
def test_a_screen_is_a_source(display, stop, monkeypatch, light_scripts):
    monkeypatch.setenv("DISPLAY", display)
    with subprocess.Popen([sys.executable, "-c", RED_WINDOW], stdout=subprocess.PIPE) as window:
        window.stdout.readline()
        with open_source("screen:1", stop) as screen:
            until(lambda: (screen.read() == (200, 0, 0)).all(-1).sum() > 100_000)
        window.kill()
    with open_source("screen", stop) as screen:
        assert (screen.described, screen.steady, screen.alive) == ("screen 1", True, False)
        begin = time.monotonic()
        pictures = [screen.read() for _ in range(7)]
        assert time.monotonic() - begin > 0.19
        assert pictures[0].shape == (800, 1280, 3)
        stop.set()
        assert screen.read() is None
    for number in (0, 2):
        with pytest.raises(UnavailableError, match=f"no screen {number}. There is 1, numbered"):
            open_source(f"screen:{number}", threading.Event())


class Growing(Source):
    """Five pictures, each larger than the one before and of its number."""

    count = 0

    def read(self):
        self.count += 1
        return None if self.count > 5 else media.plain((self.count,) * 3, (10 * self.count, 700))


def waits(source):
    """Whether the next reading waits; what comes in the end goes into the list."""
    came, signs, told = [], [], source.on_wait
    source.on_wait = lambda: (signs.append(1), told())
    reading = threading.Thread(target=lambda: came.append(source.read()), daemon=True)
    reading.start()
    reading.join(0.25)
    until(lambda: signs or not reading.is_alive())
    source.on_wait = told
    return reading, came


@pytest.fixture
def two_films(tmp_path):
    """Two recordings of 4 and 3 frames, 20 a second, and their frames as they are read."""
    paths = [
        media.write_video(tmp_path / "a.mp4", media.numbered(4), fps=20),
        media.write_video(tmp_path / "b.mp4", media.numbered(3, (32, 48)), fps=20),
    ]
    frames = []
    for path, count in zip(paths, (4, 3), strict=True):
        with Playback([path], threading.Event()) as source:
            frames.append([source.read() for _ in range(count)])
    return paths, *frames


def test_a_recording_plays_at_its_own_speed_and_starts_again(tmp_path, stop):
    path = media.write_video(tmp_path / "a.mp4", media.numbered(10), fps=20)
    begin = time.monotonic()
    with Playback([path], stop) as source:
        frames = [source.read() for _ in range(11)]
        assert (source.described, source.files) == ("a.mp4", 1)
    assert time.monotonic() - begin > 0.45
    np.testing.assert_array_equal(frames[10], frames[0])
    assert not np.array_equal(frames[1], frames[0])


def test_a_paused_player_waits_and_steps(two_films, stop):
    paths, a, _ = two_films
    with Playback(paths[:1], stop) as source:
        source.control("step")  # not paused: nothing to do
        assert np.array_equal(source.read(), a[0])
        source.control("pause", True)
        reading, came = waits(source)
        assert reading.is_alive()
        source.control("step")
        reading.join(300)
        source.control("step")
        source.control("step")
        came += [source.read(), source.read()]
        np.testing.assert_array_equal(came, a[1:])
        reading, came = waits(source)
        assert reading.is_alive()
        begin = time.monotonic()
        source.control("pause", False)
        reading.join(300)
        came += [source.read() for _ in range(3)]
        assert time.monotonic() - begin > 0.19, "four frames, 50 ms apart"
        np.testing.assert_array_equal(came, a)


def test_files_are_skipped_forwards_and_backwards(two_films, tmp_path, stop):
    paths, a, b = two_films
    (tmp_path / "bad.mp4").write_text("no video")
    with Playback([paths[0], tmp_path / "bad.mp4", paths[1]], stop) as source:
        assert np.array_equal(source.read(), a[0])
        assert source.described == "a.mp4 (1 of 3)"
        source.control("skip", -1)
        assert np.array_equal(source.read(), b[0])
        assert source.described == "b.mp4 (3 of 3)"
        source.control("pause", True)
        source.control("skip", -1)
        assert np.array_equal(source.read(), a[0])
        assert source.described == "a.mp4 (1 of 2)"
        reading, came = waits(source)
        assert reading.is_alive()
        source.control("skip", 3)
        reading.join(300)
        assert np.array_equal(came[0], b[0])
        source.control("pause", False)
        for frame, right in zip([source.read() for _ in range(3)], [*b[1:], a[0]], strict=True):
            np.testing.assert_array_equal(frame, right)


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.ts"])
def test_a_seek_gives_the_frame_that_is_shown_then(name, tmp_path, stop):
    path = media.write_video(tmp_path / name, media.numbered(40), fps=20)
    times = [float(frame.pts * reader.time_base) for reader, frame in read_with(path)]
    frames = [frame.picture for _, frame in read_with(path)]
    with Playback([path], stop) as source:
        source.control("pause", True)
        source.read()
        for sought, number in ((1.0, 20), (0.98, 19), (1.93, 38), (0.26, 5), (0.0, 0), (99.0, 39)):
            source.control("seek", sought)
            assert np.array_equal(source.read(), frames[number]), sought
            assert source.timeline.position == pytest.approx(times[number] - times[0], abs=1e-3)
            assert source.timeline.length == pytest.approx(2.0, abs=0.11)
        reading, came = waits(source)
        assert reading.is_alive(), "paused"
        source.control("seek", 0.5)
        reading.join(300)
        assert np.array_equal(came[0], frames[10])


def read_with(path):
    with VideoReader(path) as reader:
        yield from ((reader, frame) for frame in reader)


@pytest.fixture
def children(monkeypatch):
    """The processes that are started; they find the modules of the tests."""
    started, popen = [], subprocess.Popen
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setattr(
        subprocess, "Popen", lambda *a, **k: started.append(popen(*a, **k)) or started[-1]
    )
    return started


def test_a_child_gives_the_frames_that_the_device_gives(tmp_path, stop, children):
    expected = np.random.default_rng(1).integers(100, 200, (48, 64, 3), np.uint8)
    with ChildSource(Device, [str(tmp_path)], stop) as source:
        assert (source.described, source.steady, source.alive) == ("device", True, True)
        np.testing.assert_array_equal(source.read(), expected)
        assert source.described == "device, read"
        with pytest.raises(UnavailableError, match=r"The device is in use\."):
            ChildSource(Device, [str(tmp_path)], stop)
    assert [child.poll() is not None for child in children] == [True, True]


def test_a_child_that_crashes_is_an_error(tmp_path, stop, children):
    with ChildSource(Device, [str(tmp_path)], stop) as source:
        source.read()
        children[0].send_signal(signal.SIGSEGV)
        with pytest.raises(UnavailableError, match=r"reads device, read ended \(SIGSEGV\)"):
            source.read()
    source = ChildSource(Device, [str(tmp_path)], stop)
    (tmp_path / "hang").touch()
    source._process.send(Next())
    until(lambda: not (tmp_path / "hang").exists())
    children[1].stdin.close()
    assert children[1].wait(60) == 0


@pytest.mark.parametrize("shared", [True, False], ids=["shared memory", "pipe"])
def test_pictures_of_a_child_are_not_overwritten(shared, stop, children, monkeypatch):
    if not shared:
        monkeypatch.setattr(SharedPicture, "create", lambda size: None)
    with ChildSource(Growing, [], stop) as source:
        pictures = [source.read() for _ in range(5)]
        assert source.read() is None, "its end"
    for number, picture in enumerate(pictures, 1):
        assert picture.shape == (10 * number, 700, 3) and (picture == number).all()
        picture[:] = 0  # which may be written to


FACTS = Facts("", False, False, 0)


def test_a_child_that_was_taken_over_can_do_no_more_than_fail(stop, monkeypatch):
    no_picture, no_message = "invalid picture", "invalid message"
    for sent, told in (
        (Given(FACTS, (1 << 20, 1 << 20, 3)), no_picture),
        (Given(FACTS, picture=np.zeros((4, 4), np.uint8)), no_picture),
        (Given(FACTS, picture=np.zeros((4, 4, 3), np.float32)), no_picture),
        (Given(Facts("", True, True, 1, 0.0, Timeline(float("nan"), 1.0, "seconds"))), no_message),
        (Given(Facts("", True, True, 1, 0.0, Timeline(0.0, -1.0, "seconds"))), no_message),
        (Failed("SystemExit", "a bad word"), "failed .a bad word"),
        (Next(), "ended .it sent an invalid message"),
    ):
        data = io.BytesIO()
        for message in (Given(FACTS), sent):
            Channel(data, data, None).send(message)
        script = f"import os, sys\nos.write(1, {data.getvalue()!r})\nsys.stdin.read()"
        command = [sys.executable, "-c", script]
        monkeypatch.setattr(picture_process, "module_command", lambda *_, told=command: told)
        refused = pytest.raises((DamagedInputError, UnavailableError), match=told)
        with ChildSource(Synthetic, [""], stop) as source, refused:
            source.read()


def test_a_recording_in_a_child_is_controlled(two_films, stop):
    paths, a, b = two_films
    with open_source(str(paths[0].parent), stop) as source:
        assert np.array_equal(source.read(), a[0])
        assert (source.described, source.files) == ("a.mp4 (1 of 2)", 2)
        source.control("pause", True)
        source.control("step")
        assert np.array_equal(source.read(), a[1])
        source.control("skip", 1)
        assert np.array_equal(source.read(), b[0]) and source.described == "b.mp4 (2 of 2)"
        source.control("seek", 0.11)
        assert np.array_equal(source.read(), b[2])
        assert source.timeline == Timeline(0.1, 0.15, "seconds")
    source.control("skip", 1)


HOUR_S = 3600.0


@pytest.fixture
def skipping(monkeypatch):
    """Real time of which a test skips what is to pass; else nothing is late for an hour."""
    limits = {
        "STALLED_S": HOUR_S, "GIVEN_UP_S": 2 * HOUR_S, "STILL_S": 1e9, "OPENING_S": 1e9,
        "FIRST_FRAME_S": 1e9,
    }  # fmt: skip
    for name, seconds in limits.items():
        monkeypatch.setattr(capture_module, name, seconds)
    monkeypatch.setattr(capture_module, "PAUSES_S", (0.1,))
    return SkippingClock()


@pytest.fixture
def world(clock):
    return World(clock)


def recorded(capture):
    """A list that gets the darkest value of each frame that is put."""
    levels, put = [], capture.frames.put

    def noted(picture, time, source):
        levels.append(int(picture.min()))
        put(picture, time, source)

    capture.frames.put = noted
    return levels


def test_a_source_that_gives_nothing_at_the_start_is_an_error(clock):

    def broken(stop):
        raise UnavailableError("no camera")

    for opened, words in (
        (broken, "no camera"),
        (lambda stop: Scripted([None], stop), "no picture"),
    ):
        with Capture(opened, clock=clock) as capture:
            clock.sleep(1)
            with pytest.raises(UnavailableError, match=words):
                capture.check()
    world = World(clock, stuck=threading.Event())
    with Capture(world.open, clock=clock) as capture:
        clock.sleep(11.9)
        capture.check()
        clock.sleep(0.2)
        with pytest.raises(UnavailableError, match="within 12 seconds"):
            capture.check()
        assert capture.trouble == ""
        world.stuck.set()


@pytest.mark.parametrize("fault", ["gone", "garbage"])
def test_a_fault_is_told_and_survived_for_ever(fault, clock, world):
    with Capture(world.open, clock=clock) as capture:
        clock.until(lambda: capture.frames.count > 2)
        for number in range(8):
            setattr(world, fault, True)
            assert clock.until(lambda: capture.trouble == LOST) <= 2
            clock.sleep((0, 4, 61, 17)[number % 4])
            setattr(world, fault, False)
            assert clock.until(lambda: not capture.trouble) <= 5
            capture.check()
            clock.sleep((0, 40)[number % 2])
        assert capture.reconnects == 8


def test_a_reader_that_hangs_is_left_behind(clock, world):
    with Capture(world.open, clock=clock) as capture:
        levels = recorded(capture)
        clock.sleep(2)
        world.blocked = release = threading.Event()
        assert clock.until(lambda: capture.trouble == LOST) <= 2
        clock.sleep(1)
        world.blocked = None
        assert clock.until(lambda: not capture.trouble) <= 5
        assert len(world.opened) == 2
        assert capture.reconnects == 1
        release.set()
        clock.sleep(3)
        assert set(levels) == {120}
        assert not capture.trouble


def test_a_stall_that_ends_by_itself_is_no_reason_to_open_again(clock, world):
    with Capture(world.open, clock=clock) as capture:
        clock.sleep(2)
        world.blocked = stall = threading.Event()
        clock.sleep(2)
        assert capture.trouble == LOST
        world.blocked = None
        stall.set()
        clock.sleep(0.5)
        assert (capture.trouble, capture.reconnects, len(world.opened)) == ("", 1, 1)


def test_opening_that_hangs_is_left_behind(clock, world):
    with Capture(world.open, clock=clock) as capture:
        clock.sleep(2)
        world.stuck = release = threading.Event()
        world.gone = True
        clock.until(lambda: len(world.opened) == 2)
        world.stuck, world.gone = None, False
        assert 14.9 < clock.until(lambda: not capture.trouble) < 15 + 0.5 + 1.2 + 0.2
        assert (capture.reconnects, len(world.opened)) == (1, 3)
        release.set()


def test_a_picture_that_stands_still_is_told_and_opened_again_once(clock, world):
    with Capture(world.open, clock=clock) as capture:
        clock.sleep(2)
        world.frozen = media.plain((90, 120, 60))
        assert 5 <= clock.until(lambda: capture.trouble == FROZEN) <= 5.2
        clock.sleep(1)
        count = capture.frames.count
        clock.sleep(60)
        assert (len(world.opened), capture.trouble) == (2, FROZEN)
        assert capture.frames.count - count == pytest.approx(60 * 25, abs=2)
        world.frozen = None
        assert clock.until(lambda: not capture.trouble) <= 0.2
        world.frozen = media.plain((90, 120, 60))
        clock.sleep(20)
        assert (len(world.opened), capture.trouble, capture.reconnects) == (3, FROZEN, 0)
        world.gone = True
        assert clock.until(lambda: capture.trouble == LOST) <= 2


def test_a_dark_room_is_told_and_a_quiet_one_is_not(clock):
    world = World(clock, level=60)
    with Capture(world.open, clock=clock) as capture:
        clock.sleep(120)
        assert not capture.trouble
        world.level = 0
        assert 5 <= clock.until(lambda: capture.trouble == DARK) <= 5.2
        world.frozen = media.plain((0, 0, 0))
        clock.sleep(20)
        assert (capture.trouble, len(world.opened)) == (DARK, 1), "it does not stand still"
        world.frozen, world.level = None, 60
        assert clock.until(lambda: not capture.trouble) <= 0.2
        world.size = (96, 128)
        clock.sleep(1)
        assert capture.frames.newest().value.shape == (96, 128, 3)
        assert not capture.trouble
        world.stuck = slow = threading.Event()
        world.gone = True
        clock.sleep(8)
        world.gone, world.level = False, 0
        slow.set()
        clock.until(lambda: not capture.trouble)
        assert 4.9 <= clock.until(lambda: capture.trouble == DARK) <= 5.2, "counted anew"
    assert capture.reconnects == 1


def test_pauses_grow_and_begin_anew_after_half_a_minute(clock, world):

    def pauses(count):
        begin = len(world.opened)
        world.gone, lost = True, clock.now()
        clock.until(lambda: len(world.opened) == begin + count)
        world.gone = False
        return np.diff([lost, *world.opened[begin:]])

    with Capture(world.open, clock=clock) as capture:
        clock.sleep(2)
        for count, healthy_s, expected in [
            (6, 10, [0.5, 1, 2, 3, 3, 3]), (2, 35, [3, 3]), (3, 35, [0.5, 1, 2]),
        ]:  # fmt: skip
            measured, right = pauses(count), np.array(expected)
            assert (measured >= 0.8 * right).all()
            assert (measured <= 1.2 * right + 0.2).all()
            clock.until(lambda: not capture.trouble)
            clock.sleep(healthy_s)


def test_a_switch_goes_over_at_once(clock):
    first, second = World(clock, level=50), World(clock, level=200)
    with Capture(first.open, clock=clock) as capture:
        levels = recorded(capture)
        for hangs in (False, True):
            clock.sleep(2)
            if hangs:
                first.blocked = threading.Event()
                clock.sleep(1.7)
                assert capture.trouble == LOST
            before = capture.frames.count
            assert levels[-1] == 50
            capture.switch(second.open)
            assert capture.trouble == ""
            assert clock.until(lambda: capture.frames.count > before) <= (0.8 if hangs else 0.2)  # noqa: B023
            assert hangs or capture.frames.newest().number == before + 1
            if hangs:
                first.blocked.set()
            clock.sleep(2)
            assert set(levels[before:]) == {200}
            assert (capture.trouble, capture.reconnects) == ("", 0)
            capture.switch(first.open)


def test_without_a_source_nothing_is_open_and_nothing_is_wrong(clock, world):
    with Capture(None, clock=clock) as capture:
        clock.sleep(20)
        assert capture.rests and (capture.frames.count, capture.trouble) == (0, "")
        capture.check()
        for turn in (1, 2):
            capture.switch(world.open)
            begun, before = clock.now(), capture.frames.count
            assert capture.begins and capture.good_at == begun
            clock.until(lambda: capture.frames.count > before + 3)  # noqa: B023
            clock.sleep(0.1)
            assert not (capture.begins or capture.rests) and len(world.opened) == turn
            assert capture.good_at > begun
            capture.switch(None)
            before = capture.frames.count
            clock.sleep(60)
            assert capture.rests and (capture.frames.count, capture.trouble) == (before, "")
        assert capture.reconnects == 0


def test_a_switch_to_what_cannot_be_opened_says_why_and_goes_on_trying(clock):
    first, absent = World(clock), World(clock, gone=True)
    with Capture(first.open, clock=clock) as capture:
        clock.sleep(2)
        capture.switch(absent.open)
        assert clock.until(lambda: capture.trouble) <= 0.2
        assert capture.trouble == NO_PICTURE + "No camera http://***@host."
        clock.sleep(8)
        assert np.diff(absent.opened) == pytest.approx(np.array([0.5, 1, 2, 3]), abs=0.8)
        capture.check()
        before = capture.frames.count
        capture.switch(first.open)
        assert clock.until(lambda: capture.frames.count > before) <= 0.2
        assert (capture.trouble, capture.reconnects) == ("", 0)
        capture.switch(absent.open)
        clock.sleep(20)
        absent.gone = False
        assert clock.until(lambda: not capture.trouble) <= 5
        assert capture.reconnects == 0


class Player(Source):
    files = 2
    described = "a.mp4"

    def __init__(self, stop, clock, calls):
        super().__init__(stop)
        self.clock, self.paused = clock, threading.Event()
        self.control = lambda action, value=0: calls.append((action, value))
        self.timeline = Timeline(1.0, 8.0, "seconds")

    def read(self):
        self.clock.wait(self.stop, 0.1 if self.stop.is_set() else 30)
        return None if self.stop.is_set() else media.plain()


def test_controls_reach_the_present_source(clock):
    calls, world = [], World(clock)
    capture = Capture(lambda stop: Player(stop, clock, calls), clock=clock)
    capture.source.control("pause", True)
    assert (capture.source.described, capture.source.files) == ("", 0)
    with capture:
        clock.sleep(31)
        assert (capture.source.described, capture.source.files) == ("a.mp4", 2)
        capture.source.control("pause", True)
        capture.source.control("step")
        capture.source.control("skip", -1)
        capture.source.control("seek", 4.5)
        assert calls == [("pause", True), ("step", 0), ("skip", -1), ("seek", 4.5)]
        assert capture.source.timeline.length == 8.0
        clock.sleep(25)
        assert (capture.trouble, capture.frames.count) == ("", 1)
        capture.switch(world.open)
        capture.source.control("step")
        assert capture.source.described == ""
        clock.sleep(1)
        assert (capture.source.described, capture.source.files) == ("camera", 0)
        capture.source.control("skip", 1)
        assert len(calls) == 4 and capture.source.timeline is None


def test_the_end_waits_for_the_device_to_be_closed(clock, monkeypatch):
    world, closed = World(clock), []
    monkeypatch.setattr("faults.cameras.Camera.close", lambda camera: closed.append(clock.sleep(1)))
    with Capture(world.open, clock=clock):
        clock.sleep(1)
    assert len(closed) == 1
    with Capture(world.open, clock=clock):
        clock.sleep(1)
        world.blocked = threading.Event()
        clock.sleep(1)
        begin = clock.now()
    assert clock.now() - begin <= 2.1
    world.blocked.set()


def test_no_frame_of_the_old_source_comes_after_a_switch():

    class Fast(Source):
        def __init__(self, level, stop):
            super().__init__(stop)
            self.picture = media.plain((level, level, level), (8, 8))

        def read(self):
            time.sleep(0.0002)
            return self.picture

    with Capture(functools.partial(Fast, 0)) as capture:
        levels = recorded(capture)
        until(lambda: levels)
        for number in range(1, 101):
            capture.switch(functools.partial(Fast, number))
            switched = len(levels)
            until(lambda at=switched: len(levels) > at + 1)
            assert set(levels[switched:]) == {number}
        assert (capture.frames.newest().number, capture.reconnects) == (capture.frames.count, 0)


def test_a_hanging_driver_is_killed_and_its_device_opened_again(tmp_path, monkeypatch, skipping):
    monkeypatch.setenv("PYTHONPATH", str(Path(media.__file__).parent))
    gate = Awaited()
    gate.set()

    def opened(stop):
        gate.wait()
        return ChildSource(Device, [str(tmp_path)], stop)

    with Capture(opened, clock=skipping) as capture:
        until(lambda: capture.frames.count > 5)
        for number in (1, 2):
            gate.clear(), gate.awaited.clear()
            (tmp_path / "hang").touch()
            until(lambda: not (tmp_path / "hang").exists())
            while not gate.awaited.is_set():
                skipping.skip(1.5 * HOUR_S)
                time.sleep(0.1)
            assert capture.trouble == LOST
            gate.set()
            until(lambda: not capture.trouble)
            assert capture.reconnects == number
        assert capture.source.described == "device, read"
    Device(tmp_path, threading.Event()).close()


def test_a_stream_that_dies_comes_back(skipping, caplog):
    host = "127.0.0.2" if sys.platform == "linux" else "127.0.0.1"  # its ports are nobody else's
    first = MjpegServer(host=host)
    with Capture(functools.partial(open_source, first.url), clock=skipping) as capture:
        until(lambda: capture.frames.count > 5)
        red, _, blue = np.moveaxis(capture.frames.newest().value.astype(int), -1, 0)
        assert (red - blue > 150).sum() > 4000, "the disc of the server is red"
        first.stop()
        until(lambda: capture.trouble)
        assert LOST in caplog.text
        before = capture.frames.count
        with MjpegServer(host=host, port=first.port):
            until(lambda: capture.frames.count > before + 5 and not capture.trouble)
            assert capture.reconnects == 1
        capture.check()
