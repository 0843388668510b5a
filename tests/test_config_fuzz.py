"""Any text gives a valid configuration or a clear refusal; editors are not told less than `load`.

How much: `pytest -m release tests/test_config_fuzz.py -s` tells it.
"""

import json
import re
import string
import time
from collections import Counter
from pathlib import Path
from random import Random

import jsonschema
import pytest

from realtime_lrp import config
from realtime_lrp.commands.kiosk.settings import wrong_settings
from realtime_lrp.errors import ConfigError, MissingInputError, UnavailableError, UsageError

ROOT = Path(__file__).parents[1]
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
    """A value, legal or not."""
    letters = string.printable + "\u2028\ufeff\u05d0\U0001f600\0"
    return random.choice(
        [
            random.choice(ODD.split()),
            random.choice(LARGE),
            random.choice(WORDS),
            str(random.randint(-(10 ** random.randint(0, 20)), 10**9)),
            repr(random.choice([random.uniform(-2, 2), random.expovariate(1) * 1e300])),
            "".join(random.choices(letters, k=random.randint(0, 12))),
        ]
    )


def yaml(random):
    """What looks like YAML."""
    tokens = [*NAMES, *WORDS[::9], *"\n\n\n::: ,,{}[]'\"#&*!|>%@`?-\t", ": ", "\n  ", "- "]
    count = random.randint(0, 40)
    return "".join(random.choice([random.choice(tokens), value(random)]) for _ in range(count))


def mutated(random, lines):
    """YAML with a few of its lines changed."""
    lines = list(lines)
    for _ in range(random.randint(1, 3)):
        place = random.randrange(len(lines))
        line, at = lines[place], random.randint(0, len(lines[place]))
        key, other = line.partition(":")[0], value(random)
        lines[place] = random.choice(
            [
                f"{key}: {other}\n",
                f"{key}:\n    - {other}\n    - a\n",
                f"{key}:\n    {other}: flat\n",
                f"  {random.choice(NAMES)}: 1\n{line}",
                line[:at] + random.choice(string.printable) + line[at + 1 :],
                random.choice(["", line * 2, f" {line}", line.lstrip(), f"\t{line}", line[:-1]]),
            ]
        )
    return "".join(lines).encode("utf-8", "surrogatepass")


def assignment(random):
    """A `--set`."""
    key = random.choice(KEYS)
    legal = random.choice(re.findall(r"[\w.+-]+", config.describe(key)))
    return f"{key}={random.choice([value(random), legal, yaml(random)])}"


def chosen_options(random):
    """Options of the command line."""
    names = random.sample(list(config.OPTIONS), random.randint(0, 4))
    return {name: random.choice([value(random), random.randint(-9, 9**9)]) for name in names}


INPUTS = {
    "bytes": lambda random: (random.randbytes(random.randint(0, 200)), (), {}),
    "text": lambda random: (yaml(random).encode("utf-8", "surrogatepass"), (), {}),
    "manual": lambda random: (mutated(random, MANUAL), (), {}),
    "set": lambda random: (b"", tuple(assignment(random) for _ in range(3)), {}),
    "options": lambda random: (b"", (), chosen_options(random)),
}


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
    """Nothing but these; each line of a refusal has its place, what is printed can be read back."""
    file, told = tmp_path / "my.yaml", Counter()

    def holds(case):
        data, *words = case
        file.write_bytes(data)
        begun = time.process_time()
        try:
            found = config.load(file, *words, check=config.wrong_names)
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
