"""How notebooks show a network: its input, preprocessing, labels and layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from realtime_lrp.models.preprocessing import PREPROCESSING
from realtime_lrp.notebook import html

if TYPE_CHECKING:
    import keras


def network_html(
    name: str,
    model: keras.Model | None,
    preprocess: str,
    labels: Sequence[str] | None,
    warning: str,
    channels: int,
) -> str:
    """A network as HTML: input, preprocessing, labels, layers. The arguments are its attributes."""
    about = {
        "input": _input_in_words(model, channels),
        "preprocess": f"{preprocess}: {PREPROCESSING.get(preprocess, 'scaled as its preset says')}",
        "classes": _dimensions(_attribute(model, "output_shape")),
        "weights": _weights(model),
        "labels": "not known" if labels is None else f"{len(labels)}: {_first(labels)}",
        "warning": warning or None,
    }
    text = html.facts(name, about)
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


def _input_in_words(model: keras.Model | None, channels: int) -> str:
    colours = {1: "luminance", 3: "RGB"}.get(channels, f"{channels} channels")
    size = _dimensions(_attribute(model, "input_shape"))
    return f"{size} ({colours})" if size else colours


def _first(labels: Sequence[str], count: int = 6) -> str:
    return ", ".join(labels[:count]) + (", ..." if len(labels) > count else "")


def _attribute(thing: object, name: str) -> Any:
    """An attribute, or None: Keras raises these errors for layers not called exactly once."""
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
