"""Signs of life of the child process: they tell its parent slow work from a decoder that hangs."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from realtime_lrp.commands.video.messages import Written
from realtime_lrp.system.channel import Channel

EVERY_S = 1.0


@contextmanager
def alive_while(channel: Channel, progress: Callable[[], int | None]) -> Iterator[None]:
    """Sends a sign of life at once, and each second in which there was progress.

    Args:
      channel: to the parent.
      progress: how much is done, from 0; None once all is decoded, when nothing can hang any more.
    """
    ended = threading.Event()

    def send() -> None:
        before: int | None = None
        wait_s = 0.0
        with suppress(OSError, ValueError):
            while not ended.wait(wait_s):
                now, wait_s = progress(), EVERY_S
                if now is None or now != before:
                    before = now
                    channel.send(Written(0))

    threading.Thread(target=send, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
