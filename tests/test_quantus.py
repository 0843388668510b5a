"""The metrics against those of Quantus (Hedström et al. 2023), where it is installed.

It is no dependency: `pip install quantus` and run `pytest -m release tests/test_quantus.py`. What
both define alike has to agree; docs/evaluation.md lists what they define differently.
"""

import keras
import numpy as np
import pytest

from realtime_lrp import Explainer
from realtime_lrp.commands.evaluate import curves
from realtime_lrp.relevance.maps import measures

quantus = pytest.importorskip("quantus")
pytestmark = [
    pytest.mark.release,
    pytest.mark.filterwarnings("ignore"),
]

SIDE, COUNT, CLASSES = 32, 12, 2
COMPOSITE = "epsilon_plus_flat"


@pytest.fixture(scope="module")
def network():
    """A small convolutional network with random weights, two classes and a softmax."""
    keras.utils.set_random_seed(7)
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((SIDE, SIDE, 3)),
            layers.Conv2D(8, 3, padding="same", activation="relu", name="first"),
            layers.MaxPooling2D(2),
            layers.Conv2D(8, 3, padding="same", activation="relu", name="second"),
            layers.Flatten(),
            layers.Dense(CLASSES, activation="softmax", name="last"),
        ]
    )


@pytest.fixture(scope="module")
def pictures():
    """Noise that is bright in places, from 0 to 1."""
    rng = np.random.default_rng(0)
    coarse = rng.random((COUNT, SIDE // 8, SIDE // 8, 3)).repeat(8, axis=1).repeat(8, axis=2)
    return (0.7 * coarse + 0.3 * rng.random((COUNT, SIDE, SIDE, 3))).astype(np.float32)


@pytest.fixture(scope="module")
def classes(network, pictures):
    """The answers."""
    return network.predict(pictures, verbose=0).argmax(axis=1)


@pytest.fixture(scope="module")
def masks(pictures):
    """Rectangles of different sizes."""
    rng, found = np.random.default_rng(1), np.zeros((COUNT, SIDE, SIDE), bool)
    for mask in found:
        y, x = rng.integers(0, SIDE // 2, 2)
        height, width = rng.integers(4, SIDE // 2, 2)
        mask[y : y + height, x : x + width] = True
    return found


def maps_of(model, pictures, classes):
    """The positive part of the maps of classes."""
    relevance = Explainer(model, composite=COMPOSITE)(pictures, target=list(classes)).relevance
    return measures.supporting_relevance(relevance, COMPOSITE)


@pytest.fixture(scope="module")
def maps(network, pictures, classes):
    """The maps of the answers, with a little noise, so that no two entries are equal."""
    maps = maps_of(network, pictures, classes)
    return maps + 1e-6 * maps.max() * np.random.default_rng(2).random(maps.shape)


def explain(model, inputs, targets, **_):
    """What Quantus calls: inputs with their channels last or first."""
    if inputs.shape[-1] != 3:
        inputs = np.moveaxis(inputs, 1, -1)
    return maps_of(model, inputs, targets)[:, None]


def scores(metric, network, pictures, classes, maps=None, **more):
    """A metric of Quantus for each picture."""
    return metric(
        model=network,
        x_batch=pictures,
        y_batch=classes,
        a_batch=None if maps is None else maps[:, None],
        channel_first=False,
        **more,
    )


RAW = {"abs": False, "normalise": False, "disable_warnings": True}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (measures.pointing_game, "PointingGame"),
        (measures.mass_accuracy, "RelevanceMassAccuracy"),
        (measures.rank_accuracy, "RelevanceRankAccuracy"),
    ],
)
def test_localisation(ours, theirs, network, pictures, classes, maps, masks):
    """The same to the precision of float32."""
    metric = getattr(quantus, theirs)(**RAW)
    found = scores(metric, network, pictures, classes, maps, s_batch=masks[:, None])
    np.testing.assert_allclose(np.array(found, float), ours(maps, masks), rtol=1e-5)
    assert 0 < np.mean(found) < 1


def test_random_logit(network, pictures, classes, maps):
    """Of two classes the other one is also the random one; Spearman's correlation in both."""
    metric = quantus.RandomLogit(
        similarity_func=quantus.similarity_func.correlation_spearman, num_classes=CLASSES, **RAW
    )
    found = scores(metric, network, pictures, classes, maps, explain_func=explain)
    other = maps_of(network, pictures, 1 - classes)
    np.testing.assert_allclose(found, measures.spearman(maps, other), atol=1e-6)


def test_parameter_randomisation(network, pictures, classes, maps):
    """Of networks that were randomised alike the same.

    Quantus randomises a clone without the trained weights: all layers are random from the first
    stage on, by Keras's global seed.
    """
    metric = quantus.MPRT(layer_order="top_down", seed=3, **RAW)
    keras.utils.set_random_seed(11)
    found = scores(metric, network, pictures, classes, maps, explain_func=explain, softmax=True)
    wrapped = quantus.helpers.utils.get_wrapped_model(network, channel_first=False, softmax=True)
    keras.utils.set_random_seed(11)
    stages = wrapped.get_random_layer_generator(order="top_down", seed=3)
    names = []
    for name, randomised in stages:
        similarity = measures.spearman(maps, maps_of(randomised, pictures, classes))
        np.testing.assert_allclose(found[name], similarity, atol=1e-6)
        names.append(name)
    assert names == ["last", "second", "first"]
    assert np.nanmean(found["first"]) < 0.9


def test_deletion(network, pictures, classes, maps):
    """Region perturbation with our patches and our blur: the same probability at each point."""
    as_bytes = (pictures * 255).round().astype(np.uint8)

    def probabilities(batch):
        return network.predict(batch.astype(np.float32) / 255, verbose=0)

    meter = curves.CurveMeter(probabilities, as_bytes, classes)
    ranks = measures.patch_ranks(maps, curves.GRID, np.random.default_rng(0))
    ours = meter.measure(ranks, np.arange(COUNT))["deletion"]

    blurred = np.moveaxis(meter._blurred.astype(np.float32) / 255, -1, 1).reshape(COUNT, -1)

    def blur(arr, indices, **_):
        changed = arr.copy()
        rows = np.arange(COUNT)[:, None]
        changed[rows, indices] = blurred[rows, indices]
        return changed

    patches = curves.GRID**2
    metric = quantus.RegionPerturbation(
        patch_size=SIDE // curves.GRID, regions_evaluation=patches, order="morf",
        perturb_func=blur, **RAW,
    )  # fmt: skip
    falls = scores(metric, network, as_bytes.astype(np.float32) / 255, classes, maps, softmax=True)
    theirs = ours[0] - np.concatenate([np.zeros((COUNT, 1)), falls], axis=1).T
    np.testing.assert_allclose(ours, theirs[curves.REPLACED], atol=1e-5)
    assert np.ptp(ours, axis=0).max() > 0.01
