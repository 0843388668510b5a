"""See, live, what a neural network looks at.

This module stays light: it imports neither TensorFlow nor OpenCV until a name is used.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

_WHERE = {
    "Explainer": "realtime_lrp.relevance.explainer",
    "Explanation": "realtime_lrp.relevance.explainer",
    "Composite": "realtime_lrp.relevance.composites",
}

__all__ = ["Composite", "Explainer", "Explanation"]

try:
    __version__ = version("realtime-lrp")
except PackageNotFoundError:  # a checkout that is run without being installed
    __version__ = "0+checkout"


def __getattr__(name: str):
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'realtime_lrp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
