"""Times of maps: compared with the baseline, with several methods, at other sizes."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from realtime_lrp.commands.bench.baseline import baseline
from realtime_lrp.commands.bench.machine import precisions
from realtime_lrp.commands.bench.timing import Action, noise, time_in_turns
from realtime_lrp.engine.device import device
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.tensorflow import keras
from realtime_lrp.errors import Error, UsageError, first_line
from realtime_lrp.relevance.building import build_graph
from realtime_lrp.relevance.explainer import Explainer

ADDED_METHODS = ("gradient", "grad_cam", "excitation_backprop")
"""Methods that are added to the configured map, one after the other."""

log = logging.getLogger(__name__)

Row = dict[str, Any]
Status = Callable[[str], None]
"""Shows a person what is being measured."""


def explainers_by_precision(engine: Engine, status: Status) -> dict[str, Explainer]:
    """The configured explainer in each precision of this machine, float32 first."""
    explainers = {"float32": engine.explainer}
    for precision in precisions()[1:]:
        status(f"building in {precision}")
        explainers[precision] = engine.variant(precision=precision)
    return explainers


def time_maps(
    engine: Engine, explainers: Mapping[str, Explainer], quick: bool, status: Status
) -> list[Row]:
    """The baseline, our map, and our forward pass alone, at growing batches.

    Args:
      engine: has the network.
      explainers: what `explainers_by_precision` returned.
      quick: measure less.
      status: shows what is being measured.
    """
    baseline_explainer = baseline(build_graph(engine.model, "max"), engine.config.model.size)
    fast = device().fast_precision
    compiled = engine.variant(precision=fast, xla=True) if device().is_gpu else None
    rows = []
    for batch in (1, 8) if quick else (1, 2, 4, 8, 16):
        status(f"maps, batch {batch}")
        x = noise(batch, engine.explainer.input_shape)
        actions: dict[tuple[str, str], Action] = {}
        if batch == 1:
            actions["origin", "float32"] = partial(baseline_explainer, x)
        for precision, explainer in explainers.items():
            if quick and batch > 1 and precision != fast:
                continue
            actions["map", precision] = partial(explainer, x)
            actions["forward", precision] = partial(explainer.scores, x)
        if compiled:
            actions["xla", fast] = partial(compiled, x)
        times = time_in_turns(actions, turns(9 if batch < 8 else 3, quick), batch)
        rows += [
            {"what": what, "precision": precision, "batch": batch, **row}
            for (what, precision), row in times.items()
        ]
    return rows


def turns(full: int, quick: bool) -> int:
    """How often something is timed."""
    return max(2, full // 3) if quick else full


def time_methods(engine: Engine) -> list[Row]:
    """Several maps of one picture: one forward pass, and a backward pass for each map."""
    precision = device().fast_precision
    x = noise(1, engine.explainer.input_shape)
    added: list[str] = []
    explainers = [engine.variant(precision=precision)]
    for name in ADDED_METHODS:
        with suppress(UsageError):  # Grad-CAM needs a layer with rows and columns
            if name != engine.config.lrp.method:
                explainers.append(engine.variant(precision=precision, also=[*added, name]))
                added.append(name)
    actions: dict[int | str, Action] = {n: partial(e, x) for n, e in enumerate(explainers)}
    actions["forward"] = partial(explainers[0].scores, x)
    times = time_in_turns(actions, turns=7)
    forward = times.pop("forward")
    return [
        {"further": added[:count], "precision": precision, "forward_ms": forward["ms"], **row}
        for count, row in enumerate(times.values())
    ]


def time_sizes(engine: Engine) -> list[Row]:
    """The same layers with random weights at other sizes of the picture."""
    rows, columns, channels = engine.explainer.input_shape
    precision = device().fast_precision
    actions: dict[tuple[int, int], Action] = {}
    flops: dict[tuple[int, int], float] = {}
    for share in (0.5, 0.75, 1.0):
        size = round(rows * share), round(columns * share)
        try:
            model = keras.models.clone_model(
                engine.model, input_tensors=keras.Input((*size, channels))
            )
            explainer = engine.variant(model, precision=precision, size=size)
        except (Error, ValueError, TypeError) as error:
            log.warning("not measured at %d x %d: %s", *size, first_line(error))
            continue
        flops[size] = explainer.flops
        actions[size] = partial(explainer, noise(1, (*size, channels)))
    times = time_in_turns(actions, turns=7) if actions else {}
    return [
        {"size": list(size), "precision": precision, "gflops": flops[size] / 1e9, **row}
        for size, row in times.items()
    ]
