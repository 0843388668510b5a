"""The child process behind a `ChildSource`: opens a source and sends its pictures when asked."""

import importlib
import json
import logging
import os
import threading
import time
from contextlib import suppress

import numpy as np

from realtime_lrp.system.channel import Channel, Failed
from realtime_lrp.system.child import parent_channel
from realtime_lrp.system.shared import SharedPicture
from realtime_lrp.video.child_source import (
    ALIVE_S,
    TO_CHILD,
    Alive,
    Ended,
    Facts,
    Logged,
    Loop,
    Next,
    Open,
    Pause,
    Seek,
    Sent,
    Shared,
    Skip,
    Step,
)
from realtime_lrp.video.source import Source


def main() -> None:
    """Opens what the parent names and reads it until the parent or the source ends."""
    channel = parent_channel(TO_CHILD)
    first = channel.receive()
    if isinstance(first, Open):
        with suppress(BrokenPipeError):
            try:
                _serve(first, channel)
            except Exception as error:
                channel.send(Failed.by(error))
    os._exit(0)  # a decoder's threads may never end


def _serve(order: Open, channel: Channel) -> None:
    logger = logging.getLogger("realtime_lrp")
    logger.setLevel(order.log_level)
    logger.addHandler(_ToParent(channel))
    requests = _Requests(channel)
    threading.Thread(target=requests.listen, daemon=True).start()
    opener = getattr(importlib.import_module(order.module), order.name)
    memory = None if order.memory is None else SharedPicture(order.memory)
    with opener(*json.loads(order.arguments), threading.Event()) as source:
        requests.source = source
        source.on_wait = _SignsOfLife(channel).send
        _send_pictures(source, requests, memory, channel)


def _send_pictures(
    source: Source, requests: "_Requests", memory: SharedPicture | None, channel: Channel
) -> None:
    sent = _facts(source)
    channel.send(sent)
    while requests.wait_for_next() and (picture := source.read()) is not None:
        facts = _facts(source)
        if facts != sent:
            sent = facts
            channel.send(facts)
        rgb = picture.dtype == np.uint8 and picture.ndim == 3 and picture.shape[2] == 3
        if memory and rgb and memory.fits(picture.shape):
            memory.write(picture)
            channel.send(Shared((picture.shape[0], picture.shape[1], 3), source.timeline))
        else:
            channel.send(Sent(picture, source.timeline))
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
        self.source: Source | None = None

    def wait_for_next(self) -> bool:
        """Waits until a picture is wanted; always true."""
        return self._pictures.acquire()

    def listen(self) -> None:
        """Receives messages until the parent has gone, then ends this process."""
        with suppress(Exception):
            while True:
                self._carry_out(self._channel.receive())
        os._exit(0)

    def _carry_out(self, message: object) -> None:
        if isinstance(message, Next):
            self._pictures.release()
        elif self.source is None:
            pass
        elif isinstance(message, Pause):
            self.source.pause(message.paused)
        elif isinstance(message, Step):
            self.source.step()
        elif isinstance(message, Skip):
            self.source.skip(message.files)
        elif isinstance(message, Seek):
            self.source.seek(message.position)
        elif isinstance(message, Loop):
            self.source.loop(message.on)


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
