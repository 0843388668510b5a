"""Media that the tests make for themselves, with PyAV and OpenCV."""

from fractions import Fraction

import cv2  # isort: skip
import av  # isort: skip
import numpy as np

RED = (255, 0, 0)


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


def write_picture(path, picture):
    """Writes a picture with OpenCV."""
    assert cv2.imwrite(str(path), cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
    return path


def times_of(path):
    """The presentation time of each frame of a file, in seconds."""
    with av.open(path) as container:
        return [float(frame.pts * frame.time_base) for frame in container.decode(video=0)]


def stream_of(path):
    """(codec, rows, columns, frames a second) of a file's video stream."""
    with av.open(path) as container:
        stream = container.streams.video[0]
        return stream.codec_context.name, stream.height, stream.width, stream.average_rate
