"""How staff leave: holds, with a clock turned by hand, the PIN, and the pad."""

import pytest

from realtime_lrp.commands.kiosk.keys import ExitLock, hash_pin, pin_fits
from realtime_lrp.view.exhibit import key_boxes
from realtime_lrp.view.window import Mouse

SIZE = (720, 1280)
PIN = "204713"
HASHED = hash_pin(PIN)
IN_CORNER = Mouse(80, 80, "left")
UP = Mouse(80, 80, "")


class Staff:
    """A person at the exhibit, and a clock."""

    def __init__(self, pin=None):
        self.lock, self.now = ExitLock(pin), 100.0

    def do(self, *events, down=(), after=0.1):
        """Events after some seconds; returns those that are left for the exhibit."""
        self.now += after
        return self.lock.handle(events, down, SIZE, self.now)

    def hold(self, key="q", seconds=5.5, fps=10):
        """A held key: a press, then nothing until it is released."""
        self.do(key, down={key})
        for _ in range(round(seconds * fps)):
            self.do(down={key}, after=1 / fps)
        self.do()

    def rest(self, seconds):
        """No events; the exhibit polls ten times a second."""
        for _ in range(round(10 * seconds)):
            self.do()

    def touch(self, name):
        """A finger on a key of the pad."""
        x0, y0, x1, y1 = key_boxes(SIZE)[name]
        self.do(Mouse((x0 + x1) // 2, (y0 + y1) // 2, "left"))
        self.do(Mouse((x0 + x1) // 2, (y0 + y1) // 2, ""))

    def enter(self, pin):
        """A PIN by keyboard."""
        self.do(*pin, "Return")


@pytest.fixture
def asked():
    """Staff in front of the PIN pad, with the key released."""
    staff = Staff(pin=HASHED)
    staff.hold()
    assert staff.lock.asking
    staff.rest(1.5)
    return staff


@pytest.mark.parametrize("fps", [0.5, 3, 30])
def test_a_held_key_opens(fps):
    """After five seconds at any frame rate, and not before."""
    staff = Staff()
    for _ in range(3):
        staff.hold(seconds=4, fps=fps)
        assert staff.lock.held == 0 and not staff.lock.opened
    staff.do("q", down={"q"})
    staff.do(down={"q"}, after=2.5)
    assert staff.lock.held == pytest.approx(0.5)
    staff.do(down={"q"}, after=2.5)
    assert staff.lock.opened


def test_a_held_corner_opens():
    """A finger that does not move sends one event; a pixel further in is outside."""
    staff = Staff()
    staff.do(Mouse(85, 85, "left"))
    staff.rest(4.9)
    assert not staff.lock.opened and staff.lock.held == pytest.approx(0.98)
    staff.rest(0.2)
    assert staff.lock.opened
    staff = Staff()
    staff.do(Mouse(87, 85, "left"))
    staff.rest(6)
    assert staff.lock.held == 0 and not staff.lock.opened


def test_events_reach_the_exhibit_unless_the_pad_is_shown():
    """In their order."""
    staff = Staff(pin=HASHED)
    assert staff.do("q", IN_CORNER, UP, "l") == ["q", IN_CORNER, UP, "l"]
    staff.rest(2)
    staff.hold()
    assert staff.lock.asking
    assert staff.do("l", IN_CORNER, UP) == []
    assert staff.do("Escape") == []
    assert staff.do("l") == ["l"]


def test_the_right_pin_opens(asked):
    """By keyboard, with a digit corrected; only the enter key submits it."""
    asked.do(*PIN[:-1], "9", "BackSpace", PIN[-1])
    assert asked.lock.typed == 6 and not asked.lock.opened
    asked.do("Return")
    assert asked.lock.opened and not asked.lock.asking


def test_the_right_pin_opens_by_touch(asked):
    """All keys of the pad work; a finger that slides over keys types nothing."""
    for name in ("8", "back", *PIN):
        asked.touch(name)
    assert asked.lock.typed == 6
    x0, y0, _, _ = key_boxes(SIZE)["1"]
    asked.do(Mouse(0, 0, "left"), Mouse(x0 + 5, y0 + 5, "left"), Mouse(x0 + 5, y0 + 5, ""))
    assert asked.lock.typed == 6
    asked.touch("enter")
    assert asked.lock.opened


def test_the_pad_goes_away(asked):
    """After 20 s without input, by Escape and by touch; typed digits are forgotten."""
    asked.do("1", "2")
    asked.rest(19.8)
    assert asked.lock.asking and asked.lock.typed == 2
    asked.rest(0.3)
    assert not asked.lock.asking and asked.lock.typed == 0
    for leave in (lambda: asked.do("Escape"), lambda: asked.touch("leave")):
        asked.hold()
        asked.rest(1.5)
        asked.do("3")
        leave()
        assert not (asked.lock.asking or asked.lock.opened or asked.lock.typed)


def test_waiting_doubles_up_to_a_quarter_of_an_hour(asked):
    """After three wrong PINs even the right one is refused for a while."""
    for wait in (60, 120, 240, 480, 900, 900):
        for _ in range(3):
            assert asked.lock.wait_s == 0
            asked.enter("0000")
        assert asked.lock.wait_s in (wait, wait + 1)  # the clock is no exact number
        asked.enter(PIN)
        assert not asked.lock.opened and asked.lock.typed == 0
        asked.rest(wait - 0.5)
        assert asked.lock.wait_s == 1 and not asked.lock.asking
        asked.hold()
        asked.rest(1.5)
    asked.enter(PIN)
    assert asked.lock.opened


def test_a_pin_is_stored_as_a_hash():
    """Salted, in the format of the configuration."""
    other = hash_pin(PIN)
    assert other != HASHED and PIN not in HASHED
    kind, salt, hashed = HASHED.split(":")
    assert (kind, len(salt), len(hashed)) == ("scrypt", 32, 64)
    assert pin_fits(PIN, HASHED) and pin_fits(PIN, other)
    assert not any(pin_fits(pin, HASHED) for pin in ("204714", "20471", "2047130", ""))


@pytest.mark.parametrize("pin", ["123", "1234567890123", "12a4", "1234\n", "١٢٣٤"])
def test_a_pin_that_cannot_be_typed_is_refused(pin):
    """Letters, spaces, other scripts, too short, too long."""
    with pytest.raises(ValueError, match="4 to 12 digits"):
        hash_pin(pin)
