"""Files in object stores, at addresses like s3://BUCKET/FOLDER/FILE, through fsspec.

Credentials come from where the store's own library looks for them (environment, its files, the
machine's role); an address that holds some is refused, so none can get into messages or manifests.
An object appears whole or not at all: a store shows an upload when it is complete.
"""

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from realtime_lrp import errors
from realtime_lrp.system.files import KEPT_FREE, check_room

PACKAGES = {"s3": "s3fs", "gs": "gcsfs"}  # scheme -> what fsspec needs for it
CONNECT_S, READ_S, ATTEMPTS = 10, 60, 5  # seconds to connect, to answer, and tries

_NETWORK = ("Endpoint", "Connect", "Connection", "Timeout", "ServerDisconnected", "SSL", "Http")
_CREDENTIALS = ("NoCredentials", "PartialCredentials", "DefaultCredentials", "TokenRetrieval")


@dataclass(frozen=True, order=True)
class StoredFile:
    """An object; its version, the ETag, changes when its content does."""

    address: str
    size: int
    version: str

    @classmethod
    def of(cls, address: str, info: dict[str, Any]) -> "StoredFile":
        tag = info.get("ETag") or info.get("etag")
        return cls(address, int(info["size"]), str(tag).strip('"'))


def _parts(word: str) -> tuple[str, str]:
    """The scheme of an address, in lower case, and what follows; "" and a path."""
    scheme, found, path = word.partition("://")
    return (scheme.lower(), path) if found and scheme.isalnum() else ("", word)


def is_stored(word: str) -> bool:
    """Whether a word is an address of an object store, and not a path or a file:// address."""
    scheme, path = _parts(word)
    if scheme in ("", "file"):
        return False
    if scheme not in PACKAGES:
        raise errors.UsageError(
            f"{errors.masked(word)!r} is no address of s3://, gs:// or file://."
        )
    bucket = path.split("/", 1)[0]
    if "@" in bucket or not bucket:
        wrong = "holds a user or password" if bucket else "names no bucket"
        raise errors.UsageError(
            f"{errors.masked(word)!r} {wrong}. Expected {scheme}://BUCKET/PATH; credentials come "
            "from the environment."
        )
    return True


def local_path(word: str) -> str:
    """The path of a file:// address; any other word unchanged."""
    scheme, path = _parts(word)
    if scheme != "file":
        return word
    if not path.startswith("/"):
        raise errors.UsageError(f"{word!r} has no absolute path. Expected file:///FOLDER/FILE.")
    return path


def find(word: str, suffixes: Sequence[str], kind: str) -> list[StoredFile]:
    """The objects that an address names: one, a folder's with a known ending, or a glob's."""
    scheme, path = _parts(word.rstrip("/"))
    pattern = any(sign in path for sign in "*?[")
    with _files(word, reading=True) as (files, _):
        one = _info(files, path)
        if one and not word.endswith("/"):
            return [StoredFile.of(word, one)]
        found = files.glob(path, detail=True).values() if pattern else files.ls(path, detail=True)
    stored = []
    for one in found:
        name = Path(one["name"])
        known = name.suffix.lower() in suffixes and not name.name.startswith(".")
        if one["type"] == "file" and (pattern or known):
            stored.append(StoredFile.of(f"{scheme}://{one['name']}", one))
    if not stored:
        raise errors.MissingInputError(
            f"There is no {kind} {word!r}: no such object, folder or match."
        )
    return sorted(stored)


def sizes_below(address: str) -> dict[str, int]:
    """All objects below a folder for outputs: path from there -> bytes; none if it is new."""
    with _files(address, reading=False) as (files, path):
        files.ls(path.split("/", 1)[0], detail=False)  # `find` gives {} for no bucket
        found = files.find(path, detail=True)
    return {name.removeprefix(f"{path}/"): int(one["size"]) for name, one in found.items()}


def fetch(file: StoredFile, target: Path) -> None:
    """Copies an object to a local file; refuses one that has changed since it was found."""
    check_room(target.parent, file.size + KEPT_FREE, "set TMPDIR to another folder")
    with _files(file.address, reading=True, midway=True) as (files, path):
        files.get_file(path, str(target))
        now = _info(files, path)
    if target.stat().st_size != file.size or not now or StoredFile.of(file.address, now) != file:
        raise errors.DamagedInputError(f"{file.address!r} has changed while it was read.")


def read_all(addresses: Sequence[str]) -> list[bytes]:
    """The contents of objects of one store."""
    if not addresses:
        return []
    paths = [_parts(address)[1] for address in addresses]
    with _files(addresses[0], reading=True) as (files, _):
        found = files.cat(paths)
    return [found[path] for path in paths]


def upload(file: Path, address: str) -> None:
    """Copies a local file to an object, which appears complete or not at all."""
    with _files(address, reading=False, midway=True) as (files, path):
        files.put_file(str(file), path)


def _info(files: Any, path: str) -> dict[str, Any] | None:
    """The file system's record of an object; None for a folder, and if there is none."""
    try:
        found = files.info(path)
    except FileNotFoundError:
        return None
    return found if found["type"] == "file" else None


def file_system(scheme: str) -> Any:
    """What fsspec has for a scheme; there is one in this process."""
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
        raise errors.UnavailableError(
            f"{scheme}:// needs the package {package}. Install it: pip install {what}"
        ) from None


@contextmanager
def _files(address: str, *, reading: bool, midway: bool = False) -> Iterator[tuple[Any, str]]:
    """Lends the file system of an address, and the path there.

    Makes errors of this program of what fsspec and the store's library raise: an input is
    `reading`, an output not; `midway` a copy breaks off, which is begun again.
    """
    scheme, path = _parts(address)
    refused = errors.MissingInputError if reading else errors.OutputError
    shown = repr(errors.masked(address))
    try:
        yield file_system(scheme), path
    except errors.Error:
        raise
    except FileNotFoundError as error:
        raise refused(f"There is no {shown}: no such bucket or object.") from error
    except Exception as error:
        kind = type(error).__name__
        why = errors.masked(errors.first_line(error))
        if kind.startswith(_CREDENTIALS):
            raise refused(
                f"There are no credentials for {shown}. Set the store's credentials, such as "
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
            ) from error
        if isinstance(error, PermissionError):
            raise refused(f"No permission for {shown} ({why}).") from error
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        network = any(word in kind for word in _NETWORK) or isinstance(error, OSError)
        if network and not full and not midway:
            raise errors.TemporaryError(
                f"{shown} cannot be reached ({why}). Try again later."
            ) from error
        verb = "Reading" if reading else "Writing"
        failed = errors.TransferError if network else refused
        raise failed(f"{verb} {shown} failed ({kind}: {why}). Start again.") from error
