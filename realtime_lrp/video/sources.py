"""Opens what `--source` names: a camera, a stream, a screen, files, or a synthetic picture.

Every source of this package is read by a child process, see `ChildSource`. A new source with a name
is a row in `SOURCES`.
"""

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from realtime_lrp.errors import MissingInputError, masked
from realtime_lrp.video import cameras
from realtime_lrp.video.cameras import CameraSettings
from realtime_lrp.video.files import PICTURES, VIDEOS, inputs_of
from realtime_lrp.video.picture_process import ChildSource
from realtime_lrp.video.playback import Playback
from realtime_lrp.video.screen import Screen
from realtime_lrp.video.source import Source
from realtime_lrp.video.stream import Stream
from realtime_lrp.video.synthetic import Synthetic


def open_source(words: str, stop: threading.Event, camera: CameraSettings | None = None) -> Source:
    """Opens what `words` name, as `--source` does, until `stop` is set.

    They are a name out of `SOURCES` ("synthetic", "synthetic:60" with frames a second, "screen",
    "screen:2"), a camera ("0", "/dev/video0" or a part of its name), a URL, or a file, folder or
    glob. Sources of this package are read by a child process; rows that a program adds to `SOURCES`
    are opened in this process. Raises UnavailableError for a camera, stream or screen that cannot
    be opened, MissingInputError if there is no such file and no such camera.
    """
    opener, arguments = opener_of(words, camera or CameraSettings())
    if opener.__module__.partition(".")[0] == __package__.partition(".")[0]:
        return ChildSource(opener, arguments, stop)
    return opener(*arguments, stop)


def open_files(files: Sequence[Path], stop: threading.Event) -> Source:
    """Plays recordings and pictures, read by a child process, see `Playback`."""
    return ChildSource(Playback, [list(map(str, files))], stop)


SOURCES: dict[str, Callable[[str, threading.Event], Source]] = {
    "synthetic": Synthetic,
    "screen": Screen,
}
"""Name -> what opens the source called "NAME" or "NAME:MORE".

The opener is called as `opener(MORE or "", stop)`; `stop` ends the source's waits, see `Source`.
"""


def opener_of(words: str, camera: CameraSettings) -> tuple[Callable[..., Source], list[Any]]:
    """What opens a source, and its arguments but for `stop`."""
    named = re.fullmatch(r"([^:]+)(?::(.+))?", words, re.DOTALL)
    if named and named[1] in SOURCES:
        return SOURCES[named[1]], [named[2] or ""]
    if words.isdecimal() or words.startswith("/dev/"):
        return _camera(int(words) if words.isdecimal() else words, camera)
    if "://" in words:
        return Stream, [words]
    try:
        return Playback, [list(map(str, inputs_of([words], PICTURES + VIDEOS, "source")))]
    except MissingInputError:
        if cameras.with_name(words):
            return _camera(words, camera)
    raise MissingInputError(
        f"There is no source {masked(words)!r}: no such file, folder or match, and no camera of "
        f"that name. {cameras.describe_all()}"
    )


def _camera(device: int | str, settings: CameraSettings) -> tuple[Callable[..., Source], list[Any]]:
    cameras.check_plugged_in(device)  # a child process for each retry would cost too much
    return cameras.Camera, [device, asdict(settings)]
