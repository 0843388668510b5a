"""The live sources: which one is read, mirrored or not, and the viewer's commands to it."""

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

Send = Callable[[Event], object]


class Sources:
    """`live.source`, then `live.sources`, through which a key goes round and round."""

    def __init__(self, config: Config):
        live = config.live
        self.mirror = config.input.mirror
        self._camera = CameraSettings.of(live)
        self._names = list(dict.fromkeys([live.source, *live.sources]))
        self._present = 0

    def opener(self) -> OpenSource:
        """What opens the present source."""
        return functools.partial(open_source, self._names[self._present], camera=self._camera)

    def turned(self, picture: np.ndarray) -> np.ndarray:
        """The picture, mirrored while that is wanted; for the capture thread."""
        return mirrored(picture, self.mirror)

    def perform(self, command: Command | SeekTo | LoopFiles, capture: Capture, send: Send) -> bool:
        """Carries out a command; False if it is not one for the source."""
        source = capture.source
        match command:
            case Command.PAUSE | Command.RESUME:
                source.control("pause", command is Command.PAUSE)
            case Command.STEP:
                source.control("step")
            case Command.NEXT_FILE | Command.PREVIOUS_FILE if source.files < 2:
                one, none = "there is only one file", "this source has no files to go through"
                send(NoticeGiven(one if source.files else none))
            case Command.NEXT_FILE | Command.PREVIOUS_FILE:
                source.control("skip", 1 if command is Command.NEXT_FILE else -1)
                send(FileSkipped())
            case Command.NEXT_SOURCE if len(self._names) < 2:
                send(NoticeGiven("there is one source; name others with live.sources"))
            case Command.NEXT_SOURCE:
                self._present = (self._present + 1) % len(self._names)
                capture.switch(self.opener())
                send(SourceChanged(f"source: {masked(self._names[self._present])}"))
            case SeekTo(position):
                source.control("seek", position)
            case LoopFiles(on):
                source.control("loop", on)
            case _:
                return False
        return True
