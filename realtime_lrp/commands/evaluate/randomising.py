"""Randomises a trained network layer by layer, to see whether its maps notice.

The cascading randomisation of Adebayo et al. 2018, "Sanity checks for saliency maps", and of Sixt
et al. 2020, "When explanations lie".
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from realtime_lrp.commands.evaluate.metrics import Stage
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.tensorflow import keras, tf

MAX_STAGES = 6
MOST_HALVINGS = 64  # of the weights of the output layer

SEED_OFFSET = 90210
"""Keeps new weights apart from those that the training began with, whose seeds are 1, 2 and 3."""


class RandomisedStages:
    """The stages of randomisation of a model, from the output to the input.

    Layers get new weights from their own initialisers. The large outputs of a randomised network
    saturate its softmax, and a class of probability 0 has no relevance. So the weights of the
    output layer are halved until every class that is explained is probable enough. That gives each
    class the same map at half the strength. Where no stage is entered, the model is as before.
    """

    def __init__(self, model: keras.Model, seed: int):
        keras.utils.set_random_seed(SEED_OFFSET + seed)
        fresh = list(layers_with_weights(keras.models.clone_model(model)))[::-1]
        self._layers = list(layers_with_weights(model))[::-1]
        self._trained = [layer.get_weights() for layer in self._layers]
        self._fresh = [layer.get_weights() for layer in fresh]
        numbers = np.unique(np.linspace(1, len(self._layers), MAX_STAGES).round().astype(int))
        self.stages = [Stage(int(count), self._layers[count - 1].name) for count in numbers]
        self._halvings: dict[Stage, int] = {}

    @contextmanager
    def enter(self, stage: Stage, is_probable: Callable[[], bool]) -> Iterator[None]:
        """Randomises the model as far as a stage says; leaving the context undoes it.

        `is_probable`, whether the model as it is gives the classes enough probability, is asked the
        first time that a stage is entered.
        """
        layers = self._layers[: stage.layers]
        try:
            for layer, weights in zip(layers, self._fresh, strict=False):
                layer.set_weights(weights)
            if stage in self._halvings:
                self._weaken(self._halvings[stage])
            else:
                self._halvings[stage] = self._weaken_until(is_probable)
            yield
        finally:
            for layer, weights in zip(layers, self._trained, strict=False):
                layer.set_weights(weights)

    def _weaken_until(self, is_probable: Callable[[], bool]) -> int:
        """Halves the weights of the output layer until it suffices; returns how often."""
        for halvings in range(MOST_HALVINGS):
            if is_probable():
                return halvings
            self._weaken(1)
        return MOST_HALVINGS

    def _weaken(self, halvings: int) -> None:
        output = self._layers[0]
        output.set_weights([weights / 2**halvings for weights in output.get_weights()])


def score_function(engine: Engine) -> Callable[[np.ndarray], np.ndarray]:
    """Returns a function from pictures to scores, float32 [N, classes], of the model as it is.

    It runs the Keras model alone, so that it follows when the weights change.
    """
    network, model = engine.network, engine.model
    picture = tf.TensorSpec([None, *engine.explainer.input_shape], tf.float32)
    forward = tf.function(lambda x: model(x, training=False)).get_concrete_function(picture)
    blank = network.prepare(np.zeros((1, *engine.explainer.input_shape[:2], 3), np.uint8))
    expected, outputs = engine.explainer.scores(blank), forward(blank)
    is_logits = np.abs(tf.nn.softmax(outputs) - expected).max() < np.abs(outputs - expected).max()

    def scores(pictures: np.ndarray) -> np.ndarray:
        outputs = forward(network.prepare(pictures))
        return (tf.nn.softmax(outputs) if is_logits else outputs).numpy()

    return scores


def layers_with_weights(model: keras.Model) -> Iterator[keras.Layer]:
    """The layers with trained weights, from input to output, also those of nested models."""
    for layer in model.layers:
        if hasattr(layer, "layers"):
            yield from layers_with_weights(layer)
        elif layer.weights and type(layer).__name__ != "Normalization":
            yield layer
