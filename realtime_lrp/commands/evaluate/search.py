"""`evaluate --search`: looks for the composite whose maps say best what the network used.

Candidates are compared on one half of the photos by successive halving (Jamieson and Talwalkar
2016): all of them on a few photos, the best third on three times as many, until the rest has seen
the whole half. This is done twice: with named and random candidates, then with variants of the best
of these. The best one is then measured, with the defaults, on the other half.

The criterion is insertion - deletion: the area under the insertion curve less that under the
deletion curve, from -1 to 1. It is the symmetric relevance gain of Blücher, Vielhaben, Strodthoff
2024, "Decoupling pixel flipping and occlusion strategy for consistent XAI benchmarks".
"""

import gc
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np

from realtime_lrp.commands.evaluate.measured import Values, photo_of
from realtime_lrp.commands.evaluate.measuring import Evaluation
from realtime_lrp.commands.evaluate.samples import Samples
from realtime_lrp.commands.evaluate.search_space import Candidate
from realtime_lrp.engine.engine import Engine
from realtime_lrp.errors import Error, UsageError

GAIN = "gain"
"""The criterion: insertion - deletion."""

KEPT = 3
"""One of so many candidates goes on to the next round, which has so many times the photos."""

FEWEST = 4
"""How many photos the first round has at least."""

log = logging.getLogger(__name__)


@dataclass
class Tried:
    """A candidate and what was measured of it.

    Attributes:
      candidate: the candidate.
      gains: on so many pictures -> the mean criterion; one for each round that it reached.
    """

    candidate: Candidate
    gains: dict[int, float] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.candidate.name


def best_first(tried: Iterable[Tried]) -> list[Tried]:
    """The measured candidates; first those on most pictures, of these the highest gain first."""
    measured = [one for one in tried if one.gains]
    return sorted(measured, key=lambda one: max(one.gains.items()), reverse=True)


def halves(samples: Samples, seed: int) -> tuple[list[int], list[int]]:
    """Splits samples at random; those of one photo stay together.

    Returns:
      The numbers of the samples to search on and of those to report on, in random order; the second
      sample of a photo comes after the first ones of all photos.

    Raises:
      UsageError: there are fewer than two photos.
    """
    by_photo: dict[str, list[int]] = {}
    for number, name in enumerate(samples.names):
        by_photo.setdefault(photo_of(name), []).append(number)
    photos = [*by_photo.values()]
    if len(photos) < 2:
        raise UsageError(
            "There is one photo. --search needs at least two: half of them to choose by, the other "
            "half to report on."
        )
    shuffled = [photos[index] for index in np.random.default_rng(seed).permutation(len(photos))]
    middle = len(photos) // 2
    return _in_turns(shuffled[:middle]), _in_turns(shuffled[middle:])


def _in_turns(groups: Sequence[Sequence[int]]) -> list[int]:
    """The first of each group, then the second of each that has one, and so on."""
    return [number for turn in zip_longest(*groups) for number in turn if number is not None]


def search_rounds(photos: int, candidates: int) -> list[int]:
    """How many photos each round has, in ascending order; two or three candidates see all of them.

    Args:
      photos: how many there are.
      candidates: how many begin.
    """
    rounds = [photos]
    while rounds[0] > KEPT * FEWEST and candidates > KEPT ** len(rounds):
        rounds.insert(0, -(-rounds[0] // KEPT))
    return rounds


def search(
    engine: Engine,
    evaluation: Evaluation,
    samples: Sequence[int],
    tried: Sequence[Tried],
    progress: Callable[[Sequence[Tried], str], Iterable[Tried]],
) -> None:
    """Compares candidates. What was measured is in `tried`, also if this is interrupted.

    Args:
      engine: the network.
      evaluation: of this network on all photos.
      samples: those to search on.
      tried: the candidates; their gains are filled in.
      progress: (candidates of a round, what they are) -> the same ones.
    """
    left = list(tried)
    for count in search_rounds(len(samples), len(tried)):
        for one in progress(left, f"candidate on {count} pictures"):
            try:
                values = measure(engine, evaluation, one.candidate, samples[:count])
            except Error as error:
                log.info("%s is left out: %s", one.candidate, error)
            else:
                one.gains[count] = float(np.mean(values[GAIN]))
        alive = best_first(one for one in left if count in one.gains)
        left = alive[: -(-len(alive) // KEPT)]


def measure(
    engine: Engine, evaluation: Evaluation, candidate: Candidate, samples: Sequence[int]
) -> Values:
    """Deletion, insertion and the criterion of a candidate for some samples of an evaluation.

    Raises:
      Error: the network cannot be explained in this way.
    """
    gc.collect()  # frees the explainer before and its copy of the weights
    explainer = engine.variant(**candidate.settings(), target="top1")
    values = evaluation.faithfulness(explainer, samples)
    return {**values, GAIN: values["insertion"] - values["deletion"]}
