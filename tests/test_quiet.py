"""What libraries print on standard error is captured; what this program says is not."""

import errno
import io
import os
import pickle
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

from realtime_lrp.errors import DamagedInputError, OutputError
from realtime_lrp.system.child import MOST_BYTES, Channel, Failed
from realtime_lrp.system.files import atomic_file
from realtime_lrp.system.shared import SharedPicture

CAPTURED = """
import logging, os, threading
from realtime_lrp.errors import UsageError
from realtime_lrp.system import program
from realtime_lrp.system.terminal import captured_stderr

begun, done = threading.Event(), threading.Event()

def load():
    with captured_stderr() as printed:
        os.write(2, b"a line of a library\\n")
        begun.set()
        done.wait(60)
    open("printed", "w").write("\\n".join(printed))

def main():
    thread = threading.Thread(target=load, daemon=True)
    thread.start()
    begun.wait(60)
    logging.warning("the camera is gone")
    if {ends}:
        raise UsageError("There is no such source.")
    done.set()
    thread.join()
    logging.warning("it is back")

program.set_verbosity(0, False)
program.end_process(lambda: program.run(main))
"""


@pytest.mark.parametrize(
    ("ends", "code", "then"),
    [(True, 2, "There is no such source."), (False, 0, "it is back")],
)
def test_only_what_libraries_print_is_captured(ends, code, then, tmp_path):
    """The log gets through; an error too, without waiting for a thread that imports TensorFlow."""
    command = [sys.executable, "-c", CAPTURED.format(ends=ends)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    told = ["realtime-lrp: the camera is gone", f"realtime-lrp: {then}"]
    assert (done.returncode, done.stderr.splitlines()) == (code, told)
    assert ends or (tmp_path / "printed").read_text() == "a line of a library"


def test_an_error_leaves_nothing_new(tmp_path, monkeypatch):
    """Whatever it is: the old file stays, the unfinished one goes; so it does for another job's."""
    target = tmp_path / "a.txt"
    target.write_text("old")
    for error in (KeyboardInterrupt, ValueError, OutputError):
        with pytest.raises(error), atomic_file(target, overwrite=True) as part:
            part.write_text("half")
            raise error
        assert os.listdir(tmp_path) == ["a.txt"] and target.read_text() == "old"
    target.unlink()

    def link(part, name):
        target.write_text("theirs")  # it was faster, at the last moment
        raise FileExistsError

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(OutputError, match="exists"), atomic_file(target) as part:
        part.write_text("ours")
    assert os.listdir(tmp_path) == ["a.txt"] and target.read_text() == "theirs"


class Shown(msgspec.Struct, tag=True):
    """A message."""

    picture: np.ndarray
    names: tuple[str, ...]
    path: Path


class Other(msgspec.Struct, tag=True):
    """Another one."""

    seconds: float


def sent(*messages):
    stream = io.BytesIO()
    for message in messages:
        Channel(stream, stream, Shown).send(message)
    return stream.getvalue()


def received(data):
    return Channel(io.BytesIO(data), io.BytesIO(), Shown | Other | Failed).receive()


@pytest.mark.parametrize("kind", ["uint8", "int8", "float32"])
def test_arrays_texts_and_paths_arrive_as_they_were(rng, kind):
    """Also what lies backwards in memory, is empty, or is named like nothing in UTF-8."""
    picture = rng.integers(0, 100, (7, 5, 3)).astype(kind)[:, ::-1]
    name = os.fsdecode(b"b\xff.mp4")
    shown = received(sent(Shown(picture, ("x", name), Path(name))))
    np.testing.assert_array_equal(shown.picture, picture)
    assert shown.picture.dtype == kind and shown.picture.flags.writeable
    assert shown.path == Path(name) and shown.names == ("x", "b\\udcff.mp4")
    assert received(sent(Shown(picture[:0], (), Path()))).picture.shape == (0, 5, 3)


def test_errors_arrive_as_what_they_are():
    """Ours by their class, the system's with their number; no other class can be named."""
    message = Failed.by(DamagedInputError("no"))
    assert (type(message.error()), str(message.error())) == (DamagedInputError, "no")
    error = Failed.by(OSError(errno.ENOSPC, "full")).error()
    assert isinstance(error, OSError) and error.errno == errno.ENOSPC
    assert str(Failed.by(KeyError("x")).error()) == "KeyError: 'x'"
    for kind in ("get_close_matches", "first_line", "__builtins__", "Iterable", "nothing"):
        assert type(Failed(kind, "x").error()) is RuntimeError


class Runs:
    """What a pickle would do."""

    def __reduce__(self):
        return os.system, ("touch ran",)


def test_what_is_no_message_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = {"type": "Shown", "names": [], "path": b"x"}
    pictures = (
        ["object", [1], b"12345678"], ["uint8", [2, 2], b"123"], ["uint8", [-1], b""],
        ["float64", [1], b"12345678"], "x", [],
    )  # fmt: skip
    wrong = [{"type": "Unknown"}, {"type": "Other", "seconds": "soon"}, [1, 2]]
    wrong += [{**shown, "picture": picture} for picture in pictures]
    for body in (pickle.dumps(Runs()), *map(msgspec.msgpack.encode, wrong)):
        with pytest.raises(ValueError):
            received(len(body).to_bytes(4) + body)
    assert list(tmp_path.iterdir()) == []


def test_a_stream_that_ends_in_the_middle_says_so():
    """At every byte; a message beyond any size is refused before memory is taken for it."""
    data = sent(Shown(np.zeros((2, 2), np.uint8), (), Path("x")))
    for length in range(len(data)):
        with pytest.raises(EOFError):
            received(data[:length])
    with pytest.raises(ValueError, match="at most"):
        received((MOST_BYTES + 1).to_bytes(4))


def test_shared_memory_keeps_its_size(rng):
    """A child that shrank it would crash its parent, and one that let it grow fill the memory."""
    memory = SharedPicture.create(10**6)
    picture = rng.integers(0, 256, (300, 400, 3), np.uint8)
    memory.write(picture)
    for size in (1000, 10**7):
        with pytest.raises(PermissionError):
            os.ftruncate(memory.descriptor, size)
    read = memory.read(picture.shape)
    memory.write(picture[::-1])
    np.testing.assert_array_equal(read, picture)
    np.testing.assert_array_equal(memory.read(picture.shape), picture[::-1])
    assert memory.fits((1000, 1000)) and not memory.fits((1000, 1001))
    memory.close()
