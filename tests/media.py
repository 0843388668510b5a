"""Media that the tests make for themselves, with PyAV and OpenCV."""

from fractions import Fraction
from itertools import islice
from pathlib import Path

import cv2  # isort: skip
import av  # isort: skip
import numpy as np
import pytest

from realtime_lrp.video.reader import VideoReader

RED = (255, 0, 0)
FOLDERS = (one / "shared" for one in Path(__file__).resolve().parents)
SHARED = next((one for one in FOLDERS if (one / "models").is_dir()), None)
"""Real networks and recordings, where they lie beside the checkout."""
needs_files = pytest.mark.skipif(SHARED is None, reason="real files are not beside the checkout")


def plain(colour=RED, size=(48, 64)):
    """A picture of one colour, uint8 [rows, columns, 3] RGB."""
    return np.full((*size, 3), colour, np.uint8)


def numbered(count, size=(48, 64)):
    """Pictures that differ: a bright bar wanders from left to right."""
    pictures = []
    for number in range(count):
        picture = plain((20, 40, 60), size)
        left = round(number * (size[1] - 8) / max(count - 1, 1))
        picture[:, left : left + 8] = (240, 200, 30)
        pictures.append(picture)
    return pictures


def write_video(
    path, pictures, codec="libx264", pixels="yuv420p", fps=Fraction(30), pts=None, **options
):
    """Writes pictures; pts are in units of 1 / 90000 s (1 / 1000 s in Matroska files)."""
    with av.open(path, "w") as container:
        stream = container.add_stream(codec, rate=fps)
        stream.height, stream.width = pictures[0].shape[:2]
        stream.pix_fmt = pixels
        stream.options = {"crf": "1", **options} if codec == "libx264" else options
        stream.codec_context.time_base = stream.time_base = Fraction(1, 90000)
        for number, picture in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts = pts[number] if pts else round(number * 90000 / fps)
            frame.time_base = Fraction(1, 90000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def slowed(source, path, factor=10, count=60):
    """The first frames of a recording, each shown so many times as long: less to compute."""
    with av.open(source) as original, av.open(path, "w") as container:
        stream = container.add_stream_from_template(original.streams.video[0])
        for packet in islice((one for one in original.demux(video=0) if one.size), count):
            packet.pts, packet.dts = packet.pts * factor, packet.dts * factor
            packet.duration *= factor
            packet.stream = stream
            container.mux(packet)
    return path


def write_picture(path, picture):
    assert cv2.imwrite(str(path), cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
    return path


def damage(path, rng):
    """Flips thirty bytes in the middle third of a file."""
    data = bytearray(path.read_bytes())
    for place in rng.integers(len(data) // 3, 2 * len(data) // 3, 30):
        data[place] ^= 0xFF
    path.write_bytes(data)


def times_of(path):
    return [float(time) for time in frame_times(path)]


def stream_of(path):
    """(codec, rows, columns, frames a second) of a file's video stream."""
    with av.open(path) as container:
        stream = container.streams.video[0]
        return stream.codec_context.name, stream.height, stream.width, stream.average_rate


def recording(
    path, count=12, size=(48, 64), codec="libx264", pixels="yuv420p", pts=None,
    base=Fraction(1, 30), sound=None, rotation=0, aspect=1, colour=(2, 2, 2, 1), options=None,
    offset_s=0, metadata=None,
):  # fmt: skip
    """Writes a wandering bar, and a tone of as many seconds beside it.

    pts: of the frames in units of base, else one unit apart; sound: an audio encoder or None;
    rotation: degrees of the display matrix; colour: primaries, transfer, matrix, range; offset_s:
    everything is shown so much later.
    """
    pts = list(range(count)) if pts is None else pts
    with av.open(path, "w") as container:
        container.metadata.update(metadata or {})
        video = container.add_stream(codec, rate=Fraction(30))
        video.height, video.width = size
        video.pix_fmt = pixels
        video.options = {"crf": "4", **(options or {})} if "264" in codec else options or {}
        context = video.codec_context
        context.time_base = video.time_base = base
        context.sample_aspect_ratio = aspect
        context.color_primaries, context.color_trc, context.colorspace, context.color_range = colour
        if rotation:
            video.set_display_rotation(rotation)
        audio = container.add_stream(sound, rate=48000, layout="stereo") if sound else None
        for packet in _tone(audio, float(pts[-1] * base) + 0.1, offset_s) if audio else ():
            container.mux(packet)
        for number, picture in enumerate(numbered(len(pts), size)):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(
                format=pixels, dst_colorspace=1 if colour[2] == 1 else 5, src_color_range=2,
                dst_color_range=colour[3],
            )  # fmt: skip
            frame.pts, frame.time_base = pts[number] + round(offset_s / base), base
            frame.color_range, frame.colorspace = colour[3], colour[2]
            container.mux(video.encode(frame))
        container.mux(video.encode(None))
    return path


def _tone(stream, seconds, offset_s):
    at = 0
    while at < seconds * 48000:
        values = (8000 * np.sin(np.arange(at, at + 1024) / 20)).astype(np.int16)
        frame = av.AudioFrame.from_ndarray(
            np.repeat(values, 2)[None], format="s16", layout="stereo"
        )
        frame.sample_rate, frame.pts = 48000, at + round(offset_s * 48000)
        frame.time_base = Fraction(1, 48000)
        yield from stream.encode(frame)
        at += 1024
    yield from stream.encode(None)


def frames_of(path):
    with VideoReader(path) as reader:
        return [frame.picture for frame in reader]


def frame_times(path):
    """The exact presentation time of each decoded frame, a `Fraction` of seconds."""
    with av.open(path) as container:
        return [frame.pts * frame.time_base for frame in container.decode(video=0)]


def sound_of(path):
    """(codec, [(exact time, bytes) of each packet]) of a file's first audio stream."""
    with av.open(path) as container:
        stream = container.streams.audio[0]
        packets = [
            (packet.pts * packet.time_base, bytes(packet))
            for packet in container.demux(stream)
            if packet.size
        ]
        return stream.codec_context.codec.canonical_name, packets


def code_in(picture):
    """The text of a QR code, or ""; OpenCV overlooks up to a tenth at one size, none at five."""
    detector = cv2.QRCodeDetector()
    sizes = (cv2.resize(picture, None, fx=by, fy=by) for by in (1, 2, 3, 0.7, 0.5))
    return next(filter(None, (detector.detectAndDecode(one)[0] for one in sizes)), "")
