"""A picture as a network's input, and a map back on its picture, for `image`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from realtime_lrp.config import Config
from realtime_lrp.errors import UsageError, unknown
from realtime_lrp.models.network import Network
from realtime_lrp.relevance.maps.strength import strength
from realtime_lrp.video.region import Region, region_of
from realtime_lrp.view.look import Colormap, Look
from realtime_lrp.view.painting import Drawn, lay_over, paint

FITS = ("crop", "squash", "letterbox")

LOOK = Look.of(Config().overlay)  # how maps are drawn by default


def fit(
    picture: np.ndarray, network: Network, *, fit: str | None = None,
    size: tuple[int, int] | None = None,
) -> tuple[np.ndarray, Region]:  # fmt: skip
    """Cuts, resizes and preprocesses a picture to the input of a network.

    The map of the input lies over `region.box` of the picture.

    Args:
      picture: uint8 [H, W, 3] RGB, of any size.
      network: the network that is going to see it.
      fit: which region of the picture it sees: "crop", the largest centred one of the input's
        proportions, "squash", the whole picture stretched, or "letterbox", the whole picture with
        grey borders. None is "letterbox" for detectors, "crop" for others.
      size: (rows, columns) of the input, for a model that leaves them open.

    Returns:
      x, float32 [1, h, w, C], for an `Explainer`, and the region.

    Raises:
      UsageError: the picture has another form, this is no network, there is no such fit, or the
        size is missing or wrong.
    """
    picture = np.asarray(picture)
    _check_picture(picture)
    if not isinstance(network, Network):
        raise UsageError(
            "Expected a Network, which load_network returns; of a Keras model it is "
            f"Network(name, model, preprocess). Received {network!r:.80}."
        )
    fit = network.fit if fit is None else fit
    if fit not in FITS:
        raise unknown("fit", fit, FITS)
    region = region_of(picture.shape[:2], _input_size(network, size), fit)
    return network.prepare(region.extract(picture)[None]).numpy(), region


def overlay(
    picture: np.ndarray, relevance: np.ndarray, *, colormap: str | Colormap | None = None,
    opacity: float = LOOK.opacity, fit: str = "crop", stride: tuple[int, int] = (1, 1),
) -> np.ndarray:  # fmt: skip
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
    picture = np.asarray(picture)
    relevance = np.asarray(relevance)
    _check_picture(picture)
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
    x0, y0, x1, y1 = region.inner
    shown = strengths[0].numpy()[y0:y1, x0:x1]
    drawn = Drawn(shown, 1.0, signed=bool(shown.min() < 0))
    look = replace(LOOK, colormap=colormap, opacity=opacity)
    return lay_over(picture, paint(picture, [drawn], look, region.box).overlays[0])


def _check_picture(picture: np.ndarray) -> None:
    """Refuses what is not a picture, uint8 [H, W, 3], of at least one pixel."""
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3 or not picture.size:
        raise UsageError(
            f"Expected a picture uint8 [H, W, 3]. Received {picture.dtype} {list(picture.shape)}."
        )


def _input_size(network: Network, size: tuple[int, int] | None) -> tuple[int, int]:
    if size is not None:
        if [type(n) for n in np.atleast_1d(size).tolist()] != [int, int] or min(size) < 1:
            raise UsageError(
                f"Expected the size as (rows, columns), both above 0. Received {size!r}.", "size"
            )
        return size
    shape = getattr(network.model, "input_shape", None)
    if not isinstance(shape, tuple) or len(shape) != 4 or None in shape[1:3]:
        raise UsageError(
            f"The network {network.name!r} has no fixed input size. Say which, for example "
            "size=(224, 224).",
            "size",
        )
    return shape[1:3]
