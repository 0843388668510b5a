"""Imports TensorFlow and Keras, without what they print on standard error and without Matplotlib.

Modules of this package import `tf` and `keras` from here, before anything else that needs them.
If the import fails, what was printed is logged and the error goes on.
"""

import gc
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from realtime_lrp.system.terminal import captured_stderr, ensure_temporary_folder

log = logging.getLogger(__name__)

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
ensure_temporary_folder()


@contextmanager
def _leanly() -> Iterator[None]:
    """Imports without Matplotlib (0.45 s of 2.9 s) and without looking for garbage (0.3 s)."""
    hidden = "matplotlib" not in sys.modules
    collects = gc.isenabled()
    gc.disable()
    if hidden:
        sys.modules["matplotlib"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if hidden:
            del sys.modules["matplotlib"]
        gc.freeze()
        if collects:
            gc.enable()


try:
    with captured_stderr() as printed, _leanly():
        import keras
        import tensorflow as tf

        tf.config.list_physical_devices()  # GPU libraries are loaded, and complain, here
        tf.constant(0) + 0
        tf.get_logger().setLevel(logging.ERROR)  # layers of a D-FINE are said to be traced often
except Exception:
    log.error("%s", "\n".join(printed))
    raise

__all__ = ["keras", "tf"]
