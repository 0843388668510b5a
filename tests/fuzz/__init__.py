"""Damaged and hostile inputs, tried on the program in child processes with limits.

- mutations: damages bytes, anywhere, in numbers, in chunks
- structures: where numbers and chunks lie in the formats
- inputs: the valid files that the damage begins with; names, and things that are no files
- targets: what an input is given to, and what must hold afterwards
- streams: servers that answer an address as a hostile camera would
- child: the process that tries inputs one after the other
- runner: starts children, notes what kills or hangs them, counts

`pytest -m release tests/test_fuzz.py` runs them.
"""

import realtime_lrp  # noqa: F401 - it tells OpenCV its limits, before anything loads OpenCV
