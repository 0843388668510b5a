"""What is said about YAML that cannot be read, and about values that do not fit: plain words."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

import yaml
from annotated_types import Ge, Gt, Le, MaxLen
from pydantic.fields import FieldInfo

from realtime_lrp.errors import masked, nearest

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


_SPACE_MISSING = "write a space after the colon, as in 'key: value'"
_NO_SPACE = re.compile(r"\s*[\w.*-]+:[^ \t/\\]")
_STRANGE_SPACE = re.compile(r"[ \t]*([\u200b-\u200d\u2060\ufeff]|[^\S \t\r\n])")
_BREAK = re.compile(r"\r\n|[\r\n\x85\u2028\u2029]")


def plain_words(error: yaml.MarkedYAMLError, text: str) -> tuple[int, str]:
    """The line from 0, and what is wrong there in words for people who do not know YAML."""
    lines = _BREAK.split(text.rstrip())
    line = min(error.problem_mark.line if error.problem_mark else 0, len(lines) - 1)
    if error.note == "refused":
        return line, error.problem
    if slip := _slip(error, lines, line):
        return slip
    begun = error.context_mark.line if error.context_mark else line
    begins = f" (it begins in line {begun + 1})" if begun < line else ""
    for pattern, words in _SYNTAX:
        if found := re.search(pattern, error.problem or ""):
            return line, f"is not YAML: {found.expand(words)}{begins}"
    return line, f"is not YAML: {error.problem}{begins}"


def _slip(error: yaml.MarkedYAMLError, lines: list[str], last: int) -> tuple[int, str] | None:
    """The line at or above the last one in which a space is wrong or missing, and the words."""
    if not re.search(r"mapping values|expected ':'|expected <block end>", error.problem or ""):
        return None
    for number in range(last, -1, -1):
        words = strange_space(lines[number])
        if words or _NO_SPACE.match(lines[number]):
            return number, f"is not YAML: {words or _SPACE_MISSING}"
        if number < last and re.search(r":( |$)", lines[number]):
            return None
    return None


def strange_space(line: str) -> str:
    """What to say of a line that begins with a space other than that of the keyboard, or ""."""
    found = _STRANGE_SPACE.match(line)
    if not found:
        return ""
    name = unicodedata.name(found[1], "no usual space").lower()
    return f"a line begins with U+{ord(found[1]):04X} ({name}); use spaces"


def misplaced(value: Any, is_section: bool) -> str:
    """What to write where keys are expected and a list or a scalar stands."""
    if isinstance(value, list):
        return "is a list; expected keys, without the dash"
    if isinstance(value, str) and _NO_SPACE.match(value):
        return _SPACE_MISSING
    if is_section:
        return "is a section; expected lines 'key: value' under it"
    return f"expected keys with values such as {{a: b}}; received {shown(value)}"


def unsecret(text: str) -> str:
    """A text without what may be secret in an address, also in one without a scheme."""
    return _SECRET.sub("***@", masked(text))


_SECRET = re.compile(r"(?s)\A[^/\\:@]+:(?![/\\]).*@")


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
    is_told = kind == "value_error" and (
        " instead of " in words or shown(received) in _UNSHOWN or received == ""
    )
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
}


def _limits(kind: str, field: FieldInfo | None) -> str:
    """What a number or the length of a list has to be, from the limits in the schema."""
    if field is None:
        return ""
    limits = {type(one): one for one in field.metadata}
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
    if isinstance(value, str) and ("://" in value or unsecret(value) != value):
        return "an address"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
