"""Makes a gallery: looks at all pictures, chooses some for each channel, cuts these out."""

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from realtime_lrp.commands.concepts.crops import SIDE, crop
from realtime_lrp.commands.concepts.pictures import Found, Pictures, Place
from realtime_lrp.commands.concepts.ranking import Best, Ranking, are_alike, thumbnail_of
from realtime_lrp.engine.engine import Engine
from realtime_lrp.errors import DamagedInputError, NotFiniteError
from realtime_lrp.models.gallery import (
    ChannelContents,
    Contents,
    LayerContents,
    decode_picture,
    encode_picture,
)
from realtime_lrp.relevance.concepts.concepts import NEURONS_AT_ONCE
from realtime_lrp.system.progress import Progress

RELEVANT, ACTIVATING = 6, 3
"""How many pictures a channel shows: with most relevance, and with most activation."""

BATCH = 8  # pictures that are looked at together
QUALITY = 55  # of the encoded crops, 1 to 100
CLASSES = 3  # that are named for a channel

log = logging.getLogger(__name__)


class Neuron(NamedTuple):
    """A channel of a layer at a position, in a picture: what a crop shows.

    The position -1 is the whole channel, see `Peaks`.
    """

    layer: int
    channel: int
    position: int
    place: Place


class Making:
    """The making of one gallery of these layers, in the order of the network.

    Attributes:
      rankings: layer -> what is known of its channels.
      not_finite: how many were left out because the network computes NaN for them.
    """

    def __init__(self, engine: Engine, pictures: Pictures, layers: Sequence[str], side: int = SIDE):
        self._engine, self._pictures, self._side = engine, pictures, side
        counts = engine.explainer.channel_counts()
        self._layers, self._counts = tuple(layers), counts
        self.rankings = {
            layer: Ranking.empty(counts[layer], engine.explainer.classes) for layer in layers
        }
        self.not_finite = 0
        self._places: list[Place] = []  # of each picture that was looked at, and its thumbnail
        self._thumbnails: list[np.ndarray] = []
        self._crops: dict[Neuron, bytes] = {}
        self._crop_thumbnails: dict[Neuron, np.ndarray] = {}
        self._last_error: NotFiniteError | None = None

    @property
    def looked(self) -> int:
        """How many pictures have been looked at."""
        return len(self._places)

    def run(self) -> None:
        """Looks at all pictures and cuts out the best."""
        self._look()
        self._cut()
        if self.not_finite:
            log.warning(
                "left out because the network computes NaN or infinity for them: %d",
                self.not_finite,
            )

    def contents(self) -> tuple[Contents, list[bytes]]:
        """What the gallery says, without how it was made, and its pictures."""
        numbers: dict[Neuron, int] = {}

        def row(layer: int, channel: int, best: Best, count: int) -> tuple[int, ...]:
            neurons = self._row(layer, channel, best, count)
            return tuple(numbers.setdefault(neuron, len(numbers)) for neuron in neurons)

        layers = []
        for number, (layer, ranking) in enumerate(self.rankings.items()):
            entries = {}
            for channel in range(self._counts[layer]):
                relevant = row(number, channel, ranking.relevant, RELEVANT)
                activating = row(number, channel, ranking.activating, ACTIVATING)
                if relevant or activating:
                    classes = self._classes(ranking.by_class[:, channel])
                    often = int(ranking.often[channel])
                    entries[channel] = ChannelContents(relevant, activating, classes, often)
            layers.append(LayerContents(layer, self._counts[layer], entries))
        contents = Contents(
            network=self._engine.network.name,
            layers=tuple(layers),
            pictures=self.looked,
            side=self._side,
        )
        return contents, [self._crops[neuron] for neuron in numbers]

    def _classes(self, shares: np.ndarray) -> tuple[tuple[str, float], ...]:
        """The classes with the largest shares of a channel."""
        whole = float(shares.sum())
        best = np.argsort(-shares, kind="stable")[:CLASSES].tolist()
        found = [(self._engine.label(one), float(shares[one])) for one in best if shares[one] > 0]
        return tuple((label, round(share / whole, 4)) for label, share in found)

    def _look(self) -> None:
        found = self._pictures.read()
        with Progress(1, unit="pictures", logged=True) as progress:
            progress.begin("looking at pictures", self._pictures.total)
            while batch := list(islice(found, BATCH)):
                self._look_at(batch)
                progress.step(self.looked, "")
        if not self.looked:
            if self._last_error:
                raise self._last_error
            self._pictures.raise_if_all_failed()
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
                self.not_finite += 1
                self._last_error = error

    def _add(self, batch: Sequence[Found]) -> None:
        """Adds a batch to the rankings. Raises NotFiniteError before anything is added."""
        engine = self._engine
        regions = [engine.region(one.shape[:2]).extract(one) for _, one in batch]
        scores, peaks = engine.peaks(np.stack(regions), self._layers)
        for layer, ranking in self.rankings.items():
            ranking.add(self.looked, peaks[layer], scores)
        self._places += [place for place, _ in batch]
        self._thumbnails += map(thumbnail_of, regions)

    def _cut(self) -> None:
        """Cuts out all crops that are not there yet; where some are alike, also the next best."""
        while missing := self._missing():
            self._cut_out(missing)

    def _missing(self) -> set[Neuron]:
        """The neurons of all rows whose crops are not there yet."""
        rows = (
            self._row(number, channel, best, count)
            for number, (layer, ranking) in enumerate(self.rankings.items())
            for channel in range(self._counts[layer])
            for best, count in ((ranking.relevant, RELEVANT), (ranking.activating, ACTIVATING))
        )
        return {neuron for row in rows for neuron in row if neuron not in self._crops}

    def _cut_out(self, missing: set[Neuron]) -> None:
        """Cuts out the crops of these neurons, picture by picture."""
        by_place: dict[Place, list[Neuron]] = defaultdict(list)
        for neuron in sorted(missing):
            by_place[neuron.place].append(neuron)
        with Progress(1, unit="crops", logged=True) as progress:
            progress.begin("cutting out what channels answer to", len(missing))
            done = 0
            for place, picture in self._pictures.read(by_place.keys()):
                cut = dict(self._crops_of(picture, by_place[place]))
                self._crops |= cut
                done += len(cut)
                progress.step(done, "")
        if done < len(missing):
            raise DamagedInputError(
                "Pictures have changed or gone while the gallery was made. Start again."
            )

    def _crops_of(
        self, picture: np.ndarray, neurons: Sequence[Neuron]
    ) -> Iterator[tuple[Neuron, bytes]]:
        """Yields the crop of each neuron in one picture, encoded."""
        engine = self._engine
        seen = engine.region(picture.shape[:2]).extract(picture)
        for number, layer in enumerate(self._layers):
            chosen = [neuron for neuron in neurons if neuron.layer == number]
            for begin in range(0, len(chosen), NEURONS_AT_ONCE[0]):
                part = chosen[begin : begin + NEURONS_AT_ONCE[0]]
                maps = engine.position_maps(
                    seen, layer, [one.channel for one in part], [one.position for one in part]
                )
                for neuron, relevance in zip(part, maps, strict=True):
                    yield neuron, encode_picture(crop(seen, relevance, self._side), QUALITY)

    def _row(self, layer: int, channel: int, best: Best, count: int) -> list[Neuron]:
        """What the pictures of a channel show, the best first, without those that are the same.

        The same are pictures that are alike or near in time, and crops that are alike. Crops that
        are not there yet count as different from all others.
        """
        numbers = best.pictures[channel][best.values[channel] > 0]
        left = np.ones(len(numbers), bool)
        row: list[Neuron] = []
        shown: list[np.ndarray] = []
        for rank, number in enumerate(numbers):
            if not left[rank]:
                continue
            position = int(best.positions[channel, rank])
            neuron = Neuron(layer, channel, position, self._places[number])
            thumbnail = self._crop_thumbnail(neuron)
            if thumbnail is not None:
                if shown and are_alike(np.stack(shown), thumbnail).any():
                    continue
                shown.append(thumbnail)
            row.append(neuron)
            if len(row) == count:
                break
            left &= ~self._same(numbers, number)
        return row

    def _same(self, numbers: np.ndarray, number: int) -> np.ndarray:
        """Which of some pictures are alike to another one, or near it in time: bool [n]."""
        away = np.array([self._places[one] for one in numbers]) - self._places[number]
        near = (away[:, 0] == 0) & (np.abs(away[:, 1]) < self._pictures.apart)
        thumbnails = np.stack([self._thumbnails[one] for one in numbers])
        return near | are_alike(thumbnails, self._thumbnails[number])

    def _crop_thumbnail(self, neuron: Neuron) -> np.ndarray | None:
        """The thumbnail of a crop; None if that is not cut out yet."""
        if neuron not in self._crop_thumbnails and neuron in self._crops:
            shown = decode_picture(self._crops[neuron])
            if shown is not None:
                self._crop_thumbnails[neuron] = thumbnail_of(shown)
        return self._crop_thumbnails.get(neuron)
