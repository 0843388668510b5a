"""The public function `overlay`: draws a raw map over its picture, as the command `image` does."""

from dataclasses import replace

import numpy as np

from realtime_lrp.config import Config
from realtime_lrp.engine.fit import FITS, check_picture
from realtime_lrp.errors import UsageError, unknown
from realtime_lrp.relevance.maps.strength import strength
from realtime_lrp.video.region import region_of
from realtime_lrp.view.colormaps import Colormap
from realtime_lrp.view.look import Look
from realtime_lrp.view.overlay import intensity, lay_over, make_overlay

LOOK = Look.of(Config().overlay)
"""How maps are drawn by default."""


def overlay(
    picture: np.ndarray,
    relevance: np.ndarray,
    *,
    colormap: str | Colormap | None = None,
    opacity: float = LOOK.opacity,
    fit: str = "crop",
    stride: tuple[int, int] = (1, 1),
) -> np.ndarray:
    """Draws a raw map over the region of the picture that the network saw.

    Relevance is summed over the channels; its 99.5th percentile is drawn at full strength. Under
    the map the picture is darker and less colourful, so that the map is seen on any colours. It
    stays unchanged outside the region, which is outlined, and everywhere if the map is 0.

    Args:
      picture: uint8 [H, W, 3] RGB, of any size.
      relevance: float [h, w, C], one map of an `Explanation`.
      colormap: a `Colormap`, or a name in `COLORMAPS`; None means "fire", or "icefire" if the map
        has negative entries.
      opacity: 0 to 1, of the strongest relevance.
      fit: which region the network saw: "crop", the largest centred one of its proportions,
        "squash", the whole picture stretched, or "letterbox", the whole picture with borders.
      stride: the `stride` of the `Explainer`: a grid of this period is smoothed away.

    Returns:
      uint8 [H, W, 3] RGB.

    Raises:
      UsageError: the picture or the map has another form, the map is not finite, the opacity is
        not from 0 to 1, or there is no such colour map or fit.
    """
    picture, relevance = np.asarray(picture), np.asarray(relevance)
    check_picture(picture)
    if relevance.ndim != 3 or not np.isfinite(relevance).all():
        raise UsageError(
            "Expected one map of finite numbers, [h, w, C]. Received the shape "
            f"{list(relevance.shape)}; of an explanation it is relevance[0]."
        )
    if len(stride) != 2 or min(stride) < 1 or max(stride) > min(relevance.shape[:2]):
        raise UsageError(
            f"Expected a stride (rows, columns) no larger than the map. Received {stride!r}."
        )
    if not 0 <= opacity <= 1:
        raise UsageError(f"Expected an opacity from 0 to 1. Received {opacity!r}.")
    if fit not in FITS:
        raise unknown("fit", fit, FITS)
    strengths, _ = strength(relevance[None].astype(np.float32), stride=stride)
    region = region_of(picture.shape[:2], relevance.shape[:2], fit)
    shown = intensity(strengths[0].numpy(), region.inner)
    look = replace(LOOK, colormap=colormap, opacity=opacity)
    return lay_over(picture, make_overlay(shown, bool(shown.min() < 0), look, region.box))
