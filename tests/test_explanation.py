"""What an explanation tells, and how notebooks show it."""

import json
import pickle

import keras
import media
import naive
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util import tensor_util
from test_relevance import largest_difference

from realtime_lrp import COLORMAPS, Epsilon, Explainer, Network, config, load_network
from realtime_lrp.commands.inspect import run as run_inspect
from realtime_lrp.engine.result import MapKind, ResultMap
from realtime_lrp.engine.wording import map_note
from realtime_lrp.errors import UsageError
from realtime_lrp.relevance.maps.account import Account, State
from realtime_lrp.relevance.maps.targets import Target
from realtime_lrp.relevance.network.linear import Dense
from realtime_lrp.relevance.rules.rules import LayerContext
from realtime_lrp.video.libraries import cv2

LABELS = ["<script>alert(1)</script>", "$x^2$", "moon & sun", "\N{CAT FACE}"]


@pytest.fixture(scope="module")
def network(tiny_model):
    """Four classes, with labels that no file should be trusted to have."""
    model = keras.saving.load_model(tiny_model)
    model.set_weights([w if w.ndim > 1 else w + 0.1 for w in model.get_weights()])
    return Network("tiny <b>", model, preprocess="torch", labels=LABELS)


@pytest.fixture(scope="module")
def explainer(network):
    """LRP with biases, gamma in the convolution, and two more maps."""
    layers = {"Conv2D": "gamma(0.1)"}
    return Explainer(network, composite="epsilon", layers=layers, also=["epsilon", "gradient"])


@pytest.fixture(scope="module")
def pictures():
    return np.random.default_rng(5).integers(0, 256, (3, 32, 32, 3), np.uint8)


@pytest.fixture(scope="module")
def explanation(explainer, network, pictures):
    return explainer(network.prepare(pictures), target=["all", 2, "moon & sun - rest"])


def test_a_network_brings_its_labels_and_range(explainer, network, pictures):
    x = network.prepare(pictures)
    by_hand = Explainer(
        network.model, composite="epsilon_gamma_box", labels=LABELS, **network.box()
    )
    of_network = Explainer(network, composite="epsilon_gamma_box")
    maps = [one(x, target="moon & sun").relevance for one in (by_hand, of_network)]
    np.testing.assert_array_equal(*maps)
    with pytest.raises(UsageError, match=r"Expected a Keras model or a Network. Received 'shapes'"):
        Explainer("shapes")
    with pytest.raises(UsageError, match="is gone"):
        Explainer(Network("freed", None))


def test_every_map_is_found_by_its_name(explanation):
    for name in (explanation.name, "lrp"):
        np.testing.assert_array_equal(explanation.maps[name], explanation.relevance)
    assert explanation.name not in explanation.maps
    with pytest.raises(KeyError, match=f"there are '{explanation.name}', '"):
        explanation.maps["nothing"]


def test_the_best_answers_are_those_with_the_highest_scores(explanation):
    for answers, scores in zip(explanation.top(9), explanation.scores, strict=True):
        assert [answer.index for answer in answers] == np.argsort(-scores).tolist()
        assert [answer.score for answer in answers] == sorted(scores.tolist(), reverse=True)
        assert all(label == LABELS[index] for label, index, _ in answers)
    assert [len(answers) for answers in explanation.top(2)] == [2, 2, 2]
    for count in (0, -1, 1.5, True):
        with pytest.raises(UsageError, match="whole number above 0"):
            explanation.top(count)


def test_the_account_closes(explanation):
    assert set(explanation.accounts) == {"epsilon with layers", "epsilon"}
    for name, account in explanation.accounts.items():
        map_ = explanation.relevance if name != "epsilon" else explanation.maps[name]
        np.testing.assert_allclose(account.reached, map_.sum((1, 2, 3)), rtol=1e-5)
        np.testing.assert_allclose(account.lost, 0, atol=1e-5)
        assert abs(account.biases).max() > 0


def test_a_map_that_lost_almost_everything_says_so(explanation, vanishing_model, pictures):
    network = Network("v", keras.saving.load_model(vanishing_model), preprocess="none")
    gone = Explainer(network, composite="zplus", also=["gradient"])(network.prepare(pictures[:2]))
    assert gone.accounts["zplus"].vanished.tolist() == [True, True]
    assert not any(one.vanished.any() for one in explanation.accounts.values())
    texts = [[axes.get_title() for axes in one.plot().axes] for one in (gone, explanation)]
    assert ["zplus lost the relevance" in " ".join(one) for one in texts] == [True, False]


def test_plain_results_say_what_the_arrays_say(explanation):
    plain = json.loads(json.dumps(explanation.to_dict(top=2)))["pictures"]
    assert [one["target"] for one in plain] == ["all", "moon & sun", "moon & sun - rest"]
    best = explanation.scores.argmax(1)
    assert [one["top"][0]["index"] for one in plain] == best.tolist()
    assert plain[1]["maps"]["gradient"] == {
        "relevance_sum": pytest.approx(explanation.maps["gradient"][1].sum(), rel=1e-4),
        "relevance_magnitude": pytest.approx(abs(explanation.maps["gradient"][1]).sum(), rel=1e-4),
    }
    pytest.importorskip("pandas")
    frame = explanation.to_frame()
    assert frame["picture"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert frame["index"].tolist() == best.repeat(3).tolist()
    assert frame[frame["map"] == "gradient"]["lost"].isna().all()
    started = frame["relevance_sum"] + frame["taken_by_biases"] + frame["lost"]
    np.testing.assert_allclose(started.dropna(), frame["started"].dropna(), atol=1e-6)


def test_a_part_of_an_explanation_is_one(explanation):
    assert len(explanation) == 3 and len(explanation[1:]) == 2
    last = pickle.loads(pickle.dumps(explanation[-1]))
    assert last.to_dict()["pictures"] == explanation.to_dict()["pictures"][2:]
    np.testing.assert_array_equal(last.maps["gradient"], explanation.maps["gradient"][2:])
    for part in (np.int64(2), [2], np.array([False, False, True]), slice(2, None)):
        assert explanation[part].targets == (Target((2,), rest=True),)
        assert explanation[part].relevance.shape == (1, 32, 32, 3)
    with pytest.raises(IndexError):
        explanation[3]
    assert [str(one.targets[0]) for one in explanation] == ["all", "2", "2 - rest"]
    assert "of 1 picture by" in repr(last) and "of 3 pictures" in repr(explanation)


def test_the_pictures_are_what_the_network_saw(explanation, network, pictures):
    np.testing.assert_array_equal(explanation.pictures, pictures)
    of_model = Explainer(network.model)(network.prepare(pictures))
    assert of_model.pictures.shape == pictures.shape
    assert of_model.top(1)[0][0].label == f"class {of_model.scores[0].argmax()}"
    assert of_model.pictures.min() == 0 and of_model.pictures.max() == 255
    several = of_model[0:1]
    object.__setattr__(several, "x", np.zeros((1, 4, 4, 5), np.float32))
    assert several.pictures.shape == (1, 4, 4, 3)


def test_a_plot_has_pictures_maps_scales_and_labels(explanation, pictures):
    figure = explanation.plot()
    shown = [axes for axes in figure.axes if axes.get_title()]
    titles = [axes.get_title() for axes in shown]
    assert titles[1:4] == ["epsilon with layers", "epsilon", "gradient"]
    assert titles[4].endswith("explained: moon & sun")
    assert len(shown) == 12 and len(figure.axes) == 21  # and nine scales
    np.testing.assert_array_equal(shown[4].images[0].get_array(), pictures[1])
    gradient = explanation.maps["gradient"][1].sum(-1)
    np.testing.assert_allclose(shown[7].images[0].get_array(), gradient, rtol=1e-5, atol=1e-9)
    end = np.percentile(abs(gradient), 99.5)
    np.testing.assert_allclose(shown[7].images[0].get_clim(), (-end, end), rtol=1e-5)
    for notebook in (figure, explanation):
        assert notebook._repr_png_().startswith(b"\x89PNG")
    assert explanation[:0]._repr_png_() is None
    mine = explanation[:1].plot(pictures[:1, :5], colormap=COLORMAPS["icefire"])
    assert mine.axes[0].images[0].get_array().shape == (5, 32, 3)
    assert mine.axes[1].images[0].cmap(0)[:3] == pytest.approx(COLORMAPS["icefire"].table[0] / 255)


def test_a_map_has_vanished_where_neither_pixels_nor_biases_received_a_hundredth():
    """Of 1: 0.5 in the pixels, 0.5 in the biases, 0.004 in each, 0.02 below 0, 0.5 and -0.5."""
    started, reached, biases = np.array(
        [[1, 1, 1, 1, 1], [0.5, 0, 0.004, -0.02, 0.5], [0, 0.5, 0.004, 0, -0.5]], np.float32
    )
    account = Account(started, reached, biases, started, np.abs(reached))
    np.testing.assert_allclose(account.lost, [0.5, 0.5, 0.992, 1.02, 1], rtol=1e-6)
    assert account.vanished.tolist() == [False, False, True, False, False]


def test_each_state_of_a_map_has_one_sentence():
    for started, reached, biases, state, said in (
        (0.8, 0.5, 0.3, State.FULL, ""),
        (0.8, 4e-6, 0.799996, State.FULL, "biases took 99.9995 % of the score"),
        (0.8, 0.0008, 0.0, State.VANISHED, "99.9 % of the relevance was lost"),
        (5e-5, 5e-5, 0.0, State.FAINT, "about 0"),
        (0.8, 900.0, 0.0, State.FLOODED, "explains nothing"),
        (0.8, 0.0, 0.8, State.ZERO, "zero everywhere"),
    ):
        strength = np.zeros((2, 2), np.int8)
        figures = (1.0, reached, abs(reached), strength.copy)
        of_lrp = ResultMap(strength, *figures, MapKind("zplus", tolerance=0.01), False, started,
                           started, biases)  # fmt: skip
        assert of_lrp.state is state
        assert of_lrp.fade == (0.5 if state is State.FAINT else 1)
        assert said in map_note(of_lrp) and bool(map_note(of_lrp)) == bool(said)


def small(name="small"):
    x = keras.Input((6, 6, 3))
    h = layers.Conv2D(5, 3, activation="relu", name="conv")(x)
    y = layers.Dense(3, activation="softmax", name="dense")(layers.Flatten()(h))
    return keras.Model(x, y, name=name)


def test_lora_counts_as_the_merged_weights(tmp_path, rng):
    adapted, merged = small("adapted"), small("merged")
    for name in ("conv", "dense"):
        layer = adapted.get_layer(name)
        layer.enable_lora(2)
        for weight in layer.trainable_weights:
            weight.assign(rng.normal(size=weight.shape) * 0.3)
        merged.get_layer(name).set_weights([np.asarray(layer.kernel), np.asarray(layer.bias)])
    adapted.save(tmp_path / "adapted.keras")
    x = rng.normal(size=(2, 6, 6, 3)).astype("float32")
    expected = Explainer(merged, composite="epsilon", target=1)(x)
    for model in (adapted, load_network(str(tmp_path / "adapted.keras"), preprocess="none").model):
        got = Explainer(model, composite="epsilon", target=1)(x)
        np.testing.assert_allclose(got.scores, expected.scores, atol=1e-6)
        assert largest_difference(got.relevance, expected.relevance) < 1e-5


def test_epsilon_0_is_lrp_0(rng):
    kernel, bias = rng.normal(size=(4, 3)).astype("float32"), np.float32([0.5, 0, -0.2])
    kernel[:, 1] = 0
    a, relevance = (rng.normal(size=(2, n)).astype("float32") for n in (4, 3))
    inputs, biases = Epsilon(0).bind(
        Dense(tf.constant(kernel), tf.constant(bias)), LayerContext(absorb_bias=True)
    )(tf.constant(a), tf.constant(relevance))
    z = a @ kernel + bias
    s = np.divide(relevance, z, out=np.zeros_like(z), where=z != 0)
    np.testing.assert_allclose(inputs, a * (s @ kernel.T), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(biases, (s * bias).sum(1), rtol=1e-4, atol=1e-6)
    expected = naive.epsilon(naive.Layer(kernel[:, ::2]), a[0], relevance[0, ::2], 0)
    without = Epsilon(0).bind(Dense(tf.constant(kernel[:, ::2]), None), LayerContext())
    assert largest_difference(without(a[:1], tf.constant(relevance[:1, ::2]))[0], expected) < 1e-4


@pytest.fixture(scope="module")
def branched(tmp_path_factory):
    """A network with a branch, an addition, overlapping windows and logits below zero."""
    keras.utils.set_random_seed(5)
    x = keras.Input((24, 24, 3))
    stem = layers.Conv2D(6, 3, padding="same", activation="relu", name="stem")(x)
    side = layers.Conv2D(6, 1, activation="relu", name="side")(stem)
    pool = layers.MaxPooling2D(3, 2, name="pool")(layers.Add(name="both")([stem, side]))
    out = layers.Dense(4, activation="softmax", name="out")(layers.Flatten(name="flat")(pool))
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
    return EventAccumulator(str(folder), size_guidance={"tensors": 0}).Reload()


def values(events, tag):
    return {e.step: tensor_util.make_ndarray(e.tensor_proto) for e in events.Tensors(tag)}


def image(events, tag):
    data = np.frombuffer(values(events, tag)[0][2], np.uint8)
    return cv2.cvtColor(cv2.imdecode(data, cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)


def row(out, layer):
    return next(line.split() for line in out.splitlines() if line.split()[1:2] == [layer])


def test_every_layer_has_its_tags_in_the_order_of_relevance(inspected, explained):
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


def test_curves_are_sums_of_relevance_losses_are_marked(run, words, branched, explained, tmp_path):
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
