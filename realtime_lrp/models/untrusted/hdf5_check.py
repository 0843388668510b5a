"""Checks an HDF5 weights file in a child process, before this process opens it.

A damaged or hostile HDF5 file can make the HDF5 library loop for ever, crash, read other files
through links, or allocate far more than the file holds. The child has limits on time and memory
and prints as JSON what the file holds. Only a file that the child got through is opened here. Do
not open weights with h5py or Keras anywhere else.
"""

import json
import math
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py

from realtime_lrp.errors import DamagedInputError, first_line
from realtime_lrp.system.child_command import output_of

MAX_EXPANSION = 1000  # How many times larger than in the file data may be; gzip cannot reach more
SMALL_BYTES = 64 << 20  # Data of up to this size is accepted whatever its compression

BASE_CPU_S, BYTES_PER_CPU_S = 5.0, 20e6
"""CPU time for a file: a fixed part, and its size divided by this speed."""

WALL_FACTOR = 12  # The child may take this many times its CPU time, because the machine may be busy
MAX_MEMORY = 4 << 30  # Bytes of address space for the child, on top of the file's own size

_EXPECTED = "Expected what model.save_weights('name.weights.h5') writes, of the same network."

_NO_WEIGHTS = re.compile(r"(.*/)?(optimizer/|optimizer_weights/|_?seed_generator)")
"""Paths of data that are not among a model's weights."""


def stored_values(path: Path, name: str) -> int:
    """How many numbers a weights file holds, without seeds and the optimiser's.

    By then it is known to be safe to read. Refused are damage, links, data from other files or that
    are no numbers, and claims of more than the file holds; `name` is for messages.
    """
    answer = _examine_in_child(path, name)
    if "problem" in answer:
        raise DamagedInputError(f"{name} {answer['problem']}. {_EXPECTED}")
    return int(answer["values"])


def _examine_in_child(path: Path, name: str) -> dict[str, Any]:
    cpu_s = BASE_CPU_S + path.stat().st_size / BYTES_PER_CPU_S
    timeout_s = WALL_FACTOR * cpu_s
    try:
        done = output_of(__name__, str(path), str(math.ceil(cpu_s)), timeout_s=timeout_s)
        return dict(json.loads(done.stdout))
    except subprocess.TimeoutExpired:
        problem = f"reading it does not end within {timeout_s:.0f} s"
    except ValueError:
        if done.returncode == -getattr(signal, "SIGKILL", 0):
            problem = f"reading it does not end within {cpu_s:.0f} s of CPU time"
        else:
            problem = f"the process that read it ended with code {done.returncode}"
    raise DamagedInputError(f"{name} is damaged ({problem}). {_EXPECTED}")


def main() -> None:
    """The child process: examines the file on the command line and prints the result."""
    path, cpu_s = Path(sys.argv[1]), int(sys.argv[2])
    with suppress(ImportError, ValueError):
        import resource  # not on every system

        # the child ends itself even if its parent is killed
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
        memory = MAX_MEMORY + path.stat().st_size
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    print(json.dumps(examine(path)))


def examine(path: Path) -> dict[str, Any]:
    """Reads the file in this process: {"values": their number} or {"problem": text}."""
    try:
        with h5py.File(path, "r") as file:
            return {"values": _count_values(file)}
    except _ProblemError as problem:
        return {"problem": str(problem)}
    except Exception as error:  # h5py raises anything on damaged files
        return {"problem": f"is damaged ({first_line(error)})"}


class _ProblemError(Exception):
    """What is wrong with a file; the message continues a sentence that begins with its name."""


def _count_values(file: h5py.File) -> int:
    """How many numbers the file holds without seeds and the optimiser's."""
    values = claimed = stored = 0
    for name, data in _datasets(file):
        _check_dataset(name, data)
        if not _NO_WEIGHTS.match(name):
            values += math.prod(data.shape)
        claimed += data.nbytes
        stored += data.id.get_storage_size()
        if claimed > max(SMALL_BYTES, MAX_EXPANSION * stored):
            raise _ProblemError(f"claims {claimed:,} bytes up to {name!r} but holds {stored:,}")
        if data.chunks:
            data[()]  # compressed, or spread over the file: only reading shows whether it is intact
    return values


def _datasets(file: h5py.File) -> Iterator[tuple[str, h5py.Dataset]]:
    """Every dataset once, by its path; groups may contain each other."""
    waiting, seen = [("", file)], set()
    while waiting:
        prefix, group = waiting.pop()
        dict(group.attrs)  # reading them shows whether they are intact
        for key in group:
            name = f"{prefix}{key}"
            if not isinstance(group.get(key, getlink=True), h5py.HardLink):
                raise _ProblemError(f"has a link in place of {name!r}")
            item = group[key]
            if item.id in seen:
                continue
            seen.add(item.id)
            if isinstance(item, h5py.Dataset):
                yield name, item
            elif isinstance(item, h5py.Group):
                waiting.append((f"{name}/", item))


def _check_dataset(name: str, data: h5py.Dataset) -> None:
    dict(data.attrs)
    if data.external or data.is_virtual:
        raise _ProblemError(f"takes {name!r} from another file")
    if data.dtype.kind not in "biufV":
        raise _ProblemError(f"holds no numbers in {name!r}")


if __name__ == "__main__":
    main()
