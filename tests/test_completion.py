"""Shells complete commands, options and the names of values, and nothing heavy is loaded for it."""

import os
import shutil
import subprocess
import sys

import pytest
from click.shell_completion import get_completion_class

from realtime_lrp.cli import cli

VARIABLE = "_REALTIME_LRP_COMPLETE"
RUN = "import sys; sys.argv[0] = 'realtime-lrp'; from realtime_lrp.__main__ import main; main()"


@pytest.fixture
def completed(monkeypatch):
    """The words of a command line -> what a shell is answered, for the last of them."""

    def complete(*words, shell="bash"):
        kind = get_completion_class(shell)
        monkeypatch.setenv("COMP_WORDS", " ".join(["realtime-lrp", *words]))
        monkeypatch.setenv("COMP_CWORD", words[-1] if shell == "fish" else str(len(words)))
        return kind(cli, {}, "realtime-lrp", VARIABLE).complete().splitlines()

    return complete


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("d",), ["demo", "doctor"]),
        (("live", "--comp"), ["--composite"]),
        (("live", "--pool", ""), ["max", "average"]),
        (("live", "--set", "live.camera_f"), ["live.camera_fps=", "live.camera_format="]),
        (("live", "--set", "lrp.xla="), ["lrp.xla=true", "lrp.xla=false"]),
        (("kiosk", "--hash-pin", "--print"), ["--print-unit"]),  # without asking for a PIN
    ],
)
def test_words_are_completed(words, expected, completed, monkeypatch):
    """By bash's protocol; options that do something at once do not."""
    monkeypatch.setattr("click.prompt", None)
    assert completed(*words) == [f"plain,{word}" for word in expected]


@pytest.mark.skipif(not shutil.which("bash"), reason="not installed: bash")
def test_bash_completes_with_what_the_program_prints(tmp_path):
    """The function that users put into their .bashrc, called as bash calls it."""
    program = tmp_path / "realtime-lrp"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{RUN}" "$@"\n')
    program.chmod(0o755)
    script = (
        f'eval "$({VARIABLE}=bash_source realtime-lrp)" && complete -p realtime-lrp\n'
        "COMP_WORDS=(realtime-lrp live --composite epsilon_g) COMP_CWORD=3\n"
        '_realtime_lrp_completion realtime-lrp; echo "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    complete, answer = done.stdout.splitlines()
    assert complete.endswith("-F _realtime_lrp_completion realtime-lrp")
    assert answer == "epsilon_gamma_box"
