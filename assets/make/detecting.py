"""Makes the embedded network `shapes_detector`, and measures it on scenes it has never seen."""

import logging
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
from measuring import note
from train_detector import Plan, draw_scenes, train

from realtime_lrp import Explainer, load_network
from realtime_lrp.config import load
from realtime_lrp.engine.boxes import outlines_of, painted
from realtime_lrp.engine.engine import Engine
from realtime_lrp.models.drawings import NOTHING
from realtime_lrp.relevance.maps.detections import best_boxes, intersection_over_union
from realtime_lrp.video.pictures import write_picture
from realtime_lrp.video.reader import VideoReader
from realtime_lrp.view.painting import draw_outlines, lay_over

SEED, COUNT = 2027, 1000
"""Of the scenes that are measured on."""

TOP, LEAST = 12, 0.005
"""How many boxes of a scene count, for the mAP of each class, and their least score there."""

BATCH = 10

FRAMES = {50: None, 140: 0}
"""Frame of the clip -> which of its boxes is drawn alone, the surest first."""

logger = logging.getLogger(__name__)


def make_detector(folder: Path) -> None:
    """Trains `shapes_detector` into `shapes_detector.keras`, and measures it."""
    start, plan = time.monotonic(), Plan()
    train(plan).save(folder / "shapes_detector.keras")
    training = {**asdict(plan), "seconds": round(time.monotonic() - start)}
    note(folder, "shapes_detector", {"training": training})
    measure_detector(folder)


def draw_boxes(folder: Path) -> None:
    """Draws what it finds in two frames of `scenes.mp4` into `detector.jpg`; of one a box alone."""
    settings = {"model.name": "shapes_detector", "lrp.composite": "epsilon_plus_flat"}
    engine = Engine(load(sets=[f"{key}={value}" for key, value in settings.items()]).config)
    with VideoReader(folder / "scenes.mp4") as reader:
        frames = [frame.picture for frame in reader]
    drawn = []
    for number, place in FRAMES.items():
        (result,) = engine.explain([frames[number]])
        shown = result if place is None else result.found[place]
        drawn.append(lay_over(frames[number], painted(engine, frames[number], shown).overlays[0]))
        draw_outlines(drawn[-1], outlines_of(engine, result, place))
    write_picture(folder / "detector.jpg", np.hstack(drawn), overwrite=True)


def measure_detector(folder: Path) -> None:
    """Adds what it finds, and where its maps lie, to `shapes_detector.json`."""
    pixels, _, symbols = draw_scenes((SEED, 0), COUNT)
    network = load_network(str(folder / "shapes_detector.keras"), preprocess="none")
    explainer = Explainer(network, composite="epsilon_plus_flat")
    there, right, inside = int((symbols[..., 4] >= 0).sum()), 0, []
    answers = {"boxes": [], "scores": []}
    for begin in range(0, COUNT, BATCH):
        x = pixels[begin : begin + BATCH].astype(np.float32)
        found = explainer.detections(x, TOP)
        for picture, count in enumerate(found.count):
            boxes, labels = found.boxes[picture, :count], found.labels[picture, :count]
            right += sum(right_ones(boxes, labels, symbols[begin + picture]))
            inside += [*found.inside[picture, :count]]
        for name, answer in network.model.predict_on_batch(x).items():
            answers[name].append(answer)
    boxes, scores = (np.concatenate(answers[name]) for name in answers)
    figures = {
        "held_out": {"seed": SEED, "scenes": COUNT, "symbols": there},
        "map50": round(mean_average_precision(boxes, scores, symbols), 4),
        "f1": round(float(2 * right / (len(inside) + there)), 4),
        "relevance_in_box": round(float(np.mean(inside)), 4),
    }
    note(folder, "shapes_detector", figures)
    logger.info("%s", figures)


def mean_average_precision(boxes: np.ndarray, scores: np.ndarray, symbols: np.ndarray) -> float:
    """The mAP at an overlap of 0.5: as usual, each class is looked for by itself."""
    precisions = []
    for label in range(NOTHING):
        places, values = (one.numpy() for one in best_boxes(boxes, scores[..., label], TOP))
        there, right, ranks = 0, [], []
        for picture, wanted in enumerate(symbols):
            of_class, found = wanted[wanted[:, 4] == label], values[picture] >= LEAST
            at = places[picture, found]
            right += right_ones(boxes[picture, at], np.full(len(at), label), of_class)
            ranks += [*values[picture, found]]
            there += len(of_class)
        precisions.append(average_precision(np.array(right), np.array(ranks), there))
    return float(np.mean(precisions))


def right_ones(boxes: np.ndarray, labels: np.ndarray, symbols: np.ndarray) -> list[bool]:
    """Which boxes of a picture, best first, lie on a symbol of their class that none before has."""
    left = [one for one in symbols if one[4] >= 0]
    right = []
    for box, label in zip(boxes, labels, strict=True):
        near = [float(intersection_over_union(box, one[:4])) * (one[4] == label) for one in left]
        right.append(bool(near) and max(near) >= 0.5)
        if right[-1]:
            del left[int(np.argmax(near))]
    return right


def average_precision(right: np.ndarray, scores: np.ndarray, there: int) -> float:
    """The area under precision over recall, precision made monotone (Everingham et al. 2015)."""
    hits = np.cumsum(right[np.argsort(-scores, kind="stable")])
    precision = hits / np.arange(1, len(hits) + 1)
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    return float(np.sum(np.diff(hits / there, prepend=0) * precision))
