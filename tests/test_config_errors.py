"""What is wrong with a configuration: all of it at once, each with its place and the way out."""

import re

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
  fit: crop
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
8: overlay.opacity: stands here a second time; keep one of them
8: overlay.opacity: expected a number from 0 to 1; received 3
9: overlay.follow: expected flow, hold or sync; received 'sinc'; did you mean sync?
10: live: is a section; expected lines 'key: value' under it
11: there is no key 'inpt'; did you mean 'input'?
14: model.size: expected one number or HEIGHTxWIDTH, for example 224 or 224x320, up to 8192; \
received '3x'
15: model.name: expected a text; received a list
16: there is no key 'opacity'; did you mean 'overlay.opacity'?
17: there is no key 'lrp.pool'; write 'section:' in one line and 'key: value' under it
19: video.stride: expected a whole number from 1 to 1000; received 0.5
20: video.batch: expected auto or a whole number from 1 to 256; received 300
21: video.quality: expected 0 to 51 for h264; received 60
23: kiosk.pin: expected what realtime-lrp kiosk --hash-pin prints
24: kiosk.hours: expected times such as 09:00-17:30, from 00:00 to 24:00, instead of '9:00'
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
    ("words", "code"),
    [
        (("--model", "none.keras"), 66),
        (("--set", "kiosk.clips=[none.mp4, no.mp4]", "--model", "none.keras"), 66),
        (("--set", "kiosk.clips=[none.mp4]", "--composite", "no"), 78),
        (("--model", "none.keras", "--composite", "no"), 2),
        (("--config", "none.yaml"), 66),
        (("--config", "none.yaml", "--opacity", "3"), 78),
    ],
)
def test_the_exit_code_is_that_of_the_worst_place(run, words, code):
    """66 where only files are missing, 2 where only options are wrong, else 78."""
    assert run("config", *words)[0] == code
