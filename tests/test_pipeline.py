"""Threads that run ahead: order, bounds, errors, early ends."""

import threading
import time

import pytest

from realtime_lrp.modes.pipeline import ahead


def test_items_come_in_order_and_no_more_are_made_than_fit():
    """A slow reader is never more than the bound behind."""
    made = []

    def numbers():
        for number in range(50):
            made.append(number)
            yield number

    got = []
    for number in ahead(numbers(), 3):
        time.sleep(0.002)
        got.append(number)
        assert len(made) <= len(got) + 3 + 1
    assert got == list(range(50))


def test_stages_work_at_the_same_time():
    """The next item is being made while the reader still works on this one: both meet."""
    meeting = threading.Barrier(2, timeout=10)

    def numbers():
        for number in range(5):
            if number:
                meeting.wait()
            yield number

    for number in ahead(numbers(), 1):
        if number < 4:
            meeting.wait()
    assert not meeting.broken


def test_an_error_comes_after_the_items_before_it():
    """And with its own type."""

    def broken():
        yield 1
        yield 2
        raise OSError("disk")

    got = []
    with pytest.raises(OSError, match="disk"):
        for item in ahead(broken(), 5):
            got.append(item)
    assert got == [1, 2]


def test_a_reader_that_stops_ends_the_thread_and_closes_the_source():
    """Also where the thread waits for room."""
    closed = threading.Event()

    def endless():
        try:
            while True:
                yield 0
        finally:
            closed.set()

    before = threading.active_count()
    items = ahead(endless(), 2)
    next(items)
    items.close()
    assert closed.is_set()
    assert threading.active_count() == before
