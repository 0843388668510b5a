"""The configuration: one schema, every error at once, with its place."""

import json
import re
import string
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

import jsonschema
import printed  # from assets/make
import pytest
from click.shell_completion import get_completion_class

from realtime_lrp import config
from realtime_lrp.cli import cli
from realtime_lrp.commands.kiosk.settings import wrong_settings
from realtime_lrp.config import names
from realtime_lrp.config.keys import COMMAND_KEYS
from realtime_lrp.errors import ConfigError, MissingInputError, UnavailableError, UsageError
from realtime_lrp.models.names import NETWORKS
from realtime_lrp.relevance.maps.methods import METHODS
from realtime_lrp.relevance.rules.composites import COMPOSITES
from realtime_lrp.relevance.rules.rules import RULES
from realtime_lrp.video.sources import SOURCES
from realtime_lrp.view.look import COLORMAPS

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", printed.printed())
def test_what_is_printed_from_tables_is_up_to_date(name):
    said = "run: python assets/make/make_assets.py printed"
    assert (ROOT / name).read_text(encoding="utf-8") == printed.printed()[name], said


def test_config_yaml_is_the_schema_at_its_defaults():
    assert config.load(ROOT / "config.yaml").config == config.Config()
    text = (ROOT / "config.yaml").read_text(encoding="utf-8")
    names = [key.rpartition(".")[2] for key in config.FIELDS]
    assert re.findall(r"^  (?:# )?(\w+): .*\S  # .", text, re.M) == names
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", page, re.M) == re.findall(r"^(\w+):", text, re.M)


def test_an_option_sets_the_key_of_its_name():
    others = {"--model": "model.name", "--also-model": "live.also_models"}
    for option, key in config.OPTIONS.items():
        assert option == f"--{key.rpartition('.')[2].replace('_', '-')}" or others[option] == key


def test_what_is_printed_can_be_read_back(tmp_path):
    sets = ("model.size=120x90", "live.camera_size=640x480", "lrp.target=A - B", "input.at=.5,0.25")
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
    file = tmp_path / "my.yaml"
    file.write_text("lrp: {target: file}\noverlay: {opacity: 0.1, map: rgb}\n")
    settings = config.load(file, ("lrp.target=set", "overlay.opacity=0.2"), {"--target": "option"})
    assert settings.config.lrp.target == "option"
    assert settings.config.overlay.opacity == 0.2
    assert settings.config.overlay.map == "rgb"
    assert settings.origins["overlay.map"] == f"{file}:2"
    assert settings.origins["lrp.target"] == "--target"
    assert settings.origins["overlay.opacity"] == "--set"


def refusal_of(*words):
    with pytest.raises(ConfigError) as refused:
        config.load(*words)
    return str(refused.value).splitlines()


def test_errors_have_the_exit_code_of_their_place(tmp_path):
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
    error = UsageError("There is no composite 'x'.", "composite")
    from_set = config.load(sets=("lrp.composite=x",), check=None).located(error)
    assert isinstance(from_set, ConfigError)
    assert str(from_set) == "--set: lrp.composite: There is no composite 'x'."
    assert config.load(options={"--composite": "x"}, check=None).located(error) is error
    assert config.load().located(error) is error


def test_the_value_of_a_set_may_be_secret():
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


def decided(settings):
    """The values of the keys whose default depends on the command."""
    chosen = settings.config
    return chosen.model.name, chosen.lrp.composite, chosen.lrp.target, chosen.input.mirror


def test_each_command_has_its_defaults():
    nulls = tuple(f"{key}=null" for key in COMMAND_KEYS)
    usual = ("vgg16", "auto", "all", False)
    for command, expected in {
        "": usual, "image": usual, "bench": usual, "live": ("vgg16", "auto", "top1", False),
        "demo": ("shapes", "auto", "top1", False), "kiosk": ("shapes", "auto", "top1", True),
        "evaluate": ("shapes", "auto", "all", False),
    }.items():  # fmt: skip
        nothing = config.load(command=command)
        assert decided(nothing) == expected
        assert decided(config.load(ROOT / "config.yaml", command=command)) == expected
        assert decided(config.load(sets=nulls, command=command)) == expected
        for key, origin in nothing.origins.items():
            assert origin in ("default", f"default of {command}") and not nothing.is_set(key)


def test_what_is_set_wins_over_the_default_of_a_command(tmp_path):
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
    file = tmp_path / "my.yaml"
    file.write_text(config.as_yaml(config.load(sets=("model.name=vgg19",))))
    assert "\n  name: vgg19  #" in file.read_text()
    assert "\n  # target: all  #" in file.read_text()
    assert decided(config.load(file, command="live")) == ("vgg19", "auto", "top1", False)
    used = config.as_yaml(config.load(command="live"))
    assert "\n  target: top1  #" in used and "[default of live]\n" in used


BAD = """\
lrp:
  composit: zplus
  pool: mean
  absorb_bias: yes
  xla: 1
overlay:
  opacity: 7
  opacity: 3
  motion: flaw
live: 4
inpt:
  fit: crap
model:
  size: 3x
  name: [1]
opacity: 1
lrp.pool: max
video:
  stride: 0.5
  batch: 300
  quality: 60
kiosk:
  pin: 4711
  hours: {mon: 9:00}
  languages: []
  clips:
    - a.mp4
    - {b: c}
  idle_seconds: 1e400
"""
REFUSED = """\
2: there is no key 'lrp.composit'; did you mean 'lrp.composite'
3: lrp.pool: 'max' or 'average'; received 'mean'
4: lrp.absorb_bias: boolean; received 'yes'; did you mean true
5: lrp.xla: received 1
8: overlay.opacity: twice
8: overlay.opacity: received 3
9: overlay.motion: received 'flaw'; did you mean flow
10: live: expected a section
11: there is no key 'inpt'; did you mean 'input'
14: model.size: such as 224 or 224x320; received '3x'
15: model.name: string; received a list
16: there is no key 'opacity'; did you mean 'overlay.opacity'
17: there is no key 'lrp.pool'; write lrp:
19: video.stride: integer; received 0.5
20: video.batch: less than or equal to 256; received 300
21: video.quality: 0 to 51 for h264; received 60
23: kiosk.pin: --hash-pin
24: kiosk.hours.mon: 09:00-17:30; '9:00'
25: kiosk.languages: at least 1
28: kiosk.clips: string
29: kiosk.idle_seconds: 3600; received inf
"""
"""Line: key, and words of the message."""


def test_every_error_of_a_file_is_told_at_once_with_its_line(tmp_path):
    file = tmp_path / "bad.yaml"
    file.write_text(BAD)
    for line, expected in zip(refusal_of(file), REFUSED.splitlines(), strict=True):
        place, words = expected.rsplit(": ", 1)
        assert line.startswith(f"{file}:{place}: ")
        assert all(word in line for word in words.split("; ")), line


def test_names_that_rooms_own_are_told_together_with_all_else(run, tmp_path):
    file = tmp_path / "bad.yaml"
    file.write_text(
        "lrp:\n  method: gradcam\n  layers:\n    Conv2D: flt\n    Dense: zplus(1)\n  samples: 0\n"
        "overlay: {colormap: grey}\nlive:\n  panels:\n  - grad_cam\n  - zpluss\n"
        "kiosk:\n  languages:\n  - en\n  - xx\n  clips: [none.mp4]\n"
    )
    words = ("--config", file, "--set", "model.name=vgg17", "--composite", "z_plus")
    code, _, err = run("config", *words, "--opacity", 2)
    lines = [line.replace(f"{file}:", "") for line in err.strip().splitlines()]
    assert code == 78
    assert [re.split(" There| [Ee]xpected", line)[0] for line in lines] == [
        "realtime-lrp: 2: lrp.method:", "4: lrp.layers.Conv2D:", "5: lrp.layers.Dense:",
        "6: lrp.samples:", "7: overlay.colormap:", "11: live.panels:",
        "15: kiosk.languages: there is no xx.yaml in "
        f"{config.ASSETS / 'captions'}; there are de, en, es, fr, zh",
        "16: kiosk.clips:", "--opacity:", "--set: model.name:", "--composite:",
    ]  # fmt: skip
    for name in ("grad_cam", "flat", "gray", "zplus", "vgg1"):
        assert f"Did you mean '{name}" in err
    code, _, err = run("image", "x.png", "-o", "y.png", *words)
    assert code == 78 and "15: kiosk" not in err and "lrp.samples" in err and "'z_plus'" in err


def test_an_unknown_key_is_answered_with_the_nearest(tmp_path):
    file = tmp_path / "bad.yaml"
    for key, advice in {
        "live.sorce": "did you mean 'live.source'?",
        "lrp.colormap": "did you mean 'overlay.colormap'?",  # it is in another section
        "lpr": "did you mean 'lrp'?",
        "model.file": f"model has {', '.join(type(config.Config().model).model_fields)}",
        "xyz": "the file has " + ", ".join(config.Config.model_fields),
    }.items():
        section, dot, name = key.partition(".")
        file.write_text(f"{section}: {{{name}: 1}}" if dot else f"{section}: 1")
        assert refusal_of(file) == [f"{file}:1: there is no key {key!r}; {advice}"]


def test_a_value_that_is_not_legal_is_refused():
    for assignment, words in (
        *((f"lrp.target={target}", "top5, a class") for target in ("top0", "-1", "''", "' '")),
        ("live.source=''", "a text that is not empty"),
        ("live.sources=[0, ' ']", "a text that is not empty"),
        ("kiosk.hours={mon: 9}", "put it in quotes"),
        ("kiosk.hours={xx: '09:00-10:00'}", "days such as mon"),
        ("kiosk.hours={mon: '9:00-10:00', MON: '11:00-12:00'}", "mon is there twice"),
        ("lrp.layers={Dense: 3}", "put it in quotes"),
        ("lrp.layers={'a_*': [b]}", "received a list"),
        ("live.also_models=[{name: vgg16, lables: x}]", "did you mean 'live.also_models.labels'"),
        ("live.also_models=[a, b, c, d]", "at most 3"),
        ("live.also_models=[3]", "expected a section"),
    ):
        key = assignment.partition("=")[0]
        with pytest.raises(ConfigError, match=f"--set: .*{re.escape(key)}.*{words}"):
            config.load(sets=(assignment,))


def test_files_and_folders_that_are_not_there_are_told(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = Path("my.yaml")
    file.write_text(
        "model:\n  name: shapes\n  weights: no.h5\n  labels: no.txt\nlive:\n  folder: none\n"
    )
    code, _, err = run("config", "--config", file)
    assert code == 66
    for line, words in zip(
        err.splitlines(),
        ("my.yaml:3: model.weights:", "my.yaml:4: model.labels:", "my.yaml:6: live.folder:"),
        strict=True,
    ):
        assert words in line
    Path("no.txt").touch()
    Path("none").mkdir()
    file.write_text(file.read_text().replace("no.h5", "random"))
    assert run("config", "--config", file)[0] == 0
    assert run("config", "--model", f"{'x' * 300}.keras")[0] == 66


def test_the_exit_code_is_that_of_the_worst_place(run):
    for words, code in (
        (("--model", "none.keras"), 66), (("--weights", "none.h5"), 69),
        (("--set", "kiosk.clips=[none.mp4, no.mp4]", "--model", "none.keras"), 66),
        (("--set", "kiosk.clips=[none.mp4]", "--composite", "no"), 78),
        (("--config", "none.yaml", "--opacity", "3"), 78),
    ):  # fmt: skip
        assert run("config", *words)[0] == code, words


INVALID = "cannot be read as YAML: "
ALIASES = "cannot be read as YAML: anchors (&name) and aliases (*name) are not supported"
TAGS = "tags (!name) are not supported"


def test_a_file_that_is_no_configuration_is_refused(tmp_path):
    for text, words in (
        (b"lrp:\n  target: \xff", ":2: is not UTF-8 text; save it as UTF-8"),
        ("lrp: {}".encode("utf-16"), ": is UTF-16, UTF-32 or not text at all; save it as UTF-8"),
        (b"lrp: {target: \0}", ":1: the character U+0000 is not allowed in YAML"),
        (b"a: 1\nb: *x", f":2: {ALIASES}"), (b"a: &x [1]\nb: 1", f":1: {ALIASES}"),
        (b"- 1\n- 2\n", ":1: expected sections such as 'lrp:' with keys under them"),
        (b"#" * (1 << 20) + b"\n", ": is larger than 1 MiB"),
        (b"{a: " * 5000, f":1: {INVALID}it is nested too deeply"),
        (b"[" + b"1, " * 300000, f":1: {INVALID}it has more than 5000 entries"),
        (b"lrp: {target: " + b"x" * 5000 + b"}", f":1: {INVALID}a text has more than 4096 ch"),
        (b"lrp:\n  <<: {pool: max}", ":2: there is no key 'lrp.<<'"),
        (b"lrp: {layers: {a: flat, a: flat}}", ":1: lrp.layers.a: is set twice; keep one of them"),
        (b"lrp: {target: !!python/object/apply:os.system [true]}", f":1: {INVALID}{TAGS}"),
        (b"lrp: [1\nb: {", f":2: {INVALID}"), (b"--- {}\n--- {}", f":2: {INVALID}"),
        (b"model:\n  name:shapes\n", ":1: model: expected a section, with 'key: value' lines"),
        (b"lrp: {layers: {Dense:flat}}", ":1: lrp.layers: expected {pattern: rule}, with a space"),
        (b"live: {source:a:geheim@h}", ":1: there is no key 'live.***@h'; live has source, sour"),
        ("lrp:\n \xa0pool: max\n".encode(), r":2: there is no key 'lrp.\xa0pool'; did you mean"),
        (b'lrp: {target: "\\0"}', ":1: lrp.target: expected a text without the character U+0000"),
    ):  # fmt: skip
        file = tmp_path / "bad.yaml"
        file.write_bytes(text)
        begun = time.process_time()
        assert refusal_of(file)[0].removeprefix(str(file)).startswith(words)
        assert time.process_time() - begun < 2


TABLES = [
    (names.METHODS, METHODS), (names.COMPOSITES, COMPOSITES), (names.RULES, RULES),
    (names.MODELS, NETWORKS), (names.COLORMAPS, COLORMAPS), (names.SOURCES, SOURCES),
]  # fmt: skip


@pytest.mark.parametrize(("listed", "table"), TABLES, ids=[one.kind for one, _ in TABLES])
def test_each_list_agrees_with_its_table(listed, table):
    assert list(listed.included) == list(table) == listed.known()
    module, attribute = listed.table
    assert getattr(sys.modules[module], attribute) is table
    assert set(listed.aliases.values()) <= {*table, "alpha_beta(1, 0)"}


def test_each_rule_takes_the_listed_numbers():
    for name, parameters in names.RULE_PARAMETERS.items():
        rule = RULES[name]()
        assert tuple(vars(rule)) == parameters
        for parameter, default in names._DEFAULTS.get(name, {}).items():
            assert getattr(rule, parameter) == default


def test_words_are_completed(monkeypatch):
    monkeypatch.setattr("click.prompt", None)
    complete = get_completion_class("bash")(cli, {}, "realtime-lrp", "_REALTIME_LRP_COMPLETE")
    for words, expected in (
        (("d",), ["demo", "doctor"]), (("live", "--comp"), ["--composite"]),
        (("live", "--pool", ""), ["max", "average"]),
        (("kiosk", "--hash-pin", "--print"), ["--print-unit"]),
    ):  # fmt: skip
        monkeypatch.setenv("COMP_WORDS", " ".join(["realtime-lrp", *words]))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        assert complete.complete().splitlines() == [f"plain,{word}" for word in expected]


MANUAL = (ROOT / "config.yaml").read_text(encoding="utf-8").splitlines(keepends=True)
SCHEMA = jsonschema.Draft7Validator(json.loads(config.json_schema()))
KEYS = list(config.FIELDS)
WORDS = sorted({word for key in KEYS for word in re.findall(r"[\w.+-]+", config.describe(key))})
NAMES = [name for key in KEYS for name in key.split(".")]

ODD = """null ~ true yes off 0 1 -1 0.5 1e400 -0 .5 .inf .nan 1e5 1E-3 007 0x1F 0o17 1_000 12:30
224x320 1280X720 2020-01-01 = << top3 fire [] {} [a] {a:b} [[a]] {a:{b:c}} MJPG '' "" !!binary
!!str !x &a *a @x %x | > - ? # A-B rtsp://u:p@h http://***@h \\ "\\0" "\\x7f" "\\ud800" "\\u2028"
'\ufeff' {mon:'09:00-12:00'} [0,demo.mp4] {Dense:flat}"""
LARGE = ["1" + "0" * 5000, "x" * 5000, "[" * 300, "- " * 30, "{a: b, a: c}", "A - B"]


def value(random):
    letters = string.printable + "\u2028\ufeff\u05d0\U0001f600\0"
    return random.choice(
        [
            random.choice(ODD.split()), random.choice(LARGE), random.choice(WORDS),
            str(random.randint(-(10 ** random.randint(0, 20)), 10**9)),
            repr(random.choice([random.uniform(-2, 2), random.expovariate(1) * 1e300])),
            "".join(random.choices(letters, k=random.randint(0, 12))),
        ]
    )  # fmt: skip


def yaml(random):
    tokens = [*NAMES, *WORDS[::9], *"\n\n\n::: ,,{}[]'\"#&*!|>%@`?-\t", ": ", "\n  ", "- "]
    count = random.randint(0, 40)
    return "".join(random.choice([random.choice(tokens), value(random)]) for _ in range(count))


def mutated(random, lines):
    lines = list(lines)
    for _ in range(random.randint(1, 3)):
        place = random.randrange(len(lines))
        line, at = lines[place], random.randint(0, len(lines[place]))
        key, other = line.partition(":")[0], value(random)
        lines[place] = random.choice(
            [
                f"{key}: {other}\n", f"{key}:\n    - {other}\n    - a\n",
                f"{key}:\n    {other}: flat\n", f"  {random.choice(NAMES)}: 1\n{line}",
                line[:at] + random.choice(string.printable) + line[at + 1 :],
                random.choice(["", line * 2, f" {line}", line.lstrip(), f"\t{line}", line[:-1]]),
            ]
        )  # fmt: skip
    return "".join(lines).encode("utf-8", "surrogatepass")


def assignment(random):
    key = random.choice(KEYS)
    legal = random.choice(re.findall(r"[\w.+-]+", config.describe(key)))
    return f"{key}={random.choice([value(random), legal, yaml(random)])}"


INPUTS = {
    "bytes": lambda random: (random.randbytes(random.randint(0, 200)), (), {}),
    "text": lambda random: (yaml(random).encode("utf-8", "surrogatepass"), (), {}),
    "manual": lambda random: (mutated(random, MANUAL), (), {}),
    "set": lambda random: (b"", tuple(assignment(random) for _ in range(3)), {}),
    "options": lambda random: (b"", (), {
        name: random.choice([value(random), random.randint(-9, 9**9)])
        for name in random.sample(list(config.OPTIONS), random.randint(0, 4))}),
}  # fmt: skip


def tried(examples, make, holds):
    """Runs a property on made inputs, the same ones in every run."""
    for seed in range(examples):
        made = make(Random(seed))
        try:
            holds(made)
        except Exception as error:
            error.add_note(f"seed {seed}: {made!r}")
            raise


@pytest.mark.parametrize("examples", [60, pytest.param(5000, marks=pytest.mark.release)])
@pytest.mark.parametrize("kind", INPUTS)
def test_any_input_is_a_configuration_or_a_clear_refusal(kind, examples, tmp_path):
    file, told = tmp_path / "my.yaml", Counter()

    def holds(case):
        data, *words = case
        file.write_bytes(data)
        begun = time.process_time()
        try:
            found = config.load(file, *words, check=config.wrong_names)
        except (ConfigError, UsageError, MissingInputError, UnavailableError) as error:
            assert type(error) is not UsageError or words[1]
            lines = str(error).splitlines()
            assert lines
            for line in lines:  # begins with a place, says something, and is short
                place, _, text = line.partition(": ")
                assert place.startswith((str(file), "--")) and text, line
                assert len(line) <= 410 and line.isprintable(), line
                assert "Error" not in text and "Input should" not in text, line
            told[type(error).__name__] += 1
        else:
            told["accepted"] += 1
            if not any(words):
                values = config.read_file(file).values
                assert SCHEMA.is_valid(values), next(SCHEMA.iter_errors(values)).message
            text = config.as_yaml(found)
            file.write_text(text, encoding="utf-8")
            assert len(text.splitlines()) == len(MANUAL) - 1
            if "[*** hides a part" in text:  # a password is left out
                with pytest.raises(ConfigError, match="write the whole address"):
                    config.load(file)
            else:
                assert config.load(file).config == found.config
        assert time.process_time() - begun < 2

    tried(examples, INPUTS[kind], holds)
    print(f"\n{kind}: {sum(told.values())} tried: {dict(told)}")


def test_an_editor_sees_what_load_refuses(tmp_path):
    for text, valid in (
        ("lrp: {method: grad_cam, layers: {a: 'alpha_beta(1, 0)'}}\nmodel:\n", True),
        ("model: {size: 224}\nlive: {camera_size: 1280x720, source: 0, sources: [a, 1]}", True),
        ("video: {batch: 8}\nkiosk: {hours: {tue-fri: '09:00-12:00, 13:00-17:30'}}", True),
        ("lrp: {method: gradcam}", False), ("live: {panels: [grad_cam, x]}", False),
        ("lrp: {xla: yes}", False), ("lrp: {keep: 0}", False), ("video: {batch: 0}", False),
        ("live: {source: 'http://***@h'}", False), ("lrp: {methd: lrp}", False),
        ("lrp: {target: top0}", False),
        ("live: {also_models: [vgg16, {name: vgg19, preprocess: torch}]}", True),
        ("live: {also_models: [{labels: b}]}", False), ("- a", False),
    ):  # fmt: skip
        file = tmp_path / "my.yaml"
        file.write_text(text)
        assert SCHEMA.is_valid(config.read_file(file).values) is valid
        try:
            config.load(file, check=wrong_settings)
            assert valid
        except ConfigError:
            assert not valid
