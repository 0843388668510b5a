"""The gallery of an engine's network, after checking that it belongs to it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from realtime_lrp.models.gallery import ChannelNames, Gallery, load_gallery, read_names
from realtime_lrp.models.names import Files, hashes
from realtime_lrp.system.terminal import plain

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine

log = logging.getLogger(__name__)


def gallery_of(engine: Engine) -> Gallery:
    """The gallery and names that a configuration asks for; warns if another network made them."""
    config = engine.config
    gallery = load_gallery(config)
    gallery.check(engine.explainer.channel_counts())
    if config.concepts.names:
        _warn_of_no_names(config.concepts.names, gallery.names)
    weights = config.model.weights
    name = engine.network.name
    gallery.other_network = other_network(gallery, weights, name, engine.files)
    if gallery.other_network:
        log.warning(
            "the gallery was made with %s, so its pictures may not show what the channels of %s "
            "answer to", gallery.other_network, plain(name),
        )  # fmt: skip
    return gallery


def other_network(gallery: Gallery, weights: str | None, name: str, files: Files) -> str:
    """The network that a gallery was made with if it is not this one: "the network 'x'"; or ""."""
    made = gallery.contents
    model = made.provenance.get("model")
    ours = hashes(files) if made.sha256 else {}
    same = all(ours.get(kind) == one for kind, one in made.sha256.items())
    if isinstance(model, dict) and "random" in (then := model.get("weights"), weights):
        same &= then == weights
    if same and (made.sha256 or made.network in ("", name)):
        return ""
    if made.network == name:
        return f"other weights of {plain(name)}"
    return f"the network {plain(made.network)!r}"


def channel_names(engine: Engine) -> Mapping[int, str]:
    """The names that the configuration gives to channels of the engine's concept layer."""
    chosen = engine.config.concepts.names
    layer = engine.concept_layer
    if not chosen or not layer:
        return {}
    names = read_names(Path(chosen))
    names.check(engine.explainer.channel_counts())
    _warn_of_no_names(chosen, names.names)
    return names.names.get(layer, {})


def _warn_of_no_names(file: str, names: ChannelNames) -> None:
    if not any(names.values()):
        log.warning("%s names no channel", file)


def concept_settings(engine: Engine) -> dict[str, str]:
    """The settings that shape what a sidecar says of channels: "concepts.layer", and the names."""
    layer = engine.concept_layer
    found = {"concepts.layer": layer, "concepts.names": layer and engine.config.concepts.names}
    return {key: value for key, value in found.items() if value}
