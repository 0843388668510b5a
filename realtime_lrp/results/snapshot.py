"""A picture of the view with everything that it is made of, and that picture made again.

NAME.png is the canvas. NAME.npz holds what `image` writes into one (`relevance`, `scores`,
`labels`, `target`, `box`), the `further` maps, the `names` of all, the `picture`, the
`explained_picture` where that is an earlier one, the configuration and the `Scene`, so that
`redrawn` gives the same pixels.
"""

import json
import math
import zipfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from realtime_lrp.config import Settings, as_yaml
from realtime_lrp.engine.wording import describe_target
from realtime_lrp.errors import DamagedInputError
from realtime_lrp.realtime.explaining import ExplainedFrame
from realtime_lrp.results.records import raw_map_arrays
from realtime_lrp.system.atomic import atomic_file
from realtime_lrp.video.pictures import write_picture
from realtime_lrp.video.reader import MOST_PIXELS
from realtime_lrp.view.hud import Bar, Entry, Legend, Row
from realtime_lrp.view.scene import Artist, ExplainedPicture, Look, Panel, Scene

MOST_BYTES = 2**30
"""Of a kept view, unpacked."""

KIND = "realtime_lrp snapshot"


def keep(png: Path, scene: Scene, made: ExplainedFrame, settings: Settings) -> None:
    """Writes NAME.png and, beside it, NAME.npz.

    Args:
      png: the picture to write; neither file may exist.
      scene: what is shown.
      made: the map in it.
      settings: the configuration of the run.

    Raises:
      OutputError: a file cannot be made.
      TransferError: a write failed.
    """
    with atomic_file(png.with_suffix(".npz")) as part, part.open("wb") as file:
        np.savez_compressed(file, **_entries(scene, made, settings))
    write_picture(png, Artist().draw(scene), overwrite=False)


def redrawn(npz: Path) -> np.ndarray:
    """The canvas that a snapshot was taken of, uint8 [H, W, 3] RGB.

    Raises:
      DamagedInputError: the file is no snapshot.
    """
    try:
        with zipfile.ZipFile(npz) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MOST_BYTES:
                raise ValueError("more than a view needs")
        with np.load(npz) as data:
            return Artist().draw(_scene(data))
    except Exception as error:  # whatever was damaged, and wherever it shows
        raise DamagedInputError(
            f"{str(npz)!r} cannot be drawn again ({type(error).__name__}). Expected the .npz that "
            "was kept beside a picture of the live view."
        ) from None


def _entries(scene: Scene, made: ExplainedFrame, settings: Settings) -> dict[str, Any]:
    finding, engine = made.finding, made.engine
    same = finding.picture is scene.picture
    shown = {
        "size": scene.size,
        "tiled": scene.tiled,
        "look": asdict(scene.look),
        "left": [list(map(_plain, block)) for block in scene.left],
        "right": [list(map(_plain, block)) for block in scene.right],
        "notice": scene.notice,
        "has_map": scene.finding is not None,
        "same_picture": same,
        "panels": [[panel.name, panel.signed] for panel in finding.panels],
    }
    asked = {
        "method": engine.settings.lrp.method,
        "map": engine.name,
        "precision": engine.precision,
        "device": engine.device,
        "weights": engine.settings.model.weights,
        "probe": made.request.probe,
        "explained": made.explained,
        "sums": [one.total for one in made.result.maps],
    }
    return {
        **raw_map_arrays(
            engine, describe_target(engine, made.request.target, made.scores), made.result
        ),
        "kind": KIND,
        "picture": scene.picture,
        "explained_picture": np.zeros(0) if same else finding.picture,
        "further": np.array([one.relevance for one in made.result.maps[1:]]),
        "names": np.array([panel.name for panel in finding.panels]),
        "drawn": np.array([panel.intensity for panel in finding.panels]),
        "asked": json.dumps(asked),
        "scene": json.dumps(shown),
        "config": as_yaml(settings),
    }


def _plain(one: Entry) -> dict[str, Any]:
    return {"is": type(one).__name__, **asdict(one)}


def _figure(plain: dict[str, Any]) -> Entry:
    kind = {"Row": Row, "Bar": Bar, "Legend": Legend}[plain.pop("is")]
    return kind(**plain)


def _scene(data: Mapping[str, np.ndarray]) -> Scene:
    if str(data["kind"]) != KIND:
        raise ValueError("another kind of file")
    shown, picture = json.loads(str(data["scene"])), data["picture"]
    if math.prod(shown["size"]) > MOST_PIXELS or not 0 <= shown["look"]["opacity"] <= 1:
        raise ValueError("no view of ours")
    finding = None
    if shown["has_map"]:
        (x0, y0, x1, y1), (rows, columns) = data["box"], picture.shape[:2]
        inside = 0 <= x0 < x1 <= columns and 0 <= y0 < y1 <= rows
        if not (inside and (np.abs(data["drawn"]) <= 1).all()):
            raise ValueError("no map of ours")
        panels = zip(shown["panels"], data["drawn"], strict=True)
        finding = ExplainedPicture(
            picture if shown["same_picture"] else data["explained_picture"],
            tuple(data["box"].tolist()),
            tuple(Panel(name, drawn, signed) for (name, signed), drawn in panels),
        )
    columns = [
        tuple(tuple(map(_figure, block)) for block in shown[side]) for side in ("left", "right")
    ]
    return Scene(
        size=tuple(shown["size"]),
        picture=picture,
        finding=finding,
        tiled=shown["tiled"],
        look=Look(**shown["look"]),
        left=columns[0],
        right=columns[1],
        notice=shown["notice"],
    )
