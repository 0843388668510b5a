"""Keys and touches: visitors choose a language or the privacy card, staff leave.

To leave, staff hold a key or a corner, then type a PIN if one is set.
"""

import hashlib
import hmac
import math
import os
import re
from collections.abc import Collection, Mapping, Sequence

from realtime_lrp.system.geometry import Box
from realtime_lrp.view.exhibit import key_boxes
from realtime_lrp.view.window import Mouse

TURN_S = 15.0  # seconds for which a language is shown while nobody is there
PRIVACY_S = 20.0  # seconds for which the privacy card is shown
CHOICE_S = 60.0  # seconds after which a language chosen while nobody is there is forgotten
KEY, HOLD_S = "q", 5.0  # what leaves, and seconds for which it or the corner has to be held
CORNER = 0.12  # side of the upper left corner as a share of the canvas's shorter side
PAD_TIMEOUT_S = 20.0  # the PIN pad disappears after this many seconds without input
TRIES = 3  # wrong PINs before the next try has to wait
WAIT_S, MAX_WAIT_S = 60.0, 900.0  # seconds of the first wait, doubled each time, and of the longest
PIN_DIGITS = 4, 12  # the least and the most digits of a PIN

_PAD_KEYS = {"BackSpace": "back", "Delete": "back", "Return": "enter", "Escape": "leave"}
_PAD_KEYS |= {digit: digit for digit in "0123456789"}


class VisitorChoices:
    """Language and privacy card, chosen by key or touch.

    Keys: 1 to 9 choose a language, "l" the next one, "p" shows the privacy card. While nobody is
    there the languages take turns, beginning with the first. A visitor gets the first one, unless
    they choose another, or somebody did just before.
    """

    def __init__(self, languages: int, now: float):
        self._languages = languages
        self._chosen: int | None = None
        self._chosen_at = self._rotating_since = now
        self._visiting = False
        self._privacy_until = 0.0
        self._button_down = False
        self.held = ""  # the button that is held
        self.touched = ""  # the button where the last touch began, until somebody takes it
        self.beside: tuple[int, int] | None = None  # where the last touch began, beside buttons

    def language(self, now: float) -> int:
        """The index of the present language, from 0."""
        if self._chosen is not None and (self._visiting or now - self._chosen_at < CHOICE_S):
            return self._chosen
        if self._visiting:
            return 0
        return int((now - self._rotating_since) / TURN_S) % self._languages

    def privacy(self, now: float) -> bool:
        return now < self._privacy_until

    def handle(self, events: Sequence[str | Mouse], buttons: Mapping[str, Box], now: float) -> None:
        """Does what keys and touches ask for; buttons are "language 0", ..., "privacy"."""
        for event in events:
            name = self._touched(event, buttons) if isinstance(event, Mouse) else event
            if isinstance(event, Mouse) and name == "elsewhere" and not self.privacy(now):
                self.beside = event.x, event.y
            language = -1
            if name.startswith("language "):
                language = int(name.removeprefix("language "))
            elif name.isdecimal():
                language = int(name) - 1
            elif name == "l":
                language = (self.language(now) + 1) % self._languages
            if 0 <= language < self._languages:
                self._chosen = language
                self._chosen_at = now
            elif self.privacy(now) and name != "":
                self._privacy_until = now
            elif name in ("p", "privacy"):
                self._privacy_until = now + PRIVACY_S

    def visitor_came(self, now: float) -> None:
        """Shows the visitor the language that was chosen last, or else the first one."""
        if not self._visiting and now - self._chosen_at >= CHOICE_S:
            self._chosen = None
        self._visiting = True

    def visitor_left(self, now: float) -> None:
        """Lets the languages take turns again, from the first one on."""
        self._chosen = None
        self._rotating_since = now
        self._visiting = False

    def _touched(self, mouse: Mouse, buttons: Mapping[str, Box]) -> str:
        """The button where a touch began, "elsewhere" for none; "" while it lasts or ends."""
        began = mouse.button == "left" and not self._button_down
        self._button_down = mouse.button == "left"
        if began:
            self.touched = self.held = mouse.over(buttons) or "elsewhere"
        elif not self._button_down:
            self.held = ""
        return self.held if began else ""


class ExitLock:
    """Notices when the key or the corner is held, and asks for the PIN.

    `pin` is what `hash_pin` returned; without one no PIN is asked for.
    """

    def __init__(self, pin: str | None):
        self.held = 0.0  # share of the hold that is done, 0 to 1
        self.asking = False  # whether the PIN pad is shown
        self.wrong = False  # whether the last PIN was wrong
        self.opened = False  # whether the exhibit may end
        self.wait_s = 0  # whole seconds until a PIN is accepted again
        self._pin = pin
        self._held_since: float | None = None
        self._button_down = self._in_corner = False
        self._digits = ""
        self._used_at = 0.0
        self._wrong_count = 0
        self._wait_until = -math.inf

    @property
    def typed(self) -> int:
        return len(self._digits)

    def handle(
        self, events: Sequence[str | Mouse], down: Collection[str], size: tuple[int, int],
        now: float,
    ) -> list[str | Mouse]:  # fmt: skip
        """Processes events and the keys that are down after them.

        It has to be called without events as well, because time passes. Returns the events for the
        exhibit: none while the PIN is asked for. `size` is the canvas's rows and columns.
        """
        asking = self.asking
        for event in events:
            if isinstance(event, Mouse):
                self._handle_mouse(event, size, now)
            elif self.asking and event in _PAD_KEYS:
                self._type(_PAD_KEYS[event], now)
        if not (self._in_corner or KEY in down):
            self._held_since = None
        elif self._held_since is None or KEY in events:  # pressed again between two calls
            self._held_since = now
        if self.asking and now - self._used_at >= PAD_TIMEOUT_S:
            self._close_pad()
        elif not self.asking:
            since = now if self._held_since is None else self._held_since
            self.held = min(1.0, (now - since) / HOLD_S)
            if self.held == 1.0:
                self.held = 0.0
                self._used_at = now
                self._held_since = None
                self._in_corner = False
                self.asking = self._pin is not None
                self.opened = not self.asking
        self.wait_s = math.ceil(max(0.0, self._wait_until - now))
        return [] if asking else list(events)

    def _handle_mouse(self, mouse: Mouse, size: tuple[int, int], now: float) -> None:
        down = mouse.button == "left"
        began = down and not self._button_down
        self._button_down = down
        self._in_corner = down and not self.asking and max(mouse.x, mouse.y) < CORNER * min(size)
        if began and self.asking and (name := mouse.over(key_boxes(size))):
            self._type(name, now)

    def _type(self, name: str, now: float) -> None:
        self._used_at = now
        if name == "leave":
            self._close_pad()
        elif now < self._wait_until:
            return
        elif name == "enter" and self._digits:
            self._try_pin(now)
        elif name == "back":
            self._digits = self._digits[:-1]
        elif name.isdecimal() and self.typed < PIN_DIGITS[1]:
            self._digits += name
            self.wrong = False

    def _try_pin(self, now: float) -> None:
        self.opened = self._pin is not None and pin_fits(self._digits, self._pin)
        self.asking = self.wrong = not self.opened
        self._digits = ""
        if self.wrong:
            self._wrong_count += 1
            waits, first = divmod(self._wrong_count, TRIES)
            if not first:
                self._wait_until = now + min(WAIT_S * 2 ** (waits - 1), MAX_WAIT_S)

    def _close_pad(self) -> None:
        self.asking = self.wrong = False
        self._digits = ""


def hash_pin(pin: str) -> str:
    """The hash of a PIN, "scrypt:SALT:HASH"; ValueError if that has not 4 to 12 digits."""
    if not re.fullmatch(rf"[0-9]{{{PIN_DIGITS[0]},{PIN_DIGITS[1]}}}", pin):
        raise ValueError(f"Expected a PIN of {PIN_DIGITS[0]} to {PIN_DIGITS[1]} digits.")
    salt = os.urandom(16)
    return f"scrypt:{salt.hex()}:{_scrypt(pin, salt).hex()}"


def pin_fits(pin: str, hashed: str) -> bool:
    """Whether `hashed` is the hash of a PIN; takes about 50 ms."""
    _, salt, expected = hashed.split(":")
    return hmac.compare_digest(_scrypt(pin, bytes.fromhex(salt)), bytes.fromhex(expected))


def _scrypt(pin: str, salt: bytes) -> bytes:
    return hashlib.scrypt(pin.encode(), salt=salt, n=2**14, r=8, p=1, dklen=32)
