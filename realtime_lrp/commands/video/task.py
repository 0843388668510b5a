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
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from realtime_lrp.system import files, object_store
from realtime_lrp.system.child import Failed
from realtime_lrp.system.object_store import StoredFile, is_stored
from realtime_lrp.video.files import (
    VIDEOS,
    inputs_of,
    output_names,
    outputs_for,
    refuse_repeated,
    skipped_in,
)
from realtime_lrp.video.reader import Span
from realtime_lrp.video.writer import CONTAINERS

MOST_MANIFEST = 1 << 20  # bytes of the largest manifest that is read

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class VideoOptions:
    """The command line's options besides the configuration; times are in seconds."""

    inputs: Sequence[str]
    output: str
    start: float | None = None
    end: float | None = None
    overwrite: bool = False
    resume: bool = False
    sidecar: bool = False
    summary: bool = False
    maps: Path | None = None  # gets a folder of raw maps for each film
    stats: Path | None = None
    workers: int | None = None
    ray: str | None = None  # the address of a cluster; without it and workers this process does all

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
    """A film of a recording, .mp4, .mov or .mkv, with what is made beside it."""

    source: Path
    target: Path
    replace: bool = False
    companions: Mapping[str, Path] = field(default_factory=dict)
    replace_companions: bool = False  # also where the film may not: a killed run has left them
    span: Span | None = None

    @functools.cached_property
    def fingerprint(self) -> str:
        """Hash of all that shapes a film with a manifest; "" for others."""
        return ""


class Task(Film):
    """A film that is to be made, unless it is `done` or `refused`."""

    def __init__(
        self, config: Config, options: VideoOptions, source: Path, target: Path,
        root: Path | None = None, recording: StoredFile | None = None,
    ):  # fmt: skip
        companions = companions_of(target, options.sidecar, options.summary, options.maps)
        over = options.overwrite
        super().__init__(source, target, over, companions, over, options.span)
        self.done = False
        self.refused: Error | None = None
        self._before: resume.Manifest | None = None
        self._config = config
        self._options = options
        self.root = root  # the folder in an object store that the film goes into
        self.recording = recording  # the source in an object store; `source` only has its name
        self.stored = bool(root or recording)

    @property
    def outputs(self) -> dict[str, Path]:
        """All that is made: what it is -> where it goes."""
        return {"film": self.target, **self.companions}

    @property
    def shown(self) -> str:
        """Where the film will be."""
        return address_of(self.target) if self.root else str(self.target)

    def refusal(self, folder: "StoredFolder | None") -> Error | None:
        """Looks at what is there already; gives the reason why nothing at all should be begun.

        A name that the system refuses, for example as too long, is none: the others are made.
        """
        try:
            if self._options.resume:
                self._compare(folder)
            if self.done:
                return None
            if folder:
                folder.check(self)
            else:
                files.check_output(self.target, self.replace)
                check_companions(self.companions, self.replace_companions)
                files.refuse_link(resume.manifest_path(self.target))
        except Error as error:
            self.refused = error
            return error
        except OSError as error:
            self.refused = files.write_error(self.target, error)
        return None

    def _compare(self, folder: "StoredFolder | None") -> None:
        """Decides whether a film that is there is finished, is made again, or is refused."""
        manifest = folder.manifest(self.target) if folder else resume.read_manifest(self.target)
        states = self._states(folder.state if folder else resume.state_of)
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
        if manifest and manifest != self._before and manifest.owns(self._states(resume.state_of)):
            self.replace = self.replace_companions = True

    def remove_parts(self) -> bool:
        """Removes what lost workers have left unfinished; gives whether nothing else is left."""
        return all([files.remove_parts(output) for output in self.outputs.values()])

    def _states(self, state_of: Callable[[Path], str]) -> dict[str, str]:
        return {kind: state_of(path) for kind, path in self.outputs.items()}

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
    """The outcome of a recording: a report or an error."""

    report: Report | None = None
    error: Exception | Failed | None = None  # workers send `Failed`: not every exception can be
    for_all: bool = False  # whether the error is that the network cannot be loaded
    computed: str = ""  # such as "float32 on CPU"
    stats: Stats | None = None
    provenance: Provenance | None = None
    log: list[str] = field(default_factory=list)


def address_of(path: Path) -> str:
    """The address of a path below the root of a store, which is an address without a slash."""
    return path.as_posix().replace(":/", "://", 1)


class StoredFolder:
    """The folder of the films, for example s3://bucket/films, at the start of the job."""

    def __init__(self, address: str):
        self.root = Path(address)  # outputs are below it, where no file system has anything
        self._manifests: dict[Path, bytes] = {}
        self._sizes: dict[Path, dict[str, int]] = defaultdict(dict)
        """Path of a file -> {"": bytes}, of a folder -> bytes of each file in it."""
        for name, size in object_store.sizes_below(address_of(self.root)).items():
            path = self.root / name
            self._sizes[path][""] = size
            self._sizes[path.parent][path.name] = size

    def read_manifests(self, films: Sequence[Path]) -> None:
        found = [path for path in map(resume.manifest_path, films) if self._sizes[path].get("")]
        small = [path for path in found if self._sizes[path][""] <= MOST_MANIFEST]
        contents = object_store.read_all([address_of(path) for path in small])
        self._manifests = dict(zip(small, contents, strict=True))

    def state(self, path: Path) -> str:
        """Words that change when a file or folder changes; "" if there is none."""
        return _state(self._sizes[path])

    def manifest(self, film: Path) -> resume.Manifest | None:
        data = self._manifests.get(resume.manifest_path(film), b"")
        try:
            return msgspec.json.decode(data, type=resume.Manifest)
        except (msgspec.MsgspecError, UnicodeError):
            return None

    def check(self, task: Task) -> None:
        for kind, path in task.outputs.items():
            may = task.replace if kind == "film" else task.replace_companions
            if self.state(path) and not may:
                raise OutputError(
                    f"{address_of(path)!r} exists. Add --overwrite or choose another name."
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
        if task.recording:
            (folder / "recording").mkdir()
            name = os.fsdecode(os.fsencode(task.source.name)[-files.MOST_NAME :])
            here.source = folder / "recording" / name
            object_store.fetch(task.recording, here.source)
        if root := task.root:
            own = {kind: folder / path.relative_to(root) for kind, path in task.outputs.items()}
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
        if root:
            _upload(here, folder, root)


def _upload(task: Task, folder: Path, root: Path) -> None:
    """Uploads the manifest, what stands beside the film, and last the film."""
    manifest = resume.manifest_path(task.target)
    states = {}
    made = [manifest]
    for kind, path in reversed(list(task.outputs.items())):
        own = sorted(path.iterdir()) if path.is_dir() else [path]
        sizes = {"" if file == path else file.name: file.stat().st_size for file in own}
        states[kind] = _state(sizes)
        made += own
    resume.write_manifest(task.target, resume.Manifest(task.fingerprint, states))
    for file in made:
        object_store.upload(file, address_of(root / file.relative_to(folder)))


def tasks_of(config: Config, options: VideoOptions) -> tuple[list[Task], list[Error]]:
    """The recordings of a job, with where their films go; and why it should not be begun."""
    folder = None
    if is_stored(options.output):
        if options.output.lower().endswith(tuple(CONTAINERS)):
            raise UsageError(
                f"{options.output!r} is the name of a film. Expected a folder, such as "
                "s3://films/2024."
            )
        maps = options.maps
        if maps and (maps.is_absolute() or ".." in maps.parts or ":" in maps.parts[0]):
            raise UsageError(
                f"--maps {str(maps)!r} is not below the output. Expected a folder there, for "
                "example --maps maps."
            )
        folder = StoredFolder(options.output)
        options = replace(options, maps=options.maps and folder.root / options.maps)
    sources: list[tuple[Path, StoredFile | None]] = []
    for word in options.inputs:
        if is_stored(word):
            found = object_store.find(word, VIDEOS, "video")
            sources += [(Path(one.address.partition("://")[2]), one) for one in found]
        else:
            sources += [(path, None) for path in inputs_of([word], VIDEOS, "video")]
    if skipped := skipped_in(options.inputs, VIDEOS):
        log.warning("%s", skipped)
    paths = [path for path, _ in sources]
    if folder:
        targets = [folder.root / name for name in output_names(paths, ".mp4")]
        refuse_repeated(paths)
        if options.resume:
            folder.read_manifests(targets)
    else:
        may_exist = options.overwrite or options.resume
        targets = outputs_for(paths, options.output, ".mp4", tuple(CONTAINERS), may_exist)
    root = folder.root if folder else None
    tasks = [
        Task(config, options, path, target, root, recording)
        for (path, recording), target in zip(sources, targets, strict=True)
    ]
    return tasks, [error for task in tasks if (error := task.refusal(folder))]
