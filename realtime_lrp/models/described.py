"""How notebooks show a network: its input, preprocessing, labels and layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
        "classes": _dimensions(_attribute(model, "output_shape")),
        "weights": _weights(model),
        "labels": "not known" if labels is None else f"{len(labels)}: {_first(labels)}",
        "warning": network.warning or None,
    }
    text = html.facts(network.name, about)
    if labels:
        text += html.folded("all labels", html.table(("index", "label"), enumerate(labels)))
    if model is not None:
        rows = [
            (layer.name, type(layer).__name__, _output_size(layer), _weights(layer))
            for layer in model.layers
        ]
        head = ("layer", "type", "output", "weights")
        text += html.folded(f"{len(rows)} layers", html.table(head, rows))
    return text


def _input_in_words(network: Network) -> str:
    colours = {1: "luminance", 3: "RGB"}.get(network.channels, f"{network.channels} channels")
    size = _dimensions(_attribute(network.model, "input_shape"))
    return f"{size} ({colours})" if size else colours


def _first(labels: list[str], count: int = 6) -> str:
    return ", ".join(labels[:count]) + (", ..." if len(labels) > count else "")


def _attribute(thing: object, name: str) -> Any:
    """An attribute, or None: Keras raises this or that for layers that were not called once."""
    try:
        return getattr(thing, name)
    except (AttributeError, ValueError):
        return None


def _output_size(layer: keras.Layer) -> str | None:
    return _dimensions(_attribute(_attribute(layer, "output"), "shape"))


def _dimensions(shape: Any) -> str | None:
    """A shape without the batch; None where there is no single one."""
    if not isinstance(shape, tuple):
        return None
    return " x ".join("any" if one is None else str(one) for one in shape[1:])


def _weights(layer: keras.Layer | None) -> str | None:
    return f"{layer.count_params():,}" if layer is not None and layer.built else None
