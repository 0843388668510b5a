"""Channels of a layer in the live view: the engine's answer, the thread, the panel, its keys."""

import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from realtime_lrp import config
from realtime_lrp.engine import engine as engines
from realtime_lrp.engine.concept_pipelines import (
    KEPT,
    NO_LAYERS,
    NOT_FINITE,
    NOT_LRP,
    ConceptPipelines,
    fetch_concepts,
)
from realtime_lrp.engine.concept_result import TOP, ConceptRequest, ConceptResult
from realtime_lrp.engine.tensorflow import tf
from realtime_lrp.errors import UsageError
from realtime_lrp.realtime.explaining import RelevanceThread, first_request
from realtime_lrp.realtime.latest import Slot
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.realtime.steady_shares import SteadyShares
from realtime_lrp.relevance.strength import strength
from realtime_lrp.video.reader import VideoReader

LAYER = "block5_conv2"


def settings(**options):
    """A configuration of the embedded network."""
    known = {"--model": "shapes", "--target": "top1", "--precision": "float32"}
    return config.load(options={**known, **options}, command="live").config


@pytest.fixture(scope="module")
def picture():
    """A picture of the demo's clip."""
    with VideoReader(config.ASSETS / "demo.mp4") as reader:
        return next(frame.picture for number, frame in enumerate(reader) if number == 115)


@pytest.fixture(scope="module")
def engine():
    """The embedded network."""
    return engines.Engine(settings(), keep_model=True)


def explained(engine, picture, *wanted):
    """The result of a picture with the channels of a layer."""
    (result,) = engine.begin([picture], concepts=ConceptRequest(*wanted))()
    return result


def test_the_engine_answers_what_the_explainer_does(engine, picture):
    """Channels, shares, maps and scores, in one run with the same main map."""
    (plain,) = engine.explain([picture])
    assert plain.concepts is None
    for layer in (LAYER, "block3_conv1"):
        result = explained(engine, picture, layer)
        x = engine.network.prepare(result.region.extract(picture)[None])
        expected = engine.explainer.concepts(x, layer, TOP)
        found, whole = result.concepts, np.abs(expected.by_channel).sum()
        assert (found.layer, found.problem, len(found.maps)) == (layer, "", TOP)
        assert [one.channel for one in found.maps] == expected.channels[0].tolist()
        at_layer = [one.relevance_at_layer for one in found.maps]
        np.testing.assert_allclose(at_layer, expected.shares[0], rtol=1e-4)
        np.testing.assert_allclose(
            [one.share for one in found.maps], expected.shares[0] / whole, rtol=1e-4
        )
        for one, of_channel in zip(found.maps, expected.maps[0], strict=True):
            np.testing.assert_allclose(one.relevance, of_channel, atol=1e-4 * of_channel.max())
            drawn, scale = strength(one.relevance[None])
            np.testing.assert_array_equal(one.strength, drawn[0])
            assert one.scale == pytest.approx(scale.numpy()[0])
            assert one.total == pytest.approx(of_channel.sum(), rel=1e-3)
        np.testing.assert_allclose(result.relevance, plain.relevance, atol=1e-6)
        np.testing.assert_array_equal(result.scores, plain.scores)
    assert engine.explainer.traces == 1


def test_a_channel_that_is_asked_for_is_there(engine, picture):
    """In place of the last of the largest, with the map of `conditional`."""
    largest = [one.channel for one in explained(engine, picture, LAYER).concepts.maps]
    other = next(channel for channel in range(128) if channel not in largest)
    result = explained(engine, picture, LAYER, other)
    assert [one.channel for one in result.concepts.maps] == [*largest[:-1], other]
    x = engine.network.prepare(result.region.extract(picture)[None])
    own = engine.explainer.conditional(x, {LAYER: [other]})[0]
    found = result.concepts.of(other).relevance
    np.testing.assert_allclose(found, own, atol=1e-5 * np.abs(own).max() + 1e-12)
    for channel in largest:
        again = explained(engine, picture, LAYER, channel).concepts
        assert [one.channel for one in again.maps] == largest


def test_layers_that_can_be_chosen(engine):
    """Convolutions after their activation, the last one by default; no pools, no dense layers."""
    layers = engine.concept_layers()
    assert (layers[0], layers[-1]) == ("block1_conv1", LAYER)
    assert all("conv" in name for name in layers)
    assert engine.concept_layer == LAYER
    chosen = config.load(sets=["concepts.layer=block3_conv1"], command="live").config
    assert engine.with_config(chosen).concept_layer == "block3_conv1"
    wrong = config.load(sets=["concepts.layer=block3_conv"], command="live").config
    with pytest.raises(UsageError, match=r"no concept layer 'block3_conv'\. Did you mean 'block3_"):
        engine.with_config(wrong)


def test_what_cannot_be_had_has_a_reason(engine, picture):
    """Another method, an unknown layer: the map is there, the channels say why not."""
    gradient = engine.with_config(settings(**{"--method": "gradient"}))
    assert gradient.concept_layers() == ()
    result = explained(gradient, picture)
    assert (result.concepts.problem, result.concepts.maps) == (NOT_LRP, ())
    assert result.maps[0].magnitude > 0
    unknown = explained(engine, picture, "block9").concepts
    assert "block9" in unknown.problem
    bare = ConceptPipelines(SimpleNamespace(concept_layers=()), None, None, None, True)
    wanted = ConceptRequest()
    assert (bare.is_ready(wanted), bare.run(None, None, wanted, None)) == (True, None)
    assert bare.refusal(wanted).problem == NO_LAYERS


def test_numbers_that_are_not_finite_are_a_reason():
    """Of that picture alone."""
    channels, shares = np.array([[1, 0], [0, 1]]), np.array([[1.0, -3], [np.nan, 1]])
    figures = [np.ones(4), np.ones(4), np.ones(4)]
    processed = [np.ones((4, 2, 2), np.int8), *figures]
    tensors = map(tf.constant, (channels, shares))
    found, broken = fetch_concepts("conv", (*tensors, list(map(tf.constant, processed)), None))
    assert [(one.channel, one.share) for one in found.maps] == [(1, -0.75), (0, 0.25)]
    assert (broken.problem, broken.maps) == (NOT_FINITE, ())


def test_few_functions_are_kept():
    """Those of the last layers, and each is compiled once as long as it is kept."""
    compiled = []

    def compile_(prepare, reduce, layer, top):
        compiled.append(layer)
        return lambda pictures, prior=None, targets=None: None

    layers = tuple(f"conv{number}" for number in range(KEPT + 1))
    explainer = SimpleNamespace(
        concept_layers=layers, compile_concept_pipeline=compile_, input_shape=(8, 8, 3)
    )
    pipelines = ConceptPipelines(explainer, layers[-1], None, None, False)
    for layer in (*layers, *layers[1:], layers[0]):
        pipelines.run(None, None, ConceptRequest(layer), None)
    assert compiled == [*layers, layers[0]]


class Scripted:
    """An engine whose channels have these shares, in each picture other ones."""

    def __init__(self, *pictures):
        self._pictures = iter(np.array(pictures, np.float32))

    def begin(self, pictures, concepts, prior):
        shares = next(self._pictures)
        order = np.argsort(-(np.abs(shares) + (0 if prior is None else prior)))
        maps = [SimpleNamespace(channel=channel) for channel in order[:2].tolist()]
        found = ConceptResult("conv", tuple(maps), shares)
        return lambda: [SimpleNamespace(concepts=found)]


def chosen(engine, steady, times, series="film"):
    """The channels of one picture after the other."""
    wanted = ConceptRequest("conv")
    found = [steady.begin(engine, None, wanted, series, now)()[0].concepts for now in times]
    return [sorted(one.channel for one in result.maps) for result in found]


def test_channels_stay_while_their_shares_flicker():
    """A single picture does not change them; a lasting change does, in less than a second."""
    flicker = [[0.4, 0.3, 0.28, 0.02], [0.4, 0.25, 0.33, 0.02]] * 8
    assert chosen(Scripted(*flicker), SteadyShares(), np.arange(16) / 30) == [[0, 1]] * 16
    lasting = [[0.4, 0.3, 0.28, 0.02]] * 15 + [[0.4, 0.1, 0.48, 0.02]] * 15
    rows = chosen(Scripted(*lasting), SteadyShares(), np.arange(30) / 30)
    assert (rows[14], rows[16], rows[29]) == ([0, 1], [0, 1], [0, 2])


def test_a_picture_that_stands_alone_has_its_largest_channels():
    """A frozen one, or the first of another target or file."""
    pictures = [[0.4, 0.3, 0.2]] * 10 + [[0.3, 0.3, 0.4]]
    engine, steady = Scripted(*pictures, *pictures[:1]), SteadyShares()
    assert chosen(engine, steady, np.arange(10) / 30) == [[0, 1]] * 10
    assert chosen(engine, steady, [0.3], series=None) == [[0, 2]]
    assert chosen(engine, steady, [0.4]) == [[0, 1]]


def test_the_thread_computes_channels_only_when_asked(picture):
    """The picture goes on until their function is compiled; a frozen picture gets them too."""
    frames = Slot()
    thread = RelevanceThread(
        settings(), frames, first_request(settings()), Stats("", ""), changeable=True
    )

    def until(condition, feed=True):
        end = time.monotonic() + 60
        while not condition():
            thread.check()
            assert time.monotonic() < end, "waited in vain"
            if feed:
                frames.put(picture, time.monotonic())
            time.sleep(0.01)

    def newest():
        item = thread.maps.newest()
        return item and item.value

    with thread:
        until(newest)
        wanted = ConceptRequest()
        assert newest().concepts is None and not thread.engine.has_concepts(wanted)
        frozen = newest().frame
        thread.request = replace(thread.request, frame=frozen, concepts=wanted)
        until(lambda: newest().concepts, feed=False)
        assert newest().frame is frozen and newest().concepts.layer == LAYER
        thread.request = replace(thread.request, frame=None, concepts=None)
        until(lambda: newest().frame is not frozen)
        assert newest().concepts is None
