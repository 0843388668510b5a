"""How pictures are prepared for a network, as far as its layers tell."""

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
        layer, read = node.operation, node.input_tensors
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
