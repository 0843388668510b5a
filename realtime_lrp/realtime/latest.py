"""A slot between two threads: it holds one item, the newest."""

import threading
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Item(Generic[T]):
    """The contents of a slot; equal to itself alone."""

    value: T
    number: int  # 1 for the first item, then one more for each
    time: float  # `time.monotonic()` when the picture was captured, in seconds
    source: str = ""  # the file or camera that it comes from, in words; "" where nobody asks


class Slot(Generic[T]):
    """Holds the newest item. Producers overwrite it and never wait."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._item: Item[T] | None = None

    def put(self, value: T, time: float, source: str = "") -> None:
        with self._changed:
            self._item = Item(value, self.count + 1, time, source)
            self._changed.notify_all()

    def newest(self, after: int = 0, timeout_s: float = 0.0) -> Item[T] | None:
        """The newest item if its number is above `after`, else None after the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: self.count > after, timeout_s)
            return self._item if self.count > after else None

    @property
    def count(self) -> int:
        item = self._item
        return item.number if item else 0
