"""The addresses under which the page is reached, also as QR codes."""

import functools
import io
import socket
import sys

import psutil
import segno

from realtime_lrp.config.schema import Serve
from realtime_lrp.system.program import print_lines

MOST = 500  # characters of an address in a QR code


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
        print_lines(qr_lines(address), secrets=True)


def qr_lines(address: str) -> list[str]:
    """An address as text, two rows of modules in each line; for dark and light terminals."""
    out = io.StringIO()
    segno.make(address, error="m").terminal(out, compact=True)
    return out.getvalue().splitlines()


@functools.lru_cache(maxsize=8)
def qr_code(address: str) -> bytes:
    """An address as SVG, black on white; ValueError if it is empty or too long."""
    if not 0 < len(address) <= MOST:
        raise ValueError(f"Expected an address of 1 to {MOST} characters.")
    out = io.BytesIO()
    code = segno.make(address, error="m")
    code.save(out, kind="svg", scale=8, border=4, dark="#000", light="#fff", xmldecl=False)
    return out.getvalue()


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
