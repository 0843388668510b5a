"""How pictures are prepared for a network, as far as its layers tell."""

from collections.abc import Collection, Sequence
from typing import Any

import keras

from realtime_lrp.relevance.reading.building import is_functional

LAYERS = (keras.layers.Rescaling, keras.layers.Normalization)
OPERATIONS = ("Add", "Divide", "Multiply", "Subtract", "TrueDivide")
"""Layers and operations that scale or shift."""


def prepares_pictures(model: keras.Model | None) -> bool:
    """Whether pictures are scaled or shifted before the first layer that has learnt weights.

    Augmentations, crops and layers that move pixels may come before, and models may be nested.
    """
    if model is None or not is_functional(model):
        return False
    return bool(_scales(model, {id(model.inputs[0])}))


def from_teachable_machine(model: keras.Model | None) -> bool:
    """Whether layers have the names that Teachable Machine, in a browser, gives to what it trains.

    It hands pictures to its networks as -1 to 1, and its files do not say so.
    """
    layers = model._flatten_layers() if model is not None else ()
    return any(layer.name in ("dense_Dense1", "dense_Dense2") for layer in layers)


def _scales(model: keras.Model, raw: set[int]) -> bool | None:
    """Whether raw pictures are scaled; None if the model hands them on unchanged.

    `raw` has the tensors, by `id`, that hold pixels, and grows.
    """
    functional = getattr(model, "_functional", None) or model  # a Sequential holds one
    depths = functional._nodes_by_depth
    for node in (node for depth in sorted(depths, reverse=True) for node in depths[depth]):
        layer = node.operation
        read = node.input_tensors
        if node.is_input or not read or not all(id(tensor) in raw for tensor in read):
            continue
        if isinstance(layer, LAYERS) or type(layer).__name__ in OPERATIONS:
            return True
        if isinstance(layer, keras.Model) and is_functional(layer):
            inside = _scales(layer, {id(tensor) for tensor in layer.inputs})
            if inside is not None:
                return inside
        elif getattr(layer, "weights", ()):
            continue
        raw.update(id(tensor) for tensor in node.outputs)
    return None if all(id(tensor) in raw for tensor in functional.outputs) else False


SCALES = ("Add", "AddV2", "BiasAdd", "FusedBatchNormV3", "Mul", "RealDiv", "Sub")
MOVES = (
    "Cast", "ClipByValue", "ConcatV2", "ExpandDims", "GatherV2", "Identity", "Pack", "Pad",
    "Reshape", "ResizeBilinear", "ResizeNearestNeighbor", "ReverseV2", "Split", "Squeeze",
    "StridedSlice", "Transpose", "Unpack",
)  # fmt: skip
"""TensorFlow's operations that scale or shift pictures, and that move pixels."""


def scaled_pictures(nodes: Sequence[Any], pictures: str, weights: Collection[str]) -> str | None:
    """The last operation that scales pictures by constants before any with weights; or None.

    `nodes` is a graph's list, each after those that it reads; `pictures` and `weights` name
    inputs.
    """
    raw = {pictures}
    constant = set[str]()
    found = None
    for node in nodes:
        read = {one.partition(":")[0] for one in node.input}
        if node.name in raw or node.name in weights:
            continue
        if read <= constant:
            constant.add(node.name)
        elif read <= raw | constant and node.op in (*SCALES, *MOVES):
            raw.add(node.name)
            found = node.name if node.op in SCALES else found
    return found
