"""The connections of a server, counted from `accept` on: before TLS, and before any request.

Anybody can open connections and send nothing. A connection is a stranger's until a request on it
has shown a token. Strangers have few places: when these are taken, the oldest stranger of the
address that has the most is cut off. Who sends a request at once therefore always gets an answer.
"""

import errno
import logging
import socket
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

MOST_STRANGERS = 64
"""Connections that have shown no token yet."""

MOST_OPEN = 400
"""Connections of any kind; further ones are closed at once. Below the usual 1024 open files."""

STRANGER_S = 10.0
"""A connection that has shown no token after this long is cut off, its TLS handshake included."""

BACKLOG = 128
"""Connections that the kernel keeps until they are accepted."""

EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""What the system answers when this machine has no more files or memory for connections."""

PAUSE_S = 0.5
"""After that nothing is accepted for so long; asyncio itself tries again after a second."""

log = logging.getLogger(__name__)


class CountingSocket(socket.socket):
    """A listening socket that keeps count of what it accepts. For the server's thread."""

    def __init__(self, *arguments: Any, **fields: Any):
        super().__init__(*arguments, **fields)
        self._strangers: dict[tuple[str, int], tuple[socket.socket, float]] = {}  # oldest first
        self._accepted: WeakKeyDictionary[socket.socket, bool] = WeakKeyDictionary()  # cut off?
        self._pause_until = 0.0
        self._complained = False

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection, as asyncio expects it.

        Raises:
          BlockingIOError: there is none at the moment, or some that were cut off have to be closed
            first, which asyncio does at once.
          ConnectionAbortedError: there are too many; it is closed.
          OSError: this machine has no room for it; raised once, then there is a pause.
        """
        cut_off = [ended for one, ended in self._accepted.items() if one.fileno() >= 0]
        full = len(cut_off) >= MOST_OPEN
        if time.monotonic() < self._pause_until or (full and any(cut_off)):
            raise BlockingIOError
        try:
            accepted, address = super().accept()
        except OSError as error:
            if error.errno in EXHAUSTED:
                self._pause_until = time.monotonic() + PAUSE_S
                self.complain(f"no connection can be accepted at the moment: {error.strerror}")
            raise
        if full:
            accepted.close()
            self.complain(f"there are {MOST_OPEN} connections; further ones are closed")
            raise ConnectionAbortedError
        self._accepted[accepted] = False
        self._strangers.pop(address[:2], None)  # to be the newest
        self._strangers[address[:2]] = accepted, time.monotonic()
        self._make_room()
        return accepted, address

    def complain(self, what: str) -> None:
        """Logs the first thing that is wrong with connections, one line."""
        if not self._complained:
            self._complained = True
            log.warning("%s (further messages of this kind are left out)", what)

    def know(self, client: tuple[str, int]) -> None:
        """A connection has shown a token.

        Args:
          client: its address and port.
        """
        self._strangers.pop(client, None)

    def cut_off_silent(self) -> None:
        """Ends connections that have shown no token in time."""
        late = time.monotonic() - STRANGER_S
        self._cut_off(lambda client: self._strangers[client][1] < late)

    def _make_room(self) -> None:
        """Cuts off the oldest stranger of the address with the most, if there are too many."""
        if len(self._strangers) <= MOST_STRANGERS:
            return
        self._cut_off(lambda client: self._strangers[client][0].fileno() < 0)
        if len(self._strangers) > MOST_STRANGERS:
            [(most, _)] = Counter(host for host, _ in self._strangers).most_common(1)
            oldest = next(client for client in self._strangers if client[0] == most)
            self._cut_off(lambda client: client == oldest)

    def _cut_off(self, chosen: Callable[[tuple[str, int]], bool]) -> None:
        """Forgets strangers; asyncio sees the end of the stream and closes the connection."""
        for client in [client for client in self._strangers if chosen(client)]:
            connection, _ = self._strangers.pop(client)
            self._accepted[connection] = True
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
