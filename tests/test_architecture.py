"""What stays light, and PyAV after OpenCV.

Which room imports which is held by `lint-imports`, and by ruff that `av` comes from one file.
"""

import subprocess
import sys

import pytest

from realtime_lrp.video import libraries


def test_pyav_is_imported_after_opencv():
    """PyAV before OpenCV hangs the first window for ever."""
    with open(libraries.__file__) as file:
        lines = [line.split("#")[0].strip() for line in file]
    assert lines.index("import cv2") < lines.index("import av")


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


def test_the_window_opens_before_tensorflow_is_imported():
    """Neither the viewer nor the exhibit imports it before its threads start."""
    statement = "import realtime_lrp.commands.live.run, realtime_lrp.commands.kiosk.start"
    assert not loaded_after(statement) & {"tensorflow", "keras", "matplotlib"}


@pytest.mark.release
def test_keras_is_imported_without_matplotlib():
    """Matplotlib can be imported later."""
    statement = "import realtime_lrp.engine.tensorflow, sys; "
    statement += "assert 'matplotlib' not in sys.modules; import matplotlib.figure"
    assert "matplotlib" in loaded_after(statement)
