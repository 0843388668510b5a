"""How far an answer falls as channels of a layer are set to 0, in several orders.

Shapes: pictures uint8 [N, h, w, 3] RGB as the network sees them, curves float64 [points, N].
"""

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from realtime_lrp.engine.engine import Engine
from realtime_lrp.errors import DamagedInputError, UsageError
from realtime_lrp.relevance.channel_masks import ChannelMasks, resolution_of

RELEVANCE, ACTIVATION, RANDOM = "relevance", "activation", "random"
ORDERS = (RELEVANCE, ACTIVATION, RANDOM)
"""Which channels are masked first: with the largest shares for the class; with the largest sum of
magnitudes of activation; any."""

RANDOM_ORDERS = 5
"""How many random orders of a picture are averaged."""

BATCH = 16


@dataclass(frozen=True)
class MaskedLayer:
    """What was measured of one layer, picture by picture.

    Attributes:
      name: of the layer.
      channels: how many it has.
      counts: int [points], how many channels are masked at each point: 0, 1, 2, 4, ...
      curves: order -> the probability of each picture's class at each point.
    """

    name: str
    channels: int
    counts: np.ndarray
    curves: Mapping[str, np.ndarray]

    @property
    def areas(self) -> dict[str, np.ndarray]:
        """Order -> the area under each picture's curve, float64 [N]."""
        weights = area_weights(len(self.counts))
        return {order: weights @ curve for order, curve in self.curves.items()}

    def save(self, file: Path) -> None:
        """Writes an .npz file."""
        arrays: dict[str, Any] = {"counts": self.counts, **self.curves}
        facts = json.dumps({"name": self.name, "channels": self.channels})
        with file.open("wb") as stream:
            np.savez(stream, facts=facts, **arrays)

    @classmethod
    def load(cls, file: Path, name: str) -> "MaskedLayer":
        """Reads what `save` wrote.

        Raises:
          DamagedInputError: the file cannot be read or is not this layer.
        """
        try:
            with np.load(file, allow_pickle=False) as arrays:
                curves = {order: arrays[order] for order in ORDERS}
                layer = cls(
                    **json.loads(str(arrays["facts"])), counts=arrays["counts"], curves=curves
                )
        except Exception as error:  # zipfile, zlib, numpy and json have many ways to say it
            raise DamagedInputError(str(error) or type(error).__name__) from None
        shapes = {(curve.shape, curve.dtype.name) for curve in curves.values()}
        expected = masked_counts(layer.channels) if isinstance(layer.channels, int) else np.empty(0)
        points = (len(expected), curves[RANDOM].shape[-1])
        if (
            layer.name != name
            or not np.array_equal(layer.counts, expected)
            or shapes != {(points, "float64")}
        ):
            raise DamagedInputError("it holds something else")
        return layer


def parts_of(pictures: np.ndarray) -> int:
    """In how many parts a layer is measured."""
    return -(-len(pictures) // BATCH)


def masked_counts(channels: int) -> np.ndarray:
    """How many channels are masked at each point, int [points]: 0, 1, 2, 4, ... up to half."""
    most = max(1, channels // 2)
    return np.array([0, *(1 << power for power in range(most.bit_length()))])


def area_weights(points: int) -> np.ndarray:
    """Weights of a curve's points for the area under it, where each step counts the same."""
    weights = np.ones(points)
    weights[[0, -1]] = 0.5
    return weights / (points - 1)


def study_layers(engine: Engine) -> list[str]:
    """The layers to study: the configured one, else the last one of each resolution.

    Of a transformer also the hidden layer that is shown first.

    Raises:
      UsageError: the network has none.
    """
    chosen = engine.config.concepts.layer
    if chosen:
        return [chosen]
    explainer = engine.explainer
    last: dict[tuple[int, ...], str] = {}
    for layer in explainer.concept_layers:
        resolution = resolution_of(explainer, layer)
        last.pop(resolution, None)
        last[resolution] = layer
    last.pop((1, 1), None)  # of gates, which have no positions
    if not last:
        raise UsageError(
            "The network has no layer with rows and columns whose channels are concepts."
        )
    studied, shown_first = {*last.values()}, explainer.concept_layer
    if shown_first and resolution_of(explainer, shown_first) in last:
        studied.add(shown_first)
    return [layer for layer in explainer.concept_layers if layer in studied]


def measure_layer(
    engine: Engine,
    layer: str,
    masks: ChannelMasks,
    pictures: np.ndarray,
    classes: np.ndarray,
    seed: int,
    on_part: Callable[[], None] = lambda: None,
) -> MaskedLayer:
    """Masks channels of a layer in every order.

    Args:
      engine: the network.
      layer: the layer's name.
      masks: of this layer.
      pictures: as the network sees them.
      classes: int [N], whose probability is measured.
      seed: random seed of the random orders.
      on_part: called after each `BATCH` pictures.
    """
    rng = np.random.default_rng([seed, zlib.crc32(layer.encode())])
    counts, found = masked_counts(masks.channels), []
    for start in range(0, len(pictures), BATCH):
        part = slice(start, start + BATCH)
        x = engine.network.prepare(pictures[part])
        found.append(_curves(masks, x, classes[part], counts, rng))
        on_part()
    curves = {order: np.concatenate([one[order] for one in found], 1) for order in ORDERS}
    return MaskedLayer(layer, masks.channels, counts, curves)


def _curves(
    masks: ChannelMasks, x: Any, classes: np.ndarray, counts: np.ndarray, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """The curves of a batch, float64 [points, B] for each order."""
    scores, shares, activations = masks.shares(x, classes)
    ranks = [_ranks(shares), _ranks(activations)]
    ranks += [rng.permuted(_ranks(shares), axis=1) for _ in range(RANDOM_ORDERS)]
    kept = np.stack(ranks, 1)[:, :, None] >= counts[1:, None]  # [B, orders, points - 1, channels]
    masked = masks.masked_scores(x, kept.reshape(len(kept), -1, masks.channels))
    if not np.isfinite(masked).all():
        raise DamagedInputError("The network computes NaN or Inf without some channels of a layer.")
    pictures = np.arange(len(classes))
    of_class = masked[pictures, :, classes].reshape(len(kept), len(ranks), len(counts) - 1)
    first = np.broadcast_to(scores[pictures, classes][:, None, None], (*of_class.shape[:2], 1))
    curves = np.concatenate([first, of_class], 2).astype(np.float64).transpose(1, 2, 0)
    by_relevance, by_activation, *at_random = curves
    return {
        RELEVANCE: by_relevance, ACTIVATION: by_activation, RANDOM: np.mean(at_random, axis=0),
    }  # fmt: skip


def _ranks(values: np.ndarray) -> np.ndarray:
    """The rank of each entry in its row, 0 for the largest; of equal ones the first comes first."""
    order = np.argsort(-values, axis=1, kind="stable")
    return np.argsort(order, axis=1)
