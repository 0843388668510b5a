"""Checks an HDF5 weights file in a child process, before this process opens it.

A damaged or hostile file can make the HDF5 library loop for ever, crash, read other files through
links, or allocate far more than the file holds. The child has limits on time and memory. Do not
open weights with h5py or Keras that it did not get through.
"""

import math
import re
from collections.abc import Iterator
from pathlib import Path

import h5py

from realtime_lrp.errors import DamagedInputError, first_line
from realtime_lrp.system.child import call_in_child

MAX_EXPANSION = 1000  # How many times larger than in the file data may be; gzip cannot reach more
SMALL_BYTES = 64 << 20  # Data of up to this size is accepted whatever its compression

BASE_CPU_S = 5.0  # CPU time for any file
BYTES_PER_CPU_S = 20e6  # a file's size divided by this adds to it
MAX_ITEM_BYTES = 16  # The largest number of NumPy that is no complex one
SEED_VALUES = 2  # What a seed generator has
MAX_MEMORY = 4 << 30  # Bytes of address space for the child, on top of the file's own size

_EXPECTED = "Expected what model.save_weights('name.weights.h5') writes, of the same network."

# paths of data that are not among a model's weights
_NO_WEIGHTS = re.compile(r"(.*/)?(optimizer/|optimizer_weights/|_?seed_generator)")


def stored_values(path: Path, file: str, name: str) -> int:
    """How many numbers a weights file holds, if safe to read, without seeds and the optimiser's.

    Refused are damage, links, data from other files or that are no numbers, and claims of more than
    the file holds. `file` is what the user named, `name` how a sentence begins about it.
    """
    size = path.stat().st_size
    cpu_s = BASE_CPU_S + size / BYTES_PER_CPU_S
    memory = MAX_MEMORY + size
    return int(call_in_child(file, examine, str(path), name, cpu_s=cpu_s, memory=memory))


def examine(path: str, name: str) -> int:
    """The same, read in this process."""
    values = claimed = stored = 0
    try:
        with h5py.File(path, "r") as file:
            for key, data in _datasets(file):
                dict(data.attrs)
                if data.external or data.is_virtual:
                    raise ValueError(f"it takes {key!r} from another file")
                if data.dtype.kind not in "biufV" or data.dtype.itemsize > MAX_ITEM_BYTES:
                    raise ValueError(f"there are no numbers in {key!r}")
                many_seeds = "seed_generator" in key and data.size > SEED_VALUES
                if not _NO_WEIGHTS.match(key) or many_seeds:
                    values += math.prod(data.shape)
                claimed += data.nbytes
                stored += data.id.get_storage_size()
                if claimed > max(SMALL_BYTES, MAX_EXPANSION * stored):
                    raise ValueError(f"it claims {claimed:,} bytes at {key!r} but holds {stored:,}")
                if data.chunks:
                    data[()]  # compressed, or spread over the file: only reading shows damage
        return values
    except Exception as error:  # h5py raises anything on damaged files
        raise DamagedInputError(f"{name} is damaged ({first_line(error)}). {_EXPECTED}") from None


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
