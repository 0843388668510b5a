"""Where a recording should end, so that a file that was cut off is noticed."""

import re
from fractions import Fraction

from realtime_lrp.video.libraries import av


def claimed_end(
    container: "av.container.InputContainer", stream: "av.VideoStream"
) -> tuple[Fraction | None, Fraction | None]:
    """When a recording should end according to its container, in seconds.

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
