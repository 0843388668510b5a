"""The live source: which one, mirrored or not, and the viewer's commands to it.

`SourceList` is what a key goes through: `live.source`, then `live.sources`, round and round.
"""

import functools
from collections.abc import Callable

import numpy as np

from realtime_lrp.config import Config
from realtime_lrp.errors import masked
from realtime_lrp.realtime.capture import Capture, OpenSource
from realtime_lrp.realtime.viewer.events import Event, FileSkipped, NoticeGiven, SourceChanged
from realtime_lrp.realtime.viewer.state import Command, LoopFiles, SeekTo
from realtime_lrp.video.cameras import CameraSettings
from realtime_lrp.video.pictures import mirrored
from realtime_lrp.video.sources import open_source


class SourceList:
    """The configured sources, one of which is the present one; at the start `live.source`."""

    def __init__(self, config: Config):
        live = config.live
        self._camera = CameraSettings.of(live)
        self._names = list(dict.fromkeys([live.source, *live.sources]))
        self._present = 0

    def __len__(self) -> int:
        return len(self._names)

    @property
    def name(self) -> str:
        return masked(self._names[self._present])

    def opener(self) -> OpenSource:
        return functools.partial(open_source, self._names[self._present], camera=self._camera)

    def advance(self) -> None:
        self._present = (self._present + 1) % len(self._names)


class Mirror:
    """Mirrors the captured pictures while it is on; the capture thread calls it."""

    def __init__(self, on: bool):
        self.on = on

    def __call__(self, picture: np.ndarray) -> np.ndarray:
        return mirrored(picture, self.on)


class SourceControl:
    """Carries out the viewer's commands to the source."""

    def __init__(self, capture: Capture, sources: SourceList, send: Callable[[Event], object]):
        self._capture, self._sources, self._send = capture, sources, send

    def perform(self, command: Command | SeekTo | LoopFiles) -> bool:
        """Carries out a command; False if it is not one for the source."""
        match command:
            case Command.PAUSE | Command.RESUME:
                self._capture.source.pause(command is Command.PAUSE)
            case Command.STEP:
                self._capture.source.step()
            case Command.NEXT_FILE:
                self._skip(1)
            case Command.PREVIOUS_FILE:
                self._skip(-1)
            case Command.NEXT_SOURCE:
                self._next_source()
            case SeekTo(position):
                self._capture.source.seek(position)
            case LoopFiles(on):
                self._capture.source.loop(on)
            case _:
                return False
        return True

    def _skip(self, files: int) -> None:
        source = self._capture.source
        if source.files < 2:
            one = source.files == 1
            reason = "there is only one file" if one else "this source has no files to go through"
            self._send(NoticeGiven(reason))
            return
        source.skip(files)
        self._send(FileSkipped())

    def _next_source(self) -> None:
        if len(self._sources) < 2:
            self._send(NoticeGiven("there is one source; name others with live.sources"))
            return
        self._sources.advance()
        self._capture.switch(self._sources.opener())
        self._send(SourceChanged(f"source: {self._sources.name}"))
