"""Copies of configurations that worked, used when a later version of the file is wrong."""

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from realtime_lrp import config
from realtime_lrp.commands.kiosk.captions import folder_of
from realtime_lrp.commands.kiosk.check import wrong_settings
from realtime_lrp.commands.kiosk.folder import state_folder
from realtime_lrp.commands.kiosk.health import write_failure
from realtime_lrp.config import Config, Settings
from realtime_lrp.errors import Error
from realtime_lrp.system.atomic import atomic_file

TOLERATED = (
    ("kiosk", "clips"), ("live", "folder"), ("concepts", "gallery"), ("concepts", "names"),
)  # fmt: skip
"""Keys that may be wrong in a restored configuration: the exhibit runs without them."""

log = logging.getLogger(__name__)


class GoodCopy:
    """A configuration file and its captions as they are now, to be saved once they have worked.

    Args:
      file: the configuration file, or None: nothing is saved.
      chosen: the configuration read from it.
    """

    def __init__(self, file: str | Path | None, chosen: Config):
        self._contents = _contents(file, chosen) if file else {}

    def save(self) -> None:
        """Writes the copy; if that fails, the log says so."""
        try:
            for path, data in self._contents.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                with atomic_file(path, overwrite=True) as part:
                    part.touch(mode=0o600)  # camera addresses may contain passwords
                    part.write_bytes(data)
        except (Error, OSError) as error:
            log.warning("the working configuration could not be saved: %s", write_failure(error))

    def is_saved(self) -> bool:
        """Whether the saved copy has the same contents already."""
        try:
            return all(path.read_bytes() == data for path, data in self._contents.items())
        except OSError:
            return False


def restore(
    file: str | Path | None, sets: tuple[str, ...], options: Mapping[str, Any] | None
) -> Settings | None:
    """The saved copy of a configuration file, loaded; None if there is none that can be used.

    Args:
      file: the configuration file that cannot be used, or None.
      sets: assignments of `--set`.
      options: option such as "--opacity" -> value.
    """
    if not file:
        return None
    folder = _folder(file)
    try:
        settings = config.load(folder / "config.yaml", sets, options, check=None, command="kiosk")
    except Error:
        return None
    if settings.config.kiosk.captions:
        kiosk = settings.config.kiosk.model_copy(update={"captions": str(folder / "captions")})
        settings = replace(settings, config=settings.config.model_copy(update={"kiosk": kiosk}))
    wrong = [where for where, _ in wrong_settings(settings.config) if where[:2] not in TOLERATED]
    return None if wrong else settings


def _contents(file: str | Path, chosen: Config) -> dict[Path, bytes]:
    """What to save: path in the folder of copies -> contents."""
    folder, captions = _folder(file), folder_of(chosen)
    sources = {folder / "config.yaml": Path(file)}
    for path in captions.glob("*.yaml") if captions else ():
        sources[folder / "captions" / path.name] = path
    return {target: source.read_bytes() for target, source in sources.items()}


def _folder(file: str | Path) -> Path:
    """Where the copy of a configuration file is."""
    name = hashlib.sha256(str(Path(file).absolute()).encode()).hexdigest()[:12]
    return state_folder() / f"good-{name}"
