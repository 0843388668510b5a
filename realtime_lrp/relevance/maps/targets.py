"""The target of a map: all classes, the best, one class, or one class against others.

Relevance starts at the output with `t * score`; gradient methods differentiate the sum of
`t * logit`. Changing a target does not retrace. Must not import TensorFlow with the module.
"""

import functools
import operator
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeGuard, cast

import numpy as np

from realtime_lrp.errors import UsageError, nearest

SYNSET = re.compile(r"n\d{8}[ _:-]+(?=\S)")
"""ImageNet's number of a class before its name, as in many files of class names."""

ONE_ANSWER = np.zeros([1, 0, 0], np.float32)  # the region of a network that gives one vector

NO = np.zeros([1, 1], bool)

VERSUS = " - "  # between a class and what it is set against

TARGETS = {"all": "all classes", "top1": "the best", "top5": "the five best"}
"""Targets that name no class, in words."""


@dataclass(frozen=True)
class Target:
    """The target of a map; as text it is "all", "top5", "3", "3 - 5" or "3 - rest"."""

    classes: tuple[int, ...] = ()  # the named class, and the class that it is set against
    rest: bool = False  # whether the class is set against all others
    top: int = 0  # how many of the most probable classes count; 0: all, or the named ones

    @property
    def contrasts(self) -> bool:
        """Whether a class is set against others."""
        return self.rest or len(self.classes) > 1

    @property
    def locked(self) -> bool:
        """Whether it is one class alone."""
        return len(self.classes) == 1 and not self.rest

    def words(self, label: Callable[[int], str] = str) -> str:
        """The target with each class as `label` names it: "star - rest"."""
        sides = [*map(label, self.classes), *(["rest"] if self.rest else [])]
        return VERSUS.join(sides) or (f"top{self.top}" if self.top else "all")

    def __str__(self) -> str:
        return self.words()


OneTarget = str | int | Target  # as `TargetResolver.read` reads it

Targets = OneTarget | Sequence[OneTarget] | np.ndarray  # one, or one for each picture


class TargetTensors(NamedTuple):
    """A resolved target, as arrays or tensors: of all pictures (T is 1) or of each (T is B)."""

    weights: Any  # float32 [T, classes], the factor of each class
    top: Any  # int32 [T, 1], how many classes count, those with each picture's highest scores
    # bool [T, 1], whether the classes with weight 0 count against the one with weight 1
    rest: Any = NO
    by_probability: Any = NO  # bool [T, 1], whether gradient methods multiply classes by scores
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

    def tensors(self) -> "TargetTensors":
        import tensorflow as tf  # not with the module: exported explanations need none

        return TargetTensors(*map(tf.constant, self))


class TargetResolver:
    """Reads targets as users write them; labels are the names of classes in order, or None.

    `places` are the rows and columns of a segmentation's answer; `contrast` is whether its classes
    are set against others, see `TargetTensors`.
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

    def __call__(self, target: OneTarget) -> TargetTensors:
        """Resolves a target as `read` reads it, for all pictures."""
        target = self.read(target)
        top = target.top or self._classes
        weights = np.ones([1, self._classes], np.float32)
        if target.classes:
            weights[:] = 0
            weights[0, list(target.classes)] = (1, -1)[: len(target.classes)]
        by_probability = top > 1 and not target.classes
        return TargetTensors(
            weights, np.array([[top]], np.int32), np.array([[target.rest]]),
            np.array([[by_probability]]), self._anywhere, contrast=self._set_against,
        )  # fmt: skip

    def for_batch(self, targets: Targets, pictures: int) -> TargetTensors:
        """Resolves the target of all pictures, or a sequence as `read_each` reads it."""
        if not is_sequence(targets):
            return self(cast(OneTarget, targets))
        each = map(self, self.read_each(targets, pictures))
        joined = TargetTensors(*map(np.concatenate, zip(*each, strict=True)))
        return joined._replace(region=self._anywhere)

    def read_each(self, targets: Targets, pictures: int) -> tuple[Target, ...]:
        """The target of each picture; a sequence may name several targets of a single picture."""
        if not is_sequence(targets):
            return (self.read(cast(OneTarget, targets)),) * pictures
        if not len(targets) or pictures not in (1, len(targets)):
            raise UsageError(
                f"Expected one target, or a sequence of {pictures}, one for each picture. Received "
                f"a sequence of {len(targets)}.",
                "class",
            )
        each = []
        for number, target in enumerate(targets):
            try:
                each.append(self.read(target))
            except UsageError as error:
                words = f"Target {number} of the sequence: {error}"
                raise UsageError(words, error.about) from None
        return tuple(each)

    def read(self, target: OneTarget) -> Target:
        """Reads "all", "top1", "top5", a class's index or name, "A - B" or "A - rest"."""
        if isinstance(target, Target):
            return target
        if not isinstance(target, str):
            return Target((self.index(target),))
        target = target.strip()
        if target == "all":
            return Target()
        if tidied(target).lower() not in self._by_name:
            if count := re.fullmatch(r"top(\d+)", target):
                if not 1 <= int(count[1]) <= self._classes:
                    raise UsageError(
                        f"There is no {target}. The model has {self._classes} classes: top1 to "
                        f"top{self._classes}.",
                        "class",
                    )
                return Target(top=int(count[1]))
            if VERSUS in target:
                return self._contrast(target)
            if meant := self._meant_contrast(target):
                raise UsageError(f"There is no class {target!r}. Did you mean {meant!r}?", "class")
        return Target((self.index(target),))

    def _contrast(self, target: str) -> Target:
        """Reads "A - B". Names may contain " - ": the first split into two classes counts."""
        errors = []
        for between in re.finditer(VERSUS, target):
            minus = target[between.end() :]
            try:
                class_ = self.index(target[: between.start()])
                rest = tidied(minus).lower() == "rest"
                others = () if rest else (self.index(minus),)
                if class_ in others or self._classes == 1:
                    raise UsageError(
                        f"{target!r} compares a class with itself or nothing.", "class"
                    )
                return Target((class_, *others), rest)
            except UsageError as error:
                errors.append(error)
        raise errors[0]

    def _meant_contrast(self, target: str) -> str | None:
        """Returns "A - B" for "A-B" if both are classes, else None."""
        for hyphen in re.finditer("-", target):
            sides = target[: hyphen.start()], target[hyphen.end() :]
            meant = VERSUS.join(side.strip() for side in sides)
            with suppress(UsageError):
                self._contrast(meant)
                return meant
        return None

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
            ways = f"all, top1 to top{self._classes}, A - B, an index"
            hint = f"Expected {ways}, or a name such as {self.labels[0]!r}."
            hint = f"Did you mean {close!r}?" if close else hint
            raise UsageError(f"There is no class {name!r}. {hint}", "class")
        return found[0]


def class_label(index: int, labels: Sequence[str] | None) -> str:
    """The name of a class; "class 3" where the names are not known."""
    return labels[index] if labels else f"class {index}"


@functools.lru_cache(maxsize=4096)
def tidied(name: str) -> str:
    """A class as people read it: "tiger_cat" and "n02123159 tiger cat" are "tiger cat"."""
    return " ".join(SYNSET.sub("", name, count=1).replace("_", " ").split()) or name


def target_words(target: Target, labels: Sequence[str] | None) -> str:
    """A target as people read it: "all classes", "the best", "star - rest"."""
    known = TARGETS.get(str(target))
    return known or target.words(lambda index: tidied(class_label(index, labels)))


def is_sequence(target: object) -> TypeGuard[Sequence[OneTarget]]:
    """Whether several targets are given rather than one."""
    if isinstance(target, str | bytes):
        return False
    return isinstance(target, Sequence) or getattr(target, "ndim", 0) > 0
