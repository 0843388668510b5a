"""One recording of a batch: its output, what is made beside it, and whether `--resume` skips it."""

import functools
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from realtime_lrp.commands.video.recoding import check_video
from realtime_lrp.config import Config
from realtime_lrp.errors import Error, OutputError
from realtime_lrp.results.companions import Companions
from realtime_lrp.results.resume import (
    Manifest,
    fingerprint,
    manifest_path,
    read_manifest,
    refuse_unknown,
    state_of,
    write_manifest,
)
from realtime_lrp.system.atomic import (
    check_output,
    refuse_busy,
    refuse_link,
    remove_parts,
    stale_parts,
    write_error,
)
from realtime_lrp.video.reader import Span

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class VideoOptions:
    """What is asked for on the command line besides the configuration.

    Attributes:
      inputs: files, folders, globs.
      output: a file, or a folder, which gets MP4 files.
      start: seconds; earlier frames are left out.
      end: seconds; this frame and later ones are left out. None is the end of the file.
      overwrite: existing outputs may be replaced.
      resume: outputs that were made from the same source with the same settings are kept.
      sidecar: JSON lines beside each output.
      summary: a picture beside each output.
      maps: the folder that gets a folder of raw maps for each output, or None.
      json: progress as JSON lines on stdout.
      stats: where the figures go, or None.
      workers: how many processes share the work through Ray, None for this process alone.
      ray: the address of a Ray cluster whose workers do it, or None.
    """

    inputs: Sequence[str]
    output: str
    start: float | None = None
    end: float | None = None
    overwrite: bool = False
    resume: bool = False
    sidecar: bool = False
    summary: bool = False
    maps: Path | None = None
    json: bool = False
    stats: Path | None = None
    workers: int | None = None
    ray: str | None = None

    @property
    def exact(self) -> bool:
        """Whether maps are kept as data, and not only watched."""
        return self.sidecar or self.maps is not None

    @property
    def span(self) -> Span | None:
        """The part of the recordings that is asked for, None for all."""
        if self.start is None and self.end is None:
            return None
        return Span(self.start or 0.0, self.end)


class Task:
    """A source and its output.

    Attributes:
      source: the file that is read.
      target: the film that is written.
      companions: what is made beside it.
      done: `--resume` found it finished.
      refused: why it cannot be done, or None.
      replace: an existing film may be replaced.
      replace_companions: so may what is beside it.
    """

    def __init__(self, config: Config, options: VideoOptions, source: Path, target: Path):
        self.source, self.target = source, target
        self.companions = Companions.named_after(
            target, options.sidecar, options.summary, options.maps
        )
        self.replace = self.replace_companions = options.overwrite
        self.done = False
        self.refused: Error | None = None
        self._previous: Manifest | None = None
        self._config, self._options = config, options

    @property
    def outputs(self) -> dict[str, Path]:
        """All that is made: what it is -> where it goes."""
        return {"film": self.target, **self.companions.by_kind}

    @property
    def film(self) -> str:
        """Where the film is in the end, for messages."""
        return str(self.target)

    @property
    def beside(self) -> list[str]:
        """Where the other outputs are in the end."""
        return [str(path) for path in self.companions.paths]

    @property
    def stored(self) -> bool:
        """Whether the recording comes from an object store, or the film goes into one."""
        return False

    @contextmanager
    def at_hand(self) -> Iterator["Task"]:
        """Lends the same task with files of this machine only.

        Raises:
          Error: the recording cannot be fetched, or the outputs cannot be put where they belong.
        """
        yield self

    def check(self) -> None:
        """Refuses what is no video. Raises `Error`."""
        if self.refused:
            raise self.refused
        check_video(self.source)

    def refusal(self) -> Error | None:
        """Looks at what is there already; keeps the reason why it cannot be done.

        Returns:
          The reason, if nothing at all should be begun; None also for a name that the system
          refuses, for example as too long: the others are made.
        """
        try:
            self._check()
        except Error as error:
            self.refused = error
            return error
        except OSError as error:
            self.refused = write_error(self.target, error)
        return None

    def _check(self) -> None:
        for stale in (part for path in self.outputs.values() for part in stale_parts(path)):
            log.warning("%s was left by a run that was killed; it can be deleted", stale)
        refuse_busy(self.target)
        if self._options.resume and self.target.is_file():
            self._compare()
        elif self._options.resume and read_manifest(self.target):
            self.replace_companions = True  # of a run that was killed before the film was finished
        if not self.done:
            check_output(self.target, self.replace)
            self.companions.check(self.replace_companions)
            refuse_link(manifest_path(self.target))

    def made_by_lost_worker(self) -> bool:
        """Whether the film is there since `note_begun`, made by a worker that was lost then."""
        manifest = read_manifest(self.target)
        ours = manifest and manifest.fingerprint == self.fingerprint
        return bool(
            manifest and ours and manifest != self._previous and not manifest.changed(self.outputs)
        )

    def note_begun(self) -> None:
        """Writes a manifest without the outputs, unless the present one is as good.

        Raises:
          OutputError: another process writes the film by now.
          TransferError: the disk is full, so there is no room for the film either.
        """
        refuse_busy(self.target)
        manifest = self._previous = read_manifest(self.target)
        replaced = state_of(self.target)
        if (
            manifest
            and manifest.fingerprint == self.fingerprint
            and replaced in ("", manifest.states.get("film"), manifest.replaces)
        ):
            return
        try:
            write_manifest(self.target, Manifest(self.fingerprint, {}, replaced))
        except OutputError as error:
            self._warn(error)

    def note_finished(self, part: Path) -> None:
        """Writes the manifest; `part` is the complete film under its temporary name."""
        files = {"film": part, **self.companions.by_kind}
        manifest = Manifest.of(self.fingerprint, files, state_of(self.target))
        try:
            write_manifest(self.target, manifest)
        except Error as error:
            self._warn(error)

    def note_failed(self) -> None:
        """Puts back the manifest of a film that was not replaced, removes that of a new one."""
        manifest = read_manifest(self.target)
        if self._previous and self.target.exists():
            with suppress(Error):
                write_manifest(self.target, self._previous)
        elif manifest and not manifest.states:
            manifest_path(self.target).unlink(missing_ok=True)

    def remove_parts(self) -> bool:
        """Removes what lost workers have left unfinished; gives whether nothing else is left."""
        return all([remove_parts(output) for output in self.outputs.values()])

    def _warn(self, error: Error) -> None:
        log.warning("--resume will not recognise %s: %s", self.target, error)

    def _compare(self) -> None:
        """Decides whether a film that is there is finished, is made again, or is refused."""
        manifest = read_manifest(self.target)
        same = manifest is not None and manifest.fingerprint == self.fingerprint
        interrupted = manifest is not None and manifest.is_interrupted(self.target)
        if self.replace and (interrupted or not same):
            return
        if interrupted and not same:
            raise OutputError(
                f"An --overwrite of {str(self.target)!r} was interrupted; files beside it may be "
                "of either run. Add --overwrite to make it with these settings, or resume with "
                "those of the interrupted run."
            )
        if not self.replace and not interrupted:
            refuse_unknown(self.target, manifest, self.fingerprint, {"film": self.target})
        changed = manifest.changed(self.outputs) if manifest else []
        self.replace = self.replace_companions = True
        self.done = not changed
        if interrupted:
            log.warning("%s is made again: an --overwrite of it was interrupted", self.target)
        elif changed:
            names = ", ".join(changed)
            log.warning("%s is made again: %s is missing or has changed", self.target, names)

    @functools.cached_property
    def fingerprint(self) -> str:
        """Of the source and the settings, see `results.resume.fingerprint`.

        Raises:
          MissingInputError: a file cannot be read.
        """
        return fingerprint(self.source, self._config, self._further_settings())

    def _further_settings(self) -> dict[str, Any]:
        """What shapes the outputs besides the settings that count for every output."""
        further: dict[str, Any] = {"start": self._options.start, "end": self._options.end}
        concepts = self._config.concepts
        if self._options.sidecar and (concepts.layer or concepts.names):
            names = state_of(Path(concepts.names)) if concepts.names else ""
            further |= {"concepts": [concepts.layer, names]}
        return further
