"""Recordings and films of a job in an object store.

    s3://.../a.mov  --LocalCopies-->  a worker's temporary folder
    s3://OUT        <--StoredFolder--  a folder of this machine, in which the job makes the films

A worker fetches a recording when it begins with it. The job makes films as ever, in a folder of
the user's cache; what is finished is uploaded and removed there, and parts wait there for the rest
of their film. So a disk needs room for the films that are under way, not for the archive.
"""

import hashlib
import json
import os
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
from platformdirs import user_cache_path

from realtime_lrp.errors import MissingInputError, OutputError
from realtime_lrp.results.archive_page import PAGE
from realtime_lrp.results.frame_table import partition_of
from realtime_lrp.results.overview import FOLDER, files_of
from realtime_lrp.results.resume import manifest_path
from realtime_lrp.system.object_store import ObjectStore, StoredFile, is_stored, join

MOST_COPIES = 3
"""How many fetched recordings a worker keeps."""

MOST_MANIFEST = 1 << 20
"""Bytes of the largest manifest or entry that is read."""

AT_ONCE = 8
"""How many files are uploaded at the same time."""


class LocalCopies:
    """Fetches recordings to this machine; keeps the last few, as parts of one come together.

    Args:
      folder: where they go; must exist.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self._stores: dict[str, ObjectStore] = {}
        self._copies: dict[tuple[str, str], Path] = {}
        self._addresses: dict[str, str] = {}
        self._lock = threading.Lock()

    def path(self, source: str, version: str = "") -> Path:
        """The local file of a recording: itself if it is no address of an object store.

        Args:
          source: a path or an address.
          version: of the object when the job began; "" if any will do.

        Raises:
          MissingInputError: it is gone, or there is no permission.
          DamagedInputError: it has changed since the job began.
          TransferError: the disk has too little room, or the connection broke.
          TemporaryError: the store cannot be reached.
        """
        if not is_stored(source):
            return Path(source)
        with self._lock:
            return self._copy(source, version)

    def with_addresses(self, text: str) -> str:
        """A message with the addresses of recordings in place of their copies."""
        for path, address in self._addresses.items():
            text = text.replace(path, address)
        return text

    def _copy(self, source: str, version: str) -> Path:
        copy = self._copies.pop((source, version), None)
        if copy is None or not copy.exists():
            while len(self._copies) >= MOST_COPIES:  # a decoder that has one open goes on
                self._copies.pop(next(iter(self._copies))).unlink(missing_ok=True)
            copy = self._fetch(source, version)
        self._copies[source, version] = copy
        return copy

    def _fetch(self, source: str, version: str) -> Path:
        scheme = source.split(":")[0]
        store = self._stores.setdefault(scheme, ObjectStore(scheme))
        found = store.info(source)
        if found is None:
            raise MissingInputError(f"There is no {source!r} any more.")
        folder = self._folder / hashlib.sha256(source.encode()).hexdigest()[:16]
        folder.mkdir(exist_ok=True)
        self._addresses[str(folder / found.name)] = source
        return store.fetch(StoredFile(source, found.size, version or found.version), folder)


class StoredManifest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was uploaded, and from what: beside each film, `.NAME.mp4.resume.json`.

    Attributes:
      fingerprint: of source and settings, see `results.resume.fingerprint`.
      sizes: path of each output from the folder, the film's too -> bytes.
      versions: the same -> version of the object; empty until the film is there.
      replaces: the version of an older film that is overwritten; "" if there is none.
    """

    fingerprint: str
    sizes: dict[str, int]
    versions: dict[str, str] = {}
    replaces: str = ""


class StoredFolder:
    """The folder of the films in an object store.

    Args:
      address: for example s3://bucket/films.

    Attributes:
      local: the folder in which the job makes the films; the same for each job with this address.

    Raises:
      OutputError: there is no such bucket, or no permission.
      TemporaryError: the store cannot be reached.
    """

    def __init__(self, address: str):
        self.address = address.rstrip("/")
        self._store = ObjectStore.of(address)
        self._store.check_folder(address)
        self._there = self._store.names(address)
        self._manifests: dict[str, bytes] = {}
        name = hashlib.sha256(self.address.encode()).hexdigest()[:16]
        self.local = user_cache_path("realtime-lrp") / "archives" / name
        try:
            self.local.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{str(self.local)!r} cannot be made ({error.strerror}).") from None

    def is_finished(self, film: str, fingerprint: str, wanted: Iterable[str]) -> bool:
        """Whether a film and what is wanted beside it are there as this job would make them.

        Args:
          film: its name.
          fingerprint: of its source and settings.
          wanted: paths of files and folders beside it, from this folder.

        Raises:
          OutputError: a film is there that was made otherwise, has changed since, or is not ours.
        """
        if film not in self._there:
            return False
        manifest = self._manifest(film)
        if manifest is None:
            what = "exists"
        elif not manifest.versions and manifest.replaces == self._there[film].version:
            return False  # a run that was to replace it was killed
        elif manifest.fingerprint != fingerprint:
            what = "was made from another source or with other settings"
        elif self._changed(manifest, film):
            what = "has changed since it was made"
        else:
            return all(self._is_as_made(manifest, name) for name in wanted)
        raise OutputError(f"{join(self.address, film)!r} {what}. Add --overwrite to make it again.")

    def read_manifests(self, films: Iterable[str]) -> None:
        """Reads the manifests of films, many at a time; `is_finished` would one by one.

        Raises:
          MissingInputError: there is no permission.
          TemporaryError: the store cannot be reached.
        """
        names = [name for film in films if (name := _manifest_of(film)) in self._there]
        names = [name for name in names if self._there[name].size <= MOST_MANIFEST]
        contents = self._store.read_all([join(self.address, name) for name in names])
        self._manifests |= dict(zip(names, contents, strict=True))

    def _manifest(self, film: str) -> StoredManifest | None:
        name = _manifest_of(film)
        if name not in self._manifests:
            self.read_manifests([film])
        try:
            return msgspec.json.decode(self._manifests.get(name, b""), type=StoredManifest)
        except (msgspec.MsgspecError, UnicodeError):
            return None

    def _is_as_made(self, manifest: StoredManifest, wanted: str) -> bool:
        """Whether a file, or all files of a folder, are there as they were made."""
        names = [name for name in manifest.sizes if name == wanted or name.startswith(f"{wanted}/")]
        return bool(names) and not any(self._changed(manifest, name) for name in names)

    def _changed(self, manifest: StoredManifest, name: str) -> bool:
        found = self._there.get(name)
        if found is None or found.size != manifest.sizes.get(name):
            return True
        return found.version != manifest.versions.get(name, found.version)

    def refuse_existing(self, names: Iterable[str]) -> None:
        """Refuses outputs that are there already.

        Raises:
          OutputError: one is there.
        """
        for name in names:
            if name in self._there or any(one.startswith(f"{name}/") for one in self._there):
                raise OutputError(
                    f"{join(self.address, name)!r} exists. Add --overwrite or choose another name."
                )

    def fetch_entries(self, films: Iterable[str]) -> None:
        """Fetches what the page says of films that are finished."""
        wanted = [name for film in films if (name := files_of(film)[1]) in self._there]
        (self.local / FOLDER).mkdir(exist_ok=True)
        addresses = [join(self.address, name) for name in wanted]
        for name, data in zip(wanted, self._store.read_all(addresses), strict=True):
            (self.local / name).write_bytes(data)

    def publish(self, film: str, fingerprint: str, outputs: Mapping[str, Path]) -> None:
        """Uploads a finished film with all beside it, the film last, and removes the local files.

        Args:
          film: its name.
          fingerprint: of its source and settings.
          outputs: what each is -> the local file or folder, below `local`; "film" among them.

        Raises:
          OutputError: there is no permission.
          TransferError: the connection broke; the next try replaces what was uploaded by then.
        """
        beside = [path for kind, path in outputs.items() if kind != "film"]
        beside += [self.local / partition_of(film), *(self.local / one for one in files_of(film))]
        files = [file for path in beside for file in _files_in(path)] + [outputs["film"]]
        names = {file: file.relative_to(self.local).as_posix() for file in files}
        old = self._there.get(film)
        manifest = StoredManifest(
            fingerprint, {names[file]: file.stat().st_size for file in files},
            replaces=old.version if old else "",
        )  # fmt: skip
        self._write_manifest(film, manifest)
        with ThreadPoolExecutor(AT_ONCE) as threads:
            list(threads.map(lambda file: self._upload(file, names[file]), files[:-1]))
        self._upload(files[-1], film)
        versions = {name: self._there[name].version for name in names.values()}
        self._write_manifest(film, msgspec.structs.replace(manifest, versions=versions))
        keep = {self.local / files_of(film)[1]}  # for the page
        for file in files:
            if file not in keep:
                file.unlink(missing_ok=True)

    def publish_pages(self) -> None:
        """Uploads the page of the job and the further ones, the first one last."""
        for page in sorted((self.local / FOLDER).glob("page-*.html")):
            self._upload(page, f"{FOLDER}/{page.name}")
        if (self.local / PAGE).exists():
            self._upload(self.local / PAGE, PAGE)

    def _upload(self, file: Path, name: str) -> None:
        address = join(self.address, name)
        self._there[name] = self._store.upload(file, address, overwrite=True)

    def _write_manifest(self, film: str, manifest: StoredManifest) -> None:
        local = self.local / f"{_manifest_of(film)}.upload"
        try:
            local.write_text(json.dumps(msgspec.to_builtins(manifest)))
            self._store.upload(local, join(self.address, _manifest_of(film)), overwrite=True)
        finally:
            local.unlink(missing_ok=True)


def _manifest_of(film: str) -> str:
    return manifest_path(Path(film)).name


def _files_in(path: Path) -> list[Path]:
    """The file itself, or all files in a folder."""
    if not path.is_dir():
        return [path] if path.exists() else []
    return [Path(folder) / name for folder, _, names in os.walk(path) for name in sorted(names)]
