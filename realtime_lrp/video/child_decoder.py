"""Decodes untrusted JPEGs in a child process: a crash or a hang there costs one picture.

The child is `video.decode_pictures`. It is started when the first picture comes, and again after it
has ended.
"""

import logging
import threading

import msgspec
import numpy as np

from realtime_lrp.system.child import Child
from realtime_lrp.system.child_command import module_command
from realtime_lrp.video.plain_jpeg import is_plain_jpeg

MOST_PIXELS = 640 * 640
"""Largest picture; checked before it is decoded."""

DECODING_S = 1.0
"""Maximum time for one picture; then the child is killed."""

STARTING_S = 20.0
"""The same for the first picture of a child, which has to start."""

log = logging.getLogger(__name__)


class Jpeg(msgspec.Struct, frozen=True, tag=True):
    """A picture to decode."""

    data: bytes


class Decoded(msgspec.Struct, frozen=True, tag=True):
    """The picture, uint8 [H, W, 3] RGB; None if it cannot be decoded or is too large."""

    picture: np.ndarray | None


class ChildDecoder:
    """Decodes pictures one after the other, for one thread.

    Attributes:
      crashes: how many pictures have ended the child.
    """

    def __init__(self) -> None:
        self.crashes = 0
        self._child: Child | None = None

    def decode(self, jpeg: bytes) -> np.ndarray | None:
        """The picture, uint8 [H, W, 3] RGB; None if it cannot be decoded.

        Args:
          jpeg: from an untrusted sender; only small baseline JPEGs get to the child.
        """
        if not is_plain_jpeg(jpeg, MOST_PIXELS):
            return None
        limit_s = DECODING_S if self._child else STARTING_S
        if self._child is None:
            command = module_command("realtime_lrp.video.decode_pictures")
            self._child = Child(command, Decoded)
        watch = threading.Timer(limit_s, self._child.kill)
        watch.start()
        try:
            self._child.send(Jpeg(jpeg))
            answer = self._child.receive()
        except OSError:
            answer = None
        finally:
            watch.cancel()
        if answer is None:
            self.crashes += 1
            log.warning("a visitor's picture ended the decoder (%s)", self._child.death())
            self.close()
            return None
        picture = answer.picture
        return picture if picture is not None and _is_picture(picture) else None

    def close(self) -> None:
        """Ends the child."""
        child, self._child = self._child, None
        if child:
            child.close()


def _is_picture(array: np.ndarray) -> bool:
    """Whether a child has sent what it should; it may have been taken over."""
    shaped = array.ndim == 3 and array.shape[2] == 3 and array.dtype == np.uint8
    return shaped and 0 < array.shape[0] * array.shape[1] <= MOST_PIXELS
