"""`bench`: its report, its baseline and its counts of operations."""

import json

import keras
import pytest
from test_relevance import largest_difference, vgg_like

from realtime_lrp import Explainer
from realtime_lrp.commands.bench import timing
from realtime_lrp.engine import device as hardware
from realtime_lrp.relevance.reading.building import build_graph

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.mark.release
def test_bench_measures_a_users_network(run, tiny_model, tmp_path):
    """A table on stdout and all figures in the file; `live` really ran."""
    target = tmp_path / "b.json"
    words = ("--model", tiny_model, "--json", target, "--set", "live.camera_size=640x480")
    code, out, err = run("bench", "--quick", *words)
    assert code == 0, err
    assert "the pictures hold values" not in err, "noise is prepared as pictures are"
    report = json.loads(target.read_text())
    rows = {(r["what"], r["precision"], r["batch"]): r for r in report["maps"]}
    assert set(rows) == {
        ("origin", "float32", 1),
        *((what, p, 1) for what in ("map", "forward") for p in timing.precisions()),
        *((what, hardware.device().fast_precision, 8) for what in ("map", "forward")),
    }
    assert all(0 < row["p10"] <= row["ms"] <= row["p90"] for row in rows.values())
    (run_30,) = report["live"]
    assert run_30["fps"] == 30 and run_30["frames_shown"] > 20 and run_30["traces"] == 1
    captured, shown, dropped = (run_30[f"frames_{n}"] for n in ("captured", "shown", "dropped"))
    assert 0 <= captured - shown - dropped <= 2
    assert run_30["start_s"] > 0.5
    assert 100 < run_30["memory_mib"] <= run_30["peak_memory_mib"]
    assert all(times["carry"]["ms"] > 0.1 for times in report["pictures"].values())
    assert report["machine"] in out and report["tensorflow"] in out
    assert ("Run it alone" in out) == (report["load"] > 1)
    origin = rows["origin", "float32", 1]["ms"]
    faster = origin / rows["map", "float32", 1]["ms"]
    assert f"{faster:.1f}" in out


def grouped():
    """A network with a convolution in groups."""
    grouped = keras.layers.Conv2D(4, 3, groups=2, activation="relu")
    ends = keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(3, activation="softmax")
    first = keras.layers.Conv2D(4, 3, activation="relu")
    return keras.Sequential([keras.Input((8, 8, 3)), first, grouped, *ends])


@pytest.mark.parametrize("build", [vgg_like, grouped])
def test_the_baseline_gives_our_maps(build, rng):
    """The original arithmetic gives the same map in another way."""
    keras.utils.set_random_seed(1)
    model = build()
    x = rng.uniform(0, 255, size=(2, *model.input_shape[1:])).astype("float32")
    origin, ours = timing.baseline(build_graph(model, "max")), Explainer(model)
    assert largest_difference(origin(x).relevance, ours(x).relevance) < 1e-5
    types = [op.type for op in origin._run.traced().graph.get_operations()]
    assert types.count("Maximum") >= 4  # max(w, 0) for every picture
    assert "_MklNativeFusedConv2D" not in types


def test_operations_and_weights_are_counted():
    """By hand: 2 operations for each use of a weight."""
    x = keras.Input((8, 8, 3))
    h = keras.layers.Conv2D(4, 3, padding="same")(x)
    h = keras.layers.DepthwiseConv2D(3, strides=2, padding="same")(h)
    h = keras.layers.Conv2DTranspose(2, 2, strides=2)(h)
    y = keras.layers.Dense(5, activation="softmax")(keras.layers.Flatten()(h))
    explainer = Explainer(keras.Model(x, y))
    assert explainer.weights == 108 + 36 + 32 + 640
    assert explainer.flops == 2 * (108 * 64 + 36 * 16 + 32 * 16 + 640)
