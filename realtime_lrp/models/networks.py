"""Loads a network by its name or from a file: a Keras model with its preprocessing and labels."""

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import keras

from realtime_lrp.config.names import HUB
from realtime_lrp.config.preprocessing import ABOUT, EXAMPLE, NAMED
from realtime_lrp.config.problems import check_model_name
from realtime_lrp.errors import UsageError
from realtime_lrp.models.exported import is_exported
from realtime_lrp.models.files import ONNX, TFLITE, kind_of
from realtime_lrp.models.included import with_weights
from realtime_lrp.models.labels import class_names, labels_beside
from realtime_lrp.models.names import NETWORKS
from realtime_lrp.models.network import NO_PREPROCESSING, Network
from realtime_lrp.models.preparing import from_teachable_machine, prepares_pictures
from realtime_lrp.models.saved_models import load_saved_model
from realtime_lrp.models.taught_file import read_about
from realtime_lrp.models.tflite.reading import load_tflite
from realtime_lrp.models.untrusted.loading import load_model
from realtime_lrp.relevance.network.places import choose_output
from realtime_lrp.relevance.reading.building import is_functional, output_names

log = logging.getLogger(__name__)


def load_network(
    name: str,
    weights: str | None = None,
    labels: str | os.PathLike[str] | Sequence[str] | None = None,
    preprocess: str | None = None,
    *,
    size: tuple[int, int] | None = None,
    output: str | None = None,
) -> Network:
    """Loads a network. An argument that is None leaves the network's own.

    Args:
      name: a name in `NETWORKS`, upper or lower case, the path of a .keras, .h5, .onnx or .tflite
        file, the folder of a SavedModel, or a network of KerasHub: "hub:NAME" for a
        preset, "hub:FOLDER" for one that was saved with `save_to_preset`.
      weights: "imagenet", "random" or the path of a file.
      labels: class names in order, or the path of a file of them; [] if nobody needs any, so that
        none are downloaded.
      preprocess: a way to prepare pictures, see `Network`.
      size: (H, W) of the input of a preset, SavedModel or ONNX file without a fixed one.
      output: the name of the output that is explained, of a network with several.

    Raises:
      UsageError: there is no such network, preprocessing or output, or it has no such weights.
      MissingInputError: a file does not exist.
      DamagedInputError: a file is damaged, or is not what it should be.
      UnavailableError: the weights are missing and cannot be downloaded.
    """
    check_model_name(name)
    given = None if labels is None else class_names(labels)
    if name.lower() in NETWORKS:
        name = name.lower()
        network = _with_output(NETWORKS[name].load(weights, given), output)
    else:
        network = _from_elsewhere(name, weights, given, size, output, preprocess is not None)
        path = Path(name.removeprefix(HUB)).resolve()
        name = path.name if path.is_dir() else path.stem
        if preprocess is None:
            network = _with_warning(network, path)
        if given is None and network.labels is None and path.exists():
            given = labels_beside(path, _classes(network))
    if preprocess:
        network = replace(network, preprocess=preprocess, warning="", scaling=None)
    given = network.labels_of(given) if given else network.labels
    return replace(network, name=name, labels=given)


def _classes(network: Network) -> tuple[int, ...]:
    """How many names fit its output: one output may be two classes, a detector's one be nothing."""
    model: Any = network.model
    outputs = [model.output["scores"]] if network.detects else getattr(model, "outputs", None) or []
    shape = outputs[0].shape if len(outputs) == 1 else (0,)
    count = shape[-1] or 0
    return (count, count - 1, count + 1) if network.detects or count == 1 else (count,)


def _from_elsewhere(
    name: str, weights: str | None, given: list[str] | None, size: tuple[int, int] | None,
    output: str | None, said: bool,
) -> Network:  # fmt: skip
    """A network that comes from a file, or from KerasHub."""
    if is_exported(name):
        raise UsageError(
            f"{name!r} is an explanation that export wrote, without the network's layers: live, "
            "image, video, serve and kiosk show it. Here the network itself is needed: --model.",
            "model",
        )
    if name.startswith(HUB):
        from realtime_lrp.models.hub import load_preset  # KerasHub may not be installed

        return _with_output(load_preset(name.removeprefix(HUB), weights, given, size), output)
    if Path(name).is_dir():
        return load_saved_model(Path(name), weights, size, output)
    kind = kind_of(Path(name))
    if kind == ONNX:
        from realtime_lrp.models.onnx.reading import load_onnx  # the package may not be installed

        return load_onnx(Path(name), weights, size, output, said)
    if kind == TFLITE:
        return load_tflite(Path(name), weights, size, output, said)
    model = with_weights(load_model(Path(name)), weights)
    about = read_about(Path(name)) if is_zipfile(name) else None
    if about is None:
        return _with_output(Network(name, model, warning=NO_PREPROCESSING), output)
    return _with_output(Network(name, model, about.preprocess, [*about.labels]), output)


def _with_output(network: Network, output: str | None) -> Network:
    """The network with a single output, and its labels if they name that output's classes.

    An output that nobody names is the one that looks like the answer.
    """
    model = network.model
    if model is None:
        return network
    several = is_functional(model) and len(model.outputs) > 1 and not network.detects
    if output is None and not several:
        return network
    if not is_functional(model):
        raise UsageError(
            f"The outputs of {network.name!r}, a subclassed model, have no names here. Choose one "
            "in Python: Explainer(model, output=...).",
            "output",
        )
    shapes = {
        name: one.shape[1:] for name, one in zip(output_names(model), model.outputs, strict=True)
    }
    chosen = choose_output(output, shapes, network.name)
    model = keras.Model(model.input, model.outputs[chosen], name=model.name)
    own = len(network.labels or ()) == model.outputs[0].shape[-1]
    return replace(network, model=model, labels=network.labels if own else None, detects=False)


def _with_warning(network: Network, path: Path) -> Network:
    """The network; it loses its warning if the model prepares pictures itself."""
    if prepares_pictures(network.model):
        return replace(network, warning="")
    if network.warning and from_teachable_machine(network.model):
        log.warning(
            "%s: its layers are Teachable Machine's: pictures are prepared as tf (%s)",
            path.name, ABOUT["tf"],
        )  # fmt: skip
        return replace(network, preprocess="tf", warning="")
    if network.warning:
        log.warning(
            "%s: %s: the network gets RGB values from 0 to 255. Give the one that it was trained "
            "with: --preprocess %s, or a range with mean and deviation, such as '%s'",
            path.name, network.warning, "|".join(NAMED), EXAMPLE,
        )  # fmt: skip
    return network
