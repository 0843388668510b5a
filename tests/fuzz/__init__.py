"""Damaged and hostile inputs: `pytest -m release tests/test_fuzz.py` tries them."""

import realtime_lrp  # noqa: F401 - it tells OpenCV its limits, before anything loads OpenCV
