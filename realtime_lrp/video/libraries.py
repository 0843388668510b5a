"""OpenCV and PyAV, imported in the only order that works, and silent.

PyAV's wheel brings its own libxcb. If it is loaded first, a window that a user's program opens with
OpenCV hangs for ever. Every module that needs PyAV imports it from here, and nowhere else.
"""

import cv2  # isort: skip
import av  # isort: skip

# Exceptions say what goes wrong; what OpenCV prints only disturbs. PyAV prints nothing unless a log
# level is set. Setting one would pass FFmpeg's messages to Python, and closing a file whose decoder
# threads log something would then wait for ever.
cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)

__all__ = ["av", "cv2", "draw_in_one_thread"]


def draw_in_one_thread() -> None:
    """Has OpenCV compute in the thread that calls it, for commands that show pictures.

    Its other threads spin while they wait: a picture of 1920 x 1080 then takes 19 ms of four cores
    instead of 8 ms of one, which TensorFlow needs (AMD EPYC), and is ready 1.5 ms earlier.
    """
    cv2.setNumThreads(1)
