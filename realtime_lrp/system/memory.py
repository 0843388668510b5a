"""Limits how much freed memory glibc keeps, so that a process can run for months.

glibc gives each thread its own arena and rarely returns its memory. After a while pictures come
from these arenas too, and freed pictures lie between objects that are still in use. With other C
libraries nothing is changed.
"""

import ctypes
from functools import cache

M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8
ARENAS = 2
LARGE = 512 << 10
"""Larger blocks, in bytes, come from the system and return to it when they are freed."""


@cache
def _c_library() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libc.so.6")
    except OSError:
        return None
    return library if hasattr(library, "malloc_trim") else None


def limit_kept_memory() -> None:
    """Limits how much freed memory is kept; to be called before threads are started."""
    if library := _c_library():
        library.mallopt(M_ARENA_MAX, ARENAS)
        library.mallopt(M_MMAP_THRESHOLD, LARGE)


def return_freed_memory() -> None:
    """Returns freed memory to the system."""
    if library := _c_library():
        library.malloc_trim(0)
