"""`evaluate --search`: looks for the composite whose maps say best what the network used.

Candidates are compared on one half of the photos by successive halving (Jamieson and Talwalkar
2016): all of them on a few photos, the best third on three times as many, until the rest has seen
the whole half. This is done twice: with named and random candidates, then with variants of the best
of these. The best one is then measured, with the defaults, on the other half.

The criterion is insertion - deletion: the area under the insertion curve less the area under the
deletion curve, from -1 to 1. It is the symmetric relevance gain of Blücher, Vielhaben, Strodthoff
2024, "Decoupling pixel flipping and occlusion strategy for consistent XAI benchmarks".
"""

import gc
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import msgspec
import numpy as np

from realtime_lrp.commands.evaluate.measuring import Evaluation
from realtime_lrp.commands.evaluate.options import EvaluateOptions
from realtime_lrp.commands.evaluate.rows import Values, photo_of
from realtime_lrp.commands.evaluate.samples import Samples
from realtime_lrp.commands.evaluate.search_report import (
    FOUND,
    GAIN,
    SEARCH_FILES,
    search_lines,
    search_report,
    write_search,
)
from realtime_lrp.commands.evaluate.search_space import (
    DEFAULTS,
    Candidate,
    candidates,
    layer_groups,
    variants,
)
from realtime_lrp.config.provenance import KEY, Provenance
from realtime_lrp.engine.engine import Engine
from realtime_lrp.errors import DamagedInputError, Error, UsageError
from realtime_lrp.system.atomic import atomic_folder
from realtime_lrp.system.progress import Progress

LEAST_BROAD = 10
"""Candidates that are named or random before the others are variants; above 20, half of them."""

PARENTS = 3
"""Of how many candidates variants are tried."""

KEPT = 3
"""The best third of a round goes on to the next one, which has three times the photos."""

FEWEST = 4
"""How many photos the first round has at least."""

log = logging.getLogger(__name__)


@dataclass
class Tried:
    """A candidate and what was measured of it.

    Attributes:
      candidate: the candidate.
      gains: number of pictures -> the mean criterion; one for each round that it reached.
    """

    candidate: Candidate
    gains: dict[int, float] = field(default_factory=dict)


def run_search(
    engine: Engine, samples: Samples, options: EvaluateOptions, provenance: Provenance
) -> Iterator[str]:
    """Searches on one half of the photos for the composite with the best insertion and deletion.

    Yields:
      The lines of the result. If ctrl-C interrupts the search, those of the best so far.

    Raises:
      UsageError: there is only one photo.
      DamagedInputError: no candidate can explain the network.
      OutputError: the folder cannot be made.
    """
    to_search, to_report = halves(samples, options.seed)
    evaluation = Evaluation(engine, samples, options.seed, forgetting=False)
    tried: list[Tried] = []
    rows: dict[str, Values] = {}
    interrupted: KeyboardInterrupt | SystemExit | None = None
    try:
        _search_twice(engine, evaluation, to_search, options, tried)
        if not best_first(tried):
            raise DamagedInputError("No composite can explain this network. -v says why.")
        defaults = {name: Candidate(name, name) for name in DEFAULTS}
        compared = {FOUND: best_first(tried)[0].candidate, **defaults}
        for name, candidate in compared.items():
            rows[name] = measure(engine, evaluation, candidate, to_report)
    except (KeyboardInterrupt, SystemExit) as stop:
        if not best_first(tried):
            raise
        log.warning("interrupted: this is the best so far, not compared on the other photos")
        interrupted, rows = stop, {}  # without some there is nothing to compare
    found = best_first(tried)[0].candidate
    searched, reported = (
        [samples.names[index] for index in half] for half in (to_search, to_report)
    )
    shared = engine.config.lrp.model_dump(
        mode="json", exclude_defaults=True, exclude={"target", "precision"}
    )
    gains = [(one.candidate, one.gains) for one in tried]
    report = search_report(found, gains, searched, reported, rows, shared)
    if options.output:
        with atomic_folder(options.output, options.overwrite, SEARCH_FILES) as part:
            write_search(part, {**report, KEY: msgspec.to_builtins(provenance)})
    yield from search_lines(report, found)
    if interrupted:
        raise interrupted


def _search_twice(
    engine: Engine,
    evaluation: Evaluation,
    samples: Sequence[int],
    options: EvaluateOptions,
    tried: list[Tried],
) -> None:
    """Tries named and random candidates, then variants of the best: `options.search` in all.

    They are added to `tried`, with what was measured of them.
    """
    groups, count = layer_groups(engine), options.search or 0
    broad = max(min(count, LEAST_BROAD), -(-count // 2))
    tried += [Tried(one) for one in candidates(groups, broad, options.seed)]
    search(engine, evaluation, samples, tried[:])
    parents = [one.candidate for one in best_first(tried)[:PARENTS]]
    refined = [Tried(one) for one in variants(parents, groups, count - broad, options.seed)]
    tried += refined
    search(engine, evaluation, samples, refined)


def search(
    engine: Engine, evaluation: Evaluation, samples: Sequence[int], tried: Sequence[Tried]
) -> None:
    """Compares candidates on some samples. What was measured is in `tried`, even if interrupted."""
    left = list(tried)
    for count in search_rounds(len(samples), len(tried)):
        with Progress(1, unit="candidates", logged=True) as progress:
            progress.begin(f"candidates on {count} pictures", len(left))
            for number, one in enumerate(left):
                progress.step(number, one.candidate.name)
                try:
                    values = measure(engine, evaluation, one.candidate, samples[:count])
                except Error as error:
                    log.info("%s is left out: %s", one.candidate.name, error)
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


def best_first(tried: Iterable[Tried]) -> list[Tried]:
    """The measured candidates; first those on most pictures, of these the highest gain first."""
    measured = [one for one in tried if one.gains]
    return sorted(measured, key=lambda one: max(one.gains.items()), reverse=True)


def search_rounds(photos: int, candidates: int) -> list[int]:
    """How many photos each round has, ascending; two or three candidates see all of them."""
    rounds = [photos]
    while rounds[0] > KEPT * FEWEST and candidates > KEPT ** len(rounds):
        rounds.insert(0, -(-rounds[0] // KEPT))
    return rounds


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
