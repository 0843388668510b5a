"""Opening hours: on which days, from when to when.

No state is kept, so a clock that is set forward or back does no harm.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY = 24 * 60
WEEK = 7 * DAY


@dataclass(frozen=True)
class OpeningHours:
    """For each minute of the week since Monday 00:00, local time: 1 where it is open, else 0."""

    minutes: bytes

    def is_open(self, now: datetime) -> bool:
        """Whether it is open at a local time (without time zone)."""
        return bool(self.minutes[now.weekday() * DAY + now.hour * 60 + now.minute])


def parse_hours(written: Mapping[str, str]) -> OpeningHours:
    """Parses opening hours; empty ones are always open.

    Days are such as "mon", "tue-fri", "sat-mon", "mon, wed" or "daily", times such as "09:00-12:00,
    13:00-17:30". Times past midnight, "18:00-02:00", belong to the day on which they begin.

    Raises:
      ValueError: a day or a time cannot be read, or a day is given twice.
    """
    if not written:
        return OpeningHours(b"\1" * WEEK)
    days_of = {key: list(_days(key)) for key in written}
    named = [day for days in days_of.values() for day in days]
    for day in named:
        if named.count(day) > 1:
            raise ValueError(f"expected each day once; {DAYS[day]} is there twice")
    minutes = bytearray(WEEK)
    for key, days in days_of.items():
        for begin, end in _times(written[key]):
            for day in days:
                for minute in range(day * DAY + begin, day * DAY + end):
                    minutes[minute % WEEK] = 1
    return OpeningHours(bytes(minutes))


def _days(key: str) -> Iterator[int]:
    """The days of a key; Monday is 0."""
    for part in key.lower().split(","):
        part = part.strip()
        first, dash, last = (word.strip() for word in part.partition("-"))
        if part == "daily":
            yield from range(7)
        elif first in DAYS and last in (DAYS if dash else ("",)):
            begin = DAYS.index(first)
            length = (DAYS.index(last) - begin) % 7 if dash else 0
            yield from ((begin + day) % 7 for day in range(length + 1))
        else:
            raise ValueError(
                f"expected days such as mon, tue-fri, 'sat, sun' or daily instead of {part!r}"
            )


def _times(value: str) -> Iterator[tuple[int, int]]:
    """The spans of a value in minutes of the day; an end past midnight is above 1440."""
    for part in value.split(","):
        found = re.fullmatch(r"\s*(\d\d?):([0-5]\d)\s*-\s*(\d\d?):([0-5]\d)\s*", part, re.ASCII)
        hour, minute, end_hour, end_minute = map(int, found.groups()) if found else (0, 0, 0, 0)
        begin, end = hour * 60 + minute, end_hour * 60 + end_minute
        if begin == end or begin >= DAY or end > DAY:
            raise ValueError(
                f"expected times such as 09:00-17:30, from 00:00 to 24:00, instead of "
                f"{part.strip()!r}"
            )
        yield begin, end + DAY if end < begin else end
