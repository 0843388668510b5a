"""`evaluate`: do maps point at the object, and do they depend on what the network has learned?

Every composite and every method is one row of figures over the same pictures and classes. The
object is known exactly on drawn pictures, and by boxes on photos. Pictures are uint8 [N, h, w, 3]
RGB as the network sees them, maps float32 [N, h, w], masks bool [N, h, w].
"""

import gc
import json
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from realtime_lrp.commands.evaluate.report import lines, sheet
from realtime_lrp.commands.evaluate.samples import OWN_SEED, Samples, drawn, photos, read_boxes
from realtime_lrp.config import Config
from realtime_lrp.engine.engine import DEFAULT_COMPOSITE, Engine, with_demo_network
from realtime_lrp.engine.tensorflow import keras, tf
from realtime_lrp.errors import DamagedInputError, Error, UsageError
from realtime_lrp.relevance import measures
from realtime_lrp.relevance.composites import COMPOSITES
from realtime_lrp.relevance.explainer import Explainer
from realtime_lrp.relevance.methods import METHODS
from realtime_lrp.relevance.targets import TargetResolver
from realtime_lrp.system.atomic import atomic_file, check_output
from realtime_lrp.video.libraries import cv2
from realtime_lrp.video.pictures import write_picture

COUNT = 60  # drawn pictures: four of each symbol
BATCH = 32
GRID = 16  # patches in a row and in a column, for deletion and insertion
TAKEN = np.unique([0, *np.geomspace(1, GRID * GRID, 16).round()])  # patches; dense at the start
BLUR = 1 / 16  # deviation of the blur that stands for "taken away", as a share of the side
RANDOM_ORDERS = 3
COMPARED = 16  # pictures whose maps are compared with those of networks that forget
STAGES = 6  # of forgetting, at most, from the last layer only to all layers
FAINT = 1e-20  # a class less probable than this leaves LRP nothing that float32 can share out

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EvaluateOptions:
    """The command's own options.

    Attributes:
      images, boxes: a folder of photos and the JSON that says where objects are; or both None.
      count: how many pictures; None: `COUNT` drawn ones, or all photos.
      seed: of the drawn pictures and of all chance in the measures.
      json, picture: files to write, or None.
      overwrite: whether they may be replaced.
    """

    images: Path | None = None
    boxes: Path | None = None
    count: int | None = None
    seed: int = 0
    json: Path | None = None
    picture: Path | None = None
    overwrite: bool = False


def run(config: Config, options: EvaluateOptions) -> list[str]:
    """Measures every composite and method.

    Args:
      config: the effective configuration; its method, composite and target are not measured.
      options: the command's own options.

    Returns:
      A table and its explanation, as lines.

    Raises:
      UsageError: options that do not go together, or a network that is not for drawn pictures.
      MissingInputError, DamagedInputError: photos or boxes that cannot be used.
      OutputError: a file cannot be made.
    """
    _check_outputs(options)
    images, boxes = options.images, options.boxes
    if (images is None) != (boxes is None):
        raise UsageError("--images DIR and --boxes FILE.json belong together. Give both or none.")
    if images and boxes:
        known = read_boxes(boxes, images)
        engine = Engine(config, keep_model=True)
        samples = photos(images, known, engine, options.count)
    else:
        engine = Engine(_for_drawn_pictures(config), keep_model=True)
        samples = drawn(options.count or COUNT, options.seed)
    trial = Trial(engine, samples, options.seed)
    report = {"network": engine.network.name, "seed": options.seed, **trial.run()}
    if options.json:
        with atomic_file(options.json, options.overwrite) as part:
            part.write_text(json.dumps(report, indent=1) + "\n")
    if options.picture:
        write_picture(
            options.picture, sheet(config, samples.pictures, trial.maps), options.overwrite
        )
    return lines(report)


def _check_outputs(options: EvaluateOptions) -> None:
    for target in filter(None, (options.json, options.picture)):
        check_output(target, options.overwrite)
    if options.picture and options.picture.suffix.lower() not in (".png", ".jpg", ".jpeg"):
        raise UsageError(f"{str(options.picture)!r}: expected a name that ends in .png or .jpg.")


def _for_drawn_pictures(config: Config) -> Config:
    if (config.model.name or "shapes").lower() != "shapes":
        raise UsageError(
            f"The drawn pictures are for the network shapes, not for {config.model.name!r}. "
            "Give photos with --images DIR --boxes FILE.json, or leave --model out.",
            "model",
        )
    return with_demo_network(config)


def _classes(samples: Samples, scores: np.ndarray, names: list[str] | None) -> np.ndarray:
    """The class explained for each sample and the most probable other one, int [2, N]."""
    if scores.shape[1] < 2:
        raise UsageError("The network has one output. Expected at least two classes to compare.")
    index = TargetResolver(scores.shape[1], names).index
    order = np.argsort(-scores, axis=1)
    try:
        asked = [
            b if a is None else index(a) for a, b in zip(samples.labels, order[:, 0], strict=True)
        ]
    except UsageError as error:
        raise DamagedInputError(f"A label of the boxes: {error}") from None
    return np.stack([asked, np.where(order[:, 0] == asked, order[:, 1], order[:, 0])])


class Trial:
    """One network before its samples.

    Attributes:
      maps: name of a row -> float32 [n, h, w], what counts of the relevance of the first samples.
    """

    def __init__(self, engine: Engine, samples: Samples, seed: int):
        self._engine, self._samples, self._seed = engine, samples, seed
        self._rng = np.random.default_rng(seed)
        self._scores = _scorer(engine)
        deviation = min(samples.masks.shape[1:]) * BLUR
        blurred = [cv2.GaussianBlur(picture, (0, 0), deviation) for picture in samples.pictures]
        self._blurred = np.stack(blurred)
        scores = self._scores(samples.pictures)
        self._asked, self._other = _classes(samples, scores, engine.network.labels)
        self._other_known = scores[np.arange(len(scores)), self._other] >= FAINT
        self.maps: dict[str, np.ndarray] = {}

    def run(self) -> dict[str, Any]:
        """Every figure by its name in the JSON file; afterwards the network has forgotten all."""
        rows = {}
        for name in _progress(_names(), "maps"):
            try:
                rows[name] = self._row(name)
            except Error as error:
                log.warning("%s is left out: %s", name, error)
        chance = self._chance()
        return {
            "pictures": len(self._asked),
            "object": self._samples.object,
            "patches_taken": TAKEN.astype(int).tolist(),
            "forgetting": self._forget(rows),
            "rows": [*rows.values(), chance],
        }

    def _forget(self, rows: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
        """Adds to each row how alike its maps stay while the network forgets; gives the stages."""
        stages = []
        for stage in _forgetting(self._engine.model, self._seed):
            stages.append(stage)
            self._calm()
            gc.collect()  # explainers, with their copies of the weights
            for name in _progress(rows, f"without {stage['down_to']}"):
                rows[name]["forgetting"].append(self._still_alike(name))
        for row in rows.values():
            row["last_layer"], row["all_layers"] = row["forgetting"][0], row["forgetting"][-1]
        return stages

    def _row(self, name: str) -> dict[str, Any]:
        explainer = _explainer(self._engine, name)
        maps, other = (self._maps(explainer, name, c) for c in (self._asked, self._other))
        self.maps[name] = maps[:COMPARED]
        masks = self._samples.masks
        return {
            "name": name,
            "pointing": _mean(measures.pointing_game(maps, masks)),
            "mass": _mean(measures.mass_accuracy(maps, masks)),
            "rank": _mean(measures.rank_accuracy(maps, masks)),
            **self._curves(measures.patch_turns(maps, GRID, self._rng)),
            "other_class": _mean(measures.spearman(maps, other)[self._other_known]),
            "forgetting": [],
        }

    def _chance(self) -> dict[str, Any]:
        """What noise scores: the object's share of the area, and patches in random order."""
        masks = self._samples.masks
        area = _mean(masks.mean(axis=(1, 2)))
        orders = [
            self._curves(measures.patch_turns(np.zeros(masks.shape), GRID, self._rng))
            for _ in range(RANDOM_ORDERS)
        ]
        curves = {
            name: np.mean([order[name] for order in orders], axis=0).round(4).tolist()
            for name in orders[0]
        }
        return {"name": "chance", "pointing": area, "mass": area, "rank": area, **curves}

    def _calm(self) -> None:
        """Weakens the output layer until no class that is asked for is too faint.

        Large outputs of a network that has forgotten saturate its softmax. Half the weights give
        each class the same map, half as strong.
        """
        *_, last = _learning_layers(self._engine.model)
        asked = self._asked[:COMPARED]
        for _ in range(64):
            if self._probability(self._samples.pictures[:COMPARED], asked).min() >= FAINT:
                return
            last.set_weights([weights / 2 for weights in last.get_weights()])

    def _still_alike(self, name: str) -> float | None:
        """How alike a row's maps are to those that it had before the network forgot."""
        explainer = _explainer(self._engine, name)
        maps = self._maps(explainer, name, self._asked[:COMPARED])
        return _mean(measures.spearman(self.maps[name], maps))

    def _curves(self, turns: np.ndarray) -> dict[str, Any]:
        """Deletion and insertion: the class's mean probability, and the area under it."""
        pictures, blurred = self._samples.pictures, self._blurred
        figures = {}
        for name, ends in (("deletion", (pictures, blurred)), ("insertion", (blurred, pictures))):
            steps = (measures.exchanged(*ends, turns, count) for count in TAKEN)
            curve = np.array([self._probability(step, self._asked).mean() for step in steps])
            figures[name] = round(measures.area_under(TAKEN / TAKEN[-1], curve), 4)
            figures[f"{name}_curve"] = curve.astype(float).round(4).tolist()
        return figures

    def _probability(self, pictures: np.ndarray, classes: np.ndarray) -> np.ndarray:
        return self._scores(pictures)[np.arange(len(classes)), classes]

    def _maps(self, explainer: Explainer, name: str, classes: np.ndarray) -> np.ndarray:
        """What counts of the relevance of the first samples, each for its class."""
        maps = np.empty(self._samples.masks[: len(classes)].shape, np.float32)
        for number in np.unique(classes):
            (which,) = np.nonzero(classes == number)
            for part in np.split(which, range(BATCH, len(which), BATCH)):
                x = self._engine.network.prepare(self._samples.pictures[part])
                relevance = explainer(x, target=int(number)).relevance
                maps[part] = measures.counted(relevance, name)
        return maps


def _names() -> list[str]:
    """What is measured: every composite of LRP, then every other method."""
    return [*COMPOSITES, *(method for method in METHODS if method != "lrp")]


def _explainer(engine: Engine, name: str) -> Explainer:
    """An explainer of the engine's network as it is now, by the name of a composite or method."""
    method, composite = ("lrp", name) if name in COMPOSITES else (name, DEFAULT_COMPOSITE)
    return engine.variant(method=method, composite=composite, target="top1")


def _scorer(engine: Engine) -> Callable[[np.ndarray], np.ndarray]:
    """Pictures -> scores float32 [N, classes]: the forward pass alone, of the model as it is."""
    network, model = engine.network, engine.model
    forward = tf.function(lambda x: model(x, training=False), reduce_retracing=True)
    blank = network.prepare(np.zeros((1, *engine.explainer.input_shape[:2], 3), np.uint8))
    wanted, given = engine.explainer(blank).scores, forward(blank)
    from_logits = np.abs(tf.nn.softmax(given) - wanted).max() < np.abs(given - wanted).max()

    def scores(pictures: np.ndarray) -> np.ndarray:
        parts = np.split(pictures, range(BATCH, len(pictures), BATCH))
        given = np.concatenate([forward(network.prepare(part)) for part in parts])
        return tf.nn.softmax(given).numpy() if from_logits else given

    return scores


def _forgetting(model: keras.Model, seed: int) -> Iterator[dict[str, Any]]:
    """Draws the weights of a Keras model anew for good, layer by layer from the output down.

    The cascading randomisation of Adebayo et al. 2018, "Sanity checks for saliency maps", and Sixt
    et al. 2020, "When explanations lie"; every layer takes what its own initialiser gives.

    Yields:
      How many layers have forgotten and the last of them, at most `STAGES` times.
    """
    keras.utils.set_random_seed(OWN_SEED + seed)
    fresh = _learning_layers(keras.models.clone_model(model))
    pairs = list(zip(_learning_layers(model), fresh, strict=True))[::-1]
    stages = np.linspace(1, len(pairs), STAGES).round()
    for number, (layer, new) in enumerate(pairs, 1):
        layer.set_weights(new.get_weights())
        if number in stages:
            yield {"layers": number, "down_to": layer.name}


def _learning_layers(model: keras.Model) -> Iterator[keras.Layer]:
    """The layers with trained weights, those of nested models included, from input to output."""
    for layer in model.layers:
        if hasattr(layer, "layers"):
            yield from _learning_layers(layer)
        elif layer.weights and type(layer).__name__ != "Normalization":
            yield layer


def _mean(values: np.ndarray) -> float | None:
    """The mean of what is known, None where nothing is."""
    known = values[~np.isnan(values)]
    return round(float(known.mean()), 4) if known.size else None


def _progress(names: Iterable[str], what: str) -> Iterable[str]:
    """The names, with a bar where someone watches."""
    console = Console(stderr=True)
    watched = console.is_terminal and log.isEnabledFor(logging.WARNING)
    return track(list(names), what, console=console, transient=True, disable=not watched)
