"""Timings in `bench`'s own process: maps, drawing and a window."""

import itertools
import logging
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from realtime_lrp.config import Config
from realtime_lrp.engine.boxes import painted
from realtime_lrp.engine.device import computes_bfloat16, device
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.tensorflow import tf
from realtime_lrp.errors import Error, first_line
from realtime_lrp.models.exported import session_of
from realtime_lrp.relevance.explainer import Explainer
from realtime_lrp.relevance.network import onednn
from realtime_lrp.relevance.network.graph import Graph
from realtime_lrp.relevance.network.linear import Linear
from realtime_lrp.relevance.network.steps import stabilise
from realtime_lrp.relevance.reading.building import build_graph
from realtime_lrp.relevance.rules.composites import Composite, any_layer
from realtime_lrp.relevance.rules.rules import LayerContext, Propagate, Rule
from realtime_lrp.relevance.rules.sharing import positive
from realtime_lrp.system.machine import core_count
from realtime_lrp.video.libraries import draw_in_one_thread
from realtime_lrp.video.sources import moving_picture
from realtime_lrp.view.look import Look
from realtime_lrp.view.motion import Follower
from realtime_lrp.view.painting import lay_over
from realtime_lrp.view.scene import Artist, Scene
from realtime_lrp.view.window import Window, display_reachable

Row = dict[str, Any]
Status = Callable[[str], None]  # shows a person what is being measured
Times = dict[str, float]  # milliseconds for a picture: {"ms": median, "p10": ..., "p90": ...}
Action = Callable[[], Any]  # does once what is timed

_Name = TypeVar("_Name")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Bench:
    """One run of the command: what is measured, and how much of it."""

    config: Config
    engine: Engine  # of that configuration, with its Keras model
    quick: bool
    status: Status

    def turns(self, full: int) -> int:
        return max(2, full // 3) if self.quick else full

    def pictures(self, count: int) -> np.ndarray:
        """Noise as the network gets it, float32 [count, h, w, C]; the same each time."""
        rows, columns, _ = self.engine.explainer.input_shape
        noise = np.random.default_rng(0).integers(0, 256, (count, rows, columns, 3), np.uint8)
        return np.asarray(self.engine.network.prepare(noise))


def time_in_turns(
    actions: Mapping[_Name, Action], turns: int, batch: int = 1, clock: Any = time.perf_counter
) -> dict[_Name, Times]:
    """Times actions in turn, so that other load affects all alike; for each picture of a batch."""
    taken: dict[_Name, list[float]] = {name: [] for name in actions}
    for action in [*actions.values()] * 2:  # memory is still being allocated in the second
        action()
    for _ in range(turns):
        for name, action in actions.items():
            begin = clock()
            result = action()
            if isinstance(result, tf.Tensor):
                result.numpy()  # a GPU returns before it has computed
            taken[name].append(1e3 * (clock() - begin) / batch)
    return {
        name: {
            "ms": statistics.median(ms),
            "p10": float(np.percentile(ms, 10)),
            "p90": float(np.percentile(ms, 90)),
        }
        for name, ms in taken.items()
    }


def time_maps(bench: Bench) -> list[Row]:
    """The baseline, our map, and our forward pass alone, at growing batches."""
    engine = bench.engine
    quick = bench.quick
    fast = device().fast_precision
    explainers = {"float32": engine.explainer}
    if computes_bfloat16():
        bench.status("building in bfloat16")
        explainers["bfloat16"] = engine.variant(precision="bfloat16")
    size = engine.config.model.size
    baseline_explainer = baseline(build_graph(engine.model), size=size)
    compiled = engine.variant(precision=fast, xla=True) if device().is_gpu else None
    rows = []
    for batch in (1, 8) if quick else (1, 2, 4, 8, 16):
        bench.status(f"maps, batch {batch}")
        x = bench.pictures(batch)
        actions: dict[tuple[str, str], Action] = {}
        if batch == 1:
            actions["origin", "float32"] = partial(baseline_explainer, x)
            if exported := exported_map(engine):
                actions["exported", "float32"] = exported
            if engine.detects:
                actions |= {
                    (what, "float32"): partial(engine.explainer.detections, x, top, 0)
                    for what, top in (("one_box", 1), ("four_boxes", 4))
                }
        for precision, explainer in explainers.items():
            if quick and batch > 1 and precision != fast:
                continue
            actions["map", precision] = partial(explainer, x)
            actions["forward", precision] = partial(explainer.scores, x)
        if compiled:
            actions["xla", fast] = partial(compiled, x)
        times = time_in_turns(actions, bench.turns(9 if batch < 8 else 3), batch)
        rows += [
            {"what": what, "precision": precision, "batch": batch, **row}
            for (what, precision), row in times.items()
        ]
    return rows


def exported_map(engine: Engine) -> Action | None:
    """A map of the exported file, on as many threads as TensorFlow; None where there is no file."""
    try:
        from realtime_lrp.export.file import check, graph_of, model_of

        check(engine)
        file = model_of(graph_of(engine, False)).SerializeToString()
        threads = tf.config.threading.get_intra_op_parallelism_threads() or core_count()
        session = session_of(file, threads)
    except (ImportError, Error) as error:
        log.warning("The exported map is not measured: %s", first_line(error))
        return None
    shape = (1, *engine.explainer.input_shape[:2], 3)
    picture = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    target = np.ones(engine.explainer.classes, np.float32)
    return partial(session.run, None, {"picture": picture, "target": target})


SIZES = {"720p": (720, 1280), "1080p": (1080, 1920)}  # name -> rows and columns


def time_drawing(bench: Bench) -> dict[str, dict[str, Times]]:
    """Colouring a map, laying it over a picture, moving it along; by the picture's size."""
    engine = bench.engine
    rows, columns, _ = engine.explainer.input_shape
    (result,) = engine.explain([moving_picture(0, (rows, columns), 30)])
    times = {}
    for name, size in SIZES.items():
        picture, *later = [moving_picture(number, size, 30) for number in range(11)]
        result = replace(result, region=engine.region(size))
        shown = painted(engine, picture, result)
        coming = itertools.cycle(later)
        actions: dict[str, Action] = {
            "colour": partial(painted, engine, picture, result),
            # a new overlay each time, because one remembers its stretched copy
            "overlay": partial(
                lambda picture, one: lay_over(picture, replace(one)), picture, shown.overlays[0]
            ),
            "carry": partial(lambda move, few: move(next(few)), Follower(shown), coming),
        }
        times[name] = time_in_turns(actions, bench.turns(20))
    return times


def time_window(bench: Bench) -> dict[str, dict[str, Times]]:
    """Milliseconds of a core to draw and show a picture: size of the canvas -> "draw", "show"."""
    if not display_reachable():
        return {}
    draw_in_one_thread()
    pictures = [moving_picture(number, SIZES["720p"], 30) for number in range(10)]
    engine = bench.engine
    coming = itertools.cycle(pictures[1:])
    (result,) = engine.explain(pictures[:1])
    explained = painted(engine, pictures[0], result)
    look = Look.of(engine.config.overlay)
    artist = Artist()
    times = {}
    canvas: list[np.ndarray] = []  # the last one that was drawn
    with Window() as window:

        def draw() -> None:
            canvas[:] = [artist.draw(Scene(window.size, next(coming), explained, False, look))]

        def show() -> None:
            window.show(canvas[0])
            window.events()

        actions: dict[str, Action] = {"draw": draw, "show": show}
        for full in (False, True):
            window.fill_screen(full)
            for _ in range(30):  # it takes its new size
                window.events()
            name = f"{window.size[1]} x {window.size[0]}"
            times[name] = time_in_turns(actions, bench.turns(60), clock=time.process_time)
    return times


@dataclass(frozen=True)
class OriginalZPlus(Rule):
    """z+ with w' = max(w, 0), and a' = 1 at input layers; nothing is prepared in advance."""

    keeps_sign = True

    def bind(self, layer: Linear, context: LayerContext) -> Propagate:
        def propagate(a: tf.Tensor, relevance: tf.Tensor) -> tf.Tensor:
            a = tf.ones_like(a) if context.is_input else positive(a)
            weights = layer.ready(positive(layer.kernel))
            s = relevance / stabilise(layer.transform(a, weights))
            return a * layer.transpose(s, weights, tf.shape(a))

        return propagate


def baseline(graph: Graph, **of_network: Any) -> Explainer:
    """The first z+, in plain TensorFlow: do not make it faster. It uses the graph up."""
    with onednn.disabled():
        composite = Composite(((any_layer, OriginalZPlus()),))
        explainer = Explainer(graph, composite=composite, **of_network)
        explainer(np.zeros((1, *explainer.input_shape), np.float32))  # compiles
    return explainer
