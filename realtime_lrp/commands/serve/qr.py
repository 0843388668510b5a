"""QR codes of addresses: for a terminal as text, for the page as SVG."""

import functools
import io

import segno

MOST = 500
"""Characters of an address."""


def lines(address: str) -> list[str]:
    """A QR code as text, two rows of modules in each line; for dark and light terminals."""
    out = io.StringIO()
    segno.make(address, error="m").terminal(out, compact=True)
    return out.getvalue().splitlines()


@functools.lru_cache(maxsize=8)
def svg(address: str) -> bytes:
    """A QR code as SVG, black on white.

    Raises:
      ValueError: the address is empty or too long.
    """
    if not 0 < len(address) <= MOST:
        raise ValueError(f"Expected an address of 1 to {MOST} characters.")
    out = io.BytesIO()
    code = segno.make(address, error="m")
    code.save(out, kind="svg", scale=8, border=4, dark="#000", light="#fff", xmldecl=False)
    return out.getvalue()
