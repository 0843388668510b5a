"""A lecture: steps that a presenter's clicker goes through, each a view and a sentence about it.

The included ones are `assets/lecture/LANGUAGE.yaml`. A step is the view as at the start, changed by
its commands, so it is the same whichever way it was reached; `handle` goes there.
"""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from realtime_lrp.config import ASSETS, Config, read_as
from realtime_lrp.config.schema import AlsoModel
from realtime_lrp.errors import MissingInputError, nearest
from realtime_lrp.relevance.maps.targets import TARGETS
from realtime_lrp.view import keys

INCLUDED = {file.stem: file for file in (ASSETS / "lecture").glob("*.yaml")}
"""Language -> the included lecture."""

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

    @property
    def commands(self) -> list[keys.Command]:
        return [COMMANDS[name] for name in self.do]


def load_lecture(config: Config) -> tuple[LectureStep, ...]:
    """The steps of the lecture that a configuration names, if any.

    Raises:
      ConfigError: the file is wrong; the message names each line and what was expected.
      MissingInputError: there is none.
    """
    name = config.live.lecture
    if not name:
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
