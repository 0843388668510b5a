"""What `evaluate` measures on: drawn pictures with exact masks, or photos with boxes."""

import logging
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    TypeAdapter,
    ValidationError,
    field_validator,
)

from realtime_lrp.engine.engine import Engine
from realtime_lrp.errors import DamagedInputError, MissingInputError
from realtime_lrp.models.drawing.batch import REACH, draw_batch, near
from realtime_lrp.relevance import measures
from realtime_lrp.video.files import PICTURES
from realtime_lrp.video.pictures import read_picture

OWN_SEED = 90210  # keeps pictures and weights apart from those of training, which uses 1, 2 and 3

log = logging.getLogger(__name__)

Corners = tuple[float, float, float, float]
"""x0, y0, x1, y1."""


@dataclass(frozen=True)
class Samples:
    """What is measured on; a photo with objects of two classes is two samples.

    Attributes:
      pictures, masks: one of each per sample.
      labels: the class that is explained, by name or index; None: the network's answer.
      object: what the masks show, in words.
    """

    pictures: np.ndarray
    masks: np.ndarray
    labels: list[str | int | None]
    object: str


class Box(BaseModel):
    """An object on a photo: x0, y0, x1, y1 in its pixels, and the class that is explained."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    box: Corners
    label: str | int | None = None

    @field_validator("box")
    @classmethod
    def _has_an_inside(cls, box: Corners) -> Corners:
        if not (box[0] < box[2] and box[1] < box[3]):
            raise ValueError("expected [x0, y0, x1, y1] with x0 < x1 and y0 < y1")
        return box


Boxes = dict[
    str, Annotated[list[Box], BeforeValidator(lambda v: v if isinstance(v, list) else [v])]
]
"""File name -> its boxes."""


def drawn(count: int, seed: int) -> Samples:
    """Pictures of symbols that training never uses, with the ink as object."""
    batch = draw_batch((OWN_SEED, seed), count, nothings=0)
    masks = np.stack([near(mask) for mask in batch.mask])
    what = f"the ink of the symbol with {REACH} pixels of margin"
    return Samples(batch.pixels, masks, [None] * count, what)


def read_boxes(path: Path, folder: Path) -> Boxes:
    """The boxes of a JSON file, whose photos are all there."""
    if not folder.is_dir():
        raise MissingInputError(f"There is no folder {str(folder)!r}.")
    try:
        boxes = TypeAdapter(Boxes).validate_json(path.read_bytes())
    except OSError as error:
        raise MissingInputError(
            f"The boxes {str(path)!r} cannot be read ({error.strerror})."
        ) from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ": ".join([str(path), *map(str, first["loc"])])
        raise DamagedInputError(
            f"{where}: {first['msg']}.\n"
            'Expected {"cat.jpg": {"box": [x0, y0, x1, y1], "label": "tabby"}}, label optional; '
            'several: {"cat.jpg": [{"box": [...]}, {"box": [...]}]}.'
        ) from None
    for name in boxes:
        if not (folder / name).is_file():
            raise MissingInputError(f"There is no photo {str(folder / name)!r}; {path} names it.")
    return boxes


def _check_within(name: str, box: tuple[float, ...], shape: tuple[int, ...]) -> None:
    rows, columns = shape[:2]
    if min(box) < 0 or box[2] > columns or box[3] > rows:
        raise DamagedInputError(
            f"{name}: box {list(box)} reaches beyond the photo. Expected [x0, y0, x1, y1] in its "
            f"pixels, {columns} wide and {rows} high."
        )


def photos(folder: Path, boxes: Boxes, engine: Engine, count: int | None) -> Samples:
    """Photos as the network sees them; what cannot be used among several is left out and named."""
    without = {file.name for file in folder.iterdir() if file.suffix.lower() in PICTURES} - {*boxes}
    if without:
        log.warning("left out, no boxes: %s", ", ".join(sorted(without)))
    found = []
    for name, entries in boxes.items():
        try:
            picture = read_picture(folder / name)
        except DamagedInputError as error:
            log.warning("%s", error)
            continue
        region = engine.region(picture.shape[:2])
        by_label = defaultdict(list)
        for entry in entries:
            _check_within(name, entry.box, picture.shape)
            by_label[entry.label].append(entry.box)
        for label, corners in by_label.items():
            mask = measures.mask_of(corners, region.box, region.inner, region.size)
            if mask.any():
                found.append((region.extract(picture), mask, label))
            else:
                log.warning("%s: box %s lies outside what the network sees", name, corners[0])
    if not found:
        raise DamagedInputError(
            f"No box on a photo in {str(folder)!r} can be used. Expected photos that can be read "
            "and boxes within what the network sees of them (--set input.fit=squash: all)."
        )
    pictures, masks, labels = zip(*found[:count], strict=True)
    return Samples(np.stack(pictures), np.stack(masks), list(labels), "the inside of the boxes")
