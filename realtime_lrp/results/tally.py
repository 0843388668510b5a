"""How a batch of files went: those that fail are named with the reason, and the worst decides.

Raise at once what is wrong with all of them: wrong options, no network, a full disk.
"""

import logging
from pathlib import Path

from realtime_lrp.errors import Error, InternalError
from realtime_lrp.system.program import shows_tracebacks

# exit codes: this program, settings, what hinders every file (disk, output, memory), one file
WORST_FIRST = (70, 78, 2, 74, 73, 75, 69, 66, 65)

log = logging.getLogger(__name__)


class Tally:
    """Counts files and names those that failed; `done` is what happens to the `finished` ones."""

    def __init__(self, total: int, done: str):
        self._total = total
        self._done = done
        self.finished = 0
        self._errors: list[Error] = []

    def failed(self, source: Path, error: Exception) -> None:
        """Names a file that failed, and why; the error of an only file is raised."""
        if self._total == 1:
            raise error
        if not isinstance(error, Error):
            bug = InternalError(f"{source.name}: unexpected {type(error).__name__}: {error}")
            bug.__cause__ = error
            error = bug
        text = str(error)
        if source.name not in text:
            text = f"{source.name}: {text}"
        log.error("%s", text, exc_info=error if shows_tracebacks() else None)
        self._errors.append(error)

    def log_stop(self, stop: BaseException) -> None:
        """Says how far a batch of several files came that was interrupted or cannot go on."""
        if self._total > 1:
            why = "interrupted" if isinstance(stop, KeyboardInterrupt) else "stopped"
            log.warning("%s: %d of %d %s", why, self.finished, self._total, self._done)

    def raise_worst(self) -> None:
        """Raises an error with the total, if any file failed."""
        if not self._errors:
            return
        worst = min(self._errors, key=lambda error: WORST_FIRST.index(error.exit_code))
        raise type(worst)(
            f"{self.finished} of {self._total} {self._done}, {len(self._errors)} failed: see above."
        )
