"""Which device computes, in which precision, and what happens when a GPU fails."""

import contextlib
import json
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from faults.clock import until

from realtime_lrp import config
from realtime_lrp.engine import device as hardware
from realtime_lrp.engine import device as times
from realtime_lrp.engine import engine as engines
from realtime_lrp.engine import loading
from realtime_lrp.engine import measured as measured_figures
from realtime_lrp.engine.device import PrecisionTimes
from realtime_lrp.engine.sight import Begun
from realtime_lrp.errors import UnavailableError
from realtime_lrp.models.networks import load_network
from realtime_lrp.realtime import explaining as relevance_thread
from realtime_lrp.realtime.explaining import first_request
from realtime_lrp.realtime.latest import Slot
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.relevance.maps.compiled import Explained
from realtime_lrp.relevance.reading import building


@pytest.mark.parametrize(
    ("times", "precision"),
    [
        (PrecisionTimes(20.0, 17.5), "bfloat16"),
        (PrecisionTimes(20.0, 18.5), "float32"),
        (PrecisionTimes(20.0, None), "float32"),
    ],
)
def test_a_processor_that_is_faster_in_bfloat16_gets_it(times, precision, tmp_path, monkeypatch):
    """What was measured decides, by a tenth or more; it is asked for by model, cores, features."""
    file, asked = tmp_path / "cpuinfo", []
    file.write_text("model name : Some CPU\nflags : fpu avx512f avx512_bf16 amx_bf16 amx_tile\n")
    monkeypatch.setattr(measured_figures, "CPU_INFO", file)
    monkeypatch.setattr(hardware, "precision_times", lambda name: asked.append(name) or times)
    found = hardware.cpu.__wrapped__()
    assert found == hardware.Device("/CPU:0", "CPU", precision, times)
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
    """The log names the GPU, and the CPU computes."""
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
    assert [hardware._of_gpu(c) for c in ((6, 1), (7, 0), (7, 5), (8, 0), (9, 0))] == [
        "float32", "float32", "float32", "bfloat16", "bfloat16"
    ]  # fmt: skip


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


@pytest.mark.parametrize(
    ("words", "moving", "precision"),
    [
        ({"--composite": "zplus"}, True, "bfloat16"),
        ({"--composite": "zplus"}, False, "float32"),
        ({"--composite": "zplus", "--target": "1 - 2"}, True, "float32"),
        ({"--composite": "epsilon_plus_flat"}, True, "bfloat16"),
        ({"--composite": "epsilon_plus_flat", "--set": "lrp.absorb_bias=false"}, True, "float32"),
        ({"--composite": "epsilon_gamma_box"}, True, "float32"),
        ({"--method": "grad_cam"}, True, "float32"),
        ({"--precision": "bfloat16", "--composite": "epsilon"}, False, "bfloat16"),
    ],
)
def test_auto_is_quick_only_where_the_maps_stay_the_same(
    words, moving, precision, tiny_model, on_gpu
):
    """And only for moving pictures; an explicit precision is always used."""
    assert engines.Engine(settings(tiny_model, **words), moving=moving).precision == precision


def test_a_network_is_timed_once_where_rounding_keeps_its_map(
    tiny_model, monkeypatch, measured, rng
):
    """Float32 is chosen where bfloat16 gains less than a tenth; the next start knows it.

    As many maps are timed at once as are computed later.
    """
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


def test_a_network_by_name_is_compared_with_its_steps_once_for_each_keras(
    tiny_model, measured, monkeypatch
):
    """Any other one whenever it is loaded."""
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
    """Two batches in flight fail; both get their maps; the network is loaded only once more."""
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
    """On a GPU the next frame starts before the results of the last one are waited for."""
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
    request = first_request(settings(tiny_model))
    with relevance_thread.RelevanceThread(
        settings(tiny_model), frames, request, Stats("", "")
    ) as relevance:
        until(lambda: relevance.check() or relevance.waiting.number)  # for frames
        relevance.engine.in_flight = in_flight
        frames.put(np.full((32, 32, 3), 1, np.uint8), time.monotonic())
        until(lambda: relevance.check() or relevance.maps.count == 6)
    assert [number for step, number in steps if step == "wait"] == list(range(1, 7))
    ahead = [
        steps.index(("begin", number + 1)) < steps.index(("wait", number)) for number in range(1, 6)
    ]
    assert ahead == [in_flight == 2] * 5


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


@pytest.mark.parametrize(
    "damaged",
    [
        b"\xff\xfe", b'{"KEY": {"float32": 1.0}}', b"[" * 100_000,
        b'{"KEY": {"float32": 1.0, "bfloat16": 0}}',
    ],
)  # fmt: skip
def test_a_processor_is_measured_once_unless_its_file_is_damaged(damaged, measured, tmp_path):
    """The second time it is read from the file; another processor is measured, and both stay."""
    first, second, third = (PrecisionTimes(20.0, 10.0 + n) for n in range(3))
    asked = ("4 x Some CPU", "4 x Some CPU", "2 x Some CPU", "4 x Some CPU")
    assert [times.precision_times(one) for one in asked] == [first, first, second, first]
    (file,) = (tmp_path / "cache" / "realtime-lrp").iterdir()
    keys = list(json.loads(file.read_text()))
    assert len(keys) == 2 and all("TensorFlow" in key and "realtime-lrp" in key for key in keys)
    file.write_bytes(damaged.replace(b"KEY", keys[0].encode()))
    assert [times.precision_times("4 x Some CPU") for _ in range(2)] == [third, third]
    assert len(measured) == 3
