"""The child behind a `PictureProcess`: opens sources and sends their pictures when asked."""

import importlib
import json
import logging
import os
import queue
import threading
import time
from contextlib import suppress

import numpy as np

from realtime_lrp.system.channel import Channel, Failed
from realtime_lrp.system.child import parent_channel
from realtime_lrp.system.shared import SharedPicture
from realtime_lrp.video.picture_process import (
    TO_CHILD,
    Alive,
    Control,
    Ended,
    Facts,
    Logged,
    Next,
    Open,
    Sent,
    Shared,
)
from realtime_lrp.video.source import Source

ALIVE_S = 1.0
"""How often the child of a source that waits on purpose sends `Alive`."""


def main() -> None:
    """Opens what the parent names, one after the other, and reads it until the parent ends."""
    channel = parent_channel(TO_CHILD)
    logger = logging.getLogger("realtime_lrp")
    logger.addHandler(_ToParent(channel))
    requests = _Requests(channel)
    threading.Thread(target=requests.listen, daemon=True).start()
    memory: SharedPicture | None = None
    with suppress(BrokenPipeError):
        while True:
            order = requests.wait_for_open()
            logger.setLevel(order.log_level)
            if memory is None and order.memory is not None:
                memory = SharedPicture(order.memory)
            try:
                _serve(order, requests, memory, channel)
            except Exception as error:
                channel.send(Failed.by(error))
    os._exit(0)  # a decoder's threads may never end


def _serve(
    order: Open, requests: "_Requests", memory: SharedPicture | None, channel: Channel
) -> None:
    opener = getattr(importlib.import_module(order.module), order.name)
    data = (order.data,) if order.data else ()
    with opener(*data, *json.loads(order.arguments), threading.Event()) as source:
        requests.source = source
        source.on_wait = _SignsOfLife(channel).send
        sent = _facts(source)
        channel.send(sent)
        while requests.wait_for_next() and (picture := source.read()) is not None:
            facts = _facts(source)
            if facts != sent:
                sent = facts
                channel.send(facts)
            rgb = picture.dtype == np.uint8 and picture.ndim == 3 and picture.shape[2] == 3
            if memory and rgb and picture.size and memory.fits(picture.shape):
                memory.write(picture)
                rows, columns, _ = picture.shape
                channel.send(Shared((rows, columns, 3), source.timeline, source.time))
            else:
                channel.send(Sent(picture, source.timeline, source.time))
        channel.send(Ended())


def _facts(source: Source) -> Facts:
    return Facts(source.described, source.steady, source.alive, source.files)


class _SignsOfLife:
    """Tells the parent now and then that the source waits on purpose."""

    def __init__(self, channel: Channel):
        self._channel, self._sent_at = channel, -ALIVE_S

    def send(self) -> None:
        """Sends `Alive` unless one was sent within the last `ALIVE_S`."""
        now = time.monotonic()
        if now - self._sent_at >= ALIVE_S:
            self._sent_at = now
            self._channel.send(Alive())


class _Requests:
    """Carries out what the parent asks for, in a thread of its own.

    Attributes:
      source: the one to control, once it is open.
    """

    def __init__(self, channel: Channel):
        self._channel, self._pictures = channel, threading.Semaphore(0)
        self._opens: queue.Queue[tuple[Open, threading.Semaphore]] = queue.Queue()
        self._wanted = self._pictures
        self.source: Source | None = None

    def wait_for_open(self) -> Open:
        """Waits for the next source that is wanted."""
        self.source = None
        order, self._pictures = self._opens.get()
        return order

    def wait_for_next(self) -> bool:
        """Waits until a picture of the present source is wanted; always true."""
        return self._pictures.acquire()

    def listen(self) -> None:
        """Receives messages until the parent has gone, then ends this process."""
        with suppress(Exception):
            while True:
                self._carry_out(self._channel.receive())
        os._exit(0)

    def _carry_out(self, message: object) -> None:
        if isinstance(message, Open):
            self._wanted = threading.Semaphore(0)
            self._opens.put((message, self._wanted))
        elif isinstance(message, Next):
            self._wanted.release()
        elif isinstance(message, Control) and self.source:
            given = () if message.argument is None else (message.argument,)
            getattr(self.source, message.method)(*given)


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
