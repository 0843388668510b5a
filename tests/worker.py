"""The worker behind `video`: its child process decodes, draws and encodes, without a network."""

from contextlib import closing
from dataclasses import replace

import numpy as np

from realtime_lrp.commands.video.recoding import DrawableMap, Recoding, RecodingOrder
from realtime_lrp.config import Config
from realtime_lrp.video.region import region_of
from realtime_lrp.view.look import Look, colormap_named
from realtime_lrp.view.painting import Drawn

SIZE = (32, 32)


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


def recode(source, target, strength=0, seen=None, **changes):
    """Makes a film of a recording, with a map of this strength everywhere; returns the report.

    The list `seen` gets what a network would see.
    """
    drawn = Drawn(np.full(SIZE, strength, np.int8), 1.0 if strength else 0.0)
    with closing(Recoding(job_for(source, target, **changes))) as recoding:
        opened = recoding.opened
        box = region_of(opened.size, SIZE, "crop", opened.aspect).box
        for batch in recoding.batches():
            recoding.answer([DrawableMap(drawn, box, "")] * len(batch.pictures))
            if seen is not None:
                seen += list(batch.pictures)
    return recoding.report
