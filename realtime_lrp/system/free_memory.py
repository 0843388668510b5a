"""How much memory this process may still allocate."""

from collections.abc import Iterator
from pathlib import Path

import psutil

GIB = 1 << 30

_CGROUPS = Path("/sys/fs/cgroup")


def available_bytes() -> int:
    """The memory this process may still allocate: free on the machine, or left by its cgroups."""
    own = psutil.Process().memory_info().rss
    return min([psutil.virtual_memory().available, *(limit - own for limit in _cgroup_limits())])


def gib(count: int) -> str:
    """A number of bytes for people: "1.50 GiB"."""
    return f"{count / GIB:,.2f} GiB"


def _cgroup_limits() -> Iterator[int]:
    """The memory limits of this process's control groups (cgroup version 2), in bytes."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        if line.startswith("0::/"):
            group = _CGROUPS / line.removeprefix("0::/")
            for folder in (group, *group.parents):
                limit = _limit(folder / "memory.max")
                if limit is not None:
                    yield limit


def _limit(file: Path) -> int | None:
    try:
        text = file.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None
