"""How quick networks are here: what `bench` measures, and what goes by it."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from test_in_flight import decide  # noqa: F401
from viewer import Viewer, engine_of

from realtime_lrp.commands import models
from realtime_lrp.commands.bench import run as bench
from realtime_lrp.engine import measured
from realtime_lrp.engine.measured import (
    PACES,
    THREADS,
    Pace,
    network_here,
    pace_of,
    quicker_network,
)
from realtime_lrp.errors import UnavailableError


@pytest.fixture(autouse=True)
def nothing_measured(monkeypatch, tmp_path):
    """An empty cache; the weights of four networks are there."""
    names = ["shapes", "vgg16", "mobilenet_v2", "efficientnet_b0", "efficientnet_b1"]
    for module in (measured, models, bench):
        monkeypatch.setattr(module, "present_networks", lambda: names)
    monkeypatch.setattr(measured, "user_cache_path", lambda name: tmp_path / name)


def put(**paces):
    for name, pace in paces.items():
        PACES.add(network_here(name), Pace(*pace))


def test_bench_runs_live_both_ways_and_keeps_what_it_measured(monkeypatch, caplog):
    """A network that cannot be run is named and left out."""
    asked = []

    def watch(words, duration_s, environment):
        threads, lines = environment[THREADS], Path(words[2]).read_text().splitlines()
        name = next(line for line in lines if line.startswith("  name: ")).split()[1]
        asked.append((name, threads))
        if name == "vgg16":
            raise UnavailableError("no weights")
        Path(words[4]).write_text(f'{{"maps_per_s": {40 if threads == "1" else 30}}}')
        return {"start_s": 2.0}

    monkeypatch.setattr(bench, "_watch", watch)
    monkeypatch.setattr(bench, "core_count", lambda: 2)
    monkeypatch.setattr(bench, "present_networks", lambda: ["shapes", "vgg16"])
    (row,) = bench.measure_networks(SimpleNamespace(status=lambda what: None))
    assert asked == [("shapes", "1"), ("shapes", "2"), ("vgg16", "1")] and "vgg16" in caplog.text
    assert row["each_core"] == row["maps_per_s"] == 40
    figures = {"precision": "float32", "map_age_ms": {"p50": 60.0, "p99": 90.0}}
    _, line, _ = bench.PARTS["networks"].lines([row | figures], {"map": "zplus"})
    assert " ".join(line.split()) == "shapes 40.0 30.0 float32 60 ms 90 ms 2.0 s"
    assert pace_of("Shapes") == Pace(40, 30) and pace_of("vgg16") is None


def test_what_was_measured_decides_how_cores_are_shared(decide):  # noqa: F811
    assert decide("shapes") and not decide("vgg16")
    put(shapes=(20, 25), vgg16=(9.7, 8.3))
    assert not decide("shapes") and decide("vgg16")


def test_a_quick_network_is_named_with_its_figure():
    """The one that is right most often, of those with 15 maps a second; nothing for quick ones."""
    assert "mobilenet_v2 is quicker (14 MB, not measured here)" in quicker_network("VGG16", 2.94)
    put(mobilenet_v2=(27, 16), efficientnet_b0=(18, 9), efficientnet_b1=(14, 9))
    text = quicker_network("vgg16", 2.94)
    assert text.startswith("vgg16 makes 2.9 ") and "efficientnet_b0 is quicker (29 MB, 18 " in text
    quick = quicker_network("vgg16", 5.0), quicker_network("mine.keras", 1), quicker_network("", 1)
    assert quick == ("", "", "")


def test_only_what_would_be_quicker_is_advised():
    """Not the network itself, none that is larger, none that was measured as slow."""
    small = "mobilenet_v2", "MobileNet_V2", "mobilenet_v3_small"
    assert [quicker_network(name, 3.0) for name in small] == [""] * 3
    put(mobilenet_v2=(4, 3), efficientnet_b0=(2, 1))
    assert quicker_network("vgg16", 2.94) == ""
    put(efficientnet_b0=(18, 9))
    assert "efficientnet_b0 is quicker" in quicker_network("mobilenet_v2", 3.0)
    assert quicker_network("efficientnet_b0", 3.0) == ""


def test_the_viewer_says_once_that_its_network_is_slow(caplog):
    """After five maps, on standard error and in the picture."""
    viewer = Viewer(**{"--model": "vgg16"})
    viewer.relevance.engine = engine_of(["cat", "dog"])
    for seconds in [2.0, *[0.4] * 3]:
        viewer.stats.map_made(1, seconds)
    viewer.loop._note_pace()
    assert not caplog.text
    viewer.stats.map_made(1, 0.4)
    for _ in range(2):
        viewer.loop._note_pace()
    assert viewer.state.notice.text.startswith("vgg16 makes 2.5 maps a second: ")
    assert caplog.text.count(viewer.state.notice.text) == 1
