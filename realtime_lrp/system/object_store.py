"""Files in object stores, at addresses like s3://BUCKET/FOLDER/FILE, through fsspec.

Credentials come from where the store's own library looks for them (environment, its files, the
machine's role); an address that holds some is refused, so none can get into messages or manifests.
An object appears whole or not at all: a store shows an upload when it is complete.
"""

import errno
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from realtime_lrp.errors import (
    DamagedInputError,
    Error,
    MissingInputError,
    OutputError,
    TemporaryError,
    TransferError,
    UnavailableError,
    UsageError,
    first_line,
    masked,
)
from realtime_lrp.system.files import KEPT_FREE, check_room

PACKAGES = {"s3": "s3fs", "gs": "gcsfs"}  # scheme -> what fsspec needs for it
CONNECT_S, READ_S, ATTEMPTS = 10, 60, 5  # seconds to connect, to answer, and tries

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_NETWORK = ("Endpoint", "Connect", "Connection", "Timeout", "ServerDisconnected", "SSL", "Http")
_CREDENTIALS = ("NoCredentials", "PartialCredentials", "DefaultCredentials", "TokenRetrieval")


@dataclass(frozen=True)
class StoredFile:
    """An object; its version changes when its content does: the ETag, or what there is instead."""

    address: str
    size: int
    version: str


def scheme_of(word: str) -> str:
    """The scheme of an address, in lower case; "" for a path."""
    found = _SCHEME.match(word)
    return found[1].lower() if found else ""


def is_stored(word: str) -> bool:
    """Whether a word is an address of an object store, and not a path or a file:// address."""
    scheme = scheme_of(word)
    if scheme in ("", "file"):
        return False
    if scheme not in PACKAGES:
        raise UsageError(f"{masked(word)!r} is no address of s3://, gs:// or file://.")
    bucket = _path(word).split("/", 1)[0]
    if "@" in bucket or not bucket:
        wrong = "holds a user or password" if bucket else "names no bucket"
        raise UsageError(
            f"{masked(word)!r} {wrong}. Expected {scheme}://BUCKET/PATH; credentials come from the "
            "environment."
        )
    return True


def local_path(word: str) -> str:
    """The path of a file:// address; any other word unchanged."""
    if scheme_of(word) != "file":
        return word
    if not _path(word).startswith("/"):
        raise UsageError(f"{word!r} has no absolute path. Expected file:///FOLDER/FILE.")
    return _path(word)


class ObjectStore:
    """The object store of an address, as one process sees it."""

    def __init__(self, address: str):
        self._files = _file_system(scheme_of(address))

    def find(self, word: str, suffixes: Sequence[str], kind: str) -> list[StoredFile]:
        """The objects that an address names: one, a folder's with a known ending, or a glob's."""
        with _errors(word, reading=True):
            one = self._info(word.rstrip("/"))
            if one and not word.endswith("/"):
                return [_stored(word, one)]
            if any(sign in word for sign in "*?["):
                found = list(self._files.glob(word, detail=True).values())
            else:
                found = [
                    one for one in self._files.ls(word.rstrip("/"), detail=True)
                    if os.path.splitext(one["name"])[1].lower() in suffixes
                    and not one["name"].rsplit("/", 1)[-1].startswith(".")
                ]  # fmt: skip
        scheme = scheme_of(word)
        files = [
            _stored(f"{scheme}://{one['name']}", one) for one in found if one["type"] == "file"
        ]
        if not files:
            raise MissingInputError(
                f"There is no {kind} {word!r}: no such object, folder or match."
            )
        return sorted(files, key=lambda file: file.address)

    def names(self, address: str) -> dict[str, int]:
        """All objects below a folder for outputs: path from there -> bytes; none if it is new."""
        folder = _path(address).rstrip("/")
        with _errors(address, reading=False):
            self._files.ls(folder.split("/", 1)[0], detail=False)  # `find` gives {} for no bucket
            found = self._files.find(folder, detail=True)
        return {name.removeprefix(f"{folder}/"): int(one["size"]) for name, one in found.items()}

    def fetch(self, file: StoredFile, target: Path) -> None:
        """Copies an object to a local file; refuses one that has changed since it was found."""
        check_room(target.parent, file.size + KEPT_FREE, "set TMPDIR to another folder")
        with _errors(file.address, reading=True, midway=True):
            self._files.get_file(_path(file.address), str(target))
            now = self._info(file.address)
        if target.stat().st_size != file.size or not now or _version(now) != file.version:
            raise DamagedInputError(f"{file.address!r} has changed while it was read.")

    def read_all(self, addresses: Sequence[str]) -> list[bytes]:
        if not addresses:
            return []
        paths = [_path(address) for address in addresses]
        with _errors(addresses[0], reading=True):
            found = self._files.cat(paths)
        return [found[path] for path in paths] if isinstance(found, dict) else [found]

    def write(self, content: bytes, address: str) -> None:
        with _errors(address, reading=False, midway=True):
            self._files.pipe_file(_path(address), content)

    def upload(self, file: Path, address: str) -> None:
        """Copies a local file to an object, which appears complete or not at all."""
        with _errors(address, reading=False, midway=True):
            self._files.put_file(str(file), _path(address))

    def _info(self, address: str) -> dict[str, Any] | None:
        """The file system's record of an object; None for a folder, and if there is none."""
        try:
            found = self._files.info(_path(address))
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

    An input is `reading`, an output not; `midway` a copy breaks off, which is begun again.
    """
    try:
        yield
    except Error:
        raise
    except Exception as error:
        raise _translated(address, error, reading, midway) from error


def _translated(address: str, error: Exception, reading: bool, midway: bool) -> Error:
    refused = MissingInputError if reading else OutputError
    kind = type(error).__name__
    shown = repr(masked(address))
    why = masked(first_line(error))
    if isinstance(error, FileNotFoundError):
        return refused(f"There is no {shown}: no such bucket or object.")
    if kind.startswith(_CREDENTIALS):
        return refused(
            f"There are no credentials for {shown}. Set the store's credentials, such as "
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
