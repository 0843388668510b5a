"""Remarks about a network for its user, each written once in a process: explainers are many."""

import functools
import logging

from realtime_lrp.config.defaults import ATTENTION_COMPOSITE
from realtime_lrp.relevance.attention_maps import attention_weights
from realtime_lrp.relevance.composites import COMPOSITES, Composite
from realtime_lrp.relevance.graph import Graph

MAX_REMEMBERED = 256

log = logging.getLogger(__name__)


@functools.lru_cache(MAX_REMEMBERED)
def warn_once(text: str) -> None:
    """Logs a warning unless it was logged before."""
    log.warning("%s", text)


def advice_on(graph: Graph, composite: Composite) -> str:
    """What would suit the network better than the composite that its map follows, or "".

    Args:
      graph: the network.
      composite: the one that the map follows.
    """
    if composite.steps or not attention_weights(graph):
        return ""
    name = next((name for name, one in COMPOSITES.items() if one is composite), "this one")
    suits = ATTENTION_COMPOSITE
    return f"This network has attention: the composite {suits} follows it, {name} does not."
