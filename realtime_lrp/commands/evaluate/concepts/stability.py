"""How steady the top channels are in moving pictures."""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from realtime_lrp.engine.concept_result import shares_of
from realtime_lrp.engine.engine import Engine
from realtime_lrp.errors import DamagedInputError
from realtime_lrp.results.records import TOP_CONCEPTS
from realtime_lrp.video.frame_reader import read_timed_frames

AVERAGES = (0.0, 0.5, 0.8)
"""How much of the previous shares stays with each new frame: like `overlay.average`."""

BATCH = 16


@dataclass(frozen=True)
class Steadiness:
    """How steady the top channels of one layer are.

    Attributes:
      layer: its name.
      average: how much of the previous shares stays with each new frame.
      overlaps: float64 [pairs], the Jaccard index of the top channels of a frame and the next.
      seconds: for each pair the second of its recording, "clip.mp4: 3": neighbours resemble each
        other.
      stays: float64 [stays], for how many seconds a channel is among them without a break. Stays at
        the ends of a recording count as they are.
      different: how many channels are among them at some time.
    """

    layer: str
    average: float
    overlaps: np.ndarray
    seconds: Sequence[str]
    stays: np.ndarray
    different: int


class SteadinessStudy:
    """Follows the top channels through recordings, frame by frame; keeps no shares.

    Args:
      layers: whose channels are followed.
      averages: how much of the previous shares stays with each new frame, one result for each.
    """

    def __init__(self, layers: Sequence[str], averages: Sequence[float] = AVERAGES) -> None:
        self._followed = [_Followed(layer, average) for layer in layers for average in averages]
        self._seconds: list[str] = []

    def add(self, name: str, frames: Iterable[tuple[float, Mapping[str, np.ndarray]]]) -> None:
        """Takes in a recording.

        Args:
          name: of the file.
          frames: time and shares of each frame, see `shares_of_frames`.

        Raises:
          DamagedInputError: there are fewer than two frames.
        """
        times, second = array("d"), ""
        for time, shares in frames:
            if times:
                now = f"{name}: {int(time)}"
                second = second if second == now else now  # one string for all of a second
                self._seconds.append(second)
            times.append(time)
            for one in self._followed:
                one.add(shares[one.layer], time)
        if len(times) < 2:
            raise DamagedInputError(f"{name!r} has {len(times)} frames. Expected two or more.")
        end = times[-1] + float(np.median(np.diff(times)))  # a frame lasts to the next
        for one in self._followed:
            one.end(end)

    def results(self) -> list[Steadiness]:
        """How steady the channels are, by layer and average."""
        return [one.result(self._seconds) for one in self._followed]


class _Followed:
    """The top channels of one layer with one average."""

    def __init__(self, layer: str, average: float) -> None:
        self.layer, self._average = layer, average
        self._overlaps, self._stays = array("d"), array("d")
        self._different: set[int] = set()
        self._shares: np.ndarray | None = None
        self._top: frozenset[int] = frozenset()
        self._begun: dict[int, float] = {}

    def add(self, shares: np.ndarray, time: float) -> None:
        """Takes in a frame: its shares are mixed with those before, as the viewer averages maps."""
        if self._shares is None:
            self._shares = shares
            top = self._top = top_channels(shares)
        else:
            self._shares = self._average * self._shares + (1 - self._average) * shares
            top = top_channels(self._shares)
            self._overlaps.append(len(self._top & top) / len(self._top | top))
        self._stays.extend(time - self._begun.pop(channel) for channel in self._top - top)
        for channel in top:
            self._begun.setdefault(channel, time)
        self._different |= top
        self._top = top

    def end(self, time: float) -> None:
        """Ends the recording; another one may follow."""
        self._stays.extend(time - begin for begin in self._begun.values())
        self._shares, self._top, self._begun = None, frozenset(), {}

    def result(self, seconds: Sequence[str]) -> Steadiness:
        """What was found; `seconds` as there."""
        overlaps, stays = np.array(self._overlaps), np.array(self._stays)
        return Steadiness(
            self.layer, self._average, overlaps, seconds, stays, len(self._different)
        )  # fmt: skip


def shares_of_frames(
    engine: Engine, file: Path, layers: Sequence[str]
) -> Iterator[tuple[float, dict[str, np.ndarray]]]:
    """Explains every frame of a recording for the engine's own target.

    Args:
      engine: the network.
      file: the recording.
      layers: whose shares are wanted.

    Returns:
      For each frame its time in seconds, and layer -> float64 [channels], see `shares_of`.

    Raises:
      MissingInputError: there is no such file.
      DamagedInputError: it cannot be decoded.
      NotFiniteError: the network computes NaN or Inf.
    """
    frames = read_timed_frames(file)
    while batch := list(islice(frames, BATCH)):
        seen = [engine.region(picture.shape[:2]).extract(picture) for _, picture in batch]
        x = engine.network.prepare(np.stack(seen))
        peaks = engine.explainer.peaks(x, layers)[1]
        shares = {layer: shares_of(one.shares.astype(np.float64)) for layer, one in peaks.items()}
        for number, (time, _) in enumerate(batch):
            yield time, {layer: one[number] for layer, one in shares.items()}


def top_channels(shares: np.ndarray) -> frozenset[int]:
    """The channels with the largest shares by magnitude."""
    return frozenset(np.argsort(-np.abs(shares), kind="stable")[:TOP_CONCEPTS].tolist())
