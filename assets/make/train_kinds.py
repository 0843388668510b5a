"""Trains small networks with the blocks of `keras.applications`, to compare composites on.

Each sees 64 x 64 pixels, has 8 x 8 places at the end, and is told nothing but the names of the
drawn symbols. docs/evaluation.md has what was found.

`python assets/make/train_kinds.py FOLDER [KIND...]` writes KIND.keras into the folder; then
`realtime-lrp evaluate --model FOLDER/KIND.keras` measures the maps.
"""

import argparse
import logging
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from drawing.batch import draw_batch
from keras import KerasTensor, layers
from train_shapes import varied

from realtime_lrp.models.drawings import CLASSES

logger = logging.getLogger(__name__)

SIZE = 64
STAGES = ((16, 1), (32, 2), (64, 2))
"""Channels of each stage, and the stride of the first of its two blocks; the stem halves too."""

SEED, BATCHES, DRAWN, USES, STEP = 41, 12, 2000, 2, 64
RATE = 2e-3

Block = Callable[[KerasTensor, int, int], KerasTensor]
"""(input, channels, stride) -> output."""


def _normalised(x: KerasTensor, activation: str | None) -> KerasTensor:
    x = layers.BatchNormalization()(x)
    if activation == "relu6":
        return layers.ReLU(6.0)(x)
    return x if activation is None else layers.Activation(activation)(x)


def _convolved(
    x: KerasTensor, channels: int, size: int, stride: int, activation: str | None
) -> KerasTensor:
    x = layers.Conv2D(channels, size, stride, "same", use_bias=False)(x)
    return _normalised(x, activation)


def _residual(x: KerasTensor, channels: int, stride: int) -> KerasTensor:
    """Two convolutions beside a shortcut (ResNet, He et al. 2016)."""
    y = _convolved(x, channels, 3, stride, "relu")
    y = _convolved(y, channels, 3, 1, None)
    if x.shape != y.shape:
        x = _convolved(x, channels, 1, stride, None)
    return layers.ReLU()(layers.Add()([x, y]))


def _inverted(activation: str, gate: str | None) -> Block:
    """Widened, convolved by depth, narrowed (MobileNetV2, Sandler et al. 2018).

    With a `gate` the channels are weighted by what their mean says (squeeze-and-excite, Hu et al.
    2018), as in MobileNetV3 and EfficientNet.
    """

    def block(x: KerasTensor, channels: int, stride: int) -> KerasTensor:
        wide = 4 * x.shape[-1]
        y = _convolved(x, wide, 1, 1, activation)
        y = layers.DepthwiseConv2D(3, stride, "same", use_bias=False)(y)
        y = _normalised(y, activation)
        if gate is not None:
            excited = layers.GlobalAveragePooling2D(keepdims=True)(y)
            squeeze = "relu" if gate == "hard_sigmoid" else activation
            excited = layers.Conv2D(wide // 4, 1, activation=squeeze)(excited)
            y = layers.Multiply()([y, layers.Conv2D(wide, 1, activation=gate)(excited)])
        y = _convolved(y, channels, 1, 1, None)
        return layers.Add()([x, y]) if x.shape == y.shape else y

    return block


KINDS: dict[str, tuple[str, Block]] = {
    "resnet": ("relu", _residual),
    "mobilenet_v2": ("relu6", _inverted("relu6", None)),
    "mobilenet_v3": ("hard_silu", _inverted("hard_silu", "hard_sigmoid")),
    "efficientnet": ("silu", _inverted("silu", "sigmoid")),
}
"""Family -> activation after the stem, and its block."""


def build(kind: str) -> keras.Model:
    """The untrained network of a kind, uncompiled; takes RGB from 0 to 255."""
    activation, block = KINDS[kind]
    image = keras.Input((SIZE, SIZE, 3))
    x = layers.Rescaling(1 / 127.5, offset=-1.0)(image)
    x = _convolved(x, STAGES[0][0], 3, 2, activation)
    for channels, stride in STAGES:
        x = block(block(x, channels, stride), channels, 1)
    if kind != "resnet":
        x = _convolved(x, 4 * x.shape[-1], 1, 1, activation)
    x = layers.GlobalAveragePooling2D()(x)
    scores = layers.Dense(len(CLASSES), activation="softmax")(x)
    return keras.Model(image, scores, name=kind)


def train(kind: str, pixels: np.ndarray, labels: np.ndarray) -> keras.Model:
    """Trains a network of a kind on drawings, uint8 [N, 64, 64, 3] RGB, with labels [N]."""
    keras.utils.set_random_seed(SEED)
    model = build(kind)
    steps = USES * len(labels) // STEP
    rate = keras.optimizers.schedules.CosineDecay(
        RATE / 20, steps, warmup_target=RATE, warmup_steps=steps // 10
    )
    model.compile(
        keras.optimizers.AdamW(rate, weight_decay=0.02, clipnorm=1.0),
        "sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    pictures = (
        tf.data.Dataset.from_tensor_slices((pixels, labels))
        .shuffle(len(labels), seed=SEED)
        .repeat(USES)
        .batch(STEP, drop_remainder=True)
        .map(lambda x, y: (varied(tf.cast(x, tf.float32)), y))
        .prefetch(2)
    )
    model.fit(pictures, verbose=2)
    return model


def main(arguments: list[str] | None = None) -> None:
    """The command line: a folder, and the kinds to train, else all."""
    parser = argparse.ArgumentParser(prog="train_kinds", description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    with ProcessPoolExecutor(2) as pool:
        seeds = [(SEED, number) for number in range(BATCHES + 1)]
        *drawn, new = pool.map(partial(draw_batch, count=DRAWN, size=SIZE), seeds)
    pixels = np.concatenate([batch.pixels for batch in drawn])
    labels = np.concatenate([batch.labels for batch in drawn])
    for kind in options.kinds or KINDS:
        model = train(kind, pixels, labels)
        answers = model.predict(new.pixels.astype(np.float32), verbose=0).argmax(axis=-1)
        right = float(np.mean(answers == new.labels))
        model.save(options.folder / f"{kind}.keras", include_optimizer=False)
        logger.info("%s: %d weights, right on %.3f", kind, model.count_params(), right)


if __name__ == "__main__":
    main()
