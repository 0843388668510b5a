"""OpenCV and PyAV, imported in the only order that works.

PyAV's wheel brings its own libxcb. If it is loaded first, OpenCV's first window hangs for ever.
Every module that needs PyAV imports it from here, and nowhere else.
"""

import cv2  # isort: skip
import av  # isort: skip

# What goes wrong is told by exceptions; what the libraries print by themselves only disturbs. PyAV
# is silent by itself: setting a level would hand FFmpeg's messages to Python, and closing a file
# whose decoder threads have something to say then waits for ever.
cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)

__all__ = ["av", "cv2"]
