"""Text for terminals and logs: without secrets, without control characters, of limited length."""

import logging
import re

from realtime_lrp.errors import masked

MAX_LINE = 2000
"""Characters of a line; names in untrusted files can have any length."""


def plain(text: str) -> str:
    """A text, of one line or more, as it may be shown."""
    shown = re.sub(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", "\ufffd", masked(text))
    lines = shown.split("\n")
    return "\n".join(
        line if len(line) <= MAX_LINE else f"{line[: MAX_LINE - 3]}..." for line in lines
    )


class PlainFormatter(logging.Formatter):
    """Formats log records as they may be shown."""

    def format(self, record: logging.LogRecord) -> str:
        return plain(super().format(record))
