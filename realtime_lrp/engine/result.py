"""Requests for channels, and the result of an engine for a picture.

Scores, and maps that are fetched when asked for. Must not import TensorFlow: what draws or writes
results needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from realtime_lrp.config import Config
from realtime_lrp.config.values import place
from realtime_lrp.relevance.maps.account import Account, State
from realtime_lrp.relevance.maps.targets import Target
from realtime_lrp.system.geometry import FloatBox
from realtime_lrp.video.region import Region

if TYPE_CHECKING:
    from realtime_lrp.relevance.maps.compiled import ChannelOutput, Explained
    from realtime_lrp.relevance.maps.detections import DrawnBoxes

NOT_FINITE = "the maps of single channels hold NaN or Inf"
TOP = 4  # channels that are shown
NOTHING = 0.01  # a channel with at most this share of the largest map's relevance has no map


def shares_of(relevance: np.ndarray) -> np.ndarray:
    """Relevance [..., channels] divided by the sum of all magnitudes: -1 to 1; 0 without any."""
    magnitudes = np.abs(relevance).sum(-1, keepdims=True)
    return relevance / np.where(magnitudes > 0, magnitudes, 1)


@dataclass(frozen=True)
class ConceptRequest:
    """Which channels are wanted: of `Engine.concept_layer` where no layer is named."""

    layer: str = ""
    channel: int | None = None  # wanted even if it is none of the largest
    near: FloatBox | None = None  # a detector's box most on this place counts, else the surest


@dataclass(frozen=True)
class Aim:
    """The explained place of a segmentation, and whether its class is set against another."""

    at: tuple[float, float] | None = None  # x, y in shares of the picture; None: the largest region
    pixel: bool = False  # whether that is the pixel alone, not the region of one class around it
    contrast: bool = True

    @classmethod
    def of(cls, config: Config) -> Aim:
        at = config.input.at
        return cls(place(at) if at else None, config.input.pixel, config.lrp.contrast)


@dataclass(frozen=True, eq=False)
class Batch:
    """Pictures that are explained at once, and what is asked about them."""

    pictures: np.ndarray  # uint8 [B, h, w, 3], what the network sees of the regions
    regions: Sequence[Region]
    targets: Sequence[Target]
    concepts: ConceptRequest | None  # the channels that are wanted too, or None
    prior: np.ndarray | None  # see `Engine.begin`
    aim: Aim
    where: dict[str, np.ndarray]  # a segmentation's fields of `TargetTensors`

    def parts(self, count: int) -> list[Batch]:
        """The batch in a number of parts at most, in order."""
        size = -(-len(self.pictures) // count)
        parts = (slice(n, n + size) for n in range(0, len(self.pictures), size))
        return [
            replace(
                self, pictures=self.pictures[part], regions=self.regions[part],
                targets=self.targets[part], where={
                    name: one[part] if len(one) > 1 else one for name, one in self.where.items()
                },
            )
            for part in parts
        ]  # fmt: skip


@dataclass(frozen=True, eq=False)
class DrawnMap:
    """A map of one picture, as it is drawn."""

    strength: np.ndarray  # int8 [h, w] or [h, w, C] at the network's input, see `strength`
    scale: float  # the relevance that is drawn at full strength
    total: float  # the sum of the raw map
    magnitude: float  # the sum of its magnitudes
    _fetch: Callable[[], np.ndarray]

    @property
    def peak(self) -> float:
        """The relevance of full strength, as a share of the sum of magnitudes."""
        return self.scale / self.magnitude if self.magnitude else 0.0

    @property
    def relevance(self) -> np.ndarray:
        """The raw map, float32 [h, w, C]; copied from the device at each access."""
        return self._fetch()


@dataclass(frozen=True)
class MapKind:
    """Facts about a map before it is computed."""

    name: str  # the composite or method that it comes from
    by_rules: bool = True  # whether it follows the rules of a composite
    difference: bool = False  # whether its sum is a difference of scores (integrated gradients)
    of_scores: bool = True  # whether it explains scores from 0 to 1; a regression has any values
    tolerance: float | None = None  # share of what started that may be missing; None: no account


@dataclass(frozen=True, eq=False)
class ResultMap(DrawnMap):
    """One map of one picture with its account."""

    kind: MapKind  # what it is a map of
    signed: bool  # whether it can be negative
    started: float  # the sum of relevance at the output, with logits' signs if the composite asks
    started_magnitude: float  # the sum of its magnitudes there
    taken_by_biases: float  # the sum that biases took on the way

    @property
    def name(self) -> str:
        return self.kind.name

    @property
    def account(self) -> Account:
        return Account(
            self.started, self.total, self.taken_by_biases, self.started_magnitude, self.magnitude
        )

    @property
    def lost(self) -> float:
        """The relevance that neither the pixels nor biases received; below 0 it was gained."""
        return self.account.lost

    @property
    def accounted(self) -> bool:
        """Whether the sum is a share of what started."""
        return self.kind.tolerance is not None

    @property
    def closes(self) -> bool:
        """Whether pixels and biases received what started; True without an account."""
        return self.kind.tolerance is None or self.account.closes(self.kind.tolerance)

    @property
    def state(self) -> State:
        """How much it shows of the score that it explains; gradients are full, or zero."""
        if not self.kind.by_rules:
            return State.FULL if self.magnitude else State.ZERO
        state = self.account.state
        return State.FULL if state is State.FAINT and not self.kind.of_scores else state

    @property
    def fade(self) -> float:
        """How strongly it is drawn, see `Account.fade`."""
        return self.account.fade if self.kind.by_rules and self.kind.of_scores else 1.0


@dataclass(frozen=True, eq=False)
class ConceptMap(DrawnMap):
    """A channel of a layer, and its map of one picture, whose strength is scaled by itself."""

    channel: int  # its number
    relevance_at_layer: float  # the relevance in the channel at the layer's output
    share: float  # see `shares_of`


@dataclass(frozen=True, eq=False)
class ConceptResult:
    """The channels of a layer with the largest shares of the relevance of one picture."""

    layer: str  # the layer's name, "" where the network has none to choose
    # up to `TOP` channels, the largest share first; a channel that was asked for is among them
    maps: tuple[ConceptMap, ...] = ()
    # float32 [channels], the shares of all channels, as of `ConceptMap`
    by_channel: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    problem: str = ""  # why there are none, as a sentence for people, or ""

    @property
    def scale(self) -> float:
        """The relevance that all maps are drawn at full strength with, so that they compare."""
        return max((one.scale for one in self.maps), default=0.0)

    def of(self, channel: int | None) -> ConceptMap | None:
        """The map of a channel, or None."""
        return next((one for one in self.maps if one.channel == channel), None)

    def without_map(self, one: ConceptMap) -> bool:
        """Whether a channel's map is nothing beside the largest one: biases took its relevance."""
        return one.magnitude <= NOTHING * max(other.magnitude for other in self.maps)

    def lacks(self, one: ConceptMap) -> bool:
        """Whether the picture has nothing of a channel: under half a percent, and hardly a map."""
        return abs(one.share) < 0.005 and self.without_map(one)


class Segments(NamedTuple):
    """Classes by a segmentation at the places [h, w] on the picture, and the explained region."""

    classes: np.ndarray  # int32, the class of each place
    region: np.ndarray  # bool, the places that are explained
    inside: float  # the share of positive relevance of the first map that lies in the region
    label: int  # the class that is explained
    other: int  # the class that it is set against, -1 for all others together
    contrast: bool  # whether it is set against it

    @property
    def area(self) -> float:
        """The share of the picture that the region covers."""
        return float(self.region.mean())

    def areas(self) -> list[tuple[int, float]]:
        """Each class with the share of the picture that it covers, the largest first."""
        classes, counts = np.unique(self.classes, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        return [(int(classes[n]), float(counts[n] / self.classes.size)) for n in order]


@dataclass(frozen=True, eq=False)
class Result:
    """The explanation of one picture; all its numbers are finite."""

    scores: np.ndarray  # float32 [classes]
    explained: tuple[float, float]  # the sum of explained scores, and of their magnitudes
    region: Region  # the part of the picture that the network saw
    maps: tuple[ResultMap, ...]  # the map, then additional ones; a detector sums up its boxes
    target: Target  # what is explained
    by_channel: np.ndarray | None = None  # float32 [channels], relevance in the concept layer
    concepts: ConceptResult | None = None  # channels with their maps, if they were asked for
    segments: Segments | None = None  # what a segmentation finds; None of other networks
    found: tuple[FoundBox, ...] | None = None  # a detector's boxes, the surest first

    @property
    def relevance(self) -> np.ndarray:
        """The first raw map, float32 [h, w, C]."""
        return self.maps[0].relevance


@dataclass(frozen=True, eq=False, kw_only=True)
class FoundBox(Result):
    """A detector's box with the result of its score."""

    box: FloatBox  # pixels of the picture
    label: int
    score: float
    inside: float  # the share of the positive relevance of the first map that lies in the box
    place: int  # which of the network's places made it: a cell, an anchor, a query
    number: int  # it keeps this number, and its colour, from picture to picture of a recording


Kind = tuple[MapKind, Sequence[bool]]  # and for each picture whether it can be negative


def fetch_results(
    output: Explained, batch: Batch, kinds: Sequence[Kind], layer: str = ""
) -> list[Result]:
    """Waits for a batch; a result for each picture, perhaps with the channels of a `layer`."""
    pictures = output.found.pictures.numpy() if output.found else range(len(batch.pictures))
    by_map = [
        _result_maps(*tensors, pictures)
        for tensors in zip(output.drawn, output.maps, output.accounts, kinds, strict=True)
    ]
    maps: list[Any] = list(zip(*by_map, strict=True))
    shares: Sequence[Any] = [None] * len(maps)
    concepts: Sequence[Any] = [None] * len(batch.pictures)
    if output.of_layer and layer:
        concepts = fetch_concepts(layer, output.of_layer)
    elif output.of_layer:
        shares = output.of_layer.shares.numpy()
    segments = list(_segments(output, batch)) if output.regions else [None] * len(concepts)
    scores = output.scores.numpy()
    explained = output.explained.numpy().tolist()
    results = [
        Result(
            scores[n], tuple(explained[row]), batch.regions[n], maps[row], batch.targets[n],
            shares[row], None if output.found else concepts[n], segments[n],
        )
        for row, n in enumerate(pictures)
    ]  # fmt: skip
    if output.found:
        return list(_with_boxes(results, output, output.found, concepts))
    return results


def _segments(output: Explained, batch: Batch) -> Iterator[Segments]:
    """The segments of each picture, without the borders of a letterbox."""
    regions: Any = output.regions
    weights, classes, inside, sides = (one.numpy() for one in regions)
    for number, region in enumerate(batch.regions):
        part = (number, *region.part_of(classes.shape[1:]))
        label, other = sides[number].tolist()
        yield Segments(
            classes[part], weights[part] > 0, float(inside[number]), label, other,
            batch.aim.contrast or batch.targets[number].contrasts,
        )  # fmt: skip


def _with_boxes(
    rows: Sequence[Result], output: Explained, drawn: DrawnBoxes, concepts: Sequence[Any]
) -> Iterator[Result]:
    """The result of each picture: the sum of its `rows`, which are the results of its boxes."""
    pictures, boxes, labels, scores, places, sure = (one.numpy() for one in drawn)
    inside = output.inside.numpy()
    explained = output.explained.numpy()
    for picture, of_layer in enumerate(concepts):
        numbers = np.flatnonzero(pictures == picture).tolist()
        first = rows[numbers[0]]
        found = tuple(
            FoundBox(
                **vars(rows[n]), box=first.region.in_picture(tuple(boxes[n].tolist())),
                label=int(labels[n]), score=float(scores[n]), inside=float(inside[n]),
                place=int(places[n]), number=number,
            )
            for number, n in enumerate(numbers)
            if sure[n]
        )  # fmt: skip
        maps = zip(*(rows[n].maps for n in numbers), strict=True)
        shares: list[Any] = [one.by_channel for one in (first, *found)]
        shares[0] = None if shares[0] is None else np.sum([0 * shares[0], *shares[1:]], axis=0)
        yield replace(
            first, by_channel=shares[0], concepts=of_layer, found=found,
            explained=tuple(explained[numbers].sum(0).tolist()) if found else (0.0, 0.0),
            maps=tuple(_together(one) if found else _nothing(one[0]) for one in maps),
        )  # fmt: skip


SUMS = "total", "magnitude", "started", "started_magnitude", "taken_by_biases"


def _together(maps: Sequence[ResultMap]) -> ResultMap:
    """The maps of several boxes as one: raw they add up, drawn each keeps its own scale."""
    if len(maps) == 1:
        return maps[0]
    strengths = np.stack([one.strength for one in maps])
    strongest = np.abs(strengths).argmax(0)[None]
    sums: dict[str, Any] = {name: sum(getattr(one, name) for one in maps) for name in SUMS}
    return replace(
        maps[0],
        strength=np.take_along_axis(strengths, strongest, 0)[0],
        scale=max(one.scale for one in maps),
        _fetch=lambda: np.sum([one.relevance for one in maps], 0),
        **sums,
    )


def _nothing(one: ResultMap) -> ResultMap:
    """The map of a picture in which a detector found nothing."""
    sums: dict[str, Any] = dict.fromkeys(SUMS, 0.0)
    strength = np.zeros_like(one.strength)
    return replace(one, strength=strength, scale=0.0, _fetch=lambda: 0 * one.relevance, **sums)


def _result_maps(
    processed: Sequence[Any], raw: Any, account: Any, kind: Kind, pictures: Sequence[int]
) -> list[ResultMap]:
    """The maps in a row, each for its own picture."""
    strengths, *figures = (tensor.numpy() for tensor in processed)
    signed = [kind[1][picture] for picture in pictures]
    columns = [*(figure.tolist() for figure in figures), signed, account.numpy().tolist()]
    return [
        ResultMap(
            strength, scale, total, magnitude, partial(_fetch, raw, number),
            kind[0], signed, *of_account,
        )
        for number, (strength, scale, total, magnitude, signed, of_account) in enumerate(
            zip(strengths, *columns, strict=True)
        )
    ]  # fmt: skip


def fetch_concepts(layer: str, output: ChannelOutput) -> list[ConceptResult]:
    """Waits for the channels of a batch; one result for each picture."""
    numbers = output.channels.numpy()
    at_layer = output.shares.numpy()
    shares = shares_of(at_layer)
    strengths, scales, totals, magnitudes = (
        one.numpy().reshape(*numbers.shape, *one.shape[1:]) for one in output.drawn
    )

    results = []
    for picture, of_all in enumerate(shares):
        if not (np.isfinite(of_all).all() and np.isfinite(magnitudes[picture]).all()):
            results.append(ConceptResult(layer, problem=NOT_FINITE))
            continue
        maps = [
            ConceptMap(
                strengths[at], float(scales[at]), float(totals[at]), float(magnitudes[at]),
                partial(_fetch, output.maps, at),
                channel, float(at_layer[picture, channel]), float(of_all[channel]),
            )
            for at, channel in (((picture, n), int(c)) for n, c in enumerate(numbers[picture]))
        ]  # fmt: skip
        maps.sort(key=lambda one: -abs(one.share))
        results.append(ConceptResult(layer, tuple(maps), of_all))
    return results


def _fetch(raw: Any, at: int | tuple[int, int]) -> np.ndarray:
    return raw[at].numpy()
