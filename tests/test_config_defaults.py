"""Every value is decided when a configuration is loaded, and its origin is known."""

from pathlib import Path

import pytest

from realtime_lrp import config
from realtime_lrp.config.keys import COMMAND_KEYS


def decided(settings):
    """The values of the keys whose default depends on the command."""
    chosen = settings.config
    return chosen.model.name, chosen.lrp.composite, chosen.lrp.target, chosen.input.mirror


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("", ("vgg16", "auto", "all", False)),
        ("image", ("vgg16", "auto", "all", False)),
        ("bench", ("vgg16", "auto", "all", False)),
        ("live", ("vgg16", "auto", "top1", False)),
        ("demo", ("shapes", "auto", "top1", False)),
        ("kiosk", ("shapes", "auto", "top1", True)),
        ("evaluate", ("shapes", "auto", "all", False)),
    ],
)
def test_each_command_has_its_defaults(command, expected):
    """Without a file, with the manual of the repository, and with null for each of these keys."""
    nothing = config.load(command=command)
    assert decided(nothing) == expected
    assert (
        decided(config.load(Path(__file__).parents[1] / "config.yaml", command=command)) == expected
    )
    nulls = tuple(f"{key}=null" for key in COMMAND_KEYS)
    assert decided(config.load(sets=nulls, command=command)) == expected
    for key, origin in nothing.origins.items():
        assert origin in ("default", f"default of {command}") and not nothing.is_set(key)


def test_what_is_set_wins_over_the_default_of_a_command(tmp_path):
    """From a file, from --set and from an option; each has its origin."""
    file = tmp_path / "my.yaml"
    file.write_text("input:\n  mirror: false\nlrp: {target: all}\n")
    settings = config.load(file, ("lrp.pool=average",), {"--model": "vgg19"}, command="kiosk")
    assert decided(settings) == ("vgg19", "auto", "all", False)
    assert {key: settings.origins[key] for key in COMMAND_KEYS} == {
        "input.mirror": f"{file}:2", "lrp.target": f"{file}:3", "model.name": "--model",
    }  # fmt: skip
    assert all(map(settings.is_set, (*COMMAND_KEYS, "lrp.pool")))
    assert settings.origins["lrp.pool"] == "--set" and not settings.is_set("lrp.start")


def test_a_printed_configuration_does_not_freeze_the_defaults_of_commands(tmp_path):
    """They stand in comments; what a command used is printed as a value."""
    file = tmp_path / "my.yaml"
    file.write_text(config.as_yaml(config.load(sets=("model.name=vgg19",))))
    assert "\n  name: vgg19  #" in file.read_text()
    assert "\n  # target: all  #" in file.read_text()
    assert decided(config.load(file, command="live")) == ("vgg19", "auto", "top1", False)
    used = config.as_yaml(config.load(command="live"))
    assert "\n  target: top1  #" in used and "[default of live]\n" in used
