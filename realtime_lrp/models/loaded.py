"""What loading a network gives; the table of names and the loaders know it, not each other."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import keras

    from realtime_lrp.models.preprocessing import Scaling


class Loaded(NamedTuple):
    """A model with what is known about its pictures and classes; what is not given is not known.

    `preprocess` is a key of `PREPROCESSING`, or "preset" for `scaling`; `warning` says why answers
    may be wrong; a model that `prepares_itself` takes pictures from 0 to 255.
    """

    model: "keras.Model"
    preprocess: str = "none"
    labels: list[str] | None = None
    warning: str = ""
    prepares_itself: bool = False
    scaling: "Scaling | None" = None
