"""Reads some frames of recordings in a child process, which a damaged file may crash or hang."""

import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np

from realtime_lrp.errors import DamagedInputError
from realtime_lrp.system.channel import Failed
from realtime_lrp.system.child import Child, parent_channel
from realtime_lrp.system.child_command import module_command
from realtime_lrp.system.child_errors import death, failure, hang
from realtime_lrp.video.picture_child import Notes
from realtime_lrp.video.reader import VideoReader

HANGS_S = 60.0
"""A child that needs longer for its next picture is killed."""

MOST_NOTES = 5
"""How much is logged about a recording."""

log = logging.getLogger("realtime_lrp.video.frame_reader")  # not "__main__" in the child


class ReadFrames(msgspec.Struct, frozen=True, tag=True):
    """Asks for the frames of a recording; each `NextFrame` is answered by one.

    Attributes:
      path: the file.
      every: seconds between two frames; 0 for all frames.
    """

    path: Path
    every: float


class NextFrame(msgspec.Struct, frozen=True, tag=True):
    """Asks for the next frame; answered with `Frame`, or with `NoFrame` at the end."""


class Frame(msgspec.Struct, frozen=True, tag=True):
    """A picture, uint8 [H, W, 3] RGB, and its time in seconds since the first one."""

    picture: np.ndarray
    time: float


class NoFrame(msgspec.Struct, frozen=True, tag=True):
    """The recording has ended; `notes` are to be logged about it."""

    notes: list[str] = []


def read_frames(path: Path, every: float, notes: bool = True) -> Iterator[np.ndarray]:
    """Yields the first frame of a recording, then one every so many seconds, uint8 [H, W, 3] RGB.

    Args:
      path: the recording.
      every: seconds between two frames; 0 for all frames.
      notes: whether to log what is wrong with it, though it can be read.

    Raises:
      MissingInputError: there is no such file.
      DamagedInputError: nothing in it can be decoded, or it makes the decoder crash or hang.
    """
    for _, picture in read_timed_frames(path, every, notes):
        yield picture


def read_timed_frames(
    path: Path, every: float = 0.0, notes: bool = True
) -> Iterator[tuple[float, np.ndarray]]:
    """As `read_frames`, with the seconds since the first frame; `every` 0 is for all frames."""
    child = Child(module_command("realtime_lrp.video.frame_reader"), Frame | NoFrame | Failed)
    try:
        with suppress(OSError):  # it has ended, which the next message shows
            child.send(ReadFrames(path, every))
        while (frame := _next(child, path, notes)) is not None:
            yield frame.time, frame.picture
    finally:
        child.close()


def _next(child: Child, path: Path, notes: bool) -> Frame | None:
    """The next frame; None at the end."""
    with suppress(OSError):
        child.send(NextFrame())
    message, hung = child.receive_within(HANGS_S)
    if isinstance(message, NoFrame):
        for note in message.notes[: MOST_NOTES * notes]:
            log.warning("%s", note)
        return None
    if isinstance(message, Failed):
        raise failure(str(path), message)
    if message is None:
        raise hang(str(path), HANGS_S) if hung else death(str(path), child.death())
    picture: np.ndarray = message.picture
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3 or not picture.size:
        raise DamagedInputError(f"{str(path)!r} makes the decoder send an invalid picture.")
    frame: Frame = message
    return frame


def frames_every(path: Path, every: float) -> Iterator[Frame]:
    """What `read_timed_frames` yields, decoded in this process."""
    with VideoReader(path) as reader:
        begun: Fraction | None = None
        due = 0  # number of the next frame on the grid of times
        for frame in reader:
            time = frame.pts * reader.time_base
            begun = time if begun is None else begun
            number = int((time - begun) / Fraction(every)) if every else due
            if number >= due:
                due = number + 1
                yield Frame(frame.picture, float(time - begun))
        if reader.expected:
            log.warning("%s: ends early, of about %d frames", path, reader.expected)


def main() -> None:
    """Reads one recording for the parent."""
    channel, notes = parent_channel(ReadFrames | NextFrame), Notes()
    logging.getLogger("realtime_lrp").addHandler(notes)
    with suppress(EOFError, OSError):
        request = channel.receive()
        frames = frames_every(request.path, request.every)
        while True:
            channel.receive()
            try:
                frame = next(frames, None)
            except Exception as error:
                channel.send(Failed.by(error))
                break
            channel.send(frame or NoFrame(notes.lines))
    os._exit(0)


if __name__ == "__main__":
    main()
