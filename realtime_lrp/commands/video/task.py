"""What `video` is asked for, whether a recording's film is there already, what became of it."""

import functools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from realtime_lrp.commands.video.recoding import Report
from realtime_lrp.config import Config
from realtime_lrp.config.provenance import Provenance
from realtime_lrp.errors import Error
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.results.companions import check_companions, companions_of
from realtime_lrp.results.resume import (
    Manifest,
    fingerprint,
    manifest_path,
    read_manifest,
    refuse_unknown,
    state_of,
    write_manifest,
)
from realtime_lrp.system.child import Failed
from realtime_lrp.system.files import (
    check_output,
    refuse_busy,
    refuse_link,
    remove_parts,
    write_error,
)
from realtime_lrp.system.object_store import StoredFile
from realtime_lrp.video.reader import Span
from realtime_lrp.video.untrusted import read_frames

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class VideoOptions:
    """What is asked for on the command line besides the configuration; times are in seconds.

    `maps` is the folder that gets a folder of raw maps for each film. Without `workers` and `ray`,
    the address of a cluster, this process does all.
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
    """A film of a recording, .mp4, .mov or .mkv, with what is made beside it.

    What is beside it may be replaced where the film itself may not: a killed run has left it.
    """

    source: Path
    target: Path
    replace: bool = False
    companions: Mapping[str, Path] = field(default_factory=dict)
    replace_companions: bool = False
    span: Span | None = None

    def note_complete(self, parts: Mapping[str, Path]) -> None:
        """Called once all files are complete, before the first of them gets its name."""


class Disk:
    """Where films go: files of this machine, or in a folder that machines share."""

    stored = False

    def shown(self, path: Path) -> str:
        return str(path)

    def state(self, path: Path) -> str:
        """What shows whether a file or folder has changed; "" if there is none."""
        return state_of(path)

    def manifest(self, film: Path) -> Manifest | None:
        return read_manifest(film)

    def check(self, task: "Task") -> None:
        """Refuses outputs that cannot be made, or would have to be replaced."""
        check_output(task.target, task.replace)
        check_companions(task.companions, task.replace_companions)
        refuse_link(manifest_path(task.target))


class Task(Film):
    """A film that is to be made, and will be where `shown` says, unless it is `done` or `refused`.

    `recording` is the source in an object store; then `source` only has its name. The task is
    `stored` if the recording comes from an object store or the film goes into one.
    """

    def __init__(
        self,
        config: Config,
        options: VideoOptions,
        source: Path,
        target: Path,
        place: Disk,
        recording: StoredFile | None = None,
    ):
        companions = companions_of(target, options.sidecar, options.summary, options.maps)
        over = options.overwrite
        super().__init__(source, target, over, companions, over, options.span)
        self.done = False
        self.refused: Error | None = None
        self._before: Manifest | None = None
        self._config, self._options = config, options
        self.place, self.recording = place, recording
        self.stored = place.stored or recording is not None

    @property
    def outputs(self) -> dict[str, Path]:
        """All that is made: what it is -> where it goes."""
        return {"film": self.target, **self.companions}

    @property
    def shown(self) -> str:
        return self.place.shown(self.target)

    @property
    def beside(self) -> list[str]:
        return [self.place.shown(path) for path in self.companions.values()]

    def check_source(self) -> None:
        if not self.recording:
            next(read_frames(self.source.resolve(), 0, notes=False))

    def refusal(self) -> Error | None:
        """Looks at what is there already; gives the reason why nothing at all should be begun.

        A name that the system refuses, for example as too long, is none: the others are made.
        """
        try:
            if self._options.resume:
                self._compare()
            if not self.done:
                self.place.check(self)
        except Error as error:
            self.refused = error
            return error
        except OSError as error:
            self.refused = write_error(self.target, error)
        return None

    def _compare(self) -> None:
        """Decides whether a film that is there is finished, is made again, or is refused."""
        manifest, states = self.place.manifest(self.target), self._states()
        if not (film := states["film"]):
            self.replace_companions |= manifest is not None and manifest.owns(states)
            return
        same = manifest is not None and manifest.fingerprint == self.fingerprint
        if self.replace and not same:
            return
        if not self.replace:
            refuse_unknown(self.shown, manifest, self.fingerprint, {"film": film})
        changed = manifest.changed(states) if manifest else []
        self.replace = self.replace_companions = True
        self.done = not changed
        if changed:
            names = ", ".join(self.outputs[kind].name for kind in changed)
            log.warning("%s is made again: %s is missing or has changed", self.shown, names)

    def begin(self) -> None:
        """Refuses a film that another process writes by now."""
        refuse_busy(self.target)
        self._before = read_manifest(self.target)

    def take_over(self) -> None:
        """Lets what a lost worker has made of the film since `begin` be replaced."""
        manifest = read_manifest(self.target)
        if manifest and manifest != self._before and manifest.owns(self._states()):
            self.replace = self.replace_companions = True

    def remove_parts(self) -> bool:
        """Removes what lost workers have left unfinished; gives whether nothing else is left."""
        return all([remove_parts(output) for output in self.outputs.values()])

    def note_complete(self, parts: Mapping[str, Path]) -> None:
        states = {kind: state_of(part) for kind, part in parts.items()}
        try:
            write_manifest(self.target, Manifest(self.fingerprint, states))
        except Error as error:
            log.warning("--resume will not recognise %s: %s", self.target, error)

    def _states(self) -> dict[str, str]:
        return {kind: self.place.state(path) for kind, path in self.outputs.items()}

    @functools.cached_property
    def fingerprint(self) -> str:
        further: dict[str, Any] = {"start": self._options.start, "end": self._options.end}
        concepts = self._config.concepts
        if self._options.sidecar and (concepts.layer or concepts.names):
            names = state_of(Path(concepts.names)) if concepts.names else ""
            further |= {"concepts": [concepts.layer, names]}
        if self.recording:
            further |= {"size": self.recording.size, "version": self.recording.version}
        return fingerprint(None if self.recording else self.source, self._config, further)


@dataclass
class Outcome:
    """What became of a recording.

    There is a report or an error. A worker sends `Failed` instead of exceptions, as not every one
    can be sent. An error `for_all` recordings is that the network cannot be loaded. `computed` is
    for example "float32 on CPU".
    """

    report: Report | None = None
    error: Exception | Failed | None = None
    for_all: bool = False
    computed: str = ""
    stats: Stats | None = None
    provenance: Provenance | None = None
    log: list[str] = field(default_factory=list)
