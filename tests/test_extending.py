"""The code of docs/extending.md runs and does what the page says, in Python and in commands."""

import copy
import json
import re
import shlex
from pathlib import Path

import av
import keras
import media
import numpy as np
import pytest

from realtime_lrp import COLORMAPS, COMPOSITES, METHODS, RULES
from realtime_lrp.config import legal_values
from realtime_lrp.models.names import NETWORKS
from realtime_lrp.models.untrusted.allowlist import ALLOWED_CLASSES
from realtime_lrp.relevance.reading.layers import ACTIVATIONS, LAYERS
from realtime_lrp.relevance.reading.operations import OPERATIONS
from realtime_lrp.video.sources import SOURCES

PAGE = (Path(__file__).parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")
TITLES = re.findall(r"^## (.*)$", PAGE, re.M)
SCRIPTED = "With the commands"
TABLES = {
    "RULES": RULES, "COMPOSITES": COMPOSITES, "LAYERS": LAYERS, "ACTIVATIONS": ACTIVATIONS,
    "OPERATIONS": OPERATIONS, "METHODS": METHODS, "NETWORKS": NETWORKS, "SOURCES": SOURCES,
    "COLORMAPS": COLORMAPS,
}  # fmt: skip


def blocks(title, language="python"):
    section = re.split(rf"^## {title}$", PAGE, flags=re.M)[1].split("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.M | re.S)


@pytest.fixture(autouse=True)
def tables():
    changed = (*TABLES.values(), keras.saving.get_custom_objects(), ALLOWED_CLASSES["keras.layers"])
    before = [copy.copy(table) for table in changed]
    yield
    for table, rows in zip(changed, before, strict=True):
        table.clear()
        table.update(rows)


def executed(title):
    namespace = {"__name__": "extending"}
    for block in blocks(title):
        exec(compile(block, f"extending.md: {title}", "exec"), namespace)


def test_every_block_is_run_by_one_of_these_tests():
    """No block is outside the sections or marked with another language."""
    everywhere = re.findall(r"^```(\w*)$", PAGE, re.M)
    assert len([one for one in everywhere if one == "python"]) == sum(map(len, map(blocks, TITLES)))
    assert set(everywhere) == {"python", "sh", ""}
    assert [name for name in TABLES if f"| `{name}`" not in PAGE] == []


@pytest.mark.parametrize("title", [title for title in TITLES if title != SCRIPTED])
def test_a_section_runs_and_finds_what_it_asserts(title):
    before = {name: len(table) for name, table in TABLES.items()}
    assert any("assert" in block for block in blocks(title))
    executed(title)
    assert any(len(table) > before[name] for name, table in TABLES.items())


def words_of(command):
    (line,) = [one for one in blocks(SCRIPTED, "sh")[0].splitlines() if f"mine.py {command}" in one]
    return shlex.split(line, comments=True)[1:]


def test_a_script_is_the_program_with_its_own_rows(run, tmp_path):
    executed(SCRIPTED)
    assert blocks(SCRIPTED)[0].endswith('if __name__ == "__main__":\n    main()\n')
    _, *words = words_of("live")
    words += ["--display", "none", "--duration", "0.1", "--stats", tmp_path / "stats.json"]
    code, _, err = run(*words)
    assert code == 0, err
    assert json.loads((tmp_path / "stats.json").read_text())["maps"] >= 1


def test_recordings_are_drawn_with_its_rows(run, tmp_path, monkeypatch):
    """With the added colour map, although a child process draws that never ran the script."""
    executed(SCRIPTED)
    monkeypatch.chdir(tmp_path)
    media.recording(tmp_path / "talk.mp4", count=4)
    _, command, *words = words_of("video")
    code, _, err = run(command, *words, "--set", "overlay.opacity=1", "--layout", "map")
    assert code == 0, err
    with av.open(str(tmp_path / "out.mp4")) as film:
        pictures = [frame.to_ndarray(format="rgb24") for frame in film.decode(video=0)]
    red, green, blue = np.float32(pictures).reshape(-1, 3).T
    pink = (red > 1.2 * green) & (blue > 1.2 * green) & (red + blue > 250)
    assert pink.sum() > 5  # no included colour map has red and blue at one place


def test_a_configuration_may_name_its_rows(run, tmp_path):
    """A configuration with added names is legal; a typing error gets the nearest of them."""
    executed(SCRIPTED)
    _, command, *words = words_of("config")
    code, out, err = run(command, *words)
    assert code == 0 and "composite: mine" in out, err
    assert "mine" in legal_values("lrp.composite")
    code, _, err = run("config", "--set", "lrp.composite=mime")
    assert code == 78 and "Did you mean 'mine'?" in err
    code, _, err = run("config", "--set", "overlay.colormap=violett")
    assert code == 78 and "Did you mean 'violet'?" in err
