"""Recordings and films in object stores.

A worker fetches a recording into a temporary folder, makes the film there, and uploads it. Beside
each film lies its manifest, `.NAME.mp4.resume.json`, whose states are the sizes of the files. It is
uploaded first, the film last. So a film is finished where it and all beside it are as large as the
manifest says.
"""

import copy
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import msgspec

from realtime_lrp.commands.video.task import Task, VideoOptions
from realtime_lrp.config import Config
from realtime_lrp.errors import Error, OutputError, UsageError
from realtime_lrp.results.resume import Manifest, fingerprint, manifest_path
from realtime_lrp.system.atomic import MOST_NAME
from realtime_lrp.system.object_store import ObjectStore, StoredFile, is_stored, scheme_of
from realtime_lrp.system.temporary import remove_abandoned, temporary_folder
from realtime_lrp.video.files import VIDEOS, inputs_of, outputs_for, refuse_collisions
from realtime_lrp.video.writer import CONTAINERS

MOST_MANIFEST = 1 << 20
"""Bytes of the largest manifest that is read."""


class StoredFolder:
    """The folder of the films, for example s3://bucket/films, as it is when the job begins."""

    def __init__(self, address: str):
        self.address = address.rstrip("/")
        self._there: dict[str, dict[str, int]] = {}
        """Path of a file -> {"": bytes}, of a folder -> bytes of each file in it."""
        for name, size in ObjectStore(address).names(address).items():
            self._there.setdefault(name, {})[""] = size
            folder, _, file = name.rpartition("/")
            self._there.setdefault(folder, {})[file] = size
        self.manifests: dict[str, bytes] = {}

    def at(self, path: Path) -> str:
        return f"{self.address}/{path.as_posix()}"

    def read_manifests(self, films: Iterable[Path]) -> None:
        names = [manifest_path(film).name for film in films]
        names = [one for one in names if 0 < self._there.get(one, {}).get("", 0) <= MOST_MANIFEST]
        contents = ObjectStore(self.address).read_all([self.at(Path(name)) for name in names])
        self.manifests = dict(zip(names, contents, strict=True))

    def state(self, path: Path) -> str:
        """The state of a file or folder, see `_state`; "" if there is none."""
        return _state(self._there.get(path.as_posix(), {}))


def _state(sizes: Mapping[str, int]) -> str:
    """What shows that a file, or the files of a folder, are those that were made: their bytes."""
    return " ".join(f"{name} {size}".strip() for name, size in sorted(sizes.items()))


class StoredTask(Task):
    """A recording in an object store, or one whose film goes into one.

    The target has no folder if it goes into an object store; `folder` is None if it does not.
    """

    stored = True

    def __init__(
        self,
        config: Config,
        options: VideoOptions,
        source: StoredFile | Path,
        target: Path,
        folder: StoredFolder | None,
    ):
        super().__init__(config, options, _as_path(source), target)
        self._recording = source if isinstance(source, StoredFile) else None
        self._folder = folder
        self._address = folder.address if folder else ""
        self.uploaded = folder is not None
        if folder:
            self.shown = folder.at(target)

    @property
    def beside(self) -> list[str]:
        return [f"{self._address}/{one}" if self.uploaded else one for one in super().beside]

    def check_source(self) -> None:
        if not self._recording:
            super().check_source()

    @cached_property
    def fingerprint(self) -> str:
        if self._recording is None:
            return super().fingerprint
        content = {"size": self._recording.size, "version": self._recording.version}
        return fingerprint(None, self._config, self._further_settings() | content)

    def _check(self) -> None:
        super()._check()
        self._folder = None  # a listing of the whole folder, which no worker needs

    def _check_outputs(self) -> None:
        if self._folder is None:
            super()._check_outputs()
            return
        for kind, state in self._states().items():
            if state and not (self.replace if kind == "film" else self.replace_companions):
                shown = self._folder.at(self.outputs[kind])
                raise OutputError(f"{shown!r} exists. Add --overwrite or choose another name.")

    def _manifest(self) -> Manifest | None:
        if self._folder is None:
            return super()._manifest()
        data = self._folder.manifests.get(manifest_path(self.target).name, b"")
        try:
            return msgspec.json.decode(data, type=Manifest)
        except (msgspec.MsgspecError, UnicodeError):
            return None

    def _states(self) -> dict[str, str]:
        if self._folder is None:
            return super()._states()
        return {kind: self._folder.state(path) for kind, path in self.outputs.items()}

    def begin(self) -> None:
        if not self.uploaded:
            super().begin()

    def remove_parts(self) -> bool:
        return self.uploaded or super().remove_parts()

    @contextmanager
    def at_hand(self) -> Iterator[Task]:
        remove_abandoned()
        with temporary_folder() as folder:
            task = copy.copy(self)
            if self._recording:
                (folder / "recording").mkdir()
                task.source = folder / "recording" / _local_name(self.source)
                ObjectStore(self._recording.address).fetch(self._recording, task.source)
            films = folder / "films"
            if self.uploaded:
                films.mkdir()
                task.target = films / self.target
                task.companions = {k: films / path for k, path in self.companions.items()}
                for path in task.companions.values():
                    path.parent.mkdir(parents=True, exist_ok=True)
            try:
                yield task
            except Error as error:
                if self._recording:
                    shown = str(error).replace(str(task.source), self._recording.address)
                    error.args = (shown, *error.args[1:])
                raise
            if self.uploaded:
                self._upload(films, task.outputs)

    def _upload(self, folder: Path, outputs: Mapping[str, Path]) -> None:
        """Uploads the manifest, what stands beside the film, and last the film."""
        store, states, files = ObjectStore(self._address), {}, []
        for kind, path in reversed(list(outputs.items())):
            own = sorted(path.iterdir()) if path.is_dir() else [path]
            sizes = {"" if file == path else file.name: file.stat().st_size for file in own}
            states[kind] = _state(sizes)
            files += own
        name = manifest_path(self.target).name
        manifest = msgspec.json.encode(Manifest(self.fingerprint, states))
        store.write(manifest, f"{self._address}/{name}")
        for file in files:
            store.upload(file, f"{self._address}/{file.relative_to(folder).as_posix()}")


def stored_tasks(config: Config, options: VideoOptions) -> Sequence[Task]:
    """The recordings of a job."""
    folder = None
    if is_stored(options.output):
        _check_output(options)
        folder = StoredFolder(options.output)
    sources: list[StoredFile | Path] = []
    for word in options.inputs:
        if is_stored(word):
            sources += ObjectStore(word).find(word, VIDEOS, "video")
        else:
            sources += inputs_of([word], VIDEOS, "video")
    paths = [_as_path(source) for source in sources]
    if folder:
        targets = [Path(path.stem + ".mp4") for path in paths]
        refuse_collisions(paths, targets)
        if options.resume:
            folder.read_manifests(targets)
    else:
        may_exist = options.overwrite or options.resume
        targets = outputs_for(paths, options.output, ".mp4", tuple(CONTAINERS), may_exist)
    pairs = zip(sources, targets, strict=True)
    return [StoredTask(config, options, *pair, folder) for pair in pairs]


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


def _as_path(source: StoredFile | Path) -> Path:
    """A path whose name is the recording's."""
    if isinstance(source, StoredFile):
        return Path(source.address[len(scheme_of(source.address)) + 3 :])
    return source


def _local_name(source: Path) -> str:
    """The name of a recording where a file can have it, else another one."""
    name = source.name
    fits = len(os.fsencode(name)) <= MOST_NAME and name not in ("", ".", "..")
    return name if fits else f"recording{source.suffix[:8]}"
