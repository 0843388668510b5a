"""`python -m realtime_lrp` is `realtime-lrp`."""

from realtime_lrp.cli import process

process()
