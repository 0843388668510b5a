"""The target of a map: all classes, the best, one class, or one class against others.

Relevance starts at the output with `t * score`; gradient methods differentiate the sum of
`t * logit`. A target is data of the compiled function: changing it does not retrace.
A batch has one target for all of its pictures, or one for each. Must not import TensorFlow with
the module.
"""

import functools
import operator
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeGuard, cast

import numpy as np

from realtime_lrp.errors import UsageError, nearest

Targets = str | int | Sequence[str | int] | np.ndarray
"""A caller's target, or a sequence with a target for each picture."""


SYNSET = re.compile(r"n\d{8}[ _:-]+(?=\S)")
"""ImageNet's number of a class before its name, as in many files of class names."""

ONE_ANSWER = np.zeros([1, 0, 0], np.float32)
"""The region of a network that gives one vector of classes."""

NO = np.zeros([1, 1], bool)


class Target(NamedTuple):
    """A resolved target: of all pictures (T is 1), or one for each picture (T is B).

    Arrays, or the tensors that compiled functions read.
    """

    weights: Any  # float32 [T, classes], the factor of each class
    top: Any  # int32 [T, 1], how many classes count, those with each picture's highest scores
    rest: Any  # bool [T, 1], whether the classes with weight 0 count against the one with weight 1
    by_probability: Any  # bool [T, 1], whether gradient methods multiply each class by its score
    # float32 [T, h, w], of a segmentation: the weight of each place; none above 0: the largest
    # region. Below 0 are places beside the picture, which are in no region
    region: Any = ONE_ANSWER
    # bool [T, 1], whether the region around the weighted place counts rather than the place alone
    around: Any = NO
    # bool [T, 1], of a segmentation: whether the class's map is set against another class's map,
    # each divided by its sum of magnitudes
    contrast: Any = NO

    @property
    def contrasts(self) -> bool:
        """Whether classes count against others."""
        return bool(self.rest.any() or (self.weights < 0).any() or self.contrast.any())

    @property
    def several(self) -> bool:
        """Whether many classes count at once, each by its probability."""
        return bool(self.by_probability.any() or self.rest.any())

    @classmethod
    def of(
        cls, weights: np.ndarray, top: int, rest: bool = False, by_probability: bool = False
    ) -> "Target":
        """Makes a target of plain values, for all pictures; weights are [classes]."""
        return cls(
            np.asarray(weights, np.float32)[None],
            np.array([[top]], np.int32),
            np.array([[rest]]),
            np.array([[by_probability]]),
        )

    @classmethod
    def joined(cls, targets: Sequence["Target"]) -> "Target":
        """Makes one target of several: of each in turn for one picture."""
        joined = cls(*map(np.concatenate, zip(*targets, strict=True)))
        return joined._replace(region=targets[0].region)

    def tensors(self) -> "Target":
        """The same target as tensors."""
        import tensorflow as tf  # not with the module: exported explanations need none

        return Target(*map(tf.constant, self))


class TargetResolver:
    """Reads targets as users write them; labels are the names of classes in order, or None.

    `places` are the rows and columns of a segmentation's answer; `contrast` is whether its classes
    are set against others, see `Target`.
    """

    def __init__(
        self,
        classes: int,
        labels: Sequence[str] | None = None,
        places: tuple[int, int] | None = None,
        contrast: bool = False,
    ) -> None:
        self._classes = classes
        self._set_against = np.array([[contrast and places is not None and classes > 1]])
        self._anywhere = np.zeros([1, *(places or (0, 0))], np.float32)
        self.labels = None if labels is None else list(map(str, labels))
        self._by_name = defaultdict(list)
        for index, name in enumerate(self.labels or ()):
            self._by_name[tidied(name).lower()].append(index)

    def __call__(self, target: str | int) -> Target:
        """Resolves "all", "top1", "top5", a class's index or name, "A - B" or "A - rest"."""
        return self._of_classes(target)._replace(region=self._anywhere, contrast=self._set_against)

    def _of_classes(self, target: str | int) -> Target:
        target = self.canonical(target)
        if isinstance(target, int):
            return Target.of(self._one(target), self._classes)
        ones = np.ones(self._classes)
        if target == "all":
            return Target.of(ones, self._classes, by_probability=self._classes > 1)
        if target.startswith("top"):
            top = int(target[3:])
            return Target.of(ones, top, by_probability=top > 1)
        plus, minus = target.split(" - ")
        if minus == "rest":
            return Target.of(self._one(int(plus)), self._classes, rest=True)
        return Target.of(self._one(int(plus)) - self._one(int(minus)), self._classes)

    def for_batch(self, targets: Targets, pictures: int) -> Target:
        """Resolves the target of all pictures, or a sequence with one for each picture.

        Of a single picture a sequence may name several targets.
        """
        if not is_sequence(targets):
            return self(cast(str | int, targets))
        each = list(targets)
        if not each or pictures not in (1, len(each)):
            raise UsageError(
                f"Expected one target, or a sequence of {pictures}, one for each picture. Received "
                f"a sequence of {len(each)}.",
                "class",
            )
        return Target.joined([self._numbered(*pair) for pair in enumerate(each)])

    def _numbered(self, number: int, target: str | int) -> Target:
        try:
            return self(target)
        except UsageError as error:
            raise UsageError(f"Target {number} of the sequence: {error}", error.about) from None

    def canonical_each(self, targets: Targets, pictures: int) -> tuple[str | int, ...]:
        """The target of each picture, as `canonical` writes it."""
        if not is_sequence(targets):
            return (self.canonical(cast(str | int, targets)),) * pictures
        return tuple(map(self.canonical, targets))

    def canonical(self, target: str | int) -> str | int:
        """A target with its classes by index: "all", "top5", 3, "3 - 5" or "3 - rest"."""
        if not isinstance(target, str):
            return self.index(target)
        target = target.strip()
        if target == "all":
            return target
        if tidied(target).lower() not in self._by_name:
            if count := re.fullmatch(r"top(\d+)", target):
                return f"top{self._count(int(count[1]))}"
            if " - " in target:
                return self._contrast(target)
            if meant := self._meant_contrast(target):
                raise UsageError(f"There is no class {target!r}. Did you mean {meant!r}?", "class")
        return self.index(target)

    def _contrast(self, target: str) -> str:
        """Reads "A - B". Names may contain " - ": the first split into two classes counts."""
        words = target.split(" - ")
        errors = []
        for split in range(1, len(words)):
            plus, minus = " - ".join(words[:split]), " - ".join(words[split:])
            try:
                one = self.index(plus)
                other = "rest" if tidied(minus).lower() == "rest" else self.index(minus)
                if one == other or (other == "rest" and self._classes == 1):
                    raise UsageError(f"{target!r} sets a class against itself or nothing.", "class")
                return f"{one} - {other}"
            except UsageError as error:
                errors.append(error)
        raise errors[0]

    def _meant_contrast(self, target: str) -> str | None:
        """Returns "A - B" for "A-B" if both are classes, else None."""
        words = target.split("-")
        for split in range(1, len(words)):
            sides = "-".join(words[:split]), "-".join(words[split:])
            meant = " - ".join(side.strip() for side in sides)
            try:
                self._contrast(meant)
            except UsageError:
                continue
            return meant
        return None

    def _count(self, top: int) -> int:
        if not 1 <= top <= self._classes:
            raise UsageError(
                f"There is no top{top}. The model has {self._classes} classes: top1 to "
                f"top{self._classes}.",
                "class",
            )
        return top

    def index(self, target: str | int) -> int:
        """The index of one class, given by index or name; refuses a name that occurs twice."""
        if isinstance(target, str) and not re.fullmatch(r"\s*-?[0-9]+\s*", target):
            return self._index_of_name(target)
        try:
            if isinstance(target, bool | np.bool_):
                raise TypeError
            index = int(target) if isinstance(target, str) else operator.index(target)
        except TypeError:
            raise UsageError(f"Expected a class by name or index. Received {target!r}.") from None
        if not 0 <= index < self._classes:
            raise UsageError(
                f"There is no class {index}. The model has the classes 0 to {self._classes - 1}.",
                "class",
            )
        return index

    def _one(self, index: int) -> np.ndarray:
        weights = np.zeros(self._classes, np.float32)
        weights[index] = 1.0
        return weights

    def _index_of_name(self, name: str) -> int:
        if not self.labels:
            raise UsageError(
                f"There is no class {name!r}: the class names are not known. Expected all, top1 or "
                f"an index from 0 to {self._classes - 1}; names need labels (--labels, labels=).",
                "class",
            )
        found = self._by_name.get(tidied(name).lower(), [])
        exact = [index for index in found if self.labels[index] == name]
        found = exact if len(exact) == 1 else found
        if len(found) > 1:
            listed = " or ".join(map(str, found))
            raise UsageError(f"The class {name!r} occurs twice. Use its index: {listed}.", "class")
        if not found:
            close = nearest(name, self.labels)
            hint = (
                f"Did you mean {close!r}?"
                if close
                else f"Expected all, top1 to top{self._classes}, A - B, an index, or a name such "
                f"as {self.labels[0]!r}."
            )
            raise UsageError(f"There is no class {name!r}. {hint}", "class")
        return found[0]


def class_label(index: int, labels: Sequence[str] | None) -> str:
    """The name of a class; "class 3" where the names are not known."""
    return labels[index] if labels else f"class {index}"


@functools.lru_cache(maxsize=4096)
def tidied(name: str) -> str:
    """A name of a class as people read it: "tiger_cat" and "n02123159 tiger cat" are "tiger cat".

    Data, such as sidecars, keep names unchanged.
    """
    return " ".join(SYNSET.sub("", name, count=1).replace("_", " ").split()) or name


def target_text(target: str | int, labels: Sequence[str] | None) -> str:
    """A target with names in place of indices, where they are known; it can be asked for again."""
    sides = str(target).split(" - ")
    return " - ".join(labels[int(one)] if labels and one.isdecimal() else one for one in sides)


def target_words(target: str | int, labels: Sequence[str] | None) -> str:
    """A target as people read it: "all classes", "the most probable class", "star - rest"."""
    words = {"all": "all classes", "top1": "the most probable class"}
    if str(target) not in words and str(target).startswith("top"):
        return f"the {str(target)[3:]} most probable classes"
    sides = str(target).split(" - ")
    return " - ".join(
        tidied(class_label(int(one), labels)) if one.isdecimal() else words.get(one, one)
        for one in sides
    )


def is_sequence(target: object) -> TypeGuard[Sequence[str | int]]:
    """Whether several targets are given rather than one."""
    if isinstance(target, str | bytes):
        return False
    return isinstance(target, Sequence) or getattr(target, "ndim", 0) > 0
