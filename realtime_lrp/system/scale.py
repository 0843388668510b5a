"""How relevance becomes a strength, wherever it is drawn."""

import numpy as np

PERCENTILE = 99.5  # end of the scale, so that a few large entries do not darken the rest
SOFTNESS = 0.75  # strength is (|relevance| / scale) ** SOFTNESS; weak relevance shows
FULL = 127  # full strength, as a byte


def end_of(magnitude: np.ndarray) -> float:
    """The end of the scale of magnitudes; 1 where all are 0."""
    return float(np.percentile(magnitude, PERCENTILE) or magnitude.max()) or 1.0
