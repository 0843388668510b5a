"""Temporary folders are gone at the end, whoever holds them and however the program ends."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.usefixtures("light_scripts")

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
    """The process ends while the thread goes on."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    script = PROGRAM.format(ending=ending)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=240)
    assert done.returncode == code, done.stderr
    assert list(tmp_path.iterdir()) == []
