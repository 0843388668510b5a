"""Jobs whose recordings or films are in an object store: their recordings, films and pages."""

import logging
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from realtime_lrp.commands.video.archive.listing import Listing
from realtime_lrp.commands.video.archive.remote import LocalCopies, StoredFolder
from realtime_lrp.commands.video.task import Task, VideoOptions
from realtime_lrp.config import Config
from realtime_lrp.errors import Error, UsageError
from realtime_lrp.results.frame_table import partition_of
from realtime_lrp.results.resume import fingerprint, manifest_path, read_manifest
from realtime_lrp.system.atomic import refuse_busy
from realtime_lrp.system.object_store import (
    ObjectStore,
    StoredFile,
    is_stored,
    join,
    scheme_of,
)
from realtime_lrp.video.files import VIDEOS, inputs_of, outputs_for
from realtime_lrp.video.writer import CONTAINERS

log = logging.getLogger(__name__)


class StoredTask(Task):
    """A recording in an object store, or one whose film goes into one.

    Args:
      config, options: as of `Task`.
      source: the recording.
      target: where the film is made on this machine.
      folder: where it goes, None if it stays.
    """

    def __init__(
        self,
        config: Config,
        options: VideoOptions,
        source: StoredFile | Path,
        target: Path,
        folder: StoredFolder | None,
    ):
        super().__init__(config, options, _as_path(source), target)
        self._stored = source if isinstance(source, StoredFile) else None
        self._folder = folder

    @property
    def address(self) -> str:
        return self._stored.address if self._stored else super().address

    @property
    def version(self) -> str:
        return self._stored.version if self._stored else ""

    @property
    def size(self) -> int:
        return self._stored.size if self._stored else super().size

    @property
    def film(self) -> str:
        return join(self._folder.address, self.target.name) if self._folder else super().film

    def local_source(self, folder: Path) -> Path:
        return LocalCopies(folder).path(self.address, self.version)

    @cached_property
    def fingerprint(self) -> str:
        """Of the source and the settings."""
        if self._stored is None:
            return super().fingerprint
        content = {"size": self.size, "version": self.version}
        return fingerprint(None, self._config, self._further_settings() | content)

    def _check(self) -> None:
        folder = self._folder
        if folder is None:
            super()._check()
            return
        name = self.target.name
        beside = [path.relative_to(folder.local).as_posix() for path in self.companions.paths]
        if self._options.resume:
            if folder.is_finished(name, self.fingerprint, [*beside, partition_of(name)]):
                self.done = True
                return
        elif not self._options.overwrite:
            folder.refuse_existing([name, *beside])
        manifest = read_manifest(self.target)
        mine = manifest and manifest.fingerprint == self.fingerprint
        if mine and manifest and not manifest.changed(self.outputs):
            self.published()  # made by an earlier run that could not upload it
            self.done = True
        else:
            self.replace = self.replace_companions = True  # the local folder is the program's own
            self.target.unlink(missing_ok=True)
            refuse_busy(self.target)

    def published(self) -> None:
        """Uploads the film and all beside it, and removes it here."""
        if self._folder:
            self._folder.publish(self.target.name, self.fingerprint, self.outputs)
            manifest_path(self.target).unlink(missing_ok=True)


def _as_path(source: StoredFile | Path) -> Path:
    """A path whose name is the recording's."""
    if isinstance(source, StoredFile):
        return Path(source.address[len(scheme_of(source.address)) + 3 :])
    return source


class StoredListing(Listing):
    """A listing whose page is uploaded at the end.

    Args:
      folder: where it goes.
      total: how many films there will be.
      done: the names of those that are there.
    """

    def __init__(self, folder: StoredFolder, total: int, done: Iterable[str]):
        super().__init__(folder.local, total, replace=True)
        folder.fetch_entries(done)
        self._stored = folder

    def end(self, stopped: bool) -> None:
        super().end(stopped)
        try:
            self._stored.publish_pages()
        except Error as error:  # what ended the job is said after it
            log.warning("the page is not uploaded: %s", error)


def open_output(options: VideoOptions) -> tuple[VideoOptions, StoredFolder | None]:
    """The options with paths of this machine as outputs, and the folder where they go from there.

    Raises:
      UsageError: --maps names no folder below the output.
      UnavailableError: the package for the store is not installed.
      OutputError: there is no such bucket, or no permission.
      TemporaryError: the store cannot be reached.
    """
    if not is_stored(options.output):
        return options, None
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
    folder = StoredFolder(options.output)
    maps = folder.local / maps if maps else None
    if maps:
        maps.parent.mkdir(parents=True, exist_ok=True)
    return replace(options, output=str(folder.local), maps=maps), folder


def stored_tasks(
    config: Config, options: VideoOptions, folder: StoredFolder | None
) -> list[StoredTask]:
    """The recordings of a job.

    Args:
      config: how films are made.
      options: with outputs on this machine, see `open_output`.
      folder: where they go from there, None if they stay.

    Raises:
      UnavailableError: the package for the store is not installed.
      MissingInputError: there is no such recording, no such bucket, or no permission.
      OutputError: an output cannot be made.
      TemporaryError: the store cannot be reached.
    """
    sources: list[StoredFile | Path] = []
    for word in options.inputs:
        if is_stored(word):
            sources += ObjectStore.of(word).find(word, VIDEOS, "video")
        else:
            sources += inputs_of([word], VIDEOS, "video")
    may_exist = folder is not None or options.overwrite or options.resume
    paths = [_as_path(source) for source in sources]
    targets = outputs_for(paths, options.output, ".mp4", tuple(CONTAINERS), may_exist)
    if folder and options.resume:
        folder.read_manifests(target.name for target in targets)
    pairs = zip(sources, targets, strict=True)
    return [StoredTask(config, options, *pair, folder) for pair in pairs]
