"""The table and the page of a job, kept up to date while its files are finished."""

import json
import os
import time
from itertools import chain
from pathlib import Path

from realtime_lrp.commands.video.archive.results import (
    FailedFile,
    FinishedFile,
    Listener,
    SkippedFile,
)
from realtime_lrp.config.provenance import KEY, Provenance, read_provenance
from realtime_lrp.results.archive_page import check_page, write_pages
from realtime_lrp.results.frame_table import check_table, keep_rows
from realtime_lrp.results.overview import FilmEntry, Overview, keep_overview, link_to, read_entry

EVERY_S = 60.0
"""Minimum time between two versions of the page while the job runs."""

SHARE = 50
"""It is also at least so many times as long as the last version took to write."""


class Listing(Listener):
    """Adds each finished film to `figures.parquet` and to `archive.html`.

    Args:
      folder: the folder of the films.
      total: how many films there will be.
      replace: whether a page of somebody else may be replaced.

    Raises:
      UnavailableError: pyarrow is not installed.
      OutputError: table or page cannot be made.
    """

    def __init__(self, folder: Path, total: int, replace: bool = False):
        check_table(folder)
        check_page(folder, replace)
        self._folder, self._total = folder, total
        self._entries: dict[str, FilmEntry] = {}
        self._provenance: Provenance | None = None
        self._next = time.monotonic() + EVERY_S

    def finished(self, file: FinishedFile) -> None:
        records = file.records()
        first = next(records, None)
        provenance = first.pop(KEY, None) if first else None
        overview = Overview()
        rows = overview.watch(chain(filter(None, [first]), records))
        made = json.dumps(provenance) if provenance else ""
        keep_rows(self._folder, file.film.name, file.source, rows, made)
        picture, height = overview.draw(file.thumbnails)
        entry = FilmEntry(
            source=file.source, frames=overview.frames, seconds=overview.seconds,
            answers=overview.answers, height=height, notes=[*file.notes],
            outputs=self._outputs(file),
        )  # fmt: skip
        keep_overview(self._folder, file.film.name, entry, picture)
        if made and self._provenance is None:
            self._provenance = read_provenance(made)
        self._add(file.film.name, entry)

    def skipped(self, file: SkippedFile) -> None:
        entry = read_entry(self._folder, file.film.name)
        entry = entry or FilmEntry(source=file.source, outputs=self._outputs(file))
        self._add(file.film.name, entry)

    def failed(self, file: FailedFile) -> None:
        self._add(file.source, FilmEntry(source=file.source, error=file.message))

    def end(self, stopped: bool) -> None:
        self._write()

    def _outputs(self, file: FinishedFile | SkippedFile) -> dict[str, str]:
        """The addresses of what is beside the film, as they are reached from the page."""
        return {
            kind: link_to(os.path.relpath(path, self._folder))
            for kind, path in file.outputs.items()
            if kind != "film"
        }

    def _add(self, name: str, entry: FilmEntry) -> None:
        self._entries[name] = entry
        if time.monotonic() > self._next:
            self._write()

    def _write(self) -> None:
        begun = time.monotonic()
        waiting = max(0, self._total - len(self._entries))
        write_pages(self._folder, self._entries, waiting, self._provenance)
        now = time.monotonic()
        self._next = now + max(EVERY_S, SHARE * (now - begun))
