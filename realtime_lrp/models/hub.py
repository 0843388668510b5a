"""Networks of KerasHub for pictures: presets by name, and folders that it has saved.

KerasHub downloads and keeps the files; `untrusted/presets.py` checks them.
"""

import importlib
import logging
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from realtime_lrp.errors import DamagedInputError, UnavailableError, UsageError, first_line
from realtime_lrp.models.downloads import reason
from realtime_lrp.models.included import with_weights
from realtime_lrp.models.labels import imagenet_labels
from realtime_lrp.models.network import NO_PREPROCESSING, Network, Scaling, Size
from realtime_lrp.models.untrusted import presets
from realtime_lrp.models.untrusted.allowlist import parts_of
from realtime_lrp.models.untrusted.loading import naming_the_file
from realtime_lrp.system.terminal import captured_stderr

KAGGLE = "kaggle://"  # How the addresses of presets on Kaggle begin
_ADDRESS = re.compile(KAGGLE + r"[\w.-]+/[\w.-]+/keras/[\w.-]+(/[0-9]+)?")
HEADLESS = "_imagenet21k"  # How names end of backbones that KerasHub lists among the classifiers
IMAGENET_CLASSES = 1000
COCO_CLASSES = 80  # classes of a detector that are in use
COCO_NUMBERS = 91  # all that were planned
COCO_UNUSED = (0, 12, 26, 29, 30, 45, 66, 68, 69, 71, 83)  # numbers that no box of COCO has

SEGMENTED = {
    "voc": (
        "background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat",
        "chair", "cow", "dining table", "dog", "horse", "motorbike", "person", "potted plant",
        "sheep", "sofa", "train", "tv monitor",
    ),
    "cityscapes": (
        "road", "sidewalk", "building", "wall", "fence", "pole", "traffic light", "traffic sign",
        "vegetation", "terrain", "sky", "person", "rider", "car", "truck", "bus", "train",
        "motorcycle", "bicycle",
    ),
}  # fmt: skip
"""The classes of segmentations, by the data set that they were trained on."""

LOGITS = ("logits", "cls_logits")  # a detector's scores before the sigmoid: D-FINE, RetinaNet
MAX_PLACES = 1 << 20  # a detector's: they are computed while it is built, and may be any number
TOLERANCE = 1e-5  # our input against the converter's, relative to its largest value
MAX_PROBE = 64  # Rows and columns of the largest picture with which a preset's converter is tried

log = logging.getLogger(__name__)


def load_preset(preset: str, weights: str | None, labels: list[str] | None, size: Size) -> Network:
    """Loads an image classifier, an object detector or a segmentation of KerasHub."""
    hub = _keras_hub()
    source, about = _source(preset, hub)
    task = _file(source, presets.TASK, preset)
    shown = f"The preset {preset!r}"
    with naming_the_file(repr(preset), f"{shown} cannot be loaded", presets.EXPECTED):
        described = presets.describe_preset(shown, task, hub)
        with naming_the_file(repr(preset), f"{shown} has no size that fits", presets.EXPECTED):
            _fix_size(described, size)
            _check_places(described, shown)
        find = cache(partial(_file, source, preset=preset)) if weights is None else None
        model = presets.build_preset(described, repr(preset), find)
        scaling = _scaling(model, shown)
        if weights not in (None, "random"):
            model = with_weights(model, weights)
        if labels is None:
            labels = _labels(about, model.num_classes, weights, hub)
        if isinstance(model, hub.models.ObjectDetector):
            problem = f"The boxes of {preset!r} cannot be computed"
            with naming_the_file(repr(preset), problem, presets.EXPECTED):
                model = _with_boxes(model, shown)
    network = Network(preset, model, labels=labels or None, warning=NO_PREPROCESSING)
    return (
        replace(network, preprocess="preset", warning="", scaling=scaling) if scaling else network
    )


def preset_files(preset: str) -> dict[str, Path]:
    """The files of a preset that is on this machine: "model", "weights" and "head"."""
    found: dict[str, Path] = {}
    with suppress(UsageError, UnavailableError):
        source, _ = _source(preset, _keras_hub())
        files = presets.TASK, presets.BACKBONE_WEIGHTS, presets.HEAD_WEIGHTS
        for kind, file in zip(("model", "weights", "head"), files, strict=True):
            if path := _cached(source, file):
                found[kind] = path
    return found


def _keras_hub() -> ModuleType:
    os.environ.setdefault("KAGGLEHUB_VERBOSITY", "warning")  # it logs to standard output
    try:
        with captured_stderr():
            return importlib.import_module("keras_hub")
    except ImportError as error:
        raise UnavailableError(
            f"Presets need KerasHub ({first_line(error)}): pip install 'realtime-lrp[hub]'"
        ) from error


def _source(preset: str, hub: ModuleType) -> tuple[str, str]:
    """A preset's address or folder, and the classes that its name suggests."""
    known = hub.models.Backbone.presets
    known_names = [name for task in presets.tasks_of(hub) for name in task.presets]
    if preset in known:
        if preset not in known_names:
            raise UsageError(
                f"The preset {preset!r} of KerasHub is no classifier, detector or segmentation.\n"
                f"{presets.A_PRESET}",
                "model",
            )
        entry = known[preset]
        return entry["kaggle_handle"], f"{preset} {entry['metadata'].get('description')}"
    if _ADDRESS.fullmatch(preset):
        return preset, preset
    if os.path.isdir(preset):
        return os.path.abspath(preset), Path(preset).resolve().name
    names = [one for one in known_names if not one.endswith(HEADLESS)]
    within = [name for name in names if preset.lower() in name]
    near = within[:3] or get_close_matches(preset.lower(), names, n=3, cutoff=0.5)
    hint = (
        f"Did you mean {', '.join(near)}?"
        if near
        else "Expected a name such as vit_base_patch16_224_imagenet, an address "
        "kaggle://OWNER/MODEL/keras/VARIATION, or a folder."
    )
    raise UsageError(f"There is no preset {preset[:80]!r} in KerasHub. {hint}", "model")


def _file(source: str, name: str, preset: str) -> Path:
    """A file of a preset, which KerasHub downloads where it has not done so before."""
    found = _cached(source, name)
    is_preset = Path(source, presets.CONFIG).is_file()
    if source.startswith(KAGGLE):
        from keras_hub.src.utils.preset_utils import get_file

        is_preset = True
        if name == presets.BACKBONE_WEIGHTS and found is None:
            log.warning("Downloading the weights of %s once, from Kaggle", preset)
        try:
            found = Path(get_file(source, name))
        except FileNotFoundError:
            found = None
        except Exception as error:  # requests, kagglehub and KerasHub raise anything
            raise UnavailableError(
                f"The preset {preset!r} could not be downloaded from Kaggle ({reason(error)}).\n"
                "Connect to the internet once, or give a folder: --model hub:FOLDER."
            ) from error
    if found is not None:
        return found
    if not is_preset:
        raise DamagedInputError(f"{preset!r} is no preset of KerasHub. {presets.EXPECTED}")
    why = f"has no file {name}. {presets.EXPECTED}"
    if name == presets.TASK:
        why = (
            f"has no head ({presets.TASK} is missing): it is a backbone alone.\n{presets.A_PRESET}"
        )
    raise DamagedInputError(f"The preset {preset!r} {why}")


def _cached(source: str, name: str) -> Path | None:
    """The file of a preset if it is on this machine."""
    if not source.startswith(KAGGLE):
        path = Path(source, name)
        return path if path.is_file() else None
    import kagglehub.cache
    import kagglehub.handle

    with suppress(ValueError):  # no version in the handle, or none at all
        handle = kagglehub.handle.parse_model_handle(source.removeprefix(KAGGLE))
        if found := kagglehub.cache.Cache().load_from_cache(handle, name):
            return Path(found)
    return None


def _fix_size(described: dict[str, Any], size: Size) -> None:
    """Gives backbones without a fixed input size the one for which pictures are prepared."""
    try:
        backbone = described["config"]["backbone"]["config"]
        shapes = ("image_shape", "input_shape")
        key, shape = next(
            (one, part[one]) for part in parts_of(backbone) for one in shapes if one in part
        )
        _, _, channels = shape
        if size is None:
            converter = described["config"]["preprocessor"]["config"]["image_converter"]
            size = tuple(converter["config"]["image_size"])
    except (KeyError, StopIteration, TypeError, ValueError):
        return  # the explainer asks for the size
    for part in parts_of(backbone):
        if part.get(key) == [None, None, channels]:
            part[key] = [*size, channels]
    if "anchor_image_size" in backbone:
        backbone["anchor_image_size"] = backbone[key][:2]


def _check_places(described: dict[str, Any], shown: str) -> None:
    """Refuses a detector whose feature maps have more places than any picture needs."""
    config = described["config"]
    backbone = config["backbone"]["config"]
    anchors = config.get("anchor_generator")
    if anchors:
        levels = range(anchors["config"]["min_level"], anchors["config"]["max_level"] + 1)
        strides = [2.0**level for level in levels]
    else:
        strides = backbone.get("feat_strides", [])
    rows, columns = backbone.get("image_shape", [0, 0])[:2]
    if strides and None in (rows, columns):
        raise UsageError(f"{shown} has no fixed input size. Say which: --size 640.", "size")
    if strides and not sum(rows * columns / stride**2 for stride in strides) <= MAX_PLACES:
        raise DamagedInputError(
            f"{shown} looks at more than {MAX_PLACES:,} places of a picture of {rows} x {columns}. "
            "Expected strides of 8 pixels and more."
        )


class _EveryPlace:
    """Takes the place of KerasHub's choice among boxes: keeps all of them."""

    bounding_box_format = "yxyx"

    def __call__(self, boxes: Any, logits: Any, images: Any) -> dict[str, Any]:
        return {"boxes": boxes}


class _Boxes(keras.layers.Layer):
    """The boxes that a detector's own function decodes of its outputs."""

    def __init__(self, decode: Callable[..., dict[str, Any]]) -> None:
        super().__init__(name="boxes", dtype="float32")
        self._decode = decode

    def call(self, outputs: dict[str, Any], pictures: tf.Tensor) -> tf.Tensor:
        """Boxes [B, places, 4], y0, x0, y1, x1 in pixels."""
        return self._decode(outputs, pictures)["boxes"]


def _with_boxes(detector: Any, shown: str) -> keras.Model:
    """A detector with the outputs boxes and scores, at all of its places."""
    logits = next((name for name in LOGITS if name in detector.output), None)
    if logits is None:
        raise DamagedInputError(
            f"{shown} has the outputs {', '.join(map(repr, detector.output))}. Expected one named "
            f"{' or '.join(map(repr, LOGITS))}, as D-FINE and RetinaNet have it."
        )
    detector.bounding_box_format = "yxyx"
    detector.prediction_decoder = _EveryPlace()
    boxes = _Boxes(detector.decode_predictions)(detector.output, detector.input)
    scores = keras.layers.Activation("sigmoid", name="scores")(detector.output[logits])
    return keras.Model(detector.input, {"boxes": boxes, "scores": scores}, name=detector.name)


def _labels(about: str, classes: int, weights: str | None, hub: ModuleType) -> list[str] | None:
    """Class names of a data set, if what is said about a preset speaks of it."""
    for name, known in SEGMENTED.items():
        if re.search(name, about, re.IGNORECASE) and classes == len(known):
            return list(known)
    if re.search("imagenet|in1k", about, re.IGNORECASE) and classes == IMAGENET_CLASSES:
        return imagenet_labels(classes, download=weights != "random")
    if not re.search("coco", about, re.IGNORECASE) or classes not in (COCO_CLASSES, COCO_NUMBERS):
        return None
    left_out = COCO_UNUSED if classes == COCO_CLASSES else ()
    numbers = [one for one in range(COCO_NUMBERS) if one not in left_out]
    return [hub.utils.coco_id_to_name(number).replace("_", " ") for number in numbers]


def _scaling(model: Any, shown: str) -> Scaling | None:
    """How the preset prepares pictures, tried on noise; None where it does not say."""
    converter = getattr(model.preprocessor, "image_converter", None)
    if converter is None:
        return None
    channels = model.input_shape[-1]
    try:
        scale, offset = (
            np.broadcast_to(default if values is None else values, channels).astype(float).tolist()
            for values, default in ((converter.scale, 1.0), (converter.offset, 0.0))
        )
        scaling = Scaling(tuple(scale), tuple(offset))
        rows, columns = (min(side, MAX_PROBE) for side in converter.image_size or (8, 8))
        if converter.image_size:
            converter.image_size = (rows, columns)
        noise = np.random.default_rng(0).integers(0, 256, (1, rows, columns, channels))
        expected = tf.cast(converter(noise.astype(np.float32)), tf.float32).numpy()
        difference = np.abs(noise * scaling.scale + scaling.offset - expected).max()
        known = 0 not in scaling.scale and difference <= TOLERANCE * np.abs(expected).max()
    except (AttributeError, TypeError, ValueError, tf.errors.OpError):
        known = False
    if not known or converter.data_format != "channels_last":
        raise DamagedInputError(
            f"{shown} prepares pictures in a way that is not known here. Expected one factor other "
            "than 0, and one number to add, for all channels or for each, channels last.\nLoad it "
            "in Python, and give Explainer(model) the pictures that its converter prepares."
        )
    return scaling
