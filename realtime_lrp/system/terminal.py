"""Output on a terminal: plain text without secrets, tables, and nothing from libraries."""

import logging
import os
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import StringIO
from unicodedata import category

from realtime_lrp.errors import masked

MAX_LINE = 2000  # characters of a line; names in untrusted files can have any length

REPLACED = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories of what is not shown: controls, direction marks and other invisible format
characters, surrogates, line and paragraph separators."""


def plain(text: str) -> str:
    """A text, of one line or more, as it may be shown."""
    shown = (
        "\ufffd" if letter != "\n" and category(letter) in REPLACED else letter
        for letter in masked(text)
    )
    lines = "".join(shown).split("\n")
    return "\n".join(
        line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 3]}..." for line in lines
    )


class PlainFormatter(logging.Formatter):
    """Formats log records as they may be shown."""

    def format(self, record: logging.LogRecord) -> str:
        return plain(super().format(record))


_lock = threading.Lock()
_switching = threading.Lock()
_kept: int | None = None  # standard error while it is captured
IN_MEMORY = "/dev/shm"  # Linux keeps the files of this folder in memory


def ensure_temporary_folder() -> None:
    """Uses a folder in memory where none is writable: TensorFlow needs a temporary folder."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        if os.access(IN_MEMORY, os.W_OK):
            os.environ["TMPDIR"] = tempfile.tempdir = IN_MEMORY


@contextmanager
def captured_stderr() -> Iterator[list[str]]:
    """Captures standard error, even C libraries', for a list; `write_error` gets through."""
    lines: list[str] = []
    with _lock:
        try:
            stderr = os.dup(2)
        except OSError:
            yield lines
            return
        captured = None
        with suppress(OSError):
            captured = _nameless_file()
            _redirect(captured, stderr)
        try:
            yield lines
        finally:
            _redirect(stderr, None)
            os.close(stderr)
            if captured is not None:
                os.lseek(captured, 0, os.SEEK_SET)
                with os.fdopen(captured, "rb") as file:
                    lines += file.read().decode(errors="replace").splitlines()


def write_error(text: str) -> None:
    """Writes a message to standard error, also while another thread captures that."""
    with _switching:
        if _kept is not None:
            os.write(_kept, text.encode(errors="backslashreplace"))
        elif sys.stderr is not None:
            sys.stderr.write(text)
            sys.stderr.flush()


def _redirect(to: int, kept: int | None) -> None:
    """Makes another file standard error; `kept` is where messages still go."""
    global _kept
    with _switching:
        os.dup2(to, 2)
        _kept = kept


def _nameless_file() -> int:
    """A file without a name, in memory if possible: the disk may be full."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("stderr")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def in_columns(
    headings: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1, gap: int = 2,
    width: int = 140, whole: bool = False,
) -> list[str]:  # fmt: skip
    """A table as lines of at most `width` characters; columns after the `left` ones stand right.

    Where these are `whole`, none of their cells is broken: half a number would be misread.
    """
    from rich.console import Console  # this takes a while
    from rich.table import Table

    table = Table(box=None, show_header=any(headings), padding=(0, gap, 0, 0), pad_edge=False)
    for number, heading in enumerate(headings):
        right = number >= left
        table.add_column(
            heading, justify="right" if right else "left", overflow="fold", no_wrap=whole and right
        )
    for row in rows:
        table.add_row(*row)
    text = StringIO()
    Console(file=text, width=width, markup=False, emoji=False, highlight=False).print(table)
    return [line.rstrip() for line in text.getvalue().splitlines()]
