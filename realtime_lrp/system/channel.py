"""Messages between a process and its child, which decodes untrusted files and streams.

Messages are plain data of expected types. Whoever takes over a child with a crafted file can send
wrong pictures, but nothing that is executed here.
"""

import os
import threading
import traceback
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec
import numpy as np

from realtime_lrp import errors

MOST_TRACEBACK = 10_000
"""Characters of a child's traceback that are kept, from its end."""

MOST_BYTES = 2**31
"""Maximum size of a message, so that a hostile child cannot make its parent take more memory."""

KINDS = ("uint8", "int8", "float32")
"""Types of array elements that may be sent."""

ARRAY = tuple[str, tuple[Annotated[int, msgspec.Meta(ge=0)], ...], bytearray]
"""An array in a message: element type, shape, bytes."""


BUGS = (TypeError, AttributeError, NameError, AssertionError, ImportError)
"""Exceptions that no input should cause."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The exception that ended the child, with its traceback.

    Its kind is the name of an error in `errors`, "OSError", "memory", "bug" or "other".
    """

    kind: str
    message: str
    errno: int = 0
    traceback: str = ""

    @classmethod
    def by(cls, error: Exception) -> "Failed":
        trace = "".join(traceback.format_exception(error))
        if isinstance(error, errors.InternalError):  # its message gets its second line again
            return cls("InternalError", errors.first_line(error), 0, trace)
        if isinstance(error, errors.Error):
            return cls(type(error).__name__, str(error), 0, trace)
        if isinstance(error, OSError):
            return cls("OSError", error.strerror or str(error), error.errno or 0, trace)
        kind = "other"
        if isinstance(error, BUGS):
            kind = "bug"
        elif isinstance(error, MemoryError):
            kind = "memory"
        return cls(kind, f"{type(error).__name__}: {error}", 0, trace)

    def error(self) -> Exception:
        """The exception with its traceback; a `RuntimeError` for "memory", "bug" and "other"."""
        return self.noted(self._error())

    def noted(self, error: Exception) -> Exception:
        """Adds the child's traceback to an exception, which Python prints below its own."""
        if self.traceback:
            error.add_note(f"In the child process:\n{self.traceback[-MOST_TRACEBACK:]}")
        return error

    def _error(self) -> Exception:
        if self.kind == "OSError":
            return OSError(self.errno, self.message)
        kind = getattr(errors, self.kind, None)
        if isinstance(kind, type) and issubclass(kind, errors.Error):
            return kind(self.message)
        return RuntimeError(self.message)


class Channel:
    """Messages over two byte streams, sent from any thread.

    `expected` is a tagged `msgspec.Struct`, or several joined by |.
    """

    def __init__(self, incoming: IO[bytes], outgoing: IO[bytes], expected: Any):
        self._incoming, self._outgoing = incoming, outgoing
        self._lock = threading.Lock()
        self._decoder = msgspec.msgpack.Decoder(expected, dec_hook=_from_plain)

    def send(self, message: msgspec.Struct) -> None:
        """Sends a message. Raises `OSError` if the other process has ended."""
        try:
            data = msgspec.msgpack.encode(message, enc_hook=_to_plain)
        except UnicodeEncodeError:
            data = msgspec.msgpack.encode(_encodable(message), enc_hook=_to_plain)
        with self._lock:
            self._outgoing.write(len(data).to_bytes(4))
            self._outgoing.write(data)
            self._outgoing.flush()

    def receive(self) -> Any:
        """Waits for a message; raises `EOFError` at the end, `ValueError` for what is none."""
        size = int.from_bytes(self._exactly(4))
        if size > MOST_BYTES:
            raise ValueError(f"Expected at most {MOST_BYTES} bytes. Received {size}.")
        data = self._exactly(size)
        try:
            return self._decoder.decode(data)
        except msgspec.MsgspecError as error:
            raise ValueError(f"no message of the expected type ({error})") from None

    def _exactly(self, count: int) -> bytes:
        data = self._incoming.read(count)
        if data is None or len(data) < count:
            raise EOFError
        return data


def _to_plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        data = np.ascontiguousarray(value).reshape(-1).view(np.uint8).data
        return [value.dtype.name, value.shape, data]
    if isinstance(value, Path):
        return os.fsencode(value)
    raise NotImplementedError(type(value).__name__)


def _encodable(part: Any) -> Any:
    """The message with escapes in texts that UTF-8 cannot hold, for example in file names."""
    if isinstance(part, str):
        return part.encode(errors="backslashreplace").decode()
    if isinstance(part, msgspec.Struct):
        fields = msgspec.structs.asdict(part)
        return msgspec.structs.replace(part, **{k: _encodable(v) for k, v in fields.items()})
    if isinstance(part, list | tuple):
        return [_encodable(one) for one in part]
    return part


def _from_plain(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(os.fsdecode(value))
    if kind is not np.ndarray:
        raise NotImplementedError(kind.__name__)
    name, shape, data = msgspec.convert(value, ARRAY)
    if name not in KINDS:
        raise ValueError(f"an array of {name}")
    return np.frombuffer(data, name).reshape(shape)
