"""The gallery of an engine's network, after checking that it belongs to it."""

import logging
from collections.abc import Mapping
from pathlib import Path

from realtime_lrp.config import Config
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.hashes import hashes
from realtime_lrp.models.concept_names import ChannelNames, read_names
from realtime_lrp.models.gallery import Gallery, load_gallery
from realtime_lrp.system.plain_text import plain

log = logging.getLogger(__name__)


def gallery_of(engine: Engine, config: Config | None = None) -> Gallery:
    """The gallery and the names that a configuration asks for.

    Other weights than those that the gallery was made with are warned of: pictures and channels
    may not go together then.

    Args:
      engine: explains the network.
      config: the configuration; None: the engine's.

    Raises:
      MissingInputError: there is no such file.
      DamagedInputError: the gallery is damaged.
      UsageError: the gallery belongs to another network.
      ConfigError: something is wrong with the names.
    """
    config = config or engine.config
    gallery = load_gallery(config, engine.network.name)
    gallery.check(engine.explainer.channel_counts())
    made_with = gallery.contents.sha256
    if config.concepts.names:
        _warn_of_no_names(config.concepts.names, gallery.names)
    ours = hashes(engine.files) if made_with else {}
    if any(ours.get(kind) != made_with[kind] for kind in made_with):
        log.warning(
            "the gallery was made with other weights of %s, so its pictures may not show what the "
            "channels answer to", plain(gallery.network),
        )  # fmt: skip
    return gallery


def channel_names(engine: Engine) -> Mapping[int, str]:
    """The names that the configuration gives to channels of the engine's concept layer.

    Raises:
      MissingInputError: there is no such file.
      ConfigError: something is wrong with the names.
    """
    chosen, layer = engine.config.concepts.names, engine.concept_layer
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
    names, layer = engine.config.concepts.names, engine.concept_layer
    found = {"concepts.layer": layer, "concepts.names": names if layer else None}
    return {key: value for key, value in found.items() if value}
