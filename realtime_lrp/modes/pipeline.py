"""Work that runs ahead: a bounded, ordered pipeline of threads."""

import queue
import threading
from collections.abc import Generator, Iterable
from typing import TypeVar

Item = TypeVar("Item")

_END = object()


def ahead(items: Iterable[Item], most: int) -> Generator[Item, None, None]:
    """Yields the items in order while a thread makes the next ones.

    Args:
      items: made in the thread, which alone touches the iterator. What it raises is raised here,
        after the items before it. Closing this generator ends the thread and closes the iterator.
      most: how many items may be ready and waiting.
    """
    ready: queue.Queue = queue.Queue(most)
    stopped = threading.Event()

    def put(item) -> None:
        while not stopped.is_set():
            try:
                return ready.put(item, timeout=0.1)
            except queue.Full:
                continue

    def work() -> None:
        iterator: Iterable[Item] = ()
        try:
            iterator = iter(items)
            for item in iterator:
                put((item, None))
                if stopped.is_set():
                    break
            put((_END, None))
        except BaseException as error:
            put((_END, error))
        finally:
            if hasattr(iterator, "close"):
                iterator.close()

    thread = threading.Thread(target=work, name="ahead", daemon=True)
    thread.start()
    try:
        while True:
            item, error = ready.get()
            if error is not None:
                raise error
            if item is _END:
                return
            yield item
    finally:
        stopped.set()
        thread.join()
