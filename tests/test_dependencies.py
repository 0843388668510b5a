"""The versions that pyproject.toml allows: each has a lower bound, and the lowest of all work."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

HOME = Path(__file__).parents[1]
PROJECT = tomllib.loads((HOME / "pyproject.toml").read_text())["project"]

SAFE = {
    "keras": "3.14.1",  # CVE-2025-1550, -8747, -9905, -9906, -12058, -12060, -49655,
    # CVE-2026-0897, -1462, -1669, extraction of archives (3.14.0)
    "pyyaml": "5.4",  # CVE-2020-14343
    "pydantic": "2.4",  # CVE-2024-3772
    "psutil": "5.6.7",  # CVE-2019-18874
    "tensorflow": "2.12.1",  # CVE-2023-25668 and others of its time
    "opencv-python": "4.8.1.78",  # CVE-2023-4863
}
"""The first version without the faults that are known, and which these are."""


def numbers(text):
    """A version that can be compared."""
    return tuple(map(int, re.findall(r"\d+", text)))


def bounds():
    """Package -> the lowest version that is allowed."""
    found = {}
    for line in PROJECT["dependencies"]:
        name, _, rest = line.partition(">=")
        found[name] = re.split("[,;]", rest)[0].strip()
    return found


def test_every_dependency_has_a_lower_bound_that_holds_here():
    """What is installed is not older; nothing comes without a bound."""
    for name, lowest in bounds().items():
        assert re.fullmatch(r"[a-z0-9-]+", name) and lowest, name
        installed = "tensorflow-cpu" if name == "tensorflow" and not _has(name) else name
        if _has(installed):
            assert numbers(version(installed)) >= numbers(lowest), name


def _has(name):
    try:
        return bool(version(name))
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("name", SAFE)
def test_known_faults_are_below_the_bounds(name):
    """A bound that is lowered below a fixed fault fails here."""
    assert numbers(bounds()[name]) >= numbers(SAFE[name])


@pytest.mark.release
def test_the_lowest_versions_work(tmp_path):
    """A new environment with the lowest version of every dependency, and the suite in it.

    tensorflow-cpu stands for tensorflow: the same program in less space. Needs uv and the registry.
    """
    uv = shutil.which("uv")
    if not uv:
        pytest.skip("uv is not installed")
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"]]
    wanted = [re.sub("^tensorflow>=", "tensorflow-cpu>=", line) for line in wanted]
    lowest = tmp_path / "lowest"
    python = lowest / "bin" / "python"
    for words in (
        ("venv", "--python", sys.executable, lowest),
        ("pip", "install", "--resolution", "lowest-direct", "--python", python, *wanted),
    ):
        subprocess.run([uv, *map(str, words)], check=True, timeout=1200)
    done = subprocess.run(
        [str(python), "-m", "pytest", "-q", "-W", "ignore", "-p", "no:cacheprovider",
         "-m", "not release and not gui", str(HOME / "tests")],
        cwd=HOME, env={**os.environ, "PYTHONPATH": str(HOME)}, capture_output=True, text=True,
        timeout=3600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:]
