"""The notebooks of the documentation run, and are stored with what they print and draw."""

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="the extra test is not installed")
pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
import notebooks  # noqa: E402, from assets/make

STORED = sorted(notebooks.NOTEBOOKS.glob("*.ipynb"))


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch):
    """A kernel leaves nothing in the home folder, and TensorFlow may say all that it has to."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")


def outputs(notebook, kind):
    """The outputs of one kind."""
    cells = (cell for cell in notebook.cells if cell.cell_type == "code")
    return [one for cell in cells for one in cell.outputs if one.output_type == kind]


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_notebook_is_stored_with_its_outputs(path):
    """Of one run from the first cell to the last, with pictures and without warnings."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not outputs(notebook, "error")
    assert {one.name for one in outputs(notebook, "stream")} <= {"stdout"}
    shown = outputs(notebook, "execute_result") + outputs(notebook, "display_data")
    assert sum("image/png" in one.data for one in shown) >= 3
    assert path.stat().st_size < 1_000_000 and str(Path.home()) not in path.read_text()


@pytest.mark.release
@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_notebook_runs(path):
    """From the first cell to the last; it prints nothing on standard error."""
    done = notebooks.execute(nbformat.read(path, as_version=4))
    assert {one.name for one in outputs(done, "stream")} <= {"stdout"}
    if path.stem == "explain_your_own_network":
        printed = "".join(one.text for one in outputs(done, "stream"))
        share = int(printed.split("without sticker: ")[1].split("%")[0])
        assert share < 30  # the shortcut is what its text says
