"""Whole pictures from interlaced frames, by FFmpeg's filter bwdif."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from realtime_lrp.video.libraries import av


class Deinterlacer:
    """Turns interlaced frames into whole pictures, one for each frame, at its time.

    Args:
      frame: the first interlaced one; the others have its size and format.
      time_base: seconds per unit of the frames' times.
    """

    def __init__(self, frame: "av.VideoFrame", time_base: Fraction):
        self._time_base = time_base
        self._graph = av.filter.Graph()
        chain = [
            self._graph.add_buffer(
                width=frame.width, height=frame.height, format=frame.format, time_base=time_base
            ),
            self._graph.add("bwdif", "mode=send_frame:deint=interlaced"),
            self._graph.add("buffersink"),
        ]
        for source, sink in pairwise(chain):
            source.link_to(sink)
        self._graph.configure()

    def __call__(self, frame: "av.VideoFrame") -> Iterator["av.VideoFrame"]:
        frame.time_base = self._time_base
        self._graph.push(frame)
        return self._ready()

    def rest(self) -> Iterator["av.VideoFrame"]:
        """The pictures of the last frames, after which no more may come."""
        self._graph.push(None)
        return self._ready()

    def _ready(self) -> Iterator["av.VideoFrame"]:
        while True:
            try:
                frame = self._graph.vpull()
            except (av.BlockingIOError, av.EOFError):
                return
            unit = (frame.time_base or self._time_base) / self._time_base
            if frame.pts is not None:
                frame.pts = round(frame.pts * unit)
            frame.duration = round((frame.duration or 0) * unit)
            frame.time_base = self._time_base
            yield frame
