"""What is said about YAML that cannot be read, and about values that do not fit: plain words."""

import re
from collections.abc import Mapping
from typing import Any

import yaml
from annotated_types import Ge, Gt, Le, MaxLen
from pydantic.fields import FieldInfo

from realtime_lrp.errors import nearest

MAX_LETTERS = 4096
"""Of one text: as long as a path may be."""

_SYNTAX = (
    (r"found character '\\t'", "a line begins with a tab; use spaces"),
    (r"found character '(.)' that cannot start", r"quote a text that begins with \1"),
    (r"found character '(.)'", r"the character \1 is not expected here; put the text in quotes"),
    (r"mapping values are not allowed", "this line does not fit below the one above; keys of one "
     "section begin below each other, each with a colon behind it, and a text with a colon in it "
     "is quoted"),
    (r"could not find expected ':'", "expected 'key: value' with a colon and a space"),
    (r"expected <block end>", "this line begins further left or right than those above; keys of "
     "one section begin below each other"),
    (r"expected ',' or '\]'", "a list that begins with [ goes on here; expected a comma or ]"),
    (r"expected ',' or '\}'", "what begins with { goes on here; expected a comma or }"),
    (r"unexpected end of stream", "a quotation mark that is opened here is not closed"),
    (r"unknown escape|expected escape", r"a \\ in double quotes begins a special character; use "
     "single quotes"),
    (r"entries are not allowed", "a list cannot begin here; put each '- ' on a line of its own"),
    (r"but found another document", "a second document begins here (---); expected one"),
    (r"alphabetic or numeric", "quote a text that begins with * or &"),
    (r"node content, but found '<stream end>'", "the text ends too early; something is not closed"),
    (r"expected the node content", "something is missing here; quote a text that begins with a "
     "comma, a bracket or a brace"),
    (r"expected '<document start>'", "expected nothing behind the end of what begins with { or ["),
    (r"duplicate anchor", "names for values (&name) are not needed; leave them out"),
)  # fmt: skip
"""What PyYAML says -> what we say."""


def plain_words(error: yaml.MarkedYAMLError) -> str:
    """What is wrong with YAML, in words for people who do not know its grammar."""
    if error.note == "refused":
        return error.problem
    for pattern, words in _SYNTAX:
        if found := re.search(pattern, error.problem or ""):
            return f"is not YAML: {found.expand(words)}{_begun(error)}"
    return f"is not YAML: {error.problem}{_begun(error)}"


def _begun(error: yaml.MarkedYAMLError) -> str:
    """The line where what went wrong began, if that is another."""
    begun, ended = error.context_mark, error.problem_mark
    if begun is None or ended is None or begun.line == ended.line:
        return ""
    return f" (it begins in line {begun.line + 1})"


def printable(text: str) -> str:
    """A text with escapes for what would break a line or cannot be shown."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def expectation(detail: Mapping[str, Any], field: FieldInfo | None) -> str:
    """What pydantic expected instead, what it got, and the nearest legal value.

    Args:
      detail: one of its errors.
      field: the key's field, where there is such a key.
    """
    kind, received = detail["type"], detail["input"]
    legal: list[str] = []
    if kind == "value_error":
        words = str(detail["ctx"]["error"])
    elif kind == "literal_error":
        legal = re.findall(r"'([^']*)'", detail["ctx"]["expected"])
        words = f"expected {' or '.join(filter(None, [', '.join(legal[:-1]), legal[-1]]))}"
    elif kind in _EXPECTED:
        words = _EXPECTED[kind]
    else:
        words = _limits(kind, field) or detail["msg"]
    is_told = kind == "value_error" and shown(received) in _UNSHOWN
    if is_told or (field is not None and not field.repr):
        return words
    return f"{words}; received {shown(received)}{_hint(kind, received, legal)}"


def _hint(kind: str, received: Any, legal: list[str]) -> str:
    """The way out, where one is likely."""
    if kind == "string_type" and isinstance(received, bool | int | float):
        return "; put it in quotes"
    if not isinstance(received, str):
        return ""
    close = nearest(received, legal)
    if kind == "bool_type":
        close = _BOOLEANS.get(received.lower())
    return f"; did you mean {close}?" if close else ""


_BOOLEANS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}

_EXPECTED = {
    "bool_type": "expected true or false",
    "string_type": "expected a text",
    "string_unicode": "expected characters that exist",
    "list_type": "expected a list such as [a, b]",
    "dict_type": "expected keys with values such as {a: b}",
}


def _limits(kind: str, field: FieldInfo | None) -> str:
    """What a number or the length of a list has to be, from the limits in the schema."""
    limits = {type(one): one for one in field.metadata} if field else {}
    if kind in ("too_short", "too_long"):
        return f"expected 1 to {limits[MaxLen].max_length} entries"
    if Le not in limits:
        return ""
    kind = "number" if "float" in str(field.annotation) else "whole number"
    low = f"above {limits[Gt].gt} up" if Gt in limits else f"from {limits[Ge].ge}"
    return f"expected a {kind} {low} to {limits[Le].le}"


_UNSHOWN = ("a list", "keys with values", "an address")


def shown(value: Any) -> str:
    """A value as far as it may be shown; addresses can hold passwords."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, dict):
        return "keys with values"
    if isinstance(value, str) and "://" in value:
        return "an address"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
