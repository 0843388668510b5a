"""The types of values in a configuration, each with its JSON Schema for editors.

The JSON Schema may accept more than the check, never less; tests/test_config.py tries it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema

from realtime_lrp.config import preprocessing
from realtime_lrp.config.names import RULES

MAX_LETTERS = 4096  # characters of one text: as long as a path may be

MAX_PIXELS = 8192
_NUMBER = "[1-9][0-9]{0,3}"
_PAIR = rf"({_NUMBER})\s*[xX,]\s*({_NUMBER})"
_HIDDEN = r"^\*\*\*@|:/[\s\S]*\*\*\*"
_NO_TARGET = r"^\s*(top0+|-[0-9]+)?\s*$"
_CAMERA_FORMAT = "^[ -~]{4}$"
_PIN = "^scrypt:[0-9a-f]{32}:[0-9a-f]{64}$"


def _read_pair(expected: str, one_is_enough: bool) -> BeforeValidator:
    """Reads "224x320" as (224, 320); if one number is enough, 224 as (224, 224)."""

    def read(value: Any) -> Any:
        if value is None or isinstance(value, tuple):
            return value
        text = str(value) if type(value) in (int, str) else ""
        parts = re.fullmatch(rf"\s*(?:{_PAIR}|({_NUMBER}))\s*", text)
        if parts and (one_is_enough or not parts[3]):
            pair = int(parts[1] or parts[3]), int(parts[2] or parts[3])
            if max(pair) <= MAX_PIXELS:
                return pair
        raise ValueError(f"expected {expected}, up to {MAX_PIXELS}")

    return BeforeValidator(read)


def _pair_schema(one_is_enough: bool) -> WithJsonSchema:
    one = f"|{_NUMBER}" if one_is_enough else ""
    text = {"type": "string", "pattern": rf"^\s*({_PAIR}{one})\s*$"}
    number = {"type": "integer", "minimum": 1, "maximum": MAX_PIXELS}
    return WithJsonSchema({"anyOf": [*([number] if one_is_enough else []), text, {"type": "null"}]})


def _refuse(wrong: Callable[[Any], object], message: str, validator: Any = AfterValidator) -> Any:
    """Refuses values for which `wrong` returns true."""

    def check(value: Any) -> Any:
        if wrong(value):
            raise ValueError(message)
        return value

    return validator(check)


def _reads(parse: Callable[[Any], object]) -> AfterValidator:
    """Refuses values that cannot be parsed."""

    def check(value: Any) -> Any:
        parse(value)
        return value

    return AfterValidator(check)


class OptionName(str):
    """Marks a key that an option of the command line sets: this one, or --key if it is empty."""


_Value = TypeVar("_Value")
Option = Annotated[_Value, OptionName()]  # the value of a key that --key sets

_TEXT_OR_INTEGER = {"type": ["string", "integer"]}
Text = Annotated[
    str,
    _refuse(lambda text: "\0" in text, "expected a text without the character U+0000"),
    _refuse(lambda text: len(text) > MAX_LETTERS, f"expected at most {MAX_LETTERS} characters"),
]
"""A text, perhaps the name of a file."""

TextOrNumber = Annotated[
    Text,
    BeforeValidator(lambda value: str(value) if type(value) is int else value),
    WithJsonSchema(_TEXT_OR_INTEGER),
]
"""A text that may be written as a whole number."""

Address = Annotated[
    TextOrNumber,
    _refuse(
        re.compile(_HIDDEN).search, "*** hides a part of the address here; write the whole address"
    ),
    _refuse(lambda text: not text.strip(), "expected a text that is not empty"),
    WithJsonSchema(
        {**_TEXT_OR_INTEGER, "pattern": r"\S", "not": {"type": "string", "pattern": _HIDDEN}}
    ),
]
"""A camera, a file or a URL; URLs may contain passwords."""

Preprocess = Annotated[Text, _reads(preprocessing.parse)]  # a name, or a range and more


def corners(text: str) -> tuple[float, float, float, float]:
    """Reads "X0,Y0,X1,Y1", fractions of a picture; ValueError for what is no region."""
    with suppress(ValueError):
        x0, y0, x1, y1 = map(float, text.split(","))
        if 0 <= x0 < x1 <= 1 and 0 <= y0 < y1 <= 1:
            return x0, y0, x1, y1
    raise ValueError(
        "expected X0,Y0,X1,Y1, fractions of the picture from 0 to 1, such as 0.25,0.1,0.75,0.6"
    )


Corners = Annotated[Text, _reads(corners)]  # a region of a picture


def place(text: str) -> tuple[float, float]:
    """Reads "X,Y", shares of the width and height of a picture; ValueError for anything else."""
    with suppress(ValueError):
        x, y = map(float, text.split(","))
        if 0 <= x <= 1 and 0 <= y <= 1:
            return x, y
    raise ValueError("expected X,Y, two shares from 0 to 1, such as 0.5,0.25")


Place = Annotated[Text, _reads(place)]

Target = Annotated[
    TextOrNumber,
    _refuse(
        re.compile(_NO_TARGET).search,
        "expected all, top1, top5, a class by name or an index from 0",
    ),
    WithJsonSchema(
        {**_TEXT_OR_INTEGER, "minimum": 0, "not": {"type": "string", "pattern": _NO_TARGET}}
    ),
]
"""The target: all, top5, a class, A - B."""

CameraFormat = Annotated[
    str,
    _refuse(
        lambda text: not re.fullmatch(_CAMERA_FORMAT, text),
        "expected four characters, such as MJPG or YUYV",
    ),
    AfterValidator(str.upper),
    WithJsonSchema({"type": "string", "pattern": _CAMERA_FORMAT}),
]
_IN_JSON = PlainSerializer(lambda value: value and "x".join(map(str, value)), when_used="json")
"""Accepts numbers as JSON writes them: an exhibit saves its last good configuration as JSON."""

CameraSize = Annotated[
    tuple[int, int] | None,
    _read_pair("WIDTHxHEIGHT such as 1280x720", False),
    _pair_schema(False),
    _IN_JSON,
]
Size = Annotated[
    tuple[int, int] | None,
    _read_pair("one number or HEIGHTxWIDTH, such as 224 or 224x320", True),
    _pair_schema(True),
    _IN_JSON,
]
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY = 24 * 60
WEEK = 7 * DAY


def parse_hours(written: Mapping[str, str]) -> Callable[[datetime], bool]:
    """Makes a function of opening hours: whether it is open at a local time without time zone.

    Empty hours are always open. Times past midnight belong to the day on which they begin. Raises
    ValueError: a day or a time cannot be read, or a day is given twice.
    """
    days_of = {key: list(_days(key)) for key in written}
    named = [day for days in days_of.values() for day in days]
    for day in named:
        if named.count(day) > 1:
            raise ValueError(f"expected each day once; {DAYS[day]} is there twice")
    minutes = [not written] * WEEK  # whether it is open, since Monday 00:00
    for key, days in days_of.items():
        for begin, end in _times(written[key]):
            for day in days:
                for minute in range(day * DAY + begin, day * DAY + end):
                    minutes[minute % WEEK] = True
    return lambda now: minutes[now.weekday() * DAY + now.hour * 60 + now.minute]


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
        begin = hour * 60 + minute
        end = end_hour * 60 + end_minute
        if begin == end or begin >= DAY or end > DAY:
            raise ValueError(
                f"expected times such as 09:00-17:30, from 00:00 to 24:00, instead of "
                f"{part.strip()!r}"
            )
        yield begin, end + DAY if end < begin else end


Hours = Annotated[
    dict[
        Annotated[str, _reads(lambda days: parse_hours({days: "00:00-24:00"}))],
        Annotated[str, _reads(lambda times: parse_hours({"daily": times}))],
    ],
    _reads(parse_hours),
]
Pin = Annotated[
    str,
    _refuse(
        lambda value: not (isinstance(value, str) and re.fullmatch(_PIN, value)),
        "expected the value that realtime-lrp kiosk --hash-pin prints",
        BeforeValidator,
    ),
    WithJsonSchema({"type": "string", "pattern": _PIN}),
]
Rules = Annotated[
    dict[Text, Annotated[Text, RULES]],
    _refuse(
        lambda value: isinstance(value, dict) and None in value.values(),
        "expected {pattern: rule}, with a space after the colon and quotes around a rule that "
        "has a comma: {Dense: 'alpha_beta(1, 0)'}",
        BeforeValidator,
    ),
]
