"""The figures of `--stats`: what is counted, and from when on."""

import pytest

from realtime_lrp.realtime import stats as module
from realtime_lrp.realtime.stats import Stats


@pytest.fixture
def clock(monkeypatch):
    """The time in seconds; set its first entry."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_rates_run_from_the_first_map(clock):
    """What was shown and explained while the network was prepared does not count."""
    stats = Stats("CPU", "float32")
    stats.frames_shown = 300
    assert stats.display_fps() is stats.maps_per_s() is None
    stats.map_made(1, 0.5)
    clock[0] += 4
    stats.frames_shown += 120
    stats.map_made(20, 1.0)
    assert stats.display_fps() == 30
    assert stats.maps_per_s() == 5
    assert stats.maps == 21 and stats.seconds() == 4


def test_a_batch_counts_for_each_of_its_maps():
    """Eight maps after 0.4 s are eight of 50 ms."""
    stats = Stats("CPU", "float32")
    stats.map_made(8, 0.4)
    assert list(stats.map_ms) == [pytest.approx(50)] * 8
    figures = stats.as_dict(live=True)
    assert figures["maps"] == 8 and figures["map_ms"] == {"p50": 50, "p99": 50}


def test_what_has_no_meaning_is_null():
    """Nothing was explained, nothing is shown live."""
    figures = Stats("CPU", "float32").as_dict(live=False)
    nothing = ("display_fps", "maps_per_s", "map_ms", "frame_age_ms", "map_age_ms", "reconnects")
    assert [figures[name] for name in nothing] == [None] * 6
    assert (figures["device"], figures["precision"], figures["maps"]) == ("CPU", "float32", 0)
