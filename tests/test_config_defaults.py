"""Every value is decided when a configuration is loaded, and its origin is known."""

from pathlib import Path

import pytest

from realtime_lrp import config
from realtime_lrp.config.defaults import COMMAND_KEYS

ROOT = Path(__file__).parents[1]
VIEWER = "epsilon_plus_flat"


def decided(settings):
    """The values of the keys whose default depends on the command."""
    chosen = settings.config
    return chosen.model.name, chosen.lrp.composite, chosen.lrp.target, chosen.input.mirror


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("", ("vgg16", "zplus", "all", False)),
        ("image", ("vgg16", "zplus", "all", False)),
        ("video", ("vgg16", "zplus", "all", False)),
        ("inspect", ("vgg16", "zplus", "all", False)),
        ("bench", ("vgg16", "zplus", "all", False)),
        ("live", ("vgg16", VIEWER, "all", False)),
        ("demo", ("shapes", VIEWER, "all", False)),
        ("kiosk", ("shapes", VIEWER, "top1", True)),
        ("evaluate", ("shapes", "zplus", "all", False)),
    ],
)
def test_each_command_has_its_defaults(command, expected):
    """Without a file, with the manual of the repository, and with null for each of these keys."""
    nothing = config.load(command=command)
    assert decided(nothing) == expected
    assert decided(config.load(ROOT / "config.yaml", command=command)) == expected
    nulls = tuple(f"{key}=null" for key in COMMAND_KEYS)
    assert decided(config.load(sets=nulls, command=command)) == expected
    for key, origin in nothing.origins.items():
        assert origin in ("default", f"default of {command}") and not nothing.is_set(key)


def test_what_is_set_wins_over_the_default_of_a_command(tmp_path):
    """From a file, from --set and from an option; each has its origin."""
    file = tmp_path / "my.yaml"
    file.write_text("input:\n  mirror: false\nlrp: {target: all}\n")
    settings = config.load(file, ("lrp.composite=zplus",), {"--model": "vgg19"}, command="kiosk")
    assert decided(settings) == ("vgg19", "zplus", "all", False)
    assert {key: settings.origins[key] for key in COMMAND_KEYS} == {
        "input.mirror": f"{file}:2", "lrp.target": f"{file}:3", "lrp.composite": "--set",
        "model.name": "--model",
    }  # fmt: skip
    assert all(map(settings.is_set, COMMAND_KEYS)) and not settings.is_set("lrp.pool")


def test_every_key_has_an_origin():
    """Also those that nobody set."""
    settings = config.load(sets=("lrp.keep=0.5",), command="live")
    assert set(settings.origins) >= set(config.legal_keys())
    assert settings.origins["lrp.keep"] == "--set"
    assert settings.origins["lrp.composite"] == "default of live"
    assert settings.origins["lrp.pool"] == "default"


def test_a_printed_configuration_does_not_freeze_the_defaults_of_commands(tmp_path):
    """They stand in comments; what a command used is printed as a value."""
    file = tmp_path / "my.yaml"
    file.write_text(config.as_yaml(config.load(sets=("model.name=vgg19",))))
    assert "\n  name: vgg19  #" in file.read_text()
    assert "\n  # composite: zplus  #" in file.read_text()
    assert decided(config.load(file, command="live")) == ("vgg19", VIEWER, "all", False)
    used = config.as_yaml(config.load(command="live"))
    assert f"\n  composite: {VIEWER}  #" in used and "[default of live]\n" in used


@pytest.mark.parametrize(
    ("sets", "warned"),
    [
        (("lrp.method=gradient",), False),
        (("lrp.composite=epsilon",), False),
        (("lrp.method=gradient", "lrp.composite=epsilon"), True),
        (("lrp.method=gradient", "lrp.composite=null"), False),
        (("lrp.method=gradient", "lrp.layers={Dense: flat}"), True),
    ],
)
def test_settings_that_the_method_does_not_use_are_told(sets, warned, caplog):
    """A composite or rules for layers beside a gradient method, where somebody set them."""
    config.load(sets=sets, command="live")
    assert ("the method gradient uses neither composite nor layers" in caplog.text) is warned
