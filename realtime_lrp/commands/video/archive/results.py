"""What a job hands over file by file, for its table and its page.

A `Listener` hears of each file in the process that runs the job, one at a time.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class FinishedFile:
    """A recording whose film is complete.

    Attributes:
      source: the recording, as in messages: without passwords.
      outputs: the final name of each output by what it is: "film", "sidecar", "summary", "maps".
      frames: how many the film has.
      rows: a file of JSON lines that has the content of a sidecar, also where none is wanted; it
        exists only during the call.
      thumbnails: (seconds, uint8 [h, w, 3] RGB), evenly spaced, 12 to 23 of a long recording.
      notes: what was not kept as it was.
      fingerprint: of source and settings, see `results.resume.fingerprint`.
    """

    source: str
    outputs: Mapping[str, Path]
    frames: int
    rows: Path
    thumbnails: Sequence[tuple[float, np.ndarray]] = ()
    notes: Sequence[str] = ()
    fingerprint: str = ""

    @property
    def film(self) -> Path:
        """The final name of the film."""
        return self.outputs["film"]

    def records(self) -> Iterator[dict[str, Any]]:
        """Yields the record of each frame, as `results.records.map_record` describes it."""
        with self.rows.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


@dataclass(frozen=True)
class FailedFile:
    """A recording that has no film.

    Attributes:
      source: the recording, as in messages.
      message: why, in one or two lines.
      exit_code: of that error.
    """

    source: str
    message: str
    exit_code: int


@dataclass(frozen=True)
class SkippedFile:
    """A recording that an earlier run has finished.

    Attributes:
      source: the recording, as in messages.
      outputs: as in `FinishedFile`.
      fingerprint: as in `FinishedFile`.
    """

    source: str
    outputs: Mapping[str, Path] = field(default_factory=dict)
    fingerprint: str = ""

    @property
    def film(self) -> Path:
        """The film."""
        return self.outputs["film"]


class Listener:
    """Hears what becomes of each file; does nothing by itself.

    An `Error` from `finished` fails the file: it has no film then.
    """

    def finished(self, file: FinishedFile) -> None:
        """A film is complete; it gets its final name after this call, as the last output."""

    def skipped(self, file: SkippedFile) -> None:
        """A film was finished by an earlier run."""

    def failed(self, file: FailedFile) -> None:
        """A recording has no film."""

    def end(self, stopped: bool) -> None:
        """The job ends; `stopped` if it was interrupted or cannot go on."""
