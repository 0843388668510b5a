"""Files that are no configuration: refused at once, in plain words, whatever they are."""

import os
import time
from pathlib import Path

import pytest

from realtime_lrp import config
from realtime_lrp.errors import ConfigError, MissingInputError


def refusal_of(file, kind=ConfigError):
    """The lines of a refusal."""
    with pytest.raises(kind) as refused:
        config.load(file)
    return str(refused.value).splitlines()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"lrp:\n  target: \xff", ":2: is not UTF-8 text; save it as UTF-8"),
        ("lrp: {target: \u00fc}".encode("latin-1"), ":1: is not UTF-8 text; save it as UTF-8"),
        ("lrp: {}".encode("utf-16"), ": is UTF-16 or UTF-32 text, or no text; save it as UTF-8"),
        (b"lrp: {target: \0}", ":1: the character U+0000 is not allowed in YAML"),
        (b"a: &x [1]\nb: *x", ":2: aliases (*name) are not allowed; quote a name that begins"),
        (b"- 1\n- 2\n", ":1: expected sections"),
        (b"#" * (1 << 20) + b"\n", ": is larger than 1 MiB"),
        (b"{a: " * 5000, ":1: is nested too deeply"),
        (b"[" * (1 << 20), ":1: is nested too deeply"),
        (b"[" + b"1, " * 300000, ":1: has more than 5000 entries"),
        (b"lrp: {target: " + b"x" * 5000 + b"}", ":1: is a text of more than 4096 letters"),
        (b"? [a]\n: b", ":1: expected a name before the colon, not a list"),
        (b"lrp:\n  <<: {pool: max}", ":2: lrp.<<: keys cannot be merged; write them out"),
        (b"lrp: {layers: {a: flat, a: flat}}", ":1: lrp.layers.a: stands here a second time"),
        (b"lrp: {target: !!python/object/apply:os.system [true]}", ":1: lrp.target: put a text th"),
        (b"lrp: {target: !!binary aGk=}", ":1: lrp.target: put a text that begins with ! in quo"),
        (b"lrp: {target: !!int x}", ":1: lrp.target: is no int; leave the !!int out"),
        (b"lrp: [1\nb: {", ":2: is not YAML: a list that begins with [ goes on here"),
        (b"lrp:\n\tpool: max", ":2: is not YAML: a line begins with a tab; use spaces"),
        (b"lrp: {target: @x}", ":1: is not YAML: quote a text that begins with @"),
        (b"lrp:\n  pool: max\n keep: 1", ":3: is not YAML: this line begins further left"),
        (b"lrp:\n  pool max\n  keep: 1", ":3: is not YAML: this line does not fit below"),
        (b'lrp:\n  target: "a\n', ":2: is not YAML: a quotation mark that is opened here is not"),
        (b'lrp:\n  target: "a\n  b: 1\n', ":3: is not YAML: a quotation mark that is opened here "
         "is not closed (it begins in line 2)"),
        (b"model:\n  name:shapes\n", ":2: model: write a space after the colon"),
        (b"model:\n  name:shapes", ":2: model: write a space after the colon"),
        (b"lrp:\n  target:top1\n  keep: 0.1\n", ":2: is not YAML: write a space after the colon"),
        (b"lrp:\n  keep: 0.1\n  target:top1\n\n", ":3: is not YAML: write a space after the co"),
        (b"lrp:\n  keep: 0.1\n  target:top1", ":3: is not YAML: write a space after the colon"),
        (b"lrp:\n  layers:\n    Dense:flat\n", ":3: lrp.layers: write a space after the colon"),
        (b"lrp: {layers: {Dense:flat}}", ":1: lrp.layers: write a space after the colon"),
        (b"kiosk: {hours: {mon:09:00-10:00}}", ":1: kiosk.hours.mon:09:00-10:00: write a space"),
        (b"live: {source:a:geheim@h}", ":1: live.source: write a space after the colon"),
        (b"lrp:\n  keep: 1\nmodel", ":3: is not YAML: expected 'key: value' with a colon and a"),
        (b"model:\n  - name: shapes\n", ":2: model: is a list; expected keys, without the dash"),
        ("lrp:\n\xa0\xa0pool: max\n".encode(), ":2: a line begins with U+00A0 (no-break space)"),
        ("lrp:\n  keep: 1\n\xa0 pool: max".encode(), ":3: a line begins with U+00A0 (no-break "),
        ("lrp:\n \xa0pool: max\n".encode(), ":2: lrp: a line begins with U+00A0 (no-break space)"),
        ("lrp:\n\u2003pool: max\n  keep: 1".encode(), ":2: is not YAML: a line begins with U+2003 "
         "(em space); use spaces"),
        (b'live: {folder: "C:\\Users"}', ":1: is not YAML: a \\ in double quotes begins a special"),
        (b"lrp: {", ":1: is not YAML: the text ends too early; something is not closed"),
        (b"--- {}\n--- {}", ":2: is not YAML: a second document begins here (---)"),
        (b'lrp: {pool: "\\ud800"}', ":1: lrp.pool: expected characters that exist; received"),
        (b'lrp: {target: "\\0"}', ":1: lrp.target: expected a text without the character U+0000"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_configuration_is_refused(tmp_path, text, words):
    """Whatever the bytes, the answer is a ConfigError in plain words, at once."""
    file = tmp_path / "bad.yaml"
    file.write_bytes(text)
    begun = time.process_time()
    line = refusal_of(file)[0]
    assert line.removeprefix(str(file)).startswith(words)
    assert time.process_time() - begun < 2


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"  word{number}: x\n" for number in range(2490)),
        "".join(f"  word{number}: x\n  word{number}: x\n" for number in range(1240)),
        f"  panels: [{', '.join(f'zplus{number}' for number in range(4900))}]\n",
        f"  sources: [{', '.join(['{}'] * 4900)}]\n",
    ],
    ids=["keys", "doubles", "names", "kinds"],
)
def test_thousands_of_mistakes_are_told_in_a_hundred_lines(tmp_path, text):
    """Quickly, and the last line says that there are more."""
    file = tmp_path / "bad.yaml"
    file.write_text(f"live:\n{text}")
    begun = time.process_time()
    with pytest.raises(ConfigError) as refused:
        config.load(file)
    assert time.process_time() - begun < 3
    lines = str(refused.value).splitlines()
    assert len(lines) == 101 and lines[-1].endswith(": this and further problems are left out")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("/dev/zero", "is a folder, a device or a pipe; expected a file"),
        ("/proc/self/mem", "cannot be read (Input/output error)"),
        ("fifo", "is a folder, a device or a pipe; expected a file"),
        (".", "is a folder, a device or a pipe; expected a file"),
        ("loop", "cannot be read (Too many levels of symbolic links)"),
        ("x" * 300, "cannot be read (File name too long)"),
        ("dangling", "there is no configuration file of this name"),
        ("a\0b", "there is no configuration file of this name"),
        ("", "is a folder, a device or a pipe; expected a file"),
    ],
)
@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs Linux")
def test_what_is_no_file_is_refused_at_once(tmp_path, monkeypatch, name, words):
    """Nothing is waited for, and nothing endless is read."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo")
    os.symlink("loop", "loop")
    os.symlink("nowhere", "dangling")
    kind = MissingInputError if words.startswith("there is no") else ConfigError
    (line,) = refusal_of(name, kind=kind)
    assert line.endswith(f": {words}")


def test_a_file_of_windows_is_read(tmp_path):
    """With a mark of its encoding, and line ends of two letters."""
    file = tmp_path / "my.yaml"
    file.write_bytes(b"\xef\xbb\xbflrp:\r\n  pool: average\r\n")
    assert config.load(file).config.lrp.pool == "average"


@pytest.mark.parametrize("written", ["no", "on", "12:30", "007", "0x1F", "2020-01-01", "1_000"])
def test_a_text_is_what_stands_in_the_file(written):
    """Not what YAML 1.1 makes of it: false, 750, 7, 31, a date."""
    chosen = config.load(sets=(f"kiosk.languages=[{written}, 'x']", f"lrp.target={written}"))
    assert chosen.config.lrp.target == written
    assert chosen.config.kiosk.languages == [written, "x"]
