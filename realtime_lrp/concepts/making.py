"""Makes a gallery: ranks pictures for each channel, chooses some, cuts out what it answers to."""

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import cv2
import numpy as np

from realtime_lrp.concepts.pictures import Found, Pictures, Place
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.result import shares_of
from realtime_lrp.errors import DamagedInputError, NotFiniteError
from realtime_lrp.models.gallery import ChannelContents, Contents, LayerContents, encode_picture
from realtime_lrp.relevance.concepts.concepts import NEURONS_AT_ONCE, Peaks
from realtime_lrp.system.geometry import Box
from realtime_lrp.system.progress import Progress
from realtime_lrp.video.region import resize

SIDE = 96  # rows and columns of a crop, unless the caller says otherwise
MOST_OF_PICTURE = 0.5  # share of a picture; the crop of a larger field follows the map
HELD = 0.8  # what part of the map's magnitude such a crop holds
LEAST_SIDE = 1 / 6  # its smallest side, as a part of the picture's shorter side
SMOOTHING = 1 / 24  # deviation by which the map is smoothed, as a part of the crop's side
CLEAR = 0.3  # share of the smoothed map's maximum; where it is larger the picture stays
DARK = 0.5  # what is left of the brightness where the map has nothing


def crop(picture: np.ndarray, relevance: np.ndarray, side: int = SIDE) -> np.ndarray:
    """The part of a picture that a neuron looks at, the rest darkened: uint8 [side, side, 3]."""
    strength = np.nan_to_num(np.abs(relevance.sum(2)), posinf=0)
    x0, y0, x1, y1 = crop_box(strength)
    seen = np.ascontiguousarray(strength[y0:y1, x0:x1])
    smooth = cv2.GaussianBlur(seen, (0, 0), max(1.0, SMOOTHING * (y1 - y0)))
    clear = np.clip(smooth / max(CLEAR * float(smooth.max()), 1e-30), 0, 1)
    clear = resize(clear.astype(np.float32), (side, side))[..., None]
    shown = resize(np.ascontiguousarray(picture[y0:y1, x0:x1]), (side, side))
    return np.round(shown * (DARK + (1 - DARK) * np.clip(clear, 0, 1))).astype(np.uint8)


def crop_box(strength: np.ndarray) -> Box:
    """The square around a neuron's map, float32 [h, w]: its receptive field, or most of the map."""
    rows, columns = strength.shape
    inside = np.nonzero(strength.any(1))[0], np.nonzero(strength.any(0))[0]
    if not inside[0].size:
        return _square((rows / 2, columns / 2), min(rows, columns), strength.shape)
    (y0, y1), (x0, x1) = ((int(one[0]), int(one[-1]) + 1) for one in inside)
    side = max(y1 - y0, x1 - x0)
    if side * side <= MOST_OF_PICTURE * rows * columns:
        return _square(((y0 + y1) / 2, (x0 + x1) / 2), side, strength.shape)
    return _around_mass(strength)


def _around_mass(strength: np.ndarray) -> Box:
    """The smallest of some squares around the centre of mass that holds `HELD` of it."""
    rows, columns = strength.shape
    whole = float(strength.sum())
    centre = (
        float(strength.sum(1) @ (np.arange(rows) + 0.5)) / whole,
        float(strength.sum(0) @ (np.arange(columns) + 0.5)) / whole,
    )
    most = min(rows, columns)
    for side in np.linspace(LEAST_SIDE * most, most, 24).round().astype(int).tolist():
        x0, y0, x1, y1 = box = _square(centre, max(1, side), strength.shape)
        if float(strength[y0:y1, x0:x1].sum()) >= HELD * whole:
            break
    return box


def _square(centre: tuple[float, float], side: int, shape: tuple[int, ...]) -> Box:
    """A square inside the picture, its centre (y, x) as near as possible to the wanted one."""
    side = min(side, *shape)
    y0, x0 = (
        min(max(round(at - side / 2), 0), length - side)
        for at, length in zip(centre, shape, strict=True)
    )
    return x0, y0, x0 + side, y0 + side


KEPT = 256  # pictures that are remembered for each channel; of equal ones a row shows one
OFTEN = 4  # a channel is often relevant where it is among the four with the largest shares
THUMBNAIL = 8  # rows and columns of grey thumbnails, by which nearly equal pictures are found

ALIKE = 3.0
ALIKE_PART = 0.3
"""Mean difference of grey values, out of 255, and as a part of their standard deviation, below
which two pictures are alike. Frames of a bottle that is moved about differ by 0.11 (median), 900
drawings of symbols by 0.38 or more."""


class Best:
    """The pictures, [channels, n], with the largest values of each channel; sorted by `keep`."""

    def __init__(self, channels: int):
        kind = [("value", np.float32), ("picture", np.int32), ("position", np.int32)]
        self.found: np.ndarray = np.zeros((channels, 0), kind)

    def add(self, first: int, values: np.ndarray, positions: np.ndarray) -> None:
        """Takes pictures into account, from the `first` number on; arrays are [B, channels]."""
        new = np.empty(values.T.shape, self.found.dtype)
        new["value"] = values.T
        new["position"] = positions.T
        new["picture"] = np.arange(first, first + len(values))
        self.found = np.concatenate([self.found, new], axis=1)
        if self.found.shape[1] > 2 * KEPT:
            self.keep()

    def keep(self) -> None:
        """Sorts, and forgets all but the best of each channel."""
        order = np.argsort(-self.found["value"], axis=1, kind="stable")[:, :KEPT]
        self.found = np.take_along_axis(self.found, order, axis=1)


class Ranking:
    """Facts about the channels of a layer."""

    def __init__(self, channels: int, classes: int):
        self.relevant = Best(channels)  # pictures with the largest shares, see `shares_of`
        self.activating = Best(channels)  # those with the largest activation anywhere
        # in how many pictures a channel was among the `OFTEN` largest
        self.often: np.ndarray = np.zeros(channels, np.int64)
        # positive shares summed over the pictures of a class
        self.by_class: np.ndarray = np.zeros((classes, channels))

    def add(self, first: int, peaks: Peaks, scores: np.ndarray) -> None:
        """Takes pictures into account, from the `first` number on; scores float32 [B, classes]."""
        shares = shares_of(peaks.shares)
        self.relevant.add(first, shares, peaks.positions)
        self.activating.add(first, peaks.activations, peaks.active_positions)
        largest = np.argsort(-np.abs(shares), axis=1, kind="stable")[:, :OFTEN]
        self.often += np.bincount(largest.ravel(), minlength=shares.shape[1])
        np.add.at(self.by_class, scores.argmax(1), np.maximum(shares, 0))


def thumbnail_of(picture: np.ndarray) -> np.ndarray:
    """The thumbnail of a picture uint8 [h, w, 3]: uint8 [THUMBNAIL * THUMBNAIL], grey."""
    grey = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
    return cv2.resize(grey, (THUMBNAIL, THUMBNAIL), interpolation=cv2.INTER_AREA).reshape(-1)


def are_alike(thumbnails: np.ndarray, thumbnail: np.ndarray) -> np.ndarray:
    """Which of some thumbnails, uint8 [N, THUMBNAIL * THUMBNAIL], are nearly equal to another."""
    differences = np.abs(thumbnails.astype(np.int16) - thumbnail).mean(-1)
    limit = max(ALIKE, ALIKE_PART * float(thumbnail.std()))
    return np.asarray(differences < limit)


RELEVANT, ACTIVATING = 6, 3  # pictures that a channel shows: with most relevance, most activation
BATCH = 8  # pictures that are looked at together
QUALITY = 55  # quality of the encoded crops, 1 to 100
CLASSES = 3  # that are named for a channel

log = logging.getLogger(__name__)


class Neuron(NamedTuple):
    """A channel of a layer at a position (-1: the whole channel, see `Peaks`) in a picture."""

    layer: int
    channel: int
    position: int
    place: Place


class Making:
    """The making of one gallery of these layers, in the order of the network."""

    def __init__(self, engine: Engine, pictures: Pictures, layers: Sequence[str], side: int = SIDE):
        self._engine = engine
        self._pictures = pictures
        self._side = side
        counts = engine.explainer.channel_counts()
        self._layers = tuple(layers)
        self._counts = counts
        self.rankings = {
            layer: Ranking(counts[layer], engine.explainer.classes) for layer in layers
        }
        # an error for each picture that was left out because the network computes NaN for it
        self.not_finite: list[NotFiniteError] = []
        self._places: list[Place] = []  # each picture that was looked at, and its thumbnail
        self._thumbnails: list[np.ndarray] = []
        self.crops: dict[Neuron, tuple[bytes, np.ndarray]] = {}  # encoded, and its thumbnail

    @property
    def looked(self) -> int:
        return len(self._places)

    def run(self) -> None:
        self._look()
        # where some crops are alike, also the next best
        while missing := {n for *_, a, b in self._rows() for n in (*a, *b)} - self.crops.keys():
            self._cut_out(missing)
        if self.not_finite:
            why = "the network computes NaN or infinity for them"
            log.warning("left out because %s: %d", why, len(self.not_finite))

    def contents(self) -> tuple[Contents, list[bytes]]:
        """The gallery's contents, without its origin, and the pictures cut out until now."""
        numbers: dict[Neuron, int] = {}
        entries: dict[str, dict[int, ChannelContents]] = {layer: {} for layer in self._layers}
        for layer, channel, relevant, activating in self._rows():
            if self.crops.keys() & {*relevant, *activating}:
                ranking = self.rankings[layer]
                first, second = (
                    tuple(
                        numbers.setdefault(neuron, len(numbers))
                        for neuron in row
                        if neuron in self.crops
                    )
                    for row in (relevant, activating)
                )
                shares = ranking.by_class[:, channel]
                best = [
                    one for one in np.argsort(-shares, kind="stable")[:CLASSES] if shares[one] > 0
                ]
                whole = float(shares.sum())
                classes = tuple(
                    (self._engine.label(int(one)), round(float(shares[one]) / whole, 4))
                    for one in best
                )
                often = int(ranking.often[channel])
                entries[layer][channel] = ChannelContents(first, second, classes, often)
        contents = Contents(
            network=self._engine.network.name,
            layers=tuple(
                LayerContents(layer, self._counts[layer], of_layer)
                for layer, of_layer in entries.items()
            ),
            pictures=self.looked,
            side=self._side,
        )
        return contents, [self.crops[neuron][0] for neuron in numbers]

    def _rows(self) -> Iterator[tuple[str, int, list[Neuron], list[Neuron]]]:
        for number, (layer, ranking) in enumerate(self.rankings.items()):
            for channel in range(self._counts[layer]):
                relevant = self._row(number, channel, ranking.relevant, RELEVANT)
                activating = self._row(number, channel, ranking.activating, ACTIVATING)
                yield layer, channel, relevant, activating

    def _look(self) -> None:
        found = self._pictures.read()
        with Progress(1, unit="pictures", logged=True) as progress:
            progress.begin("looking at pictures", self._pictures.total)
            while batch := list(islice(found, BATCH)):
                self._look_at(batch)
                progress.step(self.looked, "")
        if not self.looked:
            if self.not_finite:
                raise self.not_finite[-1]
            if failed := self._pictures.left_out:
                raise failed[min(failed)]
            raise DamagedInputError("There is no picture in the inputs.")
        for ranking in self.rankings.values():
            ranking.relevant.keep()
            ranking.activating.keep()

    def _look_at(self, batch: Sequence[Found]) -> None:
        """Takes pictures into account, but not those for which the network computes NaN."""
        try:
            self._add(batch)
        except NotFiniteError as error:
            if len(batch) > 1:
                for found in batch:
                    self._look_at([found])
            else:
                self.not_finite.append(error)

    def _add(self, batch: Sequence[Found]) -> None:
        """Adds a batch to the rankings. Raises NotFiniteError before anything is added."""
        engine = self._engine
        regions = [engine.region(one.shape[:2]).extract(one) for _, one in batch]
        scores, peaks = engine.on_device(engine.explainer.peaks, np.stack(regions), self._layers)
        for layer, ranking in self.rankings.items():
            ranking.add(self.looked, peaks[layer], scores)
        self._places += [place for place, _ in batch]
        self._thumbnails += map(thumbnail_of, regions)

    def _cut_out(self, missing: set[Neuron]) -> None:
        by_place: dict[Place, list[Neuron]] = defaultdict(list)
        for neuron in sorted(missing):
            by_place[neuron.place].append(neuron)
        with Progress(1, unit="crops", logged=True) as progress:
            progress.begin("cutting out what channels answer to", len(missing))
            done = 0
            for place, picture in self._pictures.read(by_place.keys()):
                for neuron, cut in self._crops_of(picture, by_place[place]):
                    self.crops[neuron] = cut
                    done += 1
                    progress.step(done, "")
        if done < len(missing):
            raise DamagedInputError(
                "Pictures have changed or gone while the gallery was made. Start again."
            )

    def _crops_of(
        self, picture: np.ndarray, neurons: Sequence[Neuron]
    ) -> Iterator[tuple[Neuron, tuple[bytes, np.ndarray]]]:
        """Yields the crop of each neuron in one picture, encoded, and its thumbnail."""
        engine = self._engine
        seen = engine.region(picture.shape[:2]).extract(picture)
        for number, layer in enumerate(self._layers):
            chosen = [neuron for neuron in neurons if neuron.layer == number]
            for begin in range(0, len(chosen), NEURONS_AT_ONCE[0]):
                part = chosen[begin : begin + NEURONS_AT_ONCE[0]]
                channels, positions = zip(
                    *((one.channel, one.position) for one in part), strict=True
                )
                maps = engine.on_device(
                    engine.explainer.position_maps, seen[None], layer, channels, positions
                )
                for neuron, relevance in zip(part, maps, strict=True):
                    shown = crop(seen, relevance, self._side)
                    yield neuron, (encode_picture(shown, QUALITY), thumbnail_of(shown))

    def _row(self, layer: int, channel: int, best: Best, count: int) -> list[Neuron]:
        """A channel's best pictures without pictures or crops alike, or near in time."""
        found = best.found[channel]
        found = found[found["value"] > 0]
        left = np.ones(len(found), bool)
        row: list[Neuron] = []
        shown: list[np.ndarray] = []
        for rank, one in enumerate(found):
            if not left[rank]:
                continue
            place = self._places[one["picture"]]
            neuron = Neuron(layer, channel, int(one["position"]), place)
            if neuron in self.crops:
                _, thumbnail = self.crops[neuron]
                if shown and are_alike(np.stack(shown), thumbnail).any():
                    continue
                shown.append(thumbnail)
            row.append(neuron)
            if len(row) == count:
                break
            away = np.array([self._places[other] for other in found["picture"]]) - place
            near = (away[:, 0] == 0) & (np.abs(away[:, 1]) < self._pictures.apart)
            thumbnails = np.stack([self._thumbnails[other] for other in found["picture"]])
            left &= ~(near | are_alike(thumbnails, self._thumbnails[one["picture"]]))
        return row
