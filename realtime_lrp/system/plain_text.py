"""Text for terminals and logs: printable, without secrets, of limited length."""

import logging
from unicodedata import category

from realtime_lrp.errors import masked

MAX_LINE = 2000
"""Characters of a line; names in untrusted files can have any length."""


REPLACED = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories of what is not shown: controls, direction marks and other invisible format
characters, surrogates, line and paragraph separators."""


def plain(text: str) -> str:
    """A text, of one line or more, as it may be shown."""
    shown = "".join(map(_shown, masked(text)))
    lines = shown.split("\n")
    return "\n".join(
        line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 3]}..." for line in lines
    )


def _shown(letter: str) -> str:
    return "\ufffd" if letter != "\n" and category(letter) in REPLACED else letter


class PlainFormatter(logging.Formatter):
    """Formats log records as they may be shown."""

    def format(self, record: logging.LogRecord) -> str:
        return plain(super().format(record))
