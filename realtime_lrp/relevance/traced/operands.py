"""What operations read: tensors of the picture, and constants that fit a batch of any size."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from realtime_lrp.relevance.traced.chains import of_any_batch
from realtime_lrp.relevance.traced.reading import Reader
from realtime_lrp.relevance.traced.steps import kept_shape
from realtime_lrp.relevance.traced.tracing import BATCH
from realtime_lrp.relevance.traced.values import MIXES, CannotReadError, Held, compute_of


def shapes_of(operation: tf.Operation, held: Sequence[Held], index: int = 0) -> list[Sequence[int]]:
    """The shapes of an operation's inputs and of one output, as they were traced.

    Raises:
      CannotReadError: the first axis of the output does not hold the pictures.
    """
    try:
        kept_shape(operation.outputs[index].shape)
    except ValueError as error:
        raise CannotReadError(str(error)) from None
    return [*(one.shape for one in held), operation.outputs[index].shape]


def compute_with_constants(
    reader: Reader, operation: tf.Operation, index: int = 0
) -> Callable[..., tf.Tensor]:
    """What an operation computes from those inputs that depend on the picture.

    Args:
      reader: knows the constants.
      operation: the operation.
      index: which of its outputs.
    """
    run = compute_of(operation)
    constants = [reader.constant(tensor) for tensor in operation.inputs]
    turned = [reader.turned(tensor) for tensor in operation.inputs]
    rank = max(
        len(tensor.shape)
        for tensor, constant in zip(operation.inputs, constants, strict=True)
        if constant is None
    )
    operands = [
        None if constant is None else _for_batch(constant, rank, (operation.type, position))
        for position, constant in enumerate(constants)
    ]

    def compute(*inputs: tf.Tensor) -> tf.Tensor:
        batch, given = tf.shape(inputs[0])[0], iter(inputs)
        read = [next(given) if one is None else one(batch) for one in operands]
        moved = zip(read, turned, strict=True)
        result = run(*(a if one is None else one.move(a) for a, one in moved))
        return result[index] if isinstance(result, list | tuple) else result

    return compute


_SIZES = {("BroadcastTo", 1), ("Slice", 2), ("StridedSlice", 2)}
"""Type of an operation and the position of an input that holds sizes or ends, the batch first."""


def _for_batch(
    value: tf.Tensor, rank: int, place: tuple[str, int]
) -> Callable[[tf.Tensor], tf.Tensor]:
    """What an operation reads in place of a constant: batch size -> tensor.

    Args:
      value: the constant, as it is for the traced batch.
      rank: the number of axes of the tensors that it is read beside.
      place: the type of the operation, and the position of the constant among its inputs.

    Raises:
      CannotReadError: the batch is joined with several axes.
    """
    if place == ("Reshape", 1):
        joined = [size for size in value.numpy() if size > 0 and size % BATCH == 0]
        if not joined and -1 in value.numpy():
            return lambda batch: value
        if len(joined) != 1:
            raise CannotReadError(MIXES)
        open_size = tf.where(value == joined[0], -1, value)
        return lambda batch: open_size
    if place in _SIZES and value.shape.rank == 1 and value.shape[0] and value[0] == BATCH:
        return lambda batch: tf.concat([tf.cast(batch[None], value.dtype), value[1:]], 0)
    if value.dtype.is_floating and value.shape.rank == rank and value.shape[0] == BATCH:
        single = of_any_batch(value, value.shape)
        return lambda batch: tf.repeat(single, batch, 0)
    held = tf.cast(value, tf.float32) if value.dtype.is_floating else value
    return lambda batch: held
