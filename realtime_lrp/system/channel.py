"""Messages between this process and a child of it that decodes what comes from strangers.

They are data alone, each of a type that is agreed upon: whoever takes over a child by a damaged
file or stream can send wrong pictures, but nothing that runs here.
"""

import os
import threading
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec
import numpy as np

from realtime_lrp import errors

KINDS = ("uint8", "int8", "float32")
"""Numbers that arrays may hold."""

ARRAY = tuple[str, tuple[Annotated[int, msgspec.Meta(ge=0)], ...], bytearray]
"""An array on its way: what it holds, its shape, its bytes."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """What ended the child.

    Attributes:
      kind: the name of an error out of `errors`, or "OSError".
      message: what it says.
      errno: of an `OSError`.
    """

    kind: str
    message: str
    errno: int = 0

    @classmethod
    def by(cls, error: Exception) -> "Failed":
        """What tells of an exception."""
        if isinstance(error, errors.Error):
            return cls(type(error).__name__, str(error))
        if isinstance(error, OSError):
            return cls("OSError", error.strerror or str(error), error.errno or 0)
        return cls("RuntimeError", f"{type(error).__name__}: {error}")

    def error(self) -> Exception:
        """The exception that it tells of."""
        if self.kind == "OSError":
            return OSError(self.errno, self.message)
        kind = getattr(errors, self.kind, None)
        if isinstance(kind, type) and issubclass(kind, errors.Error):
            return kind(self.message)
        return RuntimeError(self.message)


class Channel:
    """Messages over two byte streams, sent from any thread.

    Args:
      incoming, outgoing: the streams.
      expected: the type of what is received: a `msgspec.Struct` with a tag, or several joined by |.
    """

    def __init__(self, incoming: IO[bytes], outgoing: IO[bytes], expected: Any):
        self._incoming, self._outgoing = incoming, outgoing
        self._lock = threading.Lock()
        self._decoder = msgspec.msgpack.Decoder(expected, dec_hook=_read)

    def send(self, message: msgspec.Struct) -> None:
        """Raises `OSError` where nobody listens."""
        try:
            data = msgspec.msgpack.encode(message, enc_hook=_written)
        except UnicodeEncodeError:
            data = msgspec.msgpack.encode(_encodable(message), enc_hook=_written)
        with self._lock:
            self._outgoing.write(len(data).to_bytes(4))
            self._outgoing.write(data)
            self._outgoing.flush()

    def receive(self) -> Any:
        """Waits for a message.

        Raises:
          EOFError: none will come.
          ValueError: what came is not of the expected type.
        """
        data = self._exactly(int.from_bytes(self._exactly(4)))
        try:
            return self._decoder.decode(data)
        except msgspec.MsgspecError as error:
            raise ValueError(f"what nobody understands ({error})") from None

    def _exactly(self, count: int) -> bytes:
        data = self._incoming.read(count)
        if data is None or len(data) < count:
            raise EOFError
        return data


def _written(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        data = np.ascontiguousarray(value).reshape(-1).view(np.uint8).data
        return [value.dtype.name, value.shape, data]
    if isinstance(value, Path):
        return os.fsencode(value)
    raise NotImplementedError(type(value).__name__)


def _encodable(part: Any) -> Any:
    """A message whose texts hold what no encoding knows, which names of files may: escaped."""
    if isinstance(part, str):
        return part.encode(errors="backslashreplace").decode()
    if isinstance(part, msgspec.Struct):
        fields = msgspec.structs.asdict(part)
        return msgspec.structs.replace(part, **{k: _encodable(v) for k, v in fields.items()})
    if isinstance(part, list | tuple):
        return [_encodable(one) for one in part]
    return part


def _read(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(os.fsdecode(value))
    if kind is not np.ndarray:
        raise NotImplementedError(kind.__name__)
    name, shape, data = msgspec.convert(value, ARRAY)
    if name not in KINDS:
        raise ValueError(f"an array of {name}")
    return np.frombuffer(data, name).reshape(shape)
