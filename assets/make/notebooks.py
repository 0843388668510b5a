"""Runs the notebooks of the documentation and stores them with their outputs.

The site and GitHub show these outputs; a test runs the notebooks again.
"""

import base64
import io
import re
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from PIL import Image

NOTEBOOKS = Path(__file__).parents[2] / "docs" / "notebooks"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def execute(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Runs a notebook in an empty folder, in place, with the Python that runs this.

    Raises:
      nbclient.exceptions.CellExecutionError: a cell failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=600, startup_timeout=300, resources=resources).execute()
    return notebook


def cleaned(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Leaves out what differs from run to run, and makes pictures smaller; in place."""
    notebook.metadata = nbformat.from_dict(METADATA)
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number:02}", {}  # without the times of this run
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "image/png" in data:
                data["image/png"] = smaller(data["image/png"])
            if "text/html" in data:
                data["text/html"] = re.sub(
                    r"(?<=data:image/png;base64,)[\w+/=]+",
                    lambda found: smaller(found[0]),
                    data["text/html"],
                )
    return notebook


def smaller(png: str) -> str:
    """A PNG with 32 levels of each colour, as base64: less than half the size."""
    levels = [round(round(value / 255 * 31) * 255 / 31) for value in range(256)]
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB").point(3 * levels)
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode("ascii")


def run_all(_: Path, only: str | None = None) -> None:
    """Runs all notebooks, or the one of the name `only`."""
    for path in sorted(NOTEBOOKS.glob(f"{only or '*'}.ipynb")):
        nbformat.write(cleaned(execute(nbformat.read(path, as_version=4))), path)
        print(f"{path.name}: {path.stat().st_size / 1024:.0f} KiB")
