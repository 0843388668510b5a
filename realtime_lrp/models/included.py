"""Builds the networks of the table in names.py and loads their weights.

This file imports Keras, so names.py imports it only when a network is loaded.
"""

import logging
from pathlib import Path

import keras
import numpy as np

from realtime_lrp.errors import UnavailableError, UsageError
from realtime_lrp.models.downloads import Download, fetch
from realtime_lrp.models.labels import imagenet_labels
from realtime_lrp.models.loaded import Loaded
from realtime_lrp.models.size import build_within_memory
from realtime_lrp.models.untrusted.loading import load_model, load_weights
from realtime_lrp.models.weight_memory import (
    aligned_empty,
    initialise_with_zeros,
    shared_tensor,
)

RANDOM_PART = 1 << 18
"""How many random values are made at a time."""

log = logging.getLogger(__name__)


def load_application(
    builder: str, download: Download, weights: str, labels: list[str] | None
) -> Loaded:
    """Loads a network of keras.applications that was trained on ImageNet.

    Args:
      builder: its name in keras.applications, such as "VGG16".
      download: its ImageNet weights.
      weights: "imagenet", "random" or the path of a file.
      labels: the user's class names, or None for ImageNet's.

    Raises:
      UnavailableError: the weights are missing and cannot be downloaded.
      DamagedInputError: the weights in the file belong to another network.
    """
    file = _downloaded(download) if weights == "imagenet" else None
    build = getattr(keras.applications, builder)
    model = build_within_memory(
        lambda: build(weights=None), builder.lower(), _initialise_kernels_with_zeros
    )
    if weights == "random":
        _randomise(model)
    else:
        load_weights(model, file or _existing_weights(weights))
    if labels is None:
        labels = imagenet_labels(download=weights != "random")
        if labels is None and weights == "random":
            log.warning("Classes are shown by number: random weights come without class names")
    return Loaded(model, "caffe", labels)


def _initialise_kernels_with_zeros(model: keras.Model) -> None:
    """Saves the time and the memory of random values that are overwritten."""
    initialise_with_zeros(weight for weight in model.weights if len(weight.shape) > 1)


def _randomise(model: keras.Model) -> None:
    """Glorot uniform kernels (Glorot & Bengio 2010, eq. 16) from a fixed seed; biases stay 0."""
    rng = np.random.default_rng(0)
    for weight in model.weights:
        if len(weight.shape) > 1:
            *window, inputs, outputs = weight.shape
            limit = np.sqrt(6 / (np.prod(window) * (inputs + outputs)))
            values = aligned_empty(weight.shape)
            _fill_uniformly(values.reshape(-1), rng, limit)
            weight.assign(shared_tensor(values))


def _fill_uniformly(values: np.ndarray, rng: np.random.Generator, limit: float) -> None:
    """Fills a vector, float32, from -limit to limit; in parts that stay in the processor's cache.

    VGG16 takes 0.4 s, not 1.3.
    """
    for begin in range(0, len(values), RANDOM_PART):
        part = values[begin : begin + RANDOM_PART]
        rng.random(dtype=np.float32, out=part)
        part -= 0.5
        part *= np.float32(2 * limit)


def _downloaded(weights: Download) -> Path:
    try:
        return fetch(weights)
    except UnavailableError as error:
        raise UnavailableError(
            f"{error}\nConnect to the internet once, put the file at {weights.path}, give "
            "--weights FILE, or use --model shapes, which needs no download."
        ) from error


def _existing_weights(weights: str) -> Path:
    if not Path(weights).is_file():
        raise UnavailableError(
            f"There is no weights file {weights!r}. Expected imagenet, random or a file."
        )
    return Path(weights)


def load_shapes(file: Path, weights: str | None) -> Loaded:
    """Loads one of the embedded networks, which know hand-drawn symbols."""
    from realtime_lrp.models.drawings import CLASSES

    model = load_model(file)
    return Loaded(with_weights(model, weights), "none", list(CLASSES))


def with_weights(model: keras.Model, weights: str | None) -> keras.Model:
    """Returns the model with the weights that the user asked for.

    Args:
      model: the loaded model; its weights may be overwritten.
      weights: "random", the path of a file, or None to keep the model's own.

    Raises:
      UsageError: weights is "imagenet", which this model does not have.
      UnavailableError: there is no such file.
      DamagedInputError: the weights in the file belong to another network.
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
