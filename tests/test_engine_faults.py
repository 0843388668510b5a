"""Networks that compute NaN or Inf, memory that does not suffice: named, and the rest goes on."""

import json

import cv2
import keras
import media
import numpy as np
import pytest
from faults.networks import Bounded, Failing, deep_residual, overflowing
from keras import layers

from realtime_lrp import Explainer, config
from realtime_lrp.engine import engine as engines
from realtime_lrp.engine.device import Device
from realtime_lrp.errors import DamagedInputError, NotFiniteError, UnavailableError, UsageError
from realtime_lrp.relevance.rules.composites import COMPOSITES

pytestmark = pytest.mark.usefixtures("compiled")

WAYS = [
    *({"composite": name} for name in ("zplus", "epsilon_plus_flat", "epsilon_gamma_box")),
    *({"method": name} for name in ("gradient", "guided_backprop", "grad_cam", "smoothgrad")),
]


@pytest.fixture(scope="module")
def overflowing_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "overflowing.keras"
    overflowing().save(path)
    path.with_suffix(".txt").write_text("a\nb\nc\n")
    return path


def words(file):
    return ("--model", file, "--labels", file.with_suffix(".txt"), "--preprocess", "none")


BRIGHT, DARK = np.full((1, 16, 16, 3), 200.0), np.zeros((1, 16, 16, 3))
"""Pictures for which that network overflows, and does not."""


@pytest.fixture(scope="module")
def hiding():
    """That network; its scores are finite, because ReLUs turn NaN into 0."""
    model = overflowing()
    assert np.isfinite(Explainer(model).scores(BRIGHT)).all()
    return model


@pytest.mark.parametrize("way", WAYS, ids=lambda way: next(iter(way.values())))
def test_every_method_notices_what_a_relu_hides(way, hiding):
    explainer = Explainer(hiding, **way, low=0.0, high=255.0)
    with pytest.raises(NotFiniteError, match=r"Inf in the layer 'second' \(Conv2D\)"):
        explainer(np.concatenate([DARK, BRIGHT]))
    assert np.isfinite(explainer(DARK).relevance).all()


def test_weights_that_are_not_finite_are_refused_with_their_layer():
    for value in (np.nan, np.inf):
        model = overflowing()
        kernel, bias = model.get_layer("third").get_weights()
        bias[2] = value
        model.get_layer("third").set_weights([kernel, bias])
        with pytest.raises(DamagedInputError, match=r"'bias' of the layer 'third' \(Conv2D\)"):
            Explainer(model)


def test_a_batch_that_is_no_array_of_finite_numbers_is_refused(hiding):
    """With a message, not with TensorFlow's traceback; a fused ReLU would hide Inf."""
    explainer, batch = Explainer(hiding), "Expected a batch of pictures"
    for x, words in (
        (np.full((1, 16, 16, 3), -np.inf), "NaN or Inf"), ("abc", batch),
        ([[1.0], [2.0, 3.0]], batch),
        (np.zeros((16, 16, 3)), r"x\[None\]"),
        (np.zeros((0, 16, 16, 3)), "at least one"),  # pools would crash
    ):  # fmt: skip
        with pytest.raises(UsageError, match=words):
            explainer(x)


def test_a_picture_is_refused_and_the_others_are_explained(run, overflowing_file, tmp_path):
    bright = media.write_picture(tmp_path / "bright.png", media.plain((200, 9, 9)))
    dark = media.write_picture(tmp_path / "dark.png", media.plain((0, 0, 0)))
    (tmp_path / "out").mkdir()
    code, out, err = run("image", bright, "-o", tmp_path / "one.png", *words(overflowing_file))
    assert (code, out) == (65, "") and "Inf in the layer 'second' (Conv2D)" in err
    assert len(err.splitlines()) == 1 and not (tmp_path / "one.png").exists()
    code, out, err = run("image", bright, dark, "-o", tmp_path / "out", *words(overflowing_file))
    assert code == 65 and "dark.png: " in out and "Inf in the layer 'second'" in err
    assert "1 of 2 pictures explained, 1 failed" in err
    assert [one.name for one in (tmp_path / "out").glob("[!.]*")] == ["dark.png"]


def test_frames_without_a_map_are_kept_and_counted(run, overflowing_file, tmp_path):
    """All frames are written; those without a map say so in the picture and in the sidecar."""
    dark, bright = media.plain((0, 0, 0)), media.plain((200, 9, 9))
    source = media.write_video(tmp_path / "in.mp4", [dark] * 5 + [bright] * 3 + [dark] * 4)
    target = tmp_path / "out.mp4"
    options = ("--sidecar", "--summary", "--batch", "4", *words(overflowing_file))
    code, out, err = run("video", source, "-o", target, *options)
    assert code == 0 and "12 frames" in out
    assert "3 frames have no map: the network computes NaN or Inf" in err
    assert err.count("Inf in the layer 'second'") == 1
    assert len(media.times_of(target)) == 12
    rows = [json.loads(line) for line in target.with_suffix(".jsonl").read_text().splitlines()]
    assert [bool(row["top5"]) for row in rows] == [True] * 5 + [False] * 3 + [True] * 4
    assert cv2.imread(str(target.with_suffix(".summary.png"))) is not None
    source = media.write_video(tmp_path / "bright.mp4", [bright] * 12)
    before = {*tmp_path.iterdir()}
    code, _, err = run("video", source, "-o", tmp_path / "b.mp4", *words(overflowing_file))
    assert code == 65 and "Inf in the layer 'second'" in err and {*tmp_path.iterdir()} == before


def settings(file):
    """A configuration with a network in float32."""
    options = {"--model": str(file), "--preprocess": "none", "--precision": "float32"}
    return config.load(options=options).config


def test_a_batch_that_is_too_large_is_explained_in_halves(tiny_model, rng):
    """Maps equal those of single pictures; if a single picture is too large, an error says so."""
    engine = engines.Engine(settings(tiny_model))
    pictures = rng.integers(0, 256, (7, 40, 50, 3), np.uint8)
    expected = [engine.explain([picture])[0] for picture in pictures]
    engine._pipeline = bounded = Bounded(engine._pipeline, 2)
    for result, right in zip(engine.explain(pictures), expected, strict=True):
        np.testing.assert_allclose(result.relevance, right.relevance, atol=1e-6)
    assert bounded.tried == [7, 4, 2, 2, 3, 2, 1]
    targets = [0, 1, 2, 3, "top1", "0 - 1", "all"]
    results = engine.explain(pictures, targets)
    for picture, target, result in zip(pictures, targets, results, strict=True):
        (right,) = engine.explain([picture], [target])
        np.testing.assert_allclose(result.relevance, right.relevance, atol=1e-6)
        assert str(result.target) == str(target) and result.maps[0].started == right.maps[0].started
    np.testing.assert_allclose(results[1].maps[0].started, results[1].scores[1], rtol=1e-5)
    with pytest.raises(UsageError, match="one target for each of 7 pictures"):
        engine.explain(pictures, [1, 2])
    engine._pipeline = Bounded(bounded._explain, 0)
    with pytest.raises(UnavailableError, match="memory does not suffice to explain one picture"):
        engine.explain(pictures)


def test_what_fails_from_the_first_picture_on_is_told_and_tried_again(tiny_model, monkeypatch):
    """The viewer shows the camera and why there is no map, until maps come."""
    monkeypatch.setattr("realtime_lrp.realtime.explaining.RETRY_S", 0.05)
    failing = Failing(settings(tiny_model), NotFiniteError("Inf in the layer 'x'."), times=5)
    with failing.thread as thread:
        told = failing.until(lambda: thread.maps.count)
    assert list(told)[:2] == ["", "no map, trying again: Inf in the layer 'x'."]
    assert failing.thread.failing == "" and failing.left < 0


@pytest.mark.parametrize(
    ("error", "device"), [(RuntimeError("CUDA"), "CPU"), (NotFiniteError("Inf"), "Small GPU")]
)
def test_a_gpu_that_fails_three_times_is_left(tiny_model, monkeypatch, caplog, error, device):
    """But not because of NaN or Inf, which the CPU would compute as well."""
    monkeypatch.setattr("realtime_lrp.realtime.explaining.RETRY_S", 0.05)
    monkeypatch.setattr(engines, "device", lambda: Device("/GPU:0", "Small GPU", "float32"))
    failing = Failing(settings(tiny_model), error, times=4)
    with failing.thread as thread:
        failing.until(lambda: thread.maps.count)
    assert failing.engine.device == device
    assert caplog.text.count("computing on the CPU") == (device == "CPU")


def test_pictures_too_large_for_the_memory_are_refused(run, tmp_path, monkeypatch):
    """Judged by the exact size of one picture's activations, before computing."""
    x = keras.Input((None, None, 3))
    h = layers.Conv2D(4, 3, padding="same", activation="relu")(x)
    y = layers.Dense(2, activation="softmax")(layers.GlobalAveragePooling2D()(h))
    keras.Model(x, y).save(tmp_path / "free.keras")
    picture = media.write_picture(tmp_path / "in.png", media.plain())
    network = ("--model", tmp_path / "free.keras", "--preprocess", "none", "--size", "300x200")
    numbers = 300 * 200 * (3 + 4 + 4) + 4 + 4 + 2 + 2  # up to the ReLU; pool, flat; dense, softmax
    for there, code in ((4 * numbers - 1, 69), (4 * numbers, 0)):
        monkeypatch.setattr(
            "realtime_lrp.relevance.network.checks.available_bytes", lambda there=there: there
        )
        ended, _, err = run("image", picture, "-o", tmp_path / f"{code}.png", *network)
        assert ended == code, err
        assert (code == 0) != ("with pictures of 300 x 200 is too large" in err)


GROWN = "the map explains nothing: relevance grew by a factor of "
ADVICE = "choose another --composite, or other rules for its layers (lrp.layers)"
NULL = "leave lrp.absorb_bias at null, or choose another --composite"
WITHOUT_BIASES = ("--composite", "epsilon", "--set", "lrp.absorb_bias=false")


@pytest.fixture(scope="module")
def deep_words(tmp_path_factory):
    """A file of nine such blocks and a picture of noise: the options and the picture."""
    folder = tmp_path_factory.mktemp("deep")
    deep_residual(blocks=9).save(folder / "deep.keras")
    pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)
    cv2.imwrite(str(folder / "noise.png"), pixels)
    options = ("--model", folder / "deep.keras", "--preprocess", "tf", "--target", "top1")
    return folder / "noise.png", options


@pytest.mark.parametrize(
    ("blocks", "names"),
    [
        (5, ["epsilon", "epsilon_alpha2_beta1_flat", "epsilon_gamma_box"]),
        pytest.param(16, list(COMPOSITES), marks=pytest.mark.release),
    ],
)
def test_a_deep_residual_network_stays_within_its_answer(blocks, names, rng):
    """The sum of magnitudes is at most 1000 times the score."""
    deep = deep_residual(blocks)
    x = rng.uniform(-1, 1, (2, 16, 16, 3)).astype("float32")
    explanation = Explainer(deep, also=names, target="top1", low=-1, high=1)(x)
    for name, relevance in explanation.maps.items():
        grown = np.abs(relevance).sum((1, 2, 3)) / explanation.scores.max(1)
        assert (grown < 1000).all(), name


@pytest.mark.release
def test_image_and_inspect_name_the_layer_once(run, deep_words, tmp_path):
    """Without biases epsilon grows by far more: the map is written, with a warning and a note."""
    picture, options = deep_words
    code, out, err = run("image", picture, "-o", tmp_path / "x.png", *options, *WITHOUT_BIASES)
    assert code == 0 and "explains nothing: relevance grew without limit)" in out
    assert err.count(GROWN) == 1 and NULL in err and "most in the layer 'mix" in err
    code, _, err = run("inspect", picture, "--logdir", tmp_path, *options, *WITHOUT_BIASES)
    assert code == 0 and err.count(GROWN) == 1 and NULL in err


def test_relevance_that_overflows_blames_the_way_back_not_the_weights():
    """The scores are finite; the error names a layer and advises another composite."""
    model = keras.Sequential(
        [keras.Input((1, 2, 1)), layers.Flatten(),
         layers.Dense(2, activation="softmax", name="cancels")]
    )  # fmt: skip
    weights = [np.array([[100.0, 100.0], [-100.0, -100.0]]), np.full(2, 2e-38)]
    model.get_layer("cancels").set_weights(weights)
    with pytest.raises(NotFiniteError) as refused:
        Explainer(model, composite="epsilon", layers={"*": "epsilon(0)"})(np.ones((1, 1, 2, 1)))
    text = str(refused.value)
    assert "behind the layer 'cancels' (Dense)" in text and ADVICE in text
    assert "weights" not in text and "preprocess" not in text
