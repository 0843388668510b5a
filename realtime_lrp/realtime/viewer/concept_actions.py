"""What keys and clicks do to the panel of concepts. Pure functions."""

from collections.abc import Sequence
from dataclasses import replace

from realtime_lrp.engine.concept_result import ConceptRequest
from realtime_lrp.realtime.viewer.state import ViewerState


def toggle_concepts(state: ViewerState, now: float) -> ViewerState:
    """Shows the panel with its last layer, or hides it."""
    shown = state.request.concepts
    if shown is None:
        return state.with_request(concepts=ConceptRequest(state.concept_layer))
    return replace(state, concept_layer=shown.layer).with_request(concepts=None)


def change_layer(state: ViewerState, now: float, by: int) -> ViewerState:
    """Shows the channels of the layer before (-1) or after (1) the present one.

    Layers whose channels have neither pictures nor names are skipped, unless none has any. The
    first press only shows the panel.
    """
    shown, answer = state.request.concepts, state.answer
    if shown is None:
        return toggle_concepts(state, now)
    if answer is None or not answer.concept_layers:
        return state.with_notice("there are no layers to choose from", now)
    known, present = answer.described_layers, shown.layer or answer.concept_layer
    layers = [one for one in answer.concept_layers if one in known or one == present]
    if present not in layers:  # one that the configuration names
        return choose_layer(state, layers[-1], now)
    number = layers.index(present) + by
    if not 0 <= number < len(layers):
        return state.with_notice(_why_no_further(layers, answer.concept_layers, present, by), now)
    return choose_layer(state, layers[number], now)


def _why_no_further(reached: Sequence[str], layers: Sequence[str], present: str, by: int) -> str:
    """Why a key leads to no further layer: there is none, or none with pictures or names."""
    if present == layers[-1 if by > 0 else 0]:
        return f"{present} is the {'last' if by > 0 else 'first'} layer"
    which = "other" if len(reached) == 1 else "later" if by > 0 else "earlier"
    return f"no {which} layer has pictures or names; concepts.layer chooses any layer"


def choose_layer(state: ViewerState, layer: str, now: float) -> ViewerState:
    """Shows the channels of a layer."""
    layers = state.answer.described_layers if state.answer else ()
    where = f", {layers.index(layer) + 1} of {len(layers)}" if layer in layers else ""
    state = state.with_request(concepts=ConceptRequest(layer))
    return state.with_notice(f"layer {layer}{where}", now)


def follow_channel(state: ViewerState, channel: int, now: float) -> ViewerState:
    """Lays the map of one channel alone over the picture; that channel again: the whole map."""
    shown = state.request.concepts
    if shown is None:
        return state
    if shown.channel == channel:
        return follow_none(state, now)
    return state.with_request(concepts=replace(shown, channel=channel)).with_notice(
        f"channel {channel} alone; choose it again for the whole map", now
    )


def follow_none(state: ViewerState, now: float) -> ViewerState:
    """Lays the whole map over the picture again."""
    shown = state.request.concepts
    if shown is None or shown.channel is None:
        return state
    state = state.with_request(concepts=replace(shown, channel=None))
    return state.with_notice("the whole map", now)


def is_followed(state: ViewerState) -> bool:
    """Whether the map of one channel alone is asked for."""
    shown = state.request.concepts
    return shown is not None and shown.channel is not None
