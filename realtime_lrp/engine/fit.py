"""The public function `fit`: from a picture to a network's input, as the command `image` does."""

import numpy as np

from realtime_lrp.errors import UsageError, unknown
from realtime_lrp.models.networks import Network
from realtime_lrp.video.region import Region, region_of

FITS = ("crop", "squash", "letterbox")


def fit(
    picture: np.ndarray,
    network: Network,
    *,
    fit: str = "crop",
    size: tuple[int, int] | None = None,
) -> tuple[np.ndarray, Region]:
    """Cuts, resizes and preprocesses a picture to the input of a network.

    The map of the input lies over `region.box` of the picture.

    Args:
      picture: uint8 [H, W, 3] RGB, of any size.
      network: the network that is going to see it.
      fit: which region of the picture it sees: "crop", the largest centred one of the input's
        proportions, "squash", the whole picture stretched, or "letterbox", the whole picture with
        grey borders.
      size: (rows, columns) of the input, for a model that leaves them open.

    Returns:
      x, float32 [1, h, w, C], for an `Explainer`, and the region.

    Raises:
      UsageError: the picture has another form, this is no network, there is no such fit, or the
        size is missing or wrong.
    """
    picture = np.asarray(picture)
    check_picture(picture)
    if not isinstance(network, Network):
        raise UsageError(
            "Expected a Network, which load_network returns; of a Keras model it is "
            f"Network(name, model, preprocess). Received {network!r:.80}."
        )
    if fit not in FITS:
        raise unknown("fit", fit, FITS)
    region = region_of(picture.shape[:2], _input_size(network, size), fit)
    return network.prepare(region.extract(picture)[None]).numpy(), region


def check_picture(picture: np.ndarray) -> None:
    """Refuses what is not a picture, uint8 [H, W, 3], of at least one pixel.

    Raises:
      UsageError: it has another type or shape.
    """
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
