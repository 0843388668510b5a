"""What an engine returns for a picture: scores, and maps that are fetched when asked for."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from realtime_lrp.engine.concept_result import ConceptResult
from realtime_lrp.engine.tensorflow import tf
from realtime_lrp.relevance.maps.account import FLOOD, VANISHED
from realtime_lrp.relevance.maps.compiled import PipelineOutput
from realtime_lrp.video.region import Region

_Row = tuple[np.ndarray, float, float, float, float, float, float]


@dataclass(frozen=True)
class ResultMap:
    """One map of one picture.

    Attributes:
      strength: int8 [h, w] or [h, w, C] at the network's input, see `relevance.strength`.
      scale: the relevance that is drawn at full strength.
      total: the sum of the raw map.
      magnitude: the sum of its magnitudes.
      started: the sum of relevance at the network's output, with the sign of each logit where the
        composite asks for it.
      started_magnitude: the sum of its magnitudes there.
      taken_by_biases: the sum that biases took on the way.
    """

    strength: np.ndarray
    scale: float
    total: float
    magnitude: float
    started: float
    started_magnitude: float
    taken_by_biases: float
    _fetch: Callable[[], np.ndarray]

    @property
    def relevance(self) -> np.ndarray:
        """The raw map, float32 [h, w, C]; copied from the device at each access."""
        return self._fetch()

    @property
    def lost(self) -> float:
        """What neither the pixels nor biases received of what started; below 0 it was gained."""
        return self.started - self.total - self.taken_by_biases

    @property
    def flooded(self) -> bool:
        """Whether relevance grew so much on its way that the map explains nothing."""
        return self.magnitude > FLOOD * self.started_magnitude > 0

    @property
    def vanished(self) -> bool:
        """Whether almost nothing of what started reached the pixels and biases."""
        return self.magnitude + abs(self.taken_by_biases) < VANISHED * self.started_magnitude


@dataclass(frozen=True)
class Result:
    """The explanation of one picture; all its numbers are finite.

    Attributes:
      scores: float32 [classes].
      explained: the scores that are explained: their sum, and the sum of their magnitudes.
      region: the part of the picture that the network saw.
      maps: the map, followed by the additional ones of the engine.
      target: what is explained; None means the engine's own target.
      by_channel: float32 [channels], the relevance of the first map in each channel of the engine's
        concept layer; None where it has none.
      concepts: the channels of a layer with their maps; None where they were not asked for.
    """

    scores: np.ndarray
    explained: tuple[float, float]
    region: Region
    maps: tuple[ResultMap, ...]
    target: str | int | None = None
    by_channel: np.ndarray | None = None
    concepts: ConceptResult | None = None

    @property
    def relevance(self) -> np.ndarray:
        """The first raw map, float32 [h, w, C]."""
        return self.maps[0].relevance


def fetch_results(
    output: PipelineOutput,
    regions: Sequence[Region],
    targets: Sequence[str | int] | None = None,
) -> list[Result]:
    """Waits for a batch and splits it into one result for each picture.

    Args:
      output: what the compiled pipeline returned; `after` gave strength, scale, total, magnitude.
      regions: the region of each picture.
      targets: what is explained of each, or None.

    Raises:
      tf.errors.OpError: the device failed on the batch.
    """
    by_map = [
        _result_maps(*tensors)
        for tensors in zip(output.processed, output.maps, output.accounts, strict=True)
    ]
    by_picture = zip(*by_map, strict=True)
    sums = map(tuple, output.explained.numpy().tolist())
    nothing = [None] * len(regions)
    each: Sequence[str | int | None] = nothing if targets is None else targets
    by_channel = output.by_channel[0].numpy() if output.by_channel else nothing
    return list(map(Result, output.scores.numpy(), sums, regions, by_picture, each, by_channel))


def _result_maps(
    processed: Sequence[tf.Tensor], raw: tf.Tensor, account: tf.Tensor
) -> list[ResultMap]:
    strengths, *figures = (tensor.numpy() for tensor in processed)
    columns = [*figures, *account.numpy().T]
    rows: Iterable[_Row] = zip(strengths, *(one.tolist() for one in columns), strict=True)
    return [ResultMap(*row, partial(_fetch, raw, number)) for number, row in enumerate(rows)]


def _fetch(raw: tf.Tensor, number: int) -> np.ndarray:
    return raw[number].numpy()
