"""Opening hours: how they are written, and what they mean."""

from datetime import datetime, timedelta

import pytest

from realtime_lrp.config.hours import DAYS, parse_hours

MONDAY = datetime(2026, 3, 2)
MINUTE = timedelta(minutes=1)
SCHEDULES = [
    {"tue-fri": "09:00-12:00, 13:00-17:30", "sat": "10:00-01:00"},
    {"daily": "18:00-02:00"},
    {"sun": "22:00-03:30", "mon": "03:30-04:00"},
    {"sat-mon": "00:00-24:00"},
    {"mon": "00:01-00:02, 23:59-24:00"},
    {"fri": "20:00-24:00", "sat": "00:00-06:00"},
]


def at(day, clock):
    """A moment in a week of March."""
    hour, minute = map(int, clock.split(":"))
    return MONDAY + timedelta(days=DAYS.index(day), hours=hour, minutes=minute)


@pytest.mark.parametrize("hours", SCHEDULES, ids=str)
def test_the_next_change_is_the_one_that_the_minutes_show(hours):
    """Every minute of two weeks is asked, and the changes are compared."""
    opening = parse_hours(hours)
    moments = [MONDAY + n * MINUTE for n in range(2 * 7 * 24 * 60)]
    states = [opening.is_open(moment) for moment in moments]
    assert True in states and False in states
    change = None
    for number in range(len(moments) - 1, 0, -1):
        if states[number] != states[number - 1]:
            change = moments[number]
        if change:
            assert opening.next_change(moments[number - 1]) == change


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


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"monday": "09:00-10:00"}, "instead of 'monday'"),
        ({"mon-": "09:00-10:00"}, "instead of 'mon-'"),
        ({"": "09:00-10:00"}, "instead of ''"),
        ({"mon": "9-10"}, "instead of '9-10'"),
        ({"mon": "09:00-09:00"}, "instead of '09:00-09:00'"),
        ({"mon": "24:00-10:00"}, "instead of '24:00-10:00'"),
        ({"mon": "09:60-10:00"}, "instead of '09:60-10:00'"),
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
