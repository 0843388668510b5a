"""Locks for what changes settings of the whole process."""

import threading

TRACING = threading.Lock()
"""Held while a layer is traced: TensorFlow's settings are then others."""
