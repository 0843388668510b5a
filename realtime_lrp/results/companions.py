"""The files beside films and pictures: a line for each map, raw maps, a summary picture."""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from realtime_lrp.config.provenance import KEY, Provenance
from realtime_lrp.engine.result import Result
from realtime_lrp.system.atomic import (
    atomic_file,
    atomic_folder,
    check_folder,
    check_output,
    refuse_link,
)

MAPS_PREFIX = "maps_"
"""How the name of every file of raw maps begins."""

CHUNK = 256
"""Maximum number of maps in a file."""


@dataclass(frozen=True)
class Companions:
    """Paths of JSON lines, a picture, and a folder of raw maps; None for what is not wanted."""

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
        return {kind: path for kind, path in vars(self).items() if path}

    def check(self, replace: bool) -> None:
        """Refuses files that cannot be made, are links, or would have to be replaced."""
        for path in self.by_kind.values():
            refuse_link(path)
            if path is self.maps:
                check_folder(path, replace, MAPS_PREFIX)
            else:
                check_output(path, replace)

    def open(self, stack: ExitStack, replace: bool) -> "OpenCompanions":
        """Opens the files; they appear under their names when the stack is closed."""
        parts = {
            kind: stack.enter_context(
                atomic_folder(path, replace, MAPS_PREFIX)
                if kind == "maps"
                else atomic_file(path, replace)
            )
            for kind, path in self.by_kind.items()
        }
        return OpenCompanions(parts, stack)


class OpenCompanions:
    """The files while they are written.

    A file of raw maps holds up to `CHUNK` of them, summed over the channels: relevance, float16
    [n, h, w], the maps at the network's input divided by their scale; scale, float32 [n], powers of
    two, because raw relevance is too small for float16; names, frame numbers or file names; times,
    seconds (0 for pictures); box, [n, 4], the region of the picture: x0, y0, x1, y1; provenance,
    how the maps were made, JSON. `parts` says what is wanted -> its temporary path.
    """

    def __init__(self, parts: Mapping[str, Path], stack: ExitStack):
        self.parts = parts
        self._provenance, self._first_row = "", dict[str, Any]()
        self._lines = None
        if "sidecar" in parts:
            lines = parts["sidecar"].open("w", encoding="utf-8", errors="backslashreplace")
            self._lines = stack.enter_context(lines)
        self._held: list[tuple[np.ndarray, float, Any, float, Sequence[int]]] = []
        self._saved = 0

    def describe(self, provenance: Provenance, concepts: Mapping[str, Any] | None = None) -> None:
        """Says how the maps are made, before the first; `concepts` are settings of the sidecar."""
        self._provenance = provenance.as_json()
        settings = provenance.settings | dict(concepts or {})
        whole = msgspec.structs.replace(provenance, settings=settings)
        self._first_row = {KEY: msgspec.to_builtins(whole)}

    def write(self, row: Mapping[str, Any]) -> None:
        if self._lines:
            self._lines.write(json.dumps({**row, **self._first_row}, ensure_ascii=False) + "\n")
            self._first_row = {}

    def keep(self, result: Result, name: int | str, seconds: float = 0.0) -> None:
        if "maps" not in self.parts:
            return
        relevance = result.relevance.sum(-1, dtype=np.float32)
        largest = float(np.abs(relevance).max())
        scale = float(2.0 ** np.ceil(np.log2(largest))) if largest > 0 else 1.0
        small = (relevance / np.float32(scale)).astype(np.float16)
        self._held.append((small, scale, name, seconds, result.region.box))
        if len(self._held) == CHUNK:
            self._save_maps()

    def finish(self) -> None:
        """Writes what is not on the disk yet; no further row or map may come."""
        if self._held:
            self._save_maps()
        if self._lines:
            self._lines.close()

    def _save_maps(self) -> None:
        relevance, scale, names, times, boxes = zip(*self._held, strict=True)
        np.savez(
            self.parts["maps"] / f"{MAPS_PREFIX}{self._saved:06d}.npz",
            relevance=np.stack(relevance),
            scale=np.array(scale, np.float32),
            names=np.array(names),
            times=np.array(times),
            box=np.array(boxes),
            provenance=np.array(self._provenance),
        )
        self._saved += len(self._held)
        self._held = []
