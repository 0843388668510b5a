"""What is drawn once and laid over many pictures, and the memory of pictures."""

import numpy as np
import pytest

from realtime_lrp.view.blocks import draw_blocks
from realtime_lrp.view.buffers import Buffers
from realtime_lrp.view.decals import Decals
from realtime_lrp.view.help import draw_help
from realtime_lrp.view.hud import Bar, Legend, Row
from realtime_lrp.view.notices import draw_notice

BLOCKS = ((Row("source", "a camera"), Bar("heart", 0.6, 0.4)), (Legend("fire", "none", "most"),))
DRAWINGS = {
    "figures": (draw_blocks, BLOCKS, (10, 20, 300, 340), 14),
    "notice": (draw_notice, "a line of text", (0, 0, 640, 360), 14),
    "help": (draw_help, 0),
    "nothing": (lambda canvas: None,),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_kept_drawing_is_what_drawing_it_gives(name, rng):
    """Within 3 of 255 on every pixel of random pictures, the first time and later."""
    decals = Decals()
    for _ in range(3):
        picture = rng.integers(0, 256, (360, 640, 3), np.uint8)
        drawn = picture.copy()
        draw, *arguments = DRAWINGS[name]
        draw(drawn, *arguments)
        decals.draw(picture, draw, *arguments)
        assert np.abs(picture.astype(int) - drawn).max() <= 3


def test_a_drawing_fits_each_canvas(rng):
    """A smaller canvas gets a drawing of its own."""
    decals = Decals()
    for size in ((360, 640, 3), (240, 320, 3), (360, 640, 3)):
        picture = rng.integers(0, 256, size, np.uint8)
        drawn = picture.copy()
        draw_help(drawn, 0)
        decals.draw(picture, draw_help, 0)
        assert np.abs(picture.astype(int) - drawn).max() <= 3


def test_memory_is_used_again_only_when_nobody_holds_it():
    """Neither the array nor a part of it."""
    buffers = Buffers()
    first = buffers.get((8, 8, 3))
    part = first[2:4]
    second = buffers.get((8, 8, 3))
    assert second is not first
    address = first.ctypes.data
    del first
    assert buffers.get((8, 8, 3)).ctypes.data != address, "its part is still held"
    del part
    assert buffers.get((8, 8, 3)).ctypes.data == address
    assert buffers.get((4, 8, 3)).shape == (4, 8, 3)
