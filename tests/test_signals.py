"""SIGTERM, SIGHUP and Ctrl-C end a command wherever it is, after its clean-up, with their code."""

import os
import signal
import subprocess
import sys
import time

import pytest

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
PLACES = [
    "in_del", "in_gc_callback", "in_ctypes_callback", "in_a_library_that_exits_otherwise",
    "nowhere_special",
]  # fmt: skip
AT_ONCE = ("nowhere_special", "in_a_library_that_exits_otherwise")
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
    """Also where Python discards exceptions; the clean-up runs once, and to its end."""
    code, lines, err, seconds = ended(where, number)
    assert code == CODES[number]
    assert lines[-2:] == ["cleans up", "cleaned up"]
    assert "was never stopped" not in lines and lines.count("cleans up") == 1
    assert ("goes on" in lines) is (where not in AT_ONCE)
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


@pytest.mark.parametrize(
    ("words", "where", "viewer", "number"),
    [
        *((*start, signal.SIGTERM) for start in STARTS),
        (*STARTS[0], signal.SIGINT),
        (*STARTS[0], signal.SIGHUP),
    ],
)
def test_a_viewer_that_is_stopped_while_it_starts_ends_with_0(words, where, viewer, number):
    """Whatever prints or writes a file has the code of the signal, and so has SIGHUP always."""
    code = STARTING.format(number=int(number), where=where, words=words)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
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


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("return 0", 0),
        ("raise ValueError('a bug')", 70),
        ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(20)", 143),
    ],
)
def test_a_folder_that_a_thread_holds_is_gone_at_the_end(ending, code, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    script = PROGRAM.format(ending=ending)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=240)
    assert done.returncode == code, done.stderr
    assert list(tmp_path.iterdir()) == []
