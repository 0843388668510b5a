"""Networks that have a name. A new one is a row in `NETWORKS`.

This module stays light: TensorFlow is imported once a network is loaded.
"""

from collections.abc import Callable
from dataclasses import dataclass

from realtime_lrp.models.downloads import Download
from realtime_lrp.models.loaded import Loaded

_KERAS = "https://storage.googleapis.com/tensorflow/keras-applications"


Load = Callable[[str | None, list[str] | None], Loaded]
"""(weights, labels) -> the network. Weights are "imagenet", "random", a file or None, its own;
labels those that the user brings, or None."""


@dataclass(frozen=True)
class Named:
    """A network that has a name.

    Attributes:
      description: what it is, in a line.
      load: loads it.
      download: the weights that it needs from elsewhere, or None.
    """

    description: str
    load: Load
    download: Download | None = None


def _shapes(weights: str | None, labels: list[str] | None) -> Loaded:
    from realtime_lrp.models import included

    return included.shapes(weights)


def application(builder: str, description: str, download: Download) -> Named:
    """A network of keras.applications that knows ImageNet's classes.

    Args:
      builder: its name there.
      description: what it is, in a line.
      download: its weights.
    """

    def load(weights: str | None, labels: list[str] | None) -> Loaded:
        from realtime_lrp.models import included

        return included.application(builder, download, weights or "imagenet", labels)

    return Named(description, load, download)


NETWORKS: dict[str, Named] = {
    "shapes": Named("hand-drawn symbols, embedded, no download", _shapes),
    "vgg16": application(
        "VGG16",
        "1000 classes of ImageNet, 528 MB are downloaded once",
        Download(
            f"{_KERAS}/vgg16/vgg16_weights_tf_dim_ordering_tf_kernels.h5",
            "64373286793e3c8b2b4e3219cbf3544b",
        ),
    ),
    "vgg19": application(
        "VGG19",
        "1000 classes of ImageNet, 549 MB are downloaded once",
        Download(
            f"{_KERAS}/vgg19/vgg19_weights_tf_dim_ordering_tf_kernels.h5",
            "cbe5617147190e668d6c5d5026f83318",
        ),
    ),
}
"""Every network by its name, in small letters."""
