"""What is missing in a recording: its end, or a part that FFmpeg passes over without a word."""

import re
from fractions import Fraction
from typing import Any

from realtime_lrp.video.libraries import av

OVERHEAD = 32
"""Bytes around a packet in Matroska, at most."""

LEAST_BYTES = 1000
"""Fewer that belong to no packet are no hole: heads of clusters, padding."""

LEAST_S = Fraction(1, 5)
"""A shorter pause between pictures is no hole."""


def told_end(
    container: "av.container.InputContainer", stream: "av.VideoStream"
) -> tuple[Fraction | None, Fraction | None]:
    """When a recording should end by what its file says, in seconds.

    Returns:
      the end of the picture, and of everything together; None where it is not told.
    """
    kind = container.format.name
    whole = Fraction(container.duration, av.time_base) if container.duration else None
    if kind.startswith("matroska"):  # its streams may show the duration of the whole
        tag = _tagged(stream.metadata.get("DURATION", ""))
        return (tag and whole and min(tag, whole)), whole
    if kind == "flv":
        return None, whole
    base = stream.time_base
    if not (base and stream.duration and (stream.frames or kind.startswith("mov"))):
        return None, None  # FFmpeg's estimate
    length = stream.duration * base
    if kind == "avi":  # whose duration is that of what is left of it; its times are of packets
        return None, max(length, stream.frames * base)
    return (stream.start_time or 0) * base + length, None


def _tagged(words: str) -> Fraction | None:
    """Seconds of "00:00:02.920000000"."""
    time = re.fullmatch(r"(\d+):(\d\d):(\d\d(?:\.\d+)?)", words)
    return time and int(time[1]) * 3600 + int(time[2]) * 60 + Fraction(time[3])


class Holes:
    """Finds damaged parts of a Matroska file: bytes of no packet where there is no picture either.

    A pause between pictures alone is no hole, nor are such bytes alone.

    Attributes:
      seconds: how long each of them is.
    """

    def __init__(self, least_s: Fraction):
        self.seconds: list[Fraction] = []
        self._least = max(LEAST_S, least_s)
        self.rewind()

    def rewind(self) -> None:
        """Begins anew at another place of the file."""
        self._pos: int | None = None
        self._newest = Fraction(0)
        self._known = 0

    def see(self, packet: "av.Packet[Any]", picture: bool, counts_from: Fraction | float) -> None:
        """Takes the next packet, of any stream; holes before `counts_from` do not count."""
        if picture and packet.pos is not None and packet.pts is not None:
            time = packet.pts * packet.time_base
            if self._pos is not None:
                lost, pause = packet.pos - self._pos - self._known, time - self._newest
                if lost > LEAST_BYTES and pause > self._least and time > counts_from:
                    self.seconds.append(pause)
            self._newest = time if self._pos is None else max(time, self._newest)
            self._pos, self._known = packet.pos, 0
        beside = sum(one.buffer_size for one in packet.iter_sidedata())
        self._known += packet.size + beside + OVERHEAD
