"""Shells complete commands, options and the names of values, and nothing heavy is loaded for it."""

import pytest
from click.shell_completion import get_completion_class

from realtime_lrp.cli import cli

VARIABLE = "_REALTIME_LRP_COMPLETE"


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
