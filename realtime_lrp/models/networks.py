"""Names and files to networks: a Keras model with its preprocessing and labels."""

import logging
import os
import socket
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np

from realtime_lrp.config import ASSETS
from realtime_lrp.errors import (
    DamagedInputError,
    MissingInputError,
    UnavailableError,
    UsageError,
    first_line,
    unknown,
)
from realtime_lrp.models.keras_files import load_model, load_weights
from realtime_lrp.models.labels import DOWNLOADS, imagenet_labels, read_labels
from realtime_lrp.models.preprocessing import PREPROCESSING, preprocess

DOWNLOAD_TIMEOUT_S = 30

IMAGENET = {
    "vgg16": (keras.applications.VGG16, "vgg16_weights_tf_dim_ordering_tf_kernels.h5"),
    "vgg19": (keras.applications.VGG19, "vgg19_weights_tf_dim_ordering_tf_kernels.h5"),
}
"""Name -> (what builds it, the file that its weights are downloaded to)."""

NAMES = ("shapes", *IMAGENET)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Network:
    """What is explained.

    Attributes:
      name: how it is called on the screen.
      model: the Keras model.
      preprocessing: what its pictures go through, see `preprocess`.
      labels: class names in order, or None where they are not known.
    """

    name: str
    model: keras.Model
    preprocessing: str
    labels: list[str] | None

    def prepare(self, pictures: np.ndarray) -> np.ndarray:
        """uint8 [B, H, W, 3] RGB to what the model reads, float32 [B, H, W, channels]."""
        return preprocess(pictures, self.preprocessing, self.model.inputs[0].shape[-1])

    def box(self) -> dict[str, np.ndarray]:
        """The lowest and highest values that `prepare` can give, float32 [channels] each."""
        ends = self.prepare(np.array([[[[0, 0, 0]]], [[[255, 255, 255]]]], np.uint8))[:, 0, 0]
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
        network = _imagenet_network(name.lower(), weights or "imagenet", own_labels)
    elif name.lower() == "shapes":
        network = _shapes(weights)
    else:
        network = _from_file(Path(name), weights, preprocessing)
    return Network(
        network.name,
        network.model,
        preprocessing or network.preprocessing,
        own_labels or network.labels,
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
    if not Path(name).is_file():
        raise MissingInputError(f"There is no model file {name!r}. Expected a .keras file.")


def _imagenet_network(name: str, weights: str, labels: list[str] | None) -> Network:
    build, file = IMAGENET[name]
    if weights == "imagenet":
        model = _downloaded(build, file)
    else:
        keras.utils.set_random_seed(0)
        model = build(weights=None)
        if weights != "random":
            load_weights(model, _existing_weights(weights))
    if labels is None:
        with _download_timeout():
            labels = imagenet_labels(download=weights != "random")
        if labels is None and weights == "random":
            log.warning("classes are shown by index: random weights download no class names")
    return Network(name, model, "caffe", labels)


def _downloaded(build, file: str) -> keras.Model:
    place = DOWNLOADS / file
    try:
        with _download_timeout():
            return build(weights="imagenet")
    except Exception as error:
        raise UnavailableError(
            f"The weights {file} are not there and could not be downloaded ({first_line(error)}).\n"
            f"Connect to the internet once, put the file at {place}, add --weights FILE, or take "
            "--model shapes, which needs no download."
        ) from error


@contextmanager
def _download_timeout():
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(DOWNLOAD_TIMEOUT_S)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _existing_weights(weights: str) -> Path:
    if not Path(weights).is_file():
        raise UnavailableError(
            f"There are no weights {weights!r}. Expected imagenet, random or a file."
        )
    return Path(weights)


def _shapes(weights: str | None) -> Network:
    from realtime_lrp.models.drawing import CLASSES

    model = load_model(ASSETS / "shapes.keras")
    return Network("shapes", _with_weights(model, weights), "none", list(CLASSES))


def _from_file(path: Path, weights: str | None, preprocessing: str | None) -> Network:
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
    return Network(path.stem, _with_weights(model, weights), "none", None)


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
