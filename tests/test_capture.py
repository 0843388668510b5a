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
        wait_until(lambda: not scripts and capture.frames.count == 5 and capture.lost)
        capture.check()
        assert capture.reconnects == 2
    assert all(source.closed for source in opened)


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
            assert not capture.lost
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
        wait_until(lambda: capture.lost)
        before = capture.frames.count
        with MjpegServer(port=first.port):
            wait_until(lambda: capture.frames.count > before + 5)
        assert capture.reconnects == 1
        capture.check()
