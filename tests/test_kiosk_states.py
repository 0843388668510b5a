"""The exhibit's state machine, and the detection of visitors."""

import itertools
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from realtime_lrp.commands.kiosk.states import (
    TRANSITIONS,
    Observation,
    State,
    StateMachine,
)
from realtime_lrp.config import ASSETS
from realtime_lrp.config.hours import DAYS, parse_hours
from realtime_lrp.video.presence import Presence
from realtime_lrp.video.reader import VideoReader

IDLE_S, COUNTDOWN_S = 30.0, 10.0
ATTRACT, ACTIVE, IDLE, CARD, CLOSED = (
    State.ATTRACT, State.ACTIVE, State.IDLE, State.CARD, State.CLOSED,
)  # fmt: skip


def machine():
    return StateMachine(IDLE_S, COUNTDOWN_S, now=0.0)


def seen(now, open_=True, fault="", present=False):
    return Observation(now, open_, fault, present)


def test_a_visit_goes_through_every_state():
    """Attract, active, idle after 30 s, attract again after 10 s more, with a countdown."""
    one = machine()
    course = [
        (1.0, {"fault": "starting"}, CARD),
        (2.0, {}, ATTRACT),
        (50.0, {}, ATTRACT),
        (60.0, {"present": True}, ACTIVE),
        (65.0, {"present": True}, ACTIVE),
        (94.9, {}, ACTIVE),
        (95.0, {}, IDLE),
        (104.9, {}, IDLE),
        (105.0, {}, ATTRACT),
    ]
    for now, facts, state in course:
        assert one.step(seen(now, **facts)) == state, now
        if state == IDLE:
            assert one.countdown(now) == pytest.approx(105.0 - now)


def test_a_wave_brings_a_visitor_back():
    """A visitor who is seen during the countdown has the whole time again."""
    one = machine()
    for now, present in ((1.0, False), (2.0, True), (32.0, False)):
        one.step(seen(now, present=present))
    assert one.state == IDLE
    assert one.step(seen(40.0, present=True)) == ACTIVE
    assert one.step(seen(69.9)) == ACTIVE
    assert one.step(seen(70.0)) == IDLE


def test_the_state_always_fits_the_observation(rng):
    """In 20000 random steps: closed only outside the hours, a card whenever something fails."""
    one, now, visited, taken = machine(), 0.0, set(), set()
    for _ in range(20_000):
        now += rng.choice([0.03, 1.0, 40.0])
        fact = seen(
            now,
            open_=rng.random() < 0.9,
            fault=rng.choice(["", "", "", "camera"]),
            present=rng.random() < 0.3,
        )
        before = one.state
        state = one.step(fact)
        visited.add(state)
        taken.add((before, state))
        assert (state == CLOSED) == (not fact.open)
        if fact.fault and fact.open:
            assert state == CARD
        if fact.present and fact.open and not fact.fault and before != CLOSED:
            assert state == ACTIVE
    assert visited == set(State)
    drawn = {(source, one.target) for one in TRANSITIONS for source in one.sources}
    assert {way for way in taken if way[0] != way[1]} == drawn, "every arrow, and no other"


ROOM = None


def room(rng, light=1.0, person=None):
    """A furnished room with a sensor's noise, and optionally a person."""
    global ROOM
    if ROOM is None:
        ROOM = np.kron(np.random.default_rng(5).uniform(40, 200, (6, 8, 3)), np.ones((12, 12, 1)))
    picture = ROOM.copy()
    if person is not None:
        picture[18:72, person : person + 18] = (90, 60, 160)
    picture = picture * light + rng.normal(0, 5, picture.shape)
    return np.clip(picture, 0, 255).astype(np.uint8)


def looks(presence, pictures, begin=0.0):
    """Whether somebody is present, for pictures that come five times a second."""
    return [presence.look(one, begin + 0.2 * k) for k, one in enumerate(pictures)]


def test_an_empty_room_is_empty(rng):
    """Noise, clouds and lamps are no visitors: no false alarm in 5 minutes."""
    light = itertools.chain(
        [1.0] * 300, 1 + 0.3 * np.sin(np.arange(900) / 100), [1.0] * 150, [0.6] * 150
    )
    assert not any(looks(Presence(), [room(rng, one) for one in light]))


def test_a_visitor_is_seen_until_they_leave(rng):
    """Within 0.4 s, also if they hardly move."""
    presence = Presence()
    assert not any(looks(presence, [room(rng) for _ in range(50)]))
    assert not any(looks(presence, [room(rng, person=30), room(rng)], 50.0)), "a single picture"
    there = looks(presence, [room(rng, person=30 + k % 2) for k in range(100)], 100.0)
    assert there.index(True) <= 2 and all(there[2:])
    gone = looks(presence, [room(rng) for _ in range(50)], 200.0)
    assert not any(gone[2:])


def test_a_thing_left_behind_becomes_background(rng):
    """It counts as a visitor for about 40 seconds."""
    presence = Presence()
    looks(presence, [room(rng) for _ in range(50)])
    there = looks(presence, [room(rng, person=30) for _ in range(500)], 100.0)
    assert 20 < 0.2 * sum(there) < 60
    assert not any(there[400:])


def test_somebody_with_a_drawing_is_seen():
    """In the included clip, after its empty first picture."""
    presence = Presence()
    with VideoReader(ASSETS / "demo.mp4") as reader:
        pictures = [frame.picture for frame in reader]
    looks(presence, [pictures[0]] * 20)
    there = looks(presence, pictures[10::6], 100.0)
    assert sum(there) > 0.9 * len(there)


def test_the_guide_shows_this_state_machine():
    """Each arrow of the table is in its diagram, and no other."""
    guide = (Path(__file__).parents[1] / "docs" / "kiosk.md").read_text()
    arrows = [
        f"    {source} --> {one.target}: {one.reason}"
        for one in TRANSITIONS
        for source in one.sources
    ]
    assert "\n".join(["```mermaid\nstateDiagram-v2\n    [*] --> card", *arrows, "```"]) in guide


MONDAY = datetime(2026, 3, 2)


def at(day, clock):
    """A moment in a week of March."""
    hour, minute = map(int, clock.split(":"))
    return MONDAY + timedelta(days=DAYS.index(day), hours=hour, minutes=minute)


@pytest.mark.parametrize(
    ("key", "days"),
    [
        ("mon", "mon"),
        ("tue-fri", "tue wed thu fri"),
        ("sat-mon", "sat sun mon"),
        ("mon, wed", "mon wed"),
        ("Mon , THU-Fri", "mon thu fri"),
        ("daily", " ".join(DAYS)),
    ],
)
def test_days(key, days):
    """Ranges, lists, ranges over the end of the week, capitals."""
    opening = parse_hours({key: "10:00-11:00"})
    assert [d for d in DAYS if opening.is_open(at(d, "10:30"))] == [
        d for d in DAYS if d in days.split()
    ]


def test_times_past_midnight_belong_to_the_day_on_which_they_begin():
    """Also from Sunday to Monday."""
    opening = parse_hours({"fri, sun": "18:00-02:00"})
    clocks = ("01:59", "02:00", "17:59", "18:00")
    told = {day: [opening.is_open(at(day, clock)) for clock in clocks] for day in DAYS}
    closed, evening, night = [False] * 4, [False, False, False, True], [True, False, False, False]
    assert told == dict.fromkeys(DAYS, closed) | {
        "fri": evening, "sat": night, "sun": evening, "mon": night,
    }  # fmt: skip
    assert parse_hours({"mon": "20:00-24:00"}).is_open(at("mon", "23:59"))


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"monday": "09:00-10:00"}, "instead of 'monday'"),
        ({"mon": "9-10"}, "instead of '9-10'"),
        ({"mon": "09:00-09:00"}, "instead of '09:00-09:00'"),
        ({"mon": "09:00-10:00, "}, "instead of ''"),
        ({"mon-wed": "09:00-10:00", "tue": "11:00-12:00"}, "tue is there twice"),
    ],
)
def test_what_cannot_be_read_is_explained_in_a_line(written, message):
    """The words that were not understood are repeated."""
    with pytest.raises(ValueError, match="expected") as refused:
        parse_hours(written)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
