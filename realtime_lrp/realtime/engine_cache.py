"""Prepares engines in the background: the view goes on with the present one meanwhile."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from realtime_lrp.config import Config
from realtime_lrp.config.names import AUTO, VIEWER_COMPOSITE
from realtime_lrp.engine.result import ConceptRequest
from realtime_lrp.errors import Error, first_line
from realtime_lrp.relevance.maps.targets import VERSUS
from realtime_lrp.system import machine

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine

MAX_WEIGHTS = 300e6  # weights of all kept engines together
MAX_ENGINES = 8  # two are always kept
ANY_CONTRAST = "0 - rest"  # the target of an engine for contrasts: it decides the precision
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EngineChoice:
    """The choices that need an engine of their own."""

    method: str  # see `lrp.method`
    composite: str  # see `lrp.composite`
    channels: str  # "grey" or "rgb", see `overlay.map`
    also: tuple[str, ...] = ()  # methods or composites whose maps are computed as well
    random: bool = False  # whether the weights are random
    contrast: bool = False  # whether it takes more precision, as what classes share cancels

    @classmethod
    def of(cls, config: Config) -> EngineChoice:
        """The configuration's choice."""
        lrp = config.lrp
        random = config.model.weights == "random"
        contrast = is_auto_contrast(config, lrp.target)
        return cls(lrp.method, lrp.composite, config.overlay.map, random=random, contrast=contrast)

    def with_composite(self, name: str) -> EngineChoice:
        """The choice with this composite where it is `auto`."""
        return replace(self, composite=name) if self.composite == AUTO else self

    @property
    def name(self) -> str:
        """The composite, or the method where that is not LRP."""
        return self.composite if self.method == "lrp" else self.method

    def config(self, base: Config) -> Config:
        """The configuration of the engine; `base` decides what is not chosen here."""
        own = None if base.model.weights == "random" else base.model.weights
        target = ANY_CONTRAST if self.contrast else "all"
        return base.changed(
            lrp={"method": self.method, "composite": self.composite, "target": target},
            overlay={"map": self.channels},
            model={"weights": "random" if self.random else own},
        )


def is_auto_contrast(config: Config, target: str) -> bool:
    """Whether the target sets a class against others and the precision is `auto`."""
    return config.lrp.precision == "auto" and VERSUS in target


class EngineCache:
    """Prepares engines and keeps the last ones."""

    def __init__(self, config: Config, first: Engine, choice: EngineChoice):
        self.preparing: object = None  # the choice of an engine, a request for channels, or scores
        self._config = config
        self._refused: tuple[EngineChoice, str] | None = None
        self._changed = threading.Condition()
        self._stopped = False
        self.exchange(first, choice)
        self._thread = threading.Thread(target=self._run, name="engine_cache", daemon=True)

    def exchange(self, engine: Engine, choice: EngineChoice) -> None:
        """Goes over to another network, whose engine of a choice this is; forgets the present."""
        with self._changed:
            self._first = engine
            self._first_random = choice.random
            self._ready = OrderedDict({self._named(choice): engine})
            self._wanted: EngineChoice | None = None
            self._impossible: EngineChoice | None = None
            self._next: tuple[object, Callable[[], None]] | None = None  # `preparing`, and how

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def engine_for(self, choice: EngineChoice) -> Engine | None:
        """The engine of a choice; None while it is being prepared, or if that failed."""
        with self._changed:
            if (named := self._named(choice)) in self._ready:
                if self._wanted:
                    self._next = None
                self._wanted = self._impossible = None
                self._ready.move_to_end(named)
                return self._ready[named]
            if choice not in (self._wanted, self._impossible):
                self._wanted = choice
                under_way = self.preparing == choice  # wanted before, and again
                self._next = None if under_way else (choice, partial(self._prepare, choice))
                self._changed.notify()
            return None

    def _named(self, choice: EngineChoice) -> EngineChoice:
        """The choice with the name of the composite that `auto` is for this network."""
        return choice.with_composite(self._first.auto_composite)

    def has_concepts(self, engine: Engine, wanted: ConceptRequest) -> bool:
        """Whether an engine can answer a request now; if not, that is prepared."""
        ready = engine.concepts.is_ready(wanted)
        return ready or self._begin(wanted, partial(engine.concepts.compile, wanted))

    def has_scores(self, engine: Engine) -> bool:
        """Whether an engine can compute scores alone now; if not, that is prepared."""
        return engine.scores_ready or self._begin((engine, "scores"), engine.prepare_scores)

    def _begin(self, wanted: object, prepare: Callable[[], None]) -> bool:
        """Prepares something for a present engine, unless another engine is waited for; False."""
        with self._changed:
            waits_for_engine = self._next and isinstance(self._next[0], EngineChoice)
            if self.preparing != wanted and not waits_for_engine:
                self._next = wanted, prepare
                self._changed.notify()
        return False

    def refused(self) -> tuple[EngineChoice, str] | None:
        """A choice that could not be prepared, and why; each is returned once."""
        with self._changed:
            refused = self._refused
            self._refused = None
            return refused

    def _run(self) -> None:
        while True:
            with self._changed:
                self.preparing = None
                self._changed.wait_for(lambda: self._stopped or self._next)
                if self._stopped or not self._next:
                    return
                (self.preparing, prepare) = self._next
                self._next = None
            prepare()
            del prepare
            machine.free_cycles()  # of what is kept no more, and of the preparation

    def _prepare(self, choice: EngineChoice) -> None:
        engine = None
        problem = ""
        try:
            engine = self._build(choice)
        except Exception as error:
            problem = first_line(error)
            if not isinstance(error, Error):
                log.error("preparing %s failed: %s", choice, problem)
        with self._changed:
            if engine:
                self._keep(self._named(choice), engine)
            if self._wanted == choice:
                self._wanted = None
                self._impossible = None if engine else choice
                self._refused = (choice, problem) if problem else None

    def _build(self, choice: EngineChoice) -> Engine:
        config = choice.config(self._config)
        if choice.random == self._first_random:
            engine = self._first.with_config(config, choice.also)
        else:
            from realtime_lrp.engine.opening import engine_for

            engine = engine_for(config, moving=True, also=choice.also, otherwise=VIEWER_COMPOSITE)
        engine.warm_up()
        return engine

    def _keep(self, choice: EngineChoice, engine: Engine) -> None:
        self._ready[choice] = engine
        weights = sum(one.explainer.weights for one in self._ready.values())
        while len(self._ready) > 2 and (weights > MAX_WEIGHTS or len(self._ready) > MAX_ENGINES):
            _, dropped = self._ready.popitem(last=False)
            weights -= dropped.explainer.weights
