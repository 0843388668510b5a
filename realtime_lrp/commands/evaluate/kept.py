"""Keeps measured rows on the disk until their evaluation is finished, so that `--resume` goes on.

They lie in the user's cache folder, under a hash of everything that their values depend on.
"""

import hashlib
import json
import logging
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import quote, unquote

import msgspec
from platformdirs import user_cache_path

from realtime_lrp.commands.evaluate.samples import Samples
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.hashes import hashes
from realtime_lrp.engine.provenance import map_settings
from realtime_lrp.engine.tensorflow import tf
from realtime_lrp.errors import DamagedInputError, Error, UsageError
from realtime_lrp.system.atomic import atomic_file
from realtime_lrp.system.reading import read_limited
from realtime_lrp.system.version import __version__

DIFFERENCES = {
    "network": "another network",
    "pictures": "other pictures, boxes or labels",
    "seed": "another seed",
    "settings": "other settings",
    "version": "another version of this program or of TensorFlow",
}
"""What the values of rows depend on -> how a difference is told."""

METRICS_VERSION = 2
"""Raise it where a change of the code changes the values of rows."""

FORGOTTEN_S = 30 * 24 * 3600
"""Seconds after which the rows of an unfinished evaluation are removed."""

FACTS_FILE = "evaluation.json"

MAX_FACTS_BYTES = 1 << 20

log = logging.getLogger(__name__)

Facts = Mapping[str, str]
"""Everything that the values of rows depend on, by the keys of `DIFFERENCES`."""


class Row(Protocol):
    """What is kept: it has a name and can be written to a file."""

    @property
    def name(self) -> str:
        """The row's name; all of an evaluation differ."""

    def save(self, file: Path) -> None:
        """Writes the row."""


T = TypeVar("T", bound=Row)


class KeptRows(Generic[T]):
    """The rows of one evaluation that are on the disk.

    Args:
      facts: what their values depend on.
      load: reads the row of a name from its file; raises DamagedInputError.
    """

    def __init__(self, facts: Facts, load: Callable[[Path, str], T]):
        self._facts, self._load = facts, load
        key = hashlib.sha256(json.dumps(dict(facts), sort_keys=True).encode()).hexdigest()[:32]
        base = cache_folder()
        self._folder = base / key if base else None

    def names(self) -> list[str]:
        """The names of the rows that are kept."""
        files = self._folder.glob("*.npz") if self._folder else ()
        return sorted(unquote(file.stem) for file in files)

    def load(self, name: str) -> T | None:
        """Reads a row; None if it is not kept, or if its file is damaged, which is logged."""
        if name not in self.names() or self._folder is None:
            return None
        try:
            return self._load(_file(self._folder, name), name)
        except DamagedInputError as error:
            log.warning("%s is measured anew: its kept row is damaged (%s)", name, error)
            return None

    def save(self, row: T) -> bool:
        """Writes a row; returns whether that was possible."""
        if self._folder is None:
            return False
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with atomic_file(self._folder / FACTS_FILE, overwrite=True) as part:
                part.write_text(json.dumps(dict(self._facts)))
            with atomic_file(_file(self._folder, row.name), overwrite=True) as part:
                row.save(part)
        except (OSError, Error) as error:
            log.warning("%s cannot be kept for --resume: %s", row.name, error)
            self._folder = None
        return self._folder is not None

    def remove(self) -> None:
        """Removes the rows, and those of evaluations that nobody has gone on with for long."""
        if self._folder is None:
            return
        shutil.rmtree(self._folder, ignore_errors=True)
        for file, changed in self._facts_files():
            if time.time() - changed > FORGOTTEN_S:
                shutil.rmtree(file.parent, ignore_errors=True)

    def check_resumable(self) -> None:
        """Refuses to go on where nothing is kept.

        Raises:
          UsageError: it says in what the newest unfinished evaluation differs.
        """
        if self.names():
            return
        others = ((_read_facts(file), changed) for file, changed in self._facts_files())
        facts, changed = next((other for other in others if other[0]), (None, 0))
        if facts is None:
            raise UsageError("There is no unfinished evaluation to go on with. Leave --resume out.")
        different = [told for key, told in DIFFERENCES.items() if facts[key] != self._facts[key]]
        begun = time.strftime("%Y-%m-%d %H:%M", time.localtime(changed))
        raise UsageError(
            f"The unfinished evaluation of {begun} has {' and '.join(different)}, so it cannot go "
            "on. Give what it was started with, or leave --resume out."
        )

    def tell_how_to_go_on(self, names: Sequence[str], what: str) -> None:
        """Says after an interruption what is kept.

        Args:
          names: of all rows.
          what: one of them is, such as "row".
        """
        if done := len({*self.names()}.intersection(names)):
            log.warning(
                "interrupted: %d of %d %ss are measured and kept. The same command with --resume "
                "goes on from there.", done, len(names), what,
            )  # fmt: skip
        else:
            log.warning("interrupted: no %s was finished, so nothing is kept.", what)

    def _facts_files(self) -> Iterator[tuple[Path, float]]:
        """The facts of all evaluations on the disk with their times, the newest first."""
        found = []
        for file in self._folder.parent.glob(f"*/{FACTS_FILE}") if self._folder else ():
            with suppress(OSError):  # another process may have removed it
                found.append((file, file.stat().st_mtime))
        yield from sorted(found, key=lambda one: one[1], reverse=True)


def _file(folder: Path, name: str) -> Path:
    """The file of a row; names of layers may hold a slash."""
    return folder / f"{quote(name, safe='')}.npz"


def _read_facts(file: Path) -> Facts | None:
    """Reads what an evaluation depended on; None if the file is damaged or of another version."""
    try:
        text = read_limited(file, MAX_FACTS_BYTES, "a JSON file")
        facts = msgspec.json.decode(text, type=dict[str, str])
    except (Error, msgspec.MsgspecError, UnicodeError):
        return None
    return facts if facts.keys() == DIFFERENCES.keys() else None


def facts_of(engine: Engine, samples: Samples, seed: int, **measured: Any) -> Facts:
    """Everything that the values of rows depend on.

    Args:
      engine: the network.
      samples: the pictures.
      seed: the random seed.
      measured: what is measured, anything that JSON can hold.
    """
    pictures = hashlib.sha256(repr((samples.names, samples.labels)).encode())
    for array in (samples.pictures, samples.masks):
        pictures.update(array.tobytes())
    files = hashes(engine.files)  # weights alone do not say how layers are connected
    name = None if "model" in files else engine.config.model.name.lower()
    network = hashlib.sha256(repr((name, files, engine.network.labels)).encode())
    for weights in engine.model.get_weights():
        network.update(weights.tobytes())
    return {
        "network": network.hexdigest(),
        "pictures": pictures.hexdigest(),
        "seed": str(seed),
        "settings": map_settings(engine, **measured),
        "version": f"{__version__}, TensorFlow {tf.__version__}, metrics {METRICS_VERSION}",
    }


def cache_folder() -> Path | None:
    """Where rows are kept; None for a user without a home folder."""
    try:
        return user_cache_path("realtime-lrp") / "evaluate"
    except RuntimeError:
        return None
