"""Batches and samples of any number, in parts that fit into memory."""

import numpy as np
import pytest
import tensorflow as tf
from faults.networks import overflowing
from test_relevance import largest_difference, vgg_like

from realtime_lrp import Explainer
from realtime_lrp.errors import NotFiniteError, UnavailableError
from realtime_lrp.relevance.maps import compiled, perturbed

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.fixture(scope="module")
def model():
    return vgg_like()


@pytest.mark.parametrize(("samples", "chunk"), [(40, 8), (7, 3)])
def test_samples_in_chunks_give_the_map_of_all_at_once(samples, chunk, model, monkeypatch, rng):
    """40 samples in chunks of 8, 7 in chunks of 3, the last of which is shorter; one trace."""
    x = rng.normal(size=(2, 16, 16, 3)).astype("float32")
    options = {"method": "smoothgrad", "also": ["integrated_gradients"], "samples": samples}
    whole = Explainer(model, **options)
    monkeypatch.setattr(perturbed, "CHUNK_BYTES", chunk * whole._plans[0].activations)
    parts = Explainer(model, **options)
    got, expected = parts(x), whole(x)
    assert largest_difference(got.relevance, expected.relevance) < 1e-5
    path, all_at_once = (one.maps["integrated_gradients"] for one in (got, expected))
    assert largest_difference(path, all_at_once) < 1e-5
    assert parts.traces == 1


def test_a_large_batch_is_explained_in_parts(model, monkeypatch, rng):
    """Maps, scores and accounts as in one part; with a target for each picture, or of one."""
    explainer = Explainer(model, also=["gradient"])
    x = rng.normal(size=(7, 16, 16, 3))
    targets = [0, "top1", "all", 3, 4, "0 - 1", 2]
    calls = ((x, targets), (x.astype("float32"), 1), (tf.constant(x), None), (x[:1], targets))
    expected = [explainer(*call) for call in calls]
    scores = explainer.scores(x)
    monkeypatch.setattr(Explainer, "pictures_at_once", lambda self: 3)
    for call, right in zip(calls, expected, strict=True):
        got = explainer(*call)
        assert got.scores.shape == (7, 5) and got.targets == right.targets
        np.testing.assert_allclose(got.scores, right.scores, atol=1e-6)
        np.testing.assert_allclose(got.relevance, right.relevance, atol=1e-7)
        assert largest_difference(got.maps["gradient"], right.maps["gradient"]) < 1e-5
        (account,), (other,) = got.accounts.values(), right.accounts.values()
        np.testing.assert_allclose(account.started, other.started, atol=1e-6)
    np.testing.assert_allclose(explainer.scores(x), scores, atol=1e-6)


def test_one_picture_that_overflows_is_found_among_many(monkeypatch):
    """With its own target, in the second part of a batch."""
    explainer = Explainer(overflowing())
    monkeypatch.setattr(Explainer, "pictures_at_once", lambda self: 3)
    x = np.zeros((5, 16, 16, 3), np.float32)
    x[4, ..., 0] = 255
    with pytest.raises(NotFiniteError, match="Inf in the layer 'second'"):
        explainer(x, target=[0, 1, 2, 0, 1])


def test_a_batch_is_halved_where_a_device_has_too_little_memory():
    """Down to single entries; then an error says what to do."""
    tried = []

    def run(most):
        def limited(x):
            tried.append(len(x))
            if len(x) > most:
                raise tf.errors.ResourceExhaustedError(None, None, "OOM")
            return tf.constant(x) * 2

        return limited

    got = compiled.run_in_parts(run(2), [np.arange(7.0)], 100)
    np.testing.assert_array_equal(got, 2 * np.arange(7))
    assert tried == [7, 3, 1, 1, 1, 1, 1, 1, 1]
    with pytest.raises(UnavailableError, match="memory does not suffice to explain one picture"):
        compiled.run_in_parts(run(0), [np.arange(7.0)], 100)


def test_maps_that_do_not_fit_are_refused_at_once(model, monkeypatch, rng):
    """After the first part, with both numbers."""
    explainer = Explainer(model)
    monkeypatch.setattr(compiled, "available_bytes", lambda: 3 * explainer._plans[0].activations)
    assert explainer.pictures_at_once() == 1
    with pytest.raises(UnavailableError, match=r"The maps of 5000 pictures need 0\.0\d GiB"):
        explainer(np.zeros((5000, 16, 16, 3), np.float32))
