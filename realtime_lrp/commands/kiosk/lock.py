"""How staff leave the exhibit: a key or a corner that is held, and a PIN where one is set.

OpenCV's window tells of no key that is let go: one that is held comes again and again, and of what
comes while a picture is drawn the last one is kept. So only time in which it was asked for, and did
not come, counts against it. A mouse or finger that is held still tells nothing until it is let go.
"""

import hashlib
import hmac
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from realtime_lrp.view.pad import key_boxes
from realtime_lrp.view.window.window import Mouse

HOLD_S = 5.0
"""How long the key or the corner is held."""

FIRST_GAP_S, GAP_S, PRESSES = 1.0, 0.4, 40
"""A key that comes again within this is held: the first time, then each time, and so often in all.

Desktops repeat a held key after 0.2 to 0.7 s, then 20 to 40 times a second; nobody taps so fast.
"""

REPEATS, DRAWING_S = 10, 2.0
"""A press that comes after a long turn stands for so many a second: one is kept of each turn.

At most so much of the time between two turns counts as held: beyond, the process stood still.
"""

CORNER = 0.12
"""Side of the corner as a share of the shorter side of the canvas."""

PAD_S = 20.0
"""Without input the pad goes away after this."""

TRIES = 3
"""Wrong PINs until none is taken for a while."""

WAIT_S, LONGEST_WAIT_S = 60.0, 900.0
"""How long none is taken the first time, doubled each time, up to the longest."""

DIGITS = 4, 12
"""The shortest and the longest PIN."""

_PAD_KEYS = {"BackSpace": "back", "Delete": "back", "Return": "enter", "Escape": "leave"}
_PAD_KEYS |= {digit: digit for digit in "0123456789"}


@dataclass(frozen=True)
class _Presses:
    """A key that comes again and again.

    Attributes:
      first, last: since when it may have been held, to a turn, and when it came last.
      count: how often it came, or would have come if each turn had kept all.
      again: whether it came more than once.
    """

    first: float
    last: float
    count: float
    again: bool

    def goes_on(self, asked: float) -> bool:
        """Whether it is still held after it was asked for, and did not come, until a moment."""
        return asked - self.last <= (GAP_S if self.again else FIRST_GAP_S)

    @property
    def held(self) -> float:
        """0 to 1, how much of the hold is done."""
        return min((self.last - self.first) / HOLD_S, self.count / PRESSES)


class ExitLock:
    """Hears whether somebody holds the key or the corner, and asks for the PIN.

    Args:
      key: a name out of `config.names.KEYS`.
      corner: "top-left", "top-right", "bottom-left", "bottom-right" or "none".
      pin: what `hash_pin` gave, or None: no PIN is asked for.

    Attributes:
      held: 0 to 1, how much of the hold is done.
      asking: whether the pad is shown.
      wrong: whether the last PIN was wrong.
      waits_s: whole seconds for which no PIN is taken, 0 where one is.
      opened: whether the exhibit may end.
    """

    def __init__(self, key: str, corner: str, pin: str | None):
        self.held = 0.0
        self.asking = self.wrong = self.opened = False
        self.waits_s = 0
        self._key, self._corner, self._pin = key, corner, pin
        self._pressed: _Presses | None = None
        self._heard = math.inf  # when it was asked last what happened
        self._touched: float | None = None  # the corner: since when
        self._down = False
        self._typed = ""
        self._used = 0.0
        self._wrong_ones, self._waits = 0, 0
        self._waits_until = -math.inf

    @property
    def typed(self) -> int:
        """How many digits of a PIN stand there."""
        return len(self._typed)

    def handle(
        self, events: Sequence[str | Mouse], size: tuple[int, int], now: float
    ) -> list[str | Mouse]:
        """Takes in what happened; to be called also where nothing did, for time passes.

        Args:
          events: keys and the mouse, oldest first.
          size: rows and columns of the canvas.
          now: seconds of a clock that never goes back.

        Returns:
          The events that are for the exhibit: none while the PIN is asked for.
        """
        asked = self.asking
        for event in events:
            if isinstance(event, Mouse):
                self._move(event, size, now)
            else:
                self._press(event, now)
        if self._pressed and not self._pressed.goes_on(now):
            self._pressed = None
        self._heard = now
        if not self.asking:
            self._look(now)
        elif now - self._used >= PAD_S:
            self._leave()
        self.waits_s = math.ceil(max(0.0, self._waits_until - now))
        return [] if asked else list(events)

    def let_go(self) -> None:
        """Nothing is held any more: the window was gone, which is not told of what is let go."""
        self._pressed = self._touched = None
        self._down = False

    def _move(self, mouse: Mouse, size: tuple[int, int], now: float) -> None:
        left = mouse.button == "left"
        began, self._down = left and not self._down, left
        inside = left and not self.asking and self._in_corner(mouse, size)
        self._touched = (now if self._touched is None else self._touched) if inside else None
        if began and self.asking and (name := mouse.over(key_boxes(size))):
            self._type(name, now)

    def _in_corner(self, mouse: Mouse, size: tuple[int, int]) -> bool:
        side = CORNER * min(size)
        x = size[1] - 1 - mouse.x if self._corner.endswith("right") else mouse.x
        y = size[0] - 1 - mouse.y if self._corner.startswith("bottom") else mouse.y
        return self._corner != "none" and max(x, y) < side

    def _press(self, key: str, now: float) -> None:
        pressed = self._pressed
        again = pressed if pressed and pressed.goes_on(self._heard) else None
        since = max(self._heard, again.last if again else -math.inf, now - DRAWING_S)
        count = max(1.0, REPEATS * (now - since))
        if key != self._key:
            self._pressed = None
        elif again:
            self._pressed = _Presses(again.first, now, again.count + count, True)
        elif not self.asking:
            self._pressed = _Presses(min(since, now), now, count, False)
        # The key that opened the pad goes on coming until it is let go: it is no input.
        if self.asking and key in _PAD_KEYS and not (key == self._key and again):
            self._type(_PAD_KEYS[key], now)

    def _look(self, now: float) -> None:
        """Looks whether the hold is done."""
        by_key = self._pressed.held if self._pressed else 0.0
        by_touch = (now - self._touched) / HOLD_S if self._touched is not None else 0.0
        self.held = min(1.0, max(by_key, by_touch))
        if self.held == 1.0:
            self.held, self._touched, self._used = 0.0, None, now
            self.asking = self._pin is not None
            self.opened = not self.asking

    def _type(self, name: str, now: float) -> None:
        self._used = now
        if name == "leave":
            self._leave()
        elif now < self._waits_until:
            return
        elif name == "enter":
            self._try(now)
        elif name == "back":
            self._typed = self._typed[:-1]
        elif self.typed < DIGITS[1]:
            self._typed, self.wrong = self._typed + name, False

    def _try(self, now: float) -> None:
        if not self._typed:
            return
        pin, self._typed = self._typed, ""
        if self._pin and pin_fits(pin, self._pin):
            self.opened, self.asking = True, False
            return
        self.wrong = True
        self._wrong_ones += 1
        if self._wrong_ones % TRIES == 0:
            self._waits_until = now + min(WAIT_S * 2**self._waits, LONGEST_WAIT_S)
            self._waits += 1

    def _leave(self) -> None:
        self.asking = self.wrong = False
        self._typed = ""


def hash_pin(pin: str) -> str:
    """What the configuration keeps of a PIN: "scrypt:SALT:HASH".

    Args:
      pin: 4 to 12 digits.

    Raises:
      ValueError: it is something else.
    """
    if not re.fullmatch(rf"[0-9]{{{DIGITS[0]},{DIGITS[1]}}}", pin):
        raise ValueError(f"Expected a PIN of {DIGITS[0]} to {DIGITS[1]} digits.")
    salt = os.urandom(16)
    return f"scrypt:{salt.hex()}:{_hashed(pin, salt).hex()}"


def pin_fits(pin: str, hashed: str) -> bool:
    """Whether a PIN is the one of which `hash_pin` made `hashed`; takes some 50 ms."""
    _, salt, expected = hashed.split(":")
    return hmac.compare_digest(_hashed(pin, bytes.fromhex(salt)), bytes.fromhex(expected))


def _hashed(pin: str, salt: bytes) -> bytes:
    return hashlib.scrypt(pin.encode(), salt=salt, n=2**14, r=8, p=1, dklen=32)
