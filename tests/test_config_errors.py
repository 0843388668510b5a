"""What is wrong with a configuration: all of it at once, each with its place and the way out."""

import re
from pathlib import Path

import pytest

from realtime_lrp import config
from realtime_lrp.errors import ConfigError

BAD = """\
lrp:
  composit: zplus
  pool: mean
  absorb_bias: yes
  xla: 1
overlay:
  opacity: 7
  opacity: 3
  follow: sinc
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
2: there is no key 'lrp.composit'; did you mean 'lrp.composite'?
3: lrp.pool: expected max or average; received 'mean'
4: lrp.absorb_bias: expected true or false; received 'yes'; did you mean true?
5: lrp.xla: expected true or false; received 1
8: overlay.opacity: is set twice; keep one of them
8: overlay.opacity: expected a number from 0 to 1; received 3
9: overlay.follow: expected flow, hold or sync; received 'sinc'; did you mean sync?
10: live: expected a section, with 'key: value' lines under it
11: there is no key 'inpt'; did you mean 'input'?
14: model.size: expected one number or HEIGHTxWIDTH, such as 224 or 224x320, up to 8192; \
received '3x'
15: model.name: expected a text; received a list
16: there is no key 'opacity'; did you mean 'overlay.opacity'?
17: there is no key 'lrp.pool'; write lrp: and the rest on a line under it
19: video.stride: expected a whole number from 1 to 1000; received 0.5
20: video.batch: expected auto or a whole number from 1 to 256; received 300
21: video.quality: expected 0 to 51 for h264; received 60
23: kiosk.pin: expected the value that realtime-lrp kiosk --hash-pin prints
24: kiosk.hours.mon: expected times such as 09:00-17:30, from 00:00 to 24:00, instead of '9:00'
25: kiosk.languages: expected 1 to 20 entries; received a list
28: kiosk.clips: expected a text; received keys with values
29: kiosk.idle_seconds: expected a number from 1 to 3600; received inf
"""


def test_every_error_of_a_file_is_told_at_once_with_its_line(tmp_path):
    """Unknown keys, wrong types, ranges, doubles: file, line, key and what to write."""
    file = tmp_path / "bad.yaml"
    file.write_text(BAD)
    with pytest.raises(ConfigError) as refused:
        config.load(file)
    assert str(refused.value).splitlines() == [f"{file}:{line}" for line in REFUSED.splitlines()]


def test_names_that_rooms_own_are_told_together_with_all_else(run, tmp_path):
    """Every place in order, whatever is wrong beside it; the nearest legal name with each."""
    file = tmp_path / "bad.yaml"
    file.write_text(
        "lrp:\n  method: gradcam\n  layers:\n    Conv2D: flt\n    Dense: zplus(1)\n  keep: 2\n"
        "overlay: {colormap: grey}\nlive:\n  panels:\n  - grad_cam\n  - zpluss\n"
        "kiosk:\n  exit_key: esc\n  languages:\n  - en\n  - xx\n  clips: [none.mp4]\n"
    )
    words = ("--config", file, "--set", "model.name=vgg17", "--composite", "z_plus")
    code, _, err = run("config", *words, "--opacity", 2)
    lines = [line.replace(f"{file}:", "") for line in err.strip().splitlines()]
    assert code == 78
    assert [re.split(" There| [Ee]xpected", line)[0] for line in lines] == [
        "realtime-lrp: 2: lrp.method:", "4: lrp.layers.Conv2D:", "5: lrp.layers.Dense:",
        "6: lrp.keep:", "7: overlay.colormap:", "11: live.panels:", "13: kiosk.exit_key:",
        "16: kiosk.languages: there is no xx.yaml in "
        f"{config.ASSETS / 'captions'}; there are de, en, es, fr, zh",
        "17: kiosk.clips:", "--opacity:", "--set: model.name:", "--composite:",
    ]  # fmt: skip
    for name in ("grad_cam", "flat", "gray", "zplus", "Escape", "vgg1"):
        assert f"Did you mean '{name}" in err
    code, _, err = run("image", "x.png", "-o", "y.png", *words)
    assert code == 78 and "13: kiosk" not in err and "lrp.keep" in err and "'z_plus'" in err


def test_captions_are_told_with_their_own_places(run, tmp_path):
    """A mistake in a file of captions and one in the configuration, together."""
    captions = tmp_path / "en.yaml"
    english = (config.ASSETS / "captions" / "en.yaml").read_text(encoding="utf-8")
    captions.write_text(english.replace("name: English", "nam: English"), encoding="utf-8")
    sets = (f"kiosk.captions={tmp_path}", "kiosk.languages=[en]", "lrp.pool=mean")
    code, _, err = run("config", *(word for one in sets for word in ("--set", one)))
    line = english[: english.index("name: English")].count("\n") + 1
    assert code == 78
    assert err.splitlines() == [
        "realtime-lrp: --set: lrp.pool: expected max or average; received 'mean'",
        f"{captions}:1: name: is missing",
        f"{captions}:{line}: there is no key 'nam'; did you mean 'name'?",
    ]


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        ("live.sorce", "did you mean 'live.source'?"),
        ("overlay.colour_map", "did you mean 'overlay.colormap'?"),
        ("kiosk.exit", "did you mean 'kiosk.exit_key'?"),
        ("lrp.colormap", "did you mean 'overlay.colormap'?"),  # it is in another section
        ("lpr", "did you mean 'lrp'?"),
        ("opacity", "did you mean 'overlay.opacity'?"),
        ("model.file", "model has name, weights, labels, preprocess, size"),
        ("video.output", "video has layout, stride, batch, codec, quality, audio"),
        ("xyz", "the sections are " + ", ".join(config.Config.model_fields)),
    ],
)
def test_an_unknown_key_is_answered_with_the_nearest(tmp_path, key, advice):
    """In its section, or of the same name in another one; else with all that there are."""
    file = tmp_path / "bad.yaml"
    section, dot, name = key.partition(".")
    file.write_text(f"{section}: {{{name}: 1}}" if dot else f"{section}: 1")
    with pytest.raises(ConfigError) as refused:
        config.load(file)
    assert str(refused.value) == f"{file}:1: there is no key {key!r}; {advice}"


def test_an_unknown_key_is_escaped_once(tmp_path):
    """Characters that a terminal would act on are shown as escapes with one backslash."""
    file = tmp_path / "bad.yaml"
    file.write_text('lrp: {"\\e[31mred": 1}')
    with pytest.raises(ConfigError) as refused:
        config.load(file)
    assert r"there is no key 'lrp.\x1b[31mred'" in str(refused.value)


def test_minus_nought_is_a_number():
    """YAML reads -0 as the integer 0."""
    assert config.load(sets=("overlay.opacity=-0",)).config.overlay.opacity == 0


def test_what_holds_several_values_names_the_wrong_ones():
    """Every day and every pattern, and what was expected there."""
    sets = (
        "kiosk.hours={mon: 9, tue: '9:00', xx: '09:00-10:00', wed: '10:00-11:00'}",
        "lrp.layers={Dense: 3, Conv2D: flat, 'a_*': [b]}",
    )
    with pytest.raises(ConfigError) as refused:
        config.load(sets=sets)
    assert sorted(str(refused.value).splitlines()) == [
        "--set: kiosk.hours.mon: expected a text; received 9; put it in quotes",
        "--set: kiosk.hours.tue: expected times such as 09:00-17:30, from 00:00 to 24:00, instead "
        "of '9:00'",
        "--set: kiosk.hours.xx: expected days such as mon, tue-fri, 'sat, sun' or daily instead "
        "of 'xx'",
        "--set: lrp.layers.Dense: expected a text; received 3; put it in quotes",
        "--set: lrp.layers.a_*: expected a text; received a list",
    ]


@pytest.mark.parametrize("target", ["top0", "top00", "-1", "''", "' '"])
def test_a_target_that_no_network_has_is_refused_without_one(target):
    """An index below 0, no class at all, the best 0."""
    with pytest.raises(ConfigError, match=r"lrp\.target: expected all, top1, top5, a class"):
        config.load(sets=(f"lrp.target={target}",))
    for legal in ("top1", "top10", "0", "-1 - 2", "top0 hat"):
        assert config.load(sets=(f"lrp.target={legal}",)).config.lrp.target == legal


@pytest.mark.parametrize("key", ["live.source=''", "live.sources=[0, ' ']"])
def test_a_source_is_not_empty(key):
    """Neither the first one nor a further one."""
    with pytest.raises(ConfigError, match=r"expected a text that is not empty"):
        config.load(sets=(key,))


def test_files_and_folders_that_are_not_there_are_told(run, tmp_path, monkeypatch):
    """With their lines and the exit code of what is missing; words are no files."""
    monkeypatch.chdir(tmp_path)
    file = Path("my.yaml")
    file.write_text(
        "model:\n  name: shapes\n  weights: no.h5\n  labels: no.txt\nlive:\n  folder: none\n"
    )
    code, _, err = run("config", "--config", file)
    assert code == 66
    assert err.splitlines() == [
        "realtime-lrp: my.yaml:3: model.weights: There is no weights file 'no.h5'. Expected "
        "imagenet, random or a file.",
        "my.yaml:4: model.labels: There is no labels file 'no.txt'. Expected class names.",
        "my.yaml:6: live.folder: There is no folder 'none'. Make it, or name another one.",
    ]
    Path("no.txt").touch()
    Path("none").mkdir()
    file.write_text(file.read_text().replace("no.h5", "random"))
    assert run("config", "--config", file)[0] == 0
    assert run("config", "--model", f"{'x' * 300}.keras")[0] == 66


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--model", "none.keras"), 66),
        (("--set", "kiosk.clips=[none.mp4, no.mp4]", "--model", "none.keras"), 66),
        (("--set", "kiosk.clips=[none.mp4]", "--composite", "no"), 78),
        (("--model", "none.keras", "--composite", "no"), 2),
        (("--weights", "none.h5"), 69),
        (("--weights", "none.h5", "--model", "none.keras"), 66),
        (("--config", "none.yaml"), 66),
        (("--config", "none.yaml", "--opacity", "3"), 78),
    ],
)
def test_the_exit_code_is_that_of_the_worst_place(run, words, code):
    """66 where only files are missing, 2 where only options are wrong, else 78."""
    assert run("config", *words)[0] == code
