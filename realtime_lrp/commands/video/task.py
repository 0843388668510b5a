"""The order given to `video`, whether a recording's film exists already, and its outcome.

Recordings and films may be in object stores. A worker fetches such a recording into a temporary
folder, makes the film there, and uploads it. Beside each film lies its manifest,
`.NAME.mp4.resume.json`, whose states are the sizes of the files. It is uploaded first, the film
last. So a film is finished where it and all beside it are as large as the manifest says.
"""

import copy
import functools
import logging
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from realtime_lrp.commands.video.recoding import Report
from realtime_lrp.config import Config
from realtime_lrp.config.provenance import Provenance
from realtime_lrp.errors import Error, OutputError, UsageError
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.results import resume
from realtime_lrp.results.companions import check_companions, companions_of
from realtime_lrp.system import files
from realtime_lrp.system.child import Failed
from realtime_lrp.system.object_store import ObjectStore, StoredFile, is_stored
from realtime_lrp.video.files import (
    VIDEOS,
    inputs_of,
    output_names,
    outputs_for,
    refuse_repeated,
    skipped_in,
)
from realtime_lrp.video.reader import Span
from realtime_lrp.video.untrusted import read_frames
from realtime_lrp.video.writer import CONTAINERS

MOST_MANIFEST = 1 << 20  # bytes of the largest manifest that is read

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class VideoOptions:
    """The command line's options besides the configuration; times are in seconds.

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
    """The place for films: files of this machine, or in a folder that machines share."""

    stored = False

    def shown(self, path: Path) -> str:
        return str(path)

    def state(self, path: Path) -> str:
        """Words that change when a file or folder changes; "" if there is none."""
        return resume.state_of(path)

    def manifest(self, film: Path) -> resume.Manifest | None:
        return resume.read_manifest(film)

    def check(self, task: "Task") -> None:
        files.check_output(task.target, task.replace)
        check_companions(task.companions, task.replace_companions)
        files.refuse_link(resume.manifest_path(task.target))


class Task(Film):
    """A film that is to be made, and will be where `shown` says, unless it is `done` or `refused`.

    `recording` is the source in an object store; then `source` only has its name. The task is
    `stored` if the recording comes from an object store or the film goes into one.
    """

    def __init__(
        self, config: Config, options: VideoOptions, source: Path, target: Path, place: Disk,
        recording: StoredFile | None = None,
    ):  # fmt: skip
        companions = companions_of(target, options.sidecar, options.summary, options.maps)
        over = options.overwrite
        super().__init__(source, target, over, companions, over, options.span)
        self.done = False
        self.refused: Error | None = None
        self._before: resume.Manifest | None = None
        self._config = config
        self._options = options
        self.place = place
        self.recording = recording
        self.stored = place.stored or recording is not None

    @property
    def outputs(self) -> dict[str, Path]:
        """All that is made: what it is -> where it goes."""
        return {"film": self.target, **self.companions}

    @property
    def shown(self) -> str:
        return self.place.shown(self.target)

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
            self.refused = files.write_error(self.target, error)
        return None

    def _compare(self) -> None:
        """Decides whether a film that is there is finished, is made again, or is refused."""
        manifest = self.place.manifest(self.target)
        states = self._states()
        if not (film := states["film"]):
            self.replace_companions |= manifest is not None and manifest.owns(states)
            return
        same = manifest is not None and manifest.fingerprint == self.fingerprint
        if self.replace and not same:
            return
        if not self.replace:
            resume.refuse_unknown(self.shown, manifest, self.fingerprint, {"film": film})
        changed = manifest.changed(states) if manifest else []
        self.replace = self.replace_companions = True
        self.done = not changed
        if changed:
            names = ", ".join(self.outputs[kind].name for kind in changed)
            log.warning("%s is made again: %s is missing or has changed", self.shown, names)

    def begin(self) -> None:
        """Refuses a film that another process writes by now."""
        files.refuse_busy(self.target)
        self._before = resume.read_manifest(self.target)

    def take_over(self) -> None:
        """Lets what a lost worker has made of the film since `begin` be replaced."""
        manifest = resume.read_manifest(self.target)
        if manifest and manifest != self._before and manifest.owns(self._states()):
            self.replace = self.replace_companions = True

    def remove_parts(self) -> bool:
        """Removes what lost workers have left unfinished; gives whether nothing else is left."""
        return all([files.remove_parts(output) for output in self.outputs.values()])

    def note_complete(self, parts: Mapping[str, Path]) -> None:
        states = {kind: resume.state_of(part) for kind, part in parts.items()}
        try:
            resume.write_manifest(self.target, resume.Manifest(self.fingerprint, states))
        except Error as error:
            log.warning("--resume will not recognise %s: %s", self.target, error)

    def _states(self) -> dict[str, str]:
        return {kind: self.place.state(path) for kind, path in self.outputs.items()}

    @functools.cached_property
    def fingerprint(self) -> str:
        further: dict[str, Any] = {"start": self._options.start, "end": self._options.end}
        concepts = self._config.concepts
        if self._options.sidecar and (concepts.layer or concepts.names):
            names = resume.state_of(Path(concepts.names)) if concepts.names else ""
            further |= {"concepts": [concepts.layer, names]}
        if self.recording:
            further |= {"size": self.recording.size, "version": self.recording.version}
        return resume.fingerprint(None if self.recording else self.source, self._config, further)


@dataclass
class Outcome:
    """The outcome of a recording.

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


class StoredFolder(Disk):
    """The folder of the films, for example s3://bucket/films, at the start of the job.

    Outputs have paths below `root`, where no file system has anything.
    """

    stored = True

    def __init__(self, address: str):
        self.address = address.rstrip("/")
        self.root = Path(self.address)
        self._manifests: dict[str, bytes] = {}
        self._sizes: dict[str, dict[str, int]] = defaultdict(dict)
        """Path of a file -> {"": bytes}, of a folder -> bytes of each file in it."""
        for name, size in ObjectStore(address).names(address).items():
            self._sizes[name][""] = size
            folder, _, file = name.rpartition("/")
            self._sizes[folder][file] = size

    def __getstate__(self) -> dict[str, Any]:
        """Without the listing of the whole folder, which no worker needs."""
        return {"address": self.address, "root": self.root}

    def read_manifests(self, films: Sequence[str]) -> None:
        names = [resume.manifest_path(Path(film)).name for film in films]
        names = [one for one in names if 0 < self._sizes[one].get("", 0) <= MOST_MANIFEST]
        contents = ObjectStore(self.address).read_all([f"{self.address}/{one}" for one in names])
        self._manifests = dict(zip(names, contents, strict=True))

    def name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def shown(self, path: Path) -> str:
        return f"{self.address}/{self.name(path)}"

    def state(self, path: Path) -> str:
        return _state(self._sizes[self.name(path)])

    def manifest(self, film: Path) -> resume.Manifest | None:
        data = self._manifests.get(resume.manifest_path(film).name, b"")
        try:
            return msgspec.json.decode(data, type=resume.Manifest)
        except (msgspec.MsgspecError, UnicodeError):
            return None

    def check(self, task: Task) -> None:
        for kind, path in task.outputs.items():
            may = task.replace if kind == "film" else task.replace_companions
            if self.state(path) and not may:
                raise OutputError(
                    f"{self.shown(path)!r} exists. Add --overwrite or choose another name."
                )


def _state(sizes: Mapping[str, int]) -> str:
    """Words that identify a file, or the files of a folder, by their sizes in bytes."""
    return " ".join(f"{name} {size}".strip() for name, size in sorted(sizes.items()))


@contextmanager
def at_hand(task: Task) -> Iterator[Task]:
    """Lends the same task with files of this machine only."""
    if not task.stored:
        yield task
        return
    files.remove_abandoned()
    with files.temporary_folder() as folder:
        here = copy.copy(task)
        films = folder / "films"
        if task.recording:
            (folder / "recording").mkdir()
            name = task.source.name
            fits = len(os.fsencode(name)) <= files.MOST_NAME and name not in ("", ".", "..")
            local = name if fits else f"recording{task.source.suffix[:8]}"
            here.source = folder / "recording" / local
            ObjectStore(task.recording.address).fetch(task.recording, here.source)
        if isinstance(task.place, StoredFolder):
            own = {kind: films / task.place.name(path) for kind, path in task.outputs.items()}
            for path in own.values():
                path.parent.mkdir(parents=True, exist_ok=True)
            here.target = own.pop("film")
            here.companions = own
        try:
            yield here
        except Error as error:
            if task.recording:
                shown = str(error).replace(str(here.source), task.recording.address)
                error.args = (shown, *error.args[1:])
            raise
        if isinstance(task.place, StoredFolder):
            _upload(task.place.address, films, here)


def _upload(address: str, folder: Path, task: Task) -> None:
    """Uploads the manifest, what stands beside the film, and last the film."""
    store = ObjectStore(address)
    states = {}
    made = list[Path]()
    for kind, path in reversed(list(task.outputs.items())):
        own = sorted(path.iterdir()) if path.is_dir() else [path]
        sizes = {"" if file == path else file.name: file.stat().st_size for file in own}
        states[kind] = _state(sizes)
        made += own
    manifest = msgspec.json.encode(resume.Manifest(task.fingerprint, states))
    store.write(manifest, f"{address}/{resume.manifest_path(task.target).name}")
    for file in made:
        store.upload(file, f"{address}/{file.relative_to(folder).as_posix()}")


def tasks_of(config: Config, options: VideoOptions) -> list[Task]:
    """The recordings of a job, and where their films go."""
    folder = None
    if is_stored(options.output):
        _check_output(options)
        folder = StoredFolder(options.output)
        options = replace(options, maps=options.maps and folder.root / options.maps)
    sources: list[tuple[Path, StoredFile | None]] = []
    for word in options.inputs:
        if is_stored(word):
            found = ObjectStore(word).find(word, VIDEOS, "video")
            sources += [(Path(one.address.partition("://")[2]), one) for one in found]
        else:
            sources += [(path, None) for path in inputs_of([word], VIDEOS, "video")]
    if skipped := skipped_in(options.inputs, VIDEOS):
        log.warning("%s", skipped)
    paths = [path for path, _ in sources]
    if folder:
        names = output_names(paths, ".mp4")
        refuse_repeated(paths)
        if options.resume:
            folder.read_manifests(names)
        targets = [folder.root / name for name in names]
    else:
        may_exist = options.overwrite or options.resume
        targets = outputs_for(paths, options.output, ".mp4", tuple(CONTAINERS), may_exist)
    return [
        Task(config, options, path, target, folder or Disk(), recording)
        for (path, recording), target in zip(sources, targets, strict=True)
    ]


def _check_output(options: VideoOptions) -> None:
    if options.output.lower().endswith(tuple(CONTAINERS)):
        raise UsageError(
            f"{options.output!r} is the name of a film. Expected a folder, such as s3://films/2024."
        )
    maps = options.maps
    if maps and (maps.is_absolute() or ".." in maps.parts or ":" in maps.parts[0]):
        raise UsageError(
            f"--maps {str(maps)!r} is not below the output. Expected a folder there, for example "
            "--maps maps."
        )
