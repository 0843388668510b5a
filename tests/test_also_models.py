"""Several networks side by side: what each explains, what is drawn of each, what is refused."""

import time
from types import SimpleNamespace

import numpy as np
import pytest
from test_live_relevance import Running
from viewer import Viewer, engine_of, explained_frame

from realtime_lrp import config
from realtime_lrp.errors import UsageError
from realtime_lrp.realtime.explaining import first_request
from realtime_lrp.realtime.latest import Slot
from realtime_lrp.realtime.networks import (
    LONGEST_REST,
    STEP,
    TimeForFirst,
    config_of,
    further_threads,
    network_names,
    target_for,
)

HEART, MUG = ("heart", "star", "cup"), ("mug", "cup", "crane", "crane")


def settings(*assignments, **options):
    """A configuration of `live`, shapes by default."""
    options = {"--model": "shapes", **options}
    return config.load(sets=assignments, options=options, command="live").config


def test_entries_are_names_or_keys_and_are_printed_as_they_were_written():
    """Printed and read again they give the same configuration."""
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
    """Names that are the same get a number."""
    twice = settings(**{"--also-model": ["Shapes"]})
    with pytest.raises(UsageError, match="shown already"):
        further_threads(twice, Slot(), True, thread_of(twice))
    other = settings("live.also_models=[{name: shapes, weights: random}, vgg16]")
    assert network_names(other) == ("shapes", "shapes 2", "vgg16")
    first, second = further_threads(other, Slot(), True, thread_of(other))
    assert first.request.choice.random and not second.request.choice.random
    assert second.doing == "loading vgg16"
    assert second.stats.of_network() is None
    assert second.stats.summary("vgg16") == "vgg16: not loaded yet, no maps"


def thread_of(chosen):
    """What `further_threads` asks of the first network's thread."""
    return SimpleNamespace(request=first_request(chosen), engine=None)


def test_a_further_network_has_its_own_model_and_no_target_of_its_own():
    """A class that it does not have must not keep it from being loaded."""
    chosen = settings(**{"--target": "star", "--also-model": ["vgg16"]})
    own = config_of(chosen, chosen.live.also_models[0])
    assert (own.model.name, own.lrp.target, own.live.also_models) == ("vgg16", "all", [])
    contrast = settings(**{"--target": "star - cup"})
    assert config_of(contrast, chosen.model).lrp.target == "0 - rest"


@pytest.mark.parametrize(
    ("target", "expected"),
    [("all", "all"), ("top1", "top1"), ("cup", "1"), ("2", "1"), ("cup - rest", "1 - rest")],
)
def test_targets_name_the_same_class_in_each_network(target, expected):
    """Indices differ."""
    assert target_for(target, engine_of(HEART), engine_of(MUG)) == expected


class Both(Viewer):
    """A viewer with two networks: the second one's maps are scripted as well."""

    def __init__(self, size=(360, 640), **options):
        options |= {"--model": "shapes"}
        super().__init__(size=size, also=("vgg16",), **options)
        self.second = self.further[0]

    def explain(self, frame, thread, labels, value, name="shapes"):
        """A network has explained a frame."""
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
    """Name and value of every row of figures."""
    return {one.name: one.value for block in blocks for one in block if hasattr(one, "value")}


def test_each_network_has_its_part_with_its_own_answer_and_map():
    """The pictures are the same, the maps are not."""
    viewer = Both(figures=True)
    frame = viewer.frame(np.full((120, 160, 3), 90, np.uint8))
    viewer.explain(frame, viewer.relevance, HEART, 1.0)
    viewer.explain(frame, viewer.second, MUG, 0.0, "vgg16")
    viewer.press("u")  # all figures; draws at once
    viewer.view.step()
    first, second = viewer.view.split.scenes
    assert texts(first.right)["network"] == "shapes" and texts(second.right)["network"] == "vgg16"
    assert first.caption(first.explained.overlays[0]) == "shapes:epsilon_plus_flat"
    assert second.caption(second.explained.overlays[0]) == "vgg16:epsilon_plus_flat"
    pictures = viewer.state.pictures
    assert len(pictures) == 2
    left, right = (viewer.view.canvas[y0:y1, x0:x1] for x0, y0, x1, y1 in pictures)
    assert left.shape == right.shape
    assert abs(left.astype(int) - right).mean() > 10


def test_the_second_network_is_asked_for_what_the_first_is_in_its_own_words():
    """Method, picture and patches are the same, classes go by name."""
    viewer = Both()
    frame = viewer.frame(np.full((120, 160, 3), 90, np.uint8))
    viewer.explain(frame, viewer.relevance, HEART, 1.0)
    viewer.explain(frame, viewer.second, MUG, 0.0)
    viewer.press("next_method", "space")
    viewer.view.step()
    assert viewer.second.request.choice == viewer.request.choice
    assert viewer.second.request.frame is viewer.request.frame is not None
    viewer.state_target("2")
    assert (viewer.request.target, viewer.second.request.target) == ("2", "1")


def test_a_lecture_goes_on_where_a_further_network_refuses_the_method(tmp_path):
    """Its map stays another one's, and the figures say why; the step has its sentence."""
    file = tmp_path / "mine.yaml"
    file.write_text("- say: Plain.\n- say: Guided.\n  do: [networks, 'method:guided_backprop']\n")
    viewer = Both(figures=True, **{"--lecture": str(file)})
    before, second = viewer.request.choice, viewer.second
    second.__class__ = type("Stays", (type(second),), {"choice": before})
    frame = viewer.frame(np.full((120, 160, 3), 90, np.uint8))
    for thread, labels in ((viewer.relevance, HEART), (second, MUG)):
        viewer.explain(frame, thread, labels, 1.0)
    viewer.press("Page_Down")
    viewer.view.step()
    assert viewer.view.split.said == "" and second.request.choice != before
    reasons = [(second.request.choice, "it has no ReLU")]
    second.engine_cache = SimpleNamespace(refused=lambda: reasons and reasons.pop())
    viewer.view.note_refusals()
    viewer.view.step()
    assert viewer.view.split.said == "Guided."


def test_a_further_network_rests_while_the_first_does_not_keep_up():
    """Longer and longer, up to a limit; and less again when it does."""
    first, frames = SimpleNamespace(maps=SimpleNamespace(count=0)), SimpleNamespace(count=0)
    rest = TimeForFirst(first, frames)
    rests = []
    for maps in (10, 10, *[3] * 8, *[10] * 8):
        first.maps.count += maps
        frames.count += 10
        rests.append(rest())
    assert rests[:4] == [0, 0, STEP, 2 * STEP]
    assert rests[9] == LONGEST_REST
    assert rests[-8:] == sorted(rests[-8:], reverse=True) and rests[-1] == 0


def test_several_networks_load_one_after_the_other_and_explain_at_their_own_pace(frames):
    """Each with one trace; both explain the same picture, and each has its own figures."""
    chosen = settings(
        "live.also_models=[{name: shapes, weights: random}]", **{"--precision": "float32"}
    )
    with Running(chosen) as first:
        (second,) = further_threads(chosen, first.slot, True, first.thread)
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


@pytest.fixture
def frames():
    """A picture."""
    return [np.random.default_rng(0).integers(0, 255, (120, 160, 3), np.uint8)]
