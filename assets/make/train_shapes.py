"""Trains the network `shapes` on pictures drawn by `drawing`.

Maps of the z+ rule follow the positive weights only: whatever is active in a deep layer gets
relevance, even if negative weights cancel it later. A network that has only learnt to name the
symbol therefore gives relevance to the clutter behind it. Because it is known exactly where the
symbol is, the training adds a second loss: the share of the deep layers' activation that is outside
the symbol. On pictures of "nothing", all activation is outside. So the deep layers learn to be
silent outside the symbol, and the maps point at it.

The seeds fix the pictures, the first weights and the order of the pictures; only the order in which
threads add numbers stays random.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf
from drawing import SIZES
from drawing.batch import Batch, draw_batches
from shapes import build_shapes

logger = logging.getLogger(__name__)

QUIET_LAYERS = {"block2_conv2": 0.1, "block3_conv2": 0.3, "block4_conv2": 0.6, "block5_conv2": 1.0}
"""Layer that has to be silent outside the symbol -> its weight in the second loss."""

Step = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor, tf.Tensor]]
"""(pixels, masks, labels) -> (naming loss, accuracy, second loss) of one gradient step."""


@dataclass(frozen=True)
class Plan:
    """One stage of the training.

    Attributes:
        seed: random seed of the pictures, the weights and the order.
        batches: how many batches of new pictures are drawn.
        drawn: pictures in each of these batches.
        kept: batches that are kept for use at one time.
        uses: how often each picture is used on average.
        step: pictures in one gradient step.
        rate: the largest learning rate.
        quiet: weight of the second loss.
        nothings: how many pictures of "nothing" there are for each picture of one symbol.
        sizes: the smallest and the largest symbol, see `SIZES`.
    """

    seed: int = 1
    batches: int = 46
    drawn: int = 2000
    kept: int = 15
    uses: int = 4
    step: int = 64
    rate: float = 1.2e-3
    quiet: float = 0.35
    nothings: int = 1
    sizes: tuple[float, float] = SIZES

    @property
    def steps(self) -> int:
        """Gradient steps in all."""
        return self.batches * self.steps_per_batch

    @property
    def steps_per_batch(self) -> int:
        """Gradient steps after each new batch."""
        return self.drawn * self.uses // self.step


STAGES = (
    Plan(sizes=(0.2, 0.74)),
    Plan(seed=2, batches=24, rate=6e-4, nothings=2),
    Plan(seed=3, batches=27, uses=3, rate=3e-4, nothings=2),
)
"""The later stages add the smallest and largest symbols, and more of "nothing"."""


def train(stages: tuple[Plan, ...] = STAGES) -> keras.Model:
    """Trains `shapes` and returns it as an uncompiled float32 model."""
    return train_in_stages(build_shapes, _make_step, stages)


def train_in_stages(
    build: Callable[[], keras.Model],
    make_step: Callable[[keras.Model, Plan], Step],
    stages: tuple[Plan, ...],
) -> keras.Model:
    """Trains a network in bfloat16, stage by stage.

    Args:
        build: makes the untrained network.
        make_step: (network, stage) -> what one gradient step does.
        stages: each starts from the weights of the one before it.

    Returns:
        An uncompiled float32 model.
    """
    weights = None
    for plan in stages:
        weights = _run_stage(build, make_step, plan, weights)
    trained = build()
    trained.set_weights(weights)
    return trained


def _run_stage(
    build: Callable[[], keras.Model],
    make_step: Callable[[keras.Model, Plan], Step],
    plan: Plan,
    weights: list[np.ndarray] | None,
) -> list[np.ndarray]:
    """Trains a new network, or one that starts from `weights`; returns its weights."""
    keras.utils.set_random_seed(plan.seed)
    model = _in_bfloat16(build)
    if weights is not None:
        model.set_weights(weights)
    step = make_step(model, plan)
    for k, (pixels, masks, labels) in enumerate(_steps(plan), 1):
        losses = step(tf.constant(pixels), tf.constant(masks), tf.constant(labels))
        if k % plan.steps_per_batch == 0:
            text = ", ".join(f"{float(value):.4f}" for value in losses)
            logger.info(
                "step %d of %d: naming loss, accuracy, second loss: %s", k, plan.steps, text
            )
    return model.get_weights()


def _in_bfloat16(build: Callable[[], keras.Model]) -> keras.Model:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        return build()
    finally:
        keras.config.set_dtype_policy(before)


def _steps(plan: Plan) -> Iterator[tuple[np.ndarray, ...]]:
    """Yields pixels uint8, masks uint8 [N, 64, 64, 1] (see `_cells_with_ink`) and labels."""
    rng = np.random.default_rng(plan.seed)
    kept: deque[tuple[np.ndarray, ...]] = deque(maxlen=plan.kept)
    drawn = draw_batches(
        plan.seed, plan.batches, plan.drawn, nothings=plan.nothings, sizes=plan.sizes
    )
    for batch in drawn:
        kept.append((batch.pixels, _cells_with_ink(batch), batch.labels))
        for _ in range(plan.steps_per_batch):
            which = rng.integers(0, len(kept), plan.step)
            index = rng.integers(0, plan.drawn, plan.step)
            flip = 1 - 2 * rng.integers(0, 2, plan.step)
            chosen = [_picture(kept[w], i, f) for w, i, f in zip(which, index, flip, strict=True)]
            yield tuple(np.stack(part) for part in zip(*chosen, strict=True))


def _picture(batch: tuple[np.ndarray, ...], index: int, flip: int) -> tuple[np.ndarray, ...]:
    """One picture with its mask and its label; mirrored if `flip` is -1."""
    pixels, masks, labels = batch
    return pixels[index, :, ::flip], masks[index, :, ::flip], labels[index]


def _cells_with_ink(batch: Batch) -> np.ndarray:
    """uint8 [N, 64, 64, 1]: 1 in the cells of 2 x 2 pixels that hold ink."""
    count, size = batch.mask.shape[:2]
    cells = batch.mask.reshape(count, size // 2, 2, size // 2, 2)
    return cells.max(axis=(2, 4))[..., None].astype(np.uint8)


def _make_step(model: keras.Model, plan: Plan) -> Step:
    rate = keras.optimizers.schedules.CosineDecay(
        plan.rate / 20, plan.steps, warmup_target=plan.rate, warmup_steps=200
    )
    optimizer = keras.optimizers.Adam(rate, clipnorm=1.0)
    optimizer.build(model.trainable_variables)
    watched = keras.Model(
        model.input, [model.output, *(model.get_layer(n).output for n in QUIET_LAYERS)]
    )

    @tf.function
    def step(
        pixels: tf.Tensor, masks: tf.Tensor, labels: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        images = varied(tf.cast(pixels, tf.float32))
        with tf.GradientTape() as tape:
            scores, *features = watched(images, training=True)
            naming = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(labels, scores))
            outside = _outside_symbol(features, tf.cast(masks, tf.float32))
            loss = naming + plan.quiet * _second_loss_share(naming) * outside
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        right = tf.reduce_mean(tf.cast(tf.argmax(scores, -1) == labels, tf.float32))
        return naming, right, outside

    return step


def varied(images: tf.Tensor) -> tf.Tensor:
    """The images, float32 [N, 128, 128, 3], in random light of a random colour."""
    count = tf.shape(images)[0]
    light = tf.random.normal((count, 1, 1, 1), 1.0, 0.12)
    colour = tf.random.normal((count, 1, 1, 3), 1.0, 0.06)
    return tf.minimum(images * (light * colour), 255.0)


def _second_loss_share(naming: tf.Tensor) -> tf.Tensor:
    """0 as long as the network names nothing, almost 1 once it names well.

    With the full second loss from the start, the network would learn to be silent everywhere.
    """
    return tf.stop_gradient(tf.clip_by_value(1.0 - naming / 2.0, 0.0, 1.0))


def _outside_symbol(features: list[tf.Tensor], masks: tf.Tensor) -> tf.Tensor:
    """The share of activation outside the symbol: weighted over the layers, for the whole batch."""
    outside = tf.constant(0.0)
    for weight, feature in zip(QUIET_LAYERS.values(), features, strict=True):
        activity = tf.reduce_sum(tf.cast(feature, tf.float32), axis=-1, keepdims=True)
        cells = 64 // feature.shape[1]
        near = tf.nn.max_pool2d(masks, cells, cells, "SAME") if cells > 1 else masks
        off = tf.reduce_sum(activity * (1 - near))
        outside += weight * off / (tf.reduce_sum(activity) + 1e-3)
    return outside
