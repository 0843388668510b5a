"""The networks that are included: how each of them is built and gets its weights."""

import logging
from pathlib import Path

import keras
import numpy as np

from realtime_lrp.config import ASSETS
from realtime_lrp.errors import UnavailableError, UsageError
from realtime_lrp.models.downloads import Download, fetch
from realtime_lrp.models.labels import imagenet_labels
from realtime_lrp.models.loaded import Loaded
from realtime_lrp.models.size import built, start_at_zero
from realtime_lrp.models.untrusted.loading import load_model, load_weights

log = logging.getLogger(__name__)


def application(builder: str, download: Download, weights: str, labels: list[str] | None) -> Loaded:
    """A network of keras.applications that knows ImageNet's classes.

    Args:
      builder: its name there.
      download: its weights.
      weights: "imagenet", "random" or a file.
      labels: those that the user brings, or None.

    Raises:
      UnavailableError: the weights are not there and cannot be downloaded.
      DamagedInputError: the file holds other weights.
    """
    file = _downloaded(download) if weights == "imagenet" else None
    build = getattr(keras.applications, builder)
    model = built(lambda: build(weights=None), builder.lower(), _kernels_at_zero)
    if weights == "random":
        _randomise(model)
    else:
        load_weights(model, file or _existing_weights(weights))
    if labels is None:
        labels = imagenet_labels(download=weights != "random")
        if labels is None and weights == "random":
            log.warning("classes are shown by index: random weights download no class names")
    return Loaded(model, "caffe", labels)


def _kernels_at_zero(model: keras.Model) -> None:
    """VGG16 starts at 0.6 GB instead of 1.4 GB."""
    start_at_zero(weight for weight in model.weights if len(weight.shape) > 1)


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
        return fetch(weights)
    except UnavailableError as error:
        raise UnavailableError(
            f"{error}\nConnect to the internet once, put the file at {weights.path}, add "
            "--weights FILE, or take --model shapes, which needs no download."
        ) from error


def _existing_weights(weights: str) -> Path:
    if not Path(weights).is_file():
        raise UnavailableError(
            f"There is no weights file {weights!r}. Expected imagenet, random or a file."
        )
    return Path(weights)


def shapes(weights: str | None) -> Loaded:
    """The embedded network for drawn symbols."""
    from realtime_lrp.models.drawing import CLASSES

    model = load_model(ASSETS / "shapes.keras")
    return Loaded(with_weights(model, weights), "none", list(CLASSES))


def with_weights(model: keras.Model, weights: str | None) -> keras.Model:
    """A model with other weights than its own.

    Args:
      model: may be used up.
      weights: "random", a file, or None for its own.

    Raises:
      UsageError: it is asked for the weights "imagenet".
      UnavailableError: there is no such file.
      DamagedInputError: the file holds other weights.
    """
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
