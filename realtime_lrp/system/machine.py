"""The cores and the memory of this machine; keeps the memory of a process of months from growing.

Networks and compiled functions refer to themselves, so that only the garbage collector frees them.
It stops all threads meanwhile: 0.3 s for what TensorFlow consists of, unless that is left out.

glibc gives each thread its own arena, rarely returns its memory, and puts pictures between objects
that are still in use. With other C libraries nothing is changed.
"""

import ctypes
import gc
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path


def core_count() -> int:
    """How many cores this process may use."""
    linux = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if linux else os.cpu_count() or 1


GIB = 1 << 30

_CGROUPS = Path("/sys/fs/cgroup")
M_MMAP_THRESHOLD = -3
M_ARENA_MAX = -8
ARENAS = 2
LARGE = 512 << 10  # bytes; larger blocks come from the system and return to it when freed


@cache
def _c_library() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libc.so.6")
    except OSError:
        return None
    return library if hasattr(library, "malloc_trim") else None


def limit_kept_memory() -> None:
    """Limits how much freed memory is kept; to be called before TensorFlow is imported.

    TensorFlow keeps its tensors' memory and uses it again (its allocator BFC). Tensors that came
    from the system anew, page by page, took .4 of 2 cores in place of .1: MobileNetV2 got 10 maps a
    second in place of 15.6, SqueezeNet 10.1 in place of 12.7.
    """
    os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "true")
    if library := _c_library():
        library.mallopt(M_ARENA_MAX, ARENAS)
        library.mallopt(M_MMAP_THRESHOLD, LARGE)


def return_freed_memory() -> None:
    """Returns freed memory to the system."""
    if library := _c_library():
        library.malloc_trim(0)


def free_cycles() -> None:
    """Frees objects that only refer to each other, and returns their memory to the system."""
    gc.collect()
    return_freed_memory()


_left_out = False  # whether `leave_out_of_collection` was called


def leave_out_of_collection() -> None:
    """Leaves what exists now out of the searches of the garbage collector; they become quick."""
    global _left_out
    gc.freeze()
    _left_out = True


def free_all_cycles() -> None:
    """Frees also objects that were left out; takes a moment where there are any."""
    if _left_out:
        gc.unfreeze()
    free_cycles()


def available_bytes() -> int:
    """The memory this process may still allocate: free on the machine, or left by its cgroups."""
    import psutil  # this takes a while

    own = psutil.Process().memory_info().rss
    return min([psutil.virtual_memory().available, *(limit - own for limit in _cgroup_limits())])


def gib(count: int) -> str:
    """A number of bytes for people: "1.50 GiB"."""
    return f"{count / GIB:,.2f} GiB"


def _cgroup_limits() -> Iterator[int]:
    """The memory limits of this process's control groups (cgroup version 2), in bytes."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            if line.startswith("0::/"):
                group = _CGROUPS / line.removeprefix("0::/")
                for file in (folder / "memory.max" for folder in (group, *group.parents)):
                    if file.is_file() and (text := file.read_text().strip()).isdecimal():
                        yield int(text)
