"""Imports TensorFlow and Keras without what they print on standard error.

Modules of this package import `tf` and `keras` from here, before anything else that needs them.
If the import fails, what was printed is logged and the error goes on.
"""

import logging
import os

from realtime_lrp.system.quiet import captured_stderr, ensure_temporary_folder

log = logging.getLogger(__name__)

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
ensure_temporary_folder()
try:
    with captured_stderr() as printed:
        import keras
        import tensorflow as tf

        tf.config.list_physical_devices()  # GPU libraries are loaded, and complain, here
        tf.constant(0) + 0
except Exception:
    log.error("%s", "\n".join(printed))
    raise

__all__ = ["keras", "tf"]
