"""`bench`: measures everything in turn; the report's keys stand in the JSON file, do not change."""

import itertools
import json
import logging
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from realtime_lrp.commands.bench.timing import Bench, Row, time_drawing, time_maps, time_window
from realtime_lrp.config import Config, Settings, as_yaml
from realtime_lrp.config.names import EMBEDDED
from realtime_lrp.config.schema import Model
from realtime_lrp.engine.device import device
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.measured import PACES, THREADS, Pace, machine, network_here
from realtime_lrp.engine.tensorflow import tf
from realtime_lrp.errors import UnavailableError, first_line
from realtime_lrp.models.names import present_networks
from realtime_lrp.realtime.stats import write_figures
from realtime_lrp.system.child import module_command
from realtime_lrp.system.files import check_output
from realtime_lrp.system.machine import core_count
from realtime_lrp.system.program import __version__
from realtime_lrp.system.terminal import in_columns
from realtime_lrp.view.window import display_reachable

WIDTH = 120

BUSY = 1.0  # load above which other programs slow the measurement down
Report = Mapping[str, Any]  # the figures of a measurement, by their names in the JSON file

log = logging.getLogger(__name__)


def run(config: Config, quick: bool, json_file: Path | None, overwrite: bool) -> list[str]:
    """Measures this machine and returns the report's lines; `quick` measures less."""
    if json_file:
        check_output(json_file, overwrite)
    name = config.model.name
    weights = config.model.weights
    if weights is None and name.lower() not in EMBEDDED and not Path(name).suffix:
        weights = "random"  # as fast as the trained ones, and no download
    config = config.changed(model={"weights": weights}, lrp={"precision": "float32"})
    begin = time.monotonic()
    shown = log.isEnabledFor(logging.WARNING)
    with Console(stderr=True, quiet=not shown).status("the network") as bar:
        engine = Engine(config, keep_model=True)
        report: dict[str, Any] = {
            "version": __version__,
            "tensorflow": tf.__version__,
            "machine": machine(),
            "load": psutil.getloadavg()[0],
            "device": device().name,
            "fast_precision": device().fast_precision,
            "typical_layers_ms": asdict(times) if (times := device().times) else None,
            "quick": quick,
            "model": engine.network.name,
            "weights": config.model.weights or "its own",
            "map": engine.name,
            "gflops": engine.explainer.flops / 1e9,
            "million_weights": engine.explainer.weights / 1e6,
        }
        bench = Bench(config, engine, quick, bar.update)
        for name, part in PARTS.items():
            if part.quick or not quick:
                bar.update(name)
                if (found := part.measure(bench)) is not None:
                    report[name] = found
    report["seconds"] = time.monotonic() - begin
    if json_file:
        write_figures(json_file, report, engine.provenance(), overwrite)
    return report_lines(report)


def report_lines(report: Report) -> list[str]:
    """The report as plain text."""
    head = [
        f"{report['machine']}; {report['device']}; TensorFlow {report['tensorflow']}",
        f"{report['model']}, weights {report['weights']}, {report['map']}: "
        f"{report['gflops']:.3g} GFLOP a forward pass, {report['million_weights']:.3g} million "
        f"weights; measured in {report['seconds']:.0f} s",
    ]
    if times := report["typical_layers_ms"]:  # what `--precision auto` goes by; none on a GPU
        measured = ", ".join(f"{name} {ms:.1f} ms" for name, ms in times.items() if ms)
        head.append(f"typical layers: {measured}; precision auto is {report['fast_precision']}")
    if report["load"] > BUSY:
        head.append(f"Other programs ran: load {report['load']:.1f} at the start. Run it alone.")
    parts = (PARTS[name].lines(report[name], report) for name in PARTS if name in report)
    return [*head, "", *(line for part in parts for line in part)]


Columns = Mapping[str, Callable[[Row], str]]  # heading -> text under it in a row

NAMES = {
    "origin": "baseline", "map": "map", "xla": "map through XLA",
    "exported": "map of the exported file",
    "forward": "forward pass alone",
    "one_box": "map of one box", "four_boxes": "maps of four boxes",
}  # fmt: skip


def table(columns: Columns) -> Callable[[Iterable[Row], Report], list[str]]:
    """Makes the function from rows to the lines of their table; rows get the report's map."""

    def lines(rows: Iterable[Row], report: Report) -> list[str]:
        whole = ({"map": report["map"], **row} for row in rows)
        cells = ([text(row) for text in columns.values()] for row in whole)
        return [*in_columns([*columns], cells, width=WIDTH), ""]

    return lines


def _maps(rows: Sequence[Row], report: Report) -> list[str]:
    baseline_ms = next(row["ms"] for row in rows if row["what"] == "origin")
    forward = {(r["precision"], r["batch"]): r["ms"] for r in rows if r["what"] == "forward"}

    columns: Columns = {
        "": lambda row: NAMES[row["what"]],
        "precision": lambda row: row["precision"],
        "batch": lambda row: str(row["batch"]),
        "ms/picture": lambda row: f"{row['ms']:.1f}",
        "10 to 90 %": lambda row: f"{row['p10']:.1f} to {row['p90']:.1f}",
        "pictures/s": lambda row: f"{1e3 / row['ms']:.1f}",
        "x baseline": lambda row: (
            f"{baseline_ms / row['ms']:.1f}" if row["what"] != "forward" else ""
        ),
        "x forward": lambda row: (
            f"{row['ms'] / forward[row['precision'], row['batch']]:.2f}"
            if row["what"] not in ("origin", "forward")
            else ""
        ),
    }
    in_order = sorted(rows, key=lambda r: (r["what"] != "origin", r["precision"]))
    return table(columns)(in_order, report)


def _drawing(found: Mapping[str, Any], report: Report) -> list[str]:
    return [
        f"{name}: colouring a map {figures['colour']['ms']:.1f} ms, "
        f"moving it along {figures['carry']['ms']:.1f} ms, "
        f"laying it over the picture {figures['overlay']['ms']:.1f} ms"
        for name, figures in found.items()
    ]


def _window(found: Mapping[str, Any], report: Report) -> list[str]:
    return [
        f"window of {size}: drawing a picture takes {figures['draw']['ms']:.1f} ms of a core, "
        f"showing it {figures['show']['ms']:.1f} ms"
        for size, figures in found.items()
    ]


def _gib(mib: float | None) -> str:
    return "unknown" if mib is None else f"{mib / 1024:.2f} GiB"


def measure_networks(bench: Bench) -> list[Row]:
    """`live` with each network that is there: a map on each core, one on all; `live` goes by it."""
    rows = []
    cores = core_count()
    for name in present_networks():
        bench.status(f"live with {name}")
        config = Config(model=Model(name=name))
        try:
            each, shared = (measure_run(config, 60, "none", 4.0, n) for n in (1, cores))
        except UnavailableError as error:
            log.warning("%s is not measured: %s", name, first_line(error))
            continue
        PACES.add(network_here(name), Pace(each["maps_per_s"], shared["maps_per_s"]))
        rates = {"each_core": each["maps_per_s"], "all_cores": shared["maps_per_s"]}
        rows.append(max(each, shared, key=lambda run: run["maps_per_s"]) | rates | {"model": name})
    return rows


def measure_live(bench: Bench) -> list[Row]:
    """Fast precision at 30 and 60 frames a second, without a window and in one."""
    config = bench.config.changed(lrp={"precision": device().fast_precision})
    displays = ["none", *["window"] * (display_reachable() and not bench.quick)]
    duration_s = 2.0 if bench.quick else 6.0
    pace = {"engine_maps_per_s": engine_pace(config, duration_s)}
    runs = itertools.product(displays, (30,) if bench.quick else (30, 60))
    return [measure_run(config, fps, display, duration_s) | pace for display, fps in runs]


def engine_pace(config: Config, duration_s: float) -> float:
    """Maps a second of the engine with nothing beside it. UnavailableError if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder, "config.yaml")
        settings.write_text(as_yaml(Settings(config, {})), encoding="utf-8")
        words = module_command("realtime_lrp.commands.bench.pace", str(settings), str(duration_s))
        ran = subprocess.run(words, capture_output=True, text=True)
    if ran.returncode:
        *_, why = ran.stderr.strip().splitlines() or [f"exit code {ran.returncode}"]
        raise UnavailableError(f"The engine does not run:\n{why}")
    return float(ran.stdout)


def measure_run(
    config: Config, fps: int, display: str, duration_s: float, threads: int | None = None
) -> Row:
    """Runs `live` once on the synthetic source: its statistics and memory, or UnavailableError."""
    config = config.changed(live={"source": f"synthetic:{fps}", "display": display})
    environment = dict(os.environ) | ({THREADS: str(threads)} if threads else {})
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder, "config.yaml")
        stats = Path(folder, "stats.json")
        settings.write_text(as_yaml(Settings(config, {})), encoding="utf-8")
        options = ["--config", settings, "--stats", stats, "--duration", duration_s, "-v"]
        measured = _watch(["live", *map(str, options)], duration_s, environment)
        statistics = json.loads(stats.read_text())
    return {"fps": fps, "display": display, **measured, **statistics}


def _watch(
    words: Sequence[str], duration_s: float, environment: dict[str, str]
) -> dict[str, float | None]:
    """Runs a command to its end; measures the time to its first map, and its memory later on."""
    begin = time.monotonic()
    process = subprocess.Popen(
        module_command("realtime_lrp", *words), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, env=environment,
    )  # fmt: skip
    measured: dict[str, float | None] = {}
    lines = []
    try:
        for line in process.stderr or ():
            lines.append(line)
            if "first map" in line:
                measured["start_s"] = time.monotonic() - begin
                time.sleep(duration_s * 0.8)
                measured |= _memory(process.pid)
        code = process.wait()
    finally:
        process.kill()
    if code or "start_s" not in measured:
        raise UnavailableError("The live path does not run:\n" + "".join(lines[-3:]))
    return measured


def _memory(pid: int) -> dict[str, float | None]:
    """Resident memory of a process now and at most, MiB; None if the system does not say."""
    sizes: dict[str, float] = {}
    with suppress(OSError, KeyError, ValueError):
        lines = Path("/proc", str(pid), "status").read_text().splitlines()
        status = dict(line.split(":", 1) for line in lines)
        sizes = {key: int(status[key].split()[0]) / 1024 for key in ("VmRSS", "VmHWM")}
    return {"memory_mib": sizes.get("VmRSS"), "peak_memory_mib": sizes.get("VmHWM")}


@dataclass(frozen=True)
class ReportPart:
    """A part of the report: how it is measured and shown, and whether `--quick` has it, too."""

    measure: Callable[[Bench], Any]
    lines: Callable[[Any, Report], list[str]]
    quick: bool = False


PARTS = {
    "maps": ReportPart(time_maps, _maps, quick=True),
    "networks": ReportPart(measure_networks, table({
        "live with": lambda row: row["model"],
        "maps/s, one on each core": lambda row: f"{row['each_core']:.1f}",
        "one on all cores": lambda row: f"{row['all_cores']:.1f}",
        "precision": lambda row: row["precision"],
        "map age": lambda row: f"{row['map_age_ms']['p50']:.0f} ms",
        "99 %": lambda row: f"{row['map_age_ms']['p99']:.0f} ms",
        "first map": lambda row: f"{row['start_s']:.1f} s",
    })),
    "live": ReportPart(measure_live, table({
        "live": lambda row: f"{row['fps']} fps, display {row['display']}, {row['precision']}",
        "shown": lambda row: f"{row['display_fps']:.1f}",
        "dropped": lambda row: str(row["frames_dropped"]),
        "maps/s": lambda row: f"{row['maps_per_s']:.1f}",
        # or of the camera's pictures, if these are fewer
        "of the engine's": lambda row: (
            f"{row['maps_per_s'] / min(row['engine_maps_per_s'], row['fps']):.2f}"
        ),
        "picture age": lambda row: f"{row['frame_age_ms']['p50']:.1f} ms",
        "map age": lambda row: f"{row['map_age_ms']['p50']:.0f} ms",
        "first map": lambda row: f"{row['start_s']:.1f} s",
        "memory": lambda row: _gib(row["memory_mib"]),
        "peak": lambda row: _gib(row["peak_memory_mib"]),
    }), quick=True),
    "pictures": ReportPart(time_drawing, _drawing, quick=True),
    "window": ReportPart(time_window, _window),
}  # fmt: skip
"""Key of the JSON file -> the part, in the order of the report."""
