"""The relevance thread: explains the newest frame, again and again, as last requested.

The thread imports TensorFlow, this module does not: a window can be open and answer before.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from realtime_lrp.config import Config
from realtime_lrp.config.names import VIEWER_COMPOSITE
from realtime_lrp.config.values import corners
from realtime_lrp.engine.boxes import BoxNumbers, part_of
from realtime_lrp.engine.measured import share_cores
from realtime_lrp.engine.result import Aim, ConceptRequest, ConceptResult, FoundBox, ResultMap
from realtime_lrp.engine.segments import area_list
from realtime_lrp.engine.wording import Loss, find_loss, top_scores
from realtime_lrp.errors import Error, NotFiniteError, UsageError, first_line
from realtime_lrp.realtime.engine_cache import EngineCache, EngineChoice
from realtime_lrp.realtime.faithfulness import Mask, Probe, ProbeResult, covered
from realtime_lrp.realtime.latest import Item, Slot
from realtime_lrp.realtime.stats import Meter, Stats
from realtime_lrp.system import machine
from realtime_lrp.system.geometry import FloatBox

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine
    from realtime_lrp.engine.result import Result

STOP_S = 2.0  # maximum wait for the thread at the end
IDLE_S = 0.1  # maximum wait for a frame before the request is read again
POLL_S = 0.005  # how often a map that is computed elsewhere is asked for
REST_S = 2.0  # how long the thread leaves the processor to others after a map, at most
RETRY_S = 1.0  # pause after a failure; then the newest frame is tried
TRIES = 3  # after this many failures in a row the engine leaves the GPU
TOP = 5  # how many of the best classes are named
LOSS_S = 60.0  # the layer that loses relevance is sought no more often; maps wait for it
AVERAGED_S = 0.2  # time in which a vanished channel's share falls to 1/e
ADVANTAGE = 0.3  # a channel replaces a shown one once its average share is larger by this part
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MapRequest:
    """The relevance thread's order: equal requests give the same map."""

    choice: EngineChoice
    target: str  # what is explained, in the user's words, see `TargetResolver`
    frame: Item[np.ndarray] | None = None  # the frame to explain; None is the newest
    mask: Mask | None = None  # what of the frame is covered
    probe: bool = False
    concepts: ConceptRequest | None = None  # the channels whose maps are wanted too, or None
    box: int | None = None  # the number of a detector's box that is shown alone
    region: FloatBox | None = None  # shares of the picture; None: all of it, or what it follows
    aim: Aim = field(default_factory=Aim)  # what of a segmentation is explained


@dataclass(frozen=True, eq=False)
class ExplainedFrame:
    """A frame with its raw maps; nothing is scaled or coloured yet."""

    frame: Item[np.ndarray]
    picture: np.ndarray  # uint8 [H, W, 3] RGB, what the network saw of it: with the painted patches
    request: MapRequest  # without concepts while these are being prepared
    engine: Engine
    result: Result
    uncovered: np.ndarray | None = None  # scores without patches, if some are, once prepared
    probed: ProbeResult | None = None
    shares: np.ndarray | None = None  # float32 [channels], steady ones of `result.concepts`
    loss: Loss | None = None  # where relevance went that is missing; None where nothing is missing
    lost: frozenset[int] = frozenset()  # which of the boxes are not in the picture any more

    @property
    def lacks_uncovered(self) -> bool:
        """Whether patches are painted, and the scores without them are not known yet."""
        return self.picture is not self.frame.value and self.uncovered is None

    def with_uncovered(self) -> ExplainedFrame:
        """The same with the scores without patches, where some are painted."""
        if not self.lacks_uncovered:
            return self
        (scores,) = self.engine.scores(self.result.region.extract(self.frame.value)[None])
        return replace(self, uncovered=scores)

    @property
    def shown(self) -> Result:
        """The box of a detector that is shown alone, if it is found; else the whole result."""
        return part_of(self.result, self.request.box)

    @property
    def maps(self) -> tuple[ResultMap, ...]:
        return self.shown.maps

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.result.maps)

    @property
    def boxes(self) -> tuple[FoundBox, ...] | None:
        """A detector's boxes that are spoken of: the one alone, else all that are seen."""
        if self.result.found is None:
            return None
        seen = (one for n, one in enumerate(self.result.found) if n not in self.lost)
        return tuple(one for one in seen if self.shown in (self.result, one))

    @cached_property
    def answers(self) -> list[tuple[str, float]]:
        """Label and probability of the best classes, best first, `TOP` of them; or of the boxes.

        Of a segmentation the explained class, then the others, each with its share of the picture.
        """
        if segments := self.result.segments:
            own = self.engine.label(segments.label)
            areas = area_list(self.engine, segments)
            here = [area for area in areas if area[0] == own] or [(own, 0.0)]
            return [*here, *(area for area in areas if area[0] != own)][:TOP]
        if self.boxes is None:
            return top_scores(self.engine.label, self.result.scores, TOP)
        return [(self.engine.label(box.label), box.score) for box in self.boxes]


class SteadyShares:
    """Averages channels' shares over a series of pictures: shown ones keep an advantage."""

    def __init__(self) -> None:
        self._series: object = None
        self._average: np.ndarray | None = None
        self._shown: list[int] = []
        self._time = 0.0

    def prior(self, series: object, now: float) -> np.ndarray | None:
        """The `prior` of the next picture, see `Engine.begin`; None for a picture by itself."""
        if self._average is None or series is None or series != self._series:
            return None
        kept = self._kept(now)
        factor = np.ones_like(self._average)
        factor[self._shown] = 1 + ADVANTAGE
        return np.stack([np.abs(self._average) * np.float32(kept / (1 - kept)), factor])

    def add(self, series: object, found: ConceptResult, now: float) -> np.ndarray:
        """Notes which channels were chosen; returns the average shares, or a lone picture's own."""
        new = found.by_channel
        before = self._average
        if series is None:
            return new
        if before is not None and series == self._series and new.size == before.size:
            kept = np.float32(self._kept(now))
            new = kept * before + (1 - kept) * new
        self._series = series
        self._time = now
        self._average = new
        self._shown = [one.channel for one in found.maps]
        return new

    def _kept(self, now: float) -> float:
        return min(math.exp(-max(now - self._time, 0.0) / AVERAGED_S), 0.99)


class RelevanceThread:
    """Loads the network, once the one of `after` is loaded, then explains frames.

    A changeable one keeps the Keras model, and prepares other engines for later requests.
    """

    def __init__(
        self,
        config: Config,
        frames: Slot[np.ndarray],
        request: MapRequest,
        stats: Stats,
        changeable: bool = False,
        after: RelevanceThread | None = None,
    ):
        self.maps: Slot[ExplainedFrame] = Slot()
        self.engine: Engine | None = None  # explained last; None while the first is loaded
        self._failures = 0
        self.engine_cache: EngineCache | None = None  # None while the first engine is loaded
        self.request = request  # set it to change what is explained
        self.choice = request.choice  # the choice behind `engine`
        self.config = config
        self._changeable = changeable
        self._after = after
        self._frames = frames
        self.stats = stats
        self._error: Exception | None = None
        self._failure: Exception | None = None
        self._stop = threading.Event()
        # of maps that are computed, oldest first: whether it is done, and what finishes it
        self._in_flight: deque[tuple[Callable[[], bool], Callable[[], float]]] = deque()
        self._number = 0
        self._last: tuple[int, MapRequest, Engine] | None = None  # what was started last
        self._shares = SteadyShares()
        self._number_boxes = BoxNumbers()
        self.failing, self.waiting = "", Meter()  # seconds that it waits for frames
        self.others: Callable[[], float] = lambda: 0  # how many others compute: each gets its time
        self._probe = Probe()
        self._untested: ExplainedFrame | None = None  # the newest answer, if a test is wanted
        self._tested: ExplainedFrame | None = None
        self._loss: tuple[float, tuple[Engine, int | None], Loss] | None = None
        self._thread = threading.Thread(target=self._run, name="relevance", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def __enter__(self) -> RelevanceThread:
        self.start()
        return self

    def end(self) -> None:
        """Starts no further map."""
        self._stop.set()
        if self.engine_cache:
            self.engine_cache.stop()

    def __exit__(self, *exception: object) -> None:
        self.end()
        self._thread.join(STOP_S)

    def check(self, patient: bool = True) -> None:
        """Raises the error that ended the thread; impatiently also one before the first map."""
        if self._error is not None:
            raise self._error
        if self._failure and not (patient or self.maps.count):
            raise self._failure

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def doing(self) -> str:
        """Why there are no maps, or ""."""
        if self.engine_cache is None:
            return f"loading {Path(self.config.model.name).name}"
        return self.failing

    def _run(self) -> None:
        try:
            while self._after and not self._after.engine:
                if self._stop.wait(IDLE_S):
                    return
            self._explain_frames()
        except Exception as error:
            self._error = error
            name = self.config.model.name
            if self._after and isinstance(error, Error) and name not in str(error):
                error.args = (f"{name}: {error}",)  # because there are several networks
            if self._after and isinstance(error, UsageError):
                error.about = None  # it is no setting of the first network

    def _explain_frames(self) -> None:
        if not self.config.live.also_models:  # several networks share all threads
            share_cores(self.config.model.name)
        from realtime_lrp.engine.gallery import gallery_of
        from realtime_lrp.engine.opening import engine_for

        first = self.request.choice
        begin = time.monotonic()
        machine.free_all_cycles()  # such as the network of an earlier try
        engine = self.engine or engine_for(
            self.config, moving=True, keep_model=self._changeable, also=first.also,
            otherwise=VIEWER_COMPOSITE,
        )  # fmt: skip
        engine.gallery = gallery_of(engine)
        engine.warm_up()
        engine_cache = self.engine_cache = EngineCache(self.config, engine, first)
        engine_cache.start()
        self.engine = engine
        log.info("%s is ready after %.1f s", engine.network.name, time.monotonic() - begin)
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
                self._last = self._untested = None
                self._stop.wait(RETRY_S)
                if self._failures == TRIES and not isinstance(error, NotFiniteError):
                    engine.leave_gpu(f"{TRIES} failures in a row")
        engine_cache.stop()  # which `end` did not know while the network was loaded

    def _go_on(self, request: MapRequest, engine: Engine) -> None:
        """Starts the next frame, if there is one, and finishes the oldest one in flight."""
        in_flight = self._in_flight
        frame = request.frame
        asked = request
        cache = self.engine_cache
        if request.concepts and not (cache and cache.has_concepts(engine, request.concepts)):
            asked = replace(request, concepts=None)  # they cannot be computed at once
        if frame is None:
            with self.waiting:
                timeout_s = 0 if self._done() else POLL_S if in_flight else IDLE_S
                frame = self._frames.newest(self._number, timeout_s)
            # a photo stays for seconds, and was explained for another request
            before = self._last and self._last[1:]
            if frame is None and self._changeable and before not in (None, (asked, engine)):
                frame = self._frames.newest()
        elif self._last == (frame.number, asked, engine):
            frame = None
            if not self._done():
                with self.waiting:
                    self._stop.wait(POLL_S if in_flight else IDLE_S / 4)
        if frame is not None:
            if self.request is not request:  # changed while this waited for a frame
                return
            self._number = frame.number
            self._last = (frame.number, asked, engine)
            in_flight.append(self._start(frame, asked, engine))
        full = len(in_flight) >= engine.in_flight
        if full or (frame is None and self._done()):
            seconds = in_flight.popleft()[1]()
            preparing = bool(cache and cache.preparing)
            if others := preparing + self.others():
                while in_flight:  # else these maps would be old ones after the rest
                    in_flight.popleft()[1]()
                self._stop.wait(min(others * seconds, REST_S))
        self._test()

    def _done(self) -> bool:
        return bool(self._in_flight) and self._in_flight[0][0]()

    def _start(
        self, frame: Item[np.ndarray], request: MapRequest, engine: Engine
    ) -> tuple[Callable[[], bool], Callable[[], float]]:
        """Starts a map; returns whether it is done, and what shows it and returns its seconds."""
        start = time.monotonic()
        concepts = request.concepts
        picture = covered(frame.value, request.mask)
        regions = engine.sight.regions(  # also where patches are painted over what it follows
            [frame.value], request.region, times=[frame.time], source=frame.source
        )
        series = None  # whose shares of channels are averaged
        if concepts and not request.frame:
            series = engine, request.target, frame.source, concepts.layer, request.box
        prior = self._shares.prior(series, start)
        if concepts and request.box is not None:
            concepts = replace(concepts, near=self._number_boxes.place_of(request.box))
        begun = engine.begin(
            regions[0].extract(picture)[None], targets=[request.target], concepts=concepts,
            prior=prior, regions=regions, aim=request.aim,
        )  # fmt: skip

        def finish() -> float:
            (result,) = begun()
            result = self._number_boxes(result, frame.source)
            found = result.concepts
            tested = self._tested
            follows = tested and tested.engine is engine and tested.request == request
            explained = ExplainedFrame(
                frame, picture, request, engine, result,
                probed=tested.probed if tested and follows else None,
                shares=None if found is None else self._shares.add(series, found, start),
                loss=self._loss_of(engine, picture, result, request.box),
            )  # fmt: skip
            if engine.scores_ready:
                explained = explained.with_uncovered()
            now = time.monotonic()
            if not self.stats.maps:
                log.info("first map, %.2f s after its picture", now - frame.time)
                machine.leave_out_of_collection()
            self.failing = ""
            self._failures = 0
            self.stats.map_made(1, now - start)
            self.maps.put(explained, frame.time)
            self._untested = explained if request.probe or explained.lacks_uncovered else None
            return now - start

        return begun.done, finish

    def _test(self) -> None:
        """Tests the newest answer, once that is prepared; it comes again, or the next with it."""
        explained = self._untested
        cache = self.engine_cache
        if explained is None or cache is None or not cache.has_scores(explained.engine):
            return
        self._untested = None
        request = explained.request
        explained = explained.with_uncovered()
        if request.probe:
            probed = self._probe.of_map(
                explained.engine, explained.picture, explained.result, request.mask,
                request.frame is not None, request.box,
            )  # fmt: skip
            explained = self._tested = replace(explained, probed=probed)
        if request.frame or explained.frame.number == self._frames.count:
            self.maps.put(explained, explained.frame.time)

    def _loss_of(
        self, engine: Engine, picture: np.ndarray, result: Result, alone: int | None
    ) -> Loss | None:
        """The place where a map loses most relevance, sought every minute."""
        shown = part_of(result, alone)
        index = next((n for n, one in enumerate(shown.maps) if not one.closes), None)
        if index is None:
            return None
        now = time.monotonic()
        asked = (engine, alone)
        when, found_for, loss = self._loss or (-LOSS_S, None, None)
        if loss is None or found_for != asked or now - when > LOSS_S:
            loss = find_loss(engine, result.region.extract(picture), shown, index)
            self._loss = now, asked, loss
        return loss


def first_request(config: Config) -> MapRequest:
    """The configuration's request."""
    region = corners(config.input.region) if config.input.region else None
    choice = EngineChoice.of(config)
    return MapRequest(choice, config.lrp.target, region=region, aim=Aim.of(config))
