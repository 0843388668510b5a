"""Networks and engines that overflow, run out of memory or fail."""

import time
from dataclasses import replace

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from realtime_lrp.engine.engine import Engine
from realtime_lrp.realtime.explaining import RelevanceThread, first_request
from realtime_lrp.realtime.latest import Slot
from realtime_lrp.realtime.stats import Stats


def overflowing():
    """A network whose second layer overflows for pictures that are bright in red."""
    keras.utils.set_random_seed(4)
    model = keras.Sequential(
        [
            keras.Input((16, 16, 3)), layers.Conv2D(4, 3, activation="relu", name="first"),
            layers.Conv2D(4, 3, activation="relu", name="second"),
            layers.Conv2D(4, 3, activation="relu", name="third"), layers.GlobalAveragePooling2D(),
            layers.Dense(3, activation="softmax"),
        ],
        name="overflowing",
    )  # fmt: skip
    first, second = (model.get_layer(name) for name in ("first", "second"))
    kernel = np.zeros((3, 3, 3, 4), np.float32)
    kernel[1, 1, 0] = 1e18
    first.set_weights([kernel, np.zeros(4)])
    second.set_weights([np.abs(second.get_weights()[0]) * 1e18, np.zeros(4)])
    return model


class Bounded:
    """An engine's pipeline with memory for at most this many pictures at once."""

    def __init__(self, explain, most):
        self._explain, self._most, self.tried = explain, most, []

    def __call__(self, batch, targets=None):
        self.tried.append(len(batch))
        if len(batch) > self._most:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM")
        return self._explain(batch, targets)


class Failing:
    """A relevance thread whose engine raises an error this many times."""

    def __init__(self, chosen, error, times):
        self.slot, self.left, self.error = Slot(), times, error
        self.engine = Engine(chosen, keep_model=True)
        self.begin, self.engine.begin = self.engine.begin, self._begin
        self.thread = RelevanceThread(
            chosen, self.slot, replace(first_request(chosen), target="top1"), Stats("", ""),
            changeable=True,
        )  # fmt: skip
        self.thread.engine = self.engine

    def _begin(self, pictures, **options):
        self.left -= 1
        if self.left >= 0:
            raise self.error
        return self.begin(pictures, **options)

    def until(self, condition):
        """Submits frames until a condition is true; returns what `failing` said meanwhile."""
        messages, end = [], time.monotonic() + 30
        while not condition():
            self.thread.check()
            self.slot.put(np.zeros((20, 20, 3), np.uint8), time.monotonic())
            messages.append(self.thread.failing)
            assert time.monotonic() < end, "waited in vain"
            time.sleep(0.005)
        return dict.fromkeys(messages)


def deep_residual(blocks=16, channels=8, classes=5):
    """A residual network; weights have a mean below 0, so only biases hold activations up."""
    rng = np.random.default_rng(3)
    picture = keras.Input((16, 16, 3))
    x = layers.Conv2D(channels, 3, padding="same", activation="relu", name="stem")(picture)
    for number in range(blocks):
        y = layers.Conv2D(channels, 3, padding="same", name=f"conv{number}")(x)
        y = layers.BatchNormalization(name=f"bn{number}")(y)
        x = layers.Add()([x, layers.ReLU()(y)])
        x = layers.ReLU()(layers.Conv2D(channels, 1, name=f"mix{number}")(x))
    x = layers.GlobalAveragePooling2D()(x)
    model = keras.Model(picture, layers.Dense(classes, activation="softmax", name="out")(x))
    for layer in model.layers:
        if isinstance(layer, layers.BatchNormalization):
            gamma, beta, mean, variance = layer.get_weights()
            layer.set_weights([gamma, beta + 0.3, mean - 0.1, variance])
        elif layer.weights:
            kernel, bias = layer.get_weights()
            spread = 1 / np.sqrt(np.prod(kernel.shape[:-1]))
            layer.set_weights(
                [rng.normal(-0.3 * spread, spread, kernel.shape), rng.uniform(0.2, 0.6, bias.shape)]
            )
    return model
