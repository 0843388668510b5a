"""What the C library keeps of memory that was freed: little, so that months do not add up.

Each visit opens a clip, and threads with it; glibc gives threads arenas of their own, which it
hardly ever gives back. Other C libraries are left alone.
"""

import ctypes
from functools import cache

M_ARENA_MAX = -8
ARENAS = 2


@cache
def _c_library() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libc.so.6")
    except OSError:
        return None
    return library if hasattr(library, "malloc_trim") else None


def keep_little() -> None:
    """Limits the arenas; to be called before threads are started."""
    if library := _c_library():
        library.mallopt(M_ARENA_MAX, ARENAS)


def give_back() -> None:
    """Gives freed memory back to the system."""
    if library := _c_library():
        library.malloc_trim(0)
