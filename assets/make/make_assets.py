"""Makes the files in `assets/`: the networks, their figures, the demo clip, pictures.

`python assets/make/make_assets.py` runs every step; name some of `network`, `transformer`,
`measure`, `drawings`, `concepts`, `clip`, `animation`, `views`, `panel`, `kiosk` to run only
these. The networks are measured on pictures from a seed that their training never uses.

Maps here are float32 [N, H, W], summed over the colour channels; masks are bool [N, H, W].
"""

import argparse
import json
import logging
import tempfile
import time
from dataclasses import asdict
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from drawing.batch import Batch, draw_batch, draw_batches

from realtime_lrp.config import ASSETS
from realtime_lrp.models.drawings import CLASSES, NOTHING, save_drawings, with_margin
from realtime_lrp.system.atomic import atomic_file
from realtime_lrp.video.pictures import write_picture
from realtime_lrp.video.writer import VideoWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import keras
    from train_shapes import Plan

    from realtime_lrp.relevance.explainer import Explainer

logger = logging.getLogger(__name__)

HELD_OUT_SEED = 2027
HELD_OUT_PICTURES = 6400

DRAWINGS_SEED, DRAWINGS_EACH, DRAWINGS_QUALITY = 90210, 20, 85
"""The embedded pictures: how many of each symbol, and the quality of the WebP."""

GALLERY_SEED, GALLERY_EACH = 31415, 60
"""The pictures that the embedded galleries are chosen from."""

CLIP_FPS = 30

NETWORKS = ("shapes", "shapes_vit")


def main(arguments: list[str] | None = None) -> None:
    """The command line: which steps to run, and the folder to write to."""
    steps = {
        "network": make_network,
        "transformer": make_transformer,
        "measure": measure_networks,
        "drawings": make_drawings,
        "concepts": make_galleries,
        "clip": make_clip,
        "animation": film_viewer,
        "views": photograph_viewer,
        "panel": photograph_panel,
        "kiosk": photograph_exhibit,
    }
    parser = argparse.ArgumentParser(prog="make_assets", description=__doc__.split("\n\n")[0])
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"one of {', '.join(steps)}")
    parser.add_argument("-o", "--output", type=Path, default=ASSETS, help="folder to write to")
    options = parser.parse_args(arguments)
    unknown = set(options.steps) - set(steps)
    if unknown:
        parser.error(f"unknown step: {', '.join(sorted(unknown))} (known: {', '.join(steps)})")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    for name, run in steps.items():
        if name in (options.steps or steps):
            run(options.output)


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


def _drawn(seed: int, each: int) -> "Iterator[Batch]":
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
    from realtime_lrp.commands.concepts.options import ConceptOptions
    from realtime_lrp.commands.concepts.run import run

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
    _write(folder, name, {"classes": list(CLASSES), "training": training})
    logger.info("trained in %d s", seconds)


def measure_networks(folder: Path) -> None:
    """Measures each network of the folder on pictures that it has never seen, into NAME.json."""
    count = 8
    batches = list(draw_batches(HELD_OUT_SEED, count, HELD_OUT_PICTURES // count, workers=2))
    held_out = Batch(*(np.concatenate(part) for part in zip(*map(_fields, batches), strict=True)))
    for name in NETWORKS:
        if (folder / f"{name}.keras").exists():
            _measure(folder, name, held_out)


def _measure(folder: Path, name: str, held_out: Batch) -> None:
    from realtime_lrp.models.untrusted.loading import load_model
    from realtime_lrp.relevance.explainer import Explainer

    explainer = Explainer(load_model(folder / f"{name}.keras"), composite="zplus", target="all")
    maps = {target: explain(explainer, held_out.pixels, target) for target in ("all", "top1")}
    figures: dict[str, Any] = {
        "held_out": {"seed": HELD_OUT_SEED, "pictures": len(held_out.labels)}
    }
    figures |= naming(maps["all"][0], held_out.labels)
    figures["pointing"] = {t: pointing(relevance, held_out) for t, (_, relevance) in maps.items()}
    _write(folder, name, figures)
    logger.info("%s: %.4f, pointing %s", name, figures["accuracy"], figures["pointing"])


def make_clip(folder: Path) -> None:
    """Draws the demo clip into `demo.mp4`."""
    from clip import render_clip

    with (
        atomic_file(folder / "demo.mp4", overwrite=True) as part,
        VideoWriter(part, ".mp4", Fraction(CLIP_FPS), Fraction(1, CLIP_FPS)) as writer,
    ):
        for number, (frame, _, _) in enumerate(render_clip(fps=CLIP_FPS)):
            writer.write(frame, number)


def film_viewer(folder: Path) -> None:
    """Films the live viewer on `demo.mp4` into `live.webp`."""
    import screens

    screens.film_viewer(folder)


def photograph_viewer(folder: Path) -> None:
    """Photographs the live viewer on a picture of `demo.mp4`: `live_views.jpg`, ..."""
    import screens

    screens.photograph_viewer(folder)


def photograph_panel(folder: Path) -> None:
    """Photographs the panel of concepts: `concepts.jpg`."""
    import screens

    screens.photograph_panel(folder)


def photograph_exhibit(folder: Path) -> None:
    """Photographs the exhibit into `kiosk.jpg`, `kiosk_states.jpg` and `kiosk_concepts.jpg`.

    It needs `demo.mp4`, and `shapes.concepts` in `assets`.
    """
    import screens

    screens.photograph_exhibit(folder)
    screens.photograph_exhibit_concepts(folder)


def _fields(batch: Batch) -> tuple[np.ndarray, ...]:
    return batch.pixels, batch.mask, batch.silhouette, batch.labels


def _write(folder: Path, name: str, figures: dict[str, Any]) -> None:
    path = folder / f"{name}.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**known, **figures}, indent=1) + "\n")


def explain(
    explainer: "Explainer", pixels: np.ndarray, target: str
) -> tuple[np.ndarray, np.ndarray]:
    """Explains pictures in batches.

    Args:
        explainer: of a network that takes RGB from 0 to 255.
        pixels: uint8 [N, H, W, 3] RGB.
        target: what is explained.

    Returns:
        Scores, float32 [N, classes], and relevance, float32 [N, H, W].
    """
    scores, maps = [], []
    for start in range(0, len(pixels), 32):
        part = explainer(pixels[start : start + 32].astype(np.float32), target=target)
        scores.append(np.asarray(part.scores))
        maps.append(np.asarray(part.relevance).sum(axis=-1))
    return np.concatenate(scores), np.concatenate(maps)


def naming(scores: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Accuracy, accuracy of each class, and the confusion matrix (row: true, column: answer)."""
    count = len(CLASSES)
    confusion = np.zeros((count, count), int)
    np.add.at(confusion, (labels, scores.argmax(axis=1)), 1)
    each = confusion.diagonal() / confusion.sum(axis=1)
    return {
        "accuracy": round(float(confusion.trace() / confusion.sum()), 4),
        "accuracy_of_class": {n: round(float(a), 4) for n, a in zip(CLASSES, each, strict=True)},
        "confusion": confusion.tolist(),
    }


def pointing(relevance: np.ndarray, batch: Batch) -> dict[str, float]:
    """How well maps point at the symbol, on the pictures that show one.

    Args:
        relevance: float32 [N, H, W].
        batch: the explained pictures.

    Returns:
        Shares from 0 to 1: how often the largest relevance is on the ink or in the silhouette,
        both with a margin of `MARGIN`, and how much of the positive relevance is there on average.
    """
    shown = batch.labels != NOTHING
    maps = relevance[shown]
    ink, silhouette = (
        np.stack([with_margin(mask) for mask in masks[shown]])
        for masks in (batch.mask, batch.silhouette)
    )
    return {
        "peak_on_ink": round(float(_at_peak(maps, ink).mean()), 4),
        "peak_in_silhouette": round(float(_at_peak(maps, silhouette).mean()), 4),
        "relevance_on_ink": round(float(_share(maps, ink).mean()), 4),
        "relevance_in_silhouette": round(float(_share(maps, silhouette).mean()), 4),
    }


def _at_peak(maps: np.ndarray, masks: np.ndarray) -> np.ndarray:
    peaks = maps.reshape(len(maps), -1).argmax(axis=1)
    return masks.reshape(len(masks), -1)[np.arange(len(maps)), peaks]


def _share(maps: np.ndarray, masks: np.ndarray) -> np.ndarray:
    maps = np.maximum(maps, 0)
    total = maps.sum(axis=(1, 2))
    return (maps * masks).sum(axis=(1, 2)) / np.maximum(total, 1e-9)


if __name__ == "__main__":
    main()
