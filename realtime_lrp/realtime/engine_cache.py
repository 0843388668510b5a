"""Prepares engines in the background, so that what is shown goes on while another is made."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from realtime_lrp.config import Config
from realtime_lrp.errors import Error, first_line

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine

MOST_WEIGHTS = 300e6
MOST = 8
"""How many weights the ready engines may have together, and how many there may be; two are kept
whatever they have."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EngineChoice:
    """What is computed of each picture, as far as it needs an engine of its own.

    Attributes:
      method: see `lrp.method`.
      composite: see `lrp.composite`.
      channels: "grey" or "rgb", see `overlay.map`.
      also: methods or composites whose maps are made as well.
      random: whether the weights are random.
      against: whether `auto` precision is float32, because the target sets a class against others:
        maps then add up both signs, which the quicker types round too coarsely.
    """

    method: str
    composite: str
    channels: str
    also: tuple[str, ...] = ()
    random: bool = False
    against: bool = False

    def settings(self, config: Config) -> Config:
        """The configuration with this choice."""
        lrp = {
            "method": self.method,
            "composite": self.composite,
            "precision": "float32" if self.against else config.lrp.precision,
            "target": "all",
        }
        changed = {
            "lrp": config.lrp.model_copy(update=lrp),
            "overlay": config.overlay.model_copy(update={"map": self.channels}),
        }
        own = None if config.model.weights == "random" else config.model.weights
        weights = "random" if self.random else own
        changed["model"] = config.model.model_copy(update={"weights": weights})
        return config.model_copy(update=changed)


class EngineCache:
    """Makes the engine of a choice and keeps the last ones.

    Args:
      config: what holds where a choice says nothing.
      first: the engine of the first choice, with its Keras model kept.
      choice: that choice.

    Attributes:
      preparing: the choice that is being prepared, or None.
    """

    def __init__(self, config: Config, first: Engine, choice: EngineChoice):
        self.preparing: EngineChoice | None = None
        self._config = config
        self._first, self._first_random = first, choice.random
        self._ready: OrderedDict[EngineChoice, Engine] = OrderedDict({choice: first})
        self._impossible: EngineChoice | None = None
        self._refused: tuple[EngineChoice | None, str] | None = None
        self._wanted: EngineChoice | None = None
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="engine_cache", daemon=True)

    def start(self) -> None:
        """Begins to wait for choices."""
        self._thread.start()

    def stop(self) -> None:
        """Begins no further engine."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def engine_for(self, choice: EngineChoice) -> Engine | None:
        """The engine of a choice; None while it is prepared, or where it was refused."""
        with self._changed:
            if choice in self._ready:
                self._wanted = self._impossible = None
                self._ready.move_to_end(choice)
                return self._ready[choice]
            if choice not in (self._wanted, self._impossible):
                self._wanted = choice
                self._changed.notify()
            return None

    def refused(self) -> tuple[EngineChoice | None, str] | None:
        """The choice that could not be prepared, None where it lacks some maps; why; told once."""
        with self._changed:
            refused, self._refused = self._refused, None
            return refused

    def _run(self) -> None:
        while choice := self._next_choice():
            engine, trouble = self._tried(choice)
            with self._changed:
                self.preparing = None
                if engine:
                    self._keep(choice, engine)
                if self._wanted == choice:
                    self._wanted = None
                    self._impossible = None if engine else choice
                    self._refused = (self._impossible, trouble) if trouble else None

    def _next_choice(self) -> EngineChoice | None:
        """Waits for the next one to prepare; None where there is to be none any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._wanted)
            self.preparing = None if self._stopped else self._wanted
            return self.preparing

    def _tried(self, choice: EngineChoice) -> tuple[Engine | None, str]:
        """The engine of a choice, without the further maps that the network cannot have."""
        try:
            return self._made(choice), ""
        except Error as error:
            trouble = first_line(error)
        except Exception as error:
            log.error("preparing %s failed: %s", choice, first_line(error))
            return None, first_line(error)
        engine: Engine | None = None
        possible: tuple[str, ...] = ()
        for name in choice.also:
            with suppress(Error):
                engine = self._made(replace(choice, also=(*possible, name)))
                possible = (*possible, name)
        return engine, trouble

    def _made(self, choice: EngineChoice) -> Engine:
        settings = choice.settings(self._config)
        if choice.random == self._first_random:
            return self._first.with_settings(settings, choice.also)
        from realtime_lrp.engine.engine import Engine

        return Engine(settings, moving=True, also=choice.also)

    def _keep(self, choice: EngineChoice, engine: Engine) -> None:
        self._ready[choice] = engine
        weights = sum(one.explainer.weights for one in self._ready.values())
        while len(self._ready) > 2 and (weights > MOST_WEIGHTS or len(self._ready) > MOST):
            _, dropped = self._ready.popitem(last=False)
            weights -= dropped.explainer.weights
