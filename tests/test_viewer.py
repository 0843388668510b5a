"""What the view shows: pictures, maps, menus, and the figures beside them."""

import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from viewer import LOOK, Viewer, engine_of, explained_frame, found_box

from realtime_lrp.engine.result import ConceptRequest
from realtime_lrp.engine.wording import Loss
from realtime_lrp.realtime.faithfulness import Mask, Probe, ProbeResult, covered
from realtime_lrp.realtime.viewer import figures, network_view, view
from realtime_lrp.realtime.viewer.lecture import words_for
from realtime_lrp.realtime.viewer.maps import MapPainter
from realtime_lrp.relevance.maps.targets import Target
from realtime_lrp.video.region import Region
from realtime_lrp.view import controls, hud
from realtime_lrp.view.hud import Bar, Headline, Line, Paragraph, Row
from realtime_lrp.view.painting import COLOURS
from realtime_lrp.view.window import Mouse

GREY = np.full((120, 160, 3), 90, np.uint8)
BOX = (20, 0, 140, 120)
FAINT = 0.1**0.75


def drawn_at(row, column, size=60):
    drawn = np.zeros((size, size, 3), np.float32)
    drawn[row - 4 : row + 4, column - 4 : column + 4, 1] = 1
    return drawn


def explain(viewer, frame, row=30, column=30, **more):
    made = explained_frame(frame, drawn_at(row, column), BOX, **more)
    viewer.maps.put(made, frame.time)
    return made


def seen(viewer, **more):
    explain(viewer, viewer.frame(GREY), **more)
    viewer.view.step()
    return viewer


def typed(listed, *names):
    for key in names:
        listed = listed.press(key)
    return listed


def test_the_list_of_classes_is_narrowed_and_walked_through():
    listed = controls.ClassList(
        entries=[(7, "heart"), (3, "star fish"), (31, "Säge")], scores=np.zeros(32)
    )
    number = typed(listed, "Down", "a", "BackSpace", "3")
    assert [one[0] for one in number.found()] == [3, 31]
    assert typed(number, "Page_Down").chosen()[0] == 31
    umlaut = typed(number, "BackSpace", "ä")
    assert umlaut.chosen()[0] == 31
    nothing = typed(umlaut, "space")
    assert nothing.chosen() is None and nothing.found() == []


def test_a_frozen_picture_stays_while_the_camera_goes_on():
    viewer = Viewer()
    first = viewer.frame(GREY)
    viewer.press("space")
    assert viewer.told == [("pause", True)] and viewer.request.frame is first
    for _ in range(3):
        assert viewer.frame(GREY + 1) is first
    viewer.press("step").step()
    assert viewer.view.frame.number == 4 and viewer.request.frame.number == 4
    viewer.frame(GREY)
    assert viewer.view.frame.number == 4
    viewer.press("space").step()
    assert viewer.view.frame.number == 5 and viewer.request.frame is None
    assert viewer.told == [("pause", True), ("step", 0), ("pause", False)]
    viewer.view.finish()
    assert (viewer.stats.frames_captured, viewer.stats.frames_shown) == (5, 3)
    assert viewer.stats.frames_dropped == 2
    viewer.press("next_file", "previous_file")
    assert viewer.told[3:] == [("skip", 1), ("skip", -1)]


def test_patches_are_painted_where_the_mouse_is():
    viewer = Viewer(size=(240, 400))
    viewer.frame(GREY)
    assert viewer.view.first.scene.arrangement.pictures == ((40, 0, 360, 240),)
    viewer.press(Mouse(40 + 2 * 50, 2 * 30, "left"))
    mask = viewer.request.mask
    assert mask.pixels.shape == (120, 160)
    assert tuple(np.argwhere(mask.pixels).mean(0).round()) == (30, 50)
    viewer.view.step()
    canvas = viewer.shown[-1]
    assert (canvas[60, 140] == 128).all() and (canvas[60, 200] == 90).all()
    viewer.press(Mouse(40 + 2 * 50, 2 * 30, ""), Mouse(10, 10, "left"), Mouse(10, 10, ""))
    assert viewer.request.mask is mask
    viewer.press(Mouse(40 + 2 * 50, 2 * 30, "right"))
    assert viewer.request.mask is None
    pixels = np.arange(120)[:, None] < np.full((1, 160), 10)
    changed = covered(GREY, Mask(pixels))
    assert (changed[:10] == 128).all() and (changed[10:] == 90).all() and (GREY == 90).all()
    assert covered(GREY, Mask(pixels[:50])) is GREY, "a mask of another size"


def test_a_rectangle_is_seen_alone_until_it_is_let_go():
    viewer = Viewer(size=(240, 400))
    viewer.frame(GREY)  # at columns 40 to 360
    viewer.press(Mouse(120, 60, "frame"), Mouse(200, 100, "left")).step()
    assert (viewer.shown[-1][60, 130:190] == 255).all()
    viewer.press(Mouse(420, 180, "left"), Mouse(420, 180, ""))
    assert viewer.request.region == (0.25, 0.25, 1, 0.75)
    assert viewer.state.present_config().input.region == "0.25,0.25,1,0.75"
    viewer.press("mirror")
    assert viewer.request.region == (0, 0.25, 0.75, 0.75)
    viewer.press("z", "z", Mouse(60, 60, "left"), Mouse(40, 40, "left"), Mouse(40, 40, ""))
    assert viewer.request.region == (0, 1 / 6, 0.0625, 0.25)
    viewer.press("z")
    assert viewer.request.region is None and viewer.request.mask is None
    viewer.press(Mouse(120, 60, "left"), Mouse(200, 100, ""))
    assert viewer.request.region is None and viewer.request.mask


def test_a_change_of_colour_shows_on_a_frozen_picture():
    viewer = Viewer(**{"--opacity": 1})
    frame = viewer.frame(GREY)
    viewer.maps.put(explained_frame(frame, drawn_at(30, 30)[..., 1], BOX), frame.time)
    viewer.press("space").step()
    fire = viewer.shown[-1][60, 80]
    viewer.press("colormap:hot").step()
    assert viewer.state.look.colormap == "hot"
    assert (viewer.shown[-1][60, 80] == 255).all() and (fire == (255, 187, 0)).all()


def test_map_and_answer_of_another_file_do_not_stand_beside_a_picture():
    viewer = Viewer(figures=True, **{"--opacity": 1})
    cat, dog = "cat.jpg (1 of 2)", "dog.jpg (2 of 2)"
    explain(viewer, viewer.frame(GREY, cat))
    viewer.press("p").step()
    boxes = viewer.view.first.scene.arrangement.pictures
    for picture, source, answered in (
        (GREY, cat, True), (GREY, dog, False), (GREY, cat, True), (GREY[::2], cat, False),
    ):  # fmt: skip
        viewer.frame(picture, source)
        assert bool(viewer.view.first.right) == answered
        if picture is GREY:
            assert np.isnan(green_column(viewer)) != answered
            assert viewer.view.first.scene.arrangement.pictures == boxes
    explain(viewer, viewer.frame(GREY, dog))
    viewer.frame(GREY, dog)
    assert viewer.view.first.right[0][0].name == "heart"


def old_marks(viewer):
    entries = [entry for block in viewer.view.first.right for entry in block]
    in_rows = [one.value for one in entries if isinstance(one, Row) and one.name == "old"]
    return in_rows + [one.text for one in entries if isinstance(one, Line) and one.warn]


@pytest.mark.parametrize("text", ["presenter", "figures"])
def test_an_answer_to_an_earlier_picture_is_marked_as_old(text):
    viewer = Viewer(figures=True)
    viewer.view.state = replace(viewer.view.state, text=text)
    frame = replace(viewer.frame(GREY), time=time.monotonic() - 2)
    explain(viewer, frame)
    viewer.view.step()
    for _ in range(2):
        viewer.press("text_size:medium").step()  # draws at once
        marked = [one.startswith("of a picture ") for one in old_marks(viewer)]
        assert marked == [True] * (viewer.view.frame.value is not frame.value)
        viewer.frame(GREY.copy())


def test_an_answer_is_old_as_soon_as_the_picture_shows_something_else():
    viewer = Viewer(figures=True)
    one, other = np.full((2, 120, 160, 3), 250, np.uint8)
    one[50:70, 70:90] = other[10:30, 20:40] = 0
    beside = one.copy()
    beside[5:25, 130:155] = 0
    explain(
        viewer, replace(viewer.frame(one), time=time.monotonic() + 100)
    )  # on a busy machine too
    marks = []
    for picture in (one, beside, other, one):
        viewer.frame(picture)
        marks.append(old_marks(viewer))
    assert marks == [[], [], ["of the picture before"], []]
    viewer.view.state = viewer.view.state.with_request(concepts=ConceptRequest())
    for picture, old in ((one, ""), (other, marks[2][0]), (one, "")):
        for _ in range(2):
            viewer.frame(picture)
        assert viewer.view.concepts.old == old
    viewer.view.state = viewer.view.state.with_request(concepts=None)
    explain(viewer, viewer.frame(other))
    viewer.frame(other)
    assert old_marks(viewer) == []


def test_mirroring_a_frozen_picture_shows_it_mirrored_at_once():
    viewer = Viewer(**{"--opacity": 1})
    picture = GREY.copy()
    picture[:, :80] = 40
    explain(viewer, viewer.frame(picture), 30, 20)
    viewer.press("space").step()
    assert green_column(viewer) < 80 and viewer.shown[-1][5, 5].tolist() == [40] * 3
    viewer.press("mirror").step()
    assert viewer.shown[-1][5, 5].tolist() == [90] * 3 and np.isnan(green_column(viewer))
    explain(viewer, viewer.request.frame, 30, 40)
    time.sleep(view.SOON_S)
    viewer.view.step()
    assert viewer.shown[-1][5, 5].tolist() == [90] * 3 and green_column(viewer) > 80


def green_column(viewer):
    """The mean column of what is pure green; NaN where nothing is."""
    columns = (viewer.shown[-1] == (0, 255, 0)).all(-1).nonzero()[1]
    return columns.mean() if columns.size else np.nan


def test_a_map_is_faint_where_there_is_nothing_to_explain():
    for score, total, strongest in (
        (0.7, 0.7, 1), (1e-5, 1e-5, FAINT), (1e-5, 0.7, FAINT), (1, 1e-4, 1), (1, 5e-9, 1),
        (0, 0, 0),
    ):  # fmt: skip
        alpha = MapPainter()(made_of(score=(score, score), total=total), LOOK).overlays[0].alpha
        assert alpha.max() == pytest.approx(LOOK.opacity * strongest, rel=1e-3)


def test_a_map_is_painted_once_for_each_language():
    """What follows it begins anew with each painting."""
    explained, painter = made_of(), MapPainter()
    names = [("heart",), ("Herz",)]
    ours, theirs = (lambda *_, name=name: name for name in names)
    paintings = [painter(explained, LOOK, one) for one in (ours, ours, theirs)]
    assert paintings[0] is paintings[1] is not paintings[2]
    assert [one.outlines for one in paintings[1:]] == names


def test_figures_and_legends_are_of_the_map_that_is_drawn(monkeypatch):
    monkeypatch.setattr(view, "FIGURES_S", 1e9)
    viewer = Viewer(figures=True)
    viewer.press("u")
    seen(viewer).press("v").step()
    assert ("target", "the best: heart") in named_values(viewer.view.first.scene)
    frame, request = viewer.view.frame, viewer.request
    drawn = drawn_at(30, 30)[..., 1]
    made = explained_frame(frame, drawn, BOX, request=request, engine=viewer.relevance.engine)
    viewer.maps.put(made, frame.time)
    time.sleep(view.SOON_S)
    viewer.view.step()
    assert viewer.view.first.explained is made
    assert ("target", "heart - star") in named_values(viewer.view.first.scene)


def named_values(scene):
    entries = [entry for block in (*scene.left, *scene.right) for entry in block]
    return [(one.name, one.value) for one in entries if isinstance(one, Row)]


def made_of(**more):
    return explained_frame(Viewer().frame(GREY), drawn_at(30, 30), BOX, **more)


def setting_of(**more):
    return {row.name: row for row in figures.setting_rows(made_of(**more)) if isinstance(row, Row)}


def test_relevance_that_is_lost_is_marked():
    for total, tolerance, kept in (
        (0.7, 0.01, True), (0.694, 0.01, True), (0.68, 0.01, False),
     (0.68, 0.05, True), (0.5, 0.05, False), (-0.7, 0.01, False),
    ):  # fmt: skip
        rows = setting_of(total=total, tolerance=tolerance)
        assert rows["relevance"].value == f"{total:.3g} of 0.7 ({100 * total / 0.7:.0f} %)"
        assert rows["relevance"].warn is not kept


def test_what_biases_took_is_no_loss_and_a_loss_is_named():
    rows = setting_of(total=0.5, taken=0.2)
    assert rows["relevance"] == Row("relevance", "0.5 of 0.7 (71 %)")
    assert rows["biases took"] == Row("biases took", "0.2 (29 %)")
    rows = setting_of(total=-0.5, taken=-0.2, score=(-0.7, 0.7))
    assert not rows["relevance"].warn and rows["biases took"].value == "-0.2 (29 %)"
    rows = setting_of(total=0.5, loss=Loss("fc1", 0.29))
    assert rows["relevance"].warn and "biases took" not in rows
    assert rows["lost in"] == Row("lost in", "fc1: 29 %", warn=True)
    assert setting_of(total=2.5, loss=Loss("fc1", -2.5))["gained in"].value == "fc1: 250 %"


def test_the_answer_shows_what_patches_change_and_a_locked_class():
    made = made_of(uncovered=np.array([0.9, 0.05, 0.05]))
    assert figures.answer_bars(made)[0] == Bar("heart", pytest.approx(0.7), 0.9)
    labels, scores = "abcdefg", (0.3, 0.2, 0.2, 0.15, 0.1, 0.04, 0.01)
    request = SimpleNamespace(target="6", mask=None, box=None)
    locked = made_of(scores=scores, labels=labels, request=request)
    assert figures.answer_bars(locked)[5] == Bar("g", pytest.approx(0.01))
    _, below = figures.presented(locked, None)
    assert [one.name for one in below if isinstance(one, Bar)] == ["b", "g"], "the larger above"


def test_the_presenter_view_says_that_weights_are_random():
    for weights, told in (("imagenet", 0), ("random", 1)):
        made = made_of(engine=engine_of("abc", **{"--weights": weights}))
        _, below = figures.presented(made, None)
        assert sum(one == figures.UNTAUGHT for one in below) == told


def test_figures_of_a_detector_speak_of_the_boxes_that_are_shown():

    def made(*boxes, alone=None, lost=(), target="top1"):
        explained = made_of(request=SimpleNamespace(target=target, mask=None, box=alone))
        found = [found_box(BOX, label, score, number, explained.maps)
                 for number, label, score in boxes]  # fmt: skip
        explained.result.found = tuple(found)
        explained.engine.detects = True
        return replace(explained, lost=frozenset(lost))

    several = (9, 0, 0.8), (2, 1, 0.6)
    bars = figures.answer_bars(made(*several))
    assert bars == (Bar("star", 0.6, colour=COLOURS[2]), Bar("heart", 0.8, colour=COLOURS[1]))
    assert figures.answer_bars(made(*several, alone=9)) == bars[1:]
    assert figures.answer_bars(made(*several, lost=[0])) == bars[:1]
    (named, *_), (why, *_) = figures.presented(made(*several), None)
    assert named.name == "star" and why.text == "why: each box"
    (named, *_), (why, *_) = figures.presented(made(*several, alone=9), None)
    assert (named.name, named.share, why.text) == ("heart", 0.8, "why: “heart”")
    ((said,),) = figures.presented(made(target="0 - 2"), None)
    assert said.head == "no heart or cup found"


def test_a_box_that_is_lost_between_two_maps_is_not_spoken_of(rng):
    here, gone = rng.integers(0, 256, (2, 120, 160, 3), np.uint8)
    viewer = Viewer(figures=True)
    made = explain(viewer, viewer.frame(here))
    made.result.found = (found_box((40, 20, 110, 90), 0, 0.8, 0, made.maps),)
    viewer.view.step()
    names = lambda: [one.name for block in viewer.view.columns[1] for one in block  # noqa: E731
                     if isinstance(one, Headline)]  # fmt: skip
    assert names() == ["heart"]
    viewer.frame(gone)
    assert names() == []
    viewer.frame(here)
    assert names() == ["heart"]


def test_the_probe_flips_the_most_relevant_patches_and_as_many_others():
    view = np.zeros((140, 140, 3), np.uint8)
    view[:42, :42] = 255
    drawn = np.zeros((140, 140), np.float32)
    drawn[:42, :42], drawn[98:, 98:] = 0.5, -1
    asked = []

    def scores(pictures, place):
        asked.append(len(pictures))
        white = (pictures[:, :42, :42] > 250).mean((1, 2, 3))
        return np.stack([white, 1 - white], 1)

    engine = SimpleNamespace(scores=scores)
    result = SimpleNamespace(
        found=None, target=Target(top=1), scores=np.array([1.0, 0.0]),
        maps=[SimpleNamespace(strength=drawn)],
        region=SimpleNamespace(extract=lambda picture: picture),
    )  # fmt: skip
    flipped = Probe().of_map(engine, view, result, None, False)
    assert asked == [4]
    assert (flipped.class_, flipped.whole) == (0, 1.0)
    probe = Probe()
    for mask, whole in ((None, 1.0), (None, 0.8), (Mask(np.ones((2, 2), bool)), 0.0)):
        result.scores = np.array([1.0 if whole == 1.0 else 0.0, 0.0])
        result.target = Target((0,))
        found = probe.of_map(engine, view, result, mask, False)
        assert found.whole == pytest.approx(whole), "a mean until the patches change"
    # of 196 patches of 10 x 10 pixels 20 are flipped: the 16 inside the square, and 4 of those on
    # its border, of whose pixels a fifth is white
    assert flipped.relevant == pytest.approx(1 - (1600 + 4 * 20) / 42**2, abs=0.02)
    assert flipped.at_random == pytest.approx(0.9, abs=0.06)
    rows = figures.probe_rows(made_of(probed=flipped))
    assert rows[-1].name == "faithfulness" and not rows[-1].warn
    assert flipped.relevant_patches.sum() == flipped.random_patches.sum() == 20
    assert flipped.relevant_patches[:4, :4].all() and not flipped.relevant_patches[5:, 5:].any()
    for at_random in (0.7, 0.8):
        made = made_of(probed=replace(flipped, whole=0.9, relevant=0.8, at_random=at_random))
        rows = figures.probe_rows(made)
        assert rows[3].warn and isinstance(rows[-1], Paragraph)
        assert [(one.share, one.before) for one in rows[1:3]] == [(0.8, 0.9), (at_random, 0.9)]
        assert figures.probe_rows(made, presenting=True) == tuple(
            replace(one, scale=1.5) for one in rows[1:3]
        ), "as high whatever was found"


def test_patches_of_a_letterboxed_picture_lie_where_the_network_sees_them():
    viewer = Viewer(size=(120, 160))
    frame = viewer.frame(GREY)
    relevant, random = np.zeros((2, 8, 8), bool)
    relevant[1, 0] = True
    probed = ProbeResult(0, 0.9, 0.2, 0.8, relevant, random)
    explained = explained_frame(frame, drawn_at(30, 30), (0, 0, 160, 120), probed=probed)
    explained.result.region = Region((0, 0, 160, 120), (0, 8, 64, 56), (64, 64))
    patches = network_view._flipped_patches(viewer.state.with_request(probe=True), explained)
    assert patches.box == (0, -20, 160, 140)


def test_in_a_narrow_column_the_answer_is_whole(monkeypatch):
    said = []
    monkeypatch.setattr(hud, "draw_text", lambda canvas, text, *how: said.append(text))
    canvas, answer = np.zeros((900, 200, 3), np.uint8), hud.Headline("star", 1.0, "star")
    hud.draw_blocks(canvas, [(answer,)], (0, 0, 200, 900), 20)
    assert [*filter(None, said)] == ["star", "100 %"]


def test_a_lecture_in_german_speaks_german_beside_the_picture():
    viewer = seen(Viewer(size=(720, 1280), figures=True, **{"--lecture": "de"}))
    (headline,), (why, *others), (say,) = viewer.view.split.scenes[0].right
    german = {"heart": "Herz", "star": "Stern", "cup": "Tasse"}
    best = german.get(viewer.state.facts.labels[int(np.argmax(viewer.state.answer.scores))])
    assert headline.name == best and why.text == f"warum: „{best}“"
    assert others[-1].name == "Methode" and say.head == viewer.state.lecture[0].say
    assert words_for("mine.de.yaml")("frozen\npreparing lrp") == "angehalten\nlrp wird vorbereitet"
    assert words_for("mine.yaml") is words_for("en")


def test_a_lecture_says_its_sentence_where_it_covers_no_picture():
    viewer = seen(Viewer(size=(720, 1280), figures=True, **{"--lecture": "en"}))
    say = viewer.state.lecture[0].say
    scene = viewer.view.split.scenes[0]
    assert scene.right[-1] == (Paragraph(say, "", 1.2),) and not viewer.view.split.said
    viewer.relevance.engine = engine_of(("heart", "star"))  # another one is asked for
    viewer.view.step()
    assert viewer.view.columns[1] == [*viewer.view.first.right]
    viewer.relevance.engine = None
    viewer.press(*["Page_Down"] * 2, "p").step()
    split = viewer.view.split
    assert split.said == viewer.state.lecture[2].say
    assert all(y1 < 690 for _, _, _, y1 in split.pictures)
