"""The mouse's effect on the state: buttons, the bar of a film, the brush. Pure functions."""

from dataclasses import replace

import cv2
import msgspec
import numpy as np

from realtime_lrp.engine.segments import inmost_place, place_of, row_column
from realtime_lrp.realtime.viewer import actions
from realtime_lrp.realtime.viewer.state import CONTROLS_S, Pointer, ViewerState
from realtime_lrp.relevance.maps.targets import Target
from realtime_lrp.system.geometry import Box, Pixel, area, contains
from realtime_lrp.video.source import Timeline
from realtime_lrp.view.controls import BarPosition

SETTLED_S = 0.2  # buttons press only then: the touch that shows them presses none
DRAG = 4  # pixels of the canvas that the mouse moves at least to paint over a box


def move_mouse(state: ViewerState, position: Pixel, button: str) -> ViewerState:
    """The state after the mouse moved, or a button of it went down or up."""
    now = state.now
    before = state.pointer
    controls = state.controls(now)
    pressed = bool(button) and not before.button
    pointer = Pointer(
        position,
        button=button,
        holds=before.holds if button and not pressed else "",
        start=position if pressed else before.start,
        since=now if now >= before.until else before.since,
        until=now + CONTROLS_S,
    )
    if pressed:
        settled = controls is not None and now - before.since >= SETTLED_S
        hit = controls.at(*position) if controls and settled else ""
        return _press(replace(state, pointer=pointer), hit)
    state = replace(state, pointer=pointer)
    if pointer.holds == "bar":
        return _seek(state)
    if before.holds == "frame" and not button:
        return frame_region(state, pointer.start, position)
    if before.holds == "box":
        return _on_box(state, before)
    if pointer.holds == "picture":
        return _paint_to_pointer(state, before)
    if before.button or state.menu or (controls and controls.at(*position)):
        return state
    return point_at(state, position)


def paint_on_canvas(state: ViewerState, start: Pixel, end: Pixel, cover: bool) -> ViewerState:
    """Covers or uncovers each picture along a straight stroke over the canvas."""
    if state.shown is None:
        return state
    shape = state.shown.value.shape
    drawn = False
    mask = np.zeros(shape[:2], np.uint8) if state.mask is None else state.mask.astype(np.uint8)
    for box in state.pictures:
        x0, y0, x1, y1 = box
        inside, first, last = cv2.clipLine((x0, y0, x1 - x0, y1 - y0), start, end)
        if inside:
            ends = _pixel(shape, box, first), _pixel(shape, box, last)
            _draw_stroke(mask, *ends, brush_radius(state), int(cover))
        drawn = drawn or inside
    return state.with_mask(mask.astype(bool) if mask.any() else None) if drawn else state


def frame_region(state: ViewerState, start: Pixel, end: Pixel) -> ViewerState:
    """Lets the network see a rectangle alone, between two places of the canvas on one picture."""
    state = replace(state, framing=False)
    box = next((picture for picture in state.pictures if contains(picture, *start)), None)
    if box is None or min(abs(end[0] - start[0]), abs(end[1] - start[1])) < DRAG:
        return state.with_notice("no rectangle was drawn")
    low, high = np.reshape(box, (2, 2))
    first, last = np.sort([(at - low) / (high - low) for at in (start, end)], 0).clip(0, 1)
    region = tuple(map(float, (*first, *last)))
    return state.with_request(region=region).with_notice("this is seen alone; z: let go")


def click_on_picture(state: ViewerState, at: Pixel, paints: bool) -> ViewerState:
    """Pins what was clicked on, a box or a region, or lets it go; elsewhere it may paint."""
    if (number := _box_at(state, at)) is not None:
        return actions.choose_box(state, number)
    if place := _place_at(state, at):
        if state.pinned and _in_region(state, place):
            return actions.let_go(state)
        return actions.pin(state.with_aim(at=place))
    return paint_on_canvas(state, at, at, True) if paints else state


def point_at(state: ViewerState, at: Pixel | None) -> ViewerState:
    """Explains the region, or the box, under the pointer; something pinned stays."""
    if state.pinned or not state.points:
        return state
    if state.answer and state.answer.segments:
        return state.with_aim(at=at and _place_at(state, at))
    box = _box_at(state, at) if at else None
    return state if box == state.box else state.with_request(box=box)


def choose_line(state: ViewerState, name: str) -> ViewerState:
    """Explains the class of a line of the answers, or its largest region; again: lets it go."""
    answer = state.answer
    labels = state.facts.labels
    known = (n for n, label in enumerate(labels) if name in (label, state.words(label)))
    index = next(known, None)
    if answer is None or index is None:  # the line of something else
        return state
    if answer.segments is None:
        again = state.target == Target((index,))
        return actions.choose_target(state, "top1" if again else str(index))
    place = inmost_place(answer.segments, index)
    if place is None or (state.pinned and answer.segments.label == index):
        return actions.let_go(state)
    shape = state.shown.value.shape if state.shown else (1, 1)
    at = place_of(answer.segments, answer.region.box, shape, *place)
    return actions.pin(state.with_aim(at=at))


def _place_at(state: ViewerState, at: Pixel) -> tuple[float, float] | None:
    """The place of a segmentation's picture there, as of `Aim`; None where it sees nothing."""
    pixel = _pixel_at(state, at)
    if not (pixel and state.shown and state.answer and state.answer.segments):
        return None
    rows, columns = state.shown.value.shape[:2]
    seen = contains(state.answer.region.box, *pixel)
    return ((pixel[0] + 0.5) / columns, (pixel[1] + 0.5) / rows) if seen else None


def _in_region(state: ViewerState, place: tuple[float, float]) -> bool:
    """Whether a place lies in the region that is explained, or next to the explained pixel."""
    if not (state.shown and state.answer and state.answer.segments):
        return False
    segments = state.answer.segments
    shape = state.shown.value.shape
    region = segments.region
    row, column = row_column(segments, state.answer.region.box, shape, place)
    near = max(1, max(region.shape) // 25) if state.aim.pixel else 0
    part = np.s_[max(0, row - near) : row + near + 1, max(0, column - near) : column + near + 1]
    return bool(region[part].any())


def _box_at(state: ViewerState, at: Pixel) -> int | None:
    """The number of the smallest box that is drawn there, or None."""
    pixel = _pixel_at(state, at)
    found = (state.answer and state.answer.found) or ()
    hit = [(area(one.box), one.number) for one in found if pixel and contains(one.box, *pixel)]
    return min(hit, default=(0, None))[1]


def _on_box(state: ViewerState, before: Pointer) -> ViewerState:
    """The mouse went down on what can be pinned: up is a click, a movement begins to paint."""
    end = state.pointer
    if not end.button:
        return click_on_picture(state, end.at, False)
    if np.abs(np.subtract(end.at, before.at)).max() < DRAG:
        return replace(state, pointer=replace(end, at=before.at))
    return _paint_to_pointer(_holding(state, "picture"), before)


def brush_radius(state: ViewerState) -> int:
    """The radius of the brush, in pixels of the picture shown."""
    return max(1, round(state.brush * min(state.shown.value.shape[:2]))) if state.shown else 1


def brush_at_pointer(state: ViewerState, now: float) -> tuple[Box, Pixel] | None:
    """The picture's box on the canvas and the pixel under the brush; None if it is not used."""
    pointer = state.pointer
    at = pointer.at
    controls = state.controls(now)
    busy = now >= pointer.until or pointer.holds not in ("", "picture")
    pixel = _pixel_at(state, at)
    if busy or state.menu or (controls and controls.at(*at)) or not pixel:
        return None
    return next(box for box in state.pictures if contains(box, *at)), pixel


def progress(timeline: Timeline) -> BarPosition:
    """A timeline as the bar shows it."""
    position, length = timeline.position, timeline.length
    if timeline.unit == "files":
        share = min(position / max(length - 1, 1), 1.0)
        return BarPosition(share, f"{position + 1:.0f}", f"{length:.0f}")
    return BarPosition(min(position / length, 1.0), _clock(position), _clock(length))


def _press(state: ViewerState, hit: str) -> ViewerState:
    if state.menu:
        return _holding(state, "menu")
    if hit == "bar":
        return _seek(_holding(state, "bar"))
    if hit:
        state = _holding(state, "button")
        return state if hit == "gap" else actions.ACTIONS[hit](state)
    at = state.pointer.at
    for box, channel in state.concept_rows:
        if contains(box, *at):
            return actions.follow_channel(_holding(state, "button"), channel)
    if state.framing or state.pointer.button == "frame":
        return _holding(state, "frame")
    pinnable = _box_at(state, at), _place_at(state, at)
    if state.pointer.button == "left" and pinnable != (None, None):
        return _holding(state, "box")
    return _paint_to_pointer(_holding(state, "picture"), state.pointer)


def _holding(state: ViewerState, holds: str) -> ViewerState:
    return replace(state, pointer=replace(state.pointer, holds=holds))


def _paint_to_pointer(state: ViewerState, start: Pointer) -> ViewerState:
    """Paints from an earlier position to the present one: dabs alone would leave gaps."""
    end = state.pointer
    return paint_on_canvas(state, start.at, end.at, end.button == "left")


def _draw_stroke(mask: np.ndarray, start: Pixel, end: Pixel, radius: int, value: int) -> None:
    """Fills a stroke with round ends in place; `cv2.line` would draw it up to 3 pixels wider."""
    for position in (start, end):
        cv2.circle(mask, position, radius, value, -1)
    along = np.subtract(end, start)
    if length := np.hypot(*along):
        side = radius / length * np.array([-along[1], along[0]])
        corners = np.array([start + side, end + side, end - side, start - side])
        cv2.fillConvexPoly(mask, np.rint(16 * corners).astype(np.int32), value, shift=4)


def _pixel(shape: tuple[int, ...], box: Box, at: Pixel) -> Pixel:
    x, y = at
    x0, y0, x1, y1 = box
    return (x - x0) * shape[1] // (x1 - x0), (y - y0) * shape[0] // (y1 - y0)


def _pixel_at(state: ViewerState, at: Pixel) -> Pixel | None:
    """The pixel of the picture that is drawn there; None beside it."""
    box = next((picture for picture in state.pictures if contains(picture, *at)), None)
    return _pixel(state.shown.value.shape, box, at) if box and state.shown else None


def _seek(state: ViewerState) -> ViewerState:
    controls = state.controls(state.now)
    if not (controls and controls.track):
        return state
    x0, _, x1, _ = controls.track
    return seek(state, (state.pointer.at[0] - x0) / max(1, x1 - 1 - x0))


def seek(state: ViewerState, share: float) -> ViewerState:
    """Lets a film go on from somewhere else; a frozen one shows its picture there."""
    if (timeline := state.timeline) is None:
        return state
    share = min(max(0.0, share), 1.0)
    length = timeline.length
    position = round(share * (length - 1)) if timeline.unit == "files" else share * length
    if position == timeline.position:
        return state
    frozen = state.frozen is not None
    timeline = msgspec.structs.replace(timeline, position=position)
    state = replace(state, timeline=timeline, stepping=frozen, seeking=frozen)
    return state.with_order("seek", position)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
