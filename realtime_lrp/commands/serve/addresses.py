"""The addresses under which the page is reached, and what it speaks HTTPS with."""

import logging
import socket
import ssl
import sys

import psutil

from realtime_lrp.commands.serve.certificate import context_of_files, own_context
from realtime_lrp.commands.serve.qr import lines
from realtime_lrp.config.schema import Serve
from realtime_lrp.system.program import print_lines

log = logging.getLogger(__name__)


def tls_of(serve: Serve, new: bool = False) -> ssl.SSLContext | None:
    """What the server speaks HTTPS with; None for HTTP.

    Args:
      serve: the settings.
      new: whether our own certificate is made anew.

    Raises:
      Error: what `context_of_files` and `own_context` raise.
    """
    if serve.cert or serve.key:
        return context_of_files(serve.cert, serve.key)
    if not serve.https:
        if not is_loopback(serve.host):
            log.warning(
                "pictures and token go over the network unencrypted, and phones do not give their "
                "camera; see --https"
            )
        return None
    context, fingerprint = own_context([*addresses(serve.host), *serve.names], new)
    log.warning(
        "browsers will say that the connection is not private, because this machine made the "
        "certificate itself. Choose Advanced, then Proceed (Safari: Show Details, then visit this "
        "website; Firefox: Advanced, then Accept the Risk). Its SHA-256 fingerprint is %s",
        fingerprint,
    )
    return context


def address_of(serve: Serve, port: int, token: str) -> str:
    """The address to open."""
    host = addresses(serve.host)[0]
    host = f"[{host}]" if ":" in host else host
    scheme = "https" if serve.https or serve.cert else "http"
    return f"{scheme}://{host}:{port}/?token={token}"


def print_address(address: str, host: str) -> None:
    """Prints the address to open; at a terminal also its QR code, if phones can reach it."""
    print_lines([address], secrets=True)
    if sys.stdout.isatty() and not is_loopback(host):
        print_lines(lines(address), secrets=True)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host."""
    return host in ("localhost", "::1") or host.startswith("127.")


def addresses(host: str) -> list[str]:
    """The addresses of a server that listens on a host; for all of them, this machine's."""
    if host not in ("0.0.0.0", "::", ""):
        return [host]
    up = {name for name, one in psutil.net_if_stats().items() if one.isup}
    found = [
        one.address
        for name, ones in psutil.net_if_addrs().items()
        if name in up
        for one in ones
        if one.family == socket.AF_INET and not one.address.startswith("127.")
    ]
    return found or ["127.0.0.1"]
