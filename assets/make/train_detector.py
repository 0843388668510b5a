"""Trains the network `shapes_detector` on scenes drawn by `drawing.scene`.

A place near the middle of a symbol answers for it. As in CenterNet (Zhou et al. 2019, eq. 1) the
other places near it are wrong by less, and as in `train_shapes` deep layers learn to be silent
where there is no ink, so that maps point at symbols.

The seeds fix the scenes, the first weights and the order; only the order in which threads add
numbers stays random.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context

import cv2
import keras
import numpy as np
import tensorflow as tf
from drawing.scene import MOST, draw_scene
from shapes_detector import COLUMNS, ROWS, STRIDE, build_shapes_detector, centres
from train_shapes import varied

from realtime_lrp.models.drawings import NOTHING
from realtime_lrp.relevance.maps.detections import intersection_over_union

logger = logging.getLogger(__name__)

QUIET_LAYERS = {"block3_conv2": 0.3, "block4_conv2": 0.5, "block5_conv2": 0.5, "joined_conv2": 1.0}
"""Layer that has to be silent where there is no ink -> its weight in the third loss."""

SPREAD = 6.0
"""A box is that many standard deviations of what its places answer for, in each direction."""

NEAR = 0.4
"""The least answer for a symbol with which a place learns where its box is."""

Scenes = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Pixels uint8 [N, H, W, 3], ink uint8 [N, H / 4, W / 4] from 0 to 255, and symbols float32 [N,
MOST, 5]: y0, x0, y1, x1, label; -1 where there is none."""


@dataclass(frozen=True)
class Plan:
    """The training: `scenes` are drawn by `workers`; each gradient step takes `step` of them.

    `stages` has, for each stage, its steps and its largest learning rate; `quiet` is the weight of
    the third loss.
    """

    seed: int = 7
    scenes: int = 24_000
    workers: int = 2
    step: int = 32
    stages: tuple[tuple[int, float], ...] = ((4200, 2e-3), (1500, 8e-4))
    quiet: float = 0.15


def draw_scenes(seed: tuple[int, ...], count: int) -> Scenes:
    """Draws scenes as the network sees them; the same seed gives the same."""
    cv2.setNumThreads(1)
    pixels = np.zeros((count, ROWS * STRIDE, COLUMNS * STRIDE, 3), np.uint8)
    ink = np.zeros((count, ROWS * 2, COLUMNS * 2), np.uint8)
    symbols = np.full((count, MOST, 5), -1, np.float32)
    for number in range(count):
        scene = draw_scene(np.random.default_rng([*seed, number]), COLUMNS * STRIDE)
        pixels[number] = scene.pixels
        ink[number] = cv2.resize(
            scene.ink.astype(np.uint8) * 255, ink.shape[:0:-1], interpolation=cv2.INTER_AREA
        )
        symbols[number, : len(scene.labels), :4] = scene.boxes
        symbols[number, : len(scene.labels), 4] = scene.labels
    return pixels, ink, symbols


def train(plan: Plan = Plan()) -> keras.Model:
    """Trains `shapes_detector` in bfloat16 and returns it as an uncompiled float32 model."""
    with get_context("spawn").Pool(plan.workers) as pool:
        parts = [((plan.seed, part), plan.scenes // plan.workers) for part in range(plan.workers)]
        drawn = pool.starmap(draw_scenes, parts)
    scenes = tuple(np.concatenate(part) for part in zip(*drawn, strict=True))
    return train_on(scenes, plan)


def train_on(scenes: Scenes, plan: Plan) -> keras.Model:
    """Trains on scenes; logs the losses every 200 steps."""
    weights = None
    for stage in range(len(plan.stages)):
        weights = run_stage(scenes, plan, stage, weights)
    trained = build_shapes_detector()
    trained.set_weights(weights)
    return trained


def run_stage(
    scenes: Scenes, plan: Plan, stage: int, weights: list[np.ndarray] | None
) -> list[np.ndarray]:
    """Trains a new network, or one that starts from `weights`; returns its weights."""
    keras.utils.set_random_seed(plan.seed)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    model = build_shapes_detector()
    keras.config.set_dtype_policy(before)
    if weights is not None:
        model.set_weights(weights)
    steps, rate = plan.stages[stage]
    step, rng = _make_step(model, plan.quiet, steps, rate), np.random.default_rng(plan.seed + stage)
    losses = []
    for number in range(1, steps + 1):
        chosen = rng.integers(0, len(scenes[0]), plan.step)
        pixels, ink, symbols = (part[chosen] for part in scenes)
        if rng.integers(0, 2):
            pixels, ink, symbols = mirrored(pixels, ink, symbols)
        losses.append(step(*map(tf.constant, (pixels, ink, symbols))))
        if number % 200 == 0:
            text = ", ".join(f"{value:.4f}" for value in np.mean(losses, axis=0))
            logger.info("step %d of %d: naming, boxes, quiet: %s", number, steps, text)
            losses.clear()
    return model.get_weights()


def mirrored(pixels: np.ndarray, ink: np.ndarray, symbols: np.ndarray) -> Scenes:
    """The scenes as in a mirror."""
    turned = symbols.copy()
    turned[..., 1], turned[..., 3] = (
        np.where(symbols[..., 4] < 0, -1, COLUMNS * STRIDE - symbols[..., side]) for side in (3, 1)
    )
    return pixels[:, :, ::-1], ink[:, :, ::-1], turned


def answers(symbols: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """What places should say of symbols [B, MOST, 5].

    Returns the answers from 0 to 1, [B, places, NOTHING], 1 at the place nearest to the middle of a
    symbol; for each place the box of the symbol that it answers for, [B, places, 4]; and how much
    it answers for it, [B, places].
    """
    there = symbols[..., 4:] >= 0
    middle = (symbols[..., :2] + symbols[..., 2:4]) / 2
    spread = tf.maximum((symbols[..., 2:4] - symbols[..., :2]) / SPREAD, 0.6 * STRIDE)
    places = tf.constant(centres()[..., :2].reshape(1, 1, -1, 2))
    nearest = tf.floor(middle / STRIDE) * STRIDE + STRIDE / 2
    nearest = tf.clip_by_value(nearest, STRIDE / 2, [ROWS * STRIDE - 4.0, COLUMNS * STRIDE - 4.0])
    far = (places - nearest[:, :, None]) / spread[:, :, None]
    by_symbol = tf.exp(-tf.reduce_sum(far**2, -1) / 2) * tf.cast(there, tf.float32)
    labels = tf.one_hot(tf.cast(symbols[..., 4], tf.int32), NOTHING)
    by_label = tf.reduce_max(by_symbol[..., None] * labels[:, :, None], 1)
    best = tf.argmax(by_symbol, 1)
    return by_label, tf.gather(symbols[..., :4], best, batch_dims=1), tf.reduce_max(by_symbol, 1)


def naming_loss(scores: tf.Tensor, wanted: tf.Tensor) -> tf.Tensor:
    """The focal loss that forgives places near the middle, for each symbol."""
    p = tf.clip_by_value(scores, 1e-6, 1 - 1e-6)
    middle = tf.cast(wanted > 0.999, tf.float32)
    right = middle * (1 - p) ** 2 * tf.math.log(p)
    wrong = (1 - wanted) ** 4 * (1 - middle) * p**2 * tf.math.log(1 - p)
    return -tf.reduce_sum(right + wrong) / (tf.reduce_sum(middle) + 1)


def box_loss(boxes: tf.Tensor, wanted: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    """1 - overlap, and the distances of the sides in proportion to the box, at places nearby."""
    weight = tf.where(weight > NEAR, weight, 0)
    size = tf.maximum(wanted[..., 2:] - wanted[..., :2], STRIDE)
    apart = tf.reduce_mean(tf.abs(boxes - wanted) / tf.concat([size, size], -1), -1)
    each = 1 - intersection_over_union(boxes, wanted) + tf.minimum(apart, 2)
    return tf.reduce_sum(weight * each) / (tf.reduce_sum(weight) + 1)


def _make_step(
    model: keras.Model, quiet_weight: float, steps: int, rate: float
) -> Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]:
    """(pixels, ink, symbols) -> the three losses, float32 [3], after one gradient step."""
    schedule = keras.optimizers.schedules.CosineDecay(
        rate / 20, steps, warmup_target=rate, warmup_steps=200
    )
    optimizer = keras.optimizers.AdamW(schedule, weight_decay=1e-4, clipnorm=5.0)
    optimizer.build(model.trainable_variables)
    features = [model.get_layer(name).output for name in QUIET_LAYERS]
    watched = keras.Model(model.input, [model.output["boxes"], model.output["scores"], *features])

    @tf.function
    def step(pixels: tf.Tensor, ink: tf.Tensor, symbols: tf.Tensor) -> tf.Tensor:
        images = varied(tf.cast(pixels, tf.float32))
        wanted, wanted_boxes, weight = answers(symbols)
        with tf.GradientTape() as tape:
            boxes, scores, *inside = watched(images, training=True)
            naming = naming_loss(scores, wanted)
            sides = box_loss(boxes, wanted_boxes, weight)
            quiet = _without_ink(inside, tf.cast(ink[..., None] > 16, tf.float32))
            share = tf.stop_gradient(tf.clip_by_value(1 - naming / 3, 0, 1))
            loss = naming + sides + quiet_weight * share * quiet
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return tf.stack([naming, sides, quiet])

    return step


def _without_ink(features: list[tf.Tensor], ink: tf.Tensor) -> tf.Tensor:
    """The share of activation where there is no ink nearby, weighted over the layers."""
    outside = tf.constant(0.0)
    for weight, feature in zip(QUIET_LAYERS.values(), features, strict=True):
        activity = tf.reduce_sum(tf.cast(feature, tf.float32), axis=-1, keepdims=True)
        cells = ink.shape[1] // feature.shape[1]
        near = tf.nn.max_pool2d(ink, cells, cells, "SAME")
        near = tf.nn.max_pool2d(near, 3, 1, "SAME")
        outside += weight * tf.reduce_sum(activity * (1 - near)) / (tf.reduce_sum(activity) + 1e-3)
    return outside
