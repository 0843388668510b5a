"""Finds the recordings of a job, and where their films go: also in object stores.

A worker fetches a recording into a temporary folder, makes the film there, and uploads it. Beside
each film lies its manifest, `.NAME.mp4.resume.json`, whose states are the sizes of the files. It is
uploaded first, the film last. So a film is finished where it and all beside it are as large as the
manifest says.
"""

import copy
import logging
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from realtime_lrp.commands.video.task import Disk, Task, VideoOptions
from realtime_lrp.config import Config
from realtime_lrp.errors import Error, OutputError, UsageError
from realtime_lrp.results.resume import Manifest, manifest_path
from realtime_lrp.system.files import MOST_NAME, remove_abandoned, temporary_folder
from realtime_lrp.system.object_store import ObjectStore, StoredFile, is_stored, scheme_of
from realtime_lrp.video.files import VIDEOS, inputs_of, outputs_for, refuse_collisions, skipped_in
from realtime_lrp.video.writer import CONTAINERS

MOST_MANIFEST = 1 << 20  # bytes of the largest manifest that is read

log = logging.getLogger(__name__)


class StoredFolder(Disk):
    """The folder of the films, for example s3://bucket/films, as it is when the job begins.

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
        names = [manifest_path(Path(film)).name for film in films]
        names = [one for one in names if 0 < self._sizes[one].get("", 0) <= MOST_MANIFEST]
        contents = ObjectStore(self.address).read_all([f"{self.address}/{one}" for one in names])
        self._manifests = dict(zip(names, contents, strict=True))

    def name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def shown(self, path: Path) -> str:
        return f"{self.address}/{self.name(path)}"

    def state(self, path: Path) -> str:
        return _state(self._sizes[self.name(path)])

    def manifest(self, film: Path) -> Manifest | None:
        data = self._manifests.get(manifest_path(film).name, b"")
        try:
            return msgspec.json.decode(data, type=Manifest)
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
    """What shows that a file, or the files of a folder, are those that were made: their bytes."""
    return " ".join(f"{name} {size}".strip() for name, size in sorted(sizes.items()))


@contextmanager
def at_hand(task: Task) -> Iterator[Task]:
    """Lends the same task with files of this machine only."""
    if not task.stored:
        yield task
        return
    remove_abandoned()
    with temporary_folder() as folder:
        here, films = copy.copy(task), folder / "films"
        if task.recording:
            (folder / "recording").mkdir()
            here.source = folder / "recording" / _local_name(task.source)
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
    store, states, files = ObjectStore(address), {}, []
    for kind, path in reversed(list(task.outputs.items())):
        own = sorted(path.iterdir()) if path.is_dir() else [path]
        sizes = {"" if file == path else file.name: file.stat().st_size for file in own}
        states[kind] = _state(sizes)
        files += own
    manifest = msgspec.json.encode(Manifest(task.fingerprint, states))
    store.write(manifest, f"{address}/{manifest_path(task.target).name}")
    for file in files:
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
            sources += [(_as_path(one), one) for one in found]
        else:
            sources += [(path, None) for path in inputs_of([word], VIDEOS, "video")]
    if skipped := skipped_in(options.inputs, VIDEOS):
        log.warning("%s", skipped)
    paths = [path for path, _ in sources]
    if folder:
        names = [f"{path.stem}.mp4" for path in paths]
        refuse_collisions(paths, list(map(Path, names)))
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


def _as_path(source: StoredFile) -> Path:
    """A path whose name is the recording's."""
    return Path(source.address[len(scheme_of(source.address)) + 3 :])


def _local_name(source: Path) -> str:
    name = source.name
    fits = len(os.fsencode(name)) <= MOST_NAME and name not in ("", ".", "..")
    return name if fits else f"recording{source.suffix[:8]}"
