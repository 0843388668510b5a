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

from realtime_lrp.commands.evaluate.measured import Values
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
    """A candidate and its mean criterion in each round that it reached."""

    candidate: Candidate
    gains: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        return self.candidate.name


@dataclass
class Search:
    """The state of a search, also of an unfinished one.

    Attributes:
      rounds: how many photos each round has.
      tried: the candidates so far, in their order.
    """

    rounds: list[int]
    tried: list[Tried] = field(default_factory=list)

    @property
    def best(self) -> list[Tried]:
        """The measured candidates; first those of the latest round, the highest gain first."""
        measured = [tried for tried in self.tried if tried.gains]
        return sorted(measured, key=lambda tried: (-len(tried.gains), -tried.gains[-1]))


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
        by_photo.setdefault(name.split(": ")[0], []).append(number)
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


def search_rounds(count: int) -> list[int]:
    """How many of `count` photos each round has, in ascending order."""
    rounds = [count]
    while rounds[0] > KEPT * FEWEST:
        rounds.insert(0, -(-rounds[0] // KEPT))
    return rounds


def search(
    engine: Engine,
    evaluation: Evaluation,
    samples: Sequence[int],
    candidates: Sequence[Candidate],
    state: Search,
    progress: Callable[[Sequence[Tried], str], Iterable[Tried]],
) -> None:
    """Compares candidates; `state` holds the result, also if this is interrupted.

    Args:
      engine: the network.
      evaluation: of this network on all photos.
      samples: those to search on.
      candidates: what to try.
      state: the candidates are added to it.
      progress: (candidates of a round, what they are) -> the same ones.
    """
    left = [Tried(candidate) for candidate in candidates]
    state.tried += left
    for number, count in enumerate(state.rounds, 1):
        for tried in progress(left, f"candidate on {count} pictures"):
            try:
                values = measure(engine, evaluation, tried.candidate, samples[:count])
            except Error as error:
                log.info("%s is left out: %s", tried.candidate, error)
            else:
                tried.gains.append(float(np.mean(values[GAIN])))
        alive = [tried for tried in left if len(tried.gains) == number]
        alive.sort(key=lambda tried: -tried.gains[-1])
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
