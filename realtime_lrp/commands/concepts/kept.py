"""What `--resume` goes on with: the state of an unfinished gallery, in a hidden file beside it."""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from realtime_lrp.commands.concepts.pictures import Place
from realtime_lrp.commands.concepts.ranking import Best, Ranking
from realtime_lrp.errors import Error, UsageError
from realtime_lrp.system.atomic import atomic_file, refuse_link

DIFFERENCES = {
    "network": "another network",
    "pictures": "other pictures",
    "settings": "other settings",
    "version": "another version of this program",
}
"""What a gallery depends on -> how a difference is told."""

log = logging.getLogger(__name__)

Facts = Mapping[str, str]
"""Everything that a gallery depends on, by the keys of `DIFFERENCES`."""


class Neuron(NamedTuple):
    """A channel of a layer at a position, in a picture: what a crop shows.

    The position -1 is the whole channel, see `Peaks`.
    """

    layer: int
    channel: int
    position: int
    place: Place


@dataclass(eq=False)
class State:
    """How far the work is.

    Attributes:
      facts: what the gallery depends on.
      rankings: layer -> what is known of its channels.
      next: the first place that has not been looked at.
      looked: how many pictures have been looked at.
      not_finite: how many were left out because the network computes NaN for them.
      all_looked: whether these are all.
      crops: what has been cut so far, encoded.
    """

    facts: Facts
    rankings: dict[str, Ranking]
    next: Place = (0, 0)
    looked: int = 0
    not_finite: int = 0
    all_looked: bool = False
    crops: dict[Neuron, bytes] = field(default_factory=dict)

    def save(self, file: Path) -> None:
        """Writes the state.

        Raises:
          OutputError: the file cannot be made, or is a link.
          TransferError: the disk is full.
        """
        refuse_link(file)
        known = {"facts": dict(self.facts), "next": self.next, "looked": self.looked}
        known |= {"not_finite": self.not_finite, "all_looked": self.all_looked}
        text = json.dumps(known | {"layers": [*self.rankings]})
        arrays: dict[str, Any] = {"state": np.frombuffer(text.encode(), np.uint8)}
        for number, ranking in enumerate(self.rankings.values()):
            arrays |= {f"{number}.{name}": array for name, array in _arrays(ranking).items()}
        neurons = [(n.layer, n.channel, n.position, *n.place) for n in self.crops]
        arrays["neurons"] = np.array(neurons, np.int64).reshape(-1, 5)
        arrays["sizes"] = np.array([*map(len, self.crops.values())], np.int64)
        arrays["crops"] = np.frombuffer(b"".join(self.crops.values()), np.uint8)
        with atomic_file(file, overwrite=True) as part, part.open("wb") as stream:
            np.savez(stream, **arrays)

    def load(self, file: Path) -> None:
        """Takes over what `save` wrote, of the same layers. A damaged file changes nothing.

        Raises:
          UsageError: it belongs to a gallery of something else; it says in what that differs.
        """
        try:
            with np.load(file, allow_pickle=False) as arrays:
                known = json.loads(arrays["state"].tobytes())
                facts = {key: str(known["facts"][key]) for key in DIFFERENCES}
                if facts != self.facts:
                    raise _other(facts, self.facts)
                found = self._read(known, arrays)
        except Error:
            raise
        except Exception as error:  # zipfile, zlib, numpy and json have many ways to say it
            log.warning(
                "%s is damaged (%s): the gallery is made from the beginning",
                file, str(error) or type(error).__name__,
            )  # fmt: skip
            return
        for one in fields(self):
            setattr(self, one.name, getattr(found, one.name))

    def _read(self, known: Mapping[str, Any], arrays: Any) -> "State":
        """The state in a file. Raises an exception of any kind if it is damaged."""
        rankings = {}
        for number, (layer, empty) in enumerate(self.rankings.items()):
            expected = _arrays(empty)
            found = {name: arrays[f"{number}.{name}"] for name in expected}
            for name, array in expected.items():
                if (found[name].shape, found[name].dtype) != (array.shape, array.dtype):
                    raise ValueError(f"{layer}: another size of {name}")
            rankings[layer] = _ranking(found)
        ends = np.cumsum(arrays["sizes"])
        data, begins = arrays["crops"].tobytes(), [0, *ends.tolist()]
        file, frame = map(int, known["next"])
        return State(
            facts=self.facts,
            rankings=rankings,
            next=(file, frame),
            looked=int(known["looked"]),
            not_finite=int(known["not_finite"]),
            all_looked=bool(known["all_looked"]),
            crops={
                Neuron(layer, channel, position, (file, frame)): data[begin:end]
                for (layer, channel, position, file, frame), begin, end in zip(
                    arrays["neurons"].tolist(), begins, begins[1:], strict=False
                )
            },
        )


def state_path(gallery: Path) -> Path:
    """Where the state of an unfinished gallery lies."""
    return gallery.with_name(f".{gallery.name}.resume")


def _other(facts: Facts, wanted: Facts) -> UsageError:
    different = [told for key, told in DIFFERENCES.items() if facts[key] != wanted[key]]
    return UsageError(
        f"The unfinished gallery has {' and '.join(different)}, so it cannot go on. Give what it "
        "was started with, or leave --resume out."
    )


def _arrays(ranking: Ranking) -> dict[str, np.ndarray]:
    """All arrays of a ranking, by name."""
    arrays = {"often": ranking.often, "by_class": ranking.by_class}
    for kind in ("relevant", "activating"):
        arrays |= {f"{kind}.{name}": array for name, array in vars(getattr(ranking, kind)).items()}
    return arrays


def _ranking(arrays: Mapping[str, np.ndarray]) -> Ranking:
    """The ranking that has these arrays."""

    def best(kind: str) -> Best:
        names = (one.name for one in fields(Best))
        return Best(*(arrays[f"{kind}.{name}"] for name in names))

    return Ranking(best("relevant"), best("activating"), arrays["often"], arrays["by_class"])
