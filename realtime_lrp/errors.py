"""The exceptions that users can meet, each with its exit code (sysexits).

A message is one or two lines: what happened, what was expected, what to do.
"""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any


class Error(Exception):
    """Base class of everything that this package raises on purpose."""

    exit_code = 1


class UsageError(Error, ValueError):
    """A wrong name or value, such as an unknown class; `about` says what, such as "composite"."""

    exit_code = 2

    def __init__(self, message: str, about: str | None = None):
        super().__init__(message)
        self.about = about


class DamagedInputError(Error, ValueError):
    """The input exists, but it cannot be used."""

    exit_code = 65


class NotFiniteError(DamagedInputError):
    """A network computes NaN or infinity."""


class MissingInputError(Error):
    """There is no such input."""

    exit_code = 66


class UnavailableError(Error):
    """Something that is needed is missing: a camera, a display, weights."""

    exit_code = 69


class InternalError(Error):
    """A fault of this program, not of its input; the message gets a line that says so."""

    exit_code = 70

    def __init__(self, message: str):
        hint = "This is a bug in realtime-lrp. Run it again with -vv and report the traceback."
        super().__init__(f"{message}\n{hint}")


class OutputError(Error):
    """The output cannot be made: its folder is missing, it exists, or it is not writable."""

    exit_code = 73


class TransferError(Error):
    """Reading or writing failed half-way, for example because the disk is full."""

    exit_code = 74


class FullDiskError(TransferError):
    """A disk has too little room."""


class TemporaryError(Error):
    """This process cannot go on, but a new one can: start it again."""

    exit_code = 75


class ConfigError(Error, ValueError):
    """A configuration file or a `--set` is wrong; the message lists the `problems`."""

    exit_code = 78
    problems: tuple[Any, ...] = ()


def first_line(error: BaseException) -> str:
    """The first line of an exception's message, without what Keras adds to it; or its type."""
    lines = [re.sub(r"\x1b\[\d*m|, value=.*", "", line).strip() for line in str(error).splitlines()]
    around = "Exception encountered", "A total of "
    told = (line for line in lines if line and not line.startswith(around))
    return next(told, type(error).__name__)[:400]


_ADDRESS = re.compile(r"\w[\w+.-]{1,20}:/{1,2}|\b\w://")
_QUERY = re.compile(r"([?#])(?:[^'\"]*(?=['\"])|\S*)")
_STORES = ("s3", "gs", "file")  # stores whose addresses may have ? and # in names: no query
_SECRET = re.compile(r"(?i)\b(user\w*|pass\w*|pwd|token|\w*key|auth|secret)=[^&\s'\"]*")


def masked(text: str) -> str:
    """Replaces user names, passwords and queries of addresses by ***."""
    return "\n".join(map(_masked_line, text.split("\n")))


def _masked_line(line: str) -> str:
    found = _ADDRESS.search(line)
    if not found:
        return line
    before = line[: found.end()]
    address = line[found.end() :]
    at = address.rfind("@")  # a password may contain any character, also an earlier @
    if at >= 0:
        address = f"***{address[at:]}"
    address = _without_query(found[0], address)
    return before + _SECRET.sub(r"\1=***", address)


def _without_query(scheme: str, address: str) -> str:
    """Replaces the first query after an address begins; names of objects have none."""
    start = 0
    while scheme.rstrip(":/").lower() in _STORES:
        further = _ADDRESS.search(address, start)
        if not further:
            return address
        scheme = further[0]
        start = further.end()
    return address[:start] + _QUERY.sub(r"\1***", address[start:], count=1)


def nearest(word: str, legal: Iterable[str]) -> str | None:
    """The legal name most like `word`, one that has it as a whole word first; None without any."""
    word = str(word).lower()
    by_lower = {name.lower(): name for name in legal}
    within = [name for name in by_lower if len(word) > 2 and word in re.split(r"[\W_]+", name)]
    found = get_close_matches(word, within or by_lower, n=1, cutoff=0 if within else 0.6)
    return by_lower[found[0]] if found else None


def unknown(
    kind: str, word: str, legal: Iterable[str], aliases: Mapping[str, str] | None = None
) -> UsageError:
    """The error for a name that does not exist, with ours for an alias, or the nearest one."""
    legal = list(legal)
    ours = (aliases or {}).get(word) or nearest(word, legal)
    word = word if len(word) <= 80 else f"{masked(word)[:77]}..."
    if ours:
        return UsageError(f"There is no {kind} {word!r}. Did you mean {ours!r}?", kind)
    shown = ", ".join(legal[:20]) + (", ..." if len(legal) > 20 else "")
    return UsageError(f"There is no {kind} {word!r}. Known: {shown}.", kind)
