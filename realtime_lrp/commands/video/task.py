"""What `video` is asked for, and whether a recording's film is there already."""

import functools
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
      start, end: seconds.
      resume: outputs that were made from the same source with the same settings are kept.
      maps: the folder that gets a folder of raw maps for each output, or None.
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


@dataclass(eq=False)
class Film:
    """A film of a recording, with what is made beside it.

    Attributes:
      target: .mp4, .mov or .mkv.
      replace: an existing film may be replaced.
      replace_companions: so may what is beside it, even if the film may not.
      span: the part of the recording, None for all of it.
    """

    source: Path
    target: Path
    replace: bool = False
    companions: Companions = Companions()  # noqa: RUF009 # frozen
    replace_companions: bool = False
    span: Span | None = None

    def note_complete(self, parts: Mapping[str, Path]) -> None:
        """Called once all files are complete, before the first of them gets its name."""


class Task(Film):
    """A film that is to be made.

    Attributes:
      shown: where the film is in the end, for messages.
      stored: the recording comes from an object store, or the film goes into one.
      uploaded: the film goes into an object store.
      done: `--resume` found it finished.
      refused: why it cannot be done, or None.
    """

    stored = uploaded = False

    def __init__(self, config: Config, options: VideoOptions, source: Path, target: Path):
        companions = Companions.named_after(target, options.sidecar, options.summary, options.maps)
        over = options.overwrite
        super().__init__(source, target, over, companions, over, options.span)
        self.shown = str(target)
        self.done = False
        self.refused: Error | None = None
        self._before: Manifest | None = None
        self._config, self._options = config, options

    @property
    def outputs(self) -> dict[str, Path]:
        """All that is made: what it is -> where it goes."""
        return {"film": self.target, **self.companions.by_kind}

    @property
    def beside(self) -> list[str]:
        """Where the other outputs are in the end."""
        return [str(path) for path in self.companions.by_kind.values()]

    @contextmanager
    def at_hand(self) -> Iterator["Task"]:
        """Lends the same task with files of this machine only."""
        yield self

    def check_source(self) -> None:
        """Refuses what is no video."""
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
        if self._options.resume:
            self._compare()
        if not self.done:
            check_output(self.target, self.replace)
            self.companions.check(self.replace_companions)
            refuse_link(manifest_path(self.target))

    def _compare(self) -> None:
        """Decides whether a film that is there is finished, is made again, or is refused."""
        manifest = read_manifest(self.target)
        if not self.target.is_file():
            self.replace_companions |= manifest is not None and manifest.owns(self.outputs)
            return
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

    def begin(self) -> None:
        """Refuses a film that another process writes by now."""
        refuse_busy(self.target)
        self._before = read_manifest(self.target)

    def made_by_lost_worker(self) -> bool:
        """Whether the film was finished since `begin`; what is there of it may be replaced."""
        manifest = read_manifest(self.target)
        if not manifest or manifest == self._before or manifest.fingerprint != self.fingerprint:
            return False
        self.replace_companions |= manifest.owns(self.outputs)
        return not manifest.changed(self.outputs)

    def remove_parts(self) -> bool:
        """Removes what lost workers have left unfinished; gives whether nothing else is left."""
        return all([remove_parts(output) for output in self.outputs.values()])

    def note_complete(self, parts: Mapping[str, Path]) -> None:
        manifest = Manifest.of(self.fingerprint, parts, state_of(self.target))
        try:
            write_manifest(self.target, manifest)
        except Error as error:
            log.warning("--resume will not recognise %s: %s", self.target, error)

    @functools.cached_property
    def fingerprint(self) -> str:
        """Of the source and the settings, see `results.resume.fingerprint`."""
        return fingerprint(self.source, self._config, self._further_settings())

    def _further_settings(self) -> dict[str, Any]:
        """What shapes the outputs besides the settings that count for every output."""
        further: dict[str, Any] = {"start": self._options.start, "end": self._options.end}
        concepts = self._config.concepts
        if self._options.sidecar and (concepts.layer or concepts.names):
            names = state_of(Path(concepts.names)) if concepts.names else ""
            further |= {"concepts": [concepts.layer, names]}
        return further
