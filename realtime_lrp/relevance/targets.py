"""What is explained: all classes, the winner, one class, or one class against another.

Relevance starts at the output with `weights * score`, where the scores are the softmax output.
A target is data, never code: changing it does not retrace the compiled function.
"""

import operator
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from realtime_lrp.errors import UsageError, nearest


@dataclass(frozen=True)
class Target:
    """A resolved target.

    Attributes:
      weights: float32 [classes], the factor of each class's score.
      top1: whether only the class with the highest score of each picture counts.
    """

    weights: np.ndarray
    top1: bool = False


def start(scores: tf.Tensor, weights: tf.Tensor, top1: tf.Tensor) -> tf.Tensor:
    """The relevance at the output.

    Args:
      scores: float32 [B, classes].
      weights: float32 [classes].
      top1: bool scalar.

    Returns:
      float32 [B, classes].
    """
    winner = tf.one_hot(tf.argmax(scores, axis=-1), tf.shape(scores)[-1], dtype=scores.dtype)
    return scores * weights * tf.where(top1, winner, tf.ones_like(winner))


class TargetResolver:
    """Turns what a user writes into a `Target`.

    Args:
      classes: the number of outputs.
      labels: their names in order, or None.
    """

    def __init__(self, classes: int, labels: Sequence[str] | None = None):
        self._classes = classes
        self._labels = labels
        self._by_name = defaultdict(list)
        for index, name in enumerate(labels or ()):
            self._by_name[_plain(name)].append(index)

    def __call__(self, target: str | int) -> Target:
        """Resolves "all", "top1", a class's index or name, or "A - B".

        Raises:
          UsageError: there is no such class, or its name occurs twice.
        """
        ones = np.ones(self._classes, np.float32)
        if target == "all":
            return Target(ones)
        if target == "top1":
            return Target(ones, top1=True)
        if isinstance(target, str) and " - " in target and _plain(target) not in self._by_name:
            plus, minus = target.split(" - ", 1)
            return Target(self._one(self.index(plus)) - self._one(self.index(minus)))
        return Target(self._one(self.index(target)))

    def index(self, target: str | int) -> int:
        """The index of one class, given by index or name.

        Raises:
          UsageError: there is no such class, or its name occurs twice.
        """
        if isinstance(target, str) and not re.fullmatch(r"\s*-?[0-9]+\s*", target):
            return self._index_of_name(target)
        try:
            index = int(target) if isinstance(target, str) else operator.index(target)
        except TypeError:
            raise UsageError(f"Expected a class by name or index. Received {target!r}.") from None
        if not 0 <= index < self._classes:
            raise UsageError(
                f"There is no class {index}. The model has the classes 0 to {self._classes - 1}.",
                "class",
            )
        return index

    def _one(self, index: int) -> np.ndarray:
        weights = np.zeros(self._classes, np.float32)
        weights[index] = 1.0
        return weights

    def _index_of_name(self, name: str) -> int:
        if not self._labels:
            raise UsageError(
                f"There is no class {name!r}: the class names are not known. Expected all, top1 "
                f"or an index from 0 to {self._classes - 1}; names need labels (--labels FILE).",
                "class",
            )
        found = self._by_name.get(_plain(name), [])
        if len(found) > 1:
            listed = " or ".join(map(str, found))
            raise UsageError(f"The class {name!r} occurs twice. Use its index: {listed}.", "class")
        if not found:
            close = nearest(name, self._labels)
            hint = (
                f"Did you mean {close!r}?" if close else "Expected all, top1, a name or an index."
            )
            raise UsageError(f"There is no class {name!r}. {hint}", "class")
        return found[0]


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", " ")
