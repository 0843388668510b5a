"""Relevance as a multiple of the tensor that it belongs to."""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf


class Multiple(NamedTuple):
    """Relevance of which a rule knows by what the tensor that it belongs to was multiplied.

    The next rule in proportion would have to divide by that tensor again. What nobody reads of the
    two costs nothing: TensorFlow leaves it out.

    Attributes:
      relevance: the tensor times the factor.
      factor: shaped like it.
    """

    relevance: tf.Tensor
    factor: tf.Tensor


def relevance_of(arriving: tf.Tensor | Multiple) -> tf.Tensor:
    """Relevance as a tensor."""
    return arriving.relevance if isinstance(arriving, Multiple) else arriving


Handed = Sequence[tf.Tensor | Multiple | None]
