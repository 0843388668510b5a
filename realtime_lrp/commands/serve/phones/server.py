"""The server for phones: always HTTPS, because phones give their camera to no other page."""

import ipaddress
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

from realtime_lrp.commands.serve.addresses import addresses
from realtime_lrp.commands.serve.certificate import context_of_files, own_context
from realtime_lrp.commands.serve.guard import Guard
from realtime_lrp.commands.serve.phones.app import PhoneApp
from realtime_lrp.commands.serve.phones.turns import Turns
from realtime_lrp.commands.serve.qr import modules
from realtime_lrp.commands.serve.server import Server, listen
from realtime_lrp.commands.serve.tokens import RenewedTokens
from realtime_lrp.errors import UnavailableError

TOKEN_S = 600.0
"""Seconds until the code on the screen changes; the one before it holds as long again."""

ALL = "0.0.0.0"
ADVICE = "Scan the code on the screen again.\n"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PhoneSettings:
    """Where phones connect.

    Attributes:
      address: address or name of this machine; None: its first address in a network.
      port: on which it listens.
      cert, key: PEM files, or None for a certificate that is made here.
    """

    address: str | None
    port: int
    cert: str | None
    key: str | None


class PhoneServer:
    """Answers phones until it is closed.

    Args:
      settings: where.
      turns: whose phone is shown.
      texts: see `PhoneApp`.

    Attributes:
      address: without the token.

    Raises:
      UnavailableError: there is no network, or it cannot listen there.
      Error: certificate and key cannot be used.
    """

    def __init__(
        self, settings: PhoneSettings, turns: Turns, texts: Mapping[str, Mapping[str, str]]
    ):
        self._settings, self._host = settings, host_of(settings)
        names = [self._host, *addresses(ALL)]
        if settings.cert or settings.key:
            tls = context_of_files(settings.cert, settings.key)
        else:
            tls, fingerprint = own_context(names)
            log.info("the certificate's SHA-256 fingerprint is %s", fingerprint)
        self._tokens = RenewedTokens(TOKEN_S, time.monotonic())
        self._code: tuple[str, tuple[bytes, ...]] = ("", ())
        routes = PhoneApp(turns, texts).routes()
        host = self._host if _is_number(self._host) else ALL
        listening = listen(host, settings.port, ("kiosk.phone_address", "kiosk.phone_port"))
        port = listening.getsockname()[1]
        self.address = f"https://{self._host}:{port}"
        self._server = Server(Guard(routes, self._tokens, names, port, ADVICE), listening, tls)
        self._server.__enter__()

    def check(self) -> None:
        """Raises an error if phones cannot reach it any more.

        Raises:
          UnavailableError: the server has ended, or this machine has another address now.
        """
        self._server.check()
        if host_of(self._settings) != self._host:
            raise UnavailableError(f"This machine is not {self._host} any more.")

    @property
    def code(self) -> tuple[bytes, ...]:
        """The QR code of the address with the newest token; see `qr.modules`."""
        self._tokens.renew(time.monotonic())
        token = self._tokens.newest
        if self._code[0] != token:
            self._code = token, modules(f"{self.address}/?token={token}")
        return self._code[1]

    def close(self) -> None:
        """Ends it."""
        self._server.__exit__()


def host_of(settings: PhoneSettings) -> str:
    """The host in the address.

    Raises:
      UnavailableError: this machine is in no network.
    """
    host = settings.address or addresses(ALL)[0]
    if host.startswith("127.") and not settings.address:
        raise UnavailableError("This machine is in no network.")
    return host


def _is_number(host: str) -> bool:
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True
