"""What the mouse does: buttons, the bar of a film, the brush."""

from dataclasses import fields, replace

import numpy as np
import pytest
from viewer import Viewer, answer

from realtime_lrp import config
from realtime_lrp.realtime.explaining import first_request
from realtime_lrp.realtime.latest import Item
from realtime_lrp.realtime.viewer import events
from realtime_lrp.realtime.viewer.handle import handle
from realtime_lrp.realtime.viewer.pointing import SETTLED_S, brush_radius, progress, seek
from realtime_lrp.realtime.viewer.state import CONTROLS_S, first_state
from realtime_lrp.video.source import Timeline
from realtime_lrp.view.controls import arrange_controls
from realtime_lrp.view.hud import figure_size
from realtime_lrp.view.keys import BUTTONS
from realtime_lrp.view.window import Mouse

SIZE = (720, 1280)
PICTURE = np.full((360, 640, 3), 90, np.uint8)
FILM = Timeline(2.0, 8.0, "seconds")


def started(timeline=None, size=SIZE, pictures=None):
    """The state of a viewer that shows a picture over all of the canvas."""
    chosen = config.load(command="live").config
    state = handle(first_state(chosen, first_request(chosen)), events.CanvasResized(size))
    pictures = pictures or ((0, 0, size[1], size[0]),)
    drawn = events.FrameDrawn(Item(PICTURE, 7, 1.0), *answer(), pictures, timeline)
    return replace(handle(state, drawn), notice=type(state.notice)())


def mouse(state, *moves):
    """The state after moves (time, x, y, button)."""
    for now, x, y, button in moves:
        state = handle(state, events.MouseMoved(x, y, button, time=now))
    return state


def middle(box):
    """The pixel in the middle of a box."""
    return (box[0] + box[2]) // 2, (box[1] + box[3]) // 2


def controls_of(state):
    """The controls, wherever the mouse is."""
    return arrange_controls(state.size, figure_size(*state.size), state.timeline is not None)


def clicked(state, name):
    """The state after a click on a control that has been shown for a while."""
    box = controls_of(state).track if name == "bar" else controls_of(state).buttons[name]
    x, y = middle(box)
    begin = 10.0
    pressed = begin + SETTLED_S + 0.1
    return mouse(state, (begin, x, y, ""), (pressed, x, y, "left"), (pressed + 0.1, x, y, ""))


@pytest.mark.parametrize("action", BUTTONS)
def test_a_click_does_what_the_key_does(action):
    """Every part of the state is as after the action, but for the mouse."""
    before = started()
    state = clicked(before, action)
    key = handle(before, events.ActionChosen(action, time=10.0 + SETTLED_S + 0.1))
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
    """Not before it has moved, not while somebody paints, and not with a menu."""
    state = started()
    assert state.controls(1.0) is None
    state = mouse(state, (10.0, 300, 200, ""))
    assert state.controls(10.0) and state.controls(10.0 + CONTROLS_S - 0.1)
    assert state.controls(10.0 + CONTROLS_S) is None
    painting = mouse(state, (10.5, 300, 200, "left"))
    assert painting.controls(10.5) is None and painting.mask is not None
    assert mouse(painting, (10.6, 300, 200, "")).controls(10.6)
    for key in "hl":
        listed = handle(state, events.KeyPressed(key, time=10.5))
        assert listed.controls(10.6) is None
        assert mouse(listed, (11.0, 300, 200, "left"), (11.1, 310, 200, "left")).mask is None


def test_a_touch_that_makes_the_buttons_appear_presses_none():
    """It paints, as everywhere; once they have been shown, the next one presses."""
    state = started()
    x, y = middle(controls_of(state).buttons["quit"])
    touched = mouse(state, (10.0, x, y, ""), (10.01, x, y, "left"), (10.1, x, y, ""))
    assert not touched.end_until and touched.mask is not None
    pressed = mouse(touched, (11.0, x, y, "left"))
    assert pressed.end_until and not pressed.ended
    assert mouse(pressed, (11.1, x, y, ""), (11.5, x, y, "left")).ended


def test_between_buttons_nothing_is_painted_and_a_stroke_goes_on_over_them():
    """What counts is where the button of the mouse went down."""
    state = started()
    area = controls_of(state).area
    shown = mouse(state, (10.0, 2, area[3] - 2, ""), (10.5, 2, area[3] - 2, "left"))
    assert shown.mask is None
    x, y = middle(controls_of(state).buttons["quit"])
    stroke = mouse(state, (10.0, x, 100, ""), (10.5, x, 100, "left"), (10.6, x, y, "left"))
    assert not stroke.end_until and stroke.mask[y // 2, x // 2]
    assert not mouse(shown, (10.7, x, y, "left")).end_until, "pressed elsewhere"


def test_a_fast_stroke_is_joined_and_has_one_width():
    """All that is nearer to the line between two positions than the radius, give or take one."""
    state = mouse(started(), (10.0, 200, 200, "left"), (10.1, 900, 500, "left"))
    start, end, radius = np.array([100, 100]), np.array([450, 250]), brush_radius(state)
    assert radius == round(0.06 * 360)
    pixels = np.argwhere(np.ones_like(state.mask))[:, ::-1] - start
    along = end - start
    share = np.clip(pixels @ along / (along @ along), 0, 1)
    distance = np.hypot(*(pixels - share[:, None] * along).T).reshape(state.mask.shape)
    assert state.mask[distance < radius].all() and not state.mask[distance > radius + 1].any()
    lifted = mouse(state, (10.2, 900, 500, ""), (10.3, 100, 600, ""), (10.4, 60, 660, "left"))
    assert not lifted.mask[290, 60], "nothing is painted while no button is down"
    assert mouse(lifted, (10.5, 60, 660, ""), (10.6, 60, 660, "right")).mask.sum() == pytest.approx(
        state.mask.sum(), abs=2
    )


def test_a_stroke_from_one_picture_to_the_next_paints_its_part_of_each():
    """Nothing in between: two pictures side by side, 40 pixels apart."""
    state = started(pictures=((0, 0, 620, 720), (660, 0, 1280, 720)))
    state = mouse(state, (10.0, 310, 360, "left"), (10.1, 970, 360, "left"))
    columns, radius = np.flatnonzero(state.mask[180]), brush_radius(state)
    assert columns.tolist() == list(range(640)), "to the right edge, and from the left one"
    out = mouse(started(), (10.0, 640, 360, "left"), (10.1, 640, 900, "left"))
    assert np.flatnonzero(out.mask[:, 320]).tolist() == list(range(180 - radius, 360))


def test_a_click_or_drag_on_the_bar_seeks():
    """From start to end of the track, also where the mouse has left it."""
    state = started(FILM)
    x0, y0, x1, y1 = controls_of(state).track
    y = (y0 + y1) // 2
    half = x0 + (x1 - 1 - x0) // 2
    state = mouse(state, (10.0, half, y, ""), (10.5, half, y, "left"))
    assert state.orders == (("seek", pytest.approx(4.0, abs=0.01)),)
    assert state.timeline.position == pytest.approx(4.0, abs=0.01)
    state = mouse(state, (10.6, x1 - 1, y, "left"), (10.6, x1 + 200, y - 300, "left"))
    state = mouse(state, (10.7, 0, y, "left"))
    assert [value for _, value in state.orders[1:]] == [8.0, 0.0]
    assert state.mask is None and state.controls(20.0), "shown while it is held"
    state = mouse(state, (10.8, 0, y, ""), (10.9, half, y, ""))
    assert len(state.orders) == 3 and not state.stepping


def test_among_pictures_the_nearest_one_is_sought():
    """Of four; the bar stands where the picture is, from one end to the other."""
    four = Timeline(1.0, 4.0, "files")
    for share, number in ((0.0, 0), (0.16, 0), (0.2, 1), (0.84, 3), (1.0, 3)):
        orders = seek(started(four), share, 5.0).orders
        assert orders == ((("seek", number),) if number != 1 else ()), "it stands at the second"
    shares = [progress(Timeline(float(n), 4.0, "files")).share for n in range(4)]
    assert shares == pytest.approx([0, 1 / 3, 2 / 3, 1])


def test_a_frozen_film_shows_the_pictures_that_are_sought():
    """Each that comes, until the film goes on."""
    frozen = handle(started(FILM), events.KeyPressed("space", time=5.0))
    state = clicked(frozen, "bar")
    assert state.stepping and state.orders[-1].what == "seek"
    for number in (8, 9):
        state = handle(state, events.FrameStepped(Item(PICTURE, number, 2.0)))
        assert state.frozen.number == number and state.stepping
    state = handle(state, events.KeyPressed("space", time=20.0))
    assert not (state.stepping or state.seeking or state.frozen)


def test_recordings_and_snapshots_have_neither_buttons_nor_outline():
    """The screen has them; the canvas that is kept stays as it was."""
    viewer = Viewer(size=(360, 640))
    viewer.frame(PICTURE)
    plain = viewer.view.canvas.copy()
    viewer.press(Mouse(320, 200, ""))
    viewer.frame(PICTURE)
    np.testing.assert_array_equal(viewer.view.canvas, plain)
    screen = viewer.shown[-1]
    assert (screen[330:] != plain[330:]).any(-1).mean() > 0.3
    assert (screen[150:250, 270:370] > 200).all(-1).sum() > 50
