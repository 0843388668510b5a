"""Which room may import which, and what stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "realtime_lrp"
ROOMS = ("relevance", "models", "video", "view")
FILES = sorted(PACKAGE.rglob("*.py"))


def imports_of(file):
    """The names of all modules that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(name):
    """The room of a module name inside the package, for example "video"."""
    return name.split(".")[1] if name.startswith("realtime_lrp.") else None


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_imports_go_one_way(file):
    """Cli -> modes -> {relevance, models, video, view} -> {config, ...}."""
    parts = file.relative_to(PACKAGE).parts
    here = parts[0] if len(parts) > 1 else file.stem
    reached = {room_of(name) for name in imports_of(file)} - {None, here, "__version__"}
    allowed = {
        "cli": {"modes", "view", "config", "messages", "errors"},
        "modes": {*ROOMS, "config", "children", "hours", "messages", "native", "outputs", "errors"},
        **{room: {"config", "children", "native", "outputs", "errors"} for room in ROOMS},
        "children": set(),
        "native": set(),
        "messages": {"errors"},
        "config": {"hours", "errors"},
        "hours": {"errors"},
        "outputs": {"errors"},
        "errors": set(),
        "__main__": {"cli"},
        "__init__": {*ROOMS, "modes", "errors"},  # what it offers, imported when asked for
    }[here]
    assert reached <= allowed


@pytest.mark.parametrize(
    ("room", "strangers"),
    [
        ("relevance", {"cv2", "av", "threading", "pathlib"}),
        ("video", {"tensorflow", "keras"}),
        ("view", {"tensorflow", "keras", "av"}),
    ],
)
def test_rooms_keep_to_their_libraries(room, strangers):
    """The mathematics knows no files, frames know no TensorFlow."""
    for file in (PACKAGE / room).rglob("*.py"):
        assert not {name.split(".")[0] for name in imports_of(file)} & strangers, file


def test_pyav_is_imported_in_one_place_after_opencv():
    """PyAV before OpenCV hangs the first window for ever."""
    importing = [file for file in FILES if "av" in imports_of(file)]
    assert [file.name for file in importing] == ["libraries.py"]
    names = list(imports_of(importing[0]))
    assert names.index("cv2") < names.index("av")


def test_the_exhibit_cannot_write_pictures():
    """Nothing that it imports, through however many files, records or keeps pictures or maps."""
    modules = {".".join(f.relative_to(PACKAGE.parent).with_suffix("").parts): f for f in FILES}
    reached, left = set(), ["realtime_lrp.modes.kiosk.start"]
    while left:
        name = left.pop()
        if name in modules and name not in reached:
            reached.add(name)
            left += imports_of(modules[name])
    writers = {"video.writer", "video.recorder", "modes.live.keeper", "modes.live.snapshot"}
    assert not reached & {f"realtime_lrp.{name}" for name in (*writers, "modes.records")}
    assert {"realtime_lrp.modes.kiosk.loop", "realtime_lrp.video.capture"} <= reached


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
