"""`handle`: the next state of the viewer. Pure: no threads, no window, no clock but the event's."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from realtime_lrp.realtime.explaining import first_request
from realtime_lrp.realtime.viewer import actions, events, pointing
from realtime_lrp.realtime.viewer.state import NOTICE_S, WARNING_S, Notice, ViewerState, first_state
from realtime_lrp.view import keys
from realtime_lrp.view.controls import ClassList, CommandBox, Menu
from realtime_lrp.view.hud import figure_size
from realtime_lrp.view.look import LOOK_SETTINGS

INPUTS = (
    events.KeyPressed, events.ActionChosen, events.Chosen, events.Brushed, events.Clicked,
    events.Framed,
)  # fmt: skip
"""Input of the user, apart from the mouse."""

DRAWN = "answer", "facts", "pictures", "timeline", "concept_rows", "free"  # fields of both

Choice = Callable[[ViewerState, Any, float], ViewerState]  # state, what was chosen, time -> state

CHOICES: dict[str, Choice] = {
    "composite": lambda state, name, now: state.with_choice(method="lrp", composite=name),
    "method": actions.choose_method,
    "target": actions.choose_target,
    "line": pointing.choose_line,
    "panel": actions.toggle_panel,
    "text": lambda state, text, now: replace(state, text=text),
    "text_size": actions.choose_text_size,
    "channel": actions.follow_channel,
    "layer": actions.choose_layer,
    "position": pointing.seek,
    **{one.name: partial(actions.set_look, name=one.name) for one in LOOK_SETTINGS},
}
"""Setting -> the function that applies a chosen value."""


def handle(state: ViewerState, event: events.Event) -> ViewerState:
    """The state after an event; the same object where nothing changes."""
    after = _handled(state, event)
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
    now = event.time
    match event:
        case events.KeyPressed():
            return _key_pressed(state, event)
        case events.ActionChosen("clicker_next") if state.lecture:
            return show_step(state, min(state.step + 1, len(state.lecture) - 1), now)
        case events.ActionChosen("clicker_previous") if state.lecture:
            return show_step(state, max(state.step - 1, 0), now)
        case events.ActionChosen(action):
            return actions.ACTIONS[action](state, now)
        case events.Chosen(what, value):
            return CHOICES[what](state, value, now)
        case events.MouseMoved(x, y, button):
            moved = pointing.move_mouse(state, (x, y), button, now)
            pressed = button == "left" and not state.pointer.button
            return _clicked_in_menu(moved, moved.menu, event) if pressed and moved.menu else moved
        case events.Brushed(start, end, cover, pictures):
            return pointing.paint_on_canvas(state, start, end, cover, pictures or state.pictures)
        case events.Framed(start, end, pictures):
            return pointing.frame_region(state, start, end, now, pictures or state.pictures)
        case events.Pointed(at, pictures):
            return pointing.point_at(state, at, pictures or state.pictures)
        case events.Clicked(at, paints, pictures):
            return pointing.click_on_picture(state, at, paints, now, pictures or state.pictures)
        case events.FrameDrawn():
            return _frame_drawn(state, event)
        case events.CanvasResized(size):
            return replace(state, size=size)
        case events.FrameStepped(frame):
            return replace(state, stepping=state.seeking).with_request(frame=frame)
        case events.FileSkipped():
            return replace(state, stepping=state.frozen is not None)
        case events.SourceChanged(text):
            state = replace(state, stepping=False, seeking=False, timeline=None)
            return state.with_request(frame=None, mask=None).with_notice(text, now)
        case events.ChoiceRefused(choice, reason, shown):
            if state.request.choice == choice:  # nothing else was chosen in the meantime
                state = replace(state, tiled=state.tiled and bool(shown.also))
                state = state.with_request(choice=shown)
            return state.with_notice(reason, now)
        case events.NoticeGiven(text):
            return state.with_notice(text, now)
        case events.LessonKey():  # a page that has been open since an earlier lesson
            return state
    raise TypeError(type(event))


def show_step(state: ViewerState, number: int, now: float) -> ViewerState:
    """Shows a step of the lecture: the view as at the start, changed by the step's commands."""
    if state.frozen:
        state = actions.ACTIONS["freeze"](state, now)
    start = first_state(state.config, first_request(state.config), state.lecture)
    state = replace(
        state, step=number, request=start.request, look=start.look, text=start.text,
        panels=start.panels, brush=start.brush, tiled=False, about=False, alone=True, menu=None,
    )  # fmt: skip
    for command in state.lecture[number].commands:
        state = handle(state, command_event(command, now))
    return replace(state, notice=Notice())


def _key_pressed(state: ViewerState, event: events.KeyPressed) -> ViewerState:
    key = event.key
    now = event.time
    if state.menu:
        return _key_in_menu(state, state.menu, key, now)
    if key in keys.BY_KEY:
        return handle(state, events.ActionChosen(keys.BY_KEY[key].action, time=now))
    unknown = "no such key" if key == keys.UNNAMED else f"no key {keys.key_text([key])}"
    return state.with_notice(f"{unknown}; {actions.HINT}", now)


def _key_in_menu(state: ViewerState, menu: Menu, key: str, now: float) -> ViewerState:
    closed = actions.close_list(state, now)
    if key == "Escape":
        return closed
    if key not in ("Return", "Tab"):
        return replace(state, menu=menu.press(key))
    chosen = menu.chosen()
    if chosen is None:
        return state
    if isinstance(menu, CommandBox):
        return handle(replace(closed, last_command=chosen.name), command_event(chosen, now))
    if key == "Return":
        return actions.choose_target(closed, str(chosen[0]), now)
    return actions.announce_target(actions.oppose(closed, chosen[0]), now)


def command_event(command: keys.Command, now: float) -> events.Event:
    """The event of a command."""
    if command.chooses:
        return events.Chosen(command.action, command.value, time=now)
    return events.ActionChosen(command.action, time=now)


def _clicked_in_menu(state: ViewerState, menu: Menu, event: events.MouseMoved) -> ViewerState:
    """A click on an entry is Enter there."""
    letters = figure_size(*state.size, state.text_size)
    clicked = menu.click(state.size, letters, state.free, event.x, event.y)
    if clicked is None:
        return state
    return _key_in_menu(replace(state, menu=clicked), clicked, "Return", event.time)


def _frame_drawn(state: ViewerState, event: events.FrameDrawn) -> ViewerState:
    answer = event.answer
    first = state.answer is None
    drawn = msgspec.structs.asdict(event)
    state = replace(state, shown=drawn.pop("frame"), **{key: drawn[key] for key in DRAWN})
    if state.mask is not None and state.mask.shape != event.frame.value.shape[:2]:
        state = state.with_request(mask=None)  # the source changed its size
    if answer is None:
        return state
    if first and state.lecture:  # its commands may need an answer
        state = show_step(state, state.step, event.time)
    if first:  # the maps that the network has no use for are known from now on
        hint = actions.HINT
        seconds = NOTICE_S
        if state.facts.warning:
            hint = f"{state.facts.warning}\n{actions.HINT}"
            seconds = WARNING_S
        state = state.with_choice().with_notice(hint, event.time, seconds)
    state = actions.follow_best(state)
    if isinstance(state.menu, ClassList):
        state = replace(state, menu=state.menu.with_scores(answer.scores, state.facts.labels))
    return state
