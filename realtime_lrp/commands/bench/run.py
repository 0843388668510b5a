"""`bench`: how fast this machine explains, what limits it, and what the pictures around it cost.

Variants that are compared take turns, so that what else the machine does meets all of them alike.
The live path runs as a user runs it, in a process of its own.
"""

import json
import logging
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from rich.console import Console

from realtime_lrp import __version__
from realtime_lrp.commands.bench.baseline import baseline
from realtime_lrp.commands.bench.report import lines
from realtime_lrp.config import Config, Settings, as_yaml
from realtime_lrp.engine.colouring import colour, painter_for
from realtime_lrp.engine.device import computes_bfloat16, device, machine
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.tensorflow import keras, tf
from realtime_lrp.errors import Error, UnavailableError, UsageError, first_line
from realtime_lrp.relevance.graph import build_graph
from realtime_lrp.system import children
from realtime_lrp.system.atomic import atomic_file, check_output
from realtime_lrp.video.reader import VideoReader
from realtime_lrp.video.sources import moving_picture
from realtime_lrp.video.writer import VideoWriter
from realtime_lrp.view.follow import Follower
from realtime_lrp.view.overlay import Overlay, lay_over
from realtime_lrp.view.window.window import display_reachable

SIDE = 4096  # of the matrix product that shows the machine's peak
VECTORS = 25088  # rows of the matrix whose reading shows the memory's pace
WARM_UPS = 2  # the second call is slow as well where memory is still being found
LIVE_S, QUICK_LIVE_S = 6.0, 2.0
FURTHER = ("gradient", "grad_cam", "excitation_backprop")
"""Methods that are shown beside the map, one after the other."""
PICTURES = {"720p": (720, 1280), "1080p": (1080, 1920)}

log = logging.getLogger(__name__)

Figures = dict[str, float]
"""{"ms": median, "p10": ..., "p90": ...} of a picture, in milliseconds."""

Run = Callable[[], Any]
"""Does once what is measured."""

_Name = TypeVar("_Name")


def run(config: Config, quick: bool, json_file: Path | None, overwrite: bool) -> list[str]:
    """Measures this machine.

    Args:
      config: the effective configuration: model, composite or method, size.
      quick: fewer batches and turns, no growth tables.
      json_file: where every figure goes, or None.
      overwrite: whether that file may be replaced.

    Returns:
      The report as lines.

    Raises:
      Error: what `Engine` raises; the output cannot be made.
    """
    if json_file:
        check_output(json_file, overwrite)
    report = Bench(config, quick).run()
    if json_file:
        with atomic_file(json_file, overwrite) as part:
            part.write_text(json.dumps(report, indent=1) + "\n")
    return lines(report)


class Bench:
    """One measurement of everything, part by part."""

    def __init__(self, config: Config, quick: bool):
        self._quick = quick
        name = config.model.name
        weights = config.model.weights
        if weights is None and name.lower() != "shapes" and not Path(name).suffix:
            weights = "random"  # the speed is the same, and nothing has to be downloaded
        model = config.model.model_copy(update={"weights": weights})
        lrp = config.lrp.model_copy(update={"precision": "float32"})
        self._config = config.model_copy(update={"model": model, "lrp": lrp})

    def run(self) -> dict[str, Any]:
        """Every figure by name."""
        begin = time.monotonic()
        lrp = self._config.lrp
        report: dict[str, Any] = {
            "version": __version__,
            "tensorflow": tf.__version__,
            "machine": machine(),
            "device": device().name,
            "fast_precision": device().fast_precision,
            "quick": self._quick,
        }
        shown = log.isEnabledFor(logging.WARNING)
        with Console(stderr=True, quiet=not shown).status("the network") as bar:
            status = bar.update
            engine = Engine(self._config, keep_model=True)
            status("live, in a process of its own")
            report["live"] = self._live()
            report |= {
                "model": engine.network.name,
                "weights": self._config.model.weights or "its own",
                "map": lrp.composite if lrp.method == "lrp" else lrp.method,
                "gflops": engine.explainer.flops / 1e9,
                "million_weights": engine.explainer.weights / 1e6,
            }
            status("peak")
            report["peak"] = _peak()
            report["maps"] = self._maps(engine, status)
            report["floor"] = _floors(report)
            status("pictures")
            report["pictures"] = _pictures(engine, self._turns(20))
            report["files"] = _files(self._turns(60))
            if device().is_gpu:
                report["transfer"] = self._transfer(engine)
            if not self._quick:
                report["methods"] = self._methods(engine, status)
                report["resolution"] = self._resolution(engine, status)
        report["seconds"] = time.monotonic() - begin
        return report

    def _turns(self, full: int) -> int:
        return max(2, full // 3) if self._quick else full

    def _maps(self, engine: Engine, status: Callable[[str], None]) -> list[dict[str, Any]]:
        """The origin's arithmetic, ours, and our forward pass alone, at growing batches."""
        origin = baseline(build_graph(engine.model, "max"), self._config.model.size)
        explainers = {"float32": engine.explainer}
        for precision in _precisions()[1:]:
            status(f"building in {precision}")
            explainers[precision] = engine.variant(precision=precision)
        fast = device().fast_precision
        compiled = engine.variant(precision=fast, xla=True) if device().is_gpu else None
        rows = []
        for batch in (1, 8) if self._quick else (1, 2, 4, 8, 16):
            status(f"maps, batch {batch}")
            x = _noise(batch, engine.explainer.input_shape)
            variants: dict[tuple[str, str], Run] = {}
            if batch == 1:
                variants["origin", "float32"] = partial(origin, x)
            for precision, explainer in explainers.items():
                if self._quick and batch > 1 and precision != fast:
                    continue
                variants["map", precision] = partial(explainer, x)
                variants["forward", precision] = partial(explainer.scores, x)
            if compiled:
                variants["xla", fast] = partial(compiled, x)
            figures = _in_turns(variants, self._turns(9 if batch < 8 else 3), batch)
            rows += [
                {"what": what, "precision": precision, "batch": batch, **measured}
                for (what, precision), measured in figures.items()
            ]
        return rows

    def _methods(self, engine: Engine, status: Callable[[str], None]) -> list[dict[str, Any]]:
        """Several maps of one picture: one forward pass, and a backward pass for each."""
        status("several methods")
        precision = device().fast_precision
        x = _noise(1, engine.explainer.input_shape)
        names: list[str] = []
        explainers = [engine.variant(precision=precision)]
        for name in FURTHER:
            with suppress(UsageError):  # Grad-CAM needs places
                if name != self._config.lrp.method:
                    explainers.append(engine.variant(precision=precision, also=[*names, name]))
                    names.append(name)
        variants: dict[int | str, Run] = {n: partial(e, x) for n, e in enumerate(explainers)}
        variants["forward"] = partial(explainers[0].scores, x)
        measured = _in_turns(variants, 7, 1)
        forward = measured.pop("forward")
        return [
            {
                "further": names[:count],
                "precision": precision,
                "forward_ms": forward["ms"],
                **figures,
            }
            for count, figures in enumerate(measured.values())
        ]

    def _resolution(self, engine: Engine, status: Callable[[str], None]) -> list[dict[str, Any]]:
        """The same layers, random weights, at other sizes of the picture."""
        status("other sizes")
        rows, columns, channels = engine.explainer.input_shape
        precision = device().fast_precision
        variants: dict[tuple[int, int], Run] = {}
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
            variants[size] = partial(explainer, _noise(1, (*size, channels)))
        measured = _in_turns(variants, 7, 1) if variants else {}
        return [
            {"size": list(size), "precision": precision, "gflops": flops[size] / 1e9, **figures}
            for size, figures in measured.items()
        ]

    def _transfer(self, engine: Engine) -> Figures:
        """A picture to the GPU, and a byte for each of its pixels back."""
        rows, columns, _ = engine.explainer.input_shape
        picture = np.zeros((1, rows, columns, 3), np.uint8)
        with tf.device(device().scope):
            turn = {"": lambda: tf.identity(tf.constant(picture))[..., 0]}
            return _in_turns(turn, self._turns(60), 1)[""]

    def _live(self) -> list[dict[str, Any]]:
        """The whole live path: fast precision, 30 and 60 fps, without and under a display."""
        displays = ["none", *(["window"] if display_reachable() else [])]
        runs = [(30, "none")] if self._quick else [(f, d) for d in displays for f in (30, 60)]
        return [self._live_run(fps, display) for fps, display in runs]

    def _live_run(self, fps: int, display: str) -> dict[str, Any]:
        live, lrp = self._config.live, self._config.lrp
        live = live.model_copy(update={"source": f"synthetic:{fps}", "display": display})
        lrp = lrp.model_copy(update={"precision": device().fast_precision})
        config = self._config.model_copy(update={"live": live, "lrp": lrp})
        with tempfile.TemporaryDirectory() as folder:
            settings, stats = Path(folder, "config.yaml"), Path(folder, "stats.json")
            settings.write_text(as_yaml(Settings(config, {})), encoding="utf-8")
            seconds = QUICK_LIVE_S if self._quick else LIVE_S
            words = ["live", "--config", settings, "--stats", stats, "--duration", seconds, "-v"]
            begin = time.monotonic()
            process = subprocess.Popen(
                children.command("realtime_lrp", *map(str, words)),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            started, said, memory = None, [], {}
            try:
                for line in process.stderr or ():
                    said.append(line)
                    if "first map" in line:
                        started = time.monotonic() - begin
                        time.sleep(seconds * 0.8)
                        memory = _memory(process.pid)
                code = process.wait()
            finally:
                process.kill()
            if code or started is None:
                raise UnavailableError("The live path does not run:\n" + "".join(said[-3:]))
            figures = json.loads(stats.read_text())
        return {"fps": fps, "display": display, "start_s": started, **memory, **figures}


def _memory(pid: int) -> dict[str, float | None]:
    """Resident memory of a process now and at most, MiB; None where the system does not tell."""
    with suppress(OSError, KeyError, ValueError):
        status = Path("/proc", str(pid), "status").read_text().splitlines()
        sizes = dict(line.split(":", 1) for line in status)
        return {
            "memory_mib": int(sizes["VmRSS"].split()[0]) / 1024,
            "peak_memory_mib": int(sizes["VmHWM"].split()[0]) / 1024,
        }
    return {"memory_mib": None, "peak_memory_mib": None}


def _peak() -> dict[str, dict[str, float]]:
    """What the machine multiplies and reads at best, by precision."""
    return {precision: _peak_in(tf.as_dtype(precision)) for precision in _precisions()}


def _precisions() -> list[str]:
    """What this machine can compute in, float32 first."""
    further = ["bfloat16"] if computes_bfloat16() else []
    if device().fast_precision == "float16":
        further = ["float16"]
    return ["float32", *further]


def _peak_in(dtype: tf.DType) -> dict[str, float]:
    multiply = tf.function(tf.matmul, autograph=False)
    a = tf.ones([SIDE, SIDE], dtype)
    x, kernel = tf.ones([1, VECTORS], dtype), tf.ones([SIDE, VECTORS], dtype)
    product = min(_seconds(lambda: multiply(a, a)) for _ in range(4))
    reading = min(_seconds(lambda: multiply(x, kernel, transpose_b=True)) for _ in range(6))
    return {
        "gflops_per_s": 2 * SIDE**3 / product / 1e9,
        "gb_per_s": SIDE * VECTORS * dtype.size / reading / 1e9,
    }


def _floors(report: Mapping[str, Any]) -> dict[str, Figures]:
    """The least time of the three passes of z+ for each picture of a batch, by precision."""
    floors = {}
    for precision, peak in report["peak"].items():
        arithmetic = 3 * report["gflops"] / peak["gflops_per_s"]
        reading = 3 * report["million_weights"] * tf.as_dtype(precision).size / 1e3
        floors[precision] = {
            "arithmetic_ms": 1e3 * arithmetic,
            "weights_ms": 1e3 * reading / peak["gb_per_s"],
        }
    return floors


def _pictures(engine: Engine, turns: int) -> dict[str, dict[str, Figures]]:
    """Colour of a map, and laying it over a picture, by the picture's size."""
    painter = painter_for(engine)
    rows, columns, _ = engine.explainer.input_shape
    (result,) = engine.explain([moving_picture(0, (rows, columns), 30)])
    measured = {}
    for name, size in PICTURES.items():
        region, picture = engine.region(size), np.zeros((*size, 3), np.uint8)
        result = replace(result, region=region)
        overlay = colour(painter, result)
        follower = Follower(picture, [overlay])
        variants: dict[str, Run] = {
            "colour": partial(colour, painter, result),
            "overlay": partial(_laid_over, picture, overlay),
            "carry": partial(follower, picture),
        }
        measured[name] = _in_turns(variants, turns, 1)
    return measured


def _laid_over(picture: np.ndarray, overlay: Overlay) -> np.ndarray:
    """Uses a new overlay each time, because an overlay remembers its stretched copy."""
    return lay_over(picture, replace(overlay))


def _files(count: int) -> dict[str, float]:
    """Encoding and decoding a frame of `moving_picture`, 720p."""
    pictures = [moving_picture(number, PICTURES["720p"], 30) for number in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "clip.mp4")

        def encode() -> None:
            with VideoWriter(path, ".mp4", Fraction(30), Fraction(1, 30)) as writer:
                for number, picture in enumerate(pictures):
                    writer.write(picture, number)

        encoding = _seconds(encode)
        with VideoReader(path) as reader:
            decoding = _seconds(lambda: list(reader))
    return {"encode_ms": 1e3 * encoding / count, "decode_ms": 1e3 * decoding / count}


def _in_turns(variants: Mapping[_Name, Run], turns: int, batch: int) -> dict[_Name, Figures]:
    """Milliseconds for each picture of each variant: median, 10th and 90th percentile."""
    taken: dict[_Name, list[float]] = {name: [] for name in variants}
    for run in [*variants.values()] * WARM_UPS:
        run()
    for _ in range(turns):
        for name, run in variants.items():
            taken[name].append(1e3 * _seconds(run) / batch)
    return {
        name: {
            "ms": statistics.median(ms),
            "p10": float(np.percentile(ms, 10)),
            "p90": float(np.percentile(ms, 90)),
        }
        for name, ms in taken.items()
    }


def _seconds(run: Run) -> float:
    begin = time.perf_counter()
    result = run()
    if isinstance(result, tf.Tensor):
        result.numpy()  # a GPU answers before it has computed
    return time.perf_counter() - begin


def _noise(batch: int, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).uniform(-100, 100, (batch, *shape)).astype(np.float32)
