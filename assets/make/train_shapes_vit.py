"""Trains the vision transformer `shapes_vit` on pictures such as `shapes` is trained on.

A transformer that is only told the names of pictures needs far more of them than we can draw in
minutes. So its first convolutions are those of `shapes`, which must be there, and stay as they are.
And because it is known exactly where the symbol is, the training adds a second loss: from each
token before the last encoder, a dense layer, which is thrown away later, has to name the symbol
whose ink the token's cell holds, or "nothing". No loss looks at attention weights or maps.
"""

import keras
import tensorflow as tf
from shapes_vit import DEPTH, ROWS, STEM, WIDTH, build_shapes_vit
from train_shapes import Plan, Step, train_in_stages, varied

from realtime_lrp.models.drawings import CLASSES, NOTHING
from realtime_lrp.models.names import FILES

STAGES = (
    Plan(seed=11, batches=16, kept=16, uses=1, rate=1e-3, quiet=1.0, sizes=(0.2, 0.74)),
    Plan(seed=12, batches=12, kept=12, uses=1, rate=8e-4, quiet=1.0, nothings=2),
    Plan(seed=12, batches=12, kept=12, uses=2, rate=5e-4, quiet=1.0, nothings=2),
)
"""The second stage adds the smallest and largest symbols, and more of "nothing"; the third goes on
with the same pictures."""


def train(stages: tuple[Plan, ...] = STAGES) -> keras.Model:
    """Trains `shapes_vit` and returns it as an uncompiled float32 model."""
    trained = train_in_stages(_build, _make_step, stages)
    trained.trainable = True
    return trained


def _build() -> keras.Model:
    """The untrained network with the convolutions of `shapes`, which are not trained."""
    model = build_shapes_vit()
    for layer in keras.models.load_model(FILES["shapes"], compile=False).layers:
        if any(layer.name.startswith(f"block{k}_conv") for k in range(1, len(STEM) + 1)):
            model.get_layer(layer.name).set_weights(layer.get_weights())
            model.get_layer(layer.name).trainable = False
    return model


def _make_step(model: keras.Model, plan: Plan) -> Step:
    rate = keras.optimizers.schedules.CosineDecay(
        plan.rate / 20, plan.steps, warmup_target=plan.rate, warmup_steps=plan.steps // 10
    )
    optimizer = keras.optimizers.AdamW(rate, weight_decay=0.02, clipnorm=1.0)
    tokens = model.get_layer(f"encoder{DEPTH - 1}_add2").output
    watched = keras.Model(model.input, [model.output, tokens])
    head = keras.Sequential(
        [keras.layers.LayerNormalization(), keras.layers.Dense(len(CLASSES), dtype="float32")]
    )
    head.build((None, ROWS * ROWS, WIDTH))
    trained = [*model.trainable_variables, *head.trainable_variables]
    optimizer.build(trained)

    @tf.function
    def step(
        pixels: tf.Tensor, masks: tf.Tensor, labels: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        images = varied(tf.cast(pixels, tf.float32))
        with tf.GradientTape() as tape:
            scores, tokens = watched(images, training=True)
            naming = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(labels, scores))
            of_tokens = _naming_of_tokens(head(tokens[:, 1:]), masks, labels)
            loss = naming + plan.quiet * of_tokens
        optimizer.apply(tape.gradient(loss, trained), trained)
        right = tf.reduce_mean(tf.cast(tf.argmax(scores, -1) == labels, tf.float32))
        return naming, right, of_tokens

    return step


def _naming_of_tokens(logits: tf.Tensor, masks: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Mean cross-entropy on tokens with ink, plus that on those without.

    Args:
        logits: float32 [N, ROWS * ROWS, classes].
        masks: uint8 [N, 64, 64, 1], 1 in the cells with ink.
        labels: int64 [N].
    """
    cells = 64 // ROWS
    near = tf.nn.max_pool2d(tf.cast(masks, tf.float32), cells, cells, "VALID")
    near = tf.reshape(near, [-1, ROWS * ROWS])
    wanted = tf.where(near > 0, labels[:, None], NOTHING)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(wanted, logits)
    means = [
        tf.reduce_sum(losses * part) / (tf.reduce_sum(part) + 1.0) for part in (near, 1 - near)
    ]
    return tf.add_n(means)
