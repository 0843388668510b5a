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
from realtime_lrp.models.files import KERAS, ONNX, TFLITE, kind_of
from realtime_lrp.models.included import with_weights
from realtime_lrp.models.labels import class_names, labels_beside
from realtime_lrp.models.names import NETWORKS
from realtime_lrp.models.network import NO_PREPROCESSING, Network, Size
from realtime_lrp.models.saved_models import load_saved_model
from realtime_lrp.models.taught_file import read_about
from realtime_lrp.models.tflite.reading import load_tflite
from realtime_lrp.models.untrusted.loading import load_model
from realtime_lrp.relevance.network.places import choose_output
from realtime_lrp.relevance.reading.building import is_functional, output_names

SCALING = (keras.layers.Rescaling, keras.layers.Normalization)
OPERATIONS = ("Add", "Divide", "Multiply", "Subtract", "TrueDivide")
"""Layers and operations that scale or shift pictures."""

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
        network, who = _from_elsewhere(name, weights, given, size, output)
        path = Path(name.removeprefix(HUB)).resolve()
        name = path.name if path.is_dir() else path.stem
        if preprocess is None:
            network = _with_preparation(network, path.name, who)
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
    name: str, weights: str | None, given: list[str] | None, size: Size, output: str | None
) -> tuple[Network, str | None]:
    """A network that comes from a file, or from KerasHub, and what says how pictures are prepared.

    "" is a guess; None says no more than the network's warning.
    """
    path = Path(name)
    if is_exported(name):
        raise UsageError(
            f"{name!r} is an explanation that export wrote, without the network's layers: live, "
            "image, video, serve and kiosk show it. Here the network itself is needed: --model.",
            "model",
        )
    if name.startswith(HUB):
        from realtime_lrp.models.hub import load_preset  # KerasHub may not be installed

        network = load_preset(name.removeprefix(HUB), weights, given, size)
        return _with_output(network, output), None
    kind = None if path.is_dir() else kind_of(path)
    if kind == KERAS:
        network = Network(name, with_weights(load_model(path), weights), warning=NO_PREPROCESSING)
        if about := read_about(path) if is_zipfile(name) else None:
            labels = [*about.labels]
            network = replace(network, preprocess=about.preprocess, labels=labels, warning="")
        return _with_output(network, output), None
    if weights is not None:
        raise UsageError(f"{name!r} has its own weights. Leave --weights out.", "weights")
    if kind == ONNX:
        from realtime_lrp.models.onnx.reading import load_onnx  # the package may not be installed

        return load_onnx(path, size, output)
    if kind == TFLITE:
        return load_tflite(path, size, output)
    return load_saved_model(path, size, output), None


def _with_output(network: Network, output: str | None) -> Network:
    """The network with one output, named or likely, and the labels that name its classes."""
    model: Any = network.model
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


def _with_preparation(network: Network, file: str, who: str | None) -> Network:
    """The network; a line tells how its pictures are prepared, unless its layers do that."""
    if prepares_pictures(network.model):
        return replace(network, warning="")
    model: Any = network.model
    teachable = {layer.name for layer in model._flatten_layers()} & {"dense_Dense1", "dense_Dense2"}
    if network.warning and teachable:  # its files do not say that it hands on -1 to 1
        network = replace(network, preprocess="tf", warning="")
        who = "Teachable Machine, which named its layers,"
    way = network.preprocess
    about = f"{way} ({ABOUT[way]})" if way in ABOUT else way
    if who:
        log.warning("%s: pictures are prepared as %s, as %s says", file, about, who)
    elif network.warning or who is not None:
        unsure = f"{network.warning}: the network gets RGB values from 0 to 255"
        guess = f"pictures are prepared as {about}, which is a guess: the file does not say it"
        log.warning(
            "%s: %s. Give what the network was trained with: --preprocess %s, or a range with mean "
            "and deviation, such as '%s'",
            file, unsure if network.warning else guess, "|".join(NAMED), EXAMPLE,
        )  # fmt: skip
    return network


def prepares_pictures(model: Any) -> bool:
    """Whether pictures are scaled or shifted before the first layer, at any depth, with weights."""
    return is_functional(model) and bool(_scales(model, {id(model.inputs[0])}))


def _scales(model: keras.Model, raw: set[int]) -> bool | None:
    """Whether tensors of pixels, by `id`, are scaled; None if the model hands them on unchanged."""
    functional = getattr(model, "_functional", None) or model  # a Sequential holds one
    depths = functional._nodes_by_depth
    for node in (node for depth in sorted(depths, reverse=True) for node in depths[depth]):
        layer = node.operation
        read = node.input_tensors
        if node.is_input or not read or not all(id(tensor) in raw for tensor in read):
            continue
        if isinstance(layer, SCALING) or type(layer).__name__ in OPERATIONS:
            return True
        if isinstance(layer, keras.Model) and is_functional(layer):
            inside = _scales(layer, {id(tensor) for tensor in layer.inputs})
            if inside is not None:
                return inside
        elif getattr(layer, "weights", ()):
            continue
        raw.update(id(tensor) for tensor in node.outputs)
    return None if all(id(tensor) in raw for tensor in functional.outputs) else False
