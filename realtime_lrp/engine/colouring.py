"""Colours an engine's maps as its configuration says."""

from dataclasses import replace

from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.result import Result
from realtime_lrp.view.look import Look
from realtime_lrp.view.overlay import SMOOTHING, Overlay, Painter


def look_of(engine: Engine) -> Look:
    """How maps are drawn in files: as configured, always as heat."""
    return replace(Look.of(engine.config.overlay), style="heat")


def painter_for(engine: Engine, smoothing: float = SMOOTHING) -> Painter:
    """A painter for the maps of an engine; `smoothing` as in `Painter`."""
    return Painter(engine.explainer.signed, look_of(engine), smoothing)


def colour(painter: Painter, result: Result) -> Overlay:
    """The first map of a result, coloured, for its region of the picture."""
    first, region = result.maps[0], result.region
    return painter(first.strength, first.scale, region.box, region.inner)
