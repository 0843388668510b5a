"""The card in the window from the start to the first picture."""

import numpy as np
import pytest
from viewer import Viewer

from realtime_lrp.errors import UnavailableError


class Starting(Viewer):
    """A viewer whose source has given no picture yet; `cards` are what the window showed."""

    def __init__(self, **options):
        super().__init__(**options)
        self.cards = []
        self.window.size, self.window.show = (360, 640), self.cards.append

    def turns(self, *keys):
        """A turn for each key; whether the viewer goes on."""
        goes_on = True
        for key in keys:
            self.window.heard.append(key)
            goes_on = goes_on and self.loop.turn()
        return goes_on


def test_the_card_is_there_before_anything_else_and_changes_with_the_trouble():
    """One canvas for what is loading, another for the trouble; then the first frame is shown."""
    viewer = Starting()
    viewer.loop.show_card()
    (card,) = viewer.cards
    assert card.shape == (360, 640, 3) and card.max() > 200
    viewer.capture.trouble = "no camera"
    assert viewer.loop.turn() and viewer.loop.turn()
    assert len(viewer.cards) == 2 and (viewer.cards[1] != card).any()
    viewer.capture.trouble = ""
    viewer.frame(np.zeros((8, 8, 3), np.uint8))
    assert viewer.loop.turn()
    assert len(viewer.cards) == 2 and viewer.shown


@pytest.mark.parametrize(
    ("keys", "ends"),
    [("q", False), ("q q", True), ("h l q q", False), ("h Escape q q", True), ("q f q", False)],
)
def test_keys_do_before_the_first_picture_what_they_do_later(keys, ends):
    """In the box letters are typed; with another key between, the second q is a first one."""
    assert Starting().turns(*keys.split()) is not ends


def test_closing_the_window_and_a_fault_end_the_start():
    """Without a frame it would wait for ever."""
    viewer = Starting()
    viewer.window.closed = True
    assert not viewer.loop.turn()

    def check():
        raise UnavailableError("no such camera")

    viewer = Starting()
    viewer.capture.check = check
    with pytest.raises(UnavailableError, match="no such camera"):
        viewer.loop.turn()
