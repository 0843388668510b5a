"""Names and files to networks: a Keras model with its preprocessing and labels."""

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

log = logging.getLogger(__name__)


class Box(TypedDict):
    """What rules need to know of pictures, as the words of an `Explainer`."""

    low: np.ndarray
    high: np.ndarray


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
        """What the model reads of pictures uint8 [B, H, W, 3] RGB: float32 [B, H, W, channels]."""
        return preprocess(pictures, self.preprocessing, self.channels)

    def box(self) -> Box:
        """The lowest and highest values that `prepare` can give, float32 [channels] each."""
        ends = self.prepare(np.array([[[[0, 0, 0]]], [[[255, 255, 255]]]], np.uint8))[
            :, 0, 0
        ].numpy()
        return Box(low=ends.min(0), high=ends.max(0))


def load_network(
    name: str,
    weights: str | None = None,
    labels: str | None = None,
    preprocessing: str | None = None,
) -> Network:
    """Loads a network; what is None is the network's own.

    Args:
      name: one of `NETWORKS` in any case, or a .keras file.
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
    if name.lower() in NETWORKS:
        name = name.lower()
        found = NETWORKS[name].load(weights, own_labels)
    else:
        found = _from_file(Path(name), weights, preprocessing)
        name = Path(name).stem
    return Network(
        name,
        found.model,
        _channels(found.model),
        preprocessing or found.preprocessing,
        own_labels or found.labels,
    )


def _channels(model: keras.Model) -> int:
    """The channels of its pictures; 3 where it reads something else, which explainers refuse."""
    inputs = getattr(model, "inputs", None)
    shape: tuple[int, ...] = inputs[0].shape if inputs else ()
    return shape[3] if len(shape) == 4 else 3


def _from_file(path: Path, weights: str | None, preprocessing: str | None) -> Loaded:
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
    return Loaded(with_weights(model, weights))


def _prepares_itself(model: keras.Model) -> bool:
    kinds = (keras.layers.Rescaling, keras.layers.Normalization)
    return any(isinstance(layer, kinds) for layer in model.layers[:3])
