"""Colours an engine's maps as its configuration says."""

from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.result import Result
from realtime_lrp.view.colormaps import default_colormap
from realtime_lrp.view.overlay import SMOOTHING, Overlay, Painter


def colormap_for(engine: Engine) -> str:
    """The name of the configured colour map, else of the one that suits the maps' signs."""
    return engine.config.overlay.colormap or default_colormap(engine.explainer.signed)


def painter_for(engine: Engine, smoothing: float = SMOOTHING) -> Painter:
    """A painter for the maps of an engine; `smoothing` as in `Painter`."""
    return Painter(colormap_for(engine), engine.config.overlay.opacity, smoothing)


def colour(painter: Painter, result: Result) -> Overlay:
    """The first map of a result, coloured, for its region of the picture."""
    first, region = result.maps[0], result.region
    return painter(first.strength, first.scale, region.box, region.inner)
