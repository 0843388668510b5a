"""The figures of `--stats`: what is counted, and from when on."""

import json
import time

import numpy as np
import psutil
import pytest
from program import start

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
    stats.frame_age_ms.extend(range(101))
    assert list(stats.map_ms) == [pytest.approx(50)] * 8
    figures = stats.as_dict(live=True)
    assert figures["maps"] == 8 and figures["map_ms"] == {"p50": 50, "p99": 50}
    assert figures["frame_age_ms"] == {"p50": 50, "p99": 99}


def viewed(tmp_path, source, seconds):
    """Figures of `live` without a display, and (MiB, threads, files) of each second."""
    figures, samples = tmp_path / "figures.json", []
    words = ("--model", "shapes", "--display", "none", "--duration", seconds, "--stats", figures)
    with start("live", "--source", source, *words) as process:
        program = psutil.Process(process.pid)
        while process.poll() is None:
            samples.append(sample(program))
            time.sleep(1.0)
        _, err = process.communicate(timeout=20)
        assert process.returncode == 0, err
    assert err == ""
    return json.loads(figures.read_text()), [one for one in samples if one]


def sample(program):
    """What the program holds; None where it is ending."""
    try:
        memory = program.memory_full_info().uss / 2**20
        return memory, program.num_threads(), program.num_fds()
    except psutil.NoSuchProcess:
        return None


@pytest.mark.release
def test_100000_pictures_leave_nothing_behind(tmp_path):
    """At 240 a second: the account is exact, memory, threads and files stand still."""
    figures, samples = viewed(tmp_path, "synthetic:240", 450)
    on_their_way = figures["frames_captured"] - figures["frames_shown"] - figures["frames_dropped"]
    assert 0 <= on_their_way <= 2 and figures["maps"] > 0
    assert (figures["traces"], figures["reconnects"]) == (1, 0)
    memory, threads, files = np.array(samples[120:]).T  # as many durations as are kept
    assert figures["frames_captured"] > 100_000
    assert memory[-60:].mean() - memory[:60].mean() < 1.0
    assert len(set(threads)) <= 2 and threads[-1] <= threads[0] and files[-1] <= files[0]
