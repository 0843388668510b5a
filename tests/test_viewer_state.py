"""`handle(state, event)`: what each event changes, and that it changes nothing else."""

from dataclasses import fields, replace

import numpy as np
import pytest
from viewer import answer

from realtime_lrp import config
from realtime_lrp.engine.result import ConceptRequest
from realtime_lrp.realtime.explaining import first_request
from realtime_lrp.realtime.latest import Item
from realtime_lrp.realtime.viewer import events
from realtime_lrp.realtime.viewer.actions import ACTIONS, HINT, NO_MAP
from realtime_lrp.realtime.viewer.handle import handle
from realtime_lrp.realtime.viewer.state import (
    ESCAPE_S,
    NOTICE_S,
    Command,
    ViewerState,
    first_state,
)
from realtime_lrp.relevance.maps.methods import METHODS
from realtime_lrp.relevance.rules.composites import COMPOSITES
from realtime_lrp.view import keys
from realtime_lrp.view.menus import ClassList, PanelList

PICTURE = np.full((120, 160, 3), 90, np.uint8)
PICTURE[:, :80] = 10
FRAME, LATER = Item(PICTURE, 7, 1.0), Item(PICTURE, 9, 2.0)
WIDE = {"scores": (0.1, 0.5, 0.1, 0.1, 0.2), "labels": "abcde"}


def started(*sets, **options):
    """The state of a viewer that shows a frame with its answer; no notice is shown any more."""
    chosen = config.load(sets=sets, options=options, command="live").config
    state = first_state(chosen, first_request(chosen))
    drawn = events.FrameDrawn(FRAME, answer(asked=state.request.target), ((0, 0, 160, 120),))
    return replace(handle(state, drawn), notice=type(state.notice)())


def pressed(state, names):
    """The state after keys, names separated by spaces; a mask stands for the brush."""
    for key in names.split():
        if key == "paint":
            state = handle(state, events.Painted((50, 30), (50, 30), cover=True, time=5.0))
        else:
            state = handle(state, events.KeyPressed(key, time=5.0))
    return state


def described(state):
    """All of a state as values that can be compared."""
    request, listed = state.request, state.menu
    menu = listed if isinstance(listed, ClassList) else None
    maps = listed if isinstance(listed, PanelList) else None
    facts = {
        "target": request.target,
        "probe": request.probe,
        "concepts": request.concepts,
        "frame": request.frame and request.frame.number,
        "covered": request.mask is not None and tuple(np.argwhere(state.mask).mean(0).round()),
        "menu": menu and (menu.typed, menu.chosen()),
        "maps": maps and (maps.names[maps.cursor], maps.panels()),
        "shown": state.shown and state.shown.number,
        "commands": [command.name for command in state.commands],
        "answer": state.answer and tuple(state.answer.scores),
    }
    facts |= {field.name: getattr(request.choice, field.name) for field in fields(request.choice)}
    facts |= {field.name: getattr(state.look, field.name) for field in fields(state.look)}
    rest = {field.name for field in fields(ViewerState)} - {
        "config", "request", "look", "menu", "notice", "shown", "commands",
        "answer",
    }  # fmt: skip
    return facts | {name: getattr(state, name) for name in rest}


def changes(before, after):
    """What differs, by name."""
    first, second = described(before), described(after)
    return {name: value for name, value in second.items() if value != first[name]}


HELD = {"frame": 7, "list_froze": True, "commands": ["PAUSE"]}
"""What the first list does to the picture."""
GOES_ON = {"frame": None, "list_froze": False, "commands": ["PAUSE", "RESUME"]}
"""And what closing it does."""
ALSO = ("guided_backprop", "grad_cam")
KEYS = [
    # What is computed
    ("", "1", {"composite": "zplus"}),
    ("b", "7", {"method": "lrp", "composite": "epsilon_gamma_box"}),
    ("", "b", {"method": "guided_backprop"}),
    ("b", "n", {"method": "lrp"}),
    ("", "p", {"tiled": True, "also": ALSO}),
    ("p", "p", {"tiled": False, "also": ()}),
    ("", "F2", {"concepts": ConceptRequest()}),
    ("F2", "F3", {}),
    ("", "F4", {"concepts": ConceptRequest()}),
    ("p", "b", {"method": "guided_backprop", "also": ("grad_cam",)}),
    ("p b", "3", {"method": "lrp", "composite": "epsilon_plus", "also": ALSO}),
    ("", "Tab", {"maps": ("zplus", ALSO), **HELD}),
    ("Tab", "space", {"maps": ("zplus", ("zplus", *ALSO))}),
    ("Tab space", "Escape", {"maps": None, **GOES_ON}),
    (
        "Tab space",
        "Return",
        {
            "maps": None,
            "panels": ("zplus", *ALSO),
            "also": ("zplus", *ALSO),
            "tiled": True,
            **GOES_ON,
        },
    ),
    (
        "p Tab Page_Down space Down space",
        "Return",
        {"maps": None, "panels": (), "also": (), "tiled": False, **GOES_ON},
    ),
    ("", "x", {"random": True}),
    ("", "a", {"probe": True}),
    # What is explained
    ("", "t", {"target": "all"}),
    ("t", "t", {"target": "top1"}),
    ("", "d", {"target": 0}),
    ("", "v", {"target": "0 - 1", "contrast": True}),
    ("v", "v", {"target": "top1", "contrast": False}),
    ("d", "v", {"target": "0 - 1", "before_versus": 0, "contrast": True}),
    ("d v", "v", {"target": 0, "contrast": False}),
    # The list of classes
    ("", "l", {"menu": ("", 0), **HELD}),
    ("l", "Down", {"menu": ("", 1)}),
    ("l s", "t", {"menu": ("st", 1)}),
    ("l s t", "Return", {"menu": None, "target": 1, **GOES_ON}),
    (
        "d l c u",
        "Tab",
        {"menu": None, "target": "0 - 2", "before_versus": 0, "contrast": True, **GOES_ON},
    ),
    ("d l h", "Tab", {"menu": None, "before_versus": 0, **GOES_ON}),
    ("l z", "Return", {}),
    ("l q x", "Escape", {"menu": None, **GOES_ON}),
    # How it is drawn
    ("", "k", {"colormap": "bwr"}),
    ("k", "j", {"colormap": None}),
    ("", "j", {"colormap": "icefire"}),
    ("", "-", {"opacity": 0.7}),
    ("", "o", {"style": "contour"}),
    ("", "y", {"follow": "hold"}),
    ("", "g", {"channels": "rgb"}),
    ("", "m", {"mirror": True}),
    ("paint", "m", {"mirror": True, "covered": (30, 109)}),
    # The picture
    ("", "f", {"frame": 7, "commands": ["PAUSE"]}),
    ("f", "space", {"frame": None, "commands": ["PAUSE", "RESUME"]}),
    ("", ".", {"frame": 7, "stepping": True, "commands": ["PAUSE", "STEP"]}),
    ("f", ".", {"stepping": True, "commands": ["PAUSE", "STEP"]}),
    (".", "f", {"frame": None, "stepping": False, "commands": ["PAUSE", "STEP", "RESUME"]}),
    ("", "c", {"commands": ["NEXT_SOURCE"]}),
    ("", "e", {"commands": ["NEXT_FILE"]}),
    ("", "w", {"commands": ["PREVIOUS_FILE"]}),
    ("", "paint", {"covered": (30, 50)}),
    ("", "]", {"brush": 0.06 * 1.3}),
    ("]", "[", {"brush": 0.06 * 1.3 / 1.3}),
    ("paint", "BackSpace", {"covered": False}),
    ("", "F6", {}),
    ("", "Page_Down", {"method": "guided_backprop"}),
    ("Right Down", "Up", {"method": "guided_backprop"}),
    ("b", "Page_Up", {"method": "lrp"}),
    # The window
    ("", "s", {"commands": ["SNAPSHOT"]}),
    ("s", "r", {"commands": ["SNAPSHOT", "RECORD"]}),
    ("", "z", {"full_screen": True, "commands": ["FULL_SCREEN"]}),
    ("z", "F11", {"full_screen": False, "commands": ["FULL_SCREEN", "FULL_SCREEN"]}),
    ("z", "Escape", {"full_screen": False, "commands": ["FULL_SCREEN", "FULL_SCREEN"]}),
    ("", "i", {"figures": {"answer", "rates", "setting"}}),
    ("i", "i", {"figures": frozenset()}),
    ("i i", "i", {"figures": None}),
    ("", "8", {"figures": {"setting"}}),
    ("8", "9", {"figures": {"rates", "setting"}}),
    ("", "0", {"figures": {"answer"}}),
    ("", "u", {"presenter": True}),
    ("u", "9", {"figures": {"answer", "rates"}}),
    ("u 9", "u", {"presenter": False, "figures": None}),
    ("", ",", {"text_size": "large"}),
    ("", "/", {"about": True}),
    ("", "h", {"helping": True}),
    ("h", "Escape", {"helping": False}),
    ("h", "t", {"target": "all"}),
    ("", "q", {"ended": True}),
    ("", "Escape", {"escape_until": 5.0 + ESCAPE_S}),
    ("Escape", "Escape", {"ended": True}),
    ("Escape", "+", {"opacity": 0.9, "escape_until": 0.0}),
    ("Escape z", "Escape", {"full_screen": False, "commands": ["FULL_SCREEN", "FULL_SCREEN"]}),
    ("", "F7", {}),
]
"""Keys before, a key, and all that it changes."""


def name_of_case(value):
    """The same in every process, which the order of a set is not."""
    if isinstance(value, dict):
        value = {k: sorted(v) if isinstance(v, set | frozenset) else v for k, v in value.items()}
    return str(value)[:40]


@pytest.mark.parametrize(("before", "key", "expected"), KEYS, ids=name_of_case)
def test_a_key_changes_this_and_nothing_else(before, key, expected):
    """From the state that the keys before lead to."""
    state = pressed(started(), before)
    assert changes(state, pressed(state, key)) == expected


@pytest.mark.parametrize(
    ("pressed_keys", "words"),
    [("t t", "the best, heart"), ("d", "heart"), ("v", "heart - star"), ("F7", HINT), ("~", HINT),
     (keys.UNNAMED, HINT), ("-", "0.7"), ("k", "bwr"), ("n", "attention"), ("F2 F3", "no layers"),
     ("F6", "does not begin again"), ("]", "8 %")],
)  # fmt: skip
def test_a_notice_says_what_was_chosen(pressed_keys, words):
    """The class by its name, the value, or which key leads on."""
    assert words in pressed(started(), pressed_keys).notice.text


def test_the_table_covers_every_key_and_every_action_is_bound():
    """The first composites have a digit each; no key has two actions."""
    bound = [key for group in keys.BINDINGS.values() for one in group for key in one.keys]
    assert len(bound) == len(set(bound))
    actions = {keys.ACTIONS[key] for _, key, _ in KEYS if key in keys.ACTIONS}
    assert actions == set(keys.ACTIONS.values())
    assert set(ACTIONS) == actions - {"composite"}
    assert list(keys.COMPOSITE_KEYS.values()) == list(COMPOSITES)[: len(keys.COMPOSITE_KEYS)]


def test_all_methods_colour_maps_and_targets_come_round():
    """All that suit the network: each once, attention last; from five classes on the five best."""
    state, walked = started(), []
    for _ in METHODS:
        state = pressed(state, "b")
        walked.append(state.request.choice.method)
    assert [walked[-1], *walked[:-1]] == list(METHODS)
    assert walked[0] == "guided_backprop" and walked[-2:] == ["attention", "lrp"]
    state, walked = started(), []
    for _ in range(7):
        state = pressed(state, "k")
        walked.append(state.look.colormap)
    assert walked == ["bwr", "coldnhot", "fire", "gray", "hot", "icefire", None]
    cnn = replace(answer(), unsuited=frozenset(("attention", "attention_rollout", "cp_lrp")))
    state = handle(started(), events.FrameDrawn(FRAME, cnn))
    assert pressed(state, "n").request.choice.method == "deconvnet"
    assert set(COMPOSITES) - set(pressed(state, "Tab").menu.names) == {"cp_lrp"}
    wide = handle(started(), events.FrameDrawn(FRAME, answer(**WIDE)))
    assert [pressed(wide, "t " * n).request.target for n in (1, 2, 3)] == ["top5", "all", "top1"]
    assert pressed(wide, "t d v").request.target == "1 - 4"


def test_panels_that_the_network_refuses_are_left_out():
    """A notice names them; the others are shown."""
    vit = replace(answer(), unsuited=frozenset(("guided_backprop", "deconvnet")))
    state = pressed(handle(started(), events.FrameDrawn(FRAME, vit)), "p")
    assert state.request.choice.also == ("grad_cam",)
    assert state.notice.text == "not for this network: guided_backprop"
    assert pressed(started(), "p").request.choice.also == ("guided_backprop", "grad_cam")


def test_only_a_second_esc_within_two_seconds_ends():
    """A later one is a first one again."""
    first = handle(started(), events.KeyPressed("Escape", time=10.0))
    assert first.notice.until == 12.0
    late = handle(first, events.KeyPressed("Escape", time=12.1))
    assert not late.ended and late.escape_until == 14.1
    assert handle(late, events.KeyPressed("Escape", time=14.0)).ended


@pytest.mark.parametrize("between", ["k", "h Escape", "l Escape", "Tab Escape", "z Escape", "z z"])
def test_anything_between_two_presses_of_esc_makes_the_second_a_first_one(between):
    """Its notice goes, too, and a click does the same as a key."""
    armed = pressed(started(), "Escape")
    forgotten = pressed(armed, between)
    assert forgotten.escape_until == 0 and forgotten.notice.text != armed.notice.text
    assert not pressed(forgotten, "Escape").ended and pressed(forgotten, "Escape Escape").ended
    moved = handle(armed, events.MouseMoved(5, 5, "", time=5.1))
    assert moved.escape_until == armed.escape_until
    assert handle(moved, events.MouseMoved(5, 5, "left", time=5.2)).escape_until == 0


def test_a_clicker_goes_through_files_where_the_settings_say_so():
    """Page Down and the arrows to the right and down go forwards."""
    state = pressed(started("live.clicker=files"), "Page_Down Right Down")
    assert [command.name for command in state.commands] == ["NEXT_FILE"] * 3
    state = pressed(state, "Page_Up Left Up")
    assert [command.name for command in state.commands[3:]] == ["PREVIOUS_FILE"] * 3
    assert state.request.choice.method == "lrp"


def test_no_map_stands_side_by_side_with_itself():
    """Not when a setting names it twice or calls it lrp, nor when it becomes the main one."""
    sets = ("live.panels=[lrp, grad_cam, zplus, grad_cam]",)
    chosen = config.load(sets=sets, command="live").config
    state = first_state(chosen, first_request(chosen))
    state = handle(state, events.FrameDrawn(FRAME, answer()))
    assert state.named_panels == ("epsilon_plus_flat", "grad_cam", "zplus")
    assert pressed(state, "p").request.choice.also == ("grad_cam", "zplus")
    assert pressed(state, "p 1").request.choice.also == ("epsilon_plus_flat", "grad_cam")


def test_mirroring_turns_the_frozen_picture_and_the_patches():
    """Twice is as before."""
    state = pressed(started(), "f paint")
    once = pressed(state, "m")
    np.testing.assert_array_equal(once.frozen.value, PICTURE[:, ::-1])
    np.testing.assert_array_equal(once.mask, state.mask[:, ::-1])
    np.testing.assert_array_equal(pressed(once, "m").mask, state.mask)


def test_only_auto_precision_gets_another_engine_for_one_class_against_another():
    """With a fixed precision the same engine explains it."""
    state = pressed(started(), "v")
    assert state.request.choice.contrast
    lrp = state.request.choice.config(state.config).lrp
    assert (lrp.precision, lrp.target) == ("auto", "0 - rest")
    assert not pressed(started(**{"--precision": "float32"}), "v").request.choice.contrast


def test_before_the_first_map_keys_that_need_an_answer_say_so():
    """There is no best class and no picture yet."""
    chosen = config.load(command="live").config
    state = first_state(chosen, first_request(chosen))
    for key in ("d", "v"):
        after = pressed(state, key)
        assert after.notice.text == NO_MAP and changes(state, after) == {}, key
    for key in ("f", "paint"):
        assert changes(state, pressed(state, key)) == {}, key


def test_a_list_opened_before_the_first_map_takes_letters_and_is_filled_with_it():
    """A `q` in a name does not end the program; Return waits for the classes."""
    chosen = config.load(command="live").config
    typed = pressed(first_state(chosen, first_request(chosen)), "l u q Return BackSpace")
    assert not typed.ended and typed.menu.typed == "u" and typed.menu.found() == []
    drawn = handle(typed, events.FrameDrawn(FRAME, answer()))
    assert [label for _, label in drawn.menu.found()] == ["cup"]
    assert pressed(drawn, "Return").request.target == 2


def test_the_first_answer_shows_the_hint_and_replaces_a_class_name_by_its_index():
    """With indices v and d work; a target chosen meanwhile stays."""
    chosen = config.load(options={"--target": "star"}, command="live").config
    state = first_state(chosen, first_request(chosen))
    drawn = handle(state, events.FrameDrawn(FRAME, answer(asked="star"), time=3.0))
    assert drawn.request.target == 1
    assert (drawn.notice.text, drawn.notice.until) == (HINT, 3.0 + NOTICE_S)
    assert pressed(drawn, "v").request.target == "1 - 0"
    assert pressed(drawn, "v v d").request.target == "top1"
    contrast = started(**{"--target": "cup - rest"})
    assert contrast.request.target == "2 - rest"
    other = pressed(state, "t")
    assert handle(other, events.FrameDrawn(FRAME, answer(asked="star"))).request.target == "all"


def test_a_step_ends_with_the_frame_that_came():
    """It is the frozen one then."""
    state = pressed(started(), ".")
    stepped = handle(state, events.FrameStepped(LATER))
    assert changes(state, stepped) == {"frame": 9, "stepping": False}


def test_another_source_goes_on_live_without_patches():
    """The notice names it."""
    state = pressed(started(), "f paint .")
    changed = handle(state, events.SourceChanged("source: 1"))
    expected = {"frame": None, "covered": False, "stepping": False}
    assert changes(state, changed) == expected


def test_a_refused_choice_goes_back_to_what_is_shown():
    """The request, not only the picture; another choice in the meantime stays."""
    state = started()
    shown, asked = state.request.choice, pressed(state, "p").request.choice
    refused = events.ChoiceRefused(asked, "there is no ReLU", shown)
    expected = {"also": (), "tiled": False}
    assert changes(pressed(state, "p"), handle(pressed(state, "p"), refused)) == expected
    later = handle(pressed(state, "p 2"), refused)
    assert later.request.choice.composite == "epsilon" and later.tiled
    partly = events.ChoiceRefused(None, "no grad_cam", replace(asked, also=("gradient",)))
    assert handle(pressed(state, "p"), partly).tiled


def test_the_settings_give_the_view_that_is_shown():
    """A viewer that starts with them shows the same."""
    state = pressed(started(), "2 t d m k - o y g u ,")
    again = first_state(state.present_config(), first_request(state.present_config()))
    assert again.look == state.look and again.mirror
    assert (again.presenter, again.text_size) == (True, "large")
    assert again.request.choice == state.request.choice
    assert again.request.target == str(state.request.target) == "0"
    assert pressed(started(), "v").present_config().lrp.precision == "auto", (
        "chosen anew by the target"
    )


def test_a_state_is_never_changed_in_place():
    """The one before stays as it was, arrays too."""
    state = pressed(started(), "paint f")
    before, mask = described(state), state.mask.copy()
    pressed(state, "paint m ] BackSpace f l s Return h q")
    assert described(state) == before
    np.testing.assert_array_equal(state.mask, mask)
    assert all(isinstance(command, Command) for command in state.commands)


def test_what_a_page_sends_changes_the_state_as_keys_do():
    """Method, opacity and style are chosen by name, a target by its class."""
    state = handle(started(), events.Chosen("method", "grad_cam", time=5.0))
    assert state.request.choice.method == "grad_cam"
    state = handle(state, events.Chosen("opacity", 0.35, time=5.0))
    state = handle(state, events.Chosen("style", "contour", time=5.0))
    assert (state.look.opacity, state.look.style) == (0.35, "contour")
    state = handle(state, events.Chosen("target", 1, time=5.0))
    assert state.request.target == 1 and state.notice.text.startswith("locked: ")
