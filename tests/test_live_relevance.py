"""The relevance thread and its engine cache, with the embedded network."""

import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from faults.clock import until
from media import frames_of
from viewer import LOOK, Viewer, engine_of, explained_frame

from realtime_lrp import Explainer, config
from realtime_lrp.config.names import COMPOSITES, VIEWER_COMPOSITE
from realtime_lrp.engine import engine as engines
from realtime_lrp.engine import loading
from realtime_lrp.engine.boxes import drawn_map
from realtime_lrp.engine.result import ConceptRequest
from realtime_lrp.errors import UsageError
from realtime_lrp.realtime import engine_cache as engine_caches
from realtime_lrp.realtime import explaining as relevance_thread
from realtime_lrp.realtime import networks
from realtime_lrp.realtime.explaining import ExplainedFrame, first_request
from realtime_lrp.realtime.faithfulness import Mask, covered
from realtime_lrp.realtime.latest import Item, Slot
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.realtime.viewer import figures
from realtime_lrp.realtime.viewer.maps import MapPainter
from realtime_lrp.view.painting import intensity


def settings(*sets, **options):
    options = {"--model": "shapes", "--target": "top1", "--precision": "float32", **options}
    return config.load(sets=sets, options=options, command="live").config


@pytest.fixture(scope="module")
def frames():
    """Pictures of the demo's clip: a heart, and later ones."""
    return frames_of(config.ASSETS / "demo.mp4")[115:130]


@pytest.fixture(scope="module")
def engine():
    return engines.Engine(settings(), keep_model=True, otherwise=VIEWER_COMPOSITE)


def test_a_large_model_is_loaded_again_for_another_method(engine, frames, monkeypatch):
    monkeypatch.setattr(loading, "MAX_KEPT_WEIGHTS", 1000)
    large = engines.Engine(settings(), keep_model=True)
    assert large.network.model is None
    chosen = settings(**{"--composite": "zplus"})
    first, second = large.with_config(chosen), engine.with_config(chosen)
    kept = large.network.model
    assert kept is not None and large.with_config(chosen).network.model is kept
    maps = [one.explain(frames[:1])[0].relevance for one in (first, second)]
    np.testing.assert_array_equal(*maps)


class Running:
    """A relevance thread at work, with an engine that is there or that it loads."""

    def __init__(self, chosen, engine=None):
        self.slot, self.stats = Slot(), Stats("", "")
        self.thread = relevance_thread.RelevanceThread(
            chosen, self.slot, first_request(chosen), self.stats, changeable=True
        )
        self.thread.engine = engine

    def __enter__(self):
        self.thread.__enter__()
        self.wait(lambda: self.thread.waiting.number)  # for frames, which count from now on
        return self

    def __exit__(self, *exception):
        self.thread.__exit__(*exception)

    def wait(self, condition):
        until(lambda: self.thread.check() or condition())

    def ask(self, **changes):
        self.thread.request = replace(self.thread.request, **changes)

    def explain(self, picture):
        self.slot.put(picture, time.monotonic())
        maps, number = self.thread.maps, self.slot.count
        self.wait(lambda: maps.count and maps.newest().value.frame.number == number)
        return maps.newest().value


def test_further_maps_come_from_the_same_pass_and_are_those_of_explainers_alone(engine, frames):
    also = ("guided_backprop", "grad_cam", "zplus")
    both = engine.with_config(settings(**{"--composite": "zplus"}), also)
    (result,) = both.explain(frames[:1])
    x = engine.network.prepare(result.region.extract(frames[0])[None])
    for one, name in zip(result.maps, ("zplus", *also), strict=True):
        words = {"composite": name} if name == "zplus" else {"method": name}
        alone = Explainer(engine.network.model, **words, target="top1", **engine.network.box())(x)
        np.testing.assert_allclose(one.relevance, alone.relevance[0], rtol=1e-4, atol=1e-6)
        assert one.total == pytest.approx(alone.relevance.sum(), rel=1e-3, abs=1e-4)
    assert result.explained == pytest.approx((result.scores.max(),) * 2)
    assert both.explainer.signs == (False, True, False, False)


@pytest.mark.parametrize(("target", "explained"), [("all", 1), ("0 - 3", None), ("4 - rest", 0)])
def test_the_explained_score_is_what_began_at_the_output(engine, frames, target, explained):
    (result,) = engine.with_config(settings(**{"--target": target})).explain(frames[:1])
    p = result.scores.astype(float)
    total, magnitude = result.explained
    if target == "0 - 3":
        assert (total, magnitude) == pytest.approx((p[0] - p[3], p[0] + p[3]), abs=1e-6)
    else:
        assert total == pytest.approx(explained, abs=1e-5)
        assert magnitude == pytest.approx(1 if target == "all" else 2 * p[4], abs=1e-5)


def test_another_request_explains_the_newest_frame_again_if_no_other_comes(frames, engine):
    with Running(settings(), engine) as running:
        frame = running.explain(frames[0]).frame
        running.ask(target="2")
        running.wait(lambda: running.thread.maps.newest().value.request.target == "2")
        assert running.thread.maps.newest().value.frame is frame


def test_the_engine_cache_prepares_what_is_asked_while_the_old_map_goes_on(frames):
    with Running(settings(**{"--composite": "zplus"})) as running:
        first = running.explain(frames[0])
        choice = running.thread.request.choice
        running.ask(choice=replace(choice, method="guided_backprop"))
        while (made := running.explain(frames[1])).engine is first.engine:
            assert made.names[0] == "zplus"
        assert made.names[0] == "guided_backprop"
        (right,) = engines.Engine(settings(**{"--method": "guided_backprop"})).explain([frames[1]])
        np.testing.assert_allclose(made.result.relevance, right.relevance, rtol=1e-4, atol=1e-6)
        assert not made.result.maps[0].accounted
        running.ask(choice=replace(choice, random=True))
        running.wait(lambda: running.explain(frames[2]).engine.config.model.weights == "random")
        blind = engines.Engine(settings(**{"--weights": "random", "--composite": "zplus"}))
        made, (right,) = running.explain(frames[3]), blind.explain([frames[3]])
        np.testing.assert_allclose(made.result.scores, right.scores, atol=1e-5)
        running.ask(choice=choice)
        assert running.explain(frames[4]).engine is first.engine, "what was ready is at once"
        assert running.thread.doing == ""


def test_channels_are_prepared_while_maps_go_on(engine, frames):
    with Running(settings(), engine) as running:
        running.explain(frames[0])
        running.ask(concepts=ConceptRequest("block5_conv2"))
        running.wait(lambda: running.explain(frames[1]).request.concepts)
        made = running.thread.maps.newest().value
        assert made.result.concepts.layer == "block5_conv2" and len(made.result.concepts.maps) == 4
        np.testing.assert_allclose(made.shares, made.result.concepts.by_channel, atol=1e-6)


def test_what_cannot_be_prepared_is_told_once_and_the_rest_goes_on(frames, tiny_model):
    """A network whose only maps with places are behind a flattening has no Grad-CAM."""
    import keras
    from keras import layers

    keras.utils.set_random_seed(1)
    flat = keras.Sequential(
        [keras.Input((8, 8, 3)), layers.Flatten(), layers.Dense(3, activation="softmax")]
    )
    file = tiny_model.with_name("flat.keras")
    flat.save(file)
    with Running(settings(**{"--model": str(file), "--preprocess": "rescale"})) as running:
        running.explain(frames[0])
        choice = running.thread.request.choice
        running.ask(choice=replace(choice, method="grad_cam"))
        running.explain(frames[1])
        refused = []
        running.wait(lambda: refused.append(running.thread.engine_cache.refused()) or refused[-1])
        assert refused[-1][0].method == "grad_cam" and "grad_cam needs" in refused[-1][1]
        assert running.thread.engine_cache.refused() is None
        assert running.explain(frames[2]).engine.name == "epsilon_plus_flat"
        assert running.thread.choice == choice and running.thread.doing == ""


@pytest.mark.parametrize(
    ("network", "otherwise", "expected"),
    [("shapes", {}, "zplus"), ("shapes_vit", {"otherwise": "epsilon_plus_flat"}, "attnlrp_gamma")],
)
def test_each_network_has_the_composite_that_suits_it(network, otherwise, expected):
    made = engines.Engine(settings(**{"--model": network}), **otherwise)
    assert made.name == made.config.lrp.composite == expected
    record = made.provenance(settings(**{"--model": network}))
    assert record.composite == record.settings["lrp.composite"] == expected


@pytest.mark.release
def test_memory_stays_flat_while_methods_are_switched(engine):
    base = settings()
    first = first_request(base).choice
    picture = np.zeros((480, 640, 3), np.uint8)
    cache = engine_caches.EngineCache(base, engine, first)
    cache.start()
    sizes = []
    for number in range(32):
        name, channels = COMPOSITES.known()[number % 7], ("grey", "rgb")[number % 2]
        choice = replace(first, composite=name, channels=channels)
        until(lambda choice=choice: cache.engine_for(choice), 60).explain([picture])
        sizes.append(psutil.Process().memory_info().rss / 2**20)
    cache.stop()
    assert sizes[31] - sizes[15] < 30, sizes


def test_an_engine_that_is_wanted_again_is_prepared_once(engine, monkeypatch):
    base = settings()
    first = first_request(base).choice
    cache, built, go_on = engine_caches.EngineCache(base, engine, first), [], threading.Event()

    def build(choice):
        built.append(choice)
        go_on.wait(60)
        return SimpleNamespace(explainer=SimpleNamespace(weights=0))

    monkeypatch.setattr(cache, "_build", build)
    cache.start()
    wanted, other = (replace(first, method=name) for name in ("gradient", "grad_cam"))
    assert cache.engine_for(wanted) is None
    until(lambda: built)
    for between in (first, other):
        cache.engine_for(between)
        assert cache.engine_for(wanted) is None
    go_on.set()
    made = until(lambda: cache.engine_for(wanted))
    until(lambda: cache.preparing is None)
    assert built == [wanted] and cache.engine_for(wanted) is made
    cache.stop()


def test_of_layers_the_last_that_was_asked_for_is_prepared(engine, monkeypatch):
    first = first_request(settings()).choice
    cache, compiled = engine_caches.EngineCache(settings(), engine, first), []
    monkeypatch.setattr(engine.concepts, "compile", compiled.append)
    monkeypatch.setattr(engine.concepts, "is_ready", lambda wanted: False)
    older, newer = ConceptRequest("older"), ConceptRequest("newer")
    assert not cache.has_concepts(engine, older) and not cache.has_concepts(engine, newer)
    cache.start()
    until(lambda: compiled)
    cache.stop()
    assert compiled == [newer]


def test_a_frozen_frame_is_explained_once_for_each_request(frames, engine):
    with Running(settings(), engine) as running:
        running.explain(frames[0])
        frozen = running.slot.newest()
        count = running.thread.maps.count
        running.ask(frame=frozen)
        running.wait(lambda: running.thread.maps.count == count + 1)
        for picture in frames[1:4]:
            running.slot.put(picture, time.monotonic())
        running.ask(target="3")
        running.wait(lambda: running.thread.maps.newest().value.request.target == "3")
        assert running.thread.maps.count == count + 2
        made = running.thread.maps.newest().value
        assert made.frame is frozen and made.request.target == "3"
        (right,) = engine.explain([frames[0]], [3])
        assert made.result.explained[0] == pytest.approx(float(right.scores[3]), abs=1e-6)


def test_patches_change_the_score_and_what_it_was_is_told(frames, engine):
    mask = np.zeros(frames[0].shape[:2], bool)
    mask[230:420, 240:400] = True
    with Running(settings(), engine) as running:
        clear = running.explain(frames[0])
        running.ask(mask=Mask(mask))
        running.explain(frames[0])
        running.wait(lambda: running.thread.maps.newest().value.uncovered is not None)
        made = running.thread.maps.newest().value
        (right,) = engine.explain([covered(frames[0], Mask(mask))])
        np.testing.assert_allclose(made.result.scores, right.scores, atol=1e-5)
        assert made.answers[0][1] < clear.answers[0][1] or made.answers[0] != clear.answers[0]
        np.testing.assert_allclose(made.uncovered, clear.result.scores, atol=1e-5)
        assert clear.uncovered is None


def test_answers_go_on_while_a_test_of_them_is_prepared(frames, engine, monkeypatch):
    go_on = threading.Event()
    scores = engine.scores
    monkeypatch.setattr(engine, "scores_ready", False)
    monkeypatch.setattr(engine, "scores", lambda *more: go_on.wait(60) and scores(*more))
    with Running(settings(), engine) as running:
        running.ask(probe=True)
        waiting = [running.explain(picture) for picture in frames[:3]]
        assert [one.probed for one in waiting] == [None] * 3
        assert figures.probe_rows(waiting[-1])[0].value == "preparing the test"
        go_on.set()
        running.wait(lambda: running.thread.maps.newest().value.probed)
        tested = running.thread.maps.newest().value
        assert tested.frame is waiting[-1].frame
        assert tested.probed.whole == pytest.approx(float(tested.result.scores.max()), abs=1e-5)
        assert tested.probed.relevant < tested.probed.at_random


def test_scale_and_average_follow_the_maps_before(engine, frames):
    request = first_request(settings())
    explained, drawer = [], MapPainter()
    look = replace(LOOK, average=0.8)
    for picture in (frames[0], frames[14]):
        (result,) = engine.explain([picture])
        frame = Item(picture, len(explained) + 1, 0.0)
        explained.append(ExplainedFrame(frame, picture, request, engine, result))
    drawn = [drawer(one, look) for one in explained]
    assert drawer(explained[1], look) is drawn[1], "asked again it is the same"
    maps = [one.result.maps[0] for one in explained]
    ready = [drawn_map(one.result, look) for one in explained]
    peak = 0.9 * maps[0].peak + 0.1 * maps[1].peak
    expected = 0.8 * intensity(ready[0]) + 0.2 * intensity(ready[1], maps[1].peak / peak)
    alpha = LOOK.opacity * np.abs(expected)
    np.testing.assert_allclose(drawn[1].overlays[0].alpha, alpha, atol=1e-6)


def test_another_target_engine_or_file_starts_the_scale_anew(engine, frames):
    request = first_request(settings())
    (first,), (second,) = engine.explain([frames[0]]), engine.explain([frames[14]])
    frame = Item(frames[0], 1, 0.0)
    own = np.float32(LOOK.opacity) * np.maximum(intensity(drawn_map(second, LOOK)), 0)
    other = engine.with_config(settings(**{"--composite": "epsilon"}))
    for change, another in (
        ({"request": replace(request, target="3")}, {}), ({"engine": other}, {}),
        ({"frame": replace(frame, source="another file")}, {}),
        ({}, {"average": 0.0}),
    ):  # fmt: skip
        drawer, look = MapPainter(), replace(LOOK, average=0.5)
        before = ExplainedFrame(frame, frames[0], request, engine, first)
        drawer(before, look)
        after = replace(replace(before, result=second), **change)
        np.testing.assert_array_equal(
            drawer(after, replace(look, **another)).overlays[0].alpha, own
        )


def test_an_error_after_the_first_map_is_told_and_it_tries_again(
    frames, engine, monkeypatch, caplog
):
    monkeypatch.setattr(relevance_thread, "RETRY_S", 0.02)
    with Running(settings(), engine) as running:
        running.explain(frames[0])
        begin, broken = engine.begin, [True]

        def failing(pictures, **options):
            if broken[0]:
                raise ValueError("the memory is full")
            return begin(pictures, **options)

        monkeypatch.setattr(engine, "begin", failing)
        for picture in frames[1:4]:
            running.slot.put(picture, time.monotonic())
            running.wait(lambda: running.thread.doing)
        assert running.thread.doing == "no map, trying again: the memory is full"
        assert running.thread.maps.count == 1
        broken[0] = False
        running.explain(frames[4])
        assert running.thread.doing == ""
    assert caplog.text.count("explaining failed") == 1


def test_an_error_of_the_network_comes_out_on_the_main_thread(tmp_path):
    from realtime_lrp.errors import DamagedInputError

    file = tmp_path / "broken.keras"
    file.write_text("no model")
    thread = relevance_thread.RelevanceThread(
        settings(**{"--model": str(file)}), Slot(), first_request(settings()), Stats("", "")
    )
    with thread, pytest.raises(DamagedInputError):
        until(thread.check)


HEART, MUG = ("heart", "star", "cup"), ("mug", "cup", "crane", "crane")


def test_entries_are_names_or_keys_and_are_printed_as_they_were_written():
    text = "[vgg16, {name: vgg19, weights: random, size: 64}]"
    loaded = config.load(sets=(f"live.also_models={text}",), command="live")
    first, second = loaded.config.live.also_models
    assert (first.name, first.weights, first.size) == ("vgg16", None, None)
    assert (second.name, second.weights, second.size) == ("vgg19", "random", (64, 64))
    (line,) = [one for one in config.as_yaml(loaded).splitlines() if "also_models:" in one]
    assert "also_models: [vgg16, {name: vgg19, weights: random, size: 64x64}]" in line
    again = config.load(sets=("live." + line.split("  #")[0].strip().replace(": ", "=", 1),))
    assert again.config.live.also_models == loaded.config.live.also_models


def test_a_network_is_there_only_once_but_may_have_other_weights():
    twice = settings(**{"--also-model": ["Shapes"]})
    with pytest.raises(UsageError, match="shown already"):
        networks.further_threads(twice, Slot(), True, thread_of(twice))
    other = settings("live.also_models=[{name: shapes, weights: random}, vgg16]")
    assert networks.network_names(other) == ("shapes", "shapes 2", "vgg16")
    first, second = networks.further_threads(other, Slot(), True, thread_of(other))
    assert first.request.choice.random and not second.request.choice.random
    assert second.doing == "loading vgg16"
    assert not second.stats.device
    assert second.stats.summary("vgg16") == "vgg16: not loaded yet, no maps"


def thread_of(chosen):
    """What `further_threads` asks of the first network's thread."""
    return SimpleNamespace(request=first_request(chosen), engine=None)


def test_a_further_network_has_its_own_model_and_no_target_of_its_own():
    chosen = settings(**{"--target": "star", "--also-model": ["vgg16"]})
    own = networks.config_of(chosen, chosen.live.also_models[0])
    assert (own.model.name, own.lrp.target, own.live.also_models) == ("vgg16", "all", [])
    contrast = settings(**{"--target": "star - cup"})
    assert networks.config_of(contrast, chosen.model).lrp.target == "0 - rest"


def test_targets_name_the_same_class_in_each_network():
    for target, expected in (
        ("all", "all"), ("top1", "top1"), ("cup", "1"), ("2", "1"), ("cup - rest", "1 - rest"),
    ):  # fmt: skip
        assert networks.target_for(target, engine_of(HEART), engine_of(MUG)) == expected


class Both(Viewer):
    """A viewer with two networks: the second one's maps are scripted as well."""

    def __init__(self, size=(360, 640), **options):
        options |= {"--model": "shapes"}
        super().__init__(size=size, also=("vgg16",), **options)
        self.second = self.further[0]

    def explain(self, frame, thread, labels, value, name="shapes"):
        engine = engine_of(labels)
        engine.network.name = name
        thread.engine = engine
        explained = explained_frame(
            frame, np.full((8, 8), value), (0, 0, 160, 120), scores=np.linspace(1, 0, len(labels)),
            engine=engine, request=thread.request,
        )  # fmt: skip
        thread.maps.put(explained, time.monotonic())
        self.view.step()


def texts(blocks):
    return {one.name: one.value for block in blocks for one in block if hasattr(one, "value")}


def test_each_network_has_its_part_with_its_own_answer_and_map():
    viewer = Both(figures=True)
    frame = viewer.frame(np.full((120, 160, 3), 90, np.uint8))
    viewer.explain(frame, viewer.relevance, HEART, 1.0)
    viewer.explain(frame, viewer.second, MUG, 0.0, "vgg16")
    viewer.press("u").step()  # all figures; draws at once
    first, second = viewer.view.split.scenes
    assert texts(first.right)["network"] == "shapes" and texts(second.right)["network"] == "vgg16"
    assert first.caption(first.explained.overlays[0].name) == "shapes:epsilon_plus_flat"
    assert second.caption(second.explained.overlays[0].name) == "vgg16:epsilon_plus_flat"
    pictures = viewer.state.pictures
    assert len(pictures) == 2
    left, right = (viewer.view.canvas[y0:y1, x0:x1] for x0, y0, x1, y1 in pictures)
    assert left.shape == right.shape
    assert abs(left.astype(int) - right).mean() > 10


def test_the_second_network_is_asked_for_what_the_first_is_in_its_own_words():
    viewer = Both()
    frame = viewer.frame(np.full((120, 160, 3), 90, np.uint8))
    viewer.explain(frame, viewer.relevance, HEART, 1.0)
    viewer.explain(frame, viewer.second, MUG, 0.0)
    viewer.press("next_method", "space").step()
    assert viewer.second.request.choice == viewer.request.choice
    assert viewer.second.request.frame is viewer.request.frame is not None
    viewer.state_target("2")
    assert (viewer.request.target, viewer.second.request.target) == ("2", "1")


def test_a_lecture_goes_on_where_a_further_network_refuses_the_method(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("- say: Plain.\n- say: Guided.\n  do: [networks, 'method:guided_backprop']\n")
    viewer = Both(figures=True, **{"--lecture": str(file)})
    before, second = viewer.request.choice, viewer.second
    second.__class__ = type("Stays", (type(second),), {"choice": before})
    frame = viewer.frame(np.full((120, 160, 3), 90, np.uint8))
    for thread, labels in ((viewer.relevance, HEART), (second, MUG)):
        viewer.explain(frame, thread, labels, 1.0)
    viewer.press("Page_Down").step()
    assert viewer.view.split.said == "" and second.request.choice != before
    reasons = [(second.request.choice, "it has no ReLU")]
    second.engine_cache = SimpleNamespace(refused=lambda: reasons and reasons.pop())
    viewer.view.check(patient=True)
    viewer.view.step()
    assert viewer.view.split.said == "Guided."


def test_a_further_network_rests_while_the_first_does_not_keep_up():
    first, frames = SimpleNamespace(maps=SimpleNamespace(count=0)), SimpleNamespace(count=0)
    rest = networks.TimeForFirst(first, frames)
    rests = []
    for maps in (10, 10, *[3] * 8, *[10] * 8):
        first.maps.count += maps
        frames.count += 10
        rests.append(rest())
    assert rests[:4] == [0, 0, networks.STEP, 2 * networks.STEP]
    assert rests[9] == networks.LONGEST_REST
    assert rests[-8:] == sorted(rests[-8:], reverse=True) and rests[-1] == 0


def test_several_networks_load_one_after_the_other_and_explain_at_their_own_pace(frames):
    chosen = settings("live.also_models=[{name: shapes, weights: random}]")
    with Running(chosen) as first:
        (second,) = networks.further_threads(chosen, first.slot, True, first.thread)
        with second:
            first.wait(lambda: second.engine)
            explained = first.explain(frames[0])
            first.wait(lambda: second.maps.count)
            second.check()
            other = second.maps.newest().value
    assert other.frame.number == explained.frame.number
    assert other.engine.config.model.weights == "random"
    assert abs(other.result.relevance - explained.result.relevance).max() > 0
    assert explained.engine.explainer.traces == other.engine.explainer.traces == 1
    assert first.stats.maps == 1 == second.stats.maps
    second.stats.note_engine(second.engine)
    assert set(second.stats.of_network()) == {
        "maps", "maps_per_s", "map_ms", "map_age_ms", "maps_in_flight", "traces", "device",
        "precision",
    }  # fmt: skip
