"""Which part of a recording is read, and where a whole one should end."""

import re
from dataclasses import dataclass
from fractions import Fraction

from realtime_lrp.video.libraries import av


@dataclass(frozen=True)
class Span:
    """A part of a recording, seconds since its first frame.

    Attributes:
      start: earlier frames are left out.
      end: this frame and later ones are left out; None is the end of the file.
      with_shown: begin with the frame that is on the screen at `start`; after the end of the file
        that is its last frame. Times then count from the first frame of the file.
    """

    start: float = 0.0
    end: float | None = None
    with_shown: bool = False


@dataclass(frozen=True)
class Limits:
    """A span in the times of the stream.

    Attributes:
      start: seconds.
      end: seconds.
      zero: the time that becomes 0, in units of the stream's time base.
    """

    start: Fraction | float
    end: Fraction | float
    zero: int


def exact_seconds(seconds: float) -> Fraction:
    """The exact fraction that a user meant: 0.1 is 1 / 10."""
    return Fraction(seconds).limit_denominator(1_000_000)


def claimed_end(
    container: "av.container.InputContainer", stream: "av.VideoStream"
) -> tuple[Fraction | None, Fraction | None]:
    """When a recording should end according to its container, in seconds: some are cut off.

    Returns:
      The end of the picture, and the end of everything together; None if the container does not
      say.
    """
    kind = container.format.name
    whole = Fraction(container.duration, av.time_base) if container.duration else None
    if kind.startswith("matroska"):  # a stream may give the duration of the whole file
        tag = _tagged(stream.metadata.get("DURATION", ""))
        return (tag and whole and min(tag, whole)), whole
    if kind == "flv":
        return None, whole
    base = stream.time_base
    if not (base and stream.duration and (stream.frames or kind.startswith("mov"))):
        return None, None  # FFmpeg's estimate
    length = stream.duration * base
    if kind == "avi":  # its duration is that of what is left; `length` comes from its header
        return None, max(length, stream.frames * base)
    return (stream.start_time or 0) * base + length, None


def _tagged(words: str) -> Fraction | None:
    """Seconds of "00:00:02.920000000"."""
    time = re.fullmatch(r"(\d+):(\d\d):(\d\d(?:\.\d+)?)", words)
    return time and int(time[1]) * 3600 + int(time[2]) * 60 + Fraction(time[3])
