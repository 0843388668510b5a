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


INVALID = "is not valid YAML ("
ALIASES = "anchors (&name) and aliases (*name) are not supported; put a text that begins"
TAGS = "tags (!name) are not supported; put the text in quotes"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"lrp:\n  target: \xff", ":2: is not UTF-8 text; save it as UTF-8"),
        ("lrp: {target: \u00fc}".encode("latin-1"), ":1: is not UTF-8 text; save it as UTF-8"),
        ("lrp: {}".encode("utf-16"), ": is UTF-16, UTF-32 or not text at all; save it as UTF-8"),
        (b"lrp: {target: \0}", ":1: the character U+0000 is not allowed in YAML"),
        (b"a: 1\nb: *x", f":2: b: {ALIASES}"),
        (b"a: &x [1]\nb: 1", f":1: a: {ALIASES}"),
        (b"&x a: 1", f":1: {ALIASES}"),
        (b"- 1\n- 2\n", ":1: expected sections such as 'lrp:' with keys under them"),
        (b"#" * (1 << 20) + b"\n", ": is larger than 1 MiB"),
        (b"{a: " * 5000, ":1: a.a.a.a.a.a.a: is nested too deeply"),
        (b"[" * (1 << 20), ":1: is nested too deeply"),
        (b"[" + b"1, " * 300000, ":1: has more than 5000 entries"),
        (b"lrp: {target: " + b"x" * 5000 + b"}", ":1: lrp.target: is a text of more than 4096 ch"),
        (b"lrp: {" + b"x" * 900 + b": 1}", ":1: there is no key 'lrp.xxx"),
        (b"? [a]\n: b", ":1: expected a name before the colon, not a list"),
        (b"lrp:\n  <<: {pool: max}", ":2: lrp.<<: merging keys is not supported; write them out"),
        (b"lrp: {layers: {a: flat, a: flat}}", ":1: lrp.layers.a: is set twice; keep one of them"),
        (b"lrp: {target: !!python/object/apply:os.system [true]}", f":1: lrp.target: {TAGS}"),
        (b"lrp: {target: !!binary aGk=}", f":1: lrp.target: {TAGS}"),
        (b"lrp: {target: !!int 3}", f":1: lrp.target: {TAGS}"),
        (b"lrp: {target: ! 3}", f":1: lrp.target: {TAGS}"),
        (b"lrp: [1\nb: {", f":2: {INVALID}expected ',' or ']'"),
        (b"lrp:\n\tpool: max", f":2: {INVALID}found character '\\t'"),
        (b"lrp: {target: @x}", f":1: {INVALID}found character '@'"),
        (b"lrp:\n  pool: max\n keep: 1", f":3: {INVALID}expected <block end>"),
        (b"lrp:\n  pool max\n  keep: 1", f":3: {INVALID}mapping values are not allowed here)"),
        (b'lrp:\n  target: "a\n', f":2: {INVALID}found unexpected end of stream)"),
        (b"lrp:\n  keep: 1\nmodel", f":3: {INVALID}could not find expected ':'); check indent"),
        (b'live: {folder: "C:\\Users"}', f":1: {INVALID}expected escape sequence"),
        (b"lrp: {", f":1: {INVALID}expected the node content"),
        (b"--- {}\n--- {}", ":2: a second document begins here (---); expected one"),
        (b"model:\n  name:shapes\n", ":1: model: expected a section, with 'key: value' lines"),
        (b"model:\n  - name: shapes\n", ":1: model: expected a section, with 'key: value' lines"),
        (b"lrp:\n  layers:\n    Dense:flat\n", ":2: lrp.layers: expected names with values"),
        (b"lrp: {layers: {Dense:flat}}", ":1: lrp.layers: expected {pattern: rule}, with a space"),
        (b"live: {source:a:geheim@h}", ":1: there is no key 'live.***@h'; live has source, sour"),
        ("lrp:\n \xa0pool: max\n".encode(), r":2: there is no key 'lrp.\xa0pool'; did you mean"),
        (b'lrp: {pool: "\\ud800"}', ":1: lrp.pool: expected characters that exist; received"),
        (b'lrp: {target: "\\0"}', ":1: lrp.target: expected a text without the character U+0000"),
    ],
)
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
    assert len(lines) == 101 and lines[-1].endswith(": there are more problems; these come first")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("/dev/zero", "is a folder, a device or a pipe; expected a file"),
        ("/proc/self/mem", "cannot be read (Input/output error)"),
        ("fifo", "is a folder, a device or a pipe; expected a file"),
        (".", "is a folder, a device or a pipe; expected a file"),
        ("loop", "cannot be read (Too many levels of symbolic links)"),
        ("x" * 300, "cannot be read (File name too long)"),
        ("dangling", "there is no such configuration file"),
        ("a\0b", "there is no such configuration file"),
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
