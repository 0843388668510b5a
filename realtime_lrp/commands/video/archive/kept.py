"""The parts of a film that are done, in a hidden folder beside it, from which any run goes on.

    .NAME.mp4.parts/manifest.json     what the parts belong to, and how the recording is cut
    .NAME.mp4.parts/00003/part.json   that part 3 is done: its facts, and the hash of each file
    .NAME.mp4.parts/00003/...         its files

A part appears by the renaming of its folder, so it is there complete or not at all. The folder is
removed once the film has its name.
"""

import logging
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from realtime_lrp.commands.video.archive.orders import Facts, Made, Planned
from realtime_lrp.commands.video.messages import Piece
from realtime_lrp.errors import OutputError
from realtime_lrp.results.resume import digest_of
from realtime_lrp.system.atomic import atomic_file, refuse_link, runs

MANIFEST, PART = "manifest.json", "part.json"

OWNER = "owner-"
"""How the name of the file begins that says which process makes the film."""

log = logging.getLogger(__name__)


class JobManifest(msgspec.Struct, frozen=True):
    """What the parts in a folder belong to.

    Attributes:
      fingerprint: of source and settings, see `results.resume.fingerprint`.
      frames: how many the film has.
      last: how long each of the last ones is shown.
      pieces: the parts.
    """

    fingerprint: str
    frames: int
    last: tuple[int, ...]
    pieces: tuple[Piece, ...]


class PartManifest(msgspec.Struct, frozen=True):
    """A part that is done.

    Attributes:
      facts: of its film.
      digests: the hash of each file, see `digest_of`.
    """

    facts: Facts
    digests: dict[str, str]


class KeptParts:
    """The parts of one film.

    Args:
      film: its final name.
      fingerprint: of its source and settings; parts of others are removed.

    Attributes:
      plan: how the recording is cut, if an earlier run has found that out.

    Raises:
      OutputError: a link lies in place of the folder, or another job makes the film.
    """

    def __init__(self, film: Path, fingerprint: str):
        self._film = film
        self.folder = film.with_name(f".{film.name}.parts")
        self._fingerprint = fingerprint
        refuse_link(self.folder)
        self.claim()
        self.plan = self._read_plan()

    def _read_plan(self) -> Planned | None:
        try:
            data = (self.folder / MANIFEST).read_bytes()
            manifest = msgspec.json.decode(data, type=JobManifest)
        except (OSError, msgspec.MsgspecError, UnicodeError):
            manifest = None
        if manifest is None or manifest.fingerprint != self._fingerprint:
            if any(self.folder.glob(f"*/{PART}")):
                log.warning("%s: parts made with other settings are removed", self.folder)
            self.remove()
            self.claim()
            return None
        for unfinished in self.folder.glob("*.part"):
            shutil.rmtree(unfinished, ignore_errors=True)
        return Planned(manifest.pieces, manifest.frames, manifest.last)

    def claim(self) -> None:
        """Keeps other jobs on this machine from making the same film.

        Raises:
          OutputError: another one makes it, or the folder cannot be made.
        """
        self._make_folder()
        for owner in self.folder.glob(f"{OWNER}*"):
            number = owner.name.removeprefix(OWNER)
            if number == str(os.getpid()):
                continue
            if runs(number):
                raise OutputError(
                    f"{str(self._film)!r} is being made by another job. Wait for it to finish, or "
                    "choose another name."
                )
            owner.unlink(missing_ok=True)
        with suppress(OSError):
            (self.folder / f"{OWNER}{os.getpid()}").touch()

    def release(self) -> None:
        """Lets other jobs make the film; the folder goes if no part is done."""
        with suppress(OSError):
            (self.folder / f"{OWNER}{os.getpid()}").unlink(missing_ok=True)
            if not any(self.folder.glob(f"*/{PART}")):
                self.remove()

    def begin(self, plan: Planned) -> None:
        """Notes how the recording is cut.

        Raises:
          OutputError: the folder cannot be made.
          TransferError: the disk is full.
        """
        self._make_folder()
        manifest = JobManifest(self._fingerprint, plan.frames, plan.last, plan.pieces)
        with atomic_file(self.folder / MANIFEST, overwrite=True) as part:
            part.write_bytes(msgspec.json.encode(manifest))

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise OutputError(
                f"The folder {str(self.folder)!r} cannot be made ({error.strerror})."
            ) from None

    def done(self, number: int) -> Facts | None:
        """The facts of a part that is done and whose files are as they were; else None."""
        folder = self.folder_of(number)
        try:
            manifest = msgspec.json.decode((folder / PART).read_bytes(), type=PartManifest)
        except (OSError, msgspec.MsgspecError, UnicodeError):
            return None
        for name, digest in manifest.digests.items():
            if digest_of(folder / name) != digest:
                log.warning("%s is made again: %s is missing or has changed", folder, name)
                shutil.rmtree(folder, ignore_errors=True)
                return None
        return manifest.facts

    def folder_of(self, number: int) -> Path:
        """The folder of a part."""
        return self.folder / f"{number:05d}"

    def add(self, number: int, made: Made, fetch: Callable[[str, Path], None]) -> None:
        """Keeps a part.

        Args:
          number: of the part.
          made: what a worker has made.
          fetch: copies a file of the worker, by its name in the folder there, to a path.

        Raises:
          OSError: the disk is full, or a write failed.
        """
        self._make_folder()
        folder = self.folder_of(number)
        part = folder.with_suffix(f".{os.getpid()}.part")
        shutil.rmtree(part, ignore_errors=True)
        try:
            part.mkdir()
            for name in made.files:
                (part / name).parent.mkdir(exist_ok=True)
                fetch(name, part / name)
            digests = {name: digest_of(part / name) for name in made.files}
            (part / PART).write_bytes(msgspec.json.encode(PartManifest(made.facts, digests)))
            shutil.rmtree(folder, ignore_errors=True)
            part.rename(folder)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise

    def remove(self) -> None:
        """Removes all parts."""
        with suppress(OSError):
            shutil.rmtree(self.folder)
