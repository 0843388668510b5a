"""Any text gives a valid configuration or a clear refusal; editors are not told less than `load`.

How much: `pytest -m release tests/test_config_fuzz.py -s` tells it.
"""

import json
import re
import string
import time
from collections import Counter
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from realtime_lrp import config
from realtime_lrp.commands.kiosk.captions import load_captions
from realtime_lrp.commands.kiosk.settings import wrong_settings
from realtime_lrp.config.names import KEYS as KEYS_OF_WINDOW
from realtime_lrp.errors import ConfigError, MissingInputError, UnavailableError, UsageError

ROOT = Path(__file__).parents[1]
MANUAL = (ROOT / "config.yaml").read_text(encoding="utf-8").splitlines(keepends=True)
SCHEMA = jsonschema.Draft7Validator(json.loads(config.json_schema()))
KEYS = config.legal_keys()
WORDS = sorted({word for key in KEYS for word in re.findall(r"[\w.+-]+", config.describe(key))})
NAMES = [name for key in KEYS for name in key.split(".")]

ODD = """null ~ true yes off 0 1 -1 0.5 1e400 -0 .5 .inf .nan 1e5 1E-3 007 0x1F 0o17 1_000 12:30
224x320 1280X720 2020-01-01 = << top3 fire [] {} [a] {a:b} [[a]] {a:{b:c}} MJPG '' "" !!binary
!!str !x &a *a @x %x | > - ? # A-B rtsp://u:p@h http://***@h \\ "\\0" "\\x7f" "\\ud800" "\\u2028"
'\ufeff' {mon:'09:00-12:00'} [0,demo.mp4] {Dense:flat}"""
LARGE = ["1" + "0" * 5000, "x" * 5000, "[" * 300, "- " * 30, "{a: b, a: c}", "A - B"]
LEGAL_WORDS = {key: st.sampled_from(re.findall(r"[\w.+-]+", config.describe(key))) for key in KEYS}
VALUES = st.one_of(
    st.sampled_from(ODD.split()),
    st.sampled_from(LARGE),
    st.sampled_from(WORDS),
    st.integers(-(10**20), 10**20).map(str),
    st.floats().map(repr),
    st.text(max_size=12),
)


@st.composite
def mutated(draw, lines):
    """YAML with a few of its lines changed."""
    lines = list(lines)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(lines) - 1))
        line = lines[place]
        key = line.partition(":")[0]
        lines[place] = draw(
            st.one_of(
                VALUES.map(lambda value, key=key: f"{key}: {value}\n"),
                VALUES.map(lambda value, key=key: f"{key}:\n    - {value}\n    - a\n"),
                VALUES.map(lambda value, key=key: f"{key}:\n    {value}: flat\n"),
                st.sampled_from(NAMES).map(lambda name, line=line: f"  {name}: 1\n{line}"),
                st.integers(0, len(line)).flatmap(
                    lambda at, line=line: st.sampled_from(string.printable).map(
                        lambda letter: line[:at] + letter + line[at + 1 :]
                    )
                ),
                st.sampled_from(["", line * 2, f" {line}", line.lstrip(), f"\t{line}", line[:-1]]),
            )
        )
    return "".join(lines).encode("utf-8", "surrogatepass")


TOKENS = st.sampled_from(
    [*NAMES, *WORDS[::9], *"\n\n\n::: ,,{}[]'\"#&*!|>%@`?-\t", ": ", "\n  ", "- "]
)
YAML = st.lists(TOKENS | VALUES, max_size=40).map("".join)
ASSIGNMENTS = st.one_of(
    st.tuples(st.sampled_from(KEYS), VALUES).map("=".join),
    st.sampled_from(KEYS).flatmap(lambda key: LEGAL_WORDS[key].map(lambda word: f"{key}={word}")),
    st.tuples(st.sampled_from(KEYS), YAML).map("=".join),
    YAML,
)
INPUTS = {
    "bytes": st.binary(max_size=200).map(lambda data: (data, (), {})),
    "text": YAML.map(lambda text: (text.encode("utf-8", "surrogatepass"), (), {})),
    "manual": mutated(MANUAL).map(lambda data: (data, (), {})),
    "set": st.lists(ASSIGNMENTS, min_size=1, max_size=3).map(lambda sets: (b"", tuple(sets), {})),
    "options": st.dictionaries(
        st.sampled_from(list(config.OPTIONS)), st.text(max_size=9) | VALUES | st.integers()
    ).map(lambda options: (b"", (), options)),
}


def tried(examples, inputs, holds):
    """Runs a property on so many inputs, the same ones in every run."""
    chosen = settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    chosen(given(inputs)(holds))()


def wrong_names_and_key(chosen):
    """All names that the schema for editors knows."""
    yield from config.wrong_names(chosen)
    yield from config.errors_of(("kiosk", "exit_key"), KEYS_OF_WINDOW.check, chosen.kiosk.exit_key)


@pytest.mark.parametrize("examples", [60, pytest.param(5000, marks=pytest.mark.release)])
@pytest.mark.parametrize("kind", INPUTS)
def test_any_input_is_a_configuration_or_a_clear_refusal(kind, examples, tmp_path):
    """Nothing but these; each line of a refusal has its place, what is printed can be read back."""
    file, told = tmp_path / "my.yaml", Counter()

    def holds(case):
        data, *words = case
        file.write_bytes(data)
        begun = time.process_time()
        try:
            found = config.load(file, *words, check=wrong_names_and_key)
        except (ConfigError, UsageError, MissingInputError, UnavailableError) as error:
            assert type(error) is not UsageError or words[1]
            refused_clearly(file, str(error).splitlines())
            told[type(error).__name__] += 1
        else:
            told["accepted"] += 1
            if not any(words):
                values = config.read_file(file).values
                assert SCHEMA.is_valid(values), next(SCHEMA.iter_errors(values)).message
            printed_and_read_back(found, file)
        assert time.process_time() - begun < 2

    tried(examples, INPUTS[kind], holds)
    print(f"\n{kind}: {sum(told.values())} tried: {dict(told)}")


@pytest.mark.parametrize("examples", [30, pytest.param(3000, marks=pytest.mark.release)])
def test_any_captions_are_texts_or_a_clear_refusal(examples, tmp_path):
    """English with a few of its lines changed."""
    file, told = tmp_path / "en.yaml", Counter()

    def holds(data):
        file.write_bytes(data)
        try:
            load_captions(["en"], tmp_path)
            told["accepted"] += 1
        except ConfigError as error:
            refused_clearly(file, str(error).splitlines())
            told["refused"] += 1

    english = (config.ASSETS / "captions" / "en.yaml").read_text(encoding="utf-8")
    tried(examples, mutated(english.splitlines(keepends=True)), holds)
    print(f"\ncaptions: {examples} tried: {dict(told)}")


def refused_clearly(file, lines):
    """Each line begins with a place, says something, and is short."""
    assert lines
    for line in lines:
        place, _, text = line.partition(": ")
        assert place.startswith((str(file), "--")) and text, line
        assert len(line) <= 410 and line.isprintable(), line
        assert "Error" not in text and "Input should" not in text, line


def printed_and_read_back(found, file):
    """The same configuration, or a refusal where a password is left out."""
    text = config.as_yaml(found)
    file.write_text(text, encoding="utf-8")
    assert len(text.splitlines()) == len(MANUAL) - 1
    if "[*** hides a part" in text:
        with pytest.raises(ConfigError, match="write the whole address"):
            config.load(file)
    else:
        assert config.load(file).config == found.config


def test_the_schema_is_the_one_that_is_installed(run):
    """What `config --schema` prints is the file that the first line of a configuration names."""
    code, printed, _ = run("config", "--schema")
    installed = (config.ASSETS / "config.schema.json").read_text()
    assert code == 0 and json.loads(printed) == json.loads(installed)
    jsonschema.Draft7Validator.check_schema(json.loads(printed))
    first = run("config")[1].splitlines()[0]
    address = first.removeprefix("# yaml-language-server: $schema=")
    assert address == (config.ASSETS / "config.schema.json").resolve().as_uri()


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("lrp: {method: grad_cam, layers: {a: 'alpha_beta(1, 0)'}}\nmodel:\n", True),
        ("model: {size: 224}\nlive: {camera_size: 1280x720, source: 0, sources: [a, 1]}", True),
        ("video: {batch: 8}\nkiosk: {hours: {tue-fri: '09:00-12:00, 13:00-17:30'}}", True),
        ("lrp: {method: gradcam}", False),
        ("live: {panels: [grad_cam, x]}", False),
        ("lrp: {xla: yes}", False),
        ("lrp: {keep: 0}", False),
        ("video: {batch: 0}", False),
        ("live: {source: 'http://***@h'}", False),
        ("lrp: {methd: lrp}", False),
        ("lrp: {target: top0}", False),
        ("live: {also_models: [vgg16, {name: vgg19, preprocess: torch}]}", True),
        ("live: {also_models: [{labels: b}]}", False),
        ("- a", False),
    ],
)
def test_an_editor_sees_what_load_refuses(tmp_path, text, valid):
    """Names, kinds, limits and unknown keys."""
    file = tmp_path / "my.yaml"
    file.write_text(text)
    assert SCHEMA.is_valid(config.read_file(file).values) is valid
    try:
        config.load(file, check=wrong_settings)
        assert valid
    except ConfigError:
        assert not valid
