"""The program and its packages, and room for what it writes."""

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from realtime_lrp import __version__
from realtime_lrp.commands.doctor.rows import Check, Row
from realtime_lrp.config import Settings
from realtime_lrp.system.quiet import ensure_temporary_folder

PACKAGES = {
    "TensorFlow": "tensorflow",
    "Keras": "keras",
    "OpenCV": "cv2",
    "PyAV": "av",
    "NumPy": "numpy",
}
"""What it is called -> the module that it is imported as."""

LITTLE = 1e9
"""Bytes of free disk below which there is a warning."""


def program(settings: Settings) -> Iterator[Row]:
    """Our version, Python's, and the operating system's."""
    try:
        system = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):  # not Linux
        system = platform.platform()
    python = f"Python {platform.python_version()}"
    found = f"realtime_lrp {__version__}, {python}, {system}, {platform.machine()}"
    yield Row("ok", "program", found)


def packages(settings: Settings) -> Iterator[Row]:
    """The versions that are installed; one that is brought twice, or not at all."""
    brought = metadata.packages_distributions()
    by_name = {name: sorted(set(brought.get(module, ()))) for name, module in PACKAGES.items()}
    there = [
        f"{name} {' and '.join(map(metadata.version, several))}"
        for name, several in by_name.items()
        if several
    ]
    yield Row("ok", "packages", ", ".join(there))
    for name, several in by_name.items():
        if not several:
            yield Row("missing", "packages", f"{name} is not installed", "pip install . once more")
        elif len(several) > 1:
            yield Row(
                "warning",
                "packages",
                f"{' and '.join(several)} both bring {name}, each writes over the other",
                f"pip uninstall {' '.join(several)}, then pip install . once more",
            )


def films(settings: Settings) -> Iterator[Row]:
    """Room where films go: the current folder, unless the configuration names one."""
    folder = Path(settings.config.live.folder)
    yield _room("films", folder, "choose another folder with -o, or for keys with live.folder")


def downloads(settings: Settings) -> Iterator[Row]:
    """Room where weights are kept."""
    from realtime_lrp.models.downloads import FOLDER  # it fails where there is no home folder

    yield _room("downloads", FOLDER, "name another folder in the variable KERAS_HOME")


def _room(name: str, folder: Path, otherwise: str) -> Row:
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free
    found = f"{free / 1e9:.1f} GB free in {folder.absolute()}"
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        found = f"{folder.absolute()} cannot be written ({error.strerror})"
        return Row("warning", name, found, otherwise)
    if free < LITTLE:
        return Row("warning", name, found, f"make room, or {otherwise}")
    return Row("ok", name, found)


def temporary(settings: Settings) -> Iterator[Row]:
    """The folder for temporary files, which TensorFlow needs as well."""
    asked = os.environ.get("TMPDIR")
    ensure_temporary_folder()
    try:
        folder = tempfile.gettempdir()
    except FileNotFoundError as error:
        words = "make a folder that can be written and name it in the variable TMPDIR"
        yield Row("missing", "temporary files", f"{error.strerror}", words)
        return
    free = f"{shutil.disk_usage(folder).free / 1e9:.1f} GB free in {folder}"
    if asked and os.path.abspath(asked) != folder:
        words = f"TMPDIR ({asked}) cannot be written; {free}"
        yield Row("warning", "temporary files", words, "name a folder there that can be written")
    else:
        yield Row("ok", "temporary files", free)


CHECKS: dict[str, Check] = {
    "program": program,
    "packages": packages,
    "films": films,
    "downloads": downloads,
    "temporary files": temporary,
}
