"""`bench`: measures everything in turn and writes the report.

The keys of the report are those of the JSON file: do not change them.
"""

import json
import logging
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from realtime_lrp.commands.bench.report import report_lines
from realtime_lrp.commands.bench.timing import (
    explainers_by_precision,
    measure_live,
    measure_networks,
    time_drawing,
    time_files,
    time_maps,
    time_methods,
    time_sizes,
    time_transfer,
    time_transformers,
    time_window,
    turns,
)
from realtime_lrp.config import Config
from realtime_lrp.config.names import EMBEDDED
from realtime_lrp.config.provenance import KEY
from realtime_lrp.engine.device import device
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.measured import machine
from realtime_lrp.engine.provenance import provenance_of
from realtime_lrp.engine.tensorflow import tf
from realtime_lrp.system.atomic import atomic_file, check_output
from realtime_lrp.system.version import __version__

log = logging.getLogger(__name__)


def run(config: Config, quick: bool, json_file: Path | None, overwrite: bool) -> list[str]:
    """Measures this machine; returns the report as lines.

    Quick measures less: fewer batches and repetitions, no methods and sizes.
    """
    if json_file:
        check_output(json_file, overwrite)
    report = measure(benchmark_config(config), quick)
    if json_file:
        with atomic_file(json_file, overwrite) as part:
            part.write_text(json.dumps(report, indent=1) + "\n")
    return report_lines(report)


def benchmark_config(config: Config) -> Config:
    """The configuration to measure: float32, and random weights instead of a download."""
    name, weights = config.model.name, config.model.weights
    if weights is None and name.lower() not in EMBEDDED and not Path(name).suffix:
        weights = "random"  # as fast as the trained ones
    return config.changed(model={"weights": weights}, lrp={"precision": "float32"})


def measure(config: Config, quick: bool) -> dict[str, Any]:
    """Measures every part; returns the figures by their names in the JSON file."""
    begin = time.monotonic()
    report: dict[str, Any] = {
        "version": __version__,
        "tensorflow": tf.__version__,
        "machine": machine(),
        "device": device().name,
        "fast_precision": device().fast_precision,
        "typical_layers_ms": asdict(times) if (times := device().times) else None,
        "quick": quick,
    }
    shown = log.isEnabledFor(logging.WARNING)
    with Console(stderr=True, quiet=not shown).status("the network") as bar:
        engine = Engine(config, keep_model=True)
        bar.update("live, in a process of its own")
        report["live"] = measure_live(config, quick)
        report |= {
            "model": engine.network.name,
            "weights": config.model.weights or "its own",
            "map": engine.name,
            "gflops": engine.explainer.flops / 1e9,
            "million_weights": engine.explainer.weights / 1e6,
        }
        explainers = explainers_by_precision(engine, bar.update)
        report["maps"] = time_maps(engine, explainers, quick, bar.update)
        bar.update("pictures")
        report["pictures"] = time_drawing(engine, turns(20, quick))
        report["files"] = time_files(turns(60, quick))
        if device().is_gpu:
            report["transfer"] = time_transfer(engine, turns(60, quick))
        if not quick:
            bar.update("the window")
            report["window"] = time_window(engine, turns(60, quick))
            bar.update("several methods")
            report["methods"] = time_methods(engine)
            bar.update("other sizes")
            report["resolution"] = time_sizes(engine)
            report["networks"] = measure_networks(bar.update)
            bar.update("transformers")
            report["transformers"] = time_transformers(turns(9, quick))
    report[KEY] = msgspec.to_builtins(provenance_of(engine))
    report["seconds"] = time.monotonic() - begin
    return report
