"""The watched parts: the faults that they report, and when only a new process helps."""

import sys
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from faults.cameras import Flicker
from faults.clock import until

from realtime_lrp import config
from realtime_lrp.commands.kiosk import camera as camera_part
from realtime_lrp.commands.kiosk import network as network_part
from realtime_lrp.commands.kiosk.camera import SourcePart
from realtime_lrp.commands.kiosk.network import RelevancePart
from realtime_lrp.commands.kiosk.states import Fault
from realtime_lrp.errors import DamagedInputError, TemporaryError, UnavailableError
from realtime_lrp.realtime.capture import DARK, FROZEN, LOST, NO_PICTURE, WAITING
from realtime_lrp.realtime.latest import Slot
from realtime_lrp.realtime.stats import Stats

PICTURE = np.zeros((8, 8, 3), np.uint8)


class Thread:
    """A relevance thread that does what the test says.

    Attributes:
      made: all that were started, the newest last.
    """

    made: ClassVar = []

    def __init__(self, config_, frames, request, stats, changeable=False):
        self.request, self.engine, self.maps, self.frames = request, None, Slot(), frames
        self.alive, self.failing, self.error, self.ended = True, "", None, False
        Thread.made.append(self)

    def start(self):
        pass

    def end(self):
        self.ended = True

    def check(self):
        if self.error:
            raise self.error

    def finish(self):
        """A map of the newest picture."""
        self.engine = self.engine or SimpleNamespace(network=SimpleNamespace(labels=None))
        frame = self.frames.newest()
        self.maps.put(SimpleNamespace(frame=frame), frame.time)


def starting():
    """A relevance part that loads its network."""
    chosen = config.load(command="kiosk").config
    return RelevancePart(chosen, Stats("", ""), now=0.0)


@pytest.fixture
def network(monkeypatch):
    """A relevance part whose first map came at second 10."""
    Thread.made = []
    monkeypatch.setattr(network_part, "RelevanceThread", Thread)
    made = starting()
    assert made.fault(5.0) == Fault("starting")
    made.submit(PICTURE, 10.0, 10.0)
    Thread.made[0].finish()
    made.update(10.0)
    assert made.fault(10.0) is None and made.engine is Thread.made[0].engine
    return made


def run(network, begin, seconds, step=0.5, showing=True):
    """Lets time pass, with pictures; returns the cards that were shown, without repetitions."""
    cards = []
    for k in range(round(seconds / step)):
        now = begin + k * step
        if showing:
            network.submit(PICTURE, now, now)
        network.update(now)
        trouble = network.fault(now)
        card = trouble.card if trouble else ""
        if not cards or cards[-1] != card:
            cards.append(card)
    return cards


@pytest.mark.parametrize("error", [None, ValueError("NaN")])
def test_a_dead_thread_ends_the_process(network, error):
    """With 75: systemd starts another one."""
    Thread.made[0].alive, Thread.made[0].error = False, error
    with pytest.raises(TemporaryError, match=str(error or "its thread ended")) as raised:
        network.update(11.0)
    assert raised.value.exit_code == 75


def test_a_slow_network_has_a_card_and_a_hanging_one_ends_the_process(network):
    """A card after 5 s without a map counts down to 20 s."""
    network.submit(PICTURE, 20.0, 20.0)
    run(network, 20.0, 5.0)
    assert network.fault(25.0) is None
    assert network.fault(26.0) == Fault("slow", 14.0)
    assert run(network, 26.0, 14.0) == ["slow"]
    with pytest.raises(TemporaryError, match="it hangs"):
        run(network, 40.0, 2.0)


def test_a_stopped_process_does_not_count_as_a_slow_network(network):
    """After SIGSTOP, or when a laptop slept, waiting starts again."""
    network.submit(PICTURE, 20.0, 20.0)
    network.update(20.1)
    network.update(900.0)
    assert network.fault(900.0) is None and len(Thread.made) == 1


def test_a_failing_network_has_a_card_and_ends_the_process_after_30_s(network):
    """A thread that only fails needs a new process."""
    Thread.made[0].failing = "no map, trying again: out of memory"
    assert run(network, 20.0, 30.0) == ["network"]
    with pytest.raises(TemporaryError, match="keeps failing"):
        run(network, 50.0, 4.0)


def fails_to_load(network, error, begin, seconds):
    """Lets every try fail; returns when the tries began."""
    tries, known = [], len(Thread.made)
    for k in range(round(2 * seconds)):
        Thread.made[-1].alive, Thread.made[-1].error = False, error
        network.update(begin + 0.5 * k)
        if len(Thread.made) > known:
            tries.append(begin + 0.5 * k)
            known = len(Thread.made)
    return tries


def test_a_loading_error_that_no_retry_mends_is_raised(network):
    """At once, as it is; other errors of loading ask for another process, without passwords."""
    with pytest.raises(DamagedInputError, match="no model"):
        fails_to_load(starting(), DamagedInputError("no model"), 1.0, 1.0)
    with pytest.raises(TemporaryError, match=r"http://[*]{3}@cam/ fails"):
        fails_to_load(starting(), MemoryError("http://me:secret@cam/ fails"), 1.0, 1.0)


def test_weights_that_cannot_be_downloaded_are_waited_for(network, caplog):
    """Without limit, in the same process: every 30 s, with a card."""
    fresh = starting()
    tries = fails_to_load(fresh, UnavailableError("no http://me:secret@x/w"), 0.0, 1200.0)
    assert len(tries) > 30 and np.diff([0.0, *tries]) == pytest.approx(30, abs=1.1)
    assert fresh.fault(tries[-1] + 5).card == "network"
    assert 0 < fresh.fault(tries[-1] + 5).remaining_s < 30
    assert "no http://***@x/w" in caplog.text and "secret" not in caplog.text


@pytest.mark.parametrize(
    ("told", "count", "after_s", "card"),
    [
        ("", 1, 1.0, None),
        ("", 0, 1.0, "starting"),
        (WAITING, 0, 9.0, "starting"),
        (WAITING, 0, 11.0, "camera"),
        (NO_PICTURE + "it is not there", 0, 1.0, "camera"),
        (LOST, 5, 1.0, "camera"),
        (FROZEN, 5, 1.0, "frozen"),
        (DARK, 5, 1.0, "dark"),
    ],
)
def test_each_fault_of_the_camera_has_its_card(monkeypatch, told, count, after_s, card):
    """With the seconds until the next try."""
    capture = SimpleNamespace(
        start=lambda: None, supervised=True, frames=SimpleNamespace(count=count), trouble=told,
        next_try=102.0 + after_s, reconnects=0,
    )  # fmt: skip
    monkeypatch.setattr(camera_part, "Capture", lambda *words, **options: capture)
    camera = SourcePart("camera", None, None)
    assert camera.fault(100.0) is None, "released"
    camera.update(True, 100.0)
    trouble = camera.fault(100.0 + after_s)
    assert (trouble and trouble.card) == card
    if card == "camera" and told != WAITING:
        assert trouble.remaining_s == pytest.approx(2.0)
        assert camera.fault(159.9).card == "camera"
        assert camera.fault(161.1).card == "staff", "for more than a minute"


def test_the_camera_is_open_while_it_is_needed():
    """Real threads: opened, released, opened again; pictures are counted through all of it."""
    Flicker.opened = Flicker.closed = 0
    camera = SourcePart("camera", Flicker, lambda picture: picture[:, ::-1])
    for turn in (1, 2):
        camera.update(True, 0.0)
        first = until(lambda: camera.newest(0.1))
        assert camera.newest(60).number > first.number
        assert Flicker.opened == turn and camera.fault(0.0) is None
        camera.update(False, 1.0)
        until(lambda turn=turn: Flicker.closed == turn)
        assert camera.newest(0.0) is None
    assert camera.captured >= 4 and camera.reconnects == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_camera_whose_supervisor_died_ends_the_process():
    """With 75."""
    camera = SourcePart("camera", Flicker, lambda picture: picture)
    camera.update(True, 0.0)
    until(lambda: camera.newest(0.1))
    dying = camera._capture
    dying._judge = lambda reader: sys.exit()
    until(lambda: not dying.supervised)
    with pytest.raises(TemporaryError, match="camera"):
        camera.update(True, 1.0)
    camera.release()
