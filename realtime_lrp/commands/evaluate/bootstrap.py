"""How sure the figures are: intervals by the bootstrap over pictures.

Pictures are drawn anew, with replacement, `RESAMPLES` times; the middle 95 % of the means that this
gives are the interval (percentile bootstrap, Efron and Tibshirani 1993). Pictures that were made of
one photo resemble each other, so they are drawn together. Two rows are compared by the differences
on the same pictures, which vary less than the rows themselves.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

RESAMPLES = 2000
SEED = 95
LEVEL = 0.95

FEWEST = 6
"""With fewer photos nothing can be said: five that agree do so by chance in 1 of 16 cases
(two-sided sign test), and the interval of one or two photos means nothing."""

Interval = tuple[float, float]


class Difference(NamedTuple):
    """How far two rows are apart, first - second, on the n pictures that have a value of both."""

    first: str
    second: str
    n: int
    mean: float
    interval: Interval


def intervals(values: np.ndarray, photos: Sequence[str] | None = None) -> list[Interval | None]:
    """The interval of the mean of each column of values, float [N, columns]; NaN is left out.

    `photos` names the photo of each of at least N pictures; None where each has its own. A column
    of nothing but NaN has no interval.
    """
    names = photos[: len(values)] if photos else range(len(values))
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    chances = np.full(len(numbers), 1 / len(numbers))
    by_photo = np.random.default_rng(SEED).multinomial(len(numbers), chances, RESAMPLES)
    drawn = by_photo[:, [numbers[name] for name in names]].astype(float)
    known = ~np.isnan(values)
    used = drawn @ known
    with np.errstate(invalid="ignore"):
        means = drawn @ np.where(known, values, 0.0) / used
    tails = (1 - LEVEL) / 2
    found: list[Interval | None] = []
    for column in means.T:
        drawn_means = column[~np.isnan(column)]
        if drawn_means.size:
            low, high = np.quantile(drawn_means, (tails, 1 - tails))
            found.append((float(low), float(high)))
        else:
            found.append(None)
    return found


def best_of(values: Mapping[str, np.ndarray], high_is_good: bool) -> str | None:
    """The name of the row with the best mean over its own pictures."""
    means = {name: np.nanmean(row) for name, row in values.items() if not np.isnan(row).all()}
    return (max if high_is_good else min)(means, key=means.__getitem__) if means else None


def compared(
    values: Mapping[str, np.ndarray],
    pairs: Iterable[tuple[str, str]],
    photos: Sequence[str] | None = None,
) -> Iterator[Difference]:
    """Compares pairs of rows, float [N]; a pair without any picture in common is missing."""
    pairs = list(pairs)
    if not pairs:
        return
    columns = np.stack([values[first] - values[second] for first, second in pairs], axis=1)
    for pair, column, interval in zip(pairs, columns.T, intervals(columns, photos), strict=True):
        if interval:
            known = column[~np.isnan(column)]
            yield Difference(*pair, known.size, float(known.mean()), interval)
