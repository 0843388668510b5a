"""See, live, what a neural network looks at.

This module stays light: it imports neither TensorFlow nor OpenCV until a name is used, except in
notebooks. The errors that its functions raise are in `realtime_lrp.errors`.
"""

import os
import sys
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

# OpenCV reads these when any module loads it. A read from a dead camera returns after 2 s, not 10;
# Windows does not search 10 s for a missing hardware transform; larger pictures are refused before
# memory is allocated for them.
os.environ.setdefault("OPENCV_VIDEOIO_V4L_SELECT_TIMEOUT", "2")
os.environ.setdefault("OPENCV_VIDEOIO_MSMF_ENABLE_HW_TRANSFORMS", "0")
os.environ.setdefault("OPENCV_IO_MAX_IMAGE_PIXELS", str(8192**2))

if "keras" not in sys.modules:  # models are explained on TensorFlow, whatever else is configured
    os.environ["KERAS_BACKEND"] = "tensorflow"

if TYPE_CHECKING:  # the names of `_WHERE` again, as type checkers run nothing
    from realtime_lrp.engine.pictures import fit as fit
    from realtime_lrp.engine.pictures import overlay as overlay
    from realtime_lrp.errors import Error as Error
    from realtime_lrp.models.network import Network as Network
    from realtime_lrp.models.networks import load_network as load_network
    from realtime_lrp.relevance.concepts.concepts import Concepts as Concepts
    from realtime_lrp.relevance.explainer import Explainer as Explainer
    from realtime_lrp.relevance.explanation import Answer as Answer
    from realtime_lrp.relevance.explanation import Explanation as Explanation
    from realtime_lrp.relevance.maps.account import Account as Account
    from realtime_lrp.relevance.maps.layer_views import LayerRecord as LayerRecord
    from realtime_lrp.relevance.maps.methods import METHODS as METHODS
    from realtime_lrp.relevance.rules.composites import COMPOSITES as COMPOSITES
    from realtime_lrp.relevance.rules.composites import Composite as Composite
    from realtime_lrp.relevance.rules.rules import RULES as RULES
    from realtime_lrp.relevance.rules.rules import AlphaBeta as AlphaBeta
    from realtime_lrp.relevance.rules.rules import Epsilon as Epsilon
    from realtime_lrp.relevance.rules.rules import Flat as Flat
    from realtime_lrp.relevance.rules.rules import Gamma as Gamma
    from realtime_lrp.relevance.rules.rules import Rule as Rule
    from realtime_lrp.relevance.rules.rules import WSquare as WSquare
    from realtime_lrp.relevance.rules.rules import ZBox as ZBox
    from realtime_lrp.relevance.rules.rules import ZPlus as ZPlus
    from realtime_lrp.relevance.rules.rules import ZPlusInput as ZPlusInput
    from realtime_lrp.relevance.rules.rules import rule_named as rule_named
    from realtime_lrp.system.program import __version__ as __version__
    from realtime_lrp.video.region import Region as Region
    from realtime_lrp.video.source import Source as Source
    from realtime_lrp.video.sources import open_source as open_source
    from realtime_lrp.view.look import COLORMAPS as COLORMAPS
    from realtime_lrp.view.look import Colormap as Colormap

_WHERE = {
    "realtime_lrp.errors": ("Error",),
    "realtime_lrp.models.network": ("Network",),
    "realtime_lrp.models.networks": ("load_network",),
    "realtime_lrp.engine.pictures": ("fit", "overlay"),
    "realtime_lrp.relevance.maps.account": ("Account",),
    "realtime_lrp.relevance.rules.composites": ("COMPOSITES", "Composite"),
    "realtime_lrp.relevance.concepts.concepts": ("Concepts",),
    "realtime_lrp.relevance.explainer": ("Explainer",),
    "realtime_lrp.relevance.explanation": ("Answer", "Explanation"),
    "realtime_lrp.relevance.maps.layer_views": ("LayerRecord",),
    "realtime_lrp.relevance.maps.methods": ("METHODS",),
    "realtime_lrp.relevance.rules.rules": (
        "RULES", "AlphaBeta", "Epsilon", "Flat", "Gamma", "Rule", "WSquare", "ZBox", "ZPlus",
        "ZPlusInput", "rule_named",
    ),
    "realtime_lrp.system.program": ("__version__",),
    "realtime_lrp.video.region": ("Region",),
    "realtime_lrp.video.source": ("Source",),
    "realtime_lrp.video.sources": ("open_source",),
    "realtime_lrp.view.look": ("COLORMAPS", "Colormap"),
}  # fmt: skip
_MODULE = {name: module for module, names in _WHERE.items() for name in names}
_ROOMS_WITH_TENSORFLOW = ("realtime_lrp.engine", "realtime_lrp.models", "realtime_lrp.relevance")

__all__ = sorted({*_MODULE} - {"__version__"})

if not TYPE_CHECKING:  # otherwise type checkers would accept any name

    def __getattr__(name):
        """Imports a public name when it is first used."""
        if name in _MODULE:
            if _MODULE[name].startswith(_ROOMS_WITH_TENSORFLOW):
                _import_tensorflow()
            return getattr(import_module(_MODULE[name]), name)
        raise AttributeError(f"module 'realtime_lrp' has no attribute {name!r}")


@cache
def _import_tensorflow() -> None:
    """Imports TensorFlow, whose lines go to the log; it must serve Keras and execute eagerly.

    Devices are looked for, which prints too, but not started: they can still be configured.
    """
    import logging

    from realtime_lrp.errors import UnavailableError
    from realtime_lrp.system.terminal import captured_stderr

    printed: list[str] = []
    try:
        with captured_stderr() as printed:
            import_module("tensorflow").config.list_physical_devices()
    except Exception:
        logging.getLogger(__name__).error("%s", "\n".join(printed))
        raise
    if printed:
        logging.getLogger(__name__).info("%s", "\n".join(printed))
    backend = import_module("keras").backend.backend()
    if backend != "tensorflow":
        raise UnavailableError(
            f"Keras runs on {backend} in this program, and models are explained on TensorFlow. Set "
            "KERAS_BACKEND=tensorflow, or import realtime_lrp before keras."
        )
    if not import_module("tensorflow").compat.v1.executing_eagerly_outside_functions():
        raise UnavailableError(
            "This program has switched TensorFlow's eager execution off, which is needed. Leave "
            "tf.compat.v1.disable_eager_execution() out."
        )


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


if "ipykernel" in sys.modules:  # it is needed soon, and a notebook keeps what it prints for ever
    _import_tensorflow()
