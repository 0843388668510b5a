"""The worker behind `video`, in this process: decodes, draws and encodes, without a network."""

import queue
from dataclasses import replace

import numpy as np

from realtime_lrp.commands.video.recoding import (
    DrawableMap,
    Opened,
    PictureBatch,
    Recoder,
    RecodingOrder,
)
from realtime_lrp.config import Config
from realtime_lrp.video.region import region_of
from realtime_lrp.view.look import Look, colormap_named
from realtime_lrp.view.painting import Drawn

SIZE = (32, 32)


class FakeParent:
    """Stands for the channel to the parent; answers all `PictureBatch` at once."""

    def __init__(self, strength=0):
        self.maps, self.sent = queue.Queue(), []
        self._drawn = Drawn(np.full(SIZE, strength, np.int8), 1.0 if strength else 0.0)

    def send(self, message):
        self.sent.append(message)
        if isinstance(message, Opened):
            box = region_of(message.size, SIZE, "crop", message.aspect).box
            self.map = DrawableMap(self._drawn, box, "")
        if isinstance(message, PictureBatch):
            for _ in message.pictures:
                self.maps.put(self.map)


def job_for(source, part, **changes):
    """A job with the settings that the command has where nothing is said."""
    settings = {
        "source": source, "parts": (part,), "container": part.suffix, "comment": "",
        "provenance": "",
        "span": None, "stride": 1, "batch": 4, "layout": "overlay", "codec": "h264",
        "quality": None, "sound": True, "size": SIZE, "fit": "crop", "region": None,
        "follows": False, "mirror": False,
        "look": replace(Look.of(Config().overlay), colormap=colormap_named("fire")),
    }  # fmt: skip
    return RecodingOrder(**{**settings, **changes})


def recode(source, target, strength=0, **changes):
    """Makes a film of a recording, with a map of this strength everywhere; returns the report."""
    parent = FakeParent(strength)
    return Recoder(job_for(source, target, **changes), parent, parent.maps).run()
