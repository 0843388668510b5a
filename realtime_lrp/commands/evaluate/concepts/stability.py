"""How steady the top channels are in moving pictures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path

import numpy as np

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


@dataclass(frozen=True)
class Clip:
    """The shares of one recording.

    Attributes:
      name: of the file.
      times: float64 [frames], seconds.
      shares: layer -> float64 [frames, channels], as parts of the magnitude of all channels.
    """

    name: str
    times: np.ndarray
    shares: dict[str, np.ndarray]


def read_clip(engine: Engine, file: Path, layers: Sequence[str]) -> Clip:
    """Explains every frame of a recording for the engine's own target.

    Args:
      engine: the network.
      file: the recording.
      layers: whose shares are wanted.

    Raises:
      MissingInputError: there is no such file.
      DamagedInputError: fewer than two frames can be decoded.
    """
    times: list[float] = []
    found: dict[str, list[np.ndarray]] = {layer: [] for layer in layers}
    frames = read_timed_frames(file)
    while batch := list(islice(frames, BATCH)):
        times += [time for time, _ in batch]
        seen = [engine.region(picture.shape[:2]).extract(picture) for _, picture in batch]
        x = engine.network.prepare(np.stack(seen))
        for layer, peaks in engine.explainer.peaks(x, layers)[1].items():
            shares = peaks.shares.astype(np.float64)
            total = np.abs(shares).sum(1, keepdims=True)
            found[layer].append(shares / np.where(total > 0, total, 1))
    if len(times) < 2:
        raise DamagedInputError(f"{str(file)!r} has {len(times)} frames. Expected two or more.")
    shares_of = {layer: np.concatenate(parts) for layer, parts in found.items()}
    return Clip(file.name, np.array(times), shares_of)


def steadiness(clips: Sequence[Clip], layer: str, average: float) -> Steadiness:
    """How steady the top channels of a layer are in some recordings.

    Args:
      clips: at least one.
      layer: its name.
      average: how much of the previous shares stays with each new frame.
    """
    overlaps: list[float] = []
    seconds: list[str] = []
    stays: list[float] = []
    different: set[int] = set()
    for clip in clips:
        tops = [top_channels(row) for row in smoothed(clip.shares[layer], average)]
        overlaps += [len(one & other) / len(one | other) for one, other in pairwise(tops)]
        seconds += [f"{clip.name}: {int(time)}" for time in clip.times[1:]]
        stays += stays_of(tops, clip.times)
        different = different.union(*tops)
    return Steadiness(layer, average, np.array(overlaps), seconds, np.array(stays), len(different))


def smoothed(shares: np.ndarray, average: float) -> Iterator[np.ndarray]:
    """The shares of each frame mixed with those before, as the viewer averages maps."""
    previous = shares[0]
    for row in shares:
        previous = average * previous + (1 - average) * row
        yield previous


def top_channels(shares: np.ndarray) -> frozenset[int]:
    """The channels with the largest shares by magnitude."""
    return frozenset(np.argsort(-np.abs(shares), kind="stable")[:TOP_CONCEPTS].tolist())


def stays_of(tops: Sequence[frozenset[int]], times: np.ndarray) -> list[float]:
    """For how many seconds channels are in the top without a break; a frame lasts to the next.

    Args:
      tops: the top channels of each frame.
      times: float64 [frames], seconds.
    """
    last = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
    ends = [*times[1:].tolist(), float(times[-1]) + last]
    begun: dict[int, float] = {}
    stays: list[float] = []
    for number, top in enumerate(tops):
        stays += [times[number] - begun.pop(channel) for channel in [*begun] if channel not in top]
        for channel in top:
            begun.setdefault(channel, float(times[number]))
    return [float(stay) for stay in stays] + [ends[-1] - begin for begin in begun.values()]
