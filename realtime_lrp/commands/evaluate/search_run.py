"""Runs `evaluate --search`: splits the photos, searches, compares, prints and writes."""

import logging
from collections.abc import Iterator, Sequence

import msgspec

from realtime_lrp.commands.evaluate.measured import Values
from realtime_lrp.commands.evaluate.measuring import Evaluation
from realtime_lrp.commands.evaluate.options import EvaluateOptions
from realtime_lrp.commands.evaluate.progress import with_progress
from realtime_lrp.commands.evaluate.samples import Samples
from realtime_lrp.commands.evaluate.search import (
    Tried,
    best_first,
    halves,
    measure,
    search,
)
from realtime_lrp.commands.evaluate.search_report import (
    FOUND,
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
from realtime_lrp.errors import DamagedInputError
from realtime_lrp.system.atomic import atomic_folder

LEAST_BROAD = 10
"""So many candidates are named or random before the others are variants; above 20, half of them."""

PARENTS = 3
"""Of how many candidates variants are tried."""

log = logging.getLogger(__name__)


def run_search(
    engine: Engine, samples: Samples, options: EvaluateOptions, provenance: Provenance
) -> Iterator[str]:
    """Searches for the composite with the best insertion and deletion.

    Args:
      engine: the network.
      samples: the photos; one half to search on, the other to report on.
      options: how many composites to try, the random seed, and the folder to write.
      provenance: how the figures are made.

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
    searched, reported = (
        [samples.names[index] for index in half] for half in (to_search, to_report)
    )
    shared = engine.config.lrp.model_dump(
        mode="json", exclude_defaults=True, exclude={"target", "precision"}
    )
    report = search_report(tried, searched, reported, rows, shared)
    if options.output:
        with atomic_folder(options.output, options.overwrite, SEARCH_FILES) as part:
            write_search(part, {**report, KEY: msgspec.to_builtins(provenance)})
    yield from search_lines(report, best_first(tried)[0].candidate)
    if interrupted:
        raise interrupted


def _search_twice(
    engine: Engine,
    evaluation: Evaluation,
    samples: Sequence[int],
    options: EvaluateOptions,
    tried: list[Tried],
) -> None:
    """Tries named and random candidates, then variants of the best ones: `options.search` in all.

    Args:
      engine: the network.
      evaluation: of this network on all photos.
      samples: those to search on.
      options: how many candidates, and the random seed.
      tried: the candidates are added to it.
    """
    groups, count = layer_groups(engine), options.search or 0
    broad = max(min(count, LEAST_BROAD), -(-count // 2))
    tried += [Tried(one) for one in candidates(groups, broad, options.seed)]
    search(engine, evaluation, samples, tried[:], with_progress)
    parents = [one.candidate for one in best_first(tried)[:PARENTS]]
    refined = [Tried(one) for one in variants(parents, groups, count - broad, options.seed)]
    tried += refined
    search(engine, evaluation, samples, refined, with_progress)
