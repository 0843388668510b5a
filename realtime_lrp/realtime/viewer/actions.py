"""Each action's effect on the state; the keys of actions are in `view.keys`. Pure functions."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from operator import methodcaller
from typing import Any

import numpy as np

from realtime_lrp.config.names import METHODS
from realtime_lrp.engine.result import ConceptRequest
from realtime_lrp.engine.wording import EACH_BOX, nothing_found
from realtime_lrp.realtime.engine_cache import is_auto_contrast
from realtime_lrp.realtime.viewer.state import END_S, ViewerState
from realtime_lrp.relevance.maps.targets import TARGETS, Target
from realtime_lrp.system.geometry import SURE
from realtime_lrp.video.pictures import mirrored
from realtime_lrp.view import keys
from realtime_lrp.view.controls import ClassList, CommandBox
from realtime_lrp.view.hud import percent
from realtime_lrp.view.look import LOOK_SETTINGS, LookSetting, next_of

HINT = "h: all commands"
END_NOTICE = "once more ends the program"
NO_MAP = "there is no map yet"
Action = Callable[[ViewerState], ViewerState]


def explain(state: ViewerState, target: str) -> ViewerState:
    """Explains another target."""
    state = replace(state, following=False)
    contrast = is_auto_contrast(state.config, target)
    return state.with_choice(contrast=contrast).with_request(target=target)


def choose_target(state: ViewerState, target: str) -> ViewerState:
    """Explains another target, and says so."""
    return announce_target(explain(state, target))


def oppose(state: ViewerState, other: int) -> ViewerState:
    """Sets the present class, or the best one, against another class."""
    state = replace(state, before_versus=state.request.target)
    present = _present_class(state)
    return state if present == other else explain(state, str(Target((present, other))))


def commands_for(state: ViewerState) -> tuple[keys.Command, ...]:
    """The possible commands in the view's language; "top5" only where there are five classes."""
    few = len(state.facts.labels) < 5
    targets = {name: text for name, text in TARGETS.items() if not (few and name == "top5")}
    known = keys.commands(targets, state.facts.unsuited)
    return tuple(replace(one, meaning=state.words(one.meaning)) for one in known)


def announce_target(state: ViewerState) -> ViewerState:
    """The state with a notice that says what is explained."""
    target = state.request.target
    answer = state.answer
    text = TARGETS.get(target, target)
    if answer and answer.found is not None and target in TARGETS:
        text = EACH_BOX
    elif answer and target == "top1":
        text += f", “{state.facts.labels[_best(state, 1)[0]]}”"
    elif state.target.classes:
        text = state.target.words(lambda index: f"“{state.facts.labels[index]}”")
    head = "locked" if state.target.locked else "target"
    return state.with_notice(f"{head}: {text}")


# What is computed


def _next_method(state: ViewerState, by: int = 1) -> ViewerState:
    known = tuple(name for name in METHODS.known() if name not in state.facts.unsuited)
    return choose_method(state, next_of(known, state.request.choice.method, by))


def choose_method(state: ViewerState, method: str) -> ViewerState:
    """Computes maps by another method."""
    name = "LRP" if method == "lrp" else method
    return state.with_choice(method=method).with_notice(f"method: {name}")


def _panels(state: ViewerState) -> ViewerState:
    state = replace(state, tiled=not state.tiled).with_choice()
    refused = ", ".join(name for name in state.panels if name in state.facts.unsuited)
    told = state.tiled and refused
    return state.with_notice(f"not for this network: {refused}") if told else state


def close_list(state: ViewerState) -> ViewerState:
    """Closes the open list; the picture goes on if the list froze it."""
    goes_on = state.list_froze
    state = replace(state, menu=None, list_froze=False)
    return _freeze(state) if goes_on else state


def toggle_panel(state: ViewerState, name: str) -> ViewerState:
    """Shows a map beside the main one, or no longer; without any the main one stands alone."""
    if name == state.choice.name:
        return state.with_notice(f"{name} is the main map")
    hidden = name in state.named_panels and state.tiled
    others = (panel for panel in state.named_panels if panel != name)
    panels = (*others,) if hidden else (*others, name)
    return replace(state, panels=panels, tiled=bool(panels)).with_choice()


# The panel of concepts


def toggle_concepts(state: ViewerState) -> ViewerState:
    """Shows the panel with its last layer, or hides it."""
    shown = state.request.concepts
    if shown is None:
        return state.with_request(concepts=ConceptRequest(state.concept_layer))
    return replace(state, concept_layer=shown.layer).with_request(concepts=None)


def change_layer(state: ViewerState, by: int) -> ViewerState:
    """Shows the channels of the layer before (-1) or after (1); the first press shows the panel.

    Layers whose channels have neither pictures nor names are skipped, unless none has any.
    """
    shown = state.request.concepts
    facts = state.facts
    if shown is None:
        return toggle_concepts(state)
    if not facts.concept_layers:
        return state.with_notice("there are no layers to choose from")
    known = facts.described_layers
    present = shown.layer or facts.concept_layer
    layers = [layer for layer in facts.concept_layers if layer in known or layer == present]
    # the configuration may name another one
    number = layers.index(present) + by if present in layers else len(layers) - 1
    if 0 <= number < len(layers):
        return choose_layer(state, layers[number])
    text = f"{present} is the {'last' if by > 0 else 'first'} layer"
    if known != facts.concept_layers:
        text += " with pictures or names; concepts.layer chooses any"
    return state.with_notice(text)


def choose_layer(state: ViewerState, layer: str) -> ViewerState:
    """Shows the channels of a layer."""
    layers = state.facts.described_layers
    where = f", {layers.index(layer) + 1} of {len(layers)}" if layer in layers else ""
    state = state.with_request(concepts=ConceptRequest(layer))
    return state.with_notice(f"layer {layer}{where}")


def follow_channel(state: ViewerState, channel: int) -> ViewerState:
    """Lays the map of one channel alone over the picture; that channel again: the whole map."""
    shown = state.request.concepts
    if shown is None:
        return state
    if shown.channel == channel:
        return follow_none(state)
    text = f"channel {channel} alone; choose it again for the whole map"
    return state.with_request(concepts=replace(shown, channel=channel)).with_notice(text)


def follow_none(state: ViewerState) -> ViewerState:
    """Lays the whole map over the picture again."""
    shown = state.request.concepts
    if shown is None or shown.channel is None:
        return state
    whole = replace(shown, channel=None)
    return state.with_request(concepts=whole).with_notice("the whole map")


# What the pointer chooses


def pin(state: ViewerState) -> ViewerState:
    """Lets what is pointed at stay explained."""
    return replace(state, pinned=True).with_notice("pinned: a click on it, or Esc, lets go")


def let_go(state: ViewerState) -> ViewerState:
    """Explains what is pointed at again."""
    state = replace(state, pinned=False).with_request(box=None).with_aim(at=None)
    return state.with_notice("what you point at is explained")


def _pixel(state: ViewerState) -> ViewerState:
    if not (state.answer and state.answer.segments):
        return state.with_notice("this network gives one answer for the whole picture")
    pixel = not state.aim.pixel
    text = "the pixel alone is explained" if pixel else "the region around the place is explained"
    return state.with_aim(pixel=pixel).with_notice(text)


# The boxes of a detector


def choose_box(state: ViewerState, number: int | None) -> ViewerState:
    """Shows one box alone; None, or that box again: all of them."""
    found = {one.number: one for one in (state.answer and state.answer.found) or ()}
    if (number == state.box and state.pinned) or number not in found:
        state = replace(state, pinned=False)
        return state.with_request(box=None).with_notice("all boxes")
    text = f"{state.facts.labels[found[number].label]} alone; a click on it, or Esc: all boxes"
    return replace(state, pinned=True).with_request(box=number).with_notice(text)


def _next_box(state: ViewerState, by: int = 1) -> ViewerState:
    """One box after the other, and then all of them."""
    found = state.answer.found if state.answer else None
    if not found:
        text = "this network finds no boxes" if found is None else _no_class(state)
        return state.with_notice(text)
    numbers = (None, *sorted(one.number for one in found))
    return choose_box(state, next_of(numbers, state.box, by))


# What is explained


def _lock(state: ViewerState) -> ViewerState:
    if state.target.locked:
        return choose_target(state, "top1")
    if best := _best(state, 1):
        return choose_target(state, str(best[0]))
    return state.with_notice(_no_class(state))


def _choose(state: ViewerState) -> ViewerState:
    classes = ClassList(words=state.words)
    if state.answer:
        classes = classes.with_scores(state.answer.scores, state.facts.labels)
    if state.shown and not state.frozen:  # the picture is frozen until `close_list`
        state = replace(_freeze(state), list_froze=True)
    return replace(state, menu=classes)


def _versus(state: ViewerState) -> ViewerState:
    if state.answer and state.answer.segments and not state.target.contrasts:
        contrast = not state.aim.contrast
        text = "the class here, not the runner-up" if contrast else "the class here alone"
        return state.with_aim(contrast=contrast).with_notice(text)
    if state.target.contrasts:
        return choose_target(state, state.before_versus)
    best = _best(state, 2)
    if len(best) < 2:
        return state.with_notice("there is only one class" if best else _no_class(state))
    follows = not state.target.locked
    state = oppose(state, best[1] if _present_class(state) == best[0] else best[0])
    return announce_target(replace(state, following=follows))


def follow_best(state: ViewerState) -> ViewerState:
    """With one class against another: the two best ones as soon as the first is no longer best."""
    best = _best(state, 2)
    if not state.following or len(best) < 2 or state.target.classes[:1] == (best[0],):
        return state
    return replace(explain(state, str(Target((best[0], best[1])))), following=True)


# How it is drawn


def _change_look(state: ViewerState, setting: LookSetting, by: int) -> ViewerState:
    return set_look(state, setting.moved(getattr(state.look, setting.name), by), setting)


def set_look(state: ViewerState, value: Any, setting: LookSetting) -> ViewerState:
    """Draws maps otherwise."""
    state = replace(state, look=replace(state.look, **{setting.name: value}))
    return state.with_notice(setting.says(value))


def _channels(state: ViewerState) -> ViewerState:
    if state.request.choice.channels == "rgb":
        return state.with_choice(channels="grey").with_notice("map in grey")
    return state.with_choice(channels="rgb").with_notice("map in RGB, each channel by itself")


def _mirror(state: ViewerState) -> ViewerState:
    """Swaps left and right, also of the frozen picture, the patches and the region."""
    if state.mask is not None:
        state = state.with_mask(np.ascontiguousarray(state.mask[:, ::-1]))
    frame = state.frozen and replace(state.frozen, value=mirrored(state.frozen.value, True))
    region = state.request.region
    if region:
        region = 1 - region[2], region[1], 1 - region[0], region[3]
    return replace(state, mirror=not state.mirror).with_request(frame=frame, region=region)


# The picture


def _freeze(state: ViewerState) -> ViewerState:
    if state.frozen:
        state = replace(state, stepping=False, seeking=False)
        return state.with_request(frame=None).with_order("pause", False)
    return state.with_request(frame=state.shown).with_order("pause", True) if state.shown else state


def _step(state: ViewerState) -> ViewerState:
    state = state if state.frozen else _freeze(state)
    return replace(state, stepping=True).with_order("step")


def _frame(state: ViewerState) -> ViewerState:
    """Lets go of the region that the network sees; else the next drag draws one."""
    if state.request.region:
        return state.with_request(region=None).with_notice("the region is let go")
    framing = not state.framing
    text = "drag a rectangle over the picture" if framing else "no rectangle"
    return replace(state, framing=framing).with_notice(text)


def _change_brush(state: ViewerState, factor: float) -> ViewerState:
    brush = min(max(state.brush * factor, 0.01), 0.5)
    return replace(state, brush=brush).with_notice(f"brush: {percent(brush)} of the picture")


def _clicker(state: ViewerState, by: int) -> ViewerState:
    if state.config.live.clicker == "files":
        return state.with_order("skip", by)
    if state.answer and state.answer.found is not None:
        return _next_box(state, by)
    return _next_method(state, by)


# The window


def _help(state: ViewerState) -> ViewerState:
    """Opens the box in which commands are found; what it did last stands first."""
    known = sorted(commands_for(state), key=lambda one: one.name != state.last_command)
    return replace(state, menu=CommandBox(commands=tuple(known), words=state.words))


def _full_screen(state: ViewerState) -> ViewerState:
    return replace(state, full_screen=not state.full_screen).with_order("full_screen")


def _escape(state: ViewerState) -> ViewerState:
    """Shows the whole map, or leaves full screen; else the second of two presses ends."""
    if (whole := follow_none(state)) is not state:
        return whole
    if state.pinned:
        return choose_box(state, None) if state.box is not None else let_go(state)
    return _full_screen(state) if state.full_screen else _quit(state)


def _quit(state: ViewerState) -> ViewerState:
    if state.now < state.end_until:
        return replace(state, ended=True)
    return replace(state, end_until=state.now + END_S).with_notice(END_NOTICE, END_S)


ACTIONS: dict[str, Action] = {
    "next_method": _next_method,
    "previous_method": partial(_next_method, by=-1),
    "panels": _panels,
    "concepts": toggle_concepts,
    "lower_layer": partial(change_layer, by=-1),
    "higher_layer": partial(change_layer, by=1),
    "next_box": _next_box,
    "pixel": _pixel,
    "random": lambda state: state.with_choice(random=not state.request.choice.random),
    "probe": lambda state: state.with_request(probe=not state.request.probe),
    "lock": _lock,
    "choose": _choose,
    "versus": _versus,
    **{
        action: partial(_change_look, setting=one, by=by)
        for one in LOOK_SETTINGS
        for action, _, by in one.commands
    },
    "channels": _channels,
    "mirror": _mirror,
    "freeze": _freeze,
    "step": _step,
    **{what: methodcaller("with_order", what) for what in ("next_source", "snapshot", "record")},
    "next_file": methodcaller("with_order", "skip", 1),
    "previous_file": methodcaller("with_order", "skip", -1),
    "clicker_next": partial(_clicker, by=1),
    "clicker_previous": partial(_clicker, by=-1),
    "larger_brush": partial(_change_brush, factor=1.3),
    "smaller_brush": partial(_change_brush, factor=1 / 1.3),
    "frame": _frame,
    "uncover": lambda state: state.with_request(mask=None),
    "presenter": lambda state: replace(
        state, text="figures" if state.text == "presenter" else "presenter"
    ),
    "networks": lambda state: replace(state, alone=not state.alone),
    "about": lambda state: replace(state, about=not state.about),
    "full_screen": _full_screen,
    "help": _help,
    "escape": _escape,
    "quit": _quit,
}
"""Action -> what it does."""


def _present_class(state: ViewerState) -> int:
    """The locked class, else the best one; there must be an answer."""
    if state.target.locked or state.answer is None:
        return state.target.classes[0]
    return int(np.argmax(state.answer.scores))


def _no_class(state: ViewerState) -> str:
    """Why there is no best class."""
    if state.answer is None:
        return NO_MAP
    return nothing_found(state.answer.target, state.facts.labels.__getitem__)


def _best(state: ViewerState, count: int) -> list[int]:
    """The best classes; of a detector those that are somewhere in the picture."""
    if state.answer is None:
        return []
    scores = state.answer.scores
    best = np.argsort(-scores)[:count]
    return (best if state.answer.found is None else best[scores[best] >= SURE]).tolist()
