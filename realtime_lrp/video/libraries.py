"""OpenCV and PyAV, imported in the only order that works.

PyAV's wheel brings its own libxcb. If it is loaded first, OpenCV's first window hangs for ever.
Every module that needs PyAV imports it from here, and nowhere else.
"""

import cv2  # isort: skip
import av  # isort: skip

# What goes wrong is told by exceptions; what the libraries print by themselves only disturbs.
av.logging.set_level(av.logging.PANIC)
cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)

__all__ = ["av", "cv2"]
