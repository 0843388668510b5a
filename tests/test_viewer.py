"""What keys and the mouse change, what is drawn, and the figures beside it."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from viewer import Viewer, engine_of, found

from realtime_lrp.commands.live import figures
from realtime_lrp.commands.live.controls import Controls
from realtime_lrp.commands.live.figures import Rates
from realtime_lrp.engine.wording import describe_target
from realtime_lrp.realtime.explaining import first_request
from realtime_lrp.realtime.faithfulness import Probe, ProbeResult, covered
from realtime_lrp.relevance.composites import COMPOSITES
from realtime_lrp.relevance.methods import METHODS
from realtime_lrp.view import keys, menus
from realtime_lrp.view.colormaps import COLORMAPS
from realtime_lrp.view.hud import WARNING, Bar, Legend, Row, column_width, draw_column, percent
from realtime_lrp.view.scene import Artist, ExplainedPicture, Look, Panel, Scene, places
from realtime_lrp.view.window.window import Mouse

GREY = np.full((120, 160, 3), 90, np.uint8)
BOX = (20, 0, 140, 120)


def drawn_at(row, column, size=60):
    """A map with one hot square around a place, in green."""
    drawn = np.zeros((size, size, 3), np.float32)
    drawn[row - 4 : row + 4, column - 4 : column + 4, 1] = 1
    return drawn


def seen(viewer, scores=(0.7, 0.2, 0.1), **more):
    """A frame and its map are shown."""
    frame = viewer.frame(GREY)
    viewer.maps.put(found(frame, drawn_at(30, 30), BOX, scores, **more), frame.time)
    viewer.view.step()
    return viewer


# The key table


def test_every_key_has_one_action_and_every_action_a_method():
    """And the first composites have a digit each."""
    all_keys = [key for group in keys.BINDINGS.values() for one in group for key in one.keys]
    assert len(all_keys) == len(set(all_keys))
    for key, action in keys.ACTIONS.items():
        assert callable(getattr(Controls, action)), key
    assert list(keys.COMPOSITE_KEYS.values()) == list(COMPOSITES)[: len(keys.COMPOSITE_KEYS)]


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (97, "a"), (65, "a"), (27, "Escape"), (13, "Return"), (8, "BackSpace"), (127, "BackSpace"),
        (32, "space"), (0xFF52, "Up"), (0x260000, "Up"), (0xF700, "Up"), (0xFFC8, "F11"),
        (-60, "ä"), (0xE4, "ä"), (-1, None), (0xFFE1, None), (0xFFE9, None), (0xFFBE, "F1"),
        (43, "+"), (1, None), (0xFFBF, None),
    ],
)  # fmt: skip
def test_key_codes_have_names(code, name):
    """Qt, Windows and macOS; modifiers and what nothing is bound to have none."""
    assert keys.name_of(code) == name


def test_the_documentation_has_the_key_table():
    """Made from the same table as the help."""
    assert keys.table() in (Path(__file__).parents[1] / "docs" / "live.md").read_text()


@pytest.mark.parametrize("size", [(480, 640), (720, 1280), (1080, 1920), (800, 480)])
def test_the_help_shows_every_line_within_the_screen(size):
    """Lines of text counted in the picture, in both columns; nothing at the edges."""
    canvas = np.zeros((*size, 3), np.uint8)
    menus.draw_help(canvas)
    bright = canvas.max(-1) > 60
    assert not bright[-3:].any() and not bright[:, -3:].any() and not bright[:, :3].any()
    lines = 0
    middle = size[1] // 2 if size[1] > size[0] else size[1]
    for half in (bright[:, :middle], bright[:, middle:]):
        inked = np.concatenate([[False], half.any(1)])
        lines += int((np.diff(inked.astype(int)) == 1).sum())
    wanted = sum(1 + len(group) for group in keys.BINDINGS.values()) + 1 + len(keys.MOUSE)
    assert wanted <= lines <= 1.25 * wanted, "dots of i and umlauts may count as lines of their own"


# The list of classes


def test_the_list_of_classes_is_narrowed_and_walked_through():
    """Letters anywhere in the name, digits from the front of the number, arrows, Backspace."""
    listed = menus.ClassList([(7, "heart"), (3, "star fish"), (31, "Säge")], np.zeros(32))
    assert listed.chosen() == 7
    listed.press("Down")
    assert listed.chosen() == 3
    for key in ("a", "r"):
        listed.press(key)
    assert [one[0] for one in listed.found()] == [7, 3]
    listed.press("BackSpace")
    listed.press("BackSpace")
    listed.press("3")
    assert [one[0] for one in listed.found()] == [3, 31]
    listed.press("Page_Down")
    assert listed.chosen() == 31
    listed.press("BackSpace")
    listed.press("ä")
    assert listed.chosen() == 31
    listed.press("space")
    assert listed.chosen() is None and listed.found() == []


@pytest.mark.parametrize("size", [(240, 320), (720, 1280)])
def test_a_long_list_keeps_the_cursor_on_the_screen(size):
    """The chosen one of a thousand is drawn in the colour of the cursor."""
    listed = menus.ClassList([(n, f"class {n}") for n in range(1000)], np.zeros(1000))
    for _ in range(500):
        listed.press("Down")
    canvas = np.zeros((*size, 3), np.uint8)
    listed.draw(canvas)
    assert listed.chosen() == 500
    assert (np.abs(canvas.astype(int) - WARNING).sum(-1) < 30).sum() > 20


# Controls


def test_the_target_is_all_the_best_locked_or_one_against_another():
    """By keys alone, and no choice but the precision's changes."""
    viewer = seen(Viewer())
    asked = lambda: viewer.relevance.request.target  # noqa: E731
    assert asked() == "all"
    for keys_, target in (
        ("t", "top1"), ("t", "all"), ("t", "top1"), ("d", 0), ("v", "0 - 1"), ("v", 0),
        ("d", "top1"), ("v", "0 - 1"), ("v", "top1"), ("v", "0 - 1"), ("t", "all"), ("d", 0),
    ):  # fmt: skip
        viewer.press(*keys_)
        assert asked() == target, keys_
    wide = seen(Viewer(), (0.1, 0.5, 0.1, 0.1, 0.2), labels="abcde")
    wide.press("t", "t")
    assert wide.relevance.request.target == "top5"
    wide.press("d", "v")
    assert wide.relevance.request.target == "1 - 4"


def test_against_each_other_auto_precision_gets_an_engine_of_its_own():
    """Both signs add up then; with a fixed precision the same engine does it."""
    viewer = seen(Viewer())
    viewer.press("v")
    assert viewer.relevance.request.choice.against
    viewer.press("t")
    assert not viewer.relevance.request.choice.against
    fixed = seen(Viewer(**{"--precision": "float32"}))
    fixed.press("v")
    assert not fixed.relevance.request.choice.against


def test_a_class_is_chosen_from_the_list():
    """Enter explains it, Tab sets the present one against it, Esc leaves everything."""
    viewer = seen(Viewer())
    viewer.press("l", "s", "t", "Return")
    assert viewer.relevance.request.target == 1 and viewer.controls.menu is None
    viewer.press("l", "c", "u", "Tab")
    assert viewer.relevance.request.target == "1 - 2"
    viewer.press("l", "q", "x", "Return")
    assert viewer.controls.menu and not viewer.controls.ended, "letters are letters in the list"
    viewer.press("Escape")
    assert viewer.controls.menu is None and viewer.relevance.request.target == "1 - 2"


def test_methods_composites_panels_and_random_weights_are_chosen():
    """What the relevance thread is asked for after each key."""
    viewer = Viewer()
    choice = lambda: viewer.relevance.request.choice  # noqa: E731
    assert (choice().method, choice().composite) == ("lrp", "epsilon_plus_flat")
    for key, name in keys.COMPOSITE_KEYS.items():
        viewer.press(key)
        assert (choice().method, choice().composite) == ("lrp", name)
    walked = []
    for _ in METHODS:
        viewer.press("b")
        walked.append(choice().method)
    assert walked == [*list(METHODS)[1:], "lrp"]
    viewer.press("n")
    assert choice().method == list(METHODS)[-1]
    viewer.press("p", "x", "g", "a")
    assert choice().also == ("guided_backprop", "grad_cam")
    assert choice().random and choice().channels == "rgb"
    assert viewer.relevance.request.probe and viewer.controls.tiled
    viewer.press("p", "x", "g", "a")
    assert choice().also == () and not choice().random and choice().channels == "grey"


def test_what_cannot_be_prepared_goes_back_to_what_is_shown():
    """The request, not only the picture; another choice in the meantime stays."""
    viewer = seen(Viewer())
    shown = viewer.relevance.request.choice
    viewer.press("p")
    asked = viewer.relevance.request.choice
    viewer.controls.refuse(asked, "there is no ReLU", replace(shown, also=()))
    assert viewer.relevance.request.choice == shown and not viewer.controls.tiled
    assert viewer.controls.said == "there is no ReLU"
    viewer.press("p", "2")
    viewer.controls.refuse(asked, "too late", shown)
    assert viewer.relevance.request.choice.composite == "epsilon" and viewer.controls.tiled


def test_a_target_by_name_is_the_locked_class():
    """As the configuration names it; v and d know it."""
    viewer = seen(Viewer(**{"--target": "star"}))
    assert viewer.relevance.request.target == 1
    viewer.press("v")
    assert viewer.relevance.request.target == "1 - 0"
    viewer.press("v", "d")
    assert viewer.relevance.request.target == "top1"
    contrast = seen(Viewer(**{"--target": "cup - rest"}))
    assert contrast.relevance.request.target == "2 - rest"
    assert describe_target(engine_of(("heart", "star", "cup")), "2 - rest") == "cup - rest"


def test_the_settings_ask_for_what_is_shown():
    """A viewer that begins with them shows the same."""
    viewer = seen(Viewer())
    viewer.press("2", "t", "d", "m", "k", "-", "o", "y", "g")
    again = Controls(viewer.controls.settings(), first_request(viewer.controls.settings()))
    assert again.look == viewer.controls.look and again.mirror
    assert again.request.choice == viewer.relevance.request.choice
    assert again.request.target == str(viewer.relevance.request.target) == "0"


def test_a_patch_goes_when_the_picture_gets_another_size():
    """It would lie elsewhere."""
    viewer = seen(Viewer())
    viewer.press(Mouse(80, 60, "left"))
    assert viewer.relevance.request.mask is not None
    viewer.frame(np.full((60, 80, 3), 90, np.uint8))
    assert viewer.relevance.request.mask is None


def test_in_sync_a_step_shows_the_picture_when_its_map_is_there():
    """Never one without its own map."""
    viewer = Viewer(**{"--follow": "sync"})
    for _ in range(2):
        viewer.capture.frames.put(GREY, 1.0)
    first = viewer.capture.frames.newest()
    viewer.maps.put(found(first, drawn_at(30, 30), BOX), 1.0)
    viewer.view.step()
    viewer.press(".")
    viewer.capture.frames.put(GREY, 2.0)
    viewer.view.step()
    assert viewer.relevance.request.frame.number == 3 and viewer.view.frame.number == 2
    viewer.maps.put(found(viewer.relevance.request.frame, drawn_at(30, 30), BOX), 2.0)
    viewer.view.step()
    assert viewer.view.frame.number == 3 and viewer.view.scene.finding is not None
    assert viewer.stats.frames_shown == 2


def test_drawing_is_changed_at_once():
    """Colour map, opacity, style and follow: the look, not the request."""
    viewer = seen(Viewer())
    before = viewer.relevance.request
    names = []
    for _ in range(7):
        viewer.press("k")
        names.append(viewer.controls.look.colormap)
    assert names == ["bwr", "coldnhot", "fire", "gray", "hot", "icefire", None]
    viewer.press("j")
    assert viewer.controls.look.colormap == "icefire"
    viewer.press(*"++++")
    assert viewer.controls.look.opacity == 1.0
    viewer.press(*"-" * 15)
    assert viewer.controls.look.opacity == 0.0
    viewer.press("o", "o")
    assert viewer.controls.look.style == "off"
    assert viewer.relevance.request is before
    viewer.press("y", "y")
    assert viewer.controls.look.follow == "sync" and viewer.relevance.request.alone
    viewer.press("y")
    assert viewer.controls.look.follow == "flow" and not viewer.relevance.request.alone


def test_figures_help_full_screen_and_the_end():
    """Escape closes the help first."""
    viewer = Viewer(figures=True)
    viewer.press("8")
    assert viewer.controls.parts == {"rates", "setting"}
    viewer.press("i")
    assert viewer.controls.parts == set()
    viewer.press("i", "9", "0")
    assert viewer.controls.parts == {"answer"}
    viewer.press("z")
    assert viewer.window.full == 1
    viewer.press("h", "Escape")
    assert not viewer.controls.helping and not viewer.controls.ended
    viewer.press("Escape")
    assert viewer.controls.ended
    viewer.press("c", "s", "r")
    assert viewer.controls.wanted == ["source", "snapshot", "record"]


def test_a_frozen_picture_stays_while_the_camera_goes_on():
    """Steps take the newest one; the account is right all the same."""
    viewer = Viewer()
    first = viewer.frame(GREY)
    viewer.press("f")
    assert viewer.asked == [("pause", True)] and viewer.relevance.request.frame is first
    for _ in range(3):
        assert viewer.frame(GREY + 1) is first
    viewer.press(".")
    viewer.view.step()
    assert viewer.view.frame.number == 4 and viewer.relevance.request.frame.number == 4
    viewer.frame(GREY)
    assert viewer.view.frame.number == 4
    viewer.press("space")
    viewer.view.step()
    assert viewer.view.frame.number == 5 and viewer.relevance.request.frame is None
    assert viewer.asked == [("pause", True), ("step",), ("pause", False)]
    viewer.view.finish()
    assert (viewer.stats.frames_captured, viewer.stats.frames_shown) == (5, 3)
    assert viewer.stats.frames_dropped == 2
    viewer.press("e", "w")
    assert viewer.asked[3:] == [("skip", 1), ("skip", -1)]


def test_patches_are_painted_where_the_mouse_is():
    """On a canvas twice as large as the picture, and off its middle."""
    viewer = Viewer(size=(240, 400))
    viewer.frame(GREY)
    x0, y0, x1, y1 = places(viewer.view.scene)[0]
    assert (x0, y0, x1, y1) == (40, 0, 360, 240)
    viewer.press(Mouse(40 + 2 * 50, 2 * 30, "left"))
    mask = viewer.relevance.request.mask
    assert mask.shape == (120, 160)
    assert tuple(np.argwhere(mask).mean(0).round()) == (30, 50)
    radius = np.sqrt(mask.sum() / np.pi)
    assert radius == pytest.approx(0.06 * 120, abs=1)
    viewer.press("]", "]", Mouse(340, 200, "left"), Mouse(340, 200, ""))
    assert np.sqrt((viewer.relevance.request.mask.sum() - mask.sum()) / np.pi) > 1.5 * radius
    viewer.view.step()
    canvas = viewer.shown[-1]
    assert (canvas[60, 140] == 128).all() and (canvas[60, 200] == 90).all()
    viewer.press("m")
    np.testing.assert_array_equal(viewer.relevance.request.mask[:, ::-1][mask], True)
    viewer.press("m", Mouse(140, 60, "right"), Mouse(10, 10, "left"))
    assert not viewer.relevance.request.mask[30, 50]
    viewer.press("BackSpace")
    assert viewer.relevance.request.mask is None


def test_what_is_covered_is_grey_and_a_mask_of_another_size_covers_nothing():
    """The picture itself stays."""
    mask = np.zeros((120, 160), bool)
    mask[:10] = True
    changed = covered(GREY, mask)
    assert (changed[:10] == 128).all() and (changed[10:] == 90).all() and (GREY == 90).all()
    assert covered(GREY, mask[:50]) is GREY


# What is drawn


def test_a_change_of_colour_shows_on_a_frozen_picture():
    """The map is coloured anew though no other comes."""
    viewer = Viewer(**{"--opacity": 1})
    frame = viewer.frame(GREY)
    viewer.maps.put(found(frame, drawn_at(30, 30)[..., 1], BOX), frame.time)
    viewer.press("f")
    viewer.view.step()
    fire = viewer.shown[-1][60, 80]
    viewer.press("j", "j")
    viewer.view.step()
    assert viewer.controls.look.colormap == "hot"
    assert (viewer.shown[-1][60, 80] == 255).all() and (fire == (255, 187, 0)).all()


def test_a_map_of_a_picture_of_another_size_is_not_drawn():
    """The camera changed its size; the old map waits for the next one."""
    viewer = seen(Viewer(**{"--opacity": 1}))
    assert (viewer.shown[-1] == (0, 255, 0)).all(-1).any()
    viewer.frame(np.full((60, 80, 3), 90, np.uint8))
    assert viewer.view.scene.finding is None
    assert not (viewer.shown[-1] == (0, 255, 0)).all(-1).any()


@pytest.mark.parametrize("style", ["heat", "contour", "off"])
def test_zero_relevance_leaves_the_canvas_as_the_picture(style, rng):
    """But for the faint outline of the region."""
    picture = rng.integers(0, 256, (120, 160, 3), np.uint8)
    finding = ExplainedPicture(
        picture, BOX, (Panel("zplus", np.zeros((60, 60), np.float32), False),)
    )
    scene = Scene((120, 160), picture, finding, False, Look(None, 1.0, style, "flow"))
    canvas = Artist().draw(scene)
    np.testing.assert_array_equal(canvas[1:-1, 21:139], picture[1:-1, 21:139])
    np.testing.assert_array_equal(canvas[:, 140:], picture[:, 140:])


def test_contours_run_around_what_is_strong():
    """A disc of radius 20: its half-way line is a circle near it; inside the picture stays."""
    y, x = np.indices((100, 100)) - 49.5
    drawn = (np.hypot(x, y) < 20).astype(np.float32)
    picture = np.full((400, 400, 3), 90, np.uint8)
    finding = ExplainedPicture(picture, (0, 0, 400, 400), (Panel("zplus", drawn, False),))
    canvas = Artist().draw(
        Scene((400, 400), picture, finding, False, Look("hot", 1.0, "contour", "hold"))
    )
    rows, columns = np.nonzero(np.abs(canvas.astype(int) - 90).sum(-1) > 150)
    radius = np.hypot(rows - 199.5, columns - 199.5)
    assert radius.min() > 70 and radius.max() < 95
    assert radius.mean() == pytest.approx(80, abs=4)
    assert (canvas[200, 200] == 90).all()


def test_panels_stand_side_by_side_with_the_figures_beside_them():
    """The picture, then each map, none over another, none under the figures."""
    picture = np.full((120, 160, 3), 90, np.uint8)
    panels = tuple(
        Panel(name, drawn_at(30, 30), False) for name in ("zplus", "gradient", "epsilon")
    )
    block = ((Row("age", "1 ms"),),)
    scene = Scene(
        (720, 1280), picture, ExplainedPicture(picture, BOX, panels), True,
        Look(None, 1.0, "heat", "hold"), block, block,
    )  # fmt: skip
    boxes = places(scene)
    assert len(boxes) == 4
    taken = np.zeros((720, 1280), int)
    for x0, y0, x1, y1 in boxes:
        taken[y0:y1, x0:x1] += 1
        assert (x1 - x0) / (y1 - y0) == pytest.approx(160 / 120, rel=0.01)
    assert taken.max() == 1
    assert not taken[:, : column_width(1280)].any()
    assert taken.sum() > 0.55 * 720 * (1280 - column_width(1280))
    canvas = Artist().draw(scene)
    green = [(canvas[y0:y1, x0:x1] == (0, 255, 0)).all(-1).sum() for x0, y0, x1, y1 in boxes]
    assert green[0] == 0 and min(green[1:]) > 100


@pytest.mark.parametrize("size", [(480, 640), (720, 1280), (1080, 1920)])
def test_figures_are_as_large_as_can_be_read_and_stay_in_their_column(size):
    """At least 11 pixels high; long words are cut, not drawn over each other."""
    canvas = np.full((*size, 3), 200, np.uint8)
    rows = (Row("a very long name of something", "and a value"), Bar("Größe, Übermaß", 0.5, 0.75))
    draw_column(canvas, [rows], 0)
    width = column_width(size[1])
    assert (canvas[:, width:] == 200).all()
    white = np.argwhere((canvas[:, :width] > 240).all(-1))
    assert white[:, 0].max() - white[:, 0].min() >= 22
    assert 0.5 * width < white[:, 1].max() < width


def test_a_bar_is_as_long_as_its_share():
    """With a mark where it was before."""
    canvas = np.zeros((720, 1280, 3), np.uint8)
    draw_column(canvas, [(Bar("x", 0.5, 0.25),)], 0)
    blue = np.argwhere((canvas == (90, 190, 255)).all(-1))
    column = column_width(1280) - 18
    assert np.ptp(blue[:, 1]) == pytest.approx(column / 2, abs=3)
    assert percent(0.5) == "50 %" and percent(0.001) == "<1 %" and percent(0) == "0 %"


def test_a_long_notice_is_broken_into_lines_within_the_canvas():
    """Nothing is cut at the edges."""
    viewer = Viewer(size=(480, 640))
    viewer.relevance.doing = "There is something to be told " * 5
    viewer.frame(GREY)
    warm = (np.abs(viewer.shown[-1].astype(int) - WARNING).sum(-1) < 60).any(0)
    assert warm.sum() > 200 and not warm[:8].any() and not warm[-8:].any()


def test_a_full_column_gets_smaller_letters_and_a_long_value_a_line_of_its_own():
    """Nothing is cut at the lower edge; name and value are both there."""
    canvas = np.full((360, 640, 3), 200, np.uint8)
    rows = tuple(Row(f"row {n}", "value") for n in range(8))
    draw_column(canvas, [rows, rows, rows], 0)
    assert (canvas[-1, :20] == 200).all(), "room below the last block"
    one, two = (np.full((720, 1280, 3), 200, np.uint8) for _ in range(2))
    draw_column(one, [(Row("LRP", "zplus"),)], 0)
    draw_column(two, [(Row("LRP", "epsilon_alpha2_beta1_flat"),)], 0)
    heights = [int((canvas[:, 2, 0] < 150).sum()) for canvas in (one, two)]
    assert heights[1] == heights[0] + round(2.7 * 18) - round(1.35 * 18)


def test_the_legend_shows_the_colours_from_end_to_end():
    """Against and for where the map is signed; nothing to most where it is not."""
    frame = Viewer().frame(GREY)
    signed = ExplainedPicture(GREY, BOX, (Panel("epsilon", np.zeros((9, 9), np.float32), True),))
    look = Look(None, 1.0, "heat", "flow")
    legend = figures.setting(replace(found(frame, drawn_at(30, 30), BOX), finding=signed), look)[-1]
    assert legend == Legend("icefire", "against", "for")
    gradient = replace(signed, panels=(replace(signed.panels[0], name="guided_backprop"),))
    legend = figures.setting(replace(found(frame, drawn_at(30, 30), BOX), finding=gradient), look)
    assert legend[-1] == Legend("icefire", "lowers it", "raises it")
    canvas = np.zeros((720, 1280, 3), np.uint8)
    draw_column(canvas, [(legend[-1],)], 0)
    strip = canvas[9 + round(1.3 * 18) + 1, 9 : 9 + column_width(1280) - 18]
    table = COLORMAPS["icefire"].table
    np.testing.assert_array_equal(strip[[0, -1]], table[[0, -1]])


def test_passing_lines_are_on_the_screen_and_not_in_what_is_kept():
    """The canvas that is returned has none of them; that the picture is lost stands in both."""
    viewer = Viewer(size=(480, 640))
    viewer.relevance.doing = "preparing something"
    viewer.capture.frames.put(GREY, 1.0)
    kept = viewer.view.step()
    lower = np.s_[400:]
    assert len(np.unique(viewer.shown[-1][lower])) > len(np.unique(kept[lower])) == 1
    viewer.capture.trouble = "picture lost"
    viewer.capture.frames.put(GREY, 2.0)
    kept = viewer.view.step()
    np.testing.assert_array_equal(viewer.shown[-1], kept)
    assert len(np.unique(kept[lower])) > 20


# The figures


def test_one_value_is_no_share():
    """A network with a single linear output."""
    made = found(Viewer().frame(GREY), drawn_at(30, 30), BOX, scores=(35.2,), labels=("metres",))
    assert figures.answer(made) == (Row("metres", "35.2"),)


def test_the_limit_is_named():
    """The slowest stage that others wait for."""
    for captured, shown, maps, limit in (
        (30, 30, 30, "camera"), (30, 30, 5, "network"), (30, 12, 5, "drawing"),
    ):  # fmt: skip
        rates = Rates()
        for meter, rate in ((rates.captured, captured), (rates.shown, shown), (rates.maps, maps)):
            meter.rate = lambda rate=rate: float(rate)
        assert rates.limit == limit


def setting_of(**more):
    """The rows of a setting by name."""
    frame = Viewer().frame(GREY)
    made = found(frame, drawn_at(30, 30), BOX, **more)
    rows = figures.setting(made, Look(None, 1.0, "heat", "flow"))
    return {row.name: row for row in rows if isinstance(row, Row)}


@pytest.mark.parametrize(
    ("total", "precision", "kept"),
    [(0.7, "float32", True), (0.694, "float32", True), (0.68, "float32", False),
     (0.68, "bfloat16", True), (0.5, "bfloat16", False), (-0.7, "float32", False)],
)  # fmt: skip
def test_relevance_that_is_lost_is_marked(total, precision, kept):
    """1 % of what began at the output, 5 % in bfloat16."""
    rows = setting_of(totals=(total,), engine=engine_of(("a", "b", "c"), precision))
    assert rows["relevance"].value == f"{total:.3g} of 0.7 ({100 * total / 0.7:.0f} %)"
    assert rows["relevance"].warn is not kept


def test_the_setting_says_what_explains_the_answer():
    """Rules, target by name, precision, device; random weights stand out."""
    rows = setting_of()
    assert rows["LRP"].value == "epsilon_plus_flat"
    assert rows["target"].value == "the best: heart"
    assert rows["runs in"].value == "float32 on CPU"
    assert "map" not in rows
    random = setting_of(engine=engine_of(("a", "b", "c"), **{"--weights": "random"}))
    assert random["weights"].warn
    gradient = setting_of(totals=(None,))
    assert "relevance" not in gradient
    little = setting_of(totals=(0.0,), explained=(3e-37, 3e-37))
    assert little["relevance"] == Row("relevance", "about 0")
    engine = engine_of(("heart", "star", "cup"))
    assert describe_target(engine, "0 - 2") == "heart - cup"
    assert describe_target(engine, 1) == "star"
    assert describe_target(engine, "all") == "all classes"


def test_the_answer_shows_what_patches_change_and_a_locked_class():
    """Bars with the probability without patches; the target's, where it is not among the best."""
    frame = Viewer().frame(GREY)
    made = found(frame, drawn_at(30, 30), BOX, uncovered=[0.9, 0.05, 0.05])
    assert figures.answer(made)[0] == Bar("heart", pytest.approx(0.7), 0.9)
    labels, scores = "abcdefg", (0.3, 0.2, 0.2, 0.15, 0.1, 0.04, 0.01)
    request = SimpleNamespace(target=6, mask=None)
    locked = found(frame, drawn_at(30, 30), BOX, scores, labels, request=request)
    locked.scores[:] = locked.scores[:5]
    assert figures.answer(locked)[5] == Bar("g", pytest.approx(0.01))


def test_the_probe_flips_the_most_relevant_patches_and_as_many_others():
    """A network that sees only the upper left: its probability falls there and nowhere else."""
    view = np.zeros((140, 140, 3), np.uint8)
    view[:42, :42] = 255
    drawn = np.zeros((140, 140), np.float32)
    drawn[:42, :42] = 1
    asked = []

    def scores(pictures):
        asked.append(len(pictures))
        white = (pictures[:, :42, :42] > 250).mean((1, 2, 3))
        return np.stack([white, 1 - white], 1)

    flipped = Probe()(view, drawn, 0, 1.0, scores)
    assert asked == [4]
    assert (flipped.class_, flipped.whole) == (0, 1.0)
    # of 196 patches of 10 x 10 pixels 20 are flipped: the 16 inside the square, and 4 of those on
    # its border, of whose pixels a fifth is white
    assert flipped.relevant == pytest.approx(1 - (1600 + 4 * 20) / 42**2, abs=0.02)
    assert flipped.at_random == pytest.approx(0.9, abs=0.06)
    rows = figures.faithfulness(found(Viewer().frame(GREY), drawn, BOX, flipped=flipped))
    assert rows[-1].name == "faithfulness" and not rows[-1].warn
    worse = ProbeResult(0, 0.9, 0.8, 0.7)
    assert figures.faithfulness(found(Viewer().frame(GREY), drawn, BOX, flipped=worse))[-1].warn
