"""The view's words in the language of a lecture; what has no translation stays English.

`assets/words/LANGUAGE.yaml` is the table; class names come from the exhibit's captions.
"""

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from realtime_lrp.config import ASSETS, read_file
from realtime_lrp.view.hud import Block

TEXTS = "name", "value", "text", "longest", "low", "high", "head"
"""The fields of figures that are text."""


class Words:
    """Translates texts by a table: English -> another language, {} in both for what varies.

    A text stands in the table itself, or fits an entry with {}: the first such entry counts.
    """

    def __init__(self, table: Mapping[str, str], language: str = "en"):
        self.language = language
        self._table = table
        self._patterns = [
            (re.compile(re.escape(english).replace(r"\{\}", "(.+)")), text)
            for english, text in table.items()
            if "{}" in english
        ]

    @functools.lru_cache(maxsize=1024)  # noqa: B019 (there is one object a language)
    def __call__(self, text: str) -> str:
        """A text in the language, each line by itself."""
        if "\n" in text:
            return "\n".join(map(self, text.split("\n")))
        if text in self._table:
            return self._table[text]
        for pattern, translated in self._patterns:
            if found := pattern.fullmatch(text):
                return translated.format(*map(self, found.groups()))
        return text

    def within(self, text: str) -> str:
        """A text in the language; the space around it stays."""
        return text.replace(inner, self(inner)) if (inner := text.strip()) else text

    def blocks(self, blocks: Iterable[Block]) -> tuple[Block, ...]:
        """Blocks of figures in the language."""
        return tuple(tuple(map(self.entry, block)) for block in blocks)

    def entry(self, entry: Any) -> Any:
        """A row, a bar or another entry of figures in the language; None stays None."""
        if entry is None or not self._table:
            return entry
        texts = {name: getattr(entry, name) for name in TEXTS if hasattr(entry, name)}
        return replace(entry, **{name: self(text) for name, text in texts.items()})


ENGLISH = Words({})


@functools.cache
def words_for(lecture: str | None) -> Words:
    """The words of a lecture: of "de", and of a file whose name ends with .de.yaml, the German."""
    language = (lecture or "").removesuffix(".yaml").rpartition(".")[2]
    file = ASSETS / "words" / f"{language}.yaml"
    if language not in {one.stem for one in file.parent.glob("*.yaml")}:
        return ENGLISH
    labels = read_file(ASSETS / "captions" / file.name, texts=True).values["labels"]
    return Words({**labels, **read_file(file, texts=True).values}, language)
