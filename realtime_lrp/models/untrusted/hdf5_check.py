"""HDF5 files of weights from strangers: looked through, in a process that may hang or crash.

The library that reads HDF5 can loop for ever, or worse, on bytes that are wrong. So a child process
looks first; what it got through is then read here. The child prints what the file holds as JSON.
"""

import json
import math
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py

from realtime_lrp.errors import DamagedInputError, first_line
from realtime_lrp.system import children

MOST_EXPANSION = 1000
"""How many times larger than in the file data may be; gzip cannot do more."""

SMALL = 64 << 20
"""Bytes that data may have in any case."""

COMPUTING_S, BYTES_PER_S = 5.0, 20e6
"""Seconds of computing that a look at a small file may take, and bytes a second of a large one."""

WAITED = 12
"""So many times as long is waited, on a machine that does other things."""

MOST_MEMORY = 4 << 30
"""Bytes of address space for the child, besides the file's own size."""

_REPAIR = "Expected what model.save_weights('name.weights.h5') writes, of the same network."

Shapes = list[list[int]]


@dataclass(frozen=True)
class Held:
    """What a file of weights holds.

    Attributes:
      by_name: whether layers are called by their names, in order (.h5), and not by their places
        such as "layers/conv2d_1" (.weights.h5).
      layers: the shapes of each layer's weights.
      numbers: how many there are in the whole file.
    """

    by_name: bool
    layers: dict[str, Shapes]
    numbers: int


def held_by(path: Path, file: str) -> Held:
    """What a file of weights holds, once it is known that it can be read without harm.

    Args:
      path: the HDF5 file.
      file: how messages call it.

    Raises:
      DamagedInputError: it cannot be read, holds a link, data that lies elsewhere, data that is no
        number, or claims more than it holds.
    """
    most_s = COMPUTING_S + path.stat().st_size / BYTES_PER_S
    patience_s = WAITED * most_s
    try:
        done = subprocess.run(
            children.command(
                "realtime_lrp.models.untrusted.hdf5_check", str(path), str(math.ceil(most_s))
            ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=patience_s,
        )
        answer = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        why = f"reading it does not end within {patience_s:.0f} s"
        raise DamagedInputError(f"{file} is damaged ({why}). {_REPAIR}") from None
    except ValueError:
        if done.returncode == -getattr(signal, "SIGKILL", 0):
            why = f"reading it does not end within {most_s:.0f} s of computing"
            raise DamagedInputError(f"{file} is damaged ({why}). {_REPAIR}") from None
        why = f"the process that read it ended with {done.returncode}"
        raise DamagedInputError(f"{file} is damaged ({why}). {_REPAIR}") from None
    if "problem" in answer:
        raise DamagedInputError(f"{file} {answer['problem']}. {_REPAIR}")
    return Held(**answer)


def main() -> None:
    """The child: looks at the file that the command line names."""
    path, most_s = Path(sys.argv[1]), int(sys.argv[2])
    with suppress(ImportError, ValueError):
        import resource  # not on every system

        # also where nobody is left who would end this process
        resource.setrlimit(resource.RLIMIT_CPU, (most_s, most_s))
        most = MOST_MEMORY + path.stat().st_size
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    try:
        answer = _looked_through(path)
    except _ProblemError as problem:
        answer = {"problem": str(problem)}
    except Exception as error:  # h5py raises whatever the library says
        answer = {"problem": f"is damaged ({first_line(error)})"}
    print(json.dumps(answer))


class _ProblemError(Exception):
    """What is wrong with a file."""


def _looked_through(path: Path) -> dict[str, Any]:
    with h5py.File(path, "r") as opened:
        numbers = _checked_numbers(opened)
        root = opened.get("model_weights", opened)
        by_name = "layer_names" in root.attrs
        layers = _by_name(root) if by_name else _by_place(opened)
    return {"by_name": by_name, "layers": layers, "numbers": numbers}


def _checked_numbers(opened: h5py.File) -> int:
    """How many numbers the file holds, where it holds what it claims."""
    numbers = claimed = stored = 0
    for name, data in _data_sets(opened):
        _check_kind(name, data)
        numbers += math.prod(data.shape)
        claimed += data.nbytes
        stored += data.id.get_storage_size()
        if claimed > max(SMALL, MOST_EXPANSION * stored):
            raise _ProblemError(f"claims {claimed:,} bytes up to {name!r} and holds {stored:,}")
        if data.chunks:
            data[()]  # packed, or spread over the file
    return numbers


def _data_sets(opened: h5py.File) -> Iterator[tuple[str, h5py.Dataset]]:
    left, seen = [("", opened)], set()
    while left:
        place, group = left.pop()
        dict(group.attrs)
        for key in group:
            name = f"{place}{key}"
            if not isinstance(group.get(key, getlink=True), h5py.HardLink):
                raise _ProblemError(f"has a link in place of {name!r}")
            item = group[key]
            if item.id in seen:  # groups can hold each other, and data have several names
                continue
            seen.add(item.id)
            if isinstance(item, h5py.Dataset):
                yield name, item
            elif isinstance(item, h5py.Group):
                left.append((f"{name}/", item))


def _check_kind(name: str, data: h5py.Dataset) -> None:
    dict(data.attrs)
    if data.external or data.is_virtual:
        raise _ProblemError(f"takes {name!r} from another file")
    if data.dtype.kind not in "biufV":
        raise _ProblemError(f"holds no numbers in {name!r}")


def _by_name(root: h5py.Group) -> dict[str, Shapes]:
    """The layers of an .h5 file that have weights, in order."""
    held = {name: root[name] for name in map(_text, root.attrs["layer_names"])}
    names = {name: list(map(_text, group.attrs["weight_names"])) for name, group in held.items()}
    return {key: [held[key][name].shape for name in of] for key, of in names.items() if of}


def _by_place(opened: h5py.File) -> dict[str, Shapes]:
    """The layers of a .weights.h5 file by their place."""
    held = {}

    def take(name: str, item: h5py.HLObject) -> None:
        if (
            isinstance(item, h5py.Group)
            and re.fullmatch("(layers/[^/]+/)+vars", name)
            and len(item)
        ):
            keys = sorted(item, key=lambda key: (len(key), key))
            held[name.removesuffix("/vars")] = [item[key].shape for key in keys]

    opened.visititems(take)
    return held


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


if __name__ == "__main__":
    main()
