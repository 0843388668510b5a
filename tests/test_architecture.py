"""What stays light, and PyAV after OpenCV; which room imports which is held by `lint-imports`."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "realtime_lrp"
FILES = sorted(PACKAGE.rglob("*.py"))


def imports_of(file):
    """The names of all modules that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def test_pyav_is_imported_in_one_place_after_opencv():
    """PyAV before OpenCV hangs the first window for ever."""
    importing = [file for file in FILES if "av" in imports_of(file)]
    assert [file.name for file in importing] == ["libraries.py"]
    names = list(imports_of(importing[0]))
    assert names.index("cv2") < names.index("av")


def loaded_after(statement):
    """The top-level modules that are loaded in a fresh interpreter after a statement."""
    code = f"{statement}\nimport sys; print(*{{n.split('.')[0] for n in sys.modules}})"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(out.stdout.split())


@pytest.mark.parametrize(
    "statement", ["import realtime_lrp", "import realtime_lrp.config", "import realtime_lrp.cli"]
)
def test_words_are_understood_without_heavy_libraries(statement):
    """`--help` answers at once because nothing heavy is loaded."""
    assert not loaded_after(statement) & {"tensorflow", "keras", "cv2", "av", "rich"}
