"""Messages about values that do not fit.

No message may show a password: values go through `showable`, keys through `hide_secrets`.
"""

import re
from collections.abc import Mapping
from typing import Any

from annotated_types import Ge, Gt, Le, MaxLen, MinLen
from pydantic.fields import FieldInfo

from realtime_lrp.errors import masked, nearest

MAX_LETTERS = 4096
"""Characters of one text: as long as a path may be."""

_EXPECTED = {
    "bool_type": "expected true or false",
    "string_type": "expected a text",
    "string_unicode": "expected characters that exist",
    "list_type": "expected a list such as [a, b]",
}
"""Pydantic's error type -> what we say."""

_YES_AND_NO = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false"}
_NOT_SHOWN = ("a list", "keys with values", "an address")
_LOGIN = re.compile(r"(?s)\A[^/\\:@]+:(?![/\\]).*@")


def expectation(detail: Mapping[str, Any], field: FieldInfo | None) -> str:
    """What was expected instead, what was received, and the nearest legal value.

    Args:
      detail: one of pydantic's errors.
      field: the key's field, where there is such a key.
    """
    kind, received = detail["type"], detail["input"]
    legal: list[str] = []
    if kind == "value_error":
        text = str(detail["ctx"]["error"])
    elif kind == "literal_error":
        legal = re.findall(r"'([^']*)'", detail["ctx"]["expected"])
        text = f"expected {' or '.join(filter(None, [', '.join(legal[:-1]), legal[-1]]))}"
    else:
        text = _EXPECTED.get(kind) or _limits(kind, field) or detail["msg"]
    if kind == "too_long" and isinstance(received, list):
        return f"{text}; received {len(received)}"
    says_it_already = kind == "value_error" and (
        " instead of " in text or showable(received) in _NOT_SHOWN or received == ""
    )
    if says_it_already or (field is not None and not field.repr):
        return text
    return f"{text}; received {showable(received)}{_hint(kind, received, legal)}"


def showable(value: Any) -> str:
    """A value as far as a message may show it: addresses can hold passwords."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, dict):
        return "keys with values"
    if isinstance(value, str) and ("://" in value or hide_secrets(value) != value):
        return "an address"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def hide_secrets(text: str) -> str:
    """A text with *** for what may be secret in an address, also in one without a scheme."""
    return _LOGIN.sub("***@", masked(text))


def printable(text: str) -> str:
    """A text with escapes for characters that would break a line or cannot be shown."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def _hint(kind: str, received: Any, legal: list[str]) -> str:
    """What to write instead, where one thing is likely."""
    if kind == "string_type" and isinstance(received, bool | int | float):
        return "; put it in quotes"
    if not isinstance(received, str):
        return ""
    close = _YES_AND_NO.get(received.lower()) if kind == "bool_type" else nearest(received, legal)
    return f"; did you mean {close}?" if close else ""


def _limits(kind: str, field: FieldInfo | None) -> str:
    """What a number, or the length of a list, has to be by the limits in the schema."""
    if field is None:
        return ""
    limits = {type(limit): limit for limit in field.metadata}
    if kind in ("too_short", "too_long"):
        least = "1 to" if MinLen in limits else "at most"
        return f"expected {least} {limits[MaxLen].max_length} entries"
    if Le not in limits:
        return ""
    noun = "number" if "float" in str(field.annotation) else "whole number"
    if Gt in limits:
        return f"expected a {noun} above {limits[Gt].gt}, up to {limits[Le].le}"
    return f"expected a {noun} from {limits[Ge].ge} to {limits[Le].le}"
