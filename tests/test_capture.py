"""The hand-over between threads, and a source that comes and goes."""

import functools
import sys
import threading
import time
from pathlib import Path

import media
import numpy as np
import pytest
from faults.cameras import Awaited, Camera, Device, Scripted, World
from faults.clock import SkippingClock, until
from faults.server import MjpegServer

from realtime_lrp.errors import UnavailableError
from realtime_lrp.realtime import capture as capture_module
from realtime_lrp.realtime.capture import DARK, FROZEN, LOST, NO_PICTURE, Capture
from realtime_lrp.video.picture_process import ChildSource
from realtime_lrp.video.source import Source, Timeline
from realtime_lrp.video.sources import open_source

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


def recorded(capture):
    """A list that gets the darkest value of each frame that is put."""
    levels, put = [], capture.frames.put

    def noted(picture, time, source):
        levels.append(int(picture.min()))
        put(picture, time, source)

    capture.frames.put = noted
    return levels


def test_a_source_that_gives_nothing_at_the_start_is_an_error(clock):
    """No frame ever came, so there is nothing to survive; it comes out on the main thread."""

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
def test_a_fault_is_told_and_survived_for_ever(fault, clock):
    """From moments to a minute: told within 2 s, back within 5 s of its end."""
    world = World(clock)
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


def test_a_reader_that_hangs_is_left_behind(clock):
    """Told within 2 s; another takes over; what the first says in the end is ignored."""
    world = World(clock)
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


def test_a_stall_that_ends_by_itself_is_no_reason_to_open_again(clock):
    """Two seconds without pictures are told; the same reader goes on."""
    world = World(clock)
    with Capture(world.open, clock=clock) as capture:
        clock.sleep(2)
        world.blocked = stall = threading.Event()
        clock.sleep(2)
        assert capture.trouble == LOST
        world.blocked = None
        stall.set()
        clock.sleep(0.5)
        assert (capture.trouble, capture.reconnects, len(world.opened)) == ("", 1, 1)


def test_opening_that_hangs_is_left_behind(clock):
    """After a loss the driver opens for ever: given up after 15 s, another attempt succeeds."""
    world = World(clock)
    with Capture(world.open, clock=clock) as capture:
        clock.sleep(2)
        world.stuck = release = threading.Event()
        world.gone = True
        clock.until(lambda: len(world.opened) == 2)
        world.stuck, world.gone = None, False
        assert 14.9 < clock.until(lambda: not capture.trouble) < 15 + 0.5 + 1.2 + 0.2
        assert (capture.reconnects, len(world.opened)) == (1, 3)
        release.set()


def test_a_picture_that_stands_still_is_told_and_opened_again_once(clock):
    """Frames come, always the same: told after 5 s, shown on, gone when they change."""
    world = World(clock)
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
    """Black for 5 s gets a line; a still scene with a sensor's noise none; none is reopened."""
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


def test_pauses_grow_and_begin_anew_after_half_a_minute(clock):
    """0.5, 1, 2, 3, 3, ... seconds, give or take a fifth, while the source cannot be opened."""
    world = World(clock)

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
    """The next frame is the other source's; numbers go on, no loss is told or counted."""
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


def test_a_switch_to_what_cannot_be_opened_says_why_and_goes_on_trying(clock):
    """One line without secrets; attempts as after a loss; another switch works at any time."""
    first, absent = World(clock), World(clock, gone=True)
    with Capture(first.open, clock=clock) as capture:
        clock.sleep(2)
        capture.switch(absent.open)
        assert clock.until(lambda: capture.trouble) <= 0.2
        assert capture.trouble == NO_PICTURE + "No camera http://***@host."
        clock.sleep(8)
        expected = np.array([0.5, 1, 2, 3])
        assert np.diff(absent.opened) == pytest.approx(expected, abs=0.8)
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
    """None before it is open, none while it is switched; a player that rests is not lost."""
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
    """A second is not too long; a driver that never lets go costs two."""
    world, closed = World(clock), []
    monkeypatch.setattr(Camera, "close", lambda camera: closed.append(clock.sleep(1)))
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
    """Two sources as fast as they can be, a hundred switches with real threads."""

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
    """Each time: it is told, and the child that held the device is gone."""
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
    """A real MJPEG server over HTTP is stopped and started again on the same port."""
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
