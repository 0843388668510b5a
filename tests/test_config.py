"""The configuration: one schema, every error at once, with its place."""

import re
from pathlib import Path

import pytest

from realtime_lrp import config
from realtime_lrp.errors import ConfigError, MissingInputError, UsageError

ROOT = Path(__file__).parents[1]


def test_config_yaml_is_the_schema_at_its_defaults():
    """The manual in the repository is what `realtime-lrp config` prints."""
    assert (ROOT / "config.yaml").read_text() == config.as_yaml(config.load())
    assert config.load(ROOT / "config.yaml").config == config.Config()


def test_what_is_printed_can_be_read_back(tmp_path):
    """Values of every kind survive the way through YAML."""
    first = config.load(
        sets=("model.size=120x90", "lrp.target=A - B", "input.mirror=true"),
        options={"--opacity": 0.25, "--labels": "ä.txt"},
    )
    file = tmp_path / "my.yaml"
    file.write_text(config.as_yaml(first), encoding="utf-8")
    assert config.load(file).config == first.config
    assert first.config.model.size == (120, 90)


def test_the_command_line_wins_over_set_over_file(tmp_path):
    """Each place overrides the ones below it."""
    file = tmp_path / "my.yaml"
    file.write_text("lrp: {target: file}\noverlay: {opacity: 0.1, map: rgb}\n")
    sets = ("lrp.target=set", "overlay.opacity=0.2")
    settings = config.load(file, sets, {"--target": "option"})
    assert settings.config.lrp.target == "option"
    assert settings.config.overlay.opacity == 0.2
    assert settings.config.overlay.map == "rgb"
    assert settings.origins["overlay.map"] == f"{file}:2"


BAD = """\
lrp:
  composit: zplus
  pool: mean
overlay:
  opacity: 7
  opacity: 3
live: 4
inpt:
  fit: crop
model:
  size: 3x
  name: [1]
"""


def test_every_error_of_a_file_is_told_at_once_with_its_line(tmp_path):
    """Unknown keys, wrong types, ranges, doubles: file, line, key and what to write."""
    file = tmp_path / "bad.yaml"
    file.write_text(BAD)
    with pytest.raises(ConfigError) as refusal:
        config.load(file)
    lines = set(str(refusal.value).splitlines())
    assert lines == {
        f"{file}:2: there is no key 'lrp.composit'; did you mean 'lrp.composite'?",
        f"{file}:3: lrp.pool: input should be 'max' or 'average'; received 'mean'",
        f"{file}:6: overlay.opacity: stands here a second time; keep one of them",
        f"{file}:6: overlay.opacity: input should be less than or equal to 1; received 3",
        f"{file}:7: live: is a section; expected keys under it",
        f"{file}:8: there is no key 'inpt'; did you mean 'input'?",
        f"{file}:11: model.size: expected one number or HEIGHTxWIDTH, for example 224 or 224x320; "
        "received '3x'",
        f"{file}:12: model.name: input should be a valid string; received [1]",
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"lrp: {target: \xff}", "UTF-8"),
        (b"lrp: [1\nb: {", "is not YAML"),
        (b"a: &x [1]\nb: *x", "aliases"),
        (b"- 1\n- 2\n", "expected sections"),
        (b"#" * (1 << 20) + b"\n", "1 MiB"),
        (b"lrp: {target: !!python/object/apply:os.system [true]}", "not a plain YAML"),
    ],
    ids=["encoding", "syntax", "aliases", "list", "huge", "python tag"],
)
def test_a_file_that_is_no_configuration_is_refused(tmp_path, text, words):
    """Whatever the bytes, the answer is a ConfigError."""
    file = tmp_path / "bad.yaml"
    file.write_bytes(text)
    with pytest.raises(ConfigError, match=words):
        config.load(file)


def test_an_empty_file_and_empty_sections_change_nothing(tmp_path):
    """A file whose entries are all commented out is legal."""
    file = tmp_path / "empty.yaml"
    file.write_text("# nothing\n")
    assert config.load(file).config == config.Config()
    file.write_text("lrp:\nmodel: {}\n")
    assert config.load(file).config == config.Config()


def test_errors_have_the_exit_code_of_their_place(tmp_path):
    """78 for files and --set, 2 for options, 66 for a file that is not there."""
    with pytest.raises(UsageError, match="--opacity: "):
        config.load(options={"--opacity": 2.0})
    with pytest.raises(ConfigError, match=r"^--set: overlay.opacity: "):
        config.load(sets=("overlay.opacity=2",))
    with pytest.raises(ConfigError, match=r"section\.key=value"):
        config.load(sets=("nonsense",))
    with pytest.raises(MissingInputError):
        config.load(tmp_path / "none.yaml")


def test_a_name_that_a_room_refuses_is_traced_to_its_place():
    """A composite from `--set` is a configuration error, from an option a usage error."""
    error = UsageError("There is no composite 'x'.", "composite")
    from_set = config.load(sets=("lrp.composite=x",)).located(error)
    assert isinstance(from_set, ConfigError)
    assert str(from_set) == "--set: lrp.composite: There is no composite 'x'."
    assert config.load(options={"--composite": "x"}).located(error) is error
    assert config.load().located(error) is error


def test_the_value_of_a_set_may_be_secret():
    """A wrong key does not put the address of a camera on the screen."""
    with pytest.raises(ConfigError) as refusal:
        config.load(sets=("live.sorce=http://me:secret@camera/x",))
    assert "secret" not in str(refusal.value)
    assert "'live.source'" in str(refusal.value)


def test_every_key_has_a_comment():
    """No key without its meaning."""
    for key in config.legal_keys():
        assert len(config.describe(key)) > 2, key


def test_config_and_readme_name_every_rule_composite_and_method():
    """The words of the registries are the words that users read."""
    from realtime_lrp.relevance.composites import COMPOSITES
    from realtime_lrp.relevance.methods import METHODS
    from realtime_lrp.relevance.rules import RULES

    readme = (ROOT / "README.md").read_text()
    for key, names in (("composite", COMPOSITES), ("layers", RULES), ("method", METHODS)):
        words = re.findall(r"\w+", config.describe(f"lrp.{key}"))
        assert set(names) <= set(words), key
        assert all(f"`{name}" in readme for name in names), key


def test_rules_for_layers_survive_the_way_through_yaml(tmp_path):
    """A mapping of patterns and a list of patterns, in a file, on the line and back."""
    file = tmp_path / "my.yaml"
    file.write_text("lrp:\n  layers:\n    block1_*: flat\n    '*_conv': gamma(0.1)\n    a: zplus\n")
    settings = config.load(file, ("lrp.guided=[block5_*]", "lrp.keep=1"))
    in_order = [("block1_*", "flat"), ("*_conv", "gamma(0.1)"), ("a", "zplus")]
    assert list(settings.config.lrp.layers.items()) == in_order
    assert settings.config.lrp.guided == ["block5_*"]
    again = tmp_path / "again.yaml"
    again.write_text(config.as_yaml(settings))
    assert list(config.load(again).config.lrp.layers.items()) == in_order
    with pytest.raises(ConfigError, match=r"lrp.layers.*quote"):
        config.load(sets=("lrp.layers={*_conv: flat}",))
    with pytest.raises(ConfigError, match=r"quote a rule.*'alpha_beta\(1, 0\)'"):
        config.load(sets=("lrp.layers={Conv2D: alpha_beta(1, 0)}",))
    with pytest.raises(ConfigError, match=r"lrp.keep"):
        config.load(sets=("lrp.keep=0",))
