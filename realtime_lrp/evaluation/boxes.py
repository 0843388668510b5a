"""The maps of a detector's boxes: scenes of drawn symbols, and what `evaluate` measures on them."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from realtime_lrp.engine.engine import Engine
from realtime_lrp.errors import DamagedInputError
from realtime_lrp.evaluation.measuring import Evaluation, batches
from realtime_lrp.evaluation.samples import Samples
from realtime_lrp.models.drawings import CLASSES, Drawings, drawings
from realtime_lrp.relevance.explainer import Explainer
from realtime_lrp.relevance.maps import measures
from realtime_lrp.relevance.maps.detections import intersection_over_union
from realtime_lrp.video.libraries import cv2
from realtime_lrp.video.region import resize

MOST = 6  # drawings in a scene
SMALLEST = 0.8  # side of a drawing, as a share of the room that it has
BLUR_SHARE = 1 / 12  # deviation of the blur behind the drawings, as a share of the scene's height
RIGHT = 0.5  # least intersection over union at which a box counts as the drawing's

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TestScene:
    """A picture, uint8 [h, w, 3] RGB, with the box around the ink of each drawing, and its class.

    Boxes are float32 [n, 4]: y0, x0, y1, x1 in pixels.
    """

    picture: np.ndarray
    boxes: np.ndarray
    labels: np.ndarray


def drawn_scenes(count: int, seed: int, size: tuple[int, int]) -> list[TestScene]:
    """Deals drawn pictures out to scenes of one to `MOST`."""
    rng = np.random.default_rng(seed)
    drawn = drawings(count, seed)
    ends = np.cumsum(rng.integers(1, MOST + 1, count))
    ends = ends[: 1 + np.searchsorted(ends, count)]
    parts = (np.split(one, ends[:-1]) for one in (drawn.pixels, drawn.masks, drawn.labels))
    return [_scene(Drawings(*part), size, rng) for part in zip(*parts, strict=True)]


def _scene(drawn: Drawings, size: tuple[int, int], rng: np.random.Generator) -> TestScene:
    """Lays drawings before a blurred one; each has a cell of a grid for itself."""
    count = len(drawn.labels)
    down = 1 if count <= 2 else 2
    across = -(-count // down)
    cell = np.array([size[0] // down, size[1] // across])
    deviation = size[0] * BLUR_SHARE
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
    number: int  # in the scene, the surest one first
    score: int  # which of the scores of all places and classes is its own
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
    seen = engine.explainer.detections(engine.network.prepare(pictures), MOST)
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


class BoxEvaluation(Evaluation):
    """Measures maps of a detector's boxes; curves follow the class's score at the box's place."""

    def __init__(self, engine: Engine, samples: BoxSamples, seed: int):
        def scores(pictures: np.ndarray) -> np.ndarray:
            answer = engine.model.predict_on_batch(engine.network.prepare(pictures))
            return np.reshape(answer["scores"], (len(pictures), -1))

        self._boxes = samples.boxes
        classes = np.array([box.score for box in samples.boxes])
        labels = samples.labels
        super().__init__(engine, samples, seed, scores, classes, [*map(str, labels)])

    def _maps(self, explainer: Explainer, name: str, samples: np.ndarray) -> np.ndarray:
        boxes = [self._boxes[sample] for sample in samples]
        scenes = [box.scene for box in boxes]
        _, first, scene = np.unique(scenes, return_index=True, return_inverse=True)
        x = self._engine.network.prepare(self._samples.pictures[samples[first]])
        maps = explainer.detections(x, MOST).maps[scene, [box.number for box in boxes]]
        return measures.supporting_relevance(maps, name)
