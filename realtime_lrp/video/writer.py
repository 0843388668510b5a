"""Writes films: pictures with their times as H.264, HEVC or AV1, and sound."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from functools import partial
from math import lcm
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from realtime_lrp.errors import DamagedInputError, OutputError, TransferError, UsageError
from realtime_lrp.video.frames import Colour
from realtime_lrp.video.libraries import av
from realtime_lrp.video.pictures import xmp_packet

log = logging.getLogger(__name__)

CONTAINERS = {".mp4": "mp4", ".mov": "mov", ".mkv": "matroska"}
CODECS: dict[str, tuple[Literal["libx264", "libx265", "libsvtav1"], int, dict[str, str]]] = {
    "h264": ("libx264", 18, {"preset": "veryfast"}),
    "hevc": ("libx265", 20, {"preset": "veryfast", "x265-params": "log-level=none"}),
    "av1": ("libsvtav1", 28, {"preset": "9"}),
}
"""Name -> FFmpeg's encoder, its default constant rate factor, further options."""

NARROW = 320  # narrower pictures have varying bytes of x264, unless mbtree is off

LIVE = {"preset": "ultrafast", "tune": "zerolatency"}
LIVE_INDEX = "hybrid_fragmented+negative_cts_offsets"
"""FFmpeg's flags for MP4 that is written live: if the process is killed, everything before the last
key frame plays. Once closed, it is an ordinary file."""

DAMAGED = (av.error.InvalidDataError, av.error.PatchWelcomeError)  # packets that a muxer refuses
MOST_TICKS = 2**31 - 1  # how long MP4 and MOV can show a frame, in the film's time base

REENCODED: Final = "aac"
LAYOUTS = {1: "mono", 2: "stereo", 3: "2.1", 4: "quad", 5: "5.0", 6: "5.1", 8: "7.1"}
"""Number of channels -> layout, for sound that does not name its layout."""


class VideoWriter:
    """Writes a film as MP4, MOV or Matroska; odd sizes are made even by repeating the last line.

    Times are in units of `time_base` seconds. The `quality` is the codec's constant rate factor,
    0 loses nothing with "h264" and "hevc". `aspect` is the width of a pixel divided by its height.
    A `live` film, only "h264", plays up to the last key frame even if it is never closed.
    """

    def __init__(
        self, path: Path, container: str, fps: Fraction, time_base: Fraction, *,
        codec: str = "h264", quality: int | None = None, colour: Colour | None = None,
        aspect: Fraction = Fraction(1), metadata: Mapping[str, str] | None = None,
        description: str = "", live: bool = False,
    ):  # fmt: skip
        encoder, rate_factor, further = CODECS[codec]
        if (codec, quality) == ("hevc", 0):  # a rate factor of 0 is lossless in x264 only
            further = {**further, "x265-params": f"{further['x265-params']}:lossless=1"}
        further = LIVE if live else further
        options = _of_container(container, time_base, live)
        self._container = av.open(path, "w", format=CONTAINERS[container], options=options)
        # FFmpeg claims that MOV can hold AV1.
        if codec not in self._container.supported_codecs or (codec, container) == ("av1", ".mov"):
            raise UsageError(f"{container} cannot hold {codec}. Use .mp4 or .mkv.", "codec")
        self._container.metadata.update(metadata or {})
        if description:  # .mov has no tag for it
            packet = {"xmp": xmp_packet(description).decode()}
            told = packet if container == ".mov" else {"description": description}
            self._container.metadata.update(told)
        self._fps = fps
        self._format = container
        self._last: int | None = None  # pts of the last frame
        self._frames = 0
        self._codec = codec
        self._colour = colour or Colour()
        self._sound: dict[int, Callable[[av.Packet[Any]], None]] = {}
        self._encoders: list[tuple[Any, Callable[..., None]]] = []  # sound's
        self._newest: dict[int, int] = {}  # times of the last packets of copied sound
        self.lost_sound = 0
        self._durations: dict[int | None, int] = {}
        self._stream = self._container.add_stream(encoder, rate=fps)
        self._stream.options = {"crf": str(rate_factor if quality is None else quality), **further}
        self._stream.pix_fmt = "yuv420p"
        context = self._stream.codec_context
        self._stream.time_base = context.time_base = time_base
        context.sample_aspect_ratio = aspect
        if codec == "hevc" and CONTAINERS[container] != "matroska":
            context.codec_tag = "hvc1"  # the tag that Apple's players know
        context.color_primaries = self._colour.primaries
        context.color_trc = self._colour.transfer
        context.colorspace = self._colour.matrix
        context.color_range = self._colour.range
        self._size: tuple[int, ...] | None = None
        self._to_yuv = av.video.reformatter.VideoReformatter()

    def __enter__(self) -> "VideoWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        if kind is not None:  # the file is discarded, so errors do not matter
            with suppress(Exception):
                self._container.close()
            return
        try:
            for stream, encode in self._encoders:
                encode([None])
                self._container.mux(stream.encode(None))
            packets = self._stream.encode(None)
            if self._codec == "hevc" and self._frames <= 2:
                for packet in packets:  # x265 leaves random decoding times from memory
                    packet.dts = packet.pts
            self._mux(packets)
        finally:
            with self._as_damaged_sound():
                self._container.close()

    def _mux(self, packets: "list[av.Packet[Any]]") -> None:
        for packet in packets:  # encoders drop the duration of the last frame
            packet.duration = self._durations.pop(packet.pts, 0) or packet.duration
        with self._as_damaged_sound():
            self._container.mux(packets)

    @contextmanager
    def _as_damaged_sound(self) -> Iterator[None]:
        """Reports what a muxer refuses as damaged sound, which it writes late."""
        try:
            yield
        except (*DAMAGED, av.error.ArgumentError) as error:
            if not self._sound:
                raise
            raise DamagedInputError(
                f"The sound is damaged, it cannot be written again ({error.strerror}). "
                "Leave it out with --audio none."
            ) from None

    def add_sound(self, streams: Sequence["av.AudioStream"]) -> list[str]:
        """Adds a file's sound before the first `write`; gives a line for each stream that changes.

        The sound is copied if the container can hold it; otherwise it becomes AAC.
        """
        notes = []
        for stream in streams:
            context = stream.codec_context
            name = context.codec.canonical_name if context and context.sample_rate else None
            plays = self._format != ".mp4" or not (name or "").startswith("pcm_")  # rarely plays
            if name in self._container.supported_codecs and plays:
                copy = self._container.add_stream_from_template(stream)
                self._sound[stream.index] = partial(self._copy, copy)
            elif context and name:
                rates = av.Codec(REENCODED, "w").audio_rates or [context.sample_rate]
                rate = min(rates, key=lambda rate: abs(rate - context.sample_rate))
                to = self._container.add_stream(REENCODED, rate=rate)
                layout = context.layout.name
                if layout.endswith("channels"):
                    layout = LAYOUTS.get(context.layout.nb_channels, "stereo")
                to.codec_context.layout = layout
                encode = partial(self._encode, to, av.AudioResampler("fltp", layout, rate))
                self._encoders.append((to, encode))
                self._sound[stream.index] = partial(self._decode, context, encode)
                notes.append(
                    f"the sound is {name}, which this container does not keep: now AAC of {rate} Hz"
                )
            else:
                notes.append("a sound stream of an unsupported codec is left out")
        return notes

    def sound(self, packet: "av.Packet[Any]") -> None:
        """Appends a packet of a stream from `add_sound`; to be called after the first `write`."""
        if packet.stream.index in self._sound:
            self._sound[packet.stream.index](packet)

    def _copy(self, stream: Any, packet: "av.Packet[Any]") -> None:
        begin = packet.pts or 0
        before_zero = begin + (packet.duration or 0) <= 0 > begin
        # Matroska would shift all other times for a packet that ends before time 0
        if not packet.size or (before_zero and CONTAINERS[self._format] == "matroska"):
            return
        if packet.dts is None or packet.dts <= self._newest.get(stream.index, packet.dts - 1):
            self.lost_sound += 1  # muxers refuse times that do not rise
            return
        packet.pts = packet.dts if packet.pts is None else packet.pts
        self._newest[stream.index] = packet.dts
        packet.stream = stream
        try:
            self._container.mux(packet)
        except DAMAGED:
            self.lost_sound += 1

    def _decode(self, decoder: Any, encode: Callable[..., None], packet: "av.Packet[Any]") -> None:
        try:
            frames = decoder.decode(packet)
        except av.FFmpegError:
            self.lost_sound += 1
            return
        encode(frames)

    def _encode(
        self, stream: Any, resampler: "av.AudioResampler", frames: "list[av.AudioFrame | None]"
    ) -> None:
        """Encodes frames of sound at the nearest rate that AAC has; None is their end."""
        for frame in frames:
            for heard in resampler.resample(frame):
                self._container.mux(stream.encode(heard))

    def write(self, picture: np.ndarray, pts: int, duration: int = 0, *, key: bool = False) -> None:
        """Appends a frame, uint8 [H, W, 3] RGB, of one size; a `key` frame needs no other."""
        size = picture.shape[:2]
        if self._size is None:
            self._size = size
            self._stream.height, self._stream.width = (side + side % 2 for side in size)
            if self._codec == "h264" and size[1] < NARROW:
                self._stream.options = {**self._stream.options, "x264-params": "mbtree=0"}
        if size != self._size:
            raise ValueError(f"Expected a frame of {self._size}. Received {size}.")
        since = pts - (pts if self._last is None else self._last)
        self._last = pts
        time_base = self._stream.codec_context.time_base
        ticks = since * time_base / (self._stream.time_base or time_base)
        if CONTAINERS[self._format] != "matroska" and ticks > MOST_TICKS:
            raise DamagedInputError(
                f"The times of the frames jump by {float(since * time_base):.0f} s, more than "
                f"{self._format} can hold. Write .mkv, or only the part before it, with --end."
            )
        odd = [(0, side % 2) for side in size]
        picture = np.pad(picture, [*odd, (0, 0)], mode="edge") if any(map(sum, odd)) else picture
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
        frame = self._to_yuv.reformat(
            frame, format="yuv420p", src_color_range=2,
            dst_colorspace=self._colour.table, dst_color_range=self._colour.range,
        )  # fmt: skip
        frame.colorspace = self._colour.matrix
        frame.color_range = self._colour.range
        frame.color_primaries = self._colour.primaries
        frame.color_trc = self._colour.transfer
        frame.pts = pts
        frame.time_base = time_base
        if key:
            frame.pict_type = av.video.frame.PictureType.I
        if duration:
            self._durations[pts] = frame.duration = duration
        try:
            packets = self._stream.encode(frame)
        except av.FFmpegError as error:
            raise OutputError(
                f"Frames of {size[1]} x {size[0]} pixels, {float(self._fps):.6g} a second, "
                f"cannot be encoded as {self._codec} ({error})."
            ) from None
        self._frames += 1
        self._mux(packets)


def _of_container(container: str, time_base: Fraction, live: bool) -> dict[str, str]:
    options = {"flush_packets": "1"} if live else {}
    if CONTAINERS[container] == "matroska":
        options["fflags"] = "+bitexact"  # else each file gets a random number
        return {**options, "cluster_time_limit": "1000"} if live else options
    # In units of this, MP4 stores when each stream begins; FFmpeg's default is 1 / 1000 s.
    ticks = min(lcm(time_base.denominator, 48000), 10**8)
    index = LIVE_INDEX if live else "faststart"
    return {**options, "movflags": index, "movie_timescale": str(ticks)}


def verify(path: Path, frames: int, last: float | None = None) -> None:
    """Checks a film by reading it; with its `last` time only beginning, end and index are read."""
    try:
        with av.open(path) as container:
            stream = container.streams.video[0]
            next(container.decode(stream))
            container.seek(round((last or 0) * av.time_base))
            packets = (packet for packet in container.demux(stream) if packet.size)
            times = [packet.pts for packet in packets if (packet.pts or 0) >= 0]  # those shown
            found = len(times) if last is None else stream.frames or frames
            end = float((times[-1] or 0) * (stream.time_base or 0)) if last else 0.0
    except (av.FFmpegError, StopIteration, IndexError) as error:
        raise TransferError(f"The film that was written cannot be read ({error}).") from None
    if found != frames:
        raise TransferError(f"The film that was written has {found} frames instead of {frames}.")
    if last and abs(end - last) > 0.001:
        raise TransferError(f"The film that was written ends after {end:.3f} s, not {last:.3f} s.")
