"""Says where a network or its relevance stops being finite, and what to do."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import tensorflow as tf

from realtime_lrp.errors import NotFiniteError
from realtime_lrp.relevance.maps.account import LayerFlow, flood_advice
from realtime_lrp.relevance.maps.targets import Targets, is_sequence
from realtime_lrp.relevance.network.checks import to_float32
from realtime_lrp.relevance.network.graph import Graph


def first_not_finite(arrays: Sequence[np.ndarray]) -> int | None:
    """The number of the first entry of a batch that is not finite in one of the arrays, or None.

    Args:
      arrays: float32 [B, ...] each.
    """
    finite = [np.isfinite(one.reshape(len(one), -1).sum(1)) for one in arrays]
    bad = np.flatnonzero(~np.all(finite, axis=0))
    return int(bad[0]) if bad.size else None


def one_pair(
    x: np.ndarray | tf.Tensor, target: Targets | None, number: int
) -> tuple[np.ndarray | tf.Tensor, Targets | None]:
    """One picture of a batch, as a batch, with its target.

    Args:
      x: [B, ...].
      target: of all pictures, or a sequence with one for each, or several of one picture.
      number: which entry.
    """
    own = [target[number]] if is_sequence(target) else target
    return x[number : number + 1] if len(x) > 1 else x, own


def find_not_finite(
    graph: Graph,
    x: np.ndarray | tf.Tensor,
    flows: Callable[[int], Iterable[LayerFlow]],
    follows_rules: Sequence[bool],
    half: bool,
    absorb_bias: bool | None,
) -> NotFiniteError:
    """Finds the first layer that computes NaN or Inf, forwards or back; returns the error.

    Args:
      graph: the network, as it was built.
      x: [B, H, W, C], whose scores or maps are not finite.
      flows: index of a map -> the sums of relevance by layer, from the output to the input.
      follows_rules: whether each map follows rules.
      half: whether layers compute in half precision.
      absorb_bias: as the user set it, see `Composite.absorbing`.
    """
    tensors = graph.forward(to_float32(x), joined=False)
    for node in graph.nodes:
        output = tensors[node.output].numpy().astype(np.float32)
        if not np.isfinite(output).all():
            what = "NaN" if np.isnan(output).any() else "Inf"
            where = f"{what} in the layer {node.layer!r} ({node.kind})"
            advice = "try --precision float32" if half else "check its weights"
            return NotFiniteError(
                f"The network {graph.name!r} computes numbers that are not finite for this "
                f"picture: {where}. Expected finite ones: {advice} and --preprocess."
            )
    return NotFiniteError(
        f"The relevance of this picture is not finite{_where(flows, follows_rules)}, although the "
        f"scores of {graph.name!r} are. Expected finite relevance: {flood_advice(absorb_bias)}."
    )


def _where(flows: Callable[[int], Iterable[LayerFlow]], follows_rules: Sequence[bool]) -> str:
    """Names the first layer, from the output, that hands down relevance that is not finite."""
    for index, by_rules in enumerate(follows_rules):
        for flow in flows(index) if by_rules else ():
            if not np.isfinite(flow.growth).all():
                return f" behind the layer {flow.name!r} ({flow.kind})"
    return ""
