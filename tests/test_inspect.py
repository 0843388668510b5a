"""`inspect`: its event files are read back, its table is computed again."""

import keras
import media
import numpy as np
import pytest
from keras import layers
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util

from realtime_lrp import config
from realtime_lrp.commands.inspect import run as run_inspect
from realtime_lrp.models.networks import load_network
from realtime_lrp.relevance.explainer import Explainer
from realtime_lrp.video.libraries import cv2


@pytest.fixture(scope="module")
def branched(tmp_path_factory):
    """A network with a branch, an addition, overlapping windows and logits below zero."""
    keras.utils.set_random_seed(5)
    x = keras.Input((24, 24, 3))
    stem = layers.Conv2D(6, 3, padding="same", activation="relu", name="stem")(x)
    side = layers.Conv2D(6, 1, activation="relu", name="side")(stem)
    both = layers.Add(name="both")([stem, side])
    pool = layers.MaxPooling2D(3, 2, name="pool")(both)
    flat = layers.Flatten(name="flat")(pool)
    out = layers.Dense(4, activation="softmax", name="out")(flat)
    path = tmp_path_factory.mktemp("model") / "branched.keras"
    keras.Model(x, out).save(path)
    return path


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    """A picture of noise, 24 x 24: just the size that the network sees."""
    noise = np.random.default_rng(20).integers(0, 256, (24, 24, 3), np.uint8)
    return media.write_picture(tmp_path_factory.mktemp("picture") / "in.png", noise)


@pytest.fixture(scope="module")
def explained(branched, picture):
    """The explainer and the input that the command should have."""
    network = load_network(str(branched), preprocess="rescale")
    view = cv2.cvtColor(cv2.imread(str(picture)), cv2.COLOR_BGR2RGB)
    return Explainer(network.model), network.prepare(view[None]).numpy()


@pytest.fixture(scope="module")
def inspected(branched, picture, tmp_path_factory):
    """A run without further options: folder, events, printed lines."""
    options = {"--model": str(branched), "--preprocess": "rescale"}
    logdir = tmp_path_factory.mktemp("log")
    lines = run_inspect(config.load(options=options).config, picture, logdir, False)
    (folder,) = logdir.iterdir()
    return folder, events_of(folder), "\n".join(lines)


@pytest.fixture
def words(branched, picture, tmp_path):
    common = ("--model", branched, "--preprocess", "rescale")
    return "inspect", picture, "--logdir", tmp_path / "tb", *common


def events_of(folder):
    """The events in a run's folder, as TensorBoard reads them."""
    return EventAccumulator(str(folder), size_guidance={"tensors": 0}).Reload()


def values(events, tag):
    return {e.step: tensor_util.make_ndarray(e.tensor_proto) for e in events.Tensors(tag)}


def image(events, tag):
    """A tag's picture, uint8 [h, w, 3] RGB."""
    data = np.frombuffer(values(events, tag)[0][2], np.uint8)
    return cv2.cvtColor(cv2.imdecode(data, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)


def row(out, layer):
    return next(line.split() for line in out.splitlines() if line.split()[1:2] == [layer])


def test_every_layer_has_its_tags_in_the_order_of_relevance(inspected, explained):
    """Histograms count every entry, images can be decoded, the picture comes last."""
    _, events, _ = inspected
    explainer, x = explained
    records = explainer.layers(x)
    tensors = {r.name: (r.output, r.arrived) for r in records}
    tensors["picture"] = x, explainer(x).relevance
    assert list(tensors) == ["out", "flat", "pool", "both", "side", "stem", "picture"]
    expected = {"00 all layers/sum of relevance", "00 all layers/lost", "provenance"}
    expected.add("00 all layers/taken by biases")
    for number, (name, pair) in enumerate(tensors.items(), 1):
        for what, tensor in zip(("activation", "relevance"), pair, strict=True):
            tag = f"{number:02d} {name}/{what}"
            expected |= {tag, f"{tag}, histogram"}
            buckets = values(events, f"{tag}, histogram")[0]
            assert buckets[:, 2].sum() == tensor.size
            assert buckets[0, 0] == pytest.approx(tensor.min())
            assert buckets[-1, 1] == pytest.approx(tensor.max())
            assert min(image(events, tag).shape[:2]) > 300
    expected |= {f"03 pool/two tensors, {what}" for what in ("activation", "relevance")}
    assert set(events.Tags()["tensors"]) == expected


def test_the_table_and_the_pools_line_hold_the_tensors_numbers(inspected, explained):
    folder, _, out = inspected
    explainer, x = explained
    for number, record in enumerate(explainer.layers(x), 1):
        words = row(out, record.name)
        assert words[0] == str(number)
        assert words[2] == record.kind
        assert record.rule in ("", words[3])
        assert float(words[-5]) == pytest.approx(record.output.max(), rel=1e-3)
        assert float(words[-4]) == pytest.approx(record.arrived.sum(), rel=1e-3)
        handed_down = sum(part.sum() for part in record.handed_down)
        assert words[-2] == "0"  # z+ gives biases nothing
        assert float(words[-3]) == pytest.approx(handed_down, rel=1e-3)
        assert abs(float(words[-1])) < 1e-4
    assert "24x24x6 + 24x24x6 -> 24x24x6" in out
    pool = next(r for r in explainer.layers(x) if r.name == "pool")
    reached, won = np.count_nonzero(pool.arrived), np.count_nonzero(pool.handed_down[0])
    assert won < reached  # windows overlap
    line = next(line for line in out.splitlines() if line.startswith("pool "))
    assert "reads 24x24x6 and writes 11x11x6" in line
    assert f"{reached} of the {11 * 11 * 6} entries written" in line
    assert f"{won} of the {24 * 24 * 6} entries read" in line
    assert "first maximum" in out
    assert str(folder) in out


def test_the_curves_are_the_sums_of_relevance_and_losses_are_marked(
    run, words, branched, explained, tmp_path
):
    """Step 0 is the output, step n layer n; a large epsilon loses some."""
    code, out, _ = run(*words, "--set", "lrp.layers={Conv2D: epsilon(9)}")
    assert code == 0
    (folder,) = (tmp_path / "tb").iterdir()
    events, model = events_of(folder), load_network(str(branched), preprocess="rescale").model
    explainer = Explainer(model, layers={"Conv2D": "epsilon(9)"})
    sums = np.ravel([one.sums() for one in explainer.layers(explained[1])])
    curve = values(events, "00 all layers/sum of relevance")
    np.testing.assert_allclose([float(curve[n]) for n in range(7)], [1, *sums], 1e-5)
    lost = values(events, "00 all layers/lost")
    arrived = [record.arrived.sum() for record in explainer.layers(explained[1])]
    np.testing.assert_allclose([float(lost[n]) for n in range(1, 7)], arrived - sums, atol=1e-6)
    for record, gone in zip(explainer.layers(explained[1]), arrived - sums, strict=True):
        assert ("!" in row(out, record.name)) == (gone > 0.001)
    assert "! This layer lost (below 0: added) more than 0.1% of the relevance" in out


def test_runs_are_replaced_only_on_request(run, words, tmp_path):
    """One folder for each setting; a folder that is not a run is never removed."""
    logdir = tmp_path / "tb"
    folder = logdir / "in-branched-zplus-all-preprocess=rescale"
    other = logdir / "in-branched-epsilon-all-preprocess=rescale-pool=average"
    for further in ((), ("--composite", "epsilon", "--pool", "average")):
        assert run(*words, *further)[0] == 0
    (old,) = folder.iterdir()
    code, _, err = run(*words)
    assert code == 73
    assert "--overwrite" in err
    assert list(folder.iterdir()) == [old]
    assert run(*words, "--overwrite")[0] == 0
    (new,) = folder.iterdir()
    assert new != old
    (folder / "notes.txt").touch()
    code, _, err = run(*words, "--overwrite")
    assert code == 73
    assert "notes.txt" in err
    assert set(logdir.iterdir()) == {folder, other}
