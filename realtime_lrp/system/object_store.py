"""Files in object stores, at addresses like s3://BUCKET/FOLDER/FILE, through fsspec.

Credentials come from where the store's own library looks for them (environment, its files, the
machine's role); an address that holds some is refused, so none can get into messages or manifests.
An object appears whole or not at all: a store shows an upload when it is complete.
"""

import errno
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from realtime_lrp.errors import (
    DamagedInputError,
    Error,
    FullDiskError,
    MissingInputError,
    OutputError,
    TemporaryError,
    TransferError,
    UnavailableError,
    UsageError,
    first_line,
    masked,
)
from realtime_lrp.system.atomic import MOST_NAME

PACKAGES = {"s3": "s3fs", "gs": "gcsfs"}
"""Schemes of object stores -> the package that fsspec needs for them."""

KEPT_FREE = 64 * 2**20
"""Bytes of the local disk that stay free when a file is fetched."""

CONNECT_S, READ_S, ATTEMPTS = 10, 60, 5
"""Maximum wait for a connection and for an answer, in seconds, and how often it is tried."""

AT_ONCE = 16
"""How many small objects are read at the same time."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_NETWORK = ("Endpoint", "Connect", "Connection", "Timeout", "ServerDisconnected", "SSL", "Http")
_CREDENTIALS = ("NoCredentials", "PartialCredentials", "DefaultCredentials", "TokenRetrieval")


class StoredFile(msgspec.Struct, frozen=True):
    """An object.

    Attributes:
      address: where it is.
      size: in bytes.
      version: changes when its content does: the ETag, or what the store has instead.
    """

    address: str
    size: int
    version: str

    @property
    def name(self) -> str:
        """The last part of its address."""
        return self.address.rsplit("/", 1)[-1]


def scheme_of(word: str) -> str:
    """The scheme of an address, in lower case; "" for a path."""
    found = _SCHEME.match(word)
    return found[1].lower() if found else ""


def is_stored(word: str) -> bool:
    """Whether a word is an address of an object store, and not a path or a file:// address.

    Raises:
      UsageError: the address has an unknown scheme, or holds credentials.
    """
    scheme = scheme_of(word)
    if scheme in ("", "file"):
        return False
    if scheme not in PACKAGES:
        raise UsageError(f"{masked(word)!r} is no address of s3://, gs:// or file://.")
    bucket = word[len(scheme) + 3 :].split("/", 1)[0]
    if "@" in bucket or not bucket:
        wrong = "holds a user or password" if bucket else "names no bucket"
        raise UsageError(
            f"{masked(word)!r} {wrong}. Expected {scheme}://BUCKET/PATH; credentials come from the "
            "environment."
        )
    return True


def local_path(word: str) -> str:
    """The path of a file:// address; any other word as it is."""
    if scheme_of(word) != "file":
        return word
    path = word[len("file://") :]
    if not path.startswith("/"):
        raise UsageError(f"{word!r} has no absolute path. Expected file:///FOLDER/FILE.")
    return path


def join(address: str, path: str) -> str:
    """The address of a path below another address."""
    return f"{address.rstrip('/')}/{path}"


class ObjectStore:
    """An object store, as one process sees it.

    Args:
      scheme: "s3" or "gs".

    Raises:
      UnavailableError: the package for it is not installed.
    """

    def __init__(self, scheme: str):
        self._files = _file_system(scheme)

    @classmethod
    def of(cls, address: str) -> "ObjectStore":
        """The store that an address is in."""
        return cls(scheme_of(address))

    def find(self, word: str, suffixes: Sequence[str], kind: str) -> list[StoredFile]:
        """The objects that an address names: one, a folder's with a known ending, or a glob's.

        Args:
          word: the address; * ? [] stand for any characters, as in a shell.
          suffixes: the known endings, lower case, with the dot.
          kind: what the files are, for messages, for example "video".

        Raises:
          MissingInputError: there is none, no such bucket, or no permission.
          TemporaryError: the store cannot be reached.
        """
        with _errors(word, reading=True):
            one = self._info(word.rstrip("/"))
            if one and not word.endswith("/"):
                return [_stored(word, one)]
            if any(sign in word for sign in "*?["):
                found = self._files.glob(word, detail=True).values()
            else:
                entries = self._files.ls(word.rstrip("/"), detail=True, refresh=True)
                found = [
                    one for one in entries
                    if os.path.splitext(one["name"])[1].lower() in suffixes
                    and not one["name"].rsplit("/", 1)[-1].startswith(".")
                ]  # fmt: skip
            files = [
                _stored(f"{scheme_of(word)}://{one['name']}", one)
                for one in found
                if one["type"] == "file"
            ]
        if not files:
            raise MissingInputError(
                f"There is no {kind} {word!r}: no such object, folder or match."
            )
        return sorted(files, key=lambda file: file.address)

    def info(self, address: str) -> StoredFile | None:
        """What is known of an object, None if there is none.

        Raises:
          MissingInputError: there is no such bucket, or no permission.
          TemporaryError: the store cannot be reached.
        """
        with _errors(address, reading=True):
            found = self._info(address)
            return _stored(address, found) if found else None

    def check_folder(self, address: str) -> None:
        """Refuses a folder for outputs in a bucket that cannot be listed.

        Raises:
          OutputError: there is no such bucket, or no permission.
          TemporaryError: the store cannot be reached.
        """
        bucket = address[: len(scheme_of(address)) + 3] + _path(address).split("/", 1)[0]
        with _errors(address, reading=False):
            self._files.ls(bucket, detail=False, refresh=True)

    def names(self, address: str) -> dict[str, StoredFile]:
        """All objects below a folder: path from there -> what is known of it; none if it is gone.

        Raises:
          MissingInputError: there is no such bucket, or no permission.
          TemporaryError: the store cannot be reached.
        """
        folder = _path(address).rstrip("/")
        with _errors(address, reading=True):
            found = self._files.find(folder, detail=True, refresh=True)
            return {
                name.removeprefix(f"{folder}/"): _stored(f"{scheme_of(address)}://{name}", one)
                for name, one in found.items()
            }

    def fetch(self, file: StoredFile, folder: Path) -> Path:
        """Copies an object into a local folder, where it appears complete or not at all.

        Args:
          file: the object, as it was when it was found.
          folder: must exist.

        Returns:
          The local file; it has the object's name.

        Raises:
          MissingInputError: it is gone, or there is no permission.
          DamagedInputError: it has changed since it was found, or no file can have its name.
          TransferError: the disk has too little room, or the connection broke.
        """
        if file.name in ("", ".", "..") or len(os.fsencode(file.name)) > MOST_NAME:
            raise DamagedInputError(f"{file.address!r} cannot be the name of a local file.")
        target = folder / file.name
        free = shutil.disk_usage(folder).free
        if free < file.size + KEPT_FREE:
            raise FullDiskError(
                f"{file.address!r} needs {file.size + KEPT_FREE >> 20} MiB in {str(folder)!r}, "
                f"{free >> 20} MiB are free. Make room, or set TMPDIR to another folder."
            )
        part = folder / f".{os.getpid()}.part"  # the name may be as long as names can be
        try:
            with _errors(file.address, reading=True, midway=True):
                self._files.get_file(_path(file.address), str(part))
                now = self._info(file.address)
            if part.stat().st_size != file.size or not now or _version(now) != file.version:
                raise DamagedInputError(f"{file.address!r} has changed while it was read.")
            os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)
        return target

    def read(self, address: str, most: int) -> bytes | None:
        """The content of a small object; None if there is none, or it has more than `most` bytes.

        Raises:
          MissingInputError: there is no such bucket, or no permission.
          TemporaryError: the store cannot be reached.
        """
        found = self.info(address)
        if found is None or found.size > most:
            return None
        with _errors(address, reading=True):
            return self._files.cat_file(_path(address))

    def read_all(self, addresses: Sequence[str]) -> list[bytes]:
        """The contents of small objects, many at a time.

        Raises:
          MissingInputError: one is gone, or there is no permission.
          TemporaryError: the store cannot be reached.
        """
        if not addresses:
            return []
        with (
            _errors(addresses[0], reading=True),
            ThreadPoolExecutor(min(AT_ONCE, len(addresses))) as threads,
        ):
            return list(threads.map(self._files.cat_file, map(_path, addresses)))

    def upload(self, file: Path, address: str, overwrite: bool = False) -> StoredFile:
        """Copies a local file to an object, which appears complete or not at all.

        Returns:
          The object.

        Raises:
          OutputError: it exists, there is no such bucket, or no permission.
          TransferError: the connection broke; nothing is left.
        """
        mode = "overwrite" if overwrite else "create"
        with _errors(address, reading=False, midway=True):
            if not overwrite and self._info(address):  # not every store knows the mode "create"
                raise FileExistsError
            self._files.put_file(str(file), _path(address), mode=mode)
            found = self._info(address)
        if not found or found["size"] != file.stat().st_size:
            raise TransferError(f"{address!r} is not what was uploaded. Start again.")
        return _stored(address, found)

    def _info(self, address: str) -> dict[str, Any] | None:
        """What fsspec knows of an object; None for a folder, and if there is none."""
        try:
            found = self._files.info(_path(address), refresh=True)
        except FileNotFoundError:
            return None
        return found if found["type"] == "file" else None


def _path(address: str) -> str:
    return address[len(scheme_of(address)) + 3 :]


def _stored(address: str, info: dict[str, Any]) -> StoredFile:
    return StoredFile(address, int(info["size"]), _version(info))


def _version(info: dict[str, Any]) -> str:
    for key in ("ETag", "etag", "md5Hash", "generation", "LastModified", "mtime"):
        if info.get(key):
            return str(info[key]).strip('"')
    return ""


def _file_system(scheme: str) -> Any:
    try:
        import fsspec

        options: dict[str, Any] = {"use_listings_cache": False}
        if scheme == "s3":
            options["config_kwargs"] = {
                "connect_timeout": CONNECT_S, "read_timeout": READ_S,
                "retries": {"max_attempts": ATTEMPTS, "mode": "standard"},
            }  # fmt: skip
        return fsspec.filesystem(scheme, **options)
    except ImportError:
        package = PACKAGES[scheme]
        what = "'realtime-lrp[cluster]'" if package == "s3fs" else package
        raise UnavailableError(
            f"{scheme}:// needs the package {package}. Install it: pip install {what}"
        ) from None


@contextmanager
def _errors(address: str, *, reading: bool, midway: bool = False) -> Iterator[None]:
    """Makes errors of this program of what fsspec and the store's library raise.

    Args:
      address: what is read or written, for messages.
      reading: an input, else an output.
      midway: files are copied, so the next try begins again at this file.
    """
    try:
        yield
    except Error:
        raise
    except Exception as error:
        raise _translated(address, error, reading, midway) from error


def _translated(address: str, error: Exception, reading: bool, midway: bool) -> Error:
    refused = MissingInputError if reading else OutputError
    kind, shown = type(error).__name__, repr(masked(address))
    why = masked(first_line(error))
    if isinstance(error, FileExistsError) or "PreconditionFailed" in why:
        return OutputError(f"{shown} exists. Add --overwrite or choose another name.")
    if isinstance(error, FileNotFoundError):
        return refused(f"There is no {shown}: no such bucket or object.")
    if kind.startswith(_CREDENTIALS):
        return refused(
            f"There are no credentials for {shown}. Set those of the store, such as "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        )
    if isinstance(error, PermissionError):
        return refused(f"No permission for {shown} ({why}).")
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    network = any(word in kind for word in _NETWORK) or isinstance(error, TimeoutError | OSError)
    if network and not full and not midway:
        return TemporaryError(f"{shown} cannot be reached ({why}). Try again later.")
    if network:
        verb = "Reading" if reading else "Writing"
        return TransferError(f"{verb} {shown} failed ({why}). Start again.")
    return refused(f"{shown} cannot be {'read' if reading else 'written'} ({kind}: {why}).")
