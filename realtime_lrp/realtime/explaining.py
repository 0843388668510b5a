"""The relevance thread: explains the newest frame again and again, as it was last asked to.

TensorFlow is imported by that thread, not with this module: a window is open before, and answers.
"""

from __future__ import annotations

import functools
import gc
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from realtime_lrp.config import Config
from realtime_lrp.config.names import COMPOSITES
from realtime_lrp.engine.wording import top_scores
from realtime_lrp.errors import NotFiniteError, first_line
from realtime_lrp.realtime.engine_cache import EngineCache, EngineChoice
from realtime_lrp.realtime.faithfulness import Probe, ProbeResult, covered
from realtime_lrp.realtime.latest import Item, Slot
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.view.overlay import SMOOTHING, Scale, intensity
from realtime_lrp.view.scene import Box, ExplainedPicture, Panel

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine
    from realtime_lrp.engine.result import Result, ResultMap
    from realtime_lrp.relevance.explainer import Explainer

STOP_S = 2.0
IDLE_S = 0.1
RETRY_S = 1.0
"""After explaining failed it is tried again so much later, with the newest frame."""

TRIES = 3
"""So many failures in a row are a GPU's last."""

TOP = 5

WITHIN = {"float32": 0.01}
"""How far the sum of relevance may be from what is explained, by the relevance that began at the
output; 0.05 in other precisions."""

ROUNDING = 1e-6
"""What is off by less is rounding, however little there is to explain."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class MapRequest:
    """What is asked of the relevance thread; replaced as a whole.

    Attributes:
      choice: the engine.
      target: what is explained, see `TargetResolver`.
      frame: the one to explain; None is the newest.
      mask: bool [H, W], what of it is covered; or None.
      probe: whether the faithfulness probe runs.
      alone: whether each map is scaled by itself and not averaged with those before.
    """

    choice: EngineChoice
    target: str | int
    frame: Item[np.ndarray] | None = None
    mask: np.ndarray | None = None
    probe: bool = False
    alone: bool = False


@dataclass(frozen=True, eq=False)
class ExplainedFrame:
    """A finished map, or several of the same frame.

    Attributes:
      frame: what it explains, as it was captured.
      request: what was asked.
      engine: what explained it.
      result: the raw maps and scores.
      finding: what is drawn of it.
      scores: label and probability, best first, TOP of them.
      uncovered: the probabilities of these labels without patches; None where there are none.
      explained: the score that is explained, its magnitude as LRP counts it.
      totals: the sum of each map where it has to be the explained score, else None.
      flipped: what the faithfulness probe says, or None.
    """

    frame: Item[np.ndarray]
    request: MapRequest
    engine: Engine
    result: Result
    finding: ExplainedPicture
    scores: list[tuple[str, float]]
    uncovered: list[float] | None
    explained: tuple[float, float]
    totals: tuple[float | None, ...]
    flipped: ProbeResult | None

    @functools.cached_property
    def conserved(self) -> list[bool]:
        """Whether the sum of each map is what is explained, within the bound."""
        explained, magnitude = self.explained
        bound = WITHIN.get(self.engine.precision, 0.05) * magnitude
        bound = max(bound, ROUNDING)
        return [one is None or abs(one - explained) <= bound for one in self.totals]


@dataclass
class _Drawing:
    """How maps of one kind are scaled and averaged from one to the next."""

    kind: tuple[Engine, str | int, bool]
    smoothing: float
    average: float
    scales: list[Scale] = field(default_factory=list)
    before: list[np.ndarray] = field(default_factory=list)

    def __call__(self, maps: tuple[ResultMap, ...], inner: Box) -> list[np.ndarray]:
        self.scales = self.scales or [Scale(self.smoothing) for _ in maps]
        made = [
            intensity(one.strength, inner, one.scale / scale(one.scale))
            for one, scale in zip(maps, self.scales, strict=True)
        ]
        if self.average and self.before and self.before[0].shape == made[0].shape:
            made = [
                self.average * old + (1 - self.average) * new
                for old, new in zip(self.before, made, strict=True)
            ]
        self.before = made
        return made


@dataclass(frozen=True)
class _Begun:
    frame: Item[np.ndarray]
    picture: np.ndarray
    request: MapRequest
    engine: Engine
    time: float
    results: Callable[[], list[Result]]


@dataclass(frozen=True)
class _Probed:
    """A probe, and what its means are of."""

    engine: Engine
    asked: int
    mask: np.ndarray | None
    probe: Probe

    def fits(self, engine: Engine, asked: int, mask: np.ndarray | None) -> bool:
        """Whether its means go on: each stroke of the brush makes another mask."""
        return self.engine is engine and self.asked == asked and self.mask is mask


class RelevanceThread:
    """Loads the network, then explains frames.

    Args:
      config: the effective configuration.
      frames: the slot that holds the newest frame.
      request: what is asked first.
      stats: counts maps.
      changeable: whether other choices will be asked for; the Keras model is kept for them.
      engine: one that is ready for the request, instead of loading the network.

    Attributes:
      maps: the slot that holds the newest map.
      engine: the one that explained last, None while the first is loaded.
      request: what is asked; whoever wants something else puts another one here.
      choice: the one of that engine.
      failing: why there are no maps, where they cannot be computed at the moment; else "".
      engine_cache: where other engines are made; None while the first is loaded.
    """

    def __init__(
        self,
        config: Config,
        frames: Slot[np.ndarray],
        request: MapRequest,
        stats: Stats,
        changeable: bool = False,
        engine: Engine | None = None,
    ):
        self.maps: Slot[ExplainedFrame] = Slot()
        self.engine = engine
        self._failures = 0
        self.engine_cache: EngineCache | None = None
        self.request, self.choice = request, request.choice
        self._config = config
        self._changeable = changeable
        self._frames = frames
        self._stats = stats
        self._error: Exception | None = None
        self._failure: Exception | None = None
        self._stop = threading.Event()
        self._in_flight: deque[_Begun] = deque()
        self._number = 0
        self._last: tuple[int, MapRequest, Engine] | None = None
        self.failing = ""
        self._aimed: tuple[Explainer, str | int] | None = None
        self._drawing: _Drawing | None = None
        self._probed: _Probed | None = None
        self._thread = threading.Thread(target=self._run, name="relevance", daemon=True)

    def start(self) -> None:
        """Begins to load the network."""
        self._thread.start()

    def __enter__(self) -> RelevanceThread:
        self.start()
        return self

    def end(self) -> None:
        """Begins no further map."""
        self._stop.set()
        if self.engine_cache:
            self.engine_cache.stop()

    def __exit__(self, *exception: object) -> None:
        self.end()
        self._thread.join(STOP_S)

    def check(self, patient: bool = True) -> None:
        """Raises what ended the thread; unless patient also what fails from the beginning on."""
        if self._error is not None:
            raise self._error
        if self._failure and not (patient or self.maps.count):
            raise self._failure

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def doing(self) -> str:
        """What is being prepared, or why there are no maps; else ""."""
        if self.engine_cache is None:
            return "loading the network"
        if self.failing:
            return self.failing
        preparing = self.engine_cache.preparing
        if preparing is None:
            return ""
        name = preparing.composite if preparing.method == "lrp" else preparing.method
        return f"preparing {name}" + (" with random weights" if preparing.random else "")

    def _run(self) -> None:
        try:
            self._explain_frames()
        except Exception as error:
            self._error = error

    def _explain_frames(self) -> None:
        from realtime_lrp.engine.engine import Engine

        first = self.request.choice
        gc.collect()  # what an earlier try left: Keras models hold on to themselves
        engine = self.engine or Engine(
            self._config, moving=True, keep_model=self._changeable,
            also=first.also,
        )  # fmt: skip
        engine_cache = self.engine_cache = EngineCache(self._config, engine, first)
        engine_cache.start()
        self.engine = engine
        self._number = self._frames.count
        while not self._stop.is_set():
            request = self.request
            if ready := engine_cache.engine_for(request.choice):
                engine = self.engine = ready
                self.choice = request.choice
            try:
                self._go_on(request, engine)
            except Exception as error:
                self._failure = error
                if not self.failing:
                    log.error("explaining failed, trying again: %s", first_line(error))
                self.failing = f"no map, trying again: {first_line(error)}"
                self._failures += 1
                self._in_flight.clear()
                self._last = None
                self._stop.wait(RETRY_S)
                if self._failures == TRIES and not isinstance(error, NotFiniteError):
                    engine.leave_gpu(f"{TRIES} failures in a row")

    def _go_on(self, request: MapRequest, engine: Engine) -> None:
        """Begins the next frame, if there is one, and finishes the oldest that was begun."""
        begun, frame = self._in_flight, request.frame
        if frame is None:
            frame = self._frames.newest(after=self._number, timeout_s=0 if begun else IDLE_S)
        elif (frame.number, request, engine) == self._last:
            frame = None
            if not begun:
                self._stop.wait(IDLE_S / 4)
        if frame is not None:
            if self.request is not request:  # asked for something else while it waited
                return
            self._number, self._last = frame.number, (frame.number, request, engine)
            begun.append(self._begun(frame, request, engine))
        if begun and (frame is None or len(begun) >= engine.in_flight):
            self._finish(begun.popleft())

    def _begun(self, frame: Item[np.ndarray], request: MapRequest, engine: Engine) -> _Begun:
        begin = time.monotonic()
        aim = engine.explainer, request.target  # the CPU that takes over has another explainer
        if aim != self._aimed:
            engine.explainer.set_target(request.target)
            self._aimed = aim
        picture = covered(frame.value, request.mask)
        return _Begun(frame, picture, request, engine, begin, engine.begin([picture]))

    def _finish(self, begun: _Begun) -> None:
        (result,) = begun.results()
        made = self._made(begun, result)
        seconds = time.monotonic() - begun.time
        if not self._stats.maps:
            log.info("first map after %.1f s of preparation", seconds)
        self.failing, self._failures = "", 0
        self._stats.map_made(1, seconds)
        self.maps.put(made, begun.frame.time)
        if self.engine_cache and self.engine_cache.preparing:
            self._stop.wait(seconds)  # half the time for what is waited for

    def _made(self, begun: _Begun, result: Result) -> ExplainedFrame:
        engine, request, region = begun.engine, begun.request, result.region
        kind = engine, request.target, request.alone
        if self._drawing is None or self._drawing.kind != kind:
            average = 0.0 if request.alone else self._config.overlay.average
            self._drawing = _Drawing(kind, 0.0 if request.alone else SMOOTHING, average)
        shown = self._drawing(result.maps, region.inner)
        names = (engine.name, *engine.also)
        panels = tuple(map(Panel, names, shown, engine.explainer.signs))
        sums = _conserving(engine, names)
        uncovered = None
        if begun.picture is not begun.frame.value:
            order = np.argsort(-result.scores)[:TOP]
            uncovered = engine.scores(region.extract(begun.frame.value)[None])[0, order].tolist()
        return ExplainedFrame(
            frame=begun.frame,
            request=request,
            engine=engine,
            result=result,
            finding=ExplainedPicture(begun.picture, region.box, panels),
            scores=top_scores(engine, result.scores, TOP),
            uncovered=uncovered,
            explained=result.explained,
            totals=tuple(
                one.total if sum_ else None for one, sum_ in zip(result.maps, sums, strict=True)
            ),
            flipped=self._flipped(begun, result) if request.probe else None,
        )

    def _flipped(self, begun: _Begun, result: Result) -> ProbeResult:
        region, request = result.region, begun.request
        first = str(begun.engine.explainer.canonical(request.target)).split(" - ")[0]
        asked = int(first) if first.isdecimal() else int(np.argmax(result.scores))
        strength = result.maps[0].strength.astype(np.float32)
        known = self._probed
        if not (known and known.fits(begun.engine, asked, request.mask) and request.frame is None):
            known = self._probed = _Probed(begun.engine, asked, request.mask, Probe())
        return known.probe(
            region.extract(begun.picture),
            strength if strength.ndim == 2 else strength.sum(-1),
            asked,
            float(result.scores[asked]),
            begun.engine.scores,
        )


def _conserving(engine: Engine, names: tuple[str, ...]) -> list[bool]:
    """Which of the maps has to sum to the explained score: those of LRP with nothing left out."""
    lrp = engine.settings.lrp
    if lrp.absorb_bias or lrp.keep < 1:
        return [False] * len(names)
    return [name in COMPOSITES.known() for name in names]


def first_request(config: Config) -> MapRequest:
    """What the configuration asks for."""
    lrp = config.lrp
    choice = EngineChoice(
        lrp.method,
        lrp.composite,
        config.overlay.map,
        random=config.model.weights == "random",
        against=explained_against(config, lrp.target),
    )
    return MapRequest(choice, lrp.target, alone=config.overlay.follow == "sync")


def explained_against(config: Config, target: str | int) -> bool:
    """Whether one class is explained against others in a precision that may be chosen."""
    return config.lrp.precision == "auto" and " - " in str(target)
