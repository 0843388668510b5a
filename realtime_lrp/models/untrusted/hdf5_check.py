"""Checks an HDF5 weights file in a child process, before this process opens it.

A damaged or hostile HDF5 file can make the HDF5 library loop for ever, crash, read other files
through links, or allocate far more than the file holds. The child has limits on time and memory.
Only a file that it got through is opened here. Do not open weights with h5py or Keras anywhere
else.
"""

import math
import re
from collections.abc import Iterator
from pathlib import Path

import h5py

from realtime_lrp.errors import DamagedInputError, first_line
from realtime_lrp.system.call import call_in_child

MAX_EXPANSION = 1000  # How many times larger than in the file data may be; gzip cannot reach more
SMALL_BYTES = 64 << 20  # Data of up to this size is accepted whatever its compression

BASE_CPU_S = 5.0
BYTES_PER_CPU_S = 20e6
"""CPU time for a file: a fixed part, and its size divided by this speed."""

MAX_ITEM_BYTES = 16  # The largest number of NumPy that is no complex one
SEED_VALUES = 2  # What a seed generator has
MAX_MEMORY = 4 << 30  # Bytes of address space for the child, on top of the file's own size

_EXPECTED = "Expected what model.save_weights('name.weights.h5') writes, of the same network."

_NO_WEIGHTS = re.compile(r"(.*/)?(optimizer/|optimizer_weights/|_?seed_generator)")
"""Paths of data that are not among a model's weights."""


def stored_values(path: Path, file: str, name: str) -> int:
    """How many numbers a weights file holds, without seeds and the optimiser's.

    By then it is known to be safe to read. Refused are damage, links, data from other files or that
    are no numbers, and claims of more than the file holds. For messages: `file` is what the user
    named, perhaps one around this one, and `name` how a sentence begins about it.
    """
    size = path.stat().st_size
    cpu_s = BASE_CPU_S + size / BYTES_PER_CPU_S
    memory = MAX_MEMORY + size
    return int(call_in_child(file, examine, str(path), name, cpu_s=cpu_s, memory=memory))


def examine(path: str, name: str) -> int:
    """The same, read in this process."""
    try:
        with h5py.File(path, "r") as file:
            return _count_values(file)
    except Exception as error:  # h5py raises anything on damaged files
        raise DamagedInputError(f"{name} is damaged ({first_line(error)}). {_EXPECTED}") from None


def _count_values(file: h5py.File) -> int:
    """How many numbers the file holds without seeds and the optimiser's."""
    values = claimed = stored = 0
    for name, data in _datasets(file):
        _check_dataset(name, data)
        if not _NO_WEIGHTS.match(name) or ("seed_generator" in name and data.size > SEED_VALUES):
            values += math.prod(data.shape)
        claimed += data.nbytes
        stored += data.id.get_storage_size()
        if claimed > max(SMALL_BYTES, MAX_EXPANSION * stored):
            raise ValueError(f"it claims {claimed:,} bytes up to {name!r} but holds {stored:,}")
        if data.chunks:
            data[()]  # compressed, or spread over the file: only reading shows whether it is intact
    return values


def _datasets(file: h5py.File) -> Iterator[tuple[str, h5py.Dataset]]:
    """Every dataset once, by its path; groups may contain each other."""
    waiting = [("", file)]
    seen = set()
    while waiting:
        prefix, group = waiting.pop()
        dict(group.attrs)  # reading them shows whether they are intact
        for key in group:
            name = f"{prefix}{key}"
            if not isinstance(group.get(key, getlink=True), h5py.HardLink):
                raise ValueError(f"there is a link in place of {name!r}")
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
        raise ValueError(f"it takes {name!r} from another file")
    if data.dtype.kind not in "biufV" or data.dtype.itemsize > MAX_ITEM_BYTES:
        raise ValueError(f"there are no numbers in {name!r}")
