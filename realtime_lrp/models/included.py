"""Builds the networks that have a name and loads their weights."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras.src.utils import file_utils  # where keras.applications find get_file

from realtime_lrp.config.applications import APPLICATIONS
from realtime_lrp.errors import DamagedInputError, UnavailableError, UsageError
from realtime_lrp.models import memory
from realtime_lrp.models.downloads import Download, fetch
from realtime_lrp.models.labels import imagenet_labels
from realtime_lrp.models.network import Network
from realtime_lrp.models.untrusted.loading import load_model, load_weights

RANDOM_PART = 1 << 18  # random values made at a time: they stay in the cache, VGG16 takes 0.4 s

log = logging.getLogger(__name__)


def load_application(name: str, weights: str | None, labels: list[str] | None) -> Network:
    """Loads one of keras.applications; None are ImageNet's weights and labels, [] no labels."""
    application = APPLICATIONS[name]
    downloads: list[Download] = []

    def build() -> keras.Model:
        with _noting_downloads(downloads):
            builder = getattr(keras.applications, application.builder)
            return builder(weights="imagenet", **application.options)

    def prepare(model: keras.Model) -> None:  # without random values that are overwritten
        memory.initialise_with_zeros(weight for weight in model.weights if len(weight.shape) > 1)

    model = memory.build_within_memory(build, name, prepare)
    if weights == "random":
        _randomise(model)
    elif weights in (None, "imagenet"):
        _load_downloaded(model, downloads[0])
    else:
        with_weights(model, weights)
    if labels is None:
        labels = imagenet_labels(model.output_shape[-1], download=weights != "random")
        if labels is None and weights == "random":
            log.warning("Classes are shown by number: random weights come without class names")
    return Network(name, model, application.preprocess, labels or None)


@contextmanager
def _noting_downloads(downloads: list[Download]) -> Iterator[None]:
    """Within it builders of keras.applications note which weights they want, and load none.

    Only `weights="imagenet"` builds a network as it was trained: EfficientNet's has a layer more.
    """

    def note(fname: str, origin: str, file_hash: str | None = None, **_: Any) -> None:
        downloads.append(Download(origin, file_hash, fname))

    get_file = file_utils.get_file
    load = keras.Model.load_weights
    try:
        file_utils.get_file = note
        keras.Model.load_weights = lambda *_, **__: None
        yield
    finally:
        file_utils.get_file = get_file
        keras.Model.load_weights = load


def _load_downloaded(model: keras.Model, download: Download) -> None:
    """Loads the published weights, which are downloaded if they are not there."""
    try:
        path = fetch(download)
    except UnavailableError as error:
        raise UnavailableError(
            f"{error}\nConnect to the internet once, put the file at {download.path}, give "
            "--weights FILE, or use --model shapes, which needs no download."
        ) from error
    try:
        load_weights(model, path)
    except DamagedInputError as error:
        raise DamagedInputError(
            f"{error}\nThe file is {path}: move it away, and the next start downloads it."
        ) from error


def _randomise(model: keras.Model) -> None:
    """Glorot uniform kernels (Glorot & Bengio 2010, eq. 16) from a fixed seed; biases stay 0."""
    rng = np.random.default_rng(0)
    for weight in model.weights:
        if len(weight.shape) > 1:
            *window, inputs, outputs = weight.shape
            limit = np.sqrt(6 / (np.prod(window) * (inputs + outputs)))
            values = memory.aligned_empty(weight.shape)
            flat = values.reshape(-1)
            for begin in range(0, len(flat), RANDOM_PART):
                part = flat[begin : begin + RANDOM_PART]
                rng.random(dtype=np.float32, out=part)
                part -= 0.5
                part *= np.float32(2 * limit)
            weight.assign(memory.shared_tensor(values))


def load_shapes(file: Path, weights: str | None) -> Network:
    """Loads an embedded network, which knows hand-drawn symbols."""
    from realtime_lrp.models.drawings import CLASSES

    network = Network(file.stem, with_weights(load_model(file), weights))
    return replace(network, labels=[*CLASSES[:-1]] if network.detects else [*CLASSES])


def with_weights(model: keras.Model, weights: str | None) -> keras.Model:
    """The model with random weights, with a file's, or with its own where there is no name."""
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
    if not Path(weights).is_file():
        raise UnavailableError(
            f"There is no weights file {weights!r}. Expected imagenet, random or a file."
        )
    load_weights(model, Path(weights))
    return model
