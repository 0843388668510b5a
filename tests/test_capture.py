"""The hand-over between threads, and a source that comes and goes."""

import threading
import time

import media
import numpy as np
import pytest
from mjpeg import MjpegServer

from realtime_lrp.errors import DamagedInputError, MissingInputError, UnavailableError
from realtime_lrp.video import capture as capture_module
from realtime_lrp.video.capture import Capture
from realtime_lrp.video.files import masked
from realtime_lrp.video.slot import Slot
from realtime_lrp.video.sources import Playback, Source, Synthetic, open_source


def wait_until(condition, timeout_s=8.0):
    """Waits for a condition that another thread brings about."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


class Scripted(Source):
    """Gives the frames of a script; None is a loss, an exception is raised."""

    def __init__(self, script, stop):
        super().__init__(stop)
        self.script, self.closed = script, False

    def read(self):
        event = self.script.pop(0)
        if isinstance(event, Exception):
            raise event
        return event

    def close(self):
        self.closed = True


def test_a_slot_holds_the_newest_item_only():
    """A producer overwrites; numbers tell how many were missed."""
    slot = Slot()
    assert slot.newest() is None
    for value in "abc":
        slot.put(value, time=1.0)
    item = slot.newest()
    assert (item.value, item.number, item.time, slot.count) == ("c", 3, 1.0, 3)
    assert slot.newest(after=3, timeout_s=0.01) is None


def test_a_waiting_consumer_gets_an_item_at_once():
    """The wait ends when an item is put, long before its timeout."""
    slot = Slot()
    threading.Timer(0.05, slot.put, ("late", 0.0)).start()
    begin = time.monotonic()
    assert slot.newest(timeout_s=20).value == "late"
    assert time.monotonic() - begin < 10


def test_a_source_that_cannot_be_opened_at_the_start_is_an_error():
    """The error comes out on the main thread."""

    def broken(stop):
        raise UnavailableError("no camera")

    with Capture(broken) as capture, pytest.raises(UnavailableError, match="no camera"):
        wait_until(lambda: capture.check())


def test_a_source_that_opens_but_gives_nothing_is_an_error():
    """No frame ever came, so there is nothing to survive."""
    opened = Capture(lambda stop: Scripted([None], stop))
    with opened as capture, pytest.raises(UnavailableError, match="no picture"):
        wait_until(lambda: capture.check())


def test_every_loss_after_the_first_frame_is_survived(monkeypatch):
    """Lost frames, a failing reopen, an exception in read: it comes back each time."""
    monkeypatch.setattr(capture_module, "PAUSES_S", (0.01, 0.02))
    picture = media.plain()
    scripts = [
        [picture, picture, None],
        UnavailableError("still gone"),
        [None],
        [picture, UnavailableError("cable")],
        [picture, picture, None],
    ]
    opened = []

    def open_next(stop):
        if not scripts:
            stop.wait(20)
            raise UnavailableError("the end")
        script = scripts.pop(0)
        if isinstance(script, Exception):
            raise script
        opened.append(Scripted(script, stop))
        return opened[-1]

    with Capture(open_next) as capture:
        wait_until(lambda: not scripts and capture.frames.count == 5 and capture.reconnects == 2)
        capture.check()
        assert capture.trouble == capture_module.LOST
    assert all(source.closed for source in opened)


class Camera(Source):
    """Pictures with a sensor's noise, 50 a second, as long as nothing happens to it."""

    steady = alive = True

    def __init__(self, stop, faults):
        super().__init__(stop)
        self.faults, self.rng = faults, faults.setdefault("rng", np.random.default_rng(1))

    def read(self):
        self.stop.wait(0.02)
        if self.faults.get("blocked"):
            self.faults["blocked"].wait()
            return media.plain((1, 2, 3))  # what a driver hands out in the end
        if self.faults.get("gone"):
            return None
        if self.faults.get("garbage"):
            raise ValueError("half a picture")
        if self.faults.get("frozen"):
            return media.plain((90, 120, 60))
        level = 0 if self.faults.get("dark") else self.faults.get("level", 120)
        size = self.faults.get("size", (48, 64))
        return self.rng.integers(level, level + 3, (*size, 3), np.uint8)


@pytest.fixture
def quick(monkeypatch):
    """A fifth of the real times."""
    for name in ("STALLED_S", "GIVEN_UP_S", "STILL_S", "HEALTHY_S", "OPENING_S"):
        monkeypatch.setattr(capture_module, name, getattr(capture_module, name) / 5)
    pauses = tuple(pause / 5 for pause in capture_module.PAUSES_S)
    monkeypatch.setattr(capture_module, "PAUSES_S", pauses)
    monkeypatch.setattr(capture_module, "WATCH_S", 0.01)


def watched(faults, opened):
    """A capture of a `Camera`; every opening is noted."""

    def open_camera(stop):
        if faults.get("gone") or faults.get("busy"):
            raise UnavailableError("no camera")
        opened.append(time.monotonic())
        return Camera(stop, faults)

    return Capture(open_camera)


@pytest.mark.parametrize("fault", ["gone", "garbage"])
def test_a_fault_is_told_and_survived_for_ever(fault, quick):
    """Six times: told within 2 s and back within 5 s (here 0.4 and 1) of its end."""
    faults, opened = {}, []
    with watched(faults, opened) as capture:
        wait_until(lambda: capture.frames.count > 2)
        for number in range(6):
            faults[fault], begin = True, time.monotonic()
            wait_until(lambda: capture.trouble == capture_module.LOST)
            assert time.monotonic() - begin < 0.4
            time.sleep(0.05 * (number % 3))
            faults[fault], begin = False, time.monotonic()
            wait_until(lambda: not capture.trouble)
            assert time.monotonic() - begin < 1
            capture.check()
        assert capture.reconnects == 6
    assert len(opened) >= 7


def test_a_driver_that_hangs_is_left_behind(quick):
    """Its picture is called lost, another reader takes over, what it says in the end is ignored."""
    faults, opened = {}, []
    with watched(faults, opened) as capture:
        wait_until(lambda: capture.frames.count > 2)
        release, begin = threading.Event(), time.monotonic()
        faults["blocked"] = release
        wait_until(lambda: capture.trouble == capture_module.LOST)
        assert time.monotonic() - begin < 0.45
        faults["blocked"] = None
        wait_until(lambda: not capture.trouble and len(opened) == 2)
        assert capture.reconnects == 1
        release.set()
        late = media.plain((1, 2, 3))
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            assert not np.array_equal(capture.frames.newest().value, late)
            time.sleep(0.005)
        begin = time.monotonic()
        faults["blocked"] = threading.Event()
        time.sleep(0.05)
    assert time.monotonic() - begin < 3, "a hanging driver does not keep the program from ending"


def test_a_picture_that_stands_still_is_told_and_opened_again_once(quick):
    """Frames come, always the same; it comes back when they change."""
    faults, opened = {}, []
    with watched(faults, opened) as capture:
        wait_until(lambda: capture.frames.count > 2)
        faults["frozen"] = True
        wait_until(lambda: capture.trouble == capture_module.FROZEN)
        wait_until(lambda: len(opened) == 2)
        count = capture.frames.count
        time.sleep(2.5)
        assert len(opened) == 2 and capture.trouble == capture_module.FROZEN
        assert capture.frames.count > count + 20, "what there is is shown"
        faults["frozen"] = False
        wait_until(lambda: not capture.trouble)
        assert capture.reconnects == 0


def test_a_dark_room_is_told_and_a_quiet_one_is_not(quick):
    """Black for long gets a line; a still scene with a sensor's noise none; neither is reopened."""
    faults, opened = {"level": 60}, []
    with watched(faults, opened) as capture:
        wait_until(lambda: capture.frames.count > 60)
        assert not capture.trouble
        faults["dark"] = True
        wait_until(lambda: capture.trouble == capture_module.DARK)
        faults["dark"] = False
        wait_until(lambda: not capture.trouble)
        faults["size"] = (96, 128)
        wait_until(lambda: capture.frames.newest().value.shape == (96, 128, 3))
        assert not capture.trouble
    assert len(opened) == 1


def test_pauses_grow_and_begin_anew(monkeypatch):
    """0.5, 1, 2, 3, 3, ... seconds, give or take a fifth, while the source cannot be opened."""
    waited = []
    faults, opened = {}, []
    capture = watched(faults, opened)
    wait = threading.Event.wait

    def noted(self, timeout=None):
        if self is capture._stop and timeout and timeout > 0.2:
            waited.append(timeout)
            timeout = 0.01
        return wait(self, timeout)

    monkeypatch.setattr(threading.Event, "wait", noted)
    with capture:
        wait_until(lambda: capture.frames.count > 2)
        faults["gone"] = True
        wait_until(lambda: len(waited) >= 6)
    expected = [0.5, 1, 2, 3, 3, 3]
    for pause, right in zip(waited, expected, strict=False):
        assert 0.8 * right <= pause <= 1.2 * right


def test_frames_are_turned_before_they_are_handed_over():
    """A mirror swaps left and right."""
    picture = media.numbered(1)[0]
    with Capture(lambda stop: Scripted([picture, None], stop), lambda p: p[:, ::-1]) as capture:
        wait_until(lambda: capture.frames.count)
        np.testing.assert_array_equal(capture.frames.newest().value, picture[:, ::-1])


def test_a_recording_plays_at_its_own_speed_and_starts_again(tmp_path):
    """20 frames a second: the 11th frame of a file of 10 comes after half a second."""
    path = media.write_video(tmp_path / "a.mp4", media.numbered(10), fps=20)
    begin = time.monotonic()
    with Playback([path], threading.Event()) as source:
        frames = [source.read() for _ in range(11)]
    assert 0.45 < time.monotonic() - begin < 3
    np.testing.assert_array_equal(frames[10], frames[0])
    assert not np.array_equal(frames[1], frames[0])


def test_a_stopped_player_ends_its_wait(tmp_path):
    """A picture stands for seconds, but not when the program ends."""
    media.write_picture(tmp_path / "a.png", media.plain())
    stop = threading.Event()
    with open_source(str(tmp_path), stop) as source:
        assert (source.read() == media.RED).all()
        threading.Timer(0.1, stop.set).start()
        begin = time.monotonic()
        assert source.read() is None
    assert time.monotonic() - begin < 2


def test_damaged_files_of_a_folder_are_left_out(tmp_path, caplog):
    """The others play on; if none is left it is an error."""
    (tmp_path / "a.mp4").write_text("no video")
    with pytest.raises(DamagedInputError):
        open_source(str(tmp_path), threading.Event()).read()
    media.write_video(tmp_path / "b.mp4", media.numbered(2))
    with open_source(str(tmp_path / "*.mp4"), threading.Event()) as source:
        assert source.read().shape == (48, 64, 3)
    assert "a.mp4" in caplog.text


def test_the_synthetic_source_moves_at_30_frames_a_second():
    """Frames differ and come when they are due."""
    begin = time.monotonic()
    source = Synthetic(30, threading.Event())
    frames = [source.read() for _ in range(7)]
    assert 0.18 < time.monotonic() - begin < 3
    assert frames[0].shape == (480, 640, 3)
    assert not np.array_equal(frames[0], frames[6])


def test_sources_that_are_not_there_are_refused():
    """A camera, a stream, a file."""
    for words in ("97", "/dev/video97", "http://127.0.0.1:9/none.mjpg"):
        with pytest.raises(UnavailableError):
            open_source(words, threading.Event())
    with pytest.raises(MissingInputError):
        open_source("none.mp4", threading.Event())


def test_credentials_of_a_url_stay_secret():
    """Neither name nor password is in the message."""
    assert masked("rtsp://me:secret@10.0.0.2/a") == "rtsp://***@10.0.0.2/a"
    assert masked("rtsp://me:p@ss/w@10.0.0.2/a") == "rtsp://***@10.0.0.2/a"
    assert masked("http:/me:secret@host/a") == "http:/***@host/a"
    assert masked("http://host/v.cgi?user=me&pwd=secret") == "http://host/v.cgi?***"
    assert masked("in/cat?.jpg") == "in/cat?.jpg"
    with pytest.raises(UnavailableError) as refusal:
        open_source("http://me:secret@127.0.0.1:9/", threading.Event())
    assert "secret" not in str(refusal.value)


def test_a_damaged_picture_in_a_stream_is_not_a_loss():
    """One broken JPEG in five costs itself, the connection stays."""
    with MjpegServer(fps=60, broken_every=5) as server:
        with Capture(lambda stop: open_source(server.url, stop)) as capture:
            wait_until(lambda: capture.frames.count > 40)
            assert not capture.trouble
        assert capture.reconnects == 0
        assert server.connections == 1


def test_a_stream_that_dies_comes_back(monkeypatch):
    """A real MJPEG server over HTTP is stopped and started again on the same port."""
    monkeypatch.setattr(capture_module, "PAUSES_S", (0.1,))
    first = MjpegServer()
    with Capture(lambda stop: open_source(first.url, stop)) as capture:
        wait_until(lambda: capture.frames.count > 5)
        red = capture.frames.newest().value[120, 110:210].max(axis=0)
        assert red[0] > 200 > 100 > red[2], "the disc of the server is red"
        first.stop()
        wait_until(lambda: capture.trouble == capture_module.LOST)
        before = capture.frames.count
        with MjpegServer(port=first.port):
            wait_until(lambda: capture.frames.count > before + 5)
        assert capture.reconnects == 1
        capture.check()
