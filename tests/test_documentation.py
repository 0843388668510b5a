"""The table of faults names tests that are there; the examples in Python run."""

import re
from functools import cache
from pathlib import Path

import media
import pytest

TESTS = Path(__file__).parent
DOCS = TESTS.parent / "docs"
TABLE = (DOCS / "faults.md").read_text().split("## What was tried")[0]
ROWS = [line for line in TABLE.splitlines() if re.match(r"\| (?!fault|-)", line)]


@cache
def defined():
    """Name of each test -> whether it is one of the long ones."""
    found = {}
    for file in TESTS.glob("test_*.py"):
        for marks, name in re.findall(
            r"((?:^@.*\n(?:^[ )].*\n)*)*)^def (test_\w+)", file.read_text(), re.M
        ):
            found[name] = "@pytest.mark.release" in marks
    return found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip()[:40])
def test_every_fault_has_its_tests(row):
    """Each row names at least one; a star stands at those that run at releases alone."""
    tests = defined()
    named = re.findall(r"`(test_\w+)`(\*?)", row)
    assert named, "no test"
    for name, star in named:
        assert name in tests, f"{name} is not there"
        assert bool(star) == tests[name], name


@pytest.mark.parametrize(
    "left_out", ["## Exporting", pytest.param("nothing", marks=pytest.mark.release)]
)
def test_the_python_of_the_documentation_runs(left_out, tmp_path, monkeypatch):
    """The examples of the page, one after the other, on a grey photo."""
    media.write_picture(tmp_path / "photo.jpg", media.plain((90, 90, 90), size=(120, 160)))
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for section in re.split(r"^(?=## )", (DOCS / "python.md").read_text(), flags=re.MULTILINE):
        for example in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
            if not section.startswith(left_out):
                exec(example, names)
    assert names["drawn"].shape == (120, 160, 3) and names["region"].box == (20, 0, 140, 120)
    maps = names["several"](names["x"]).maps
    assert set(maps) == {"guided_backprop", "grad_cam", "zplus"}  # beside .relevance
    assert all(map_.shape == names["x"].shape for map_ in maps.values())
    assert (tmp_path / "maps.png").read_bytes().startswith(b"\x89PNG")
    assert left_out == "## Exporting" or set(names["exported"]) == {
        "serving_default",
        "explain_class",
    }
