"""OpenCV and PyAV, imported in the only order that works.

PyAV's wheel brings its own libxcb. If it is loaded first, OpenCV's first window hangs for ever.
Every module that needs PyAV imports it from here, and nowhere else.
"""

import cv2  # isort: skip
import av  # isort: skip

# Exceptions say what goes wrong; what OpenCV prints only disturbs. PyAV prints nothing unless a log
# level is set. Setting one would pass FFmpeg's messages to Python, and closing a file whose decoder
# threads log something would then wait for ever.
cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)

__all__ = ["av", "cv2"]
