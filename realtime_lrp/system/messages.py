"""What people read on a terminal or in a log: nothing secret, nothing that a terminal obeys."""

import logging
import re

from realtime_lrp.errors import masked

MOST = 2000
"""Characters of a line. Files of strangers name things at any length."""


def plain(text: str) -> str:
    """A text, of one line or several, as it may be shown."""
    shown = re.sub(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", "\ufffd", masked(text))
    lines = shown.split("\n")
    return "\n".join(line if len(line) <= MOST else f"{line[: MOST - 3]}..." for line in lines)


class PlainFormatter(logging.Formatter):
    """Records of a log as they may be shown."""

    def format(self, record: logging.LogRecord) -> str:
        return plain(super().format(record))
