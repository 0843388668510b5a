"""Which device computes, in which precision, and what happens when a GPU fails."""

import contextlib
import json
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
import uncompiled
from faults.clock import until
from viewer import Viewer, engine_of

from realtime_lrp import config
from realtime_lrp.commands import models
from realtime_lrp.commands.bench import run as bench
from realtime_lrp.engine import device as hardware
from realtime_lrp.engine import device as times
from realtime_lrp.engine import engine as engines
from realtime_lrp.engine import loading
from realtime_lrp.engine import measured as measured_figures
from realtime_lrp.engine.device import PrecisionTimes
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.measured import PACES, Pace, network_here, pace_of, quicker_network
from realtime_lrp.engine.sight import Begun
from realtime_lrp.errors import NotFiniteError, UnavailableError
from realtime_lrp.models.networks import load_network
from realtime_lrp.realtime import explaining as relevance_thread
from realtime_lrp.realtime.explaining import RelevanceThread, first_request
from realtime_lrp.realtime.latest import Slot
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.relevance.maps import compiled as functions
from realtime_lrp.relevance.maps.compiled import Explained
from realtime_lrp.relevance.reading import building


@pytest.mark.parametrize(("times", "precision"), [
    (PrecisionTimes(20.0, 17.5), "bfloat16"), (PrecisionTimes(20.0, 18.5), "float32"),
    (PrecisionTimes(20.0, None), "float32"),
])  # fmt: skip
def test_a_processor_that_is_faster_in_bfloat16_gets_it(times, precision, tmp_path, monkeypatch):
    """What was measured decides, by a tenth or more; it is asked for by model, cores, features."""
    file, asked = tmp_path / "cpuinfo", []
    file.write_text("model name : Some CPU\nflags : fpu avx512f avx512_bf16 amx_bf16 amx_tile\n")
    monkeypatch.setattr(measured_figures, "CPU_INFO", file)
    monkeypatch.setattr(hardware, "precision_times", lambda name: asked.append(name) or times)
    assert hardware.cpu.__wrapped__() == hardware.Device("/CPU:0", "CPU", precision, times)
    cores, name = asked[0].split(" x ")
    assert cores.isdecimal() and name == "Some CPU amx_bf16 avx512_bf16"
    file.unlink()
    hardware.cpu.__wrapped__()
    assert "bf16" not in asked[1]


class Gpu:
    """A GPU in TensorFlow's list. There is none here, so using it fails as with a broken one."""

    name = "/physical_device:GPU:0"
    device_type = "GPU"


def test_a_gpu_that_does_not_work_is_named_and_not_used(monkeypatch, caplog):
    monkeypatch.setattr(hardware.tf.config, "list_physical_devices", lambda kind: [Gpu()])
    details = {"device_name": "Big GPU", "compute_capability": (8, 6)}
    config = hardware.tf.config.experimental
    monkeypatch.setattr(config, "get_device_details", lambda gpu: details)
    assert hardware.device.__wrapped__() == hardware.cpu()
    assert "Big GPU" in caplog.text and "computing on the CPU" in caplog.text
    with monkeypatch.context() as patch:
        patch.setattr(config, "set_memory_growth", lambda gpu, on: None)
        patch.setattr(hardware.tf, "device", lambda scope: contextlib.nullcontext())
        found = hardware.device.__wrapped__()
        assert found == hardware.Device("/GPU:0", "Big GPU", "bfloat16") and found.is_gpu
        for capability, fast in ((7, 5), "float32"), ((8, 0), "bfloat16"), ((9, 0), "bfloat16"):
            details["compute_capability"] = capability
            assert hardware.device.__wrapped__().fast_precision == fast


def fake_gpu(precision="bfloat16"):
    """A device that claims to be a GPU; TensorFlow falls back to the CPU silently."""
    return hardware.Device("/GPU:0", "Small GPU", precision)


@pytest.fixture
def on_gpu(monkeypatch):
    monkeypatch.setattr(engines, "device", fake_gpu)


def settings(tiny_model, **words):
    words = {"--model": str(tiny_model), "--preprocess": "none", **words}
    sets = (words.pop("--set"),) if "--set" in words else ()
    return config.load(options=words, sets=sets).config


@pytest.mark.parametrize(("words", "moving", "precision"), [
    ({"--composite": "zplus"}, True, "bfloat16"), ({"--composite": "zplus"}, False, "float32"),
    ({"--composite": "zplus", "--target": "1 - 2"}, True, "float32"),
    ({"--composite": "epsilon_plus_flat"}, True, "bfloat16"),
    ({"--composite": "epsilon_plus_flat", "--set": "lrp.absorb_bias=false"}, True, "float32"),
    ({"--composite": "epsilon_gamma_box"}, True, "float32"),
    ({"--method": "grad_cam"}, True, "float32"),
    ({"--precision": "bfloat16", "--composite": "epsilon"}, False, "bfloat16"),
])  # fmt: skip
def test_auto_is_quick_only_where_maps_stay_the_same(words, moving, precision, tiny_model, on_gpu):
    assert engines.Engine(settings(tiny_model, **words), moving=moving).precision == precision


def test_a_network_is_timed_once_if_rounding_keeps_its_map(tiny_model, monkeypatch, measured, rng):
    timed, found = [], {"zplus": 18.5, "epsilon_plus_flat": 17.5}

    def shortest(*runs):
        timed.append([len(run()) for run in runs])
        return PrecisionTimes(20.0, found[composite])

    processor = hardware.Device("/CPU:0", "CPU", "bfloat16")
    monkeypatch.setattr(engines, "device", lambda: processor)
    monkeypatch.setattr(loading, "shortest_times", shortest)
    picture = rng.integers(0, 256, (40, 50, 3), np.uint8)
    for composite, precision in (("zplus", "float32"), ("epsilon_plus_flat", "bfloat16")):
        words = settings(tiny_model, **{"--composite": composite})
        first, again = (engines.Engine(words, moving=True) for _ in range(2))
        assert first.precision == again.precision == precision
    assert timed == [[1, 1], [1, 1]]
    (got,), (expected,) = (
        engines.Engine(settings(tiny_model, **{"--composite": "zplus"}), moving).explain([picture])
        for moving in (True, False)
    )
    np.testing.assert_array_equal(got.relevance, expected.relevance)
    words = settings(tiny_model, **{"--composite": "epsilon_plus"})
    with monkeypatch.context() as large:
        large.setattr(loading, "MAX_KEPT_WEIGHTS", 0)  # typical layers decide
        assert engines.Engine(words, moving=True).precision == "bfloat16" and len(timed) == 2
    with ThreadPoolExecutor(3) as pool:
        monkeypatch.setattr(measured_figures, "_pool", pool)
        monkeypatch.setattr(loading, "core_count", lambda: 3)
        engines.Engine(words, moving=True)
    assert timed[2:] == [[3, 3]]


def test_a_named_network_is_compared_with_its_steps_once_a_keras(tiny_model, measured, monkeypatch):
    compared, check = [], building.check_calls
    monkeypatch.setattr(building, "check_calls", lambda *a: compared.append(1) or check(*a))
    monkeypatch.setattr(loading, "load_network", lambda *a, **b: load_network(str(tiny_model)))
    named, other = (config.Config(model={"name": name}) for name in ("MobileNet_V2", "mine.keras"))
    counts = []
    for chosen in (named, named, other, other):
        loading.load(chosen, False)
        counts.append(len(compared))
    monkeypatch.setattr(loading.keras, "__version__", "99")
    loading.load(named, False)
    assert [*counts, len(compared)] == [1, 1, 2, 3, 4]


def test_a_full_gpu_hands_over_to_the_cpu(tiny_model, on_gpu, caplog, monkeypatch, rng):
    words = settings(tiny_model, **{"--precision": "float32"})
    engine = engines.Engine(words)
    assert (engine.device, engine.in_flight) == ("Small GPU", 2)
    pictures = [rng.integers(0, 256, (40, 50, 3), np.uint8) for _ in range(2)]
    expected = [engine.explain([picture])[0] for picture in pictures]

    class Full:
        """What a tensor does whose operation found no memory."""

        def numpy(self):
            raise hardware.tf.errors.ResourceExhaustedError(None, None, "OOM")

    loads, load = [], loading.load_network
    monkeypatch.setattr(
        loading, "load_network", lambda *words, **more: loads.append(1) or load(*words, **more)
    )
    output = Explained(Full(), Full(), [Full()], [Full()], [[Full()] * 4], (), (), (), ())
    engine._pipeline = lambda batch, targets: output
    begun = [engine.begin([picture]) for picture in pictures]
    results = [one()[0] for one in begun]
    assert (engine.device, engine.in_flight, len(loads)) == ("CPU", 1, 1)
    assert caplog.text.count("computing on the CPU") == 1
    for result, right in zip(results, expected, strict=True):
        np.testing.assert_allclose(result.relevance, right.relevance, atol=1e-6)
        np.testing.assert_array_equal(result.maps[0].strength, right.maps[0].strength)

    def full(batch, targets):
        raise hardware.tf.errors.ResourceExhaustedError(None, None, "OOM")

    engine._pipeline = full
    with pytest.raises(UnavailableError):  # the CPU has no one behind it
        engine.explain(pictures)


@pytest.mark.parametrize("in_flight", [1, 2])
def test_so_many_frames_are_in_flight_and_maps_keep_their_order(in_flight, tiny_model, monkeypatch):
    frames, steps = Slot(), []

    class Scripted(engines.Engine):
        def begin(self, pictures, **options):
            number = int(pictures[0][0, 0, 0])
            steps.append(("begin", number))
            results = super().begin(pictures, **options)
            if number < 6:
                frames.put(np.full((32, 32, 3), number + 1, np.uint8), time.monotonic())

            def wait():
                steps.append(("wait", number))
                return results()

            return Begun(wait)

    monkeypatch.setattr(engines, "Engine", Scripted)
    with relevance_thread.RelevanceThread(
        settings(tiny_model), frames, first_request(settings(tiny_model)), Stats("", "")
    ) as relevance:
        until(lambda: relevance.check() or relevance.waiting.number)  # for frames
        relevance.engine.in_flight = in_flight
        frames.put(np.full((32, 32, 3), 1, np.uint8), time.monotonic())
        until(lambda: relevance.check() or relevance.maps.count == 6)
    assert [number for step, number in steps if step == "wait"] == list(range(1, 7))
    assert [
        steps.index(("begin", number + 1)) < steps.index(("wait", number)) for number in range(1, 6)
    ] == [in_flight == 2] * 5


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """The measurements that were made; the cache is an empty folder that does not exist yet."""
    made = []

    def measure():
        made.append(PrecisionTimes(20.0, 10.0 + len(made)))
        return made[-1]

    monkeypatch.setattr(times, "measure", measure)
    monkeypatch.setattr(measured_figures, "user_cache_path", lambda name: tmp_path / "cache" / name)
    return made


@pytest.mark.parametrize("damaged", [
    b"\xff\xfe", b'{"KEY": {"float32": 1.0}}', b"[" * 100_000,
    b'{"KEY": {"float32": 1.0, "bfloat16": 0}}',
])  # fmt: skip
def test_a_processor_is_measured_once_unless_its_file_is_damaged(damaged, measured, tmp_path):
    first, second, third = (PrecisionTimes(20.0, 10.0 + n) for n in range(3))
    asked = ("4 x Some CPU", "4 x Some CPU", "2 x Some CPU", "4 x Some CPU")
    assert [times.precision_times(one) for one in asked] == [first, first, second, first]
    (file,) = (tmp_path / "cache" / "realtime-lrp").iterdir()
    keys = list(json.loads(file.read_text()))
    assert len(keys) == 2 and all("TensorFlow" in key and "realtime-lrp" in key for key in keys)
    file.write_bytes(damaged.replace(b"KEY", keys[0].encode()))
    assert [times.precision_times("4 x Some CPU") for _ in range(2)] == [third, third]
    assert len(measured) == 3


@pytest.fixture
def decide(monkeypatch):
    """Whether a network computes a map on each core, as in a process without TensorFlow."""
    monkeypatch.setattr(measured_figures, "core_count", lambda: 2)
    monkeypatch.setenv(measured_figures.THREADS, "2")
    monkeypatch.delenv(measured_figures.THREADS)

    def decide(name, threads=None, loaded=False):
        monkeypatch.setattr(measured_figures, "_pool", None)
        with monkeypatch.context() as patch:
            if not loaded:
                patch.delitem(sys.modules, "tensorflow")
            if threads:
                patch.setenv(measured_figures.THREADS, threads)
            measured_figures.share_cores(str(name))
            found = measured_figures.pool() is not None
            assert (os.environ.pop(measured_figures.THREADS, None) == "1") == found
        return found

    return decide


def test_the_size_of_the_weights_decides_wherever_they_are(decide, tmp_path, monkeypatch):
    monkeypatch.setenv("KAGGLEHUB_CACHE", str(tmp_path / "kaggle"))
    preset = tmp_path / "kaggle/models/keras/deit/keras/deit_tiny/1/model.weights.h5"
    small, large = tmp_path / "small.keras", tmp_path / "large.keras"
    saved, variables = tmp_path / "saved", tmp_path / "saved/variables/variables.data"
    for file in (small, large, variables, preset):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"weights")
    each_its_own = ("shapes", "ResNet50", small, saved, "hub:deit_tiny", f"hub:{preset.parent}")
    assert all(map(decide, each_its_own))
    os.truncate(large, measured_figures.SMALL + 1)
    os.truncate(variables, measured_figures.SMALL + 1)
    shared = "vgg16", large, saved, tmp_path / "missing.keras", "hub:vit", "", "x" * 5000
    assert not any(map(decide, shared))


def test_who_sets_the_number_of_threads_decides(decide):
    assert decide("vgg16", threads="1") and not decide("shapes", threads="4")
    assert not decide("shapes", loaded=True)
    assert decide("shapes") and not decide("vgg16")
    put(shapes=(20, 25), vgg16=(9.7, 8.3))
    assert not decide("shapes") and decide("vgg16")


@pytest.fixture(scope="module")
def both(tiny_model):
    """One that computes one map at a time, and one that computes two."""
    with pytest.MonkeyPatch.context() as patch:
        chosen = config.load(options={"--model": str(tiny_model)}).config
        alone = Engine(chosen, moving=True)
        patch.setattr(measured_figures, "_pool", ThreadPoolExecutor(2))
        patch.setattr("realtime_lrp.engine.engine.core_count", lambda: 2)
        yield alone, Engine(chosen, moving=True)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_maps_and_scores_are_the_same_and_in_order(both, count):
    alone, beside = both
    assert (alone.in_flight, beside.in_flight) == (1, 2)
    rng = np.random.default_rng(1)
    pictures = [rng.integers(0, 255, (40 + n, 30, 3), np.uint8) for n in range(count)]
    targets = [0, 1, "top1", "all", 1][:count]
    begun = beside.begin(pictures, targets)
    for result, right in zip(begun(), alone.explain(pictures, targets), strict=True):
        assert (result.target, result.region) == (right.target, right.region)
        np.testing.assert_allclose(result.scores, right.scores, atol=1e-6)
        np.testing.assert_allclose(result.relevance, right.relevance, atol=1e-6)
    assert begun.done() and beside.explainer.traces == 1
    extracted = np.stack([alone.region(one.shape[:2]).extract(one) for one in pictures])
    np.testing.assert_allclose(beside.scores(extracted), alone.scores(extracted), atol=1e-6)


def test_an_error_in_one_part_reaches_who_asked(both, monkeypatch):
    _, beside = both
    begin, pictures = beside._begin, np.zeros((4, 32, 32, 3), np.uint8)
    pictures[3] = 1

    def fail(batch):
        if batch.pictures[-1].any():
            raise NotFiniteError("the last part")
        return begin(batch)

    monkeypatch.setattr(beside, "_begin", fail)
    with pytest.raises(NotFiniteError, match="the last part"):
        beside.explain(pictures)
    assert len(beside.explain(pictures[:3])) == 3


def test_no_more_pictures_are_computed_at_once_than_fit(both, monkeypatch):
    _, beside = both
    sizes, pipeline = [], beside._pipeline
    monkeypatch.setattr(beside.explainer, "pictures_at_once", lambda: 4)
    monkeypatch.setattr(
        beside, "_pipeline", lambda x, targets: sizes.append(len(x)) or pipeline(x, targets)
    )
    assert len(beside.explain(np.zeros((12, 32, 32, 3), np.uint8))) == 12
    assert sum(sizes) == 12 and max(sizes) <= 2


def test_each_thread_has_computed_a_map_before_the_first_one_counts(both, monkeypatch):
    _, beside = both
    sizes, pipeline = [], beside._pipeline

    def noted(batch, targets):
        sizes.append(len(batch))
        if len(sizes) > 2:
            raise tf.errors.ResourceExhaustedError(None, None, "")
        return pipeline(batch, targets)

    for engine in both:
        monkeypatch.setattr(engine, "_pipeline", noted)
        engine.warm_up()
    assert sizes == [1, 1], "a map that all cores share is hardly slower the first time"
    beside.warm_up()


def test_no_map_in_flight_grows_old_while_others_get_their_time(both, monkeypatch):
    _, beside = both
    chosen, frames, steps = beside.config, Slot(), []
    thread = RelevanceThread(chosen, frames, first_request(chosen), Stats())
    thread.others = lambda: 1
    monkeypatch.setattr(thread._stop, "wait", lambda seconds: steps.append("rest"))
    monkeypatch.setattr(
        thread.maps, "put", lambda explained, _: steps.append(explained.frame.number)
    )
    for number in range(4):
        frames.put(np.full((32, 32, 3), number, np.uint8), float(number))
        thread._go_on(thread.request, beside)
    assert steps == [1, 2, "rest", 3, 4, "rest"]


@uncompiled.compiled()
def test_a_function_is_compiled_once_however_many_threads_call_it():
    traced, start = [], threading.Barrier(4)
    lazy = functions.Lazy(lambda: traced.append(1) or 7)

    def call(_):
        start.wait()
        return int(lazy())

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(call, range(4))) == [7] * 4
    assert traced == [1]


@pytest.fixture(autouse=True)
def nothing_measured(monkeypatch, tmp_path):
    """An empty cache; the weights of four networks are there."""
    names = ["shapes", "vgg16", "mobilenet_v2", "efficientnet_b0", "efficientnet_b1"]
    for module in (measured_figures, models, bench):
        monkeypatch.setattr(module, "present_networks", lambda: names)
    monkeypatch.setattr(measured_figures, "user_cache_path", lambda name: tmp_path / name)


def put(**paces):
    for name, pace in paces.items():
        PACES.add(network_here(name), Pace(*pace))


def test_bench_runs_live_both_ways_and_keeps_what_it_measured(monkeypatch, caplog):
    asked = []

    def watch(words, duration_s, environment):
        threads = environment[measured_figures.THREADS]
        lines = Path(words[2]).read_text().splitlines()
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


def test_a_quick_network_is_named_with_its_figure():
    assert "mobilenet_v2 is quicker (14 MB, not measured here)" in quicker_network("VGG16", 2.94)
    small = "mobilenet_v2", "MobileNet_V2", "mobilenet_v3_small"
    assert [quicker_network(name, 3.0) for name in small] == [""] * 3
    put(mobilenet_v2=(27, 16), efficientnet_b0=(18, 9), efficientnet_b1=(14, 9))
    text = quicker_network("vgg16", 2.94)
    assert text.startswith("vgg16 makes 2.9 ") and "efficientnet_b0 is quicker (29 MB, 18 " in text
    quick = quicker_network("vgg16", 5.0), quicker_network("mine.keras", 1), quicker_network("", 1)
    assert quick == ("", "", "")
    put(mobilenet_v2=(4, 3), efficientnet_b0=(2, 1), efficientnet_b1=(2, 1))
    assert quicker_network("vgg16", 2.94) == "", "none that was measured as slow"
    put(efficientnet_b0=(18, 9))
    assert "efficientnet_b0 is quicker" in quicker_network("mobilenet_v2", 3.0)
    assert quicker_network("efficientnet_b0", 3.0) == "", "not the network itself"


def test_the_viewer_says_once_that_its_network_is_slow(caplog):
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
