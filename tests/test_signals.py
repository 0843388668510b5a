"""SIGTERM, SIGHUP and Ctrl-C end a command wherever it is, after its clean-up, with their code."""

import errno
import io
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest

from realtime_lrp.errors import DamagedInputError, OutputError
from realtime_lrp.system.child import MOST_BYTES, Channel, Failed
from realtime_lrp.system.files import atomic_file
from realtime_lrp.system.shared import SharedPicture

pytestmark = pytest.mark.usefixtures("light_scripts")

SCRIPT = """
import ctypes, gc, os, signal, sys, threading, time
from pathlib import Path
from realtime_lrp.cli import cli, process
from realtime_lrp.system.files import atomic_file
from realtime_lrp.system.signals import stops_unchanged

def hit():
    os.kill(os.getpid(), {number})
    for _ in range(1000):  # the handler runs between these steps
        pass

class Hit:
    def __del__(self):
        hit()

def in_del():
    Hit()

def in_gc_callback():
    def callback(phase, info):
        gc.callbacks.remove(callback)
        hit()
    gc.callbacks.append(callback)
    gc.collect()

def in_a_library_that_exits_otherwise():
    with stops_unchanged():
        try:
            hit()
        except SystemExit:
            sys.exit(1)

def in_ctypes_callback():
    ctypes.CFUNCTYPE(None)(hit)()

def nowhere_special():
    hit()

def while_a_thread_writes():
    begun = threading.Event()
    def write():
        with atomic_file(Path("film.mp4")) as part:
            part.touch()
            begun.set()
            time.sleep(200)
    threading.Thread(target=write, daemon=True).start()
    begun.wait()
    hit()

@cli.command()
def wait():
    try:
        {where}()
        print("goes on", flush=True)
        time.sleep(200)
        print("was never stopped")
    finally:
        print("cleans up", flush=True)
        time.sleep({cleaning_s})
        print("cleaned up", flush=True)

sys.argv = ["realtime-lrp", "wait"]
process()
"""
PLACES = ["in_del", "in_gc_callback", "in_ctypes_callback"]
PLACES += ["in_a_library_that_exits_otherwise", "nowhere_special"]  # where it ends at once
CODES = {signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGINT: 130}


def ended(where, number, cleaning_s=0.2, send=()):
    """Exit code, lines on stdout, stderr and seconds of a command that is stopped somewhere."""
    code = SCRIPT.format(where=where, number=int(number), cleaning_s=cleaning_s)
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    begun = time.monotonic()
    lines = []
    for line in process.stdout:
        lines.append(line.strip())
        if lines[-1] in send:
            process.send_signal(number)
    _, err = process.communicate(timeout=120)
    return process.returncode, lines, err, time.monotonic() - begun


@pytest.mark.parametrize(
    ("where", "number"),
    [
        ("in_del", signal.SIGHUP), ("in_gc_callback", signal.SIGINT),
        ("nowhere_special", signal.SIGTERM), ("in_a_library_that_exits_otherwise", signal.SIGTERM),
        *(pytest.param(where, signal.SIGTERM, marks=pytest.mark.release) for where in PLACES),
    ],
)  # fmt: skip
def test_a_signal_ends_a_command_wherever_it_comes(where, number):
    code, lines, err, seconds = ended(where, number)
    assert code == CODES[number]
    assert lines[-2:] == ["cleans up", "cleaned up"]
    assert "was never stopped" not in lines and lines.count("cleans up") == 1
    assert ("goes on" in lines) is (where not in PLACES[-2:])
    assert "SystemExit" not in err and "KeyboardInterrupt" not in err
    assert seconds < 100


def test_the_second_signal_of_a_user_ends_at_once():
    code, lines, _, seconds = ended("in_del", signal.SIGTERM, 200, send=["cleans up"])
    assert code == 143 and lines[-1] == "cleans up"
    assert seconds < 100


def test_what_another_thread_writes_is_removed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert ended("while_a_thread_writes", signal.SIGTERM)[0] == 143
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT], ids=lambda number: number.name)
def test_what_is_ignored_stays_ignored(number):
    code = (
        f"import os, signal\nsignal.signal({int(number)}, signal.SIG_IGN)\n"
        "from realtime_lrp.system.signals import raise_on_signals\nraise_on_signals()\n"
        f"os.kill(os.getpid(), {int(number)})\nprint('goes on')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=240, env=os.environ
    )
    assert done.stdout == "goes on\n" and done.returncode == 0


STARTING = """
import os, sys, time
from realtime_lrp import config
from realtime_lrp.cli import process
from realtime_lrp.view import window

def stop(*_, **__):
    os.kill(os.getpid(), {number})
    time.sleep(20)

class StopAtImport:
    def find_spec(self, name, *_):
        if name == {where!r}:
            stop()

sys.meta_path.insert(0, StopAtImport())
if {where!r} == "config.load":
    config.load = stop
window.display_reachable = lambda: True
sys.argv = ["realtime-lrp", *{words!r}]
process()
"""


STARTS = [
    (["live"], "realtime_lrp.commands.live.run", True),
    (["kiosk"], "config.load", True),
    (["kiosk", "--print-unit"], "config.load", False),
    (["demo"], "realtime_lrp.commands.demo", True),
    (["demo", "-o", "demo.mp4"], "realtime_lrp.commands.demo", False),
]  # command lines, where they are stopped, and whether they are viewers


def test_a_viewer_that_is_stopped_while_it_starts_ends_with_0():
    for words, where, viewer, number in (
        *((*start, signal.SIGTERM) for start in STARTS),
        (*STARTS[0], signal.SIGINT),
        (*STARTS[0], signal.SIGHUP),
    ):
        code = STARTING.format(number=int(number), where=where, words=words)
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=240
        )
        normal = viewer and number != signal.SIGHUP
        assert done.returncode == (0 if normal else CODES[number]), done.stderr
        assert done.stdout == "" and "Traceback" not in done.stderr


PROGRAM = """
import os, signal, sys, threading, time
from realtime_lrp.system import program
from realtime_lrp.system.files import temporary_folder

held = threading.Event()

def hold():
    with temporary_folder() as folder:
        (folder / "weights").write_bytes(bytes(1 << 20))
        held.set()
        time.sleep(600)

def command():
    threading.Thread(target=hold, daemon=True).start()
    held.wait()
    {ending}

program.end_process(lambda: program.run(command))
"""


def test_a_folder_that_a_thread_holds_is_gone_at_the_end(tmp_path, monkeypatch):
    for ending, code in (
        ("return 0", 0),
        ("raise ValueError('a bug')", 70),
        ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(20)", 143),
    ):
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        script = PROGRAM.format(ending=ending)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=240)
        assert done.returncode == code, done.stderr
        assert list(tmp_path.iterdir()) == []


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


def test_only_what_libraries_print_is_captured(tmp_path):
    for ends, code, then in ((True, 2, "There is no such source."), (False, 0, "it is back")):
        command = [sys.executable, "-c", CAPTURED.format(ends=ends)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        told = ["realtime-lrp: the camera is gone", f"realtime-lrp: {then}"]
        assert (done.returncode, done.stderr.splitlines()) == (code, told)
        assert ends or (tmp_path / "printed").read_text() == "a line of a library"


def test_an_error_leaves_nothing_new(tmp_path, monkeypatch):
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
    picture: np.ndarray
    names: tuple[str, ...]
    path: Path


class Other(msgspec.Struct, tag=True):
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
    picture = rng.integers(0, 100, (7, 5, 3)).astype(kind)[:, ::-1]
    name = os.fsdecode(b"b\xff.mp4")
    shown = received(sent(Shown(picture, ("x", name), Path(name))))
    np.testing.assert_array_equal(shown.picture, picture)
    assert shown.picture.dtype == kind and shown.picture.flags.writeable
    assert shown.path == Path(name) and shown.names == ("x", "b\\udcff.mp4")
    assert received(sent(Shown(picture[:0], (), Path()))).picture.shape == (0, 5, 3)


def test_errors_arrive_as_what_they_are():
    message = Failed.by(DamagedInputError("no"))
    assert (type(message.error()), str(message.error())) == (DamagedInputError, "no")
    error = Failed.by(OSError(errno.ENOSPC, "full")).error()
    assert isinstance(error, OSError) and error.errno == errno.ENOSPC
    assert str(Failed.by(KeyError("x")).error()) == "KeyError: 'x'"
    for kind in ("get_close_matches", "first_line", "__builtins__", "Iterable", "nothing"):
        assert type(Failed(kind, "x").error()) is RuntimeError


class Runs:
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
