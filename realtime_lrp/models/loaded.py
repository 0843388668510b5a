"""The result of loading a network; both the table of names and the loaders use this type."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import keras

    from realtime_lrp.models.preprocessing import Scaling


class Loaded(NamedTuple):
    """A model with what is known about its pictures and classes.

    Attributes:
      model: the Keras model.
      preprocess: what its pictures go through: "caffe", "tf", "torch", "rescale", "none", or
        "preset" for `scaling`.
      labels: class names in order, or None if they are not known.
      warning: why the answers may be wrong, or "".
      prepares_itself: whether the model takes pictures from 0 to 255.
      scaling: how the preset of the model prepares pictures, or None.
    """

    model: "keras.Model"
    preprocess: str = "none"
    labels: list[str] | None = None
    warning: str = ""
    prepares_itself: bool = False
    scaling: "Scaling | None" = None
