"""Times of what surrounds a map: colour, overlay, video files, the way to a GPU and back."""

import tempfile
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from realtime_lrp.commands.bench.timing import Action, Times, seconds, time_in_turns
from realtime_lrp.engine.colouring import colour, painter_for
from realtime_lrp.engine.device import device
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.tensorflow import tf
from realtime_lrp.video.reader import VideoReader
from realtime_lrp.video.synthetic import moving_picture
from realtime_lrp.video.writer import VideoWriter
from realtime_lrp.view.follow import Follower
from realtime_lrp.view.overlay import Overlay, lay_over

SIZES = {"720p": (720, 1280), "1080p": (1080, 1920)}
"""Name -> rows and columns."""


def time_drawing(engine: Engine, turns: int) -> dict[str, dict[str, Times]]:
    """Colouring a map, laying it over a picture, moving it along; by the picture's size."""
    painter = painter_for(engine)
    rows, columns, _ = engine.explainer.input_shape
    (result,) = engine.explain([moving_picture(0, (rows, columns), 30)])
    times = {}
    for name, size in SIZES.items():
        region, picture = engine.region(size), np.zeros((*size, 3), np.uint8)
        result = replace(result, region=region)
        overlay = colour(painter, result)
        follower = Follower(picture, [overlay])
        actions: dict[str, Action] = {
            "colour": partial(colour, painter, result),
            "overlay": partial(_lay_over_anew, picture, overlay),
            "carry": partial(follower, picture),
        }
        times[name] = time_in_turns(actions, turns)
    return times


def _lay_over_anew(picture: np.ndarray, overlay: Overlay) -> np.ndarray:
    """Uses a new overlay each time, because an overlay remembers its stretched copy."""
    return lay_over(picture, replace(overlay))


def time_files(frames: int) -> dict[str, float]:
    """Milliseconds to encode and to decode a frame of 720p."""
    pictures = [moving_picture(number, SIZES["720p"], 30) for number in range(frames)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "clip.mp4")

        def encode() -> None:
            with VideoWriter(path, ".mp4", Fraction(30), Fraction(1, 30)) as writer:
                for number, picture in enumerate(pictures):
                    writer.write(picture, number)

        encoding_s = seconds(encode)
        with VideoReader(path) as reader:
            decoding_s = seconds(lambda: list(reader))
    return {"encode_ms": 1e3 * encoding_s / frames, "decode_ms": 1e3 * decoding_s / frames}


def time_transfer(engine: Engine, turns: int) -> Times:
    """A picture to the GPU, and one byte for each of its pixels back."""
    rows, columns, _ = engine.explainer.input_shape
    picture = np.zeros((1, rows, columns, 3), np.uint8)
    with tf.device(device().scope):
        action = {"": lambda: tf.identity(tf.constant(picture))[..., 0]}
        return time_in_turns(action, turns)[""]
