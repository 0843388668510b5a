"""Relevance that grows without limit on its way back: named with its layer, never silent."""

import cv2
import keras
import numpy as np
import pytest
from faults.networks import deep_residual
from keras import layers

from realtime_lrp import Explainer
from realtime_lrp.errors import NotFiniteError
from realtime_lrp.relevance.rules.composites import COMPOSITES

GROWN = "the map explains nothing: relevance grew by a factor of "
ADVICE = "choose another --composite, or other rules for its layers (lrp.layers)"
NULL = "leave lrp.absorb_bias at null, or choose another --composite"
WITHOUT_BIASES = ("--composite", "epsilon", "--set", "lrp.absorb_bias=false")


@pytest.fixture(scope="module")
def words(tmp_path_factory):
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
def test_image_and_inspect_name_the_layer_once(run, words, tmp_path):
    """Without biases epsilon grows by far more: the map is written, with a warning and a note."""
    picture, options = words
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
