"""Whose phone is shown: one at a time, the others wait in line.

A turn ends when the phone leaves or sends nothing usable, when others have waited for it, or after
a few minutes. Methods may be called from any thread.
"""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from realtime_lrp.commands.serve.bans import Bans

SILENT_S = 4.0
"""A phone that sends no picture for this long loses its turn."""

LONGEST = 5
"""A turn for which nobody waits lasts this many times as long as others."""

STEP_S = 5
"""The seconds left of a turn are told in steps of this, so that the phone's page changes rarely."""

MOST_WAITING = 8
"""Phones in line, at most."""

MOST_OF_ADDRESS = 4
"""Phones of one address in line, at most: one phone, or several behind a router."""

PAUSE_S = 5.0
"""After a picture that ended the decoder no other is taken for so long."""


@dataclass(eq=False)
class Phone:
    """A phone in line.

    Attributes:
      host: its address, or "".
      expelled: its picture has ended the decoder: its connection has to end.
      began: when its turn began; None while it waits.
      shown: when its last picture was decoded.
    """

    host: str = ""
    expelled: bool = False
    began: float | None = None
    shown: float = 0.0
    waiting: tuple[bytes, float] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Status:
    """What a phone is told.

    Attributes:
      state: "live", "waiting", "resting" (the exhibit shows no phones), "full" or "over".
      seconds: until its turn, or of its turn, at most.
    """

    state: str
    seconds: int = 0


class Turns:
    """The phones in line, the first of which is shown.

    Args:
      seconds: how long a turn lasts while others wait.
      clock: a monotonic clock in seconds.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic):
        self._seconds, self._clock = seconds, clock
        self._line: list[Phone] = []
        self._bans = Bans(clock)
        self._open, self._paused_until = False, 0.0
        self._changed = threading.Condition()

    def set_open(self, on: bool) -> None:
        """Says whether the exhibit shows phones at the moment; turns do not go on while not."""
        with self._changed:
            if on != self._open:
                self._open = on
                for phone in self._line:
                    phone.began = None

    @property
    def current(self) -> Phone | None:
        """The phone whose turn it is."""
        with self._changed:
            return self._current()

    def join(self, phone: Phone) -> bool:
        """Puts a phone at the end of the line; False if that is too long, or it may not."""
        with self._changed:
            if phone not in self._line:
                same = sum(bool(phone.host) and one.host == phone.host for one in self._line)
                full = len(self._line) > MOST_WAITING or same >= MOST_OF_ADDRESS
                if full or phone.expelled or self._bans.holds(phone.host):
                    return False
                phone.began = phone.waiting = None
                self._line.append(phone)
            return True

    def leave(self, phone: Phone) -> None:
        """Takes a phone out of the line."""
        with self._changed:
            self._remove(phone)

    def put(self, phone: Phone, jpeg: bytes) -> None:
        """Takes a phone's picture if it is its turn; the newest one replaces those before."""
        with self._changed:
            now = self._clock()
            if phone is self._current() and now >= self._paused_until:
                phone.waiting = jpeg, now
                self._changed.notify()

    def take(self, timeout_s: float) -> tuple[Phone, bytes, float] | None:
        """The next picture to decode: whose it is, its bytes, and when it came.

        Args:
          timeout_s: how long to wait for one.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._next() is not None, timeout_s)
            phone = self._next()
            if phone is None or phone.waiting is None:
                return None
            (jpeg, received), phone.waiting = phone.waiting, None
            return phone, jpeg, received

    def note_shown(self, phone: Phone) -> None:
        """Its picture could be decoded."""
        with self._changed:
            phone.shown = self._clock()

    def expel(self, phone: Phone) -> None:
        """Its picture has ended the decoder: it has to go, and there is a pause.

        Nobody at its address may join for a minute.
        """
        with self._changed:
            self._remove(phone)
            phone.expelled = True
            self._bans.add(phone.host)
            self._paused_until = self._clock() + PAUSE_S

    def status(self, phone: Phone) -> Status:
        """What to tell a phone."""
        with self._changed:
            current, now = self._current(), self._clock()
            if phone not in self._line:
                return Status("over")
            if current is None:
                return Status("resting")
            spent = now - (current.began or now)
            if phone is current:
                return Status("live", STEP_S * math.ceil((self._limit() - spent) / STEP_S))
            left = max(0.0, self._seconds - spent)
            further = self._line.index(phone) - 1
            return Status("waiting", round(left + further * self._seconds))

    def _next(self) -> Phone | None:
        """The current phone if it has a picture to decode."""
        current = self._current()
        return current if current and current.waiting else None

    def _current(self) -> Phone | None:
        """Ends turns that are over; the phone whose turn it is then."""
        now = self._clock()
        while self._open and self._line:
            first = self._line[0]
            if first.began is None:
                first.began = first.shown = now
            if now - first.began < self._limit() and now - first.shown < SILENT_S:
                return first
            self._remove(first)
        return None

    def _limit(self) -> float:
        """Seconds that the present turn lasts."""
        return self._seconds * (1 if len(self._line) > 1 else LONGEST)

    def _remove(self, phone: Phone) -> None:
        phone.waiting = None
        if phone in self._line:
            self._line.remove(phone)
