"""Names and files to networks: a Keras model with its preprocessing and labels."""

import logging
import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from realtime_lrp.config import ASSETS
from realtime_lrp.errors import (
    DamagedInputError,
    MissingInputError,
    UnavailableError,
    UsageError,
    unknown,
)
from realtime_lrp.models.downloads import Download, fetched
from realtime_lrp.models.keras_files import load_model, load_weights
from realtime_lrp.models.labels import imagenet_labels, read_labels
from realtime_lrp.models.preprocessing import PREPROCESSING, preprocess
from realtime_lrp.models.size import built

_KERAS = "https://storage.googleapis.com/tensorflow/keras-applications"

IMAGENET = {
    "vgg16": (
        keras.applications.VGG16,
        Download(
            f"{_KERAS}/vgg16/vgg16_weights_tf_dim_ordering_tf_kernels.h5",
            "64373286793e3c8b2b4e3219cbf3544b",
        ),
    ),
    "vgg19": (
        keras.applications.VGG19,
        Download(
            f"{_KERAS}/vgg19/vgg19_weights_tf_dim_ordering_tf_kernels.h5",
            "cbe5617147190e668d6c5d5026f83318",
        ),
    ),
}
"""Name -> (what builds it, its weights, those of Keras)."""

NAMES = ("shapes", *IMAGENET)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Network:
    """What is explained.

    Attributes:
      name: how it is called on the screen.
      model: the Keras model, or None once its weights have been read.
      channels: how many channels its pictures have.
      preprocessing: what its pictures go through, see `preprocess`.
      labels: class names in order, or None where they are not known.
    """

    name: str
    model: keras.Model | None
    channels: int
    preprocessing: str
    labels: list[str] | None

    def prepare(self, pictures: np.ndarray | tf.Tensor) -> tf.Tensor:
        """uint8 [B, H, W, 3] RGB to what the model reads, float32 [B, H, W, channels]."""
        return preprocess(pictures, self.preprocessing, self.channels)

    def box(self) -> dict[str, np.ndarray]:
        """The lowest and highest values that `prepare` can give, float32 [channels] each."""
        ends = self.prepare(np.array([[[[0, 0, 0]]], [[[255, 255, 255]]]], np.uint8))[
            :, 0, 0
        ].numpy()
        return {"low": ends.min(0), "high": ends.max(0)}


def load_network(
    name: str,
    weights: str | None = None,
    labels: str | None = None,
    preprocessing: str | None = None,
) -> Network:
    """Loads a network; what is None is the network's own.

    Args:
      name: one of `NAMES` in any case, or a .keras file.
      weights: "imagenet", "random" or a file.
      labels: a file of class names.
      preprocessing: see `preprocess`.

    Raises:
      UsageError: there is no such network, or it has no such weights.
      MissingInputError: there is no such file.
      DamagedInputError: a file does not hold what it should.
      UnavailableError: the weights are not there and cannot be downloaded.
    """
    check_model_name(name)
    own_labels = read_labels(Path(labels)) if labels else None
    if name.lower() in IMAGENET:
        found = _imagenet_network(name.lower(), weights or "imagenet", own_labels)
    elif name.lower() == "shapes":
        found = _shapes(weights)
    else:
        found = _from_file(Path(name), weights, preprocessing)
    name, model, its_preprocessing, its_labels = found
    return Network(
        name,
        model,
        _channels(model),
        preprocessing or its_preprocessing,
        own_labels or its_labels,
    )


def check_model_name(name: str) -> None:
    """Refuses what is neither a network's name nor a file's.

    Raises:
      UsageError: there is no such network.
      MissingInputError: there is no such file.
    """
    if name.lower() in NAMES:
        return
    if not (Path(name).suffix or os.sep in name):
        raise unknown("model", name, [*NAMES, "FILE.keras"])
    if not os.path.isfile(name):
        raise MissingInputError(f"There is no model file {name!r}. Expected a .keras file.")


def _channels(model: keras.Model) -> int:
    """The channels of its pictures; 3 where it reads something else, which explainers refuse."""
    inputs = getattr(model, "inputs", None)
    shape = inputs[0].shape if inputs else ()
    return shape[3] if len(shape) == 4 else 3


_Found = tuple[str, keras.Model, str, list[str] | None]
"""Name, model, preprocessing, labels."""


def _imagenet_network(name: str, weights: str, labels: list[str] | None) -> _Found:
    build, download = IMAGENET[name]
    file = _downloaded(download) if weights == "imagenet" else None
    with _weights_at_zero():
        model = built(lambda: build(weights=None), name)
    if weights == "random":
        _randomise(model)
    else:
        load_weights(model, file or _existing_weights(weights))
    if labels is None:
        labels = imagenet_labels(download=weights != "random")
        if labels is None and weights == "random":
            log.warning("classes are shown by index: random weights download no class names")
    return name, model, "caffe", labels


@contextmanager
def _weights_at_zero():
    """Models start with zeros: random values that are replaced at once need three times the memory.

    TensorFlow keeps the most memory that it ever had; VGG16 starts at 0.6 GB instead of 1.4 GB.
    """
    kind = keras.initializers.VarianceScaling
    before = kind.__call__
    kind.__call__ = lambda self, shape, dtype=None, **options: keras.ops.zeros(shape, dtype)
    try:
        yield
    finally:
        kind.__call__ = before


def _randomise(model: keras.Model) -> None:
    """Kernels uniform as by Glorot, Bengio 2010 (eq. 16), the same in every run; biases stay 0."""
    rng = np.random.default_rng(0)
    for weight in model.weights:
        if len(weight.shape) > 1:
            *window, received, made = weight.shape
            limit = np.sqrt(6 / (np.prod(window) * (received + made)))
            values = rng.random(weight.shape, dtype=np.float32)
            values -= 0.5
            values *= np.float32(2 * limit)
            weight.assign(values)


def _downloaded(weights: Download) -> Path:
    try:
        return fetched(weights)
    except UnavailableError as error:
        raise UnavailableError(
            f"{error}\nConnect to the internet once, put the file at {weights.place}, add "
            "--weights FILE, or take --model shapes, which needs no download."
        ) from error


def _existing_weights(weights: str) -> Path:
    if not Path(weights).is_file():
        raise UnavailableError(
            f"There are no weights {weights!r}. Expected imagenet, random or a file."
        )
    return Path(weights)


def _shapes(weights: str | None) -> _Found:
    from realtime_lrp.models.drawing import CLASSES

    model = load_model(ASSETS / "shapes.keras")
    return "shapes", _with_weights(model, weights), "none", list(CLASSES)


def _from_file(path: Path, weights: str | None, preprocessing: str | None) -> _Found:
    if path.suffix != ".keras":
        raise DamagedInputError(
            f"{str(path)!r} is not a .keras file. Save the model again with "
            "model.save('name.keras'), or give a file of weights with --weights."
        )
    model = load_model(path)
    if preprocessing is None and not _prepares_itself(model):
        log.warning(
            "%s: no --preprocess given (%s), the network gets RGB values from 0 to 255",
            path.name,
            ", ".join(PREPROCESSING),
        )
    return path.stem, _with_weights(model, weights), "none", None


def _prepares_itself(model: keras.Model) -> bool:
    kinds = (keras.layers.Rescaling, keras.layers.Normalization)
    return any(isinstance(layer, kinds) for layer in model.layers[:3])


def _with_weights(model: keras.Model, weights: str | None) -> keras.Model:
    if weights is None:
        return model
    if weights == "imagenet":
        raise UsageError(
            f"The model {model.name!r} has no imagenet weights. Expected random or a file.",
            "weights",
        )
    if weights == "random":
        keras.utils.set_random_seed(0)
        return keras.models.clone_model(model)
    load_weights(model, _existing_weights(weights))
    return model
