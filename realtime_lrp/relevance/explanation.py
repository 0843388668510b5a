"""The result of an explainer: scores and maps of a batch of pictures, and how they are shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import tensorflow as tf

from realtime_lrp.errors import UnavailableError, UsageError
from realtime_lrp.notebook import figure
from realtime_lrp.relevance.maps.account import Account
from realtime_lrp.relevance.maps.compiled import Explained
from realtime_lrp.relevance.maps.methods import METHODS
from realtime_lrp.relevance.maps.starts import pixels_of
from realtime_lrp.relevance.maps.strength import smoothed
from realtime_lrp.relevance.maps.targets import Target, class_label, target_words, tidied
from realtime_lrp.relevance.network.checks import ColourTransform

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


SHOWN = 4  # how many pictures of a batch notebooks show
OF_EACH = "scores", "relevance", "x", "region", "inside"  # arrays with an entry for each picture


class Answer(NamedTuple):
    """One class of an answer.

    Attributes:
      label: its name, "class 3" where the names are not known.
      index: its number.
      score: its probability, or what else the network gives.
    """

    label: str
    index: int  # type: ignore[assignment] # hides the method of tuples
    score: float


class _Maps(dict[str, np.ndarray]):
    """Additional maps by name; the own one is found by its name, a map of LRP also by "lrp"."""

    def __init__(self, maps: Mapping[str, np.ndarray], name: str, own: np.ndarray) -> None:
        super().__init__(maps)
        self._name = name
        self._own = own

    def __missing__(self, name: str) -> np.ndarray:
        if name == self._name or (name == "lrp" and self._name not in METHODS):
            return self._own
        raise KeyError(f"{name!r}; there are {', '.join(map(repr, (self._name, *self)))}")


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Explanation:
    """Scores and maps of a batch, which notebooks show.

    `explanation[2]`, `explanation[2:5]` and `explanation[answers == 1]` are explanations of these
    pictures alone.

    Attributes:
      scores: float32 [B, classes], the output: probabilities where it is a softmax or sigmoid.
      relevance: float32 [B, H, W, C], raw: not normalised, not pooled.
      maps: the additional maps that were asked for, by name, each like `relevance`; the name of
        `relevance` gives that map, but is not listed.
      name: the name of `relevance`: its composite, or its method where that is not LRP.
      x: float32 [B, H, W, C], the input.
      targets: what is explained in each picture.
      labels: class names in order, or None if they are not known.
      accounts: where relevance went, by the name of the map; of other methods than LRP only
        integrated gradients have one.
      region: bool [B, H, W], of a segmentation: the pixels of x that are explained, else None.
      inside: float32 [B], of a segmentation: the share of positive relevance inside the region.
      stride: the explainer's stride; plots smooth its grid away.
      colours: (offset, matrix): RGB from 0 to 255 is (x - offset) @ matrix; None if the explainer
        does not know the colours.
    """

    scores: np.ndarray
    relevance: np.ndarray
    maps: dict[str, np.ndarray] = field(default_factory=dict)
    name: str
    x: np.ndarray
    targets: tuple[Target, ...]
    labels: Sequence[str] | None = None
    accounts: dict[str, Account] = field(default_factory=dict)
    region: np.ndarray | None = None
    inside: np.ndarray | None = None
    stride: tuple[int, int] = (1, 1)
    colours: ColourTransform | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "maps", _Maps(self.maps, self.name, self.relevance))

    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, part: int | slice | Sequence[int] | np.ndarray) -> "Explanation":
        rows = np.atleast_1d(np.arange(len(self))[part])
        arrays = {name: getattr(self, name) for name in OF_EACH}
        return replace(
            self,
            **{name: one[rows] for name, one in arrays.items() if one is not None},
            maps={name: values[rows] for name, values in self.maps.items()},
            targets=tuple(self.targets[row] for row in rows),
            accounts={
                name: Account(*(getattr(account, one.name)[rows] for one in fields(Account)))
                for name, account in self.accounts.items()
            },
        )

    @property
    def pictures(self) -> np.ndarray:
        """The pictures that the network saw, uint8 [B, H, W, 3] RGB.

        An explainer of a `Network` knows the colours. Otherwise the values of each picture are
        stretched from black to white.
        """
        x = np.asarray(self.x, np.float32)
        if self.colours is not None:
            offset, matrix = self.colours
            values = (x - offset) @ matrix
        else:
            x = x if x.shape[-1] in (1, 3) else x.mean(-1, keepdims=True)
            low = x.min((1, 2, 3), keepdims=True)
            spread = np.maximum(x.max((1, 2, 3), keepdims=True) - low, 1e-12)
            values = 255 * np.repeat((x - low) / spread, 3 // x.shape[-1], -1)
        return np.clip(np.rint(values), 0, 255).astype(np.uint8)

    def top(self, count: int = 5) -> list[list[Answer]]:
        """The highest scores of each picture, best first: `count` of them, at most.

        Raises:
          UsageError: count is not a whole number above 0.
        """
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise UsageError(f"Expected a whole number above 0. Received {count!r}.")
        best = np.argsort(-self.scores, axis=1, kind="stable")[:, :count].tolist()
        return [
            [Answer(class_label(n, self.labels), n, float(scores[n])) for n in order]
            for scores, order in zip(self.scores, best, strict=True)
        ]

    def to_dict(self, top: int = 5) -> dict[str, Any]:
        """Everything but the arrays as plain numbers and text, ready for JSON.

        pictures is a list with, for each picture: target; top: label, index and score of each
        answer, at most `top` of them; maps: name -> relevance_sum and relevance_magnitude (the sum
        of magnitudes), and where it has an account started, taken_by_biases and lost.
        """
        label = self.labels.__getitem__ if self.labels else str
        return {
            "pictures": [
                {
                    "target": self.targets[number].words(label),
                    "top": [answer._asdict() for answer in answers],
                    "maps": {name: self._sums(name, number) for name in self._all_maps()},
                }
                for number, answers in enumerate(self.top(top))
            ]
        }

    def to_frame(self) -> "pandas.DataFrame":
        """A pandas table with a row for each picture and map.

        Its columns are picture (its number), target, label, index and score of the best answer, map
        (its name), relevance_sum, relevance_magnitude, started, taken_by_biases, lost. What a map
        does not have is NaN.

        Raises:
          UnavailableError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise UnavailableError("Tables need pandas: pip install pandas") from None
        columns = ("relevance_sum", "relevance_magnitude", "started", "taken_by_biases", "lost")
        rows = [
            {
                "picture": number,
                "target": one["target"],
                **one["top"][0],
                "map": name,
                **{column: sums.get(column, float("nan")) for column in columns},
            }
            for number, one in enumerate(self.to_dict(1)["pictures"])
            for name, sums in one["maps"].items()
        ]
        return pandas.DataFrame(rows)

    def plot(self, pictures: np.ndarray | None = None, *, colormap: Any = None) -> "Figure":
        """Draws each picture with its answer, and beside it each map with its scale.

        Relevance is summed over the channels; the scale ends at the 99.5th percentile of its
        magnitude. No window opens: notebooks show the figure of Matplotlib that is returned,
        `figure.savefig("maps.png")` writes it.

        Args:
          pictures: uint8 [B, h, w, 3] RGB, shown instead of `pictures`.
          colormap: a name or a colour map of Matplotlib, or one of `COLORMAPS`; None means "hot",
            or "bwr" for maps with negative entries, in which 0 is white.

        Raises:
          UsageError: the pictures do not fit, there are too many, or no such colour map.
        """
        figure.check_count(len(self))
        shown = self.pictures if pictures is None else np.asarray(pictures)
        if shown.dtype != np.uint8 or shown.ndim != 4 or shown.shape[::3] != (len(self), 3):
            raise UsageError(
                f"Expected pictures uint8 [{len(self)}, h, w, 3]. Received {shown.dtype} "
                f"{list(shown.shape)}."
            )
        answers = []
        for number, (best,) in enumerate(self.top(1)):
            answer = f"{tidied(best.label)}: {best.score:.3g}\n"
            answer += f"explained: {target_words(self.targets[number], self.labels)}"
            gone = [name for name, account in self.accounts.items() if account.vanished[number]]
            if gone:
                answer += f"\n{', '.join(gone)} lost the relevance on its way"
            answers.append(answer)
        drawn = {}  # summed over the channels, without the grid of the first stride
        for name, values in self._all_maps().items():
            summed = tf.constant(values.sum(-1, keepdims=True, dtype=np.float32))
            drawn[name] = smoothed(summed, self.stride)[..., 0].numpy()
        return figure.draw_maps(shown, answers, drawn, colormap)

    def __repr__(self) -> str:
        best = ", ".join(f"{one.label} {one.score:.3g}" for (one,) in self[:3].top(1))
        more = ", ..." if len(self) > 3 else ""
        pictures = "1 picture" if len(self) == 1 else f"{len(self)} pictures"
        return f"<Explanation of {pictures} by {', '.join(self._all_maps())}: {best}{more}>"

    def _repr_png_(self) -> bytes | None:
        return figure.png_of(self[:SHOWN].plot()) if len(self) else None

    def _all_maps(self) -> Mapping[str, np.ndarray]:
        return {self.name: self.relevance, **self.maps}

    def _sums(self, name: str, number: int) -> dict[str, float]:
        relevance = self._all_maps()[name][number]
        sums = {
            "relevance_sum": float(relevance.sum(dtype=np.float64)),
            "relevance_magnitude": float(np.abs(relevance).sum(dtype=np.float64)),
        }
        if account := self.accounts.get(name):
            sums["started"] = float(account.started[number])
            sums["taken_by_biases"] = float(account.biases[number])
            sums["lost"] = float(account.lost[number])
        return sums


def explanation_of(
    x: np.ndarray, found: Explained, names: Sequence[str], accounted: Sequence[bool], **about: Any
) -> Explanation:
    """Makes an explanation of the function's output for x, or one picture for several targets."""
    by_name = {}
    rows = zip(names, found.maps, found.accounts, accounted, strict=True)
    for name, map_, account, known in rows:
        if known:
            started, magnitude, biases = account.T
            reached, total = (one.sum((1, 2, 3)) for one in (map_, np.abs(map_)))
            by_name[name] = Account(started, reached, biases, magnitude, total)
    pictures = len(found.scores)
    if found.regions:
        about["region"] = pixels_of(found.regions.region > 0, x.shape[1:3])
        about["inside"] = found.regions.inside
    return Explanation(
        scores=found.scores,
        relevance=found.maps[0],
        maps=dict(zip(names[1:], found.maps[1:], strict=True)),
        name=names[0],
        x=x if len(x) == pictures else np.repeat(x, pictures, axis=0),
        accounts=by_name,
        **about,
    )
