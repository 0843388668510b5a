"""Processor time of pictures in a real window: what drawing one takes, and showing it."""

import itertools
import time

import numpy as np

from realtime_lrp.commands.bench.timing import Action, Times, time_in_turns
from realtime_lrp.engine.engine import Engine
from realtime_lrp.video.libraries import draw_in_one_thread
from realtime_lrp.video.synthetic import moving_picture
from realtime_lrp.view.overlay import intensity
from realtime_lrp.view.scene import Artist, ExplainedPicture, Look, Panel, Scene
from realtime_lrp.view.window.display import display_reachable
from realtime_lrp.view.window.window import Window

CAMERA = (720, 1280)
"""Rows and columns of the pictures."""

PICTURES = 10
"""How many different pictures are shown in turn."""

SETTLING = 30
"""Turns in which a window takes its new size."""


def time_window(engine: Engine, turns: int) -> dict[str, dict[str, Times]]:
    """Shows pictures with a map that moves along, in a new window and on the full screen.

    Returns:
      The size of the canvas -> "draw" and "show" -> milliseconds of processor time for a picture.
      Nothing where there is no display.
    """
    if not display_reachable():
        return {}
    draw_in_one_thread()
    pictures = [moving_picture(number, CAMERA, 30) for number in range(PICTURES)]
    explained, coming = _explained(engine, pictures[0]), itertools.cycle(pictures[1:])
    look = Look(None, engine.config.overlay.opacity, "heat", "flow")
    artist, times = Artist(), {}
    with Window() as window:
        for full in (False, True):
            window.fill_screen(full)
            for _ in range(SETTLING):
                window.events()
            size, canvas = window.size, [np.zeros((*window.size, 3), np.uint8)]

            def draw(size: tuple[int, int] = size, canvas: list[np.ndarray] = canvas) -> None:
                canvas[0] = artist.draw(Scene(size, next(coming), explained, False, look))

            def show(canvas: list[np.ndarray] = canvas) -> None:
                window.show(canvas[0])
                window.events()

            name = f"{size[1]} x {size[0]}"
            actions: dict[str, Action] = {"draw": draw, "show": show}
            times[name] = time_in_turns(actions, turns, clock=time.process_time)
    return times


def _explained(engine: Engine, picture: np.ndarray) -> ExplainedPicture:
    """A picture with its map, ready for drawing."""
    (result,) = engine.explain([picture])
    shown = intensity(result.maps[0].strength, result.region.inner)
    panel = Panel(engine.name, shown, engine.explainer.signed)
    return ExplainedPicture(picture, result.region.box, (panel,))
