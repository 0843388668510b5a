"""Saves a picture of the live view (NAME.png) together with the data behind it (NAME.npz).

Knows no threads and no window: the caller passes everything in a `Snapshot`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from realtime_lrp.config import Config, Settings, as_yaml
from realtime_lrp.config.provenance import Provenance
from realtime_lrp.results.companions import raw_map_arrays
from realtime_lrp.system.files import atomic_file
from realtime_lrp.video.pictures import encode_picture, write_picture

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine
    from realtime_lrp.engine.result import ConceptResult, Result


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A snapshot; pictures are uint8 [H, W, 3] RGB.

    The canvas is the view as shown, without menus; the picture is the camera's part of it.
    `explained_picture` is None where it is the same. `target` is in words. Further networks have
    numbers; the second one is number 2.
    """

    canvas: np.ndarray
    picture: np.ndarray
    explained_picture: np.ndarray | None
    engine: Engine
    target: str
    result: Result
    probe: bool
    followed_channel: int | None
    config: Config
    further: Mapping[int, Snapshot] = field(default_factory=dict)


def save_snapshot(png: Path, snapshot: Snapshot) -> None:
    """Writes NAME.png and, beside it, NAME.npz.

    The .npz holds what `image` writes into one (see `raw_map_arrays`), the `further` maps float32
    [n, h, w, C], the `names` of all maps, the arrays of `concept_arrays`, `picture`,
    `explained_picture` (empty where it is the same), `asked` (how the maps were computed, JSON) and
    `config` (YAML). What differs for further networks is there for each of them, the second one's
    with `_2` at the end of its name.
    """
    with atomic_file(png.with_suffix(".npz")) as part, part.open("wb") as file:
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
    return {
        **raw_map_arrays(engine, snapshot.target, result, _provenance(snapshot)),
        "further": np.array([one.relevance for one in result.maps[1:]]),
        "names": np.array([one.name for one in result.maps]),
        "explained_picture": np.zeros(0) if explained is None else explained,
        "asked": json.dumps(asked),
        **concept_arrays(result.concepts),
    }


def concept_arrays(found: ConceptResult | None) -> dict[str, Any]:
    """The channels that are shown; none without them.

    Shares are float32 [n] as of `ConceptMap`, maps float32 [n, h, w], raw, summed over colours.
    """
    if found is None or not found.maps:
        return {}
    return {
        "concept_layer": np.array(found.layer),
        "concept_channels": np.array([one.channel for one in found.maps]),
        "concept_shares": np.array([one.share for one in found.maps], np.float32),
        "concept_maps": np.array([one.relevance.sum(-1) for one in found.maps]),
    }
