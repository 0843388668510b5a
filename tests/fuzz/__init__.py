"""Damaged and hostile inputs: `pytest -m release tests/test_fuzz.py` tries them.

- damage: damages bytes and JSON
- files: valid files, and damaged ones given to what reads them, in processes with limits
- streams: servers that answer an address as a hostile camera would
"""

import realtime_lrp  # noqa: F401 - it tells OpenCV its limits, before anything loads OpenCV
