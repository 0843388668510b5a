"""Loads a network by its name or from a file: a Keras model with its preprocessing and labels."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import keras
import numpy as np
import tensorflow as tf

from realtime_lrp.config.check import check_model_name
from realtime_lrp.errors import DamagedInputError
from realtime_lrp.models.included import with_weights
from realtime_lrp.models.labels import read_labels
from realtime_lrp.models.loaded import Loaded
from realtime_lrp.models.names import NETWORKS
from realtime_lrp.models.preprocessing import PREPROCESSING, preprocess
from realtime_lrp.models.untrusted.loading import load_model

NO_PREPROCESSING = "no --preprocess given, so the answers may be nonsense"

log = logging.getLogger(__name__)


class PixelRange(TypedDict):
    """The range of preprocessed pixels, as keyword arguments of `Explainer`; float32 [channels]."""

    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class Network:
    """A Keras model with what is needed to feed it pictures and to name its outputs.

    Attributes:
      name: the name shown on the screen.
      model: the Keras model, or None after an explainer has taken its weights.
      channels: channels of its input.
      preprocessing: how pictures are prepared, see `preprocess`.
      labels: class names in the order of the outputs, or None if they are not known.
      warning: why the answers may be wrong, or "".
    """

    name: str
    model: keras.Model | None
    channels: int
    preprocessing: str
    labels: list[str] | None
    warning: str = ""

    def prepare(self, pictures: np.ndarray | tf.Tensor) -> tf.Tensor:
        """Turns pictures, uint8 [B, H, W, 3] RGB, into the input, float32 [B, H, W, channels]."""
        return preprocess(pictures, self.preprocessing, self.channels)

    def box(self) -> PixelRange:
        """The lowest and highest values that `prepare` can return."""
        black_and_white = np.array([[[[0, 0, 0]]], [[[255, 255, 255]]]], np.uint8)
        ends = self.prepare(black_and_white)[:, 0, 0].numpy()
        return PixelRange(low=ends.min(0), high=ends.max(0))


def load_network(
    name: str,
    weights: str | None = None,
    labels: str | None = None,
    preprocessing: str | None = None,
) -> Network:
    """Loads a network. An argument that is None leaves the network's own.

    Args:
      name: a name in `NETWORKS`, upper or lower case, or the path of a .keras file.
      weights: "imagenet", "random" or the path of a file.
      labels: the path of a file of class names.
      preprocessing: see `preprocess`.

    Raises:
      UsageError: there is no such network, or it has no such weights.
      MissingInputError: a file does not exist.
      DamagedInputError: a file is damaged, or is not what it should be.
      UnavailableError: the weights are missing and cannot be downloaded.
    """
    check_model_name(name)
    given_labels = read_labels(Path(labels)) if labels else None
    if name.lower() in NETWORKS:
        name = name.lower()
        loaded = NETWORKS[name].load(weights, given_labels)
    else:
        loaded = _from_file(Path(name), weights, preprocessing)
        name = Path(name).stem
    return Network(
        name,
        loaded.model,
        _channels(loaded.model),
        preprocessing or loaded.preprocessing,
        given_labels or loaded.labels,
        loaded.warning,
    )


def _channels(model: keras.Model) -> int:
    """The channels of its input; 3 if its input is no picture, which explainers refuse later."""
    inputs = getattr(model, "inputs", None)
    shape: tuple[int, ...] = inputs[0].shape if inputs else ()
    return shape[3] if len(shape) == 4 else 3


def _from_file(path: Path, weights: str | None, preprocessing: str | None) -> Loaded:
    if path.suffix != ".keras":
        raise DamagedInputError(
            f"{str(path)!r} is not a .keras file. Save the model with "
            "model.save('name.keras'), or give a weights file with --weights."
        )
    model = load_model(path)
    warning = ""
    if preprocessing is None and not _has_own_preprocessing(model):
        warning = NO_PREPROCESSING
        log.warning(
            "%s: %s: the network gets RGB values from 0 to 255. Give the one that it was trained "
            "with: --preprocess %s",
            path.name,
            warning,
            "|".join(PREPROCESSING),
        )
    return Loaded(with_weights(model, weights), warning=warning)


def _has_own_preprocessing(model: keras.Model) -> bool:
    types = (keras.layers.Rescaling, keras.layers.Normalization)
    return any(isinstance(layer, types) for layer in model.layers[:3])
