"""The sources that a key goes through: `live.source`, then `live.sources`, round and round."""

import functools

from realtime_lrp.config import Config
from realtime_lrp.errors import masked
from realtime_lrp.realtime.capture import OpenSource
from realtime_lrp.video.cameras import CameraSettings
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
        """The present source, passwords hidden."""
        return masked(self._names[self._present])

    def opener(self) -> OpenSource:
        """What opens the present source."""
        return functools.partial(open_source, self._names[self._present], camera=self._camera)

    def advance(self) -> None:
        """Makes the next source the present one."""
        self._present = (self._present + 1) % len(self._names)
