"""How notebooks show a network: its input, preprocessing, labels and layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from realtime_lrp.models.preprocessing import PREPROCESSING
from realtime_lrp.notebook import html

if TYPE_CHECKING:
    import keras

    from realtime_lrp.models.networks import Network


def network_html(network: Network) -> str:
    """The network as HTML: input, preprocessing, labels, layers."""
    model, labels = network.model, network.labels
    about = {
        "input": _input_in_words(network),
        "preprocess": f"{network.preprocess}: {PREPROCESSING[network.preprocess]}",
        "classes": _dimensions(model, "output"),
        "weights": _weights(model),
        "labels": "not known" if labels is None else f"{len(labels)}: {_first(labels)}",
        "warning": network.warning or None,
    }
    text = html.facts(network.name, about)
    if labels:
        text += html.folded("all labels", html.table(("index", "label"), enumerate(labels)))
    if model is not None:
        rows = [
            (layer.name, type(layer).__name__, _dimensions(layer, "output"), _weights(layer))
            for layer in model.layers
        ]
        head = ("layer", "type", "output", "weights")
        text += html.folded(f"{len(rows)} layers", html.table(head, rows))
    return text


def _input_in_words(network: Network) -> str:
    colours = {1: "luminance", 3: "RGB"}.get(network.channels, f"{network.channels} channels")
    size = _dimensions(network.model, "input")
    return f"{size} ({colours})" if size else colours


def _first(labels: list[str], count: int = 6) -> str:
    return ", ".join(labels[:count]) + (", ..." if len(labels) > count else "")


def _dimensions(layer: keras.Layer | None, end: str) -> str | None:
    """The shape of the layer's input or output without the batch; None if it has no single one."""
    try:
        shape = getattr(layer, end).shape[1:]
    except (AttributeError, ValueError):  # several calls, or none yet
        return None
    return " x ".join("any" if one is None else str(one) for one in shape)


def _weights(layer: keras.Layer | None) -> str | None:
    return f"{layer.count_params():,}" if layer is not None and layer.built else None
