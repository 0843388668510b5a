"""How pictures are prepared for a network, as users write it: "0..1 mean=0.1307 std=0.3081"."""

import math
import re
from dataclasses import dataclass, replace

from realtime_lrp.errors import UsageError, nearest


@dataclass(frozen=True)
class Preprocessing:
    """The way from colours, 0 to 255, to the values that a network reads.

    0 becomes `low` and 255 `high`; then `mean` is subtracted, and the rest divided by `std`, each a
    number for all channels or one for each, in the network's order: blue first where `bgr`.
    `invert` turns colours over before: ink on paper becomes light on dark.
    """

    low: float = 0.0
    high: float = 255.0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    bgr: bool = False
    invert: bool = False

    @property
    def for_colours(self) -> bool:
        """Whether it makes no sense for grey pictures."""
        return self.bgr or len({*self.mean}) > 1 or len({*self.std}) > 1


NAMED = {
    "caffe": Preprocessing(mean=(103.939, 116.779, 123.68), bgr=True),
    "tf": Preprocessing(-1, 1),
    "torch": Preprocessing(0, 1, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "rescale": Preprocessing(0, 1),
    "none": Preprocessing(),
}
"""The ways of keras.applications."""

ABOUT = {
    "caffe": "BGR minus ImageNet's mean",
    "tf": "-1 to 1",
    "torch": "0 to 1, minus ImageNet's mean, divided by its deviation",
    "rescale": "0 to 1",
    "none": "0 to 255",
}
"""Each of them in words."""

EXAMPLE = "0..1 mean=0.1307 std=0.3081"
EXPECTED = (
    f"{', '.join(NAMED)}, or a range and further steps: '{EXAMPLE}', '0..255 bgr', '-1..1 invert'"
)

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})")
_LIST = re.compile(rf"(mean|std)=({_NUMBER}(?:,{_NUMBER})*)")


def parse(text: str) -> Preprocessing:
    """Reads a way to prepare pictures; a UsageError says what is wrong with it."""
    first, *words = text.split() or [""]
    if bounds := _RANGE.fullmatch(first):
        made = Preprocessing(float(bounds[1]), float(bounds[2]))
    elif first in NAMED:
        made = NAMED[first]
    else:
        close = nearest(first, NAMED)
        meant = f" Did you mean {close!r}?" if close else f" Expected {EXPECTED}."
        raise UsageError(f"There is no preprocess {text[:80]!r}.{meant}", "preprocess")
    changes: dict[str, object] = {}
    for word in words:
        if found := _LIST.fullmatch(word):
            changes[found[1]] = tuple(map(float, found[2].split(",")))
        elif word in ("bgr", "rgb", "invert"):
            changes["bgr" if word != "invert" else word] = word != "rgb"
        else:
            raise UsageError(
                f"The preprocess {text[:80]!r} has {word[:40]!r}. Expected mean=, std=, each a "
                "number or one for each channel, bgr or invert.",
                "preprocess",
            )
    made = replace(made, **changes)  # type: ignore[arg-type]
    numbers = (made.low, made.high, *made.mean, *made.std)
    faults = {
        "numbers up to 1e6": not all(math.isfinite(n) and abs(n) <= 1e6 for n in numbers),
        "a range from a lower to a higher number": made.low >= made.high,
        "a std above 1e-6": min(made.std) < 1e-6,
        "1 or 3 numbers for mean and std": not {len(made.mean), len(made.std)} <= {1, 3},
        "the order of its colours written out, such as '0..1 bgr mean=0.4,0.4,0.5'": (
            first in ("caffe", "torch") and made.bgr != NAMED[first].bgr
        ),
    }
    for expected, wrong in faults.items():
        if wrong:
            raise UsageError(f"The preprocess {text[:80]!r}: expected {expected}.", "preprocess")
    return made
