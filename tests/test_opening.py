"""The card in the window from the start to the first picture."""

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from realtime_lrp import config
from realtime_lrp.commands.live.run import Opening
from realtime_lrp.errors import UnavailableError
from realtime_lrp.realtime.latest import Slot


class ScriptedWindow:
    """A window that returns prepared events, one list for each question, and then [""]."""

    def __init__(self, *events, closed_after=10**6):
        self.size, self.shown, self._events = (360, 640), [], list(events)
        self._questions, self._closed_after = 0, closed_after

    def show(self, canvas):
        self.shown.append(canvas)

    def events(self):
        self._questions += 1
        return self._events.pop(0) if self._events else []

    @property
    def closed(self):
        return self._questions > self._closed_after


def parts(fault=None, **options):
    """A configuration, a capture without frames, and a relevance thread that loads."""

    def check(**_):
        if fault:
            raise fault

    chosen = config.load(options={"--model": "vgg16", **options}, command="live").config
    capture = SimpleNamespace(frames=Slot(), trouble="", check=check)
    return chosen, capture, SimpleNamespace(check=lambda patient: None)


def test_the_card_is_there_before_anything_else_and_changes_with_the_trouble():
    """One canvas for what is loading, another for the trouble; then the first frame ends it."""
    chosen, capture, relevance = parts()
    window = ScriptedWindow()
    opening = Opening(chosen, window)
    (card,) = window.shown
    assert card.shape == (360, 640, 3) and card.max() > 200
    capture.trouble = "no camera"
    put = threading.Timer(0.2, lambda: capture.frames.put(np.zeros((8, 8, 3)), time.monotonic()))
    put.start()
    assert opening.wait(threading.Event(), capture, relevance)
    assert len(window.shown) == 2 and (window.shown[1] != card).any()


@pytest.mark.parametrize(
    ("keys", "ends"),
    [("q", False), ("h l q q", True), ("Escape Escape", True), ("Escape f q", False)],
)
def test_q_and_esc_twice_end_the_start(keys, ends):
    """With another key between, the second Esc is the first of another two."""
    chosen, capture, relevance = parts()
    window = ScriptedWindow([], *([key] for key in keys.split()))
    opening, stopped = Opening(chosen, window), threading.Event()
    threading.Timer(0.5, stopped.set).start()
    assert not opening.wait(stopped, capture, relevance)
    assert ends != stopped.is_set()


def test_closing_the_window_a_signal_and_a_fault_end_the_start():
    """Without a frame it would wait for ever."""
    chosen, capture, relevance = parts()
    stopped = threading.Event()
    assert not Opening(chosen, ScriptedWindow(closed_after=2)).wait(stopped, capture, relevance)
    stopped.set()
    assert not Opening(chosen, None).wait(stopped, capture, relevance)
    _, broken, _ = parts(fault=UnavailableError("no such camera"))
    with pytest.raises(UnavailableError, match="no such camera"):
        Opening(chosen, ScriptedWindow()).wait(threading.Event(), broken, relevance)
