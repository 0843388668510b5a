"""Which methods and composites a network has no use for: menus, keys and tables leave them out."""

from collections.abc import Mapping

import tensorflow as tf

from realtime_lrp.relevance.graph import Graph
from realtime_lrp.relevance.maps.attention_maps import patches_of
from realtime_lrp.relevance.maps.methods import rectifiers
from realtime_lrp.relevance.rules.attention import differ_from_epsilon
from realtime_lrp.relevance.rules.layer_contexts import spatial_maps


def unsuited(graph: Graph, tensors: Mapping[int, tf.Tensor]) -> frozenset[str]:
    """The names of methods and composites that a network refuses, or that equal another one there.

    Args:
      graph: the canonised network.
      tensors: its tensors by number, of which only the shapes count.
    """
    names = set() if differ_from_epsilon(graph) else {"attnlrp", "cp_lrp"}
    if patches_of(graph, tensors) is None:
        names |= {"attention", "attention_rollout"}
    if not rectifiers(graph):
        names |= {"guided_backprop", "deconvnet"}
    if not spatial_maps(graph, tensors):
        names.add("grad_cam")
    return frozenset(names)
