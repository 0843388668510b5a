"""`handle`: the next state of the viewer. Pure: no threads, no window, no clock but the event's."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from realtime_lrp.realtime.explaining import first_request
from realtime_lrp.realtime.viewer import actions, events, pointing
from realtime_lrp.realtime.viewer.lecture import COMMANDS
from realtime_lrp.realtime.viewer.state import DrawnView, Notice, ViewerState, first_state
from realtime_lrp.view import keys
from realtime_lrp.view.controls import ClassList, CommandBox, Menu
from realtime_lrp.view.hud import figure_size
from realtime_lrp.view.look import LOOK_SETTINGS

WARNING_S = 10.0  # seconds for which a warning is shown that the answers may be wrong
INPUTS = events.KeyPressed, events.Chosen, events.Brushed, events.Clicked, events.Framed
Choice = Callable[[ViewerState, Any], ViewerState]  # state, what was chosen -> state

CHOICES: dict[str, Choice] = {
    "composite": lambda state, name: state.with_choice(method="lrp", composite=name),
    "method": actions.choose_method,
    "target": actions.choose_target,
    "line": pointing.choose_line,
    "panel": actions.toggle_panel,
    "text": lambda state, text: replace(state, text=text),
    "text_size": lambda state, size: replace(state, text_size=size).with_notice(f"text: {size}"),
    "channel": actions.follow_channel,
    "layer": actions.choose_layer,
    "position": pointing.seek,
    **{one.name: partial(actions.set_look, setting=one) for one in LOOK_SETTINGS},
}
"""Setting -> the function that applies a chosen value."""


def handle(state: ViewerState, event: events.Event) -> ViewerState:
    """The state after an event; the same object where nothing changes."""
    begun = replace(state, now=event.time)
    if isinstance(event, events.OnCanvas) and event.pictures:
        begun = replace(begun, pictures=event.pictures)
    after = _handled(begun, event)
    pictures = state.pictures if isinstance(event, events.OnCanvas) else after.pictures
    after = state if after is begun else replace(after, now=0.0, pictures=pictures)
    is_input = isinstance(event, INPUTS)
    if isinstance(event, events.MouseMoved):
        is_input = event.button != ""
    if not (state.end_until and is_input) or after.ended or after.end_until != state.end_until:
        return after
    # the next press of Esc or End does not end the program
    told = after.notice.text == actions.END_NOTICE
    return replace(after, end_until=0.0, notice=Notice() if told else after.notice)


def _handled(state: ViewerState, event: events.Event) -> ViewerState:
    """The next state, before a pending End is cancelled."""
    match event:
        case events.KeyPressed(key) if state.menu:
            return _key_in_menu(state, state.menu, key)
        case events.KeyPressed(key) if key in keys.BY_KEY:
            return _handled(state, events.Chosen(keys.BY_KEY[key].action))
        case events.KeyPressed(key):
            unknown = "no such key" if key == keys.UNNAMED else f"no key {keys.key_text([key])}"
            return state.with_notice(f"{unknown}; {actions.HINT}")
        case events.Chosen("clicker_next") if state.lecture:
            return show_step(state, min(state.step + 1, len(state.lecture) - 1))
        case events.Chosen("clicker_previous") if state.lecture:
            return show_step(state, max(state.step - 1, 0))
        case events.Chosen(what, value) if what in CHOICES:
            return CHOICES[what](state, value)
        case events.Chosen(what):
            return actions.ACTIONS[what](state)
        case events.MouseMoved(x, y, button):
            pressed = button == "left" and not state.pointer.button
            state = pointing.move_mouse(state, (x, y), button)
            if pressed and state.menu:  # a click on an entry is Enter there
                letters = figure_size(*state.size, state.text_size)
                if clicked := state.menu.click(state.size, letters, state.free, x, y):
                    return _key_in_menu(replace(state, menu=clicked), clicked, "Return")
            return state
        case events.Brushed(start, end, cover):
            return pointing.paint_on_canvas(state, start, end, cover)
        case events.Framed(start, end):
            return pointing.frame_region(state, start, end)
        case events.Pointed(at):
            return pointing.point_at(state, at)
        case events.Clicked(at, paints):
            return pointing.click_on_picture(state, at, paints)
        case events.FrameDrawn(drawn):
            return _frame_drawn(state, drawn)
        case events.FrameStepped(frame):
            return replace(state, stepping=state.seeking).with_request(frame=frame)
        case events.FileSkipped():
            return replace(state, stepping=state.frozen is not None)
        case events.SourceChanged(text):
            state = replace(state, stepping=False, seeking=False, timeline=None)
            return state.with_request(frame=None, mask=None).with_notice(text)
        case events.ChoiceRefused(choice, reason, shown):
            if state.request.choice == choice:  # nothing else was chosen in the meantime
                state = replace(state, tiled=state.tiled and bool(shown.also))
                state = state.with_request(choice=shown)
            return state.with_notice(reason)
        case events.NoticeGiven(text):
            return state.with_notice(text)
        case events.LessonKey():  # a page that has been open since an earlier lesson
            return state
    raise TypeError(type(event))


def show_step(state: ViewerState, number: int) -> ViewerState:
    """Shows a step of the lecture: the view as at the start, changed by the step's commands."""
    if state.frozen:
        state = actions.ACTIONS["freeze"](state)
    start = first_state(state.config, first_request(state.config), state.lecture)
    state = replace(
        state, step=number, request=start.request, look=start.look, text=start.text,
        panels=start.panels, brush=start.brush, tiled=False, about=False, alone=True, menu=None,
    )  # fmt: skip
    for command in map(COMMANDS.__getitem__, state.lecture[number].do):
        state = _handled(state, events.Chosen(command.action, command.value))
    return replace(state, notice=Notice())


def _key_in_menu(state: ViewerState, menu: Menu, key: str) -> ViewerState:
    closed = actions.close_list(state)
    if key == "Escape":
        return closed
    if key not in ("Return", "Tab"):
        return replace(state, menu=menu.press(key))
    chosen = menu.chosen()
    if chosen is None:
        return state
    if isinstance(menu, CommandBox):
        closed = replace(closed, last_command=chosen.name)
        return _handled(closed, events.Chosen(chosen.action, chosen.value))
    if key == "Return":
        return actions.choose_target(closed, str(chosen[0]))
    return actions.announce_target(actions.oppose(closed, chosen[0]))


def _frame_drawn(state: ViewerState, drawn: DrawnView) -> ViewerState:
    first = state.answer is None
    state = replace(state, **vars(drawn))
    if state.shown and state.mask is not None and state.mask.shape != state.shown.value.shape[:2]:
        state = state.with_request(mask=None)  # the source changed its size
    if state.answer is None:
        return state
    if first and state.lecture:  # its commands may need an answer
        state = show_step(state, state.step)
    if first:  # the maps that the network has no use for are known from now on
        state = state.with_choice().with_notice(actions.HINT)
        if warning := state.facts.warning:
            state = state.with_notice(f"{warning}\n{actions.HINT}", WARNING_S)
    state = actions.follow_best(state)
    if isinstance(state.menu, ClassList) and state.answer:
        scores = state.answer.scores
        state = replace(state, menu=state.menu.with_scores(scores, state.facts.labels))
    return state
