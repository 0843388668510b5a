"""The child process behind a `PictureReader`: decodes pictures. No TensorFlow here."""

import logging
import os
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np

from realtime_lrp.system.channel import Failed
from realtime_lrp.system.child import parent_channel
from realtime_lrp.video.pictures import read_pages


class ReadPages(msgspec.Struct, frozen=True, tag=True):
    """Asks for the pictures of a file; answered with `Pages`.

    Attributes:
      path: the file.
      first_only: as `read_pages` takes it.
    """

    path: Path
    first_only: bool


class Pages(msgspec.Struct, frozen=True, tag=True):
    """The pictures of a file.

    Attributes:
      pictures: uint8 [H, W, 3] RGB.
      notes: what is to be logged about them.
    """

    pictures: list[np.ndarray]
    notes: list[str] = []


class Notes(logging.Handler):
    """Collects what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def main() -> None:
    """Reads one file after the other until the parent closes the channel."""
    channel, notes = parent_channel(ReadPages), Notes()
    logging.getLogger("realtime_lrp").addHandler(notes)
    with suppress(EOFError, OSError):
        while True:
            request = channel.receive()
            notes.lines = []
            answer: Pages | Failed
            try:
                answer = Pages(read_pages(request.path, request.first_only), notes.lines)
            except Exception as error:
                answer = Failed.by(error)
            channel.send(answer)
    os._exit(0)


if __name__ == "__main__":
    main()
