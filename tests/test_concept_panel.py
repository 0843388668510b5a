"""Channels of a layer in the live view: the engine's answer, the thread, the panel, its keys."""

import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from viewer import LOOK, Viewer, answer, engine_of, event_named, explained_frame, state_of

from realtime_lrp import config
from realtime_lrp.engine import engine as engines
from realtime_lrp.engine import result as results
from realtime_lrp.engine.boxes import drawable
from realtime_lrp.engine.concept_pipelines import NO_LAYERS, NOT_LRP, ConceptPipelines
from realtime_lrp.engine.result import ConceptRequest, ConceptResult
from realtime_lrp.engine.tensorflow import tf
from realtime_lrp.realtime.explaining import SteadyShares
from realtime_lrp.realtime.latest import Item
from realtime_lrp.realtime.viewer import events
from realtime_lrp.realtime.viewer import maps as viewer_maps
from realtime_lrp.realtime.viewer.handle import handle
from realtime_lrp.realtime.viewer.maps import UNPICTURED, ConceptView, MapPainter
from realtime_lrp.realtime.viewer.state import DrawnView
from realtime_lrp.relevance.maps.compiled import ChannelOutput
from realtime_lrp.relevance.maps.strength import strength
from realtime_lrp.video.reader import VideoReader
from realtime_lrp.view import hud
from realtime_lrp.view.concepts import ConceptArtist, ConceptPanel
from realtime_lrp.view.painting import intensity
from realtime_lrp.view.window import Mouse

LAYER = "block5_conv2"


def settings(**options):
    known = {"--model": "shapes", "--target": "top1", "--precision": "float32"}
    return config.load(options={**known, **options}, command="live").config


@pytest.fixture(scope="module")
def picture():
    with VideoReader(config.ASSETS / "demo.mp4") as reader:
        return next(frame.picture for number, frame in enumerate(reader) if number == 115)


@pytest.fixture(scope="module")
def engine():
    return engines.Engine(settings(), keep_model=True)


def explained(engine, picture, *wanted):
    """The result of a picture with the channels of a layer."""
    (result,) = engine.begin([picture], concepts=ConceptRequest(*wanted))()
    return result


def test_the_engine_answers_what_the_explainer_does(engine, picture):
    (plain,) = engine.explain([picture])
    assert plain.concepts is None
    for layer in (LAYER, "block3_conv1"):
        result = explained(engine, picture, layer)
        x = engine.network.prepare(result.region.extract(picture)[None])
        expected = engine.explainer.concepts(x, layer, results.TOP)
        found, whole = result.concepts, np.abs(expected.by_channel).sum()
        assert (found.layer, found.problem, len(found.maps)) == (layer, "", results.TOP)
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
    largest = [one.channel for one in explained(engine, picture, LAYER).concepts.maps]
    other = next(channel for channel in range(128) if channel not in largest)
    result = explained(engine, picture, LAYER, other)
    assert [one.channel for one in result.concepts.maps] == [*largest[:-1], other]
    x = engine.network.prepare(result.region.extract(picture)[None])
    own = engine.explainer.concepts(x, LAYER, channels=[other]).maps[0, 0]
    found = result.concepts.of(other).relevance
    np.testing.assert_allclose(found, own, atol=1e-5 * np.abs(own).max() + 1e-12)
    for channel in largest:
        again = explained(engine, picture, LAYER, channel).concepts
        assert [one.channel for one in again.maps] == largest


def test_what_cannot_be_had_has_a_reason(engine, picture):
    gradient = engine.with_config(settings(**{"--method": "gradient"}))
    assert gradient.concepts.layers == ()
    result = explained(gradient, picture)
    assert (result.concepts.problem, result.concepts.maps) == (NOT_LRP, ())
    assert result.maps[0].magnitude > 0
    assert "block9" in explained(engine, picture, "block9").concepts.problem
    bare = ConceptPipelines(SimpleNamespace(concept_layers=()), None, None, None, None)
    wanted = ConceptRequest()
    assert (bare.is_ready(wanted), bare.run(None, wanted)) == (True, None)
    assert bare.refusal(wanted).problem == NO_LAYERS


def test_numbers_that_are_not_finite_are_a_reason():
    channels, shares = np.array([[1, 0], [0, 1]]), np.array([[1.0, -3], [np.nan, 1]])
    processed = [np.ones((4, 2, 2), np.int8), np.ones(4), np.ones(4), np.ones(4)]
    tensors = tf.nest.map_structure(tf.constant, (shares, channels, processed))
    found, broken = results.fetch_concepts("conv", ChannelOutput(*tensors))
    assert [(one.channel, one.share) for one in found.maps] == [(1, -0.75), (0, 0.25)]
    assert (broken.problem, broken.maps) == (results.NOT_FINITE, ())


class Scripted:
    """An engine whose channels have these shares, in each picture other ones."""

    def __init__(self, *pictures):
        self._pictures = iter(np.array(pictures, np.float32))

    def explain(self, prior):
        shares = next(self._pictures)
        parts = np.abs(shares) / np.abs(shares).sum()
        added, factor = (0, 1) if prior is None else prior
        order = np.argsort(-(parts + added) * factor)
        maps = [SimpleNamespace(channel=channel) for channel in order[:2].tolist()]
        return ConceptResult("conv", tuple(maps), parts * np.sign(shares))


def chosen(engine, steady, times, series="film"):
    found = []
    for now in times:
        found.append(engine.explain(steady.prior(series, now)))
        if series:
            steady.add(series, found[-1], now)
    return [sorted(one.channel for one in result.maps) for result in found]


@pytest.mark.parametrize("relevance", [1.0, 0.01, 50.0])
@pytest.mark.parametrize("period", [0.033, 0.3, 0.65])
def test_channels_stay_while_their_shares_flicker(relevance, period):
    flicker = np.array([[0.4, -0.3, 0.28, 0.02], [0.4, -0.26, 0.32, 0.02]] * 8) * relevance
    assert chosen(Scripted(*flicker), SteadyShares(), np.arange(16) * period) == [[0, 1]] * 16


@pytest.mark.parametrize("period", [0.033, 0.3, 0.65])
def test_a_shown_channel_gives_way_to_one_that_is_30_percent_larger(period):
    for larger, rows in ((1.28, [0, 1]), (1.32, [0, 2])):
        pictures = [[0.4, 0.2, 0.1, 0.1]] * 3 + [[0.4, 0.2, 0.2 * larger, 0]] * 60
        found = chosen(Scripted(*pictures), SteadyShares(), np.arange(63) * period)
        assert (found[2], found[-1]) == ([0, 1], rows)


def test_shares_fade_with_time():
    steady, kept = SteadyShares(), np.exp(-1)
    for shares, now in (([1.0, 0.0], 0.0), ([0.0, 1.0], 0.2)):
        steady.add("film", ConceptResult("conv", (), np.array(shares)), now)
    weight = kept / (1 - kept)
    np.testing.assert_allclose(
        steady.prior("film", 0.4)[0], [kept * weight, (1 - kept) * weight], rtol=1e-5
    )


def test_a_frozen_picture_has_its_own_shares():
    steady = SteadyShares()
    steady.add("film", ConceptResult("conv", (), np.array([1.0, 0.0])), 0.0)
    before = steady.prior("film", 0.2)
    for shares in ([0.0, 1.0], [0.5, 0.5]):
        assert steady.add(None, ConceptResult("conv", (), np.array(shares)), 0.1).tolist() == shares
    np.testing.assert_array_equal(steady.prior("film", 0.2), before)


def found_of(*channels, layer="conv2", followed=None, scale=1.0):
    """A result with these channels: a map each, shares in equal steps down from 0.4."""
    maps = [
        results.ConceptMap(
            np.full((8, 8), 100 - number, np.int8), scale / (number + 1), 1.0, 1.0,
            lambda: np.zeros((8, 8, 3), np.float32),
            channel, 4.0 - number, 0.4 - 0.1 * number,
        )
        for number, channel in enumerate(channels)
    ]  # fmt: skip
    return ConceptResult(layer, tuple(maps), np.zeros(64, np.float32))


def frame_with(found, request, number=1, engine=None):
    """An explained frame with these channels, of a picture 32 x 32."""
    frame = Item(np.full((32, 32, 3), 90, np.uint8), number, 0.0)
    return explained_frame(
        frame, np.zeros((8, 8), np.float32), (0, 0, 32, 32), request=request, concepts=found,
        engine=engine or engine_of(("heart", "star", "cup")),
    )  # fmt: skip


def showing(*keys, **answers):
    state = state_of(**{"--model": "shapes"})
    layers = answers.pop("layers", ("conv1", "conv2"))
    known = answer(
        concept_layers=layers, described_layers=answers.pop("described", layers),
        concept_layer=layers[-1],
    )  # fmt: skip
    frame = Item(np.zeros((32, 32, 3), np.uint8), 1, 0.0)
    rows = (((70, 10, 90, 20), 5), ((70, 20, 90, 30), 17))
    drawn = events.FrameDrawn(DrawnView(frame, *known, ((0, 0, 64, 64),), None, rows))
    return pressed(handle(state, drawn), "c", *keys)


def pressed(state, *keys):
    for key in keys:
        state = handle(state, event_named(key, time=5.0))
    return state


def test_rows_are_sorted_and_change_places_only_for_a_fifth_more():
    for before, ranks, after in (
        ([], {7: 4.0, 3: 3.0, 9: 2.0, 1: 1.0}, [7, 3, 9, 1]),
        ([3, 7], {7: 3.3, 3: 3.0, 5: 0.1}, [3, 7, 5]),
        ([3, 7], {7: 3.7, 3: 3.0, 5: 9.0}, [5, 7, 3]),
        ([7, 3, 9, 1], {4: 4.0, 5: 3.0, 6: 2.0, 8: 1.0}, [4, 5, 6, 8]),
    ):
        assert viewer_maps.sorted_rows(before, ranks) == after


def test_keys_show_the_panel_and_change_its_layer():
    state = showing()
    assert state.request.concepts == ConceptRequest()
    higher = pressed(state, "higher_layer")
    assert higher.request is state.request and "last layer" in higher.notice.text
    lower = pressed(state, "lower_layer")
    assert lower.request.concepts == ConceptRequest("conv1")
    assert "conv1, 1 of 2" in lower.notice.text
    assert "first layer" in pressed(lower, "lower_layer").notice.text
    hidden = pressed(lower, "c")
    assert hidden.request.concepts is None
    assert pressed(hidden, "c").request.concepts == ConceptRequest("conv1")
    assert pressed(lower, "higher_layer").request.concepts == ConceptRequest("conv2")
    assert pressed(hidden, "lower_layer").request.concepts == ConceptRequest("conv1"), "shown first"
    lower_config, hidden_config = lower.present_config(), hidden.present_config()
    assert (lower_config.live.concepts, lower_config.concepts.layer) == (True, "conv1")
    assert not hidden_config.live.concepts


def test_a_click_on_a_row_follows_its_channel():
    move = events.MouseMoved(75, 25, "", time=6.0)
    followed = handle(handle(showing(), move), events.MouseMoved(75, 25, "left", time=7.0))
    assert followed.request.concepts == ConceptRequest(channel=17)
    assert followed.mask is None
    released = handle(followed, events.MouseMoved(75, 25, "", time=8.0))
    again = handle(released, events.MouseMoved(75, 25, "left", time=9.0))
    assert again.request.concepts == ConceptRequest()
    escaped = pressed(released, "Escape")
    assert escaped.request.concepts == ConceptRequest() and not escaped.end_until
    assert pressed(escaped, "Escape").end_until, "then it ends the program as usual"
    assert pressed(released, "lower_layer").request.concepts == ConceptRequest("conv1")
    other = handle(released, events.Chosen("channel", 5, time=9.0))
    assert other.request.concepts == ConceptRequest(channel=5)
    unshown = pressed(released, "c")
    assert handle(unshown, events.Chosen("channel", 5, time=9.0)) is unshown


def test_the_followed_channel_is_the_map_over_the_picture():
    state = handle(showing(), events.Chosen("channel", 17, time=6.0))
    explained = frame_with(found_of(5, 17), state.request)
    (panel,) = MapPainter()(explained, LOOK).overlays
    shown = np.maximum(intensity(drawable(explained.result.concepts.of(17), explained.result)), 0)
    np.testing.assert_array_equal(panel.alpha, np.float32(LOOK.opacity) * shown)
    assert panel.name == "channel 17 of conv2"
    assert viewer_maps.followed_caption(explained) == panel.name
    whole = frame_with(found_of(5, 17), showing().request)
    assert MapPainter()(whole, LOOK).overlays[0].name == "epsilon_plus_flat"
    gone = frame_with(found_of(5, 6), state.request)
    assert MapPainter()(gone, LOOK).overlays[0].name == "epsilon_plus_flat", "not in this answer"


def test_only_a_map_that_cannot_be_seen_beside_others_is_none():
    for magnitudes, without in (
        ((1.0, 0.5), [False, False]), ((4e-6, 1e-6), [False, False]), ((4e-6, 4e-8), [False, True]),
     ((0.0, 0.0), [True, True]),
    ):  # fmt: skip
        found = found_of(5, 17)
        pairs = zip(found.maps, magnitudes, strict=True)
        found = replace(found, maps=tuple(replace(one, magnitude=size) for one, size in pairs))
        state = showing()
        panel = ConceptView().panel(state, frame_with(found, state.request))
        assert [row.name.startswith("no map") for row in panel.rows] == without


def test_a_channel_without_a_name_is_called_by_the_classes_that_it_speaks_for():
    classes = {5: [("water_bottle", 0.5), ("cup", 0.3)], 6: [("cup", 0.5), ("star", 0.2)], 7: []}
    known = {channel: SimpleNamespace(classes=one) for channel, one in classes.items()}
    engine = engine_of(("heart", "star", "cup"))
    engine.gallery = SimpleNamespace(
        channels=lambda layer: known, name=lambda layer, channel: {9: "whiskers"}.get(channel, "")
    )
    assert [viewer_maps.name_of(engine, "conv2", channel) for channel in (5, 6, 7, 8, 9)] == [
        "for “water bottle” and “cup” (channel 5)", "for “cup” (channel 6)", "channel 7",
        "channel 8", "whiskers",
    ]  # fmt: skip


def test_the_view_draws_the_panel_beside_the_picture_and_hears_its_clicks():
    viewer = Viewer(size=(360, 640))
    frame = viewer.frame(np.full((240, 320, 3), 90, np.uint8))
    viewer.press("c")

    def explained_now(found, **more):
        strength = np.zeros((8, 8), np.float32)
        explained = explained_frame(
            frame, strength, (40, 0, 280, 240), request=viewer.request, concepts=found, **more
        )
        viewer.maps.put(explained, time.monotonic())
        viewer.press("text_size:medium").step()  # any change of the view is drawn at once

    explained_now(None)
    assert viewer.view.concepts.note == "preparing conv2" and not viewer.state.concept_rows
    steady = np.zeros(64, np.float32)
    steady[5], steady[17] = 0.21, -0.1
    explained_now(found_of(5, 17), shares=steady)
    assert [one.figure for one in viewer.view.concepts.rows] == ["21 %", "-10 %"]
    ((box, first), (_, second)) = viewer.state.concept_rows
    assert (first, second) == (5, 17)
    before = viewer.view.first.scene.arrangement
    assert not viewer.view.first.scene.title
    assert max(x1 for _, _, x1, _ in viewer.state.pictures) <= box[0]
    assert viewer.state.free == viewer.view.split.place.box, "lists cover no picture"
    middle = (box[0] + box[2]) // 2, (box[1] + box[3]) // 2
    viewer.press(Mouse(*middle, ""), Mouse(*middle, "left"))
    assert viewer.request.concepts.channel == 5 and viewer.request.mask is None
    explained_now(found_of(5, 17))
    assert viewer.view.first.scene.title == "channel 5 of conv2"
    assert viewer.view.first.scene.arrangement == before, "nothing moves"
    viewer.press("c").step()
    assert viewer.request.concepts is None and not viewer.state.concept_rows
    assert viewer.view.concepts is None and viewer.view.split.place is None


def test_of_a_long_layer_name_the_end_stays(monkeypatch):
    said, layer = [], "stage_3_block_12_concatenate"
    monkeypatch.setattr(hud, "draw_text", lambda canvas, text, *how: said.append(text))
    panel = ConceptPanel(layer, np.zeros((9, 9, 3), np.uint8), (), LOOK, warning=UNPICTURED)
    panel = replace(panel, with_pictures=False, answer=("star", "62 %"))
    canvas = np.zeros((720, 1280, 3), np.uint8)
    ConceptArtist().draw(canvas, panel, panel.place((720, 1280), 18), 18)
    assert any(text.endswith(layer) for text in said)
    assert UNPICTURED in " ".join(filter(None, said))
