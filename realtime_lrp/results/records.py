"""Maps as data: what a line of a sidecar says, and the arrays of an .npz file.

Must not import TensorFlow: the live view opens its window before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from realtime_lrp.config.provenance import KEY, Provenance
from realtime_lrp.engine.result import shares_of
from realtime_lrp.engine.wording import top_scores

if TYPE_CHECKING:
    from realtime_lrp.engine.engine import Engine
    from realtime_lrp.engine.result import Result

TOP_CONCEPTS = 4
"""How many channels of a layer a sidecar names."""


def map_record(
    engine: Engine, target: str, result: Result, names: Mapping[int, str] | None = None
) -> dict[str, Any]:
    """What a sidecar says of a map.

    relevance_sum is that of the raw map, started the relevance at the output, taken_by_biases what
    biases took of it, lost the rest (started and lost are None for maps without an account). centre
    is the mean position [x, y] of absolute relevance, spread its root mean square distance from
    there, in pixels of the picture; None if the map is zero everywhere.
    """
    relevance = result.relevance.sum(-1, dtype=np.float64)
    centre, spread = _centre_and_spread(np.abs(relevance), result)
    top = [
        {"label": name, "probability": round(p, 6)} for name, p in top_scores(engine, result.scores)
    ]
    first = result.maps[0]
    record = {
        "top5": top,
        "target": target,
        "relevance_sum": float(relevance.sum()),
        "started": first.started if first.accounted else None,
        "taken_by_biases": first.taken_by_biases,
        "lost": first.lost if first.accounted else None,
        "centre": centre,
        "spread": spread,
    }
    if result.by_channel is not None:
        record["concepts"] = concept_records(result.by_channel, names or {})
    return record


def concept_records(by_channel: np.ndarray, names: Mapping[int, str]) -> list[dict[str, Any]]:
    """What a sidecar says of a map's concepts: the channels with the largest shares, best first.

    A share is negative where the channel speaks against what is explained; a channel without a name
    has none. `by_channel` is float32 [channels].
    """
    shares = shares_of(by_channel.astype(np.float64))
    if not np.abs(shares).max() > 0:
        return []
    order = np.argsort(-np.abs(shares), kind="stable")[:TOP_CONCEPTS]
    return [
        {"channel": channel, "share": round(share, 6)}
        | ({"name": names[channel]} if channel in names else {})
        for channel, share in zip(order.tolist(), shares[order].tolist(), strict=True)
    ]


def raw_map_arrays(
    engine: Engine, target: str, result: Result, provenance: Provenance
) -> dict[str, Any]:
    """The arrays in an .npz file of one map.

    relevance: float32 [h, w, 3] at the network's input; scores: float32 [classes]; labels: the five
    best; box: x0, y0, x1, y1 of the region in the picture; provenance: JSON.
    """
    return {
        "relevance": result.relevance,
        "scores": result.scores,
        "labels": np.array([name for name, _ in top_scores(engine, result.scores)]),
        "target": np.array(target),
        "box": np.array(result.region.box),
        KEY: np.array(provenance.as_json()),
    }


def _centre_and_spread(
    weight: np.ndarray, result: Result
) -> tuple[list[float] | None, float | None]:
    x0, y0, x1, y1 = result.region.inner
    left, top, right, bottom = result.region.box
    weight = weight[y0:y1, x0:x1]
    total = weight.sum()
    if not total > 0:
        return None, None
    y = top + (np.arange(y1 - y0) + 0.5) * (bottom - top) / (y1 - y0)
    x = left + (np.arange(x1 - x0) + 0.5) * (right - left) / (x1 - x0)
    of_rows, of_columns = weight.sum(1) / total, weight.sum(0) / total
    centre = [float(of_columns @ x), float(of_rows @ y)]
    squares = of_columns @ (x - centre[0]) ** 2 + of_rows @ (y - centre[1]) ** 2
    return [round(value, 2) for value in centre], round(float(np.sqrt(squares)), 2)
