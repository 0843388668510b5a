"""Writes maps as data: a JSON line for each, and the raw maps in NumPy files.

Must not import TensorFlow: the live view opens its window before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from realtime_lrp.config.provenance import KEY, Provenance
from realtime_lrp.engine.accounting import has_account
from realtime_lrp.engine.concept_result import shares_of
from realtime_lrp.engine.wording import top_scores

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine
    from realtime_lrp.engine.result import Result

MAPS_PREFIX = "maps_"
"""How the name of every file of raw maps begins."""

CHUNK = 256
"""Maximum number of maps in a file."""

TOP_CONCEPTS = 4
"""How many channels of a layer a sidecar names."""


def map_record(
    engine: Engine, target: str, result: Result, names: Mapping[int, str] | None = None
) -> dict[str, Any]:
    """What a sidecar says of a map.

    Args:
      engine: it made the map.
      target: what is explained.
      result: the map.
      names: of channels of the engine's concept layer.

    Returns:
      top5: label and probability, best first; target: what is explained; relevance_sum: of the raw
      map; started: the relevance at the output; taken_by_biases: what biases took of it, which the
      map does not have; lost: the rest (started and lost are None for maps without an account);
      centre: [x, y] in pixels of the picture, the mean position of absolute relevance; spread: its
      root mean square distance from there, in pixels. The last two are None if the map is zero
      everywhere. concepts: see `concept_records`; missing unless the engine computes them.
    """
    relevance = result.relevance.sum(-1, dtype=np.float64)
    centre, spread = _centre_and_spread(np.abs(relevance), result)
    top = [
        {"label": name, "probability": round(p, 6)} for name, p in top_scores(engine, result.scores)
    ]
    first, accounted = result.maps[0], has_account(engine)
    record = {
        "top5": top,
        "target": target,
        "relevance_sum": float(relevance.sum()),
        "started": first.started if accounted else None,
        "taken_by_biases": first.taken_by_biases,
        "lost": first.lost if accounted else None,
        "centre": centre,
        "spread": spread,
    }
    if result.by_channel is not None:
        record["concepts"] = concept_records(result.by_channel, names or {})
    return record


def concept_records(by_channel: np.ndarray, names: Mapping[int, str]) -> list[dict[str, Any]]:
    """What a sidecar says of a map's concepts: the channels with the largest shares, best first.

    Args:
      by_channel: float32 [channels], the relevance in each channel of the layer.
      names: those that channels have.

    Returns:
      channel: its number; share: see `shares_of`; negative where the channel speaks against what is
      explained. name: missing where the channel has none.
    """
    shares = shares_of(by_channel.astype(np.float64))
    if not np.abs(shares).max() > 0:
        return []
    order = np.argsort(-np.abs(shares), kind="stable")[:TOP_CONCEPTS]
    return [
        {"channel": channel, "share": round(share, 6)}
        | ({"name": names[channel]} if channel in names else {})
        for channel, share in zip(order.tolist(), shares[order].tolist(), strict=True)
    ]


def raw_map_arrays(
    engine: Engine, target: str, result: Result, provenance: Provenance
) -> dict[str, Any]:
    """The arrays in an .npz file of one map.

    Returns:
      relevance: float32 [h, w, 3] at the network's input; scores: float32 [classes]; labels: the
      five best; target: what is explained; box: x0, y0, x1, y1 of the region in the picture;
      provenance: how the map was made, JSON.
    """
    return {
        "relevance": result.relevance,
        "scores": result.scores,
        "labels": np.array([name for name, _ in top_scores(engine, result.scores)]),
        "target": np.array(target),
        "box": np.array(result.region.box),
        KEY: np.array(provenance.as_json()),
    }


def _centre_and_spread(
    weight: np.ndarray, result: Result
) -> tuple[list[float] | None, float | None]:
    x0, y0, x1, y1 = result.region.inner
    left, top, right, bottom = result.region.box
    weight = weight[y0:y1, x0:x1]
    total = weight.sum()
    if not total > 0:
        return None, None
    y = top + (np.arange(y1 - y0) + 0.5) * (bottom - top) / (y1 - y0)
    x = left + (np.arange(x1 - x0) + 0.5) * (right - left) / (x1 - x0)
    of_rows, of_columns = weight.sum(1) / total, weight.sum(0) / total
    centre = [float(of_columns @ x), float(of_rows @ y)]
    squares = of_columns @ (x - centre[0]) ** 2 + of_rows @ (y - centre[1]) ** 2
    return [round(value, 2) for value in centre], round(float(np.sqrt(squares)), 2)


class JsonLines:
    """Writes a file of JSON lines.

    Attributes:
      provenance: how the maps are made; goes into the first line, as a key of its own.
    """

    def __init__(self, path: Path):
        self.provenance: Provenance | None = None
        self._file = path.open("w", encoding="utf-8", errors="backslashreplace")

    def __enter__(self) -> JsonLines:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def write(self, row: dict[str, Any]) -> None:
        """Appends a line."""
        if self.provenance:
            row = {**row, KEY: msgspec.to_builtins(self.provenance)}
            self.provenance = None
        self._file.write(json.dumps(row, ensure_ascii=False) + "\n")


class RawMaps:
    """Writes a folder of raw maps, summed over the channels, `CHUNK` to a file.

    Each .npz file holds: relevance, float16 [n, h, w], the maps at the network's input divided by
    their scale; scale, float32 [n], powers of two, because raw relevance is too small for float16;
    names, frame numbers or file names; times, seconds (0 for pictures); box, [n, 4], the region of
    the picture: x0, y0, x1, y1; provenance, how the maps were made, JSON.

    Args:
      folder: must exist.

    Attributes:
      provenance: has to be set before the first map is added.
    """

    provenance: Provenance

    def __init__(self, folder: Path):
        self._folder = folder
        self._held: list[tuple[np.ndarray, float, Any, float, Sequence[int]]] = []
        self._written = 0

    def __enter__(self) -> RawMaps:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        if kind is None and self._held:
            self._save()

    def add(self, result: Result, name: int | str, seconds: float = 0.0) -> None:
        """Appends a map."""
        relevance = result.relevance.sum(-1, dtype=np.float32)
        largest = float(np.abs(relevance).max())
        scale = float(2.0 ** np.ceil(np.log2(largest))) if largest > 0 else 1.0
        small = (relevance / np.float32(scale)).astype(np.float16)
        self._held.append((small, scale, name, seconds, result.region.box))
        if len(self._held) == CHUNK:
            self._save()

    def _save(self) -> None:
        relevance, scale, names, times, boxes = zip(*self._held, strict=True)
        np.savez(
            self._folder / f"{MAPS_PREFIX}{self._written:06d}.npz",
            relevance=np.stack(relevance),
            scale=np.array(scale, np.float32),
            names=np.array(names),
            times=np.array(times),
            box=np.array(boxes),
            provenance=np.array(self.provenance.as_json()),
        )
        self._written += len(self._held)
        self._held = []
