"""Compiles the test files once, before several processes collect them.

Rewriting their assertions takes 5 s of CPU in each process that finds no compiled files, so in all
of them in a fresh clone. It is done here by functions of pytest's own that are not public. Where
they fail, each process compiles the files as it would without this.
"""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace


def compile_tests(processes):
    """Compiles the test files beside this one in so many processes."""
    files = sorted(Path(__file__).parent.glob("test_*.py"))
    started = [
        subprocess.Popen(
            [sys.executable, __file__, *files[number::processes]], stderr=subprocess.DEVNULL
        )
        for number in range(processes)
    ]
    for process in started:
        process.wait()


def compile_test(path):
    """Compiles one, unless pytest finds it compiled."""
    from _pytest.assertion import rewrite

    pytest = SimpleNamespace(getini=lambda name: False, trace=lambda text: None)
    compiled = rewrite.get_cache_dir(path) / f"{path.stem}{rewrite.PYC_TAIL}"
    if rewrite._read_pyc(path, compiled) is None:
        compiled.parent.mkdir(exist_ok=True)
        state, code = rewrite._rewrite_test(path, pytest)
        rewrite._write_pyc(pytest, code, state, compiled)


if __name__ == "__main__":
    for word in sys.argv[1:]:
        compile_test(Path(word))
