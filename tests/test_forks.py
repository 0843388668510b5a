"""Forked child processes are what new ones are, except that they begin sooner."""

import os
import signal
import subprocess
import sys

import psutil
import pytest
from faults.clock import until

from realtime_lrp.system.child_command import module_command

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux forks")
SELF = """
import os, sys
files = [n for n in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{n}")]
print(os.getppid(), os.getcwd(), os.environ["MARK"], ",".join(sorted(files)), *sys.argv, flush=True)
"""


def test_a_fork_is_our_child_and_ends_as_others_do(tmp_path, monkeypatch):
    """In a session of its own where that is asked for, in the present folder, killed by number."""
    monkeypatch.chdir(tmp_path)
    child = subprocess.Popen(
        module_command("realtime_lrp.video.picture_child"),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    seen = psutil.Process(child.pid)
    assert "forks.py" in " ".join(seen.cmdline()), "it was not forked"
    assert seen.ppid() == os.getpid()
    until(lambda: os.getsid(child.pid) == child.pid and seen.cwd() == str(tmp_path))
    child.kill()
    assert child.wait(60) == -signal.SIGKILL
    child.stdin.close(), child.stdout.close()


@pytest.mark.parametrize(
    ("code", "ended"),
    [("sys.exit(7)", 7), ("os.kill(os.getpid(), 15)", -15), ("raise KeyError('odd')", 1)],
)
def test_a_forked_script_has_what_a_new_one_has(code, ended, tmp_path, light_scripts):
    """Parent, folder, variables, open files, words and exit code; it prints its own traceback."""
    given = os.open(tmp_path / "given", os.O_CREAT)
    done = subprocess.run(
        [sys.executable, "-c", SELF + code, "word"], stdin=subprocess.DEVNULL, text=True,
        cwd=tmp_path, env={**os.environ, "MARK": "here"}, pass_fds=[given], capture_output=True,
    )  # fmt: skip
    os.close(given)
    assert done.returncode == ended
    files = ",".join(sorted(map(str, (0, 1, 2, given))))
    assert done.stdout.split() == [str(os.getpid()), str(tmp_path), "here", files, "-c", "word"]
    assert ("KeyError: 'odd'" in done.stderr) is (ended == 1)


def test_what_python_reads_at_its_start_gets_a_new_process(tmp_path, monkeypatch):
    """With another PYTHONPATH, and where a test asks for it, nothing is forked."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    child = subprocess.Popen(
        module_command("realtime_lrp.video.picture_child"), stdin=subprocess.DEVNULL
    )
    assert "forks.py" not in " ".join(psutil.Process(child.pid).cmdline())
    child.kill(), child.wait(60)
