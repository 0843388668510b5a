"""Forked child processes are what new ones are, except that they begin sooner."""

import contextlib
import os
import signal
import subprocess
import sys
from importlib.metadata import version

import psutil
import pytest
from faults.clock import until
from media import recording
from program import start

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


def test_the_program_is_forked_with_tensorflow(tmp_path):
    """It says its version, refuses what it does not know, and computes with all its threads."""
    words = []
    while not words:  # where it has ended before it is looked at
        with start("--version", cwd=tmp_path) as process:
            with contextlib.suppress(psutil.ZombieProcess):
                words = psutil.Process(process.pid).cmdline()
            told, _ = process.communicate(timeout=120)
    assert "forks.py" in " ".join(words), "it was not forked"
    assert (process.returncode, told.split()[-1]) == (0, version("realtime_lrp"))
    with start("lice") as process:
        assert "Did you mean 'live'" in process.communicate(timeout=120)[1]
        assert process.returncode == 2


def test_a_forked_script_has_tensorflow(tmp_path, heavy_scripts):
    """Without the time that importing it takes; it computes, in threads of its own."""
    (tmp_path / "script.py").write_text(
        "import os, sys\n"
        "print('tensorflow' in sys.modules, sys.argv[1:], len(os.listdir('/proc/self/task')))\n"
        "from realtime_lrp.engine.tensorflow import tf\n"
        "print(int(tf.constant(20) + 3), len(os.listdir('/proc/self/task')) > 1)\n"
    )
    command = [sys.executable, "script.py", "word"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "True ['word'] 1\n23 True\n"


def test_a_fork_that_fails_says_why_and_flushes_what_it_prints(tmp_path):
    """As a new process: the traceback, exit code 1; and an answer with exit code 0."""
    command = module_command("realtime_lrp.video.film_tags")
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, "IndexError" in done.stderr) == (1, True)
    path = recording(tmp_path / "film.mp4", count=2, metadata={"description": "said"})
    done = subprocess.run([*command, path], capture_output=True, text=True)
    assert (done.returncode, "said" in done.stdout) == (0, True)


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
