"""`teach FOLDER`: subfolders are classes; writes the network and says what it learnt."""

import logging
from collections.abc import Iterator
from itertools import islice
from json import dumps
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from realtime_lrp.commands.concepts.pictures import FilePictures
from realtime_lrp.commands.teach.made import checked_output, provenance
from realtime_lrp.config import Config
from realtime_lrp.config.defaults import VIEWER_COMPOSITE
from realtime_lrp.config.provenance import KEY
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.learnt import SENTENCES, Look, what_it_learnt
from realtime_lrp.engine.loading import load_configured
from realtime_lrp.errors import DamagedInputError, MissingInputError
from realtime_lrp.models.taught_file import About, write_taught
from realtime_lrp.models.teaching import FEWEST, NOTHING, Features, Lesson, Showing
from realtime_lrp.system.atomic import atomic_file, check_output
from realtime_lrp.system.progress import Progress
from realtime_lrp.video.files import VIDEOS, refuse_collisions
from realtime_lrp.video.region import region_of

BATCH = 8  # pictures whose features are computed together

log = logging.getLogger(__name__)


def run(
    config: Config, folder: Path, output: Path, overwrite: bool = False, every: float = 0.5,
    seed: int = 0, json: Path | None = None,
) -> Iterator[str]:  # fmt: skip
    """Teaches, writes the network and the figures, and yields what people want to know.

    `every` are the seconds between the frames that are taken of a recording, `seed` is of the
    slight changes, `json` the file for every figure.
    """
    checked_output(output, overwrite)
    if json:
        check_output(json, overwrite)
        refuse_collisions([output, json], [output, json])
    classes = _classes(folder, every)
    features = Features(load_configured(config))
    lesson = Lesson([*classes])
    rng = np.random.default_rng(seed)
    for number, pictures in enumerate(classes.values()):
        _read(number, pictures, lesson, features, config.input.fit, rng)
    _check(lesson)
    kernel, bias = lesson.train()
    right = lesson.right(kernel, bias)
    made = provenance(features.network, config)
    about = About(tuple(lesson.classes), features.network.preprocess, made)
    with atomic_file(output, overwrite) as part:
        write_taught(part, features.taught(kernel, bias), about)
    found, aside = {}, lesson.pictures_aside()
    if NOTHING in aside:
        own = dict.fromkeys(("weights", "labels", "preprocess", "size"))
        written = {"name": str(output), **own}
        engine = Engine(config.changed(model=written), otherwise=VIEWER_COMPOSITE)
        found = what_it_learnt(engine, aside)
    figures = _figures(features.network.name, lesson, right, found)
    figures[KEY] = msgspec.to_builtins(made)
    if json:
        with atomic_file(json, overwrite) as part:
            part.write_text(dumps(figures, indent=1, ensure_ascii=False) + "\n")
    yield from _lines(figures)
    size = output.stat().st_size / 1e6
    yield f"{len(classes)} classes on {features.network.name}, {size:.1f} MB -> {output}"


def _classes(folder: Path, every: float) -> dict[str, FilePictures]:
    """The pictures and recordings of each subfolder."""
    if not folder.is_dir():
        raise MissingInputError(
            f"There is no folder {str(folder)!r}. Expected one with a subfolder for each class."
        )
    names = sorted(one.name for one in folder.iterdir() if one.is_dir() and one.name[0] != ".")
    if len(names) < 2:
        raise DamagedInputError(
            f"{str(folder)!r} has {len(names)} subfolders. Expected at least 2, one for each class."
        )
    return {name: FilePictures([str(folder / name)], None, every) for name in names}


def _read(
    number: int, pictures: FilePictures, lesson: Lesson, features: Features, fit: str,
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """Reads a class; each recording, and all its pictures together, become a showing."""
    shown: dict[int, Showing] = {}
    found, count = pictures.read(), 0
    with Progress(1, unit="pictures", logged=True) as progress:
        progress.begin(lesson.classes[number], pictures.total)
        while batch := list(islice(found, BATCH)):
            regions = [region_of(p.shape[:2], features.size, fit).extract(p) for _, p in batch]
            vectors = features.with_changes(regions, rng)
            for ((file, _), _), vector, region in zip(batch, vectors, regions, strict=True):
                part = file if pictures.files[file].suffix.lower() in VIDEOS else -1
                shown.setdefault(part, Showing(number)).add([vector], [region])
            count += len(batch)
            progress.step(count, "")
    pictures.tell_left_out()
    lesson.showings += shown.values()


def _check(lesson: Lesson) -> None:
    """Refuses classes with too few pictures, and says which have few or many."""
    counts = zip(lesson.classes, lesson.counts(), strict=True)
    if few := [f"{name!r} has {count}" for name, count in counts if count < FEWEST]:
        raise DamagedInputError(
            f"Too few pictures can be read: {', '.join(few)}. Expected at least {FEWEST} of each "
            "class; 20 or more are better."
        )
    for advice in lesson.advices():
        log.warning("%s", advice)


def _figures(
    network: str, lesson: Lesson, right: list[tuple[int, int]], found: dict[str, Look]
) -> dict[str, Any]:
    """The figures by their names in the JSON file; shares are from 0 to 1."""
    rows: list[dict[str, Any]] = []
    for name, count, (named, asked) in zip(lesson.classes, lesson.counts(), right, strict=True):
        look = found.get(name)
        rows.append({
            "name": name, "pictures": count, "aside": asked, "right": named,
            "on_thing": look and round(look.relevance, 4), "area": look and round(look.area, 4),
            "verdict": look and look.verdict,
        })  # fmt: skip
    asked = sum(row["aside"] for row in rows)
    accuracy = round(sum(row["right"] for row in rows) / asked, 4) if asked else None
    return {"network": network, "accuracy": accuracy, "aside": asked, "classes": rows}


def _lines(figures: dict[str, Any]) -> Iterator[str]:
    for row in figures["classes"]:
        line = f"{row['name']}: {row['pictures']} pictures, of the last {row['aside']} "
        line += f"{row['right']} named rightly"
        if row["verdict"]:
            line += f"; {row['on_thing']:.0%} of the relevance on what was shown, which takes "
            line += f"{row['area']:.0%} of the picture: {SENTENCES[row['verdict']]}"
        yield line
    if figures["accuracy"] is not None:
        yield f"right on {figures['accuracy']:.0%} of the {figures['aside']} pictures kept aside"
    if not any(row["verdict"] for row in figures["classes"]):
        yield (
            f"Add a folder {NOTHING!r} with pictures of the empty scene to learn whether it looks "
            "at the things or at the background."
        )
