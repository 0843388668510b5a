"""See, live, what a neural network looks at.

This module stays light: it imports neither TensorFlow nor OpenCV until a name is used.
"""

import os
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

# OpenCV reads these when it is loaded, by whatever module. A dead camera lets a read return after
# so many seconds, not after ten; Windows does not look for ten seconds for a hardware transform
# that is not there; a picture of more pixels is refused before memory is taken for it.
os.environ.setdefault("OPENCV_VIDEOIO_V4L_SELECT_TIMEOUT", "2")
os.environ.setdefault("OPENCV_VIDEOIO_MSMF_ENABLE_HW_TRANSFORMS", "0")
os.environ.setdefault("OPENCV_IO_MAX_IMAGE_PIXELS", str(8192**2))

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
