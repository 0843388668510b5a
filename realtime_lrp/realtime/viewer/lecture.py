"""A lecture: steps that a presenter's clicker goes through, each a view and a sentence about it.

A step is the view as at the start, changed by its commands, so it is the same whichever way it was
reached. `Words` are the view's in the language of a lecture; what has none stays English.
"""

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from realtime_lrp.config import ASSETS, Config, read_as, read_file
from realtime_lrp.config.schema import AlsoModel
from realtime_lrp.errors import MissingInputError, nearest
from realtime_lrp.relevance.maps.targets import TARGETS
from realtime_lrp.view import keys
from realtime_lrp.view.hud import Block

INCLUDED = {file.stem: file for file in (ASSETS / "lecture").glob("*.yaml")}  # language -> file

COMMANDS = {
    one.name: one
    for one in keys.commands(TARGETS)
    if one not in keys.CLICKER and one.action not in ("help", "escape", "quit")
}
"""A step's possible actions, by name."""


def _known(name: str) -> str:
    if name not in COMMANDS:
        close = nearest(name, COMMANDS) or "freeze"
        raise ValueError(f"expected a command such as {close!r} (docs/live.md lists them)")
    return name


class LectureStep(BaseModel):
    """A step of a lecture."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    say: str
    do: list[Annotated[str, AfterValidator(_known)]] = []


def load_lecture(config: Config) -> tuple[LectureStep, ...]:
    """The steps of the lecture that a configuration names, if any.

    Raises:
      ConfigError: the file is wrong; the message names each line and what was expected.
      MissingInputError: there is none.
    """
    if not (name := config.live.lecture):
        return ()
    file = INCLUDED.get(name) or Path(name)
    if not file.is_file():
        known = " or ".join(sorted(INCLUDED))
        raise MissingInputError(f"There is no lecture {name!r}: expected {known}, or a file.")
    steps, _ = read_as(
        file,
        Annotated[list[LectureStep], Field(min_length=1)],
        "expected steps, each with 'say:' in a line that begins with a dash",
        LectureStep,
    )
    return tuple(steps)


def with_networks(config: Config) -> Config:
    """The configuration; an included lecture shows a transformer beside the network, or a CNN."""
    if config.live.lecture not in INCLUDED or config.live.also_models:
        return config
    other = "shapes" if config.model.name == "shapes_vit" else "shapes_vit"
    return config.changed(live={"also_models": [AlsoModel(name=other)]})


TEXTS = (
    "name",
    "value",
    "text",
    "longest",
    "low",
    "high",
    "head",
)  # the fields of figures that are text


class Words:
    """Translates texts by a table: English -> another language, {} in both for what varies.

    A text stands in the table itself, or fits an entry with {}: the first such entry counts. The
    tables are `assets/words/LANGUAGE.yaml`; class names come from the exhibit's captions.
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
        """Translates a text, each line by itself."""
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
