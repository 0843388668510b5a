"""The cores that this process may use."""

import os


def core_count() -> int:
    """Their number."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
