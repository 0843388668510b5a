"""What the C library keeps of memory that was freed: little, so that months do not add up.

glibc gives threads arenas of their own, which it hardly ever gives back, and after a while takes
pictures out of them too; what is freed then lies between what is still held. Other C libraries are
left alone.
"""

import ctypes
from functools import cache

M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8
ARENAS = 2
LARGE = 512 << 10
"""Bytes from which on memory comes from the system and goes back to it when it is freed."""


@cache
def _c_library() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libc.so.6")
    except OSError:
        return None
    return library if hasattr(library, "malloc_trim") else None


def keep_little() -> None:
    """Limits what is kept from now on; to be called before threads are started."""
    if library := _c_library():
        library.mallopt(M_ARENA_MAX, ARENAS)
        library.mallopt(M_MMAP_THRESHOLD, LARGE)


def give_back() -> None:
    """Gives freed memory back to the system."""
    if library := _c_library():
        library.malloc_trim(0)
