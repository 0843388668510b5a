"""The child behind a `PictureProcess`: opens sources and sends their pictures when asked."""

import importlib
import json
import logging
import os
import queue
import sys
import threading
from contextlib import suppress

import numpy as np

from realtime_lrp.system.child import Channel, Failed, parent_channel
from realtime_lrp.system.shared import SharedPicture
from realtime_lrp.video.picture_process import (
    TO_CHILD,
    Alive,
    Control,
    Ended,
    Facts,
    Given,
    Logged,
    Next,
    Open,
)
from realtime_lrp.video.source import Source


def main() -> None:
    """Opens what the parent names, one after the other, and reads it until the parent ends."""
    channel = parent_channel(TO_CHILD)
    logging.getLogger("realtime_lrp").addHandler(_ToParent(channel))
    memory = SharedPicture(int(sys.argv[1])) if len(sys.argv) > 1 else None
    reader = _Reader(channel, memory)
    asked: queue.SimpleQueue[Open | Next] = queue.SimpleQueue()

    def listen() -> None:
        with suppress(Exception):
            while True:
                message = channel.receive()
                if not isinstance(message, Control):
                    asked.put(message)
                elif source := reader.source:
                    source.control(message.action, message.value)
        os._exit(0)  # the parent has gone

    threading.Thread(target=listen, daemon=True).start()
    with suppress(BrokenPipeError):
        while True:
            reader.answer(asked.get())
    os._exit(0)  # a decoder's threads may never end


class _Reader:
    """Reads one `source` after the other; after its end, or an error, it is closed and None."""

    def __init__(self, channel: Channel, memory: SharedPicture | None):
        self._channel, self._memory = channel, memory
        self.source: Source | None = None

    def answer(self, message: Open | Next) -> None:
        try:
            if isinstance(message, Open):
                self._close()
                self.source = self._opened(message)
                self._channel.send(Facts.of(self.source))
            elif self.source:
                self._channel.send(self._next(self.source))
        except BrokenPipeError:
            raise
        except Exception as error:
            self._close()
            self._channel.send(Failed.by(error))

    def _opened(self, order: Open) -> Source:
        logging.getLogger("realtime_lrp").setLevel(order.log_level)
        opener = getattr(importlib.import_module(order.module), order.name)
        data = (order.data,) if order.data else ()
        source: Source = opener(*data, *json.loads(order.arguments), threading.Event())
        source.on_wait = lambda: self._channel.send(Alive())
        return source

    def _next(self, source: Source) -> Given | Ended:
        picture = source.read()
        if picture is None:
            self._close()
            return Ended()
        rgb = picture.dtype == np.uint8 and picture.ndim == 3 and picture.shape[2] == 3
        if self._memory and rgb and picture.size and self._memory.fits(picture.shape):
            self._memory.write(picture)
            rows, columns, _ = picture.shape
            return Given(Facts.of(source), (rows, columns, 3))
        return Given(Facts.of(source), picture=picture)

    def _close(self) -> None:
        source, self.source = self.source, None
        if source:
            source.close()


class _ToParent(logging.Handler):
    """Sends log records to the parent."""

    def __init__(self, channel: Channel):
        super().__init__()
        self._channel = channel

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError, ValueError):
            self._channel.send(Logged(record.levelno, record.getMessage()))


if __name__ == "__main__":
    main()
