"""The files beside films and pictures: a line for each map, raw maps, a summary picture."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from realtime_lrp.config.provenance import Provenance
from realtime_lrp.engine.result import Result
from realtime_lrp.results.records import MAPS_PREFIX, JsonLines, RawMaps
from realtime_lrp.system.atomic import (
    atomic_file,
    atomic_folder,
    check_folder,
    check_output,
    refuse_link,
)


@dataclass(frozen=True)
class Companions:
    """The paths of these files; None if one is not wanted.

    Attributes:
      sidecar: JSON lines.
      summary: a picture.
      maps: a folder.
    """

    sidecar: Path | None = None
    summary: Path | None = None
    maps: Path | None = None

    @classmethod
    def named_after(
        cls, target: Path, sidecar: bool, summary: bool, maps: Path | None
    ) -> "Companions":
        """The files beside an output; `maps` is the folder that gets a folder of raw maps."""
        return cls(
            target.with_suffix(".jsonl") if sidecar else None,
            target.with_suffix(".summary.png") if summary else None,
            maps / target.stem if maps else None,
        )

    @property
    def by_kind(self) -> dict[str, Path]:
        """All wanted files: what it is -> path."""
        paths = {"sidecar": self.sidecar, "summary": self.summary, "maps": self.maps}
        return {kind: path for kind, path in paths.items() if path}

    @property
    def paths(self) -> list[Path]:
        """All wanted files."""
        return list(self.by_kind.values())

    def check(self, replace: bool) -> None:
        """Refuses files that cannot be made, before any work is done.

        Args:
          replace: existing files may be replaced.

        Raises:
          OutputError: a file cannot be made, is a link, or would have to be replaced.
        """
        for path in self.paths:
            refuse_link(path)
            if path is self.maps:
                check_folder(path, replace, MAPS_PREFIX)
            else:
                check_output(path, replace)

    def open(self, stack: ExitStack, replace: bool) -> "OpenCompanions":
        """Opens the files; they appear under their names when the stack is closed.

        Args:
          stack: closes them.
          replace: existing files may be replaced.
        """
        made = OpenCompanions()
        if self.sidecar:
            made.parts.append(stack.enter_context(atomic_file(self.sidecar, replace)))
            made.lines = stack.enter_context(JsonLines(made.parts[-1]))
        if self.maps:
            made.parts.append(stack.enter_context(atomic_folder(self.maps, replace, MAPS_PREFIX)))
            made.maps = stack.enter_context(RawMaps(made.parts[-1]))
        if self.summary:
            made.summary = stack.enter_context(atomic_file(self.summary, replace))
        return made


@dataclass
class OpenCompanions:
    """The files while they are written; None if one is not wanted.

    Attributes:
      lines: the sidecar.
      maps: the raw maps.
      summary: where the summary picture is to be written.
      parts: the unfinished files that grow with each map.
    """

    lines: JsonLines | None = None
    maps: RawMaps | None = None
    summary: Path | None = None
    parts: list[Path] = field(default_factory=list)

    @property
    def wanted(self) -> bool:
        """Whether any file is wanted."""
        return bool(self.lines or self.maps or self.summary)

    def describe(self, provenance: Provenance, concepts: Mapping[str, Any] | None = None) -> None:
        """Says how the maps are made; to be called before the first one is written.

        Args:
          provenance: how.
          concepts: further settings of the sidecar.
        """
        if self.lines:
            settings = provenance.settings | dict(concepts or {})
            self.lines.provenance = msgspec.structs.replace(provenance, settings=settings)
        if self.maps:
            self.maps.provenance = provenance

    def write(self, row: Mapping[str, Any]) -> None:
        """Writes a line of the sidecar."""
        if self.lines:
            self.lines.write(dict(row))

    def keep(self, result: Result, name: int | str, seconds: float = 0.0) -> None:
        """Saves a raw map."""
        if self.maps:
            self.maps.add(result, name, seconds)
