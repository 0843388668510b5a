"""Runs `evaluate --search`: splits the photos, searches, compares, prints and writes."""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from realtime_lrp.commands.evaluate.measuring import Evaluation
from realtime_lrp.commands.evaluate.progress import with_progress
from realtime_lrp.commands.evaluate.samples import Samples
from realtime_lrp.commands.evaluate.search import (
    Search,
    Tried,
    chosen,
    halves,
    measure,
    search,
)
from realtime_lrp.commands.evaluate.search_report import (
    FOUND,
    search_lines,
    search_report,
    write_search,
)
from realtime_lrp.commands.evaluate.search_space import (
    DEFAULTS,
    Candidate,
    candidates,
    layer_groups,
)
from realtime_lrp.config.provenance import KEY, Provenance
from realtime_lrp.engine.engine import Engine
from realtime_lrp.errors import DamagedInputError
from realtime_lrp.system.atomic import atomic_folder

if TYPE_CHECKING:
    from realtime_lrp.commands.evaluate.run import EvaluateOptions

SEARCH_FILES = ("search.json", "settings.yaml")

log = logging.getLogger(__name__)


def run_search(
    engine: Engine, samples: Samples, options: "EvaluateOptions", provenance: Provenance
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
    seed = options.seed
    to_search, to_report = (chosen(samples, half) for half in halves(samples, seed))
    tried = candidates(layer_groups(engine), options.search or 0, seed)
    state = Search([Tried(candidate) for candidate in tried])
    rows, interrupted = {}, None
    try:
        search(engine, to_search, seed, state, with_progress)
        if state.best is None:
            raise DamagedInputError("No composite can explain this network. -v says why.")
        evaluation = Evaluation(engine, to_report, seed)
        compared = {FOUND: state.best.candidate} | {
            name: Candidate(name, name) for name in DEFAULTS
        }
        rows = {name: measure(evaluation, engine, one) for name, one in compared.items()}
    except KeyboardInterrupt as stop:
        if state.best is None:
            raise
        log.warning("interrupted: this is the best so far, not compared on the other photos")
        interrupted = stop
    report = search_report(state, to_search.names, to_report.names, rows)
    if options.output:
        with atomic_folder(options.output, options.overwrite, SEARCH_FILES) as part:
            write_search(part, {**report, KEY: msgspec.to_builtins(provenance)})
    yield from search_lines(report, state.best.candidate)
    if interrupted:
        raise interrupted
