"""Makes what the package embeds: networks, drawn pictures, galleries, the demo's clip."""

import logging
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np
from drawing.batch import Batch, draw_batch
from measuring import note

from realtime_lrp.models.drawings import CLASSES, NOTHING
from realtime_lrp.system.files import atomic_file
from realtime_lrp.video.pictures import write_picture
from realtime_lrp.video.writer import VideoWriter

if TYPE_CHECKING:
    import keras
    from train_shapes import Plan

logger = logging.getLogger(__name__)

CLIP_FPS = 30

DRAWINGS_SEED, DRAWINGS_EACH, DRAWINGS_QUALITY = 90210, 20, 85
"""The embedded pictures: how many of each symbol, and the quality of the WebP."""

GALLERY_SEED, GALLERY_EACH = 31415, 60
"""The pictures that the embedded galleries are chosen from."""


def make_network(folder: Path) -> None:
    """Trains `shapes` into `shapes.keras`; notes in `shapes.json` how."""
    from train_shapes import STAGES, train

    _save_trained(folder, "shapes", train, STAGES)


def make_drawings(folder: Path) -> None:
    """Draws what `evaluate` measures on, into `drawings.npz`."""
    batches = [*_drawn(DRAWINGS_SEED, DRAWINGS_EACH)]
    save_drawings(
        folder / "drawings.npz",
        np.concatenate([one.pixels[np.argsort(one.labels)] for one in batches]),
        np.concatenate([one.mask[np.argsort(one.labels)] for one in batches]),
        DRAWINGS_QUALITY,
    )


def _drawn(seed: int, each: int) -> Iterator[Batch]:
    """Draws every symbol once, several times."""
    for turn in range(each):
        yield draw_batch((seed, turn), NOTHING, nothings=0)


def make_galleries(folder: Path) -> None:
    """Chooses pictures for channels: `shapes.concepts`, and `shapes_vit.concepts`.

    With larger pictures they would be larger than 1 MB and 0.4 MB.
    """
    with tempfile.TemporaryDirectory() as drawn:
        for turn, batch in enumerate(_drawn(GALLERY_SEED, GALLERY_EACH)):
            for number, picture in enumerate(batch.pixels):
                file = Path(drawn, f"{turn:02d}-{number:02d}.png")
                write_picture(file, picture, overwrite=False)
        layers = "block3_conv2,block4_conv2,block5_conv2"
        _choose(folder, Path(drawn), "shapes", 60, layers=layers)
        _choose(folder, Path(drawn), "shapes_vit", 48, ("lrp.composite=attnlrp",))
    _keep_relevant(folder / "shapes_vit.concepts")


def _choose(
    folder: Path,
    drawn: Path,
    name: str,
    side: int,
    sets: tuple[str, ...] = (),
    layers: str | None = None,
) -> None:
    from realtime_lrp import config
    from realtime_lrp.commands.concepts import ConceptOptions, run

    settings = config.load(None, (f"model.name={name}", *sets), command="concepts").config
    options = ConceptOptions(
        images=drawn, output=folder / f"{name}.concepts", layers=layers, side=side, overwrite=True
    )
    for line in run(settings, options):
        logger.info("%s", line)


def _keep_relevant(file: Path) -> None:
    """Leaves out channels that were among the largest of no picture, and the most activating."""
    import msgspec

    from realtime_lrp.models.gallery import read_gallery_file, write_gallery

    contents, data = read_gallery_file(file)
    (layer,), ends = contents.layers, list(accumulate(contents.sizes, initial=0))
    kept: dict[int, int] = {}  # number of a picture -> its new one
    entries = {
        channel: msgspec.structs.replace(
            one, relevant=tuple(kept.setdefault(n, len(kept)) for n in one.relevant), activating=()
        )
        for channel, one in layer.entries.items()
        if one.often
    }
    layer = msgspec.structs.replace(layer, entries=entries)
    pictures = [data[ends[number] : ends[number + 1]] for number in kept]
    write_gallery(file, msgspec.structs.replace(contents, layers=(layer,)), pictures)
    logger.info("%d channels, %d bytes -> %s", len(entries), file.stat().st_size, file)


def make_transformer(folder: Path) -> None:
    """Trains `shapes_vit` into `shapes_vit.keras`; notes in `shapes_vit.json` how."""
    from train_shapes_vit import STAGES, train

    _save_trained(folder, "shapes_vit", train, STAGES)


def _save_trained(
    folder: Path, name: str, train: "Callable[[], keras.Model]", plans: "Sequence[Plan]"
) -> None:
    start = time.monotonic()
    model = train()
    model.save(folder / f"{name}.keras")
    seconds = round(time.monotonic() - start)
    stages = [{**asdict(plan), "pictures": plan.batches * plan.drawn} for plan in plans]
    training = {"stages": stages, "seconds": seconds}
    note(folder, name, {"classes": list(CLASSES), "training": training})
    logger.info("trained in %d s", seconds)


def make_clip(folder: Path) -> None:
    """Draws the demo's clips into `demo.mp4` and, of several drawings at once, `scenes.mp4`."""
    from clip import render_clip, render_scenes

    clips = {
        "demo.mp4": (frame for frame, _, _ in render_clip(fps=CLIP_FPS)),
        "scenes.mp4": render_scenes(fps=CLIP_FPS),
    }
    for name, frames in clips.items():
        with (
            atomic_file(folder / name, overwrite=True) as part,
            VideoWriter(part, ".mp4", Fraction(CLIP_FPS), Fraction(1, CLIP_FPS)) as writer,
        ):
            for number, frame in enumerate(frames):
                writer.write(frame, number)


def save_drawings(file: Path, pixels: np.ndarray, masks: np.ndarray, quality: int) -> None:
    """Writes such a file; picture n shows symbol n modulo their number."""
    coded = [
        cv2.imencode(".webp", one[..., ::-1], [cv2.IMWRITE_WEBP_QUALITY, quality])[1]
        for one in pixels
    ]
    sizes = np.array([*map(len, coded)], np.int32)
    bits = np.packbits(masks, axis=-1)
    np.savez_compressed(file, pictures=np.concatenate(coded), sizes=sizes, masks=bits)
