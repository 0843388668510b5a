"""`demo`: shows the embedded network on the embedded clip, in a window or as a file."""

import logging
from pathlib import Path

import numpy as np

from realtime_lrp.commands.live.run import run as run_live
from realtime_lrp.commands.video.overlay import overlay_file
from realtime_lrp.commands.video.task import Film
from realtime_lrp.config import ASSETS, Config
from realtime_lrp.config.names import VIEWER_COMPOSITE
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.gallery import gallery_of
from realtime_lrp.errors import UsageError
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.system.files import check_output
from realtime_lrp.video.pictures import write_picture
from realtime_lrp.video.writer import CONTAINERS
from realtime_lrp.view.tiles import contact_sheet

CLIP = ASSETS / "demo.mp4"  # one drawing after another
SCENES = ASSETS / "scenes.mp4"  # several at once, for the detector
SHEET_PICTURES = 12

NO_PANEL = (
    "the film has no panel of concepts, only the live view has one. To record it: "
    "realtime-lrp live --source %s --concepts --display none --duration 10 --record FILE.mp4"
)

log = logging.getLogger(__name__)


def clip_for(config: Config) -> Path:
    """The clip that shows what the network can do."""
    return SCENES if config.model.name == "shapes_detector" else CLIP


def in_window(config: Config, duration_s: float | None) -> list[str]:
    """Plays the clip in a loop in a window; returns what `live` returns."""
    source = {"source": str(clip_for(config)), "also_models": []}
    return run_live(config.changed(live=source), duration_s)


def to_file(config: Config, target: Path, overwrite: bool) -> list[str]:
    """Writes the overlaid clip and a contact sheet beside it."""
    if target.suffix.lower() not in CONTAINERS:
        raise UsageError(f"{str(target)!r}: expected a name that ends in .mp4, .mov or .mkv.")
    sheet = target.with_suffix(".png")
    for path in (target, sheet):
        check_output(path, overwrite)
    if config.live.concepts:
        log.warning(NO_PANEL, clip_for(config))
    engine = Engine(config, moving=True, otherwise=VIEWER_COMPOSITE)
    if config.concepts.gallery or config.concepts.names:
        gallery_of(engine)  # a broken one is refused here as in the window
    figures = Stats(engine.device, engine.precision)
    report = overlay_file(engine, config, Film(clip_for(config), target, overwrite), figures)
    thumbnails = [picture for _, picture in report.thumbnails]
    count = min(SHEET_PICTURES, len(thumbnails))
    chosen = np.linspace(0, len(thumbnails) - 1, count).round().astype(int)
    drawn = contact_sheet([thumbnails[n] for n in chosen])
    write_picture(sheet, drawn, overwrite, engine.provenance(config, "video").as_json())
    frames = f"{report.frames} frames -> {target} ({engine.computed})"
    return [frames, f"contact sheet -> {sheet}"]
