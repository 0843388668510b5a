"""Maps kept as data: files beside films and pictures, lines of sidecars, arrays, snapshots.

Must not import TensorFlow: the live view opens its window before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec
import numpy as np

from realtime_lrp.config import Config, Settings, as_yaml
from realtime_lrp.config.provenance import KEY, Provenance
from realtime_lrp.engine.result import FoundBox, Result, Segments, shares_of
from realtime_lrp.engine.wording import top_scores
from realtime_lrp.relevance.maps.targets import class_label
from realtime_lrp.system import files
from realtime_lrp.video.pictures import encode_picture, write_picture

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine

MAPS_PREFIX = "maps_"  # how the name of every file of raw maps begins
CHUNK = 256  # maximum number of maps in a file


def companions_of(target: Path, sidecar: bool, summary: bool, maps: Path | None) -> dict[str, Path]:
    """The wanted files beside an output: "sidecar" (JSON lines), "summary", "maps" -> path."""
    paths = {"sidecar": target.with_suffix(".jsonl")} if sidecar else {}
    if summary:
        paths["summary"] = target.with_suffix(".summary.png")
    return paths | ({"maps": maps / target.stem} if maps else {})


def check_companions(paths: Mapping[str, Path], replace: bool) -> None:
    """Refuses files that cannot be made, are links, or would have to be replaced."""
    for kind, path in paths.items():
        files.refuse_link(path)
        if kind == "maps":
            files.check_folder(path, replace, MAPS_PREFIX)
        else:
            files.check_output(path, replace)


class Companions:
    """The files beside an output while they are written; they appear when the stack is closed.

    docs/recordings.md explains them. `parts` says what is wanted -> its temporary path.
    """

    def __init__(self, paths: Mapping[str, Path], stack: ExitStack, replace: bool):
        self.parts = {
            kind: stack.enter_context(
                files.atomic_folder(path, replace, MAPS_PREFIX)
                if kind == "maps"
                else files.atomic_file(path, replace)
            )
            for kind, path in paths.items()
        }
        self._provenance = ""
        self._first_row = dict[str, Any]()
        self._lines = None
        if "sidecar" in self.parts:
            lines = self.parts["sidecar"].open("w", encoding="utf-8", errors="backslashreplace")
            self._lines = stack.enter_context(lines)
        self._held: list[tuple[np.ndarray, float, Any, float, Sequence[int], Any]] = []
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

    def keep(
        self, result: Result, record: Mapping[str, Any], name: int | str, seconds: float = 0.0
    ) -> None:
        """Keeps the raw map of a result; `record` is what the sidecar says of it."""
        if "maps" not in self.parts:
            return
        relevance = result.relevance.sum(-1, dtype=np.float32)
        largest = float(np.abs(relevance).max())
        scale = float(2.0 ** np.ceil(np.log2(largest))) if largest > 0 else 1.0
        # the scale is a power of two, because raw relevance is too small for float16
        small = (relevance / np.float32(scale)).astype(np.float16)
        boxes = record.get("boxes")
        self._held.append((small, scale, name, seconds, result.region.box, boxes))
        if len(self._held) == CHUNK:
            self._save_maps()

    def finish(self) -> None:
        """Writes what is not on the disk yet; no further row or map may come."""
        if self._held:
            self._save_maps()
        if self._lines:
            self._lines.close()

    def _save_maps(self) -> None:
        relevance, scale, names, times, regions, boxes = zip(*self._held, strict=True)
        np.savez(
            self.parts["maps"] / f"{MAPS_PREFIX}{self._saved:06d}.npz",
            relevance=np.stack(relevance),
            scale=np.array(scale, np.float32),
            names=np.array(names),
            times=np.array(times),
            box=np.array(regions),
            provenance=np.array(self._provenance),
            **({} if None in boxes else box_arrays(boxes)),
        )
        self._saved += len(self._held)
        self._held = []


TOP_CONCEPTS = 4  # how many channels of a layer a sidecar names


def map_record(
    engine: Engine, target: str, result: Result, names: Mapping[int, str] | None = None
) -> dict[str, Any]:
    """A sidecar's record of a map; docs/recordings.md explains its fields."""
    relevance = result.relevance.sum(-1, dtype=np.float64)
    centre, spread = _centre_and_spread(np.abs(relevance), result)
    best = top_scores(_given_label(engine), result.scores)
    first = result.maps[0]
    record = {
        "top5": [{"label": name, "probability": round(p, 6)} for name, p in best],
        "target": target,
        "region": list(result.region.box),
        "relevance_sum": float(relevance.sum()),
        "started": first.started if first.accounted else None,
        "taken_by_biases": first.taken_by_biases,
        "lost": first.lost if first.accounted else None,
        "centre": centre,
        "spread": spread,
    }
    if result.region.found is not None:
        record["followed"] = result.region.found
    if result.segments:
        record["segment"] = segment_record(engine, result.segments)
    if result.found is not None:
        record["boxes"] = box_records(engine, result.found, names or {})
    if result.by_channel is not None:
        record["concepts"] = concept_records(result.by_channel, names or {})
    return record


def segment_record(engine: Engine, segments: Segments) -> dict[str, Any]:
    """A sidecar's record of the explained region of a segmentation, and of all its classes."""
    label = _given_label(engine)
    other = "rest" if segments.other < 0 else label(segments.other)
    return {
        "class": label(segments.label),
        "against": other if segments.contrast else None,
        "area": round(segments.area, 6),
        "inside": round(segments.inside, 6),
        "classes": [
            {"label": label(index), "area": round(area, 6)} for index, area in segments.areas()
        ],
    }


def concept_records(by_channel: np.ndarray, names: Mapping[int, str]) -> list[dict[str, Any]]:
    """The channels with the largest shares of float32 [channels], best first; below 0: against."""
    shares = shares_of(by_channel.astype(np.float64))
    if not np.abs(shares).max() > 0:
        return []
    order = np.argsort(-np.abs(shares), kind="stable")[:TOP_CONCEPTS]
    return [
        {"channel": channel, "share": round(share, 6)}
        | ({"name": names[channel]} if channel in names else {})
        for channel, share in zip(order.tolist(), shares[order].tolist(), strict=True)
    ]


def _given_label(engine: Engine) -> Callable[[int], str]:
    """Names of classes as the labels have them: data is not tidied."""
    return partial(class_label, labels=engine.network.labels)


def raw_map_arrays(
    engine: Engine, target: str, result: Result, provenance: Provenance
) -> dict[str, Any]:
    """The arrays in an .npz file of one map; docs/recordings.md explains them."""
    arrays = {
        "relevance": result.relevance,
        "scores": result.scores,
        "labels": np.array([name for name, _ in top_scores(_given_label(engine), result.scores)]),
        "target": np.array(target),
        "box": np.array(result.region.box),
        KEY: np.array(provenance.as_json()),
    }
    if segments := result.segments:
        of_region = segment_record(engine, segments)
        arrays |= {"region": segments.region, "classes": segments.classes}
        arrays |= {key: np.array(of_region[key]) for key in ("class", "inside")}
    if result.found is not None:
        arrays |= box_arrays([box_records(engine, result.found, {})])
        maps = [one.maps[0].relevance for one in result.found]
        arrays["found_maps"] = np.array(maps, np.float32).reshape(-1, *result.relevance.shape)
    return arrays


def box_records(
    engine: Engine, found: Sequence[FoundBox], names: Mapping[int, str]
) -> list[dict[str, Any]]:
    """A sidecar's records of a detector's boxes, the surest first."""
    rows = []
    for one in found:
        row: dict[str, Any] = {
            "box": [round(side, 2) for side in one.box], "label": _given_label(engine)(one.label),
            "score": round(one.score, 6), "inside": round(one.inside, 6), "number": one.number,
        }  # fmt: skip
        if one.by_channel is not None:
            row["concepts"] = concept_records(one.by_channel, names)
        rows.append(row)
    return rows


def box_arrays(of_maps: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """The boxes of maps as arrays: found_in, int [n], whose they are; found_box, float64 [n, 4]."""
    rows = [(n, one) for n, of_map in enumerate(of_maps) for one in of_map]
    types = {"box": float, "label": str, "score": float, "inside": float, "number": int}
    return {"found_in": np.array([n for n, _ in rows], int)} | {
        f"found_{key}": np.array([one[key] for _, one in rows], kind).reshape(
            (-1, 4) if key == "box" else -1
        )
        for key, kind in types.items()
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
    of_rows = weight.sum(1) / total
    of_columns = weight.sum(0) / total
    centre = [float(of_columns @ x), float(of_rows @ y)]
    squares = of_columns @ (x - centre[0]) ** 2 + of_rows @ (y - centre[1]) ** 2
    return [round(value, 2) for value in centre], round(float(np.sqrt(squares)), 2)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A snapshot; pictures are uint8 [H, W, 3] RGB."""

    canvas: np.ndarray  # the view as shown, without menus
    picture: np.ndarray  # the camera's part of it
    explained_picture: np.ndarray | None  # None where it is the same
    engine: Engine
    target: str  # the target in words
    result: Result
    probe: bool
    followed_channel: int | None
    config: Config
    further: Mapping[int, Snapshot] = field(default_factory=dict)  # networks, from number 2 on


def save_snapshot(png: Path, snapshot: Snapshot) -> None:
    """Writes NAME.png and, beside it, NAME.npz, whose arrays docs/live.md explains."""
    with files.atomic_file(png.with_suffix(".npz")) as part, part.open("wb") as file:
        write_data(file, snapshot)
    description = _provenance(snapshot).as_json()
    write_picture(png, snapshot.canvas, overwrite=False, description=description)


def write_data(file: IO[bytes], snapshot: Snapshot) -> None:
    """Writes what NAME.npz holds, see `save_snapshot`."""
    arrays = _arrays(snapshot)
    arrays |= {"picture": snapshot.picture, "config": as_yaml(Settings(snapshot.config, {}))}
    for number, one in snapshot.further.items():
        arrays |= {f"{name}_{number}": value for name, value in _arrays(one).items()}
    np.savez_compressed(file, **arrays)


def encode_view(snapshot: Snapshot) -> bytes:
    """The bytes of NAME.png, see `save_snapshot`."""
    return encode_picture(".png", snapshot.canvas, _provenance(snapshot).as_json())


def _provenance(snapshot: Snapshot) -> Provenance:
    return snapshot.engine.provenance(snapshot.config, "live")


def _arrays(snapshot: Snapshot) -> dict[str, Any]:
    engine = snapshot.engine
    result = snapshot.result
    explained = snapshot.explained_picture
    asked = {
        "method": engine.config.lrp.method, "map": engine.name, "precision": engine.precision,
        "device": engine.device, "weights": engine.config.model.weights, "probe": snapshot.probe,
        "followed_channel": snapshot.followed_channel, "explained": result.explained,
        "sums": [one.total for one in result.maps],
    }  # fmt: skip
    concepts = result.concepts
    of_channels: dict[str, Any] = {}
    if concepts and concepts.maps:
        of_channels = {
            "concept_layer": np.array(concepts.layer),
            "concept_channels": np.array([one.channel for one in concepts.maps]),
            "concept_shares": np.array([one.share for one in concepts.maps], np.float32),
            "concept_maps": np.array([one.relevance.sum(-1) for one in concepts.maps]),
        }
    return {
        **raw_map_arrays(engine, snapshot.target, result, _provenance(snapshot)),
        "further": np.array([one.relevance for one in result.maps[1:]]),
        "names": np.array([one.name for one in result.maps]),
        "explained_picture": np.zeros(0) if explained is None else explained,
        "asked": json.dumps(asked),
        **of_channels,
    }
