"""The pictures that `evaluate` measures on: drawn ones with exact masks, or photos with boxes."""

import logging
from collections import defaultdict
from collections.abc import Iterator
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
from realtime_lrp.models.drawing.batch import MARGIN, draw_batch, with_margin
from realtime_lrp.relevance import measures
from realtime_lrp.system.reading import read_limited
from realtime_lrp.video.files import PICTURES
from realtime_lrp.video.pictures import read_picture

SEED_OFFSET = 90210
"""Keeps pictures and weights apart from those of the training, whose seeds are 1, 2 and 3."""

MAX_BOXES_BYTES = 2**26

log = logging.getLogger(__name__)

Corners = tuple[float, float, float, float]
"""x0, y0, x1, y1 in pixels."""

Label = str | int | None
"""A class by its name or index; None: the network's answer."""


@dataclass(frozen=True)
class Samples:
    """Pictures whose objects are known; a photo with objects of two classes is two samples.

    Attributes:
      pictures: uint8 [N, h, w, 3] RGB, as the network sees them.
      masks: bool [N, h, w], True on the object.
      labels: the class that is explained, of each sample.
      names: the file's name, with the label where a photo is several samples; all differ.
      object: what the masks show, for the report.
    """

    pictures: np.ndarray
    masks: np.ndarray
    labels: list[Label]
    names: list[str]
    object: str


class BoxEntry(BaseModel):
    """An object on a photo in the JSON file: its box and the class that is explained."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    box: Corners
    label: Label = None

    @field_validator("box")
    @classmethod
    def _check_order(cls, box: Corners) -> Corners:
        if not (box[0] < box[2] and box[1] < box[3]):
            raise ValueError("expected [x0, y0, x1, y1] with x0 < x1 and y0 < y1")
        return box


BoxesByFile = dict[
    str, Annotated[list[BoxEntry], BeforeValidator(lambda v: v if isinstance(v, list) else [v])]
]
"""File name -> the objects on that photo."""


def drawn_samples(count: int, seed: int) -> Samples:
    """Draws symbols that the training never used; the object is the ink."""
    batch = draw_batch((SEED_OFFSET, seed), count, nothings=0)
    masks = np.stack([with_margin(mask) for mask in batch.mask])
    description = f"the ink of the symbol with {MARGIN} pixels of margin"
    names = [f"drawing {number}" for number in range(1, count + 1)]
    return Samples(batch.pixels, masks, [None] * count, names, description)


def read_boxes(path: Path, folder: Path) -> BoxesByFile:
    """Reads the boxes of the photos in a folder.

    Raises:
      MissingInputError: the file, the folder or a photo does not exist.
      DamagedInputError: the file is not what is expected.
    """
    if not folder.is_dir():
        raise MissingInputError(f"There is no folder {str(folder)!r}.")
    try:
        text = read_limited(path, MAX_BOXES_BYTES, "a JSON file of boxes")
        boxes = TypeAdapter(BoxesByFile).validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        location = ": ".join([str(path), *map(str, first["loc"])])
        raise DamagedInputError(
            f"{location}: {first['msg']}.\n"
            'Expected {"cat.jpg": {"box": [x0, y0, x1, y1], "label": "tabby"}}, label optional; '
            'several: {"cat.jpg": [{"box": [...]}, {"box": [...]}]}.'
        ) from None
    for name in boxes:
        if not (folder / name).is_file():
            raise MissingInputError(f"There is no photo {str(folder / name)!r}; {path} names it.")
    return boxes


def photo_samples(folder: Path, boxes: BoxesByFile, engine: Engine, count: int | None) -> Samples:
    """Reads the photos as the network sees them; leaves out and names what cannot be used.

    Args:
      folder: the photos.
      boxes: the objects on them.
      engine: knows what the network sees of a picture.
      count: how many samples at most; None for all.

    Raises:
      DamagedInputError: no photo can be used, or a box reaches beyond its photo.
    """
    files = {file.name for file in folder.iterdir() if file.suffix.lower() in PICTURES}
    if unnamed := files - {*boxes}:
        log.warning("left out, no boxes: %s", ", ".join(sorted(unnamed)))
    samples = [
        sample
        for name, entries in boxes.items()
        for sample in _samples_of_photo(folder / name, entries, engine)
    ]
    if not samples:
        raise DamagedInputError(
            f"No box on a photo in {str(folder)!r} can be used. Expected photos that can be read "
            "and boxes within what the network sees of them (--set input.fit=squash: all)."
        )
    pictures, masks, labels, names = zip(*samples[:count], strict=True)
    return Samples(
        np.stack(pictures), np.stack(masks), list(labels), list(names), "the inside of the boxes"
    )


def photos_without_boxes(folder: Path, engine: Engine, count: int | None) -> Samples:
    """Reads the photos of a folder; the whole photo counts as the object.

    Raises:
      DamagedInputError: no photo in it can be read.
    """
    pictures: list[np.ndarray] = []
    names: list[str] = []
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in PICTURES and (count is None or len(pictures) < count):
            try:
                picture = read_picture(path)
            except DamagedInputError as error:
                log.warning("%s", error)
            else:
                pictures.append(engine.region(picture.shape[:2]).extract(picture))
                names.append(path.name)
    if not pictures:
        raise DamagedInputError(f"No photo in {str(folder)!r} can be read.")
    stack = np.stack(pictures)
    return Samples(stack, np.ones(stack.shape[:3], bool), [None] * len(names), names, "the photo")


def _samples_of_photo(
    path: Path, entries: list[BoxEntry], engine: Engine
) -> Iterator[tuple[np.ndarray, np.ndarray, Label, str]]:
    """A picture, a mask, a label and a name for each class that has boxes on the photo."""
    try:
        picture = read_picture(path)
    except DamagedInputError as error:
        log.warning("%s", error)
        return
    region = engine.region(picture.shape[:2])
    boxes_by_label = defaultdict(list)
    for entry in entries:
        _check_inside(path.name, entry.box, picture.shape)
        boxes_by_label[entry.label].append(entry.box)
    for label, boxes in boxes_by_label.items():
        mask = measures.box_mask(boxes, region.box, region.inner, region.size)
        if mask.any():
            name = path.name if len(boxes_by_label) == 1 else f"{path.name}: {label}"
            yield region.extract(picture), mask, label, name
        else:
            log.warning("%s: box %s is outside what the network sees", path.name, boxes[0])


def _check_inside(name: str, box: Corners, shape: tuple[int, ...]) -> None:
    rows, columns = shape[:2]
    if min(box) < 0 or box[2] > columns or box[3] > rows:
        raise DamagedInputError(
            f"{name}: box {list(box)} reaches beyond the photo. Expected [x0, y0, x1, y1] in its "
            f"pixels, {columns} wide and {rows} high."
        )
