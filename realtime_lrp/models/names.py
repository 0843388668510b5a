"""The table of networks that have a name. To add one, add a row to `NETWORKS`.

Keep this file light: it must not import TensorFlow before a network is loaded.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from realtime_lrp.config import ASSETS
from realtime_lrp.config.names import HUB
from realtime_lrp.models.downloads import Download
from realtime_lrp.models.loaded import Loaded

SHAPES, SHAPES_VIT = ASSETS / "shapes.keras", ASSETS / "shapes_vit.keras"
_KERAS = "https://storage.googleapis.com/tensorflow/keras-applications"


Load = Callable[[str | None, list[str] | None], Loaded]
"""(weights, labels) -> the network.

weights is "imagenet", "random", the path of a file, or None for the network's own; labels are the
user's class names or None."""


@dataclass(frozen=True)
class Named:
    """A row of the table.

    Attributes:
      description: one line for `realtime-lrp models`.
      load: loads the network.
      download: the weights file it needs, or None if nothing has to be downloaded.
      file: the model file that it is read from, if that is included.
    """

    description: str
    load: Load
    download: Download | None = None
    file: Path | None = None


def embedded(file: Path, description: str) -> Named:
    """A row for a network that knows hand-drawn symbols.

    Args:
      file: the model file.
      description: one line for `realtime-lrp models`.
    """

    def load(weights: str | None, labels: list[str] | None) -> Loaded:
        from realtime_lrp.models import included

        return included.load_shapes(file, weights)

    return Named(description, load, file=file)


def application(builder: str, description: str, download: Download) -> Named:
    """A row for a network of keras.applications that was trained on ImageNet.

    Args:
      builder: its name in keras.applications, such as "VGG16".
      description: one line for `realtime-lrp models`.
      download: its weights.
    """

    def load(weights: str | None, labels: list[str] | None) -> Loaded:
        from realtime_lrp.models import included

        return included.load_application(builder, download, weights or "imagenet", labels)

    return Named(description, load, download)


NETWORKS: dict[str, Named] = {
    "shapes": embedded(SHAPES, "hand-drawn symbols; embedded, no download"),
    "shapes_vit": embedded(
        SHAPES_VIT, "the same symbols, a vision transformer; embedded, no download"
    ),
    "vgg16": application(
        "VGG16",
        "1000 ImageNet classes; downloads 528 MB once",
        Download(
            f"{_KERAS}/vgg16/vgg16_weights_tf_dim_ordering_tf_kernels.h5",
            "64373286793e3c8b2b4e3219cbf3544b",
        ),
    ),
    "vgg19": application(
        "VGG19",
        "1000 ImageNet classes; downloads 549 MB once",
        Download(
            f"{_KERAS}/vgg19/vgg19_weights_tf_dim_ordering_tf_kernels.h5",
            "cbe5617147190e668d6c5d5026f83318",
        ),
    ),
}
"""Lower-case name -> network."""


def model_files(name: str, weights: str | None, labels: str | None) -> dict[str, Path]:
    """The files that `load_network` reads for these arguments: "model", "weights", "labels".

    Of presets of KerasHub also "head", the weights of the classifier's last layers.
    """
    named = NETWORKS.get(name.lower())
    files: dict[str, Path | None] = {"model": named.file if named else Path(name)}
    if not named and Path(name).is_dir():
        variables = Path(name, "variables", "variables.data-00000-of-00001")
        files = {"model": Path(name, "saved_model.pb"), "weights": variables}
    if name.startswith(HUB):
        from realtime_lrp.models.hub import preset_files

        files = dict(preset_files(name.removeprefix(HUB)))
        if weights is not None:
            files = {"model": files.get("model")}
    if weights not in (None, "imagenet", "random"):
        files["weights"] = Path(weights)
    elif named and named.download and weights != "random":
        files["weights"] = named.download.path
    files["labels"] = Path(labels) if labels else None
    return {kind: path for kind, path in files.items() if path}
