"""Randomises a trained network layer by layer, to see whether its maps notice.

The cascading randomisation of Adebayo et al. 2018, "Sanity checks for saliency maps", and of Sixt
et al. 2020, "When explanations lie". Both functions change the model for good.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from realtime_lrp.commands.evaluate.samples import SEED_OFFSET
from realtime_lrp.engine.tensorflow import keras

MAX_STAGES = 6


def randomise_in_stages(model: keras.Model, seed: int) -> Iterator[dict[str, Any]]:
    """Gives layers new weights from their own initialisers, from the output to the input.

    Args:
      model: the trained Keras model; changed.
      seed: the random seed.

    Yields:
      At most `MAX_STAGES` times: {"layers": how many are randomised, "down_to": the last one}.
    """
    keras.utils.set_random_seed(SEED_OFFSET + seed)
    fresh = layers_with_weights(keras.models.clone_model(model))
    pairs = list(zip(layers_with_weights(model), fresh, strict=True))[::-1]
    stages = np.linspace(1, len(pairs), MAX_STAGES).round()
    for number, (layer, fresh_layer) in enumerate(pairs, 1):
        layer.set_weights(fresh_layer.get_weights())
        if number in stages:
            yield {"layers": number, "down_to": layer.name}


def weaken_output_layer(model: keras.Model) -> None:
    """Halves the weights of the last layer that has some."""
    *_, last = layers_with_weights(model)
    last.set_weights([weights / 2 for weights in last.get_weights()])


def layers_with_weights(model: keras.Model) -> Iterator[keras.Layer]:
    """The layers with trained weights, from input to output, also those of nested models."""
    for layer in model.layers:
        if hasattr(layer, "layers"):
            yield from layers_with_weights(layer)
        elif layer.weights and type(layer).__name__ != "Normalization":
            yield layer
