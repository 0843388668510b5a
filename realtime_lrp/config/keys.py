"""Which key was meant by one that does not exist."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from realtime_lrp.config.files import Where, key_of
from realtime_lrp.config.schema import Config, legal_keys

MOST_LETTERS = 200
"""Of a message that lists the legal keys."""

_CLEAR = 0.66
"""How much of its letters a section's name has to have in common: "lpr" is "lrp"."""


def unknown_key(where: Where) -> str:
    """That there is no such key, with the nearest legal ones, or else all of its section."""
    section, name, key = str(where[0]), str(where[-1]), key_of(where)
    if len(where) == 1 and name in legal_keys():
        return f"there is no key {key!r}; write 'section:' in one line and 'key: value' under it"
    before, colon, _ = name.partition(":")
    if colon and before in (_names(section) if len(where) > 1 else Config.model_fields):
        return f"{key_of((*where[:-1], before))}: write a space after the colon"
    if close := _near_keys(section, name) if len(where) > 1 else _near_section(name):
        return f"there is no key {key!r}; did you mean {' or '.join(map(repr, close))}?"
    around = f"section {section!r}" if len(where) > 1 else "file"
    legal = ", ".join(_names(section) if len(where) > 1 else Config.model_fields)
    words = f"there is no key {key!r}; the {around} has {legal}"
    return words if len(words) <= MOST_LETTERS else f"there is no key {key!r}"


def clear_section(name: str) -> str | None:
    """The section that was clearly meant by a name that is none."""
    found = () if name in Config.model_fields else _alike(name, Config.model_fields, _CLEAR)
    return found[0] if found else None


def as_if_clear(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, those under a misspelt section also where they clearly belong."""
    found = dict(values)
    for section, keys in values.items():
        close = clear_section(section)
        if close and isinstance(keys, dict) and isinstance(there := found.get(close, {}), dict):
            found[close] = keys | there
    return found


def _names(section: str) -> list[str]:
    """The names of a section's keys."""
    return [key.partition(".")[2] for key in legal_keys() if key.startswith(f"{section}.")]


def _near_keys(section: str, name: str) -> list[str]:
    """Those of the section that look alike or have a word in common, else of the others.

    A word that more than two have in common says nothing: none.
    """
    own = _names(section)
    parts = [one for one in own if _is_part(name, one) or _is_part(one, name, whole=True)]
    close = _alike(name, own, 0.8) or parts or _alike(name, own, 0.7)
    if len(close) > 2:
        return []
    return [f"{section}.{one}" for one in close] or _elsewhere(name)


def _near_section(name: str) -> list[str]:
    names = [one.partition(".")[2] for one in legal_keys()]
    if name in names:
        return _elsewhere(name)
    return _alike(name, Config.model_fields, _CLEAR) or _elsewhere(name)


def _elsewhere(name: str) -> list[str]:
    """The key of any section whose name is nearly the same."""
    found = {one.partition(".")[2]: one for one in reversed(legal_keys())}
    return [found[one] for one in _alike(name, found, 0.75)]


def _alike(name: str, legal: Iterable[str], cutoff: float) -> list[str]:
    return get_close_matches(name.lower(), list(legal), n=1, cutoff=cutoff)


def _is_part(part: str, name: str, whole: bool = False) -> bool:
    """Whether a name has the part at the beginning of one of its words, or as whole words."""
    end = "_" if whole else ""
    return len(part) > 2 and f"_{part.lower()}{end}" in f"_{name.lower()}_"
