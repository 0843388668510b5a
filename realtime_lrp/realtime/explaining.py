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
from dataclasses import dataclass
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

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine
    from realtime_lrp.engine.result import Result
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
    """

    choice: EngineChoice
    target: str | int
    frame: Item[np.ndarray] | None = None
    mask: np.ndarray | None = None
    probe: bool = False


@dataclass(frozen=True, eq=False)
class ExplainedFrame:
    """A frame with its raw maps; nothing is scaled or coloured yet.

    Attributes:
      frame: the frame as it was captured.
      picture: uint8 [H, W, 3] RGB, what the network saw of it: with the painted patches.
      request: what was asked for.
      engine: explained it.
      result: the raw maps and scores.
      uncovered: without patches, the probability of each label in `scores`; None where there are
        no patches.
      probed: what the faithfulness probe found, or None.
    """

    frame: Item[np.ndarray]
    picture: np.ndarray
    request: MapRequest
    engine: Engine
    result: Result
    uncovered: list[float] | None = None
    probed: ProbeResult | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The method or composite of each map."""
        return self.engine.name, *self.engine.also

    @functools.cached_property
    def scores(self) -> list[tuple[str, float]]:
        """Label and probability of the best classes, best first, `TOP` of them."""
        return top_scores(self.engine, self.result.scores, TOP)

    @functools.cached_property
    def totals(self) -> tuple[float | None, ...]:
        """The sum of each map that has to be the explained score, None for other maps."""
        lrp = self.engine.settings.lrp
        conserving = COMPOSITES.known() if not lrp.absorb_bias and lrp.keep >= 1 else ()
        return tuple(
            one.total if name in conserving else None
            for one, name in zip(self.result.maps, self.names, strict=True)
        )

    @functools.cached_property
    def conserved(self) -> list[bool]:
        """Whether the sum of each map is the explained score, within the bound."""
        explained, magnitude = self.result.explained
        bound = max(WITHIN.get(self.engine.precision, 0.05) * magnitude, ROUNDING)
        return [total is None or abs(total - explained) <= bound for total in self.totals]


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
        explained = self._explained(begun, result)
        seconds = time.monotonic() - begun.time
        if not self._stats.maps:
            log.info("first map after %.1f s of preparation", seconds)
        self.failing, self._failures = "", 0
        self._stats.map_made(1, seconds)
        self.maps.put(explained, begun.frame.time)
        if self.engine_cache and self.engine_cache.preparing:
            self._stop.wait(seconds)  # half the time for what is waited for

    def _explained(self, begun: _Begun, result: Result) -> ExplainedFrame:
        engine, region = begun.engine, result.region
        uncovered = None
        if begun.picture is not begun.frame.value:
            order = np.argsort(-result.scores)[:TOP]
            uncovered = engine.scores(region.extract(begun.frame.value)[None])[0, order].tolist()
        return ExplainedFrame(
            frame=begun.frame,
            picture=begun.picture,
            request=begun.request,
            engine=engine,
            result=result,
            uncovered=uncovered,
            probed=self._probe_result(begun, result) if begun.request.probe else None,
        )

    def _probe_result(self, begun: _Begun, result: Result) -> ProbeResult:
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
    return MapRequest(choice, lrp.target)


def explained_against(config: Config, target: str | int) -> bool:
    """Whether one class is explained against others in a precision that may be chosen."""
    return config.lrp.precision == "auto" and " - " in str(target)
