"""The configuration: one schema, every error at once, with its place."""

import re
from pathlib import Path

import printed  # from assets/make
import pytest

from realtime_lrp import config
from realtime_lrp.errors import ConfigError, MissingInputError, UsageError

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", printed.printed())
def test_what_is_printed_from_tables_is_up_to_date(name):
    """The manual, the schema for editors, tables in the documents."""
    said = "run: python assets/make/make_assets.py printed"
    assert (ROOT / name).read_text(encoding="utf-8") == printed.printed()[name], said


def test_config_yaml_is_the_schema_at_its_defaults():
    """Every key is there, behind it a line about it."""
    assert config.load(ROOT / "config.yaml").config == config.Config()
    text = (ROOT / "config.yaml").read_text(encoding="utf-8")
    names = [key.rpartition(".")[2] for key in config.legal_keys()]
    assert re.findall(r"^  (?:# )?(\w+): .*\S  # .", text, re.M) == names
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", page, re.M) == re.findall(r"^(\w+):", text, re.M)


def test_an_option_sets_the_key_of_its_name():
    """But for the two that docs/configuration.md names."""
    others = {"--model": "model.name", "--also-model": "live.also_models"}
    for option, key in config.OPTIONS.items():
        name = key.rpartition(".")[2].replace("_", "-")
        assert option == f"--{name}" or others[option] == key


def test_what_is_printed_can_be_read_back(tmp_path):
    """Values of every kind survive the way through YAML, and JSON, as an exhibit keeps them."""
    sets = ("model.size=120x90", "live.camera_size=640x480", "lrp.target=A - B")
    first = config.load(
        sets=(*sets, "input.mirror=true", "live.also_models=[{name: shapes, size: 64}]"),
        options={"--opacity": 0.25, "--labels": "ä \n\u2028'\".txt"},
        check=None,
    )
    file = tmp_path / "my.yaml"
    file.write_text(config.as_yaml(first), encoding="utf-8")
    assert config.load(file, check=None).config == first.config
    assert first.config.model.size == (120, 90)
    assert config.Config.model_validate_json(first.config.model_dump_json()) == first.config


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
    assert settings.origins["lrp.target"] == "--target"
    assert settings.origins["overlay.opacity"] == "--set"


def refusal_of(*words):
    """The lines of a refusal."""
    with pytest.raises(ConfigError) as refused:
        config.load(*words)
    return str(refused.value).splitlines()


def test_errors_have_the_exit_code_of_their_place(tmp_path):
    """78 for files and --set, 2 for options, 66 for a file that is not there."""
    with pytest.raises(UsageError, match="--opacity: "):
        config.load(options={"--opacity": 2.0})
    with pytest.raises(UsageError, match="--labels: expected at most 4096 characters"):
        config.load(options={"--labels": "x" * 5000})
    with pytest.raises(ConfigError, match=r"^--set: overlay.opacity: "):
        config.load(sets=("overlay.opacity=2",))
    with pytest.raises(ConfigError, match=r"section\.key=value"):
        config.load(sets=("nonsense",))
    for empty in ("lrp.target=", "model.labels= "):
        with pytest.raises(ConfigError, match=r"^--set: \S+: the value is empty; .* a variable of"):
            config.load(sets=(empty,))
    assert config.load(sets=("lrp.target=null",)).config.lrp.target == "all"
    for text in ("007", "12:30", "no", "2026-11-24"):  # other readers of YAML make more of them
        assert config.load(sets=(f"live.source={text}",)).config.live.source == text
    with pytest.raises(MissingInputError):
        config.load(tmp_path / "none.yaml")


def test_a_name_that_a_room_refuses_is_traced_to_its_place():
    """A composite from `--set` is a configuration error, from an option a usage error."""
    error = UsageError("There is no composite 'x'.", "composite")
    from_set = config.load(sets=("lrp.composite=x",), check=None).located(error)
    assert isinstance(from_set, ConfigError)
    assert str(from_set) == "--set: lrp.composite: There is no composite 'x'."
    assert config.load(options={"--composite": "x"}, check=None).located(error) is error
    assert config.load().located(error) is error


def test_the_value_of_a_set_may_be_secret():
    """A wrong key does not put the address of a camera on the screen, nor does a wrong type."""
    address = "http://me:geh eim@camera/x?token=geheim"
    for assignment in (
        f"live.sorce={address}", address, f"live.sources=[{address}, [{address}]]",
        f"live.source: {address}", f"video.audio={address}", f"lrp.layers={{a: [{address}]}}",
        "live.source:ann:geheim@cam", "live={source:ann:geheim@cam}",
        "live.sources=[[ann:geheim@cam]]", "live.camera_size=ann:geheim@cam",
        f"kiosk.hours={{mon: '{address}'}}", f"live.camera_size={address}", "kiosk.pin=geheim",
    ):  # fmt: skip
        lines = refusal_of(None, (assignment,))
        assert "eim" not in str(lines), lines
    assert "'live.source'" in str(refusal_of(None, (f"live.sorce={address}",)))


def test_passwords_are_not_printed_and_what_is_printed_says_so(tmp_path):
    """The printed file is refused until the whole address is written into it again."""
    sets = ("live.source=rtsp://me:sec ret@cam/a?key=secret", "live.sources=[0, http://u:secret@h]")
    text = config.as_yaml(config.load(sets=sets))
    assert "ret@" not in text and "secret" not in text and "http://***@h" in text
    assert text.count("[from --set] [*** hides a part of it: write the whole address]\n") == 2
    file = tmp_path / "my.yaml"
    file.write_text(text)
    for line, key in zip(refusal_of(file), ("source", "sources"), strict=True):
        assert f"live.{key}: *** hides a part of the address here" in line
    for written, shown in (
        ("ann:geheim@cam/s", "***@cam/s"),
        ("ann:ge/heim@cam", "***@cam"),
        ("http://cam/video?w=640", "http://cam/video?***"),
        ("http://cam/video#w", "http://cam/video#***"),
    ):
        text = config.as_yaml(config.load(sets=(f"live.source={written}", "live.sources=[0]")))
        assert f"  source: '{shown}'  #" in text and "heim" not in text
        file.write_text(text)
        assert "live.source: *** hides a part of the address here" in refusal_of(file)[0]
    for plain in ("/dev/v4l/by-path/pci-0:00@1", "/c/**/*.png", "screen:2", "USB@Cam"):
        assert config.load(sets=(f"live.source={plain}",)).config.live.source == plain
        assert plain in config.as_yaml(config.load(sets=(f"live.source={plain}",)))
    plain = "live.source=C:/clips/a@b?.mp4"
    assert "source: 'C:/clips/a@b?.mp4'  #" in config.as_yaml(config.load(sets=(plain,)))
