"""`handle(state, event)`: what each event changes, and that it changes nothing else."""

from dataclasses import fields, replace

import numpy as np
import pytest
from viewer import COMMANDS, Viewer, answer, event_named, found_box, state_of

from realtime_lrp import config
from realtime_lrp.config.provenance import recorded_settings
from realtime_lrp.engine.result import ConceptRequest
from realtime_lrp.errors import ConfigError, MissingInputError
from realtime_lrp.realtime.explaining import first_request
from realtime_lrp.realtime.latest import Item
from realtime_lrp.realtime.viewer import events
from realtime_lrp.realtime.viewer.actions import ACTIONS, HINT, NO_MAP
from realtime_lrp.realtime.viewer.handle import CHOICES, handle, show_step
from realtime_lrp.realtime.viewer.lecture import INCLUDED, load_lecture, with_networks
from realtime_lrp.realtime.viewer.pointing import SETTLED_S, brush_radius, progress, seek
from realtime_lrp.realtime.viewer.state import CONTROLS_S, END_S, NOTICE_S, DrawnView, first_state
from realtime_lrp.relevance.maps.methods import METHODS
from realtime_lrp.relevance.maps.targets import Target
from realtime_lrp.relevance.rules.composites import COMPOSITES
from realtime_lrp.video.source import Timeline
from realtime_lrp.view import keys
from realtime_lrp.view.controls import CommandBox, arrange_controls
from realtime_lrp.view.hud import figure_size
from realtime_lrp.view.keys import BUTTONS
from realtime_lrp.view.look import LOOK_SETTINGS
from realtime_lrp.view.window import Mouse

PICTURE = np.full((120, 160, 3), 90, np.uint8)
PICTURE[:, :80] = 10
FRAME, LATER = Item(PICTURE, 7, 1.0), Item(PICTURE, 9, 2.0)
ANSWER = answer()
WIDE = {"scores": (0.1, 0.5, 0.1, 0.1, 0.2), "labels": "abcde"}


def started(*sets, **options):
    """The state of a viewer that shows a frame with its answer; no notice is shown any more."""
    state = state_of(*sets, **options)
    drawn = events.FrameDrawn(
        DrawnView(FRAME, *answer(asked=state.request.target), ((0, 0, 160, 120),))
    )
    return replace(handle(state, drawn), notice=type(state.notice)())


def shows(state, item=FRAME, **of_answer):
    return handle(state, events.FrameDrawn(DrawnView(item, *answer(**of_answer))))


def pressed(state, names):
    """The state after keys and commands, separated by spaces; a mask stands for the brush."""
    for key in names.split():
        if key == "paint":
            state = handle(state, events.Brushed((50, 30), (50, 30), cover=True, time=5.0))
        else:
            state = handle(state, event_named(key, time=5.0))
    return state


def with_boxes(*boxes):
    """A viewer with a detector's boxes in the picture, which fills the canvas."""
    found = tuple(found_box(box, 1, 0.9, number) for number, box in enumerate(boxes, 4))
    state = started()
    return replace(state, size=(120, 160), answer=replace(state.answer, found=found))


def mouse(state, *events_):
    for x, y, button in events_:
        state = handle(state, events.MouseMoved(x, y, button, time=9.0))
    return state


def test_a_click_on_a_box_shows_it_alone_and_a_movement_paints():
    state = with_boxes((10, 10, 150, 110), (20, 20, 60, 60))
    click = lambda x, y: ((x, y, "left"), (x + 1, y, "left"), (x + 1, y, ""))  # noqa: E731
    inner, outer = mouse(state, *click(30, 30)), mouse(state, *click(100, 80))
    assert (inner.box, outer.box, inner.mask) == (5, 4, None)
    assert mouse(inner, *click(30, 30)).box is None
    assert mouse(inner, *click(100, 80)).box == 4
    assert pressed(inner, "Escape").box is None
    painted = mouse(state, (30, 30, "left"), (50, 30, "left"), (50, 30, ""))
    assert painted.box is None and painted.mask[30, 40]
    assert mouse(painted, (40, 30, "right"), (40, 30, "")).box is None
    beside = mouse(state, *click(3, 3))
    assert beside.box is None and beside.mask[3, 3]
    assert handle(state, events.Clicked((30, 30), paints=False)).box == 5, "on a page"
    assert handle(state, events.Clicked((155, 115), paints=False)) is state, (
        "a finger paints nothing"
    )
    assert handle(state, events.Clicked((155, 115), paints=True)).mask[115, 155]


def test_classes_that_are_not_in_the_picture_are_not_chosen():
    state = with_boxes()
    unsure = replace(state.answer, scores=np.float32([0.3, 0.2, 0.1]))
    state = replace(state, answer=unsure)
    after = pressed(state, "v")
    assert after.notice.text == "nothing found" and after.request.target == state.request.target
    locked = replace(state, answer=replace(unsure, target=Target((1,))))
    assert pressed(locked, "Right").notice.text == "no star found"
    seen = replace(state, answer=replace(unsure, scores=np.float32([0.3, 0.6, 0.9])))
    assert pressed(seen, "v").request.target == "2 - 1"


def test_arrow_keys_go_through_the_boxes():
    state = with_boxes((0, 0, 9, 9), (20, 20, 60, 60))
    assert [pressed(state, "Right " * n).box for n in (1, 2, 3)] == [4, 5, None]
    assert pressed(state, "Left").box == 5
    assert pressed(state.with_request(box=99), "Right").box is None
    assert pressed(with_boxes(), "Right").notice.text == "nothing found"
    assert pressed(started(), "Right").request.choice.method != "lrp"


def described(state):
    request, listed = state.request, state.menu
    chosen = listed.chosen() if listed else None
    if chosen is not None:
        chosen = chosen.name if isinstance(listed, CommandBox) else chosen[0]
    facts = {
        "target": request.target, "probe": request.probe, "concepts": request.concepts,
        "frame": request.frame and request.frame.number,
        "covered": request.mask is not None and tuple(np.argwhere(state.mask).mean(0).round()),
        "menu": listed and (listed.typed, chosen), "shown": state.shown and state.shown.number,
        "orders": list(state.orders), "answer": state.answer and tuple(state.answer.scores),
    }  # fmt: skip
    facts |= {field.name: getattr(request.choice, field.name) for field in fields(request.choice)}
    facts |= {field.name: getattr(state.look, field.name) for field in fields(state.look)}
    rest = {field.name for field in fields(state)} - {
        "config", "request", "look", "menu", "notice", "shown", "orders",
        "answer",
    }  # fmt: skip
    return facts | {name: getattr(state, name) for name in rest}


def changes(before, after):
    first, second = described(before), described(after)
    return {name: value for name, value in second.items() if value != first[name]}


PAUSE, GO_ON, STEP = ("pause", True), ("pause", False), ("step", 0)
SNAPSHOT, FULL_SCREEN = ("snapshot", 0), ("full_screen", 0)
HELD = {"frame": 7, "list_froze": True, "orders": [PAUSE]}
"""What the first list does to the picture."""
GOES_ON = {"frame": None, "list_froze": False, "orders": [PAUSE, GO_ON]}  # and what closing it does
ALSO = ("guided_backprop", "grad_cam")
VERSUS = {"target": "0 - 1", "before_versus": "0", "contrast": True}
KEYS = [
    # What is computed
    ("", "composite:zplus", {"composite": "zplus"}),
    ("", "next_method", {"method": "guided_backprop"}),
    ("next_method", "previous_method", {"method": "lrp"}),
    ("", "method:grad_cam", {"method": "grad_cam"}),
    ("", "p", {"tiled": True, "also": ALSO}),
    ("p", "p", {"tiled": False, "also": ()}),
    ("", "next_box", {}),
    ("", "pixel", {}),
    ("", "c", {"concepts": ConceptRequest()}),
    ("c", "lower_layer", {}),
    ("", "higher_layer", {"concepts": ConceptRequest()}),
    ("p", "next_method", {"method": "guided_backprop", "also": ("grad_cam",)}),
    ("p next_method", "composite:zplus", {"method": "lrp", "composite": "zplus", "also": ALSO}),
    ("", "panel:zplus", {"panels": (*ALSO, "zplus"), "also": (*ALSO, "zplus"), "tiled": True}),
    ("", "panel:grad_cam", {"also": ALSO, "tiled": True}),
    ("p", "panel:grad_cam", {"panels": ALSO[:1], "also": ALSO[:1]}),
    ("p panel:grad_cam", "panel:guided_backprop", {"panels": (), "also": (), "tiled": False}),
    ("", "x", {"random": True}),
    ("", "a", {"probe": True}),
    # What is explained
    ("", "target:all", {"target": "all"}),
    ("", "lock", {"target": "0"}),
    ("", "v", {"target": "0 - 1", "contrast": True, "following": True}),
    ("v", "v", {"target": "top1", "contrast": False, "following": False}),
    ("", "networks", {"alone": True}),
    ("lock", "v", VERSUS),
    ("lock v", "v", {"target": "0", "contrast": False}),
    # The list of classes
    ("", "l", {"menu": ("", 0), **HELD}),
    ("l", "Down", {"menu": ("", 1)}),
    ("l s", "t", {"menu": ("st", 1)}),
    ("l s t", "Return", {"menu": None, "target": "1", **GOES_ON}),
    ("lock l c u", "Tab", {"menu": None, **VERSUS, "target": "0 - 2", **GOES_ON}),
    ("lock l h", "Tab", {"menu": None, "before_versus": "0", **GOES_ON}),
    ("l z", "Return", {}),
    ("l q x", "Escape", {"menu": None, **GOES_ON}),
    # How it is drawn
    ("next_colormap", "colormap:None", {"colormap": None}),
    ("", "colormap:icefire", {"colormap": "icefire"}),
    ("", "channels", {"channels": "rgb"}),
    ("", "mirror", {"mirror": True}),
    ("paint", "mirror", {"mirror": True, "covered": (30, 109)}),
    # The picture
    ("", "space", {"frame": 7, "orders": [PAUSE]}),
    ("space", "space", {"frame": None, "orders": [PAUSE, GO_ON]}),
    ("", "step", {"frame": 7, "stepping": True, "orders": [PAUSE, STEP]}),
    ("space", "step", {"stepping": True, "orders": [PAUSE, STEP]}),
    ("step", "space", {"frame": None, "stepping": False, "orders": [PAUSE, STEP, GO_ON]}),
    ("", "next_source", {"orders": [("next_source", 0)]}),
    ("", "next_file", {"orders": [("skip", 1)]}),
    ("", "previous_file", {"orders": [("skip", -1)]}),
    ("", "paint", {"covered": (30, 50)}),
    ("", "larger_brush", {"brush": 0.06 * 1.3}),
    ("larger_brush", "smaller_brush", {"brush": 0.06 * 1.3 / 1.3}),
    ("paint", "BackSpace", {"covered": False}),
    ("", "z", {"framing": True}),
    ("z", "z", {"framing": False}),
    ("", "Page_Down", {"method": "guided_backprop"}),
    ("Right Down", "Up", {"method": "guided_backprop"}),
    ("next_method", "Page_Up", {"method": "lrp"}),
    # The window
    ("", "s", {"orders": [SNAPSHOT]}),
    ("s", "r", {"orders": [SNAPSHOT, ("record", 0)]}),
    ("", "f", {"full_screen": True, "orders": [FULL_SCREEN]}),
    ("f", "F11", {"full_screen": False, "orders": [FULL_SCREEN, FULL_SCREEN]}),
    ("f", "Escape", {"full_screen": False, "orders": [FULL_SCREEN, FULL_SCREEN]}),
    ("", "u", {"text": "figures"}),
    ("u", "u", {"text": "presenter"}),
    ("", "text:none", {"text": "none"}),
    ("text:none", "u", {"text": "presenter"}),
    ("", "text_size:large", {"text_size": "large"}),
    ("", "about", {"about": True}),
    ("", "h", {"menu": ("", "freeze")}),
    ("h", "Escape", {"menu": None}),
    ("h o u", "t", {"menu": ("out", "style:contour")}),
    ("h o u t", "Return", {"menu": None, "style": "contour", "last_command": "style:contour"}),
    ("h o u t Return", "/", {"menu": ("", "style:contour")}),
    ("", "q", {"end_until": 5.0 + END_S}),
    ("q", "q", {"ended": True}),
    ("", "Escape", {"end_until": 5.0 + END_S}),
    ("Escape", "next_opacity", {"opacity": 0.9, "end_until": 0.0}),
    ("Escape f", "Escape", {"full_screen": False, "orders": [FULL_SCREEN, FULL_SCREEN]}),
    ("", "F7", {}),
]  # keys before, a key, and all that it changes


@pytest.mark.parametrize(("before", "key", "expected"), KEYS, ids=lambda value: str(value)[:40])
def test_a_key_changes_this_and_nothing_else(before, key, expected):
    state = pressed(started(), before)
    assert changes(state, pressed(state, key)) == expected


def test_every_action_is_tried_and_no_key_has_two():
    bound = [key for one in keys.COMMANDS for key in one.keys]
    assert len(bound) == len(set(bound)) and len(keys.KEYED) == 17
    tried = {keys.BY_KEY[key].action if key in keys.BY_KEY else key.split(":")[0]
             for _, key, _ in KEYS}  # fmt: skip
    assert tried >= set(ACTIONS) - {name for one in LOOK_SETTINGS for name, *_ in one.commands}
    assert {one.action for one in COMMANDS.values() if not one.chooses} == set(ACTIONS)
    assert {one.action for one in COMMANDS.values() if one.chooses} <= set(CHOICES)


@pytest.mark.parametrize("setting", LOOK_SETTINGS, ids=lambda one: one.name)
def test_a_command_of_a_drawing_setting_changes_that_alone(setting):
    state = started()
    for action, _, by in setting.commands:
        value = setting.moved(getattr(state.look, setting.name), by)
        assert changes(state, pressed(state, action)) == {setting.name: value}


def test_every_command_is_found_by_typing_its_words_and_done_by_enter():
    state = shows(started(), **WIDE)
    listed = pressed(state, "h")
    assert {one.name for one in listed.menu.commands} == set(COMMANDS)
    for name, command in COMMANDS.items():
        typed = replace(listed, menu=replace(listed.menu, typed=command.meaning))
        assert typed.menu.chosen().name == name
        done, direct = pressed(typed, "Return"), pressed(state, name)
        assert described(replace(done, last_command="")) == described(direct) or name == "help"


def test_plain_words_find_a_command():
    for typed, name in {
        "outline": "style:contour", "next colours": "next_colormap", "methods": "next_method",
        "meth cam grad": "method:grad_cam", "camera": "next_source", "fire": "colormap:fire",
    }.items():  # fmt: skip
        letters = " ".join({" ": "space"}.get(letter, letter) for letter in typed)
        assert pressed(started(), f"h {letters}").menu.chosen().name == name
    nothing = pressed(started(), "h z z z z")
    assert nothing.menu.chosen() is None and pressed(nothing, "Return") is nothing


def test_a_click_on_a_line_of_a_list_chooses_it():
    state = replace(pressed(started(), "h"), size=(720, 1280))
    size = figure_size(720, 1280)
    clicked = [
        handle(state, events.MouseMoved(640, y, "left", time=6.0)) for y in range(0, 720, size)
    ]
    assert {"freeze", "random", "record"} <= {one.last_command for one in clicked} - {""}
    assert handle(state, events.MouseMoved(3, 100, "left", time=6.0)).menu is state.menu


def test_all_methods_and_targets_come_round():
    state, walked = started(), []
    for _ in METHODS:
        state = pressed(state, "next_method")
        walked.append(state.request.choice.method)
    assert [walked[-1], *walked[:-1]] == list(METHODS)
    unsuited = frozenset(("deconvnet", "cp_lrp"))
    state = shows(started(), unsuited=unsuited)
    last = [name for name in METHODS if name not in unsuited][-1]
    assert pressed(state, "previous_method").request.choice.method == last
    offered = {one.name for one in pressed(state, "h").menu.commands}
    assert {f"panel:{name}" for name in COMPOSITES} - offered == {"panel:cp_lrp"}
    assert "target:top5" not in offered and "target:all" in offered
    wide = shows(started(), **WIDE)
    assert "target:top5" in {one.name for one in pressed(wide, "h").menu.commands}
    assert pressed(wide, "lock v").request.target == "1 - 4"


def test_panels_that_the_network_refuses_are_left_out():
    unsuited = frozenset(("guided_backprop", "deconvnet"))
    state = pressed(shows(started(), unsuited=unsuited), "p")
    assert state.request.choice.also == ("grad_cam",)
    assert state.notice.text == "not for this network: guided_backprop"
    assert pressed(started(), "p").request.choice.also == ("guided_backprop", "grad_cam")
    early = shows(pressed(state_of(), "p"), unsuited=unsuited)
    assert early.request.choice.also == ("grad_cam",)


@pytest.mark.parametrize("between", ["next_colormap", "h Escape", "l Escape", "f Escape", "f f"])
def test_anything_between_two_presses_of_esc_makes_the_second_a_first_one(between):
    first = handle(started(), events.KeyPressed("Escape", time=10.0))
    assert first.notice.until == 12.0
    late = handle(first, events.KeyPressed("Escape", time=12.1))
    assert not late.ended and late.end_until == 14.1
    assert handle(late, events.KeyPressed("Escape", time=14.0)).ended
    armed = pressed(started(), "Escape")
    forgotten = pressed(armed, between)
    assert forgotten.end_until == 0 and forgotten.notice.text != armed.notice.text
    assert not pressed(forgotten, "Escape").ended and pressed(forgotten, "Escape Escape").ended
    moved = handle(armed, events.MouseMoved(5, 5, "", time=5.1))
    assert moved.end_until == armed.end_until
    assert handle(moved, events.MouseMoved(5, 5, "left", time=5.2)).end_until == 0


def test_a_clicker_goes_through_files_where_the_settings_say_so():
    state = pressed(started("live.clicker=files"), "Page_Down Right Down")
    assert list(state.orders) == [("skip", 1)] * 3
    state = pressed(state, "Page_Up Left Up")
    assert list(state.orders[3:]) == [("skip", -1)] * 3
    assert state.request.choice.method == "lrp"


def test_no_map_stands_side_by_side_with_itself():
    state = shows(state_of("live.panels=[lrp, grad_cam, zplus, grad_cam]"))
    assert state.named_panels == ("epsilon_plus_flat", "grad_cam", "zplus")
    assert pressed(state, "p").request.choice.also == ("grad_cam", "zplus")
    zplus = pressed(state, "p composite:zplus")
    assert zplus.request.choice.also == ("epsilon_plus_flat", "grad_cam")


def test_only_auto_precision_gets_another_engine_for_one_class_against_another():
    state = pressed(started(), "v")
    assert state.request.choice.contrast
    lrp = state.request.choice.config(state.config).lrp
    assert (lrp.precision, lrp.target) == ("auto", "0 - rest")
    assert not pressed(started(**{"--precision": "float32"}), "v").request.choice.contrast


def test_before_the_first_map_keys_that_need_an_answer_say_so():
    state = state_of()
    for key in ("lock", "v"):
        after = pressed(state, key)
        assert after.notice.text == NO_MAP and changes(state, after) == {}, key
    for key in ("space", "paint"):
        assert changes(state, pressed(state, key)) == {}, key


def test_a_list_opened_before_the_first_map_takes_letters_and_is_filled_with_it():
    typed = pressed(state_of(), "l u q Return BackSpace")
    assert not typed.ended and typed.menu.typed == "u" and typed.menu.found() == []
    drawn = shows(typed)
    assert [label for _, label in drawn.menu.found()] == ["cup"]
    assert pressed(drawn, "Return").request.target == "2"


def test_the_first_answer_shows_the_hint_and_tells_which_class_a_name_is():
    state = state_of(**{"--target": "star"})
    drawn = handle(state, events.FrameDrawn(DrawnView(FRAME, *answer(asked="star")), time=3.0))
    assert (state.target, drawn.target) == (Target(), Target((1,)))
    assert (drawn.notice.text, drawn.notice.until) == (HINT, 3.0 + NOTICE_S)
    assert pressed(drawn, "v").request.target == "1 - 0"
    assert pressed(drawn, "v v lock").request.target == "top1"
    assert started(**{"--target": "cup - rest"}).target == Target((2,), rest=True)
    other = pressed(state, "target:all")
    assert shows(other, asked="star").request.target == "all"


def test_another_source_goes_on_live_without_patches():
    state = pressed(started(), "space paint step")
    changed = handle(state, events.SourceChanged("source: 1"))
    assert changes(state, changed) == {"frame": None, "covered": False, "stepping": False}


def test_patches_go_where_pictures_get_another_size():
    state = pressed(started(), "paint")
    for picture, covered in ((PICTURE + 1, (30, 50)), (PICTURE[::2], False)):
        after = shows(state, Item(picture, 10, 3.0), asked=state.request.target)
        assert described(after)["covered"] == covered


def test_a_refused_choice_goes_back_to_what_is_shown():
    state = started()
    shown, asked = state.request.choice, pressed(state, "p").request.choice
    refused = events.ChoiceRefused(asked, "there is no ReLU", shown)
    expected = {"also": (), "tiled": False}
    assert changes(pressed(state, "p"), handle(pressed(state, "p"), refused)) == expected
    later = handle(pressed(state, "p composite:epsilon"), refused)
    assert later.request.choice.composite == "epsilon" and later.tiled


def test_the_settings_give_the_view_that_is_shown():
    words = "composite:epsilon target:all lock mirror next_colormap previous_opacity next_style"
    state = pressed(started(), f"{words} next_follow channels u text_size:large")
    again = first_state(state.present_config(), first_request(state.present_config()))
    assert again.look == state.look and again.mirror
    assert (again.text, again.text_size) == ("figures", "large")
    assert again.request.choice == state.request.choice
    assert again.request.target == str(state.request.target) == "0"
    assert pressed(started(), "v").present_config().lrp.precision == "auto", (
        "chosen anew by the target"
    )


def test_a_state_is_never_changed_in_place():
    state = pressed(started(), "paint space")
    before, mask = described(state), state.mask.copy()
    pressed(state, "paint mirror larger_brush BackSpace space l s Return h q")
    assert described(state) == before
    np.testing.assert_array_equal(state.mask, mask)
    assert {type(order).__name__ for order in state.orders} == {"Order"}


def at_step(number, **options):
    chosen = with_networks(config.load(options={"--lecture": "de"}, command="live").config)
    state = first_state(chosen, first_request(chosen), load_lecture(chosen))
    state = handle(show_step(state, 0), events.FrameDrawn(DrawnView(FRAME, *ANSWER)))
    return pressed(state, " ".join(["Page_Down"] * number))


def test_each_step_of_the_included_lecture_is_its_own_view():
    views = [
        (one.frozen is not None, one.request.probe, one.request.choice.random,
         one.request.concepts is not None, not one.alone)
        for one in map(at_step, range(7))
    ]  # fmt: skip
    steps = [tuple(step == number for number in range(1, 6)) for step in (0, 1, 2, 3, 4, 5, 5)]
    assert views == steps
    assert recorded_settings(at_step(0).config, "live")["live.also_models"] == ["shapes_vit"]
    assert changes(at_step(2), pressed(at_step(5), "Page_Up x panel:zplus u Page_Up Page_Up")) == {}
    assert [len(load_lecture(config.load(options={"--lecture": name}, command="live").config))
            for name in INCLUDED] == [6, 6]  # fmt: skip


def test_the_first_step_of_a_lecture_is_shown_whole_once_there_is_an_answer(tmp_path):
    (tmp_path / "mine.yaml").write_text("- say: a\n  do: [versus, freeze, panels]\n")
    state = show_step(state_of(**{"--lecture": str(tmp_path / "mine.yaml")}), 0)
    assert state.request.target == "top1"
    state = shows(handle(state, events.FrameDrawn(DrawnView(FRAME, None))))
    assert (state.request.target, state.frozen, state.tiled) == ("0 - 1", FRAME, True)


def test_what_is_wrong_in_a_lecture_is_told_with_its_line(tmp_path):
    file = tmp_path / "mine.yaml"
    chosen = config.load(options={"--lecture": str(file)}, check=None, command="live").config
    with pytest.raises(MissingInputError, match="expected de or en, or a file"):
        load_lecture(chosen)
    for text, line, told in (
        ("- say: a\n  do: [freeze]\n- say: b\n  do: [frezze]\n", 4, "'freeze'"),
        ("- say: a\n  do:\n  - clicker_next\n", 3, "command"),
        ("- say: a\n  doo: [freeze]\n", 2, "'do'"), ("- do: [freeze]\n", 1, "say"),
        ("say: a\n", 1, "steps"), ("", 1, "steps"),
    ):  # fmt: skip
        file.write_text(text)
        with pytest.raises(ConfigError, match=rf"mine\.yaml:{line}: .*{told}"):
            load_lecture(chosen)


def test_one_class_against_the_next_follows_the_picture_until_it_is_locked():
    state, other = pressed(started(), "v"), (0.1, 0.2, 0.7)
    first = state.request.target
    assert first == "0 - 1"
    seen = shows(state, LATER, scores=other, asked=first)
    assert seen.request.target == "2 - 1"
    assert pressed(seen, "v").request.target == "top1"
    second = shows(state, LATER, scores=(0.6, 0.1, 0.3), asked=first)
    assert second.request.target == first
    locked = pressed(started(), "lock v")
    kept = shows(locked, LATER, scores=other, asked=first)
    assert kept.request.target == first


SIZE = (720, 1280)
PLAIN = np.full((360, 640, 3), 90, np.uint8)
FILM = Timeline(2.0, 8.0, "seconds")


def film_state(timeline=None, size=SIZE, pictures=None):
    """The state of a viewer that shows a picture over all of the canvas."""
    state, pictures = state_of(), pictures or ((0, 0, size[1], size[0]),)
    shown = Item(PLAIN, 7, 1.0)
    drawn = events.FrameDrawn(DrawnView(shown, *answer(), pictures, timeline, size=size))
    return replace(handle(state, drawn), notice=type(state.notice)())


def moved(state, *moves):
    for now, x, y, button in moves:
        state = handle(state, events.MouseMoved(x, y, button, time=now))
    return state


def middle(box):
    return (box[0] + box[2]) // 2, (box[1] + box[3]) // 2


def controls_of(state):
    return arrange_controls(state.size, figure_size(*state.size), state.timeline is not None)


def clicked(state, name):
    """The state after a click on a control that has been shown for a while."""
    box = controls_of(state).track if name == "bar" else controls_of(state).buttons[name]
    x, y = middle(box)
    pressed = 10.0 + SETTLED_S + 0.1
    return moved(state, (10.0, x, y, ""), (pressed, x, y, "left"), (pressed + 0.1, x, y, ""))


@pytest.mark.parametrize("action", BUTTONS)
def test_a_click_does_what_the_key_does(action):
    before = film_state()
    state = clicked(before, action)
    key = handle(before, events.Chosen(action, time=10.0 + SETTLED_S + 0.1))
    for field in fields(state):
        if field.name == "request":
            assert (state.request.choice, state.request.target) == (
                key.request.choice, key.request.target,
            )  # fmt: skip
            assert state.frozen is key.frozen and state.mask is key.mask is None
        elif field.name == "menu":
            assert type(state.menu) is type(key.menu)
        elif field.name != "pointer":
            assert getattr(state, field.name) == getattr(key, field.name), field.name


def test_controls_are_shown_while_the_mouse_moves_and_some_seconds_more():
    state = film_state()
    assert state.controls(1.0) is None
    state = moved(state, (10.0, 300, 200, ""))
    assert state.controls(10.0) and state.controls(10.0 + CONTROLS_S - 0.1)
    assert state.controls(10.0 + CONTROLS_S) is None
    painting = moved(state, (10.5, 300, 200, "left"))
    assert painting.controls(10.5) is None and painting.mask is not None
    assert moved(painting, (10.6, 300, 200, "")).controls(10.6)
    for key in "hl":
        listed = handle(state, events.KeyPressed(key, time=10.5))
        assert listed.controls(10.6) is None
        assert moved(listed, (11.0, 300, 200, "left"), (11.1, 310, 200, "left")).mask is None


def test_a_touch_that_makes_the_buttons_appear_presses_none():
    state = film_state()
    x, y = middle(controls_of(state).buttons["quit"])
    touched = moved(state, (10.0, x, y, ""), (10.01, x, y, "left"), (10.1, x, y, ""))
    assert not touched.end_until and touched.mask is not None
    pressed = moved(touched, (11.0, x, y, "left"))
    assert pressed.end_until and not pressed.ended
    assert moved(pressed, (11.1, x, y, ""), (11.5, x, y, "left")).ended


def test_between_buttons_nothing_is_painted_and_a_stroke_goes_on_over_them():
    state = film_state()
    area = controls_of(state).area
    shown = moved(state, (10.0, 2, area[3] - 2, ""), (10.5, 2, area[3] - 2, "left"))
    assert shown.mask is None
    x, y = middle(controls_of(state).buttons["quit"])
    stroke = moved(state, (10.0, x, 100, ""), (10.5, x, 100, "left"), (10.6, x, y, "left"))
    assert not stroke.end_until and stroke.mask[y // 2, x // 2]
    assert not moved(shown, (10.7, x, y, "left")).end_until, "pressed elsewhere"


def test_a_fast_stroke_is_joined_and_has_one_width():
    state = moved(film_state(), (10.0, 200, 200, "left"), (10.1, 900, 500, "left"))
    start, end, radius = np.array([100, 100]), np.array([450, 250]), brush_radius(state)
    assert radius == round(0.06 * 360)
    pixels = np.argwhere(np.ones_like(state.mask))[:, ::-1] - start
    along = end - start
    share = np.clip(pixels @ along / (along @ along), 0, 1)
    distance = np.hypot(*(pixels - share[:, None] * along).T).reshape(state.mask.shape)
    assert state.mask[distance < radius].all() and not state.mask[distance > radius + 1].any()
    lifted = moved(state, (10.2, 900, 500, ""), (10.3, 100, 600, ""), (10.4, 60, 660, "left"))
    assert not lifted.mask[290, 60], "nothing is painted while no button is down"
    assert moved(lifted, (10.5, 60, 660, ""), (10.6, 60, 660, "right")).mask.sum() == pytest.approx(
        state.mask.sum(), abs=2
    )


def test_a_stroke_from_one_picture_to_the_next_paints_its_part_of_each():
    state = film_state(pictures=((0, 0, 620, 720), (660, 0, 1280, 720)))
    state = moved(state, (10.0, 310, 360, "left"), (10.1, 970, 360, "left"))
    columns, radius = np.flatnonzero(state.mask[180]), brush_radius(state)
    assert columns.tolist() == list(range(640)), "to the right edge, and from the left one"
    out = moved(film_state(), (10.0, 640, 360, "left"), (10.1, 640, 900, "left"))
    assert np.flatnonzero(out.mask[:, 320]).tolist() == list(range(180 - radius, 360))


def test_a_click_or_drag_on_the_bar_seeks():
    state = film_state(FILM)
    x0, y0, x1, y1 = controls_of(state).track
    y = (y0 + y1) // 2
    half = x0 + (x1 - 1 - x0) // 2
    state = moved(state, (10.0, half, y, ""), (10.5, half, y, "left"))
    assert state.orders == (("seek", pytest.approx(4.0, abs=0.01)),)
    assert state.timeline.position == pytest.approx(4.0, abs=0.01)
    state = moved(state, (10.6, x1 - 1, y, "left"), (10.6, x1 + 200, y - 300, "left"))
    state = moved(state, (10.7, 0, y, "left"))
    assert [value for _, value in state.orders[1:]] == [8.0, 0.0]
    assert state.mask is None and state.controls(20.0), "shown while it is held"
    state = moved(state, (10.8, 0, y, ""), (10.9, half, y, ""))
    assert len(state.orders) == 3 and not state.stepping


def test_among_pictures_the_nearest_one_is_sought():
    four = Timeline(1.0, 4.0, "files")
    for share, number in ((0.0, 0), (0.16, 0), (0.2, 1), (0.84, 3), (1.0, 3)):
        orders = seek(film_state(four), share).orders
        assert orders == ((("seek", number),) if number != 1 else ()), "it stands at the second"
    shares = [progress(Timeline(float(n), 4.0, "files")).share for n in range(4)]
    assert shares == pytest.approx([0, 1 / 3, 2 / 3, 1])


def test_a_frozen_film_shows_the_pictures_that_are_sought():
    state = clicked(handle(film_state(FILM), events.KeyPressed("space", time=5.0)), "bar")
    assert state.stepping and state.orders[-1].what == "seek"
    for number in (8, 9):
        state = handle(state, events.FrameStepped(Item(PLAIN, number, 2.0)))
        assert state.frozen.number == number and state.stepping
    state = handle(state, events.KeyPressed("space", time=20.0))
    assert not (state.stepping or state.seeking or state.frozen)


def test_recordings_and_snapshots_have_neither_buttons_nor_outline():
    viewer = Viewer(size=(360, 640))
    viewer.frame(PLAIN)
    plain = viewer.view.canvas.copy()
    viewer.press(Mouse(320, 200, ""))
    viewer.frame(PLAIN)
    np.testing.assert_array_equal(viewer.view.canvas, plain)
    screen = viewer.shown[-1]
    assert (screen[330:] != plain[330:]).any(-1).mean() > 0.3
    assert (screen[150:250, 270:370] > 200).all(-1).sum() > 50
