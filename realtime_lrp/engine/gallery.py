"""The gallery of an engine's network, after checking that it belongs to it."""

import logging

from realtime_lrp.config import Config
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.hashes import hashes
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
    gallery = load_gallery(config or engine.config, engine.network.name)
    gallery.check(engine.explainer.channel_counts())
    made_with = gallery.contents.sha256
    ours = hashes(engine.files) if made_with else {}
    if any(ours.get(kind) != made_with[kind] for kind in made_with):
        log.warning(
            "the gallery was made with other weights of %s, so its pictures may not show what the "
            "channels answer to", plain(gallery.network),
        )  # fmt: skip
    return gallery
