"""Remarks about a network for its user, each written once in a process: explainers are many."""

import functools
import logging

MAX_REMEMBERED = 256

log = logging.getLogger(__name__)


@functools.lru_cache(MAX_REMEMBERED)
def warn_once(text: str) -> None:
    """Logs a warning unless it was logged before."""
    log.warning("%s", text)
