"""What an explainer returns: scores and maps of a batch of pictures."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Explanation:
    """Scores and relevance of a batch.

    Attributes:
      scores: float32 [B, classes], the output: probabilities where it is a softmax or sigmoid.
      relevance: float32 [B, H, W, C], raw: not normalised, not pooled.
      maps: the additional maps that were asked for, by name, each like `relevance`.
    """

    scores: np.ndarray
    relevance: np.ndarray
    maps: dict[str, np.ndarray] = field(default_factory=dict)
