"""Several networks that explain the same pictures, each in its own thread and words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from realtime_lrp.config import Config, check_also_models
from realtime_lrp.config.names import HUB, MODELS
from realtime_lrp.config.schema import Model
from realtime_lrp.errors import UsageError
from realtime_lrp.realtime.engine_cache import ANY_CONTRAST
from realtime_lrp.realtime.explaining import MapRequest, RelevanceThread
from realtime_lrp.realtime.latest import Slot
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.relevance.maps.targets import VERSUS, Target

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine

KEPT_UP = 0.8  # the first network keeps up if it explains at least this share of the frames
LONGEST_REST = 3.0  # multiples of the time that a map took
STEP = 1.0  # a rest changes by so much


def network_names(config: Config) -> tuple[str, ...]:
    """Each network's name on screen; repeated names are numbered."""
    names: list[str] = []
    for model in (config.model, *config.live.also_models):
        known = model.name.lower() in MODELS.known()
        name = model.name.lower() if known else Path(model.name.removeprefix(HUB)).stem
        same = sum(one == name or one.startswith(f"{name} ") for one in names)
        names.append(f"{name} {same + 1}" if same else name)
    return tuple(names)


def further_threads(
    config: Config, frames: Slot[np.ndarray], changeable: bool, first: RelevanceThread
) -> list[RelevanceThread]:
    """The relevance threads of `live.also_models`; they are not started."""
    check_also_models(config)
    threads = [first]
    for model in config.live.also_models:
        own = config_of(config, model)
        request = request_for(own, first.request, "all")
        thread = RelevanceThread(own, frames, request, Stats(), changeable, after=threads[-1])
        thread.others = TimeForFirst(first, frames)
        threads.append(thread)
    return threads[1:]


class TimeForFirst:
    """The time that a further network leaves to the first one; asked after every map.

    All compute with the same threads of TensorFlow: a large network would make the maps of a small
    one several times slower. It rests longer as long as the first does not keep up with the frames.
    """

    def __init__(self, first: RelevanceThread, frames: Slot[np.ndarray]):
        self._first = first
        self._frames = frames
        self._before = 0, 0
        self._rest = 0.0

    def __call__(self) -> float:
        now = self._first.maps.count, self._frames.count
        maps, frames = (new - old for new, old in zip(now, self._before, strict=True))
        self._before = now
        step = -STEP if maps >= KEPT_UP * frames else STEP
        self._rest = min(max(self._rest + step, 0.0), LONGEST_REST)
        return self._rest


def config_of(config: Config, model: Model) -> Config:
    """A further network's configuration, without channels; a request sets its target."""
    target = ANY_CONTRAST if VERSUS in config.lrp.target else "all"
    config = config.changed(lrp={"target": target}, live={"also_models": []})
    return config.model_copy(
        update={"model": Model(**dict(model)), "concepts": type(config.concepts)()}
    )


def request_for(own: Config, request: MapRequest, target: str) -> MapRequest:
    """The first network's request for a further one, without probe, concepts and boxes."""
    random = own.model.weights == "random" or request.choice.random
    choice = replace(request.choice, random=random)
    return replace(request, choice=choice, target=target, probe=False, concepts=None, box=None)


def target_for(target: str, first: Engine | None, other: Engine | None) -> str:
    """A target in the words of another network, by class names; "all" until both are loaded."""
    if first is None or other is None:
        return "all"
    meant = first.explainer.read_target(target)
    if first.network.labels == other.network.labels:
        return str(meant)
    classes: list[int] = []
    missing: list[str] = []
    for index in meant.classes:
        try:
            classes += other.explainer.read_target(first.label(index)).classes
        except UsageError:
            missing.append(first.label(index))
    if missing:
        raise UsageError(f"no class {' or '.join(missing)}")
    return str(Target(tuple(classes), meant.rest, min(meant.top, other.explainer.classes)))
