"""Visitors' phones, whose pictures the exhibit shows instead of the camera's.

A thread of its own runs the server and has pictures decoded by a child process. Whatever fails
there, the exhibit goes on without phones, and the thread tries again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from realtime_lrp.commands.kiosk.captions import Captions
from realtime_lrp.commands.serve.phones.turns import Phone, Turns
from realtime_lrp.config import Config
from realtime_lrp.errors import first_line
from realtime_lrp.realtime.latest import Item, Slot
from realtime_lrp.video.child_decoder import ChildDecoder

if TYPE_CHECKING:
    from realtime_lrp.commands.serve.phones.server import PhoneServer

RETRY_S = 30.0
"""Seconds until the server is started again where it could not be, or has ended."""

CHECK_S = 5.0
"""How often the thread looks whether the server still answers under its address."""

WAIT_S = 0.2
"""How long the thread waits for a picture before it looks after the server."""

IDLE_S = 60.0
"""After this long without a picture the decoder's process is ended."""

MISSING = 'phones need libraries that are not installed: pip install "realtime-lrp[serve]"'

PAGE_TEXTS = (
    "invite", "start", "stop", "live", "waiting", "resting", "full", "over", "refused", "lost",
    "privacy",
)  # fmt: skip
"""The captions that the phones' page shows."""

log = logging.getLogger(__name__)


class PhonePart:
    """Runs the server for phones while the exhibit is open, and has their newest picture.

    Args:
      config: the effective configuration.
      captions: those of each language.

    Attributes:
      code: the QR code that leads to the page, see `serve.qr.modules`; None: no phones now.
      warns: whether phones say that they do not know this machine.
      described: for the technician: the address, or why there is none; None where nobody wants it.
    """

    def __init__(self, config: Config, captions: Sequence[Captions]):
        self._config, self._captions = config.kiosk, captions
        self.code: tuple[bytes, ...] | None = None
        self.warns = config.kiosk.phone_cert is None
        self.described: str | None = None
        self._frames: Slot[np.ndarray] = Slot()
        self._last_number = 0
        self._turns = Turns(config.kiosk.phone_seconds)
        self._server: PhoneServer | None = None
        self._decoder = ChildDecoder()
        self._shown: Phone | None = None  # whose picture was decoded last
        self._open = False
        self._due = self._used_at = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="phones", daemon=True)
        if config.kiosk.phones:
            self.described = "starting"
            self._thread.start()

    def update(self, opened: bool, showing: bool) -> None:
        """Says what the exhibit does.

        Args:
          opened: whether it is within the opening hours: else nobody can connect.
          showing: whether it shows pictures, and not a card.
        """
        self._open = opened
        self._turns.set_open(showing)

    @property
    def showing(self) -> bool:
        """Whether there is a phone whose pictures are to be shown."""
        current = self._turns.current
        return current is not None and current is self._shown

    def newest(self, timeout_s: float) -> Item[np.ndarray] | None:
        """The newest picture, once; waits up to `timeout_s` for one."""
        frame = self._frames.newest(self._last_number, timeout_s)
        if frame:
            self._last_number = frame.number
        return frame

    def end(self) -> None:
        """Ends server and decoder, without waiting."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._take_turn(time.monotonic())
            except Exception as error:
                self._fail(first_line(error))
            if not self._server:
                self._ended.wait(WAIT_S)
        self._close_server()
        self._decoder.close()

    def _take_turn(self, now: float) -> None:
        """Looks after the server, then decodes a picture if one comes.

        Raises:
          Exception: there can be no phones at the moment.
        """
        if not self._open:
            self._close_server()
            self._due, self.described = 0.0, "closed"
        elif now >= self._due:
            self._look_after_server()
            self._due = now + CHECK_S
        if self._server:
            self.code = self._server.code
            if taken := self._turns.take(WAIT_S):
                self._decode(*taken)
        if now - self._used_at > IDLE_S:
            self._decoder.close()

    def _look_after_server(self) -> None:
        if self._server:
            self._server.check()
            return
        try:
            from realtime_lrp.commands.serve.phones.server import PhoneServer, PhoneSettings
        except ModuleNotFoundError:
            raise ModuleNotFoundError(MISSING) from None
        config = self._config
        settings = PhoneSettings(
            config.phone_address, config.phone_port, config.phone_cert, config.phone_key
        )
        self._server = PhoneServer(settings, self._turns, self._texts())
        self.described = self._server.address
        log.info("phones can show their picture: %s", self.described)

    def _texts(self) -> dict[str, dict[str, str]]:
        """Language -> the texts of the page."""
        return {
            captions.code: {name: getattr(captions.phone, name) for name in PAGE_TEXTS}
            for captions in self._captions
            if captions.phone
        }

    def _decode(self, phone: Phone, jpeg: bytes, received: float) -> None:
        crashes, self._used_at = self._decoder.crashes, received
        picture = self._decoder.decode(jpeg)
        if self._decoder.crashes > crashes:
            self._turns.expel(phone)
        elif picture is not None:
            self._turns.note_shown(phone)
            self._shown = phone
            self._frames.put(picture, received)

    def _fail(self, why: str) -> None:
        """Goes on without phones for a while; says so once."""
        self._close_server()
        self._due = time.monotonic() + RETRY_S
        if self.described != why:
            log.warning("no phones, next try in %.0f s: %s", RETRY_S, why)
        self.described = why

    def _close_server(self) -> None:
        server, self._server, self.code = self._server, None, None
        if server:
            server.close()
