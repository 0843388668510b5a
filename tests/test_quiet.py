"""What libraries print on standard error is captured; what this program says is not."""

import subprocess
import sys

CAPTURED = """
import logging, os, threading
from realtime_lrp.errors import UsageError
from realtime_lrp.system import program
from realtime_lrp.system.quiet import captured_stderr

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


def captured(ends, folder):
    code = CAPTURED.format(ends=ends)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder)


def test_an_error_is_told_although_a_thread_still_imports_tensorflow(tmp_path):
    """The process ends without waiting for the thread: the message and the log are there."""
    done = captured(True, tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "realtime-lrp: the camera is gone", "realtime-lrp: There is no such source.",
    ]  # fmt: skip


def test_only_what_libraries_print_is_captured(tmp_path):
    """Afterwards standard error is what it was."""
    done = captured(False, tmp_path)
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "realtime-lrp: the camera is gone", "realtime-lrp: it is back",
    ]  # fmt: skip
    assert (tmp_path / "printed").read_text() == "a line of a library"
