"""How results are drawn in files: the look, and the painted map.

Must not import TensorFlow: exported explanations need none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from realtime_lrp.engine.boxes import drawn_map, outlines_of
from realtime_lrp.engine.result import Result
from realtime_lrp.view.look import Look, colormap_named
from realtime_lrp.view.painting import Painted, paint

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine


def look_of(engine: Engine) -> Look:
    """How maps are drawn in files: as configured, always as heat.

    It has a chosen colour map itself: a process that draws need not know the name.
    """
    look = replace(Look.of(engine.config.overlay), style="heat", average=0.0)
    return replace(look, colormap=colormap_named(look.colormap)) if look.colormap else look


def painted(engine: Engine, picture: np.ndarray, result: Result) -> Painted:
    """The first map of a result, scaled by itself, and its boxes."""
    look, outlines = look_of(engine), outlines_of(engine, result)
    return paint(picture, [drawn_map(result, look)], look, result.region.box, outlines)
