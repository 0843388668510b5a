"""Recordings and films in object stores.

A worker fetches a recording into a temporary folder, makes the film there, and uploads it. Beside
each film lies its manifest, `.NAME.mp4.resume.json`: from what the film was made, and how large
each of its files is. It is uploaded first, the film last. So a film is finished where it and all
beside it are as large as the manifest says.
"""

import copy
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import msgspec

from realtime_lrp.commands.video.task import Task, VideoOptions
from realtime_lrp.config import Config
from realtime_lrp.errors import Error, OutputError, UsageError
from realtime_lrp.results.companions import Companions
from realtime_lrp.results.resume import fingerprint, manifest_path
from realtime_lrp.system.atomic import MOST_NAME
from realtime_lrp.system.object_store import ObjectStore, StoredFile, is_stored, scheme_of
from realtime_lrp.system.temporary import remove_abandoned, temporary_folder
from realtime_lrp.video.files import VIDEOS, inputs_of, outputs_for, refuse_collisions
from realtime_lrp.video.writer import CONTAINERS

MOST_MANIFEST = 1 << 20
"""Bytes of the largest manifest that is read."""


class StoredManifest(msgspec.Struct, frozen=True):
    """What was made, and from what: path of each file from the folder, the film's too -> bytes."""

    fingerprint: str
    sizes: dict[str, int]


class StoredFolder:
    """The folder of the films, for example s3://bucket/films, as it is when the job begins."""

    def __init__(self, address: str):
        self.address = address.rstrip("/")
        self._there = ObjectStore(address).names(address)
        self._manifests: dict[str, bytes] = {}

    def at(self, path: Path) -> str:
        """The address of a path below it."""
        return f"{self.address}/{path.as_posix()}"

    def read_manifests(self, films: Iterable[Path]) -> None:
        """Reads the manifests of films."""
        names = [manifest_path(film).name for film in films]
        names = [name for name in names if 0 < self._there.get(name, 0) <= MOST_MANIFEST]
        contents = ObjectStore(self.address).read_all([self.at(Path(name)) for name in names])
        self._manifests = dict(zip(names, contents, strict=True))

    def is_finished(self, wanted: str, film: Path, *beside: Path) -> bool:
        """Whether a film and what is wanted beside it are there as this job would make them.

        A film that was made otherwise, has changed since, or is not ours is refused; `wanted` is
        the fingerprint of its source and settings.
        """
        try:
            data = self._manifests.get(manifest_path(film).name, b"")
            manifest = msgspec.json.decode(data, type=StoredManifest)
        except (msgspec.MsgspecError, UnicodeError):
            manifest = None
        if film.name not in self._there:
            if manifest is None:
                self.refuse_existing(beside)
            return False
        if manifest is None:
            what = "exists"
        elif manifest.fingerprint != wanted:
            what = "was made from another source or with other settings"
        elif self._there[film.name] != manifest.sizes.get(film.name):
            what = "has changed since it was made"
        else:
            return all(self._is_as_made(manifest, path.as_posix()) for path in (film, *beside))
        raise OutputError(f"{self.at(film)!r} {what}. Add --overwrite to make it again.")

    def _is_as_made(self, manifest: StoredManifest, wanted: str) -> bool:
        """Whether a file, or all files of a folder, are there as they were made."""
        names = [name for name in manifest.sizes if name == wanted or name.startswith(f"{wanted}/")]
        return bool(names) and all(self._there.get(one) == manifest.sizes[one] for one in names)

    def refuse_existing(self, outputs: Iterable[Path]) -> None:
        """Refuses outputs, files or folders, that are there already."""
        for path in outputs:
            name = path.as_posix()
            if any(one == name or one.startswith(f"{name}/") for one in self._there):
                raise OutputError(
                    f"{self.at(path)!r} exists. Add --overwrite or choose another name."
                )


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
        """Of the source and the settings."""
        if self._recording is None:
            return super().fingerprint
        content = {"size": self._recording.size, "version": self._recording.version}
        return fingerprint(None, self._config, self._further_settings() | content)

    def _check(self) -> None:
        folder, outputs = self._folder, self.outputs.values()
        if folder is None:
            super()._check()
        elif self._options.resume:
            try:
                self.done = folder.is_finished(self.fingerprint, *outputs)
            except OutputError:
                if not self._options.overwrite:
                    raise
        elif not self._options.overwrite:
            folder.refuse_existing(outputs)
        self._folder = None  # a listing of the whole folder, which no worker needs

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
                own = {kind: films / path for kind, path in self.companions.by_kind.items()}
                task.companions = Companions(**own)
                for path in own.values():
                    path.parent.mkdir(parents=True, exist_ok=True)
            try:
                yield task
            except Error as error:
                if self._recording:
                    shown = str(error).replace(str(task.source), self._recording.address)
                    error.args = (shown, *error.args[1:])
                raise
            if self.uploaded:
                self._upload(films, task.outputs.values())

    def _upload(self, folder: Path, outputs: Iterable[Path]) -> None:
        """Uploads the manifest, what stands beside the film, and last the film."""
        store = ObjectStore(self._address)
        film, *beside = outputs
        files = [file for path in beside for file in _files_in(path)] + [film]
        names = {file: file.relative_to(folder).as_posix() for file in files}
        sizes = {name: file.stat().st_size for file, name in names.items()}
        manifest = StoredManifest(self.fingerprint, sizes)
        name = manifest_path(self.target).name
        store.write(msgspec.json.encode(manifest), f"{self._address}/{name}")
        for file, name in names.items():
            store.upload(file, f"{self._address}/{name}")


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


def _files_in(path: Path) -> list[Path]:
    """The file itself, or all files in a folder."""
    return sorted(path.iterdir()) if path.is_dir() else [path]
