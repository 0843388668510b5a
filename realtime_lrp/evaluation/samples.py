"""The pictures that `evaluate` measures on: drawn symbols, scenes of them, photos with boxes."""

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import msgspec
import numpy as np

from realtime_lrp.engine.engine import Engine
from realtime_lrp.errors import DamagedInputError, MissingInputError, UsageError
from realtime_lrp.models.drawings import CLASSES, MARGIN, Drawings, drawings, with_margin
from realtime_lrp.relevance.maps import measures
from realtime_lrp.relevance.maps.detections import intersection_over_union
from realtime_lrp.relevance.maps.targets import TargetResolver
from realtime_lrp.system.files import read_limited
from realtime_lrp.video.files import PICTURES, listed
from realtime_lrp.video.libraries import cv2
from realtime_lrp.video.pictures import read_picture
from realtime_lrp.video.region import resize

MAX_BOXES_BYTES = 2**26
BATCH = 16  # samples that are measured together, each for two classes

MOST_IN_SCENE = 6  # drawings in a scene
SMALLEST = 0.8  # side of a drawing, as a share of the room that it has
SCENE_BLUR = 1 / 12  # deviation of the blur behind the drawings, as a share of the scene's height
RIGHT = 0.5  # least intersection over union at which a box counts as the drawing's

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


def batches(array: np.ndarray) -> list[np.ndarray]:
    """Splits an array into the batches that are measured together."""
    return np.split(array, range(BATCH, len(array), BATCH))


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
    """Reads `count` random photos, or all; without `boxes` the whole photo is the object."""
    left_out: dict[str, list[str]] = defaultdict(list)
    files = sorted(file.name for file in folder.iterdir() if file.suffix.lower() in PICTURES)
    names = files if boxes is None else [*boxes]
    left_out["without boxes"] = sorted({*files} - {*names})
    order = np.arange(len(names))
    if count:
        order = np.random.default_rng(seed).permutation(order)
    used: dict[int, list[_Sample]] = {}
    for number in order.tolist():
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
        rows, columns = picture.shape[:2]
        if min(entry.box) < 0 or entry.box[2] > columns or entry.box[3] > rows:
            raise DamagedInputError(
                f"{path.name}: box {list(entry.box)} reaches beyond the photo. Expected "
                f"[x0, y0, x1, y1] in its pixels, {columns} wide and {rows} high."
            )
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


@dataclass(frozen=True)
class TestScene:
    """A picture, uint8 [h, w, 3] RGB, the box around the ink of each drawing, and its class."""

    picture: np.ndarray
    boxes: np.ndarray  # float32 [n, 4]: y0, x0, y1, x1 in pixels
    labels: np.ndarray


def drawn_scenes(count: int, seed: int, size: tuple[int, int]) -> list[TestScene]:
    """Deals drawn pictures out to scenes of one to `MOST_IN_SCENE`."""
    rng = np.random.default_rng(seed)
    drawn = drawings(count, seed)
    ends = np.cumsum(rng.integers(1, MOST_IN_SCENE + 1, count))
    ends = ends[: 1 + np.searchsorted(ends, count)]
    parts = (np.split(one, ends[:-1]) for one in (drawn.pixels, drawn.masks, drawn.labels))
    return [_scene(Drawings(*part), size, rng) for part in zip(*parts, strict=True)]


def _scene(drawn: Drawings, size: tuple[int, int], rng: np.random.Generator) -> TestScene:
    """Lays drawings before a blurred one; each has a cell of a grid for itself."""
    count = len(drawn.labels)
    down = 1 if count <= 2 else 2
    across = -(-count // down)
    cell = np.array([size[0] // down, size[1] // across])
    deviation = size[0] * SCENE_BLUR
    picture = cv2.GaussianBlur(resize(drawn.pixels[0], size), (0, 0), deviation)
    boxes = []
    for place, pixels, mask in zip(
        rng.permutation(down * across), drawn.pixels, drawn.masks, strict=False
    ):
        side = round(min(*cell, *mask.shape) * rng.uniform(SMALLEST, 1))
        free = rng.random(2) * (cell - side)
        y, x = (np.array(divmod(place, across)) * cell + free).astype(int)
        picture[y : y + side, x : x + side] = resize(pixels, (side, side))
        ink = resize(mask.astype(np.float32), (side, side)) > 0
        rows, columns = np.nonzero(ink.any(1))[0], np.nonzero(ink.any(0))[0]
        boxes.append((y + rows[0], x + columns[0], y + rows[-1] + 1, x + columns[-1] + 1))
    return TestScene(picture, np.array(boxes, np.float32), drawn.labels)


class Box(NamedTuple):
    """A detector's box on a drawing."""

    scene: int
    number: int  # its number in the scene, the surest box first
    score: int  # its score's number among those of all places and classes
    drawing: int


@dataclass(frozen=True)
class BoxSamples(Samples):
    """Scenes, one for each box; the object is the inside of the drawing's box."""

    boxes: list[Box]
    counted: ClassVar = ("boxes", "scenes")


def box_samples(engine: Engine, count: int, seed: int) -> BoxSamples:
    """The boxes that a detector finds in scenes of `count` drawings."""
    rows, columns, _ = engine.explainer.input_shape
    scenes = drawn_scenes(count, seed, (rows, columns))
    parts = batches(np.arange(len(scenes)))
    boxes = [box for part in parts for box in _found(engine, scenes, part)]
    if not boxes:
        raise DamagedInputError("The network finds none of the drawings.")
    log.info("%d of %d drawings are found", len(boxes), count)
    masks = np.zeros((len(boxes), rows, columns), bool)
    for mask, box in zip(masks, boxes, strict=True):
        y0, x0, y1, x1 = scenes[box.scene].boxes[box.drawing].astype(int)
        mask[y0:y1, x0:x1] = True
    return BoxSamples(
        np.stack([scenes[box.scene].picture for box in boxes]), masks,
        [CLASSES[scenes[box.scene].labels[box.drawing]] for box in boxes],
        [f"scene {box.scene + 1}: box {box.number + 1}" for box in boxes],
        "the inside of the drawing's box", boxes,
    )  # fmt: skip


def _found(engine: Engine, scenes: Sequence[TestScene], some: np.ndarray) -> Iterator[Box]:
    """The boxes on drawings of their class in some scenes, the surest one of each drawing."""
    pictures = np.stack([scenes[number].picture for number in some])
    seen = engine.explainer.detections(engine.network.prepare(pictures), MOST_IN_SCENE)
    for picture, number in enumerate(seen.count):
        scene = scenes[some[picture]]
        taken = set[int]()
        for box in range(number):
            label = int(seen.labels[picture, box])
            shared = intersection_over_union(seen.boxes[picture, box], scene.boxes).numpy()
            shared[scene.labels != label] = 0
            drawing = int(shared.argmax())
            if shared[drawing] >= RIGHT and drawing not in taken:
                taken.add(drawing)
                score = int(seen.places[picture, box]) * engine.explainer.classes + label
                yield Box(int(some[picture]), box, score, drawing)
