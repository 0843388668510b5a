"""The program, its packages and configuration, and disk space for what it writes."""

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from realtime_lrp import config
from realtime_lrp.commands.doctor.rows import Check, Row
from realtime_lrp.commands.kiosk.check import wrong_settings
from realtime_lrp.config import KeyPath, Settings
from realtime_lrp.system.quiet import ensure_temporary_folder
from realtime_lrp.system.version import __version__

LIBRARIES = {
    "TensorFlow": "tensorflow",
    "Keras": "keras",
    "OpenCV": "cv2",
    "PyAV": "av",
    "NumPy": "numpy",
}
"""Name of a library -> its module."""

LOW_DISK = 1e9
"""Bytes of free disk below which there is a warning."""


def program(settings: Settings) -> Iterator[Row]:
    """The versions of the program, of Python and of the operating system."""
    try:
        system = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):  # not Linux
        system = platform.platform()
    python = f"Python {platform.python_version()}"
    found = f"realtime_lrp {__version__}, {python}, {system}, {platform.machine()}"
    yield Row("ok", "program", found)


def libraries(settings: Settings) -> Iterator[Row]:
    """The versions of the libraries; those that are installed twice or not at all."""
    providers = metadata.packages_distributions()
    found = {name: sorted(set(providers.get(module, ()))) for name, module in LIBRARIES.items()}
    versions = [
        f"{name} {' and '.join(map(metadata.version, packages))}"
        for name, packages in found.items()
        if packages
    ]
    yield Row("ok", "packages", ", ".join(versions))
    for name, packages in found.items():
        if not packages:
            yield Row("missing", "packages", f"{name} is not installed", "run pip install . again")
        elif len(packages) > 1:
            yield Row(
                "warning",
                "packages",
                f"{' and '.join(packages)} both contain {name} and overwrite each other's files",
                f"pip uninstall {' '.join(packages)}, then run pip install . again",
            )


def configuration(settings: Settings) -> Iterator[Row]:
    """Names and files in the configuration, if one was given."""
    file, sets, _ = settings.given
    if not (file or sets):
        return
    locations: dict[KeyPath, str] = {
        tuple(key.split(".")): origin
        for key, origin in settings.origins.items()
        if settings.is_set(key)
    }
    problems = [
        problem
        for key, error in wrong_settings(settings.config)
        for problem in config.problems_of(key, error, locations)
    ]
    for problem in problems:
        yield Row("missing", "configuration", f"{problem.location}: {problem.text}")
    if not problems:
        given = [str(file)] if file else []
        given += [f"{len(sets)} x --set"] if sets else []
        yield Row("ok", "configuration", " and ".join(given))


def films(settings: Settings) -> Iterator[Row]:
    """Disk space for films: in the current folder, unless the configuration names one."""
    folder = Path(settings.config.live.folder)
    yield _disk_space("films", folder, "choose another folder with -o, or live.folder for keys")


def downloads(settings: Settings) -> Iterator[Row]:
    """Disk space for downloaded weights."""
    from realtime_lrp.models.downloads import FOLDER  # fails without a home folder

    yield _disk_space("downloads", FOLDER, "set the variable KERAS_HOME to another folder")


def _disk_space(name: str, folder: Path, otherwise: str) -> Row:
    """Free space, and whether the folder can be written; a missing one counts as its parent."""
    existing = folder.absolute()
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    found = f"{free / 1e9:.1f} GB free in {folder.absolute()}"
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        found = f"{folder.absolute()} cannot be written ({error.strerror})"
        return Row("warning", name, found, otherwise)
    if free < LOW_DISK:
        return Row("warning", name, found, f"free some space, or {otherwise}")
    return Row("ok", name, found)


def temporary(settings: Settings) -> Iterator[Row]:
    """The folder for temporary files; TensorFlow needs it as well."""
    wanted = os.environ.get("TMPDIR")
    ensure_temporary_folder()
    try:
        folder = tempfile.gettempdir()
    except FileNotFoundError as error:
        advice = "create a writable folder and set the variable TMPDIR to it"
        yield Row("missing", "temporary files", f"{error.strerror}", advice)
        return
    free = f"{shutil.disk_usage(folder).free / 1e9:.1f} GB free in {folder}"
    if wanted and os.path.abspath(wanted) != folder:
        found = f"TMPDIR ({wanted}) cannot be written; {free}"
        yield Row("warning", "temporary files", found, "set TMPDIR to a writable folder")
    else:
        yield Row("ok", "temporary files", free)


CHECKS: dict[str, Check] = {
    "program": program,
    "packages": libraries,
    "configuration": configuration,
    "films": films,
    "downloads": downloads,
    "temporary files": temporary,
}
