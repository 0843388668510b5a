"""The table of faults is true: every test that it names is there."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
TABLE = (TESTS.parent / "docs" / "faults.md").read_text().split("## What was tried")[0]
ROWS = [line for line in TABLE.splitlines() if re.match(r"\| (?!fault|-)", line)]


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
