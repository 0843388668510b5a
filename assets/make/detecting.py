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
from realtime_lrp.engine.boxes import outlines_of
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.pictures import painted
from realtime_lrp.models.drawings import NOTHING
from realtime_lrp.relevance.maps.detections import Detections, intersection_over_union
from realtime_lrp.video.pictures import write_picture
from realtime_lrp.video.reader import VideoReader
from realtime_lrp.view.boxes import draw_outlines
from realtime_lrp.view.overlay import lay_over

SEED, COUNT = 2027, 1000
"""Of the scenes that are measured on."""

TOP, SURE = 12, 0.5
"""How many boxes of a scene are counted; the score from which on one is shown."""

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
        alone = None if place is None else result.found[place].number
        drawn.append(lay_over(frames[number], painted(engine, result, alone)))
        draw_outlines(drawn[-1], outlines_of(engine, result, alone))
    write_picture(folder / "detector.jpg", np.hstack(drawn), overwrite=True)


def measure_detector(folder: Path) -> None:
    """Adds what it finds, and where its maps lie, to `shapes_detector.json`."""
    pixels, _, symbols = draw_scenes((SEED, 0), COUNT)
    network = load_network(str(folder / "shapes_detector.keras"), preprocess="none")
    explainer = Explainer(network, composite="epsilon_plus_flat")
    rights, scores, labels, inside = [], [], [], []
    for begin in range(0, COUNT, BATCH):
        found = explainer.detections(pixels[begin : begin + BATCH].astype(np.float32), TOP, 0.05)
        for picture, count in enumerate(found.count):
            rights += right_ones(found, picture, symbols[begin + picture])
            scores += [*found.scores[picture, :count]]
            labels += [*found.labels[picture, :count]]
            inside += [*found.inside[picture, :count]]
    right, score, label = np.array(rights), np.array(scores), np.array(labels)
    there = np.bincount(symbols[symbols[..., 4] >= 0][:, 4].astype(int), minlength=NOTHING)
    precisions = [
        average_precision(right[label == one], score[label == one], there[one])
        for one in range(NOTHING)
    ]
    shown = score >= SURE
    figures = {
        "held_out": {"seed": SEED, "scenes": COUNT, "symbols": int(there.sum())},
        "map50": round(float(np.mean(precisions)), 4),
        "f1": round(float(2 * right[shown].sum() / (shown.sum() + there.sum())), 4),
        "relevance_in_box": round(float(np.mean(np.array(inside)[shown])), 4),
    }
    note(folder, "shapes_detector", figures)
    logger.info("%s", figures)


def right_ones(found: Detections, picture: int, symbols: np.ndarray) -> list[bool]:
    """Which boxes of a picture, best first, lie on a symbol of their class that none before has."""
    left = [one for one in symbols if one[4] >= 0]
    right = []
    for box, label in zip(found.boxes[picture], found.labels[picture], strict=True):
        if len(right) == found.count[picture]:
            break
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
