"""The pictures that `evaluate` measures on: drawn ones with exact masks, or photos with boxes."""

import logging
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import msgspec
import numpy as np

from realtime_lrp.engine.engine import Engine
from realtime_lrp.errors import DamagedInputError, MissingInputError, UsageError
from realtime_lrp.models.drawings import MARGIN, drawings, with_margin
from realtime_lrp.relevance.maps import measures
from realtime_lrp.relevance.maps.targets import TargetResolver
from realtime_lrp.system.files import read_limited
from realtime_lrp.video.files import PICTURES, listed
from realtime_lrp.video.pictures import read_picture

MAX_BOXES_BYTES = 2**26

log = logging.getLogger(__name__)

Corners = tuple[float, float, float, float]  # x0, y0, x1, y1 in pixels
Label = str | int | None  # a class by its name or index; None: the network's answer
NAMED = 5  # most omitted files that are named


@dataclass(frozen=True)
class Samples:
    """Pictures whose objects are known; a photo with objects of two classes is two samples."""

    pictures: np.ndarray  # uint8 [N, h, w, 3] RGB, as the network sees them
    masks: np.ndarray  # bool [N, h, w], True on the object
    labels: list[Label]  # the class that is explained
    names: list[str]  # of the file, with the label where a photo is several samples; all differ
    object: str  # what the masks show, for the report
    counted: ClassVar = ("pictures", "photos")  # what samples are, and what several may be of


class BoxEntry(msgspec.Struct, forbid_unknown_fields=True):
    """An object on a photo in the JSON file: its box and the class that is explained."""

    box: Corners
    label: Label = None

    def __post_init__(self) -> None:
        if not (self.box[0] < self.box[2] and self.box[1] < self.box[3]):
            raise ValueError("expected a box [x0, y0, x1, y1] with x0 < x1 and y0 < y1")


_Sample = tuple[np.ndarray, np.ndarray, Label, str]  # a picture, a mask, a label and a name
BoxesByFile = dict[str, list[BoxEntry]]  # file name -> the objects on that photo


def drawn_samples(count: int, seed: int) -> Samples:
    """Drawn symbols that the training never used; the object is the ink."""
    chosen = drawings(count, seed)
    masks = np.stack([with_margin(mask) for mask in chosen.masks])
    description = f"the ink of the symbol with {MARGIN} pixels of margin"
    names = [f"drawing {number}" for number in range(1, count + 1)]
    return Samples(chosen.pixels, masks, [None] * count, names, description)


def read_boxes(path: Path, folder: Path) -> BoxesByFile:
    """Reads the boxes of the photos in a folder."""
    where = str(path)
    boxes = {}
    try:
        text = read_limited(path, MAX_BOXES_BYTES, "a JSON file of boxes")
        for name, entries in msgspec.json.decode(text, type=dict[str, msgspec.Raw]).items():
            where = f"{path}: {name}"
            found = msgspec.json.decode(entries, type=BoxEntry | list[BoxEntry])
            boxes[name] = found if isinstance(found, list) else [found]
    except (msgspec.DecodeError, RecursionError) as error:
        raise DamagedInputError(
            f"{where}: {error}.\n"
            'Expected {"cat.jpg": {"box": [x0, y0, x1, y1], "label": "tabby"}}, label optional; '
            'several: {"cat.jpg": [{"box": [...]}, {"box": [...]}]}.'
        ) from None
    for name in boxes:
        if not (folder / name).is_file():
            raise MissingInputError(f"There is no photo {str(folder / name)!r}; {path} names it.")
    return boxes


def check_labels(boxes: BoxesByFile, classes: int, labels: list[str] | None) -> None:
    """Refuses a label that names none of the classes; DamagedInputError names the photo."""
    resolve = TargetResolver(classes, labels)
    for name, entries in boxes.items():
        for entry in entries:
            try:
                if entry.label is not None:
                    resolve.index(entry.label)
            except UsageError as error:
                raise DamagedInputError(f"{name}: the label in the boxes: {error}") from None


def photo_samples(
    folder: Path, boxes: BoxesByFile | None, engine: Engine, count: int | None, seed: int
) -> Samples:
    """Reads photos as the network sees them; counts and names what cannot be used.

    Without `boxes` the whole photo is the object. `count` photos are chosen at random among those
    that can be used; None for all.
    """
    left_out: dict[str, list[str]] = defaultdict(list)
    files = sorted(file.name for file in folder.iterdir() if file.suffix.lower() in PICTURES)
    names = files if boxes is None else [*boxes]
    left_out["without boxes"] = sorted({*files} - {*names})
    order = np.arange(len(names))
    if count:
        order = np.random.default_rng(seed).permutation(order)
    used: dict[int, list[_Sample]] = {}
    for number in map(int, order):
        entries = None if boxes is None else boxes[names[number]]
        if found := _samples_of_photo(folder / names[number], entries, engine, left_out):
            used[number] = found
        if len(used) == count:
            break
    for reason, unused in left_out.items():
        if unused:
            log.warning("left out, %s: %d (%s)", reason, len(unused), listed(unused, NAMED))
    samples = [sample for number in sorted(used) for sample in used[number]]
    if not samples:
        raise DamagedInputError(
            f"No photo in {str(folder)!r} can be read."
            if boxes is None
            else f"No box on a photo in {str(folder)!r} can be used. Expected photos that can be "
            "read and boxes within what the network sees of them (--set input.fit=squash: all)."
        )
    pictures, masks, labels, found_names = zip(*samples, strict=True)
    what = "the photo" if boxes is None else "the inside of the boxes"
    return Samples(np.stack(pictures), np.stack(masks), [*labels], [*found_names], what)


def _samples_of_photo(
    path: Path, entries: list[BoxEntry] | None, engine: Engine, left_out: dict[str, list[str]]
) -> list[_Sample]:
    """A sample for each class that has boxes on the photo; adds to what is left out."""
    try:
        picture = read_picture(path)
    except DamagedInputError:
        left_out["photos that cannot be read"].append(path.name)
        return []
    region = engine.region(picture.shape[:2])
    if entries is None:
        return [(region.extract(picture), np.ones(region.size, bool), None, path.name)]
    boxes_by_label = defaultdict(list)
    for entry in entries:
        _check_inside(path.name, entry.box, picture.shape)
        boxes_by_label[entry.label].append(entry.box)
    samples: list[_Sample] = []
    for label, boxes in boxes_by_label.items():
        mask = measures.box_mask(boxes, region.box, region.inner, region.size)
        name = path.name if len(boxes_by_label) == 1 else f"{path.name}: {label}"
        if mask.any():
            samples.append((region.extract(picture), mask, label, name))
        else:
            left_out["boxes outside what the network sees"].append(name)
    return samples


def _check_inside(name: str, box: Corners, shape: tuple[int, ...]) -> None:
    rows, columns = shape[:2]
    if min(box) < 0 or box[2] > columns or box[3] > rows:
        raise DamagedInputError(
            f"{name}: box {list(box)} reaches beyond the photo. Expected [x0, y0, x1, y1] in its "
            f"pixels, {columns} wide and {rows} high."
        )
