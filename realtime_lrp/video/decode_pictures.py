"""The child process behind a `ChildDecoder`: decodes the JPEGs that it is sent."""

import os
from contextlib import suppress

from realtime_lrp.system.child import parent_channel
from realtime_lrp.video.child_decoder import MOST_PIXELS, Decoded, Jpeg

os.environ["OPENCV_IO_MAX_IMAGE_PIXELS"] = str(MOST_PIXELS)  # OpenCV reads it when it is loaded

import numpy as np

from realtime_lrp.video.libraries import cv2


def decoded(jpeg: bytes) -> np.ndarray | None:
    """The picture, uint8 [H, W, 3] RGB; None if it is no JPEG, damaged or too large.

    Args:
      jpeg: its bytes.
    """
    if jpeg[:2] != b"\xff\xd8":
        return None
    try:
        return cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR_RGB)
    except cv2.error:  # it has too many pixels
        return None


def main() -> None:
    """Decodes until the parent ends."""
    channel = parent_channel(Jpeg)
    with suppress(EOFError, OSError):
        while True:
            channel.send(Decoded(decoded(channel.receive().data)))
    os._exit(0)


if __name__ == "__main__":
    main()
