"""`teach`: a network for a few things of one's own, from a folder or by showing them live."""

import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from realtime_lrp.commands.live.run import run as run_live
from realtime_lrp.concepts.pictures import FilePictures
from realtime_lrp.config import Config
from realtime_lrp.config.names import VIEWER_COMPOSITE
from realtime_lrp.config.provenance import Provenance
from realtime_lrp.engine.engine import Engine
from realtime_lrp.errors import DamagedInputError, MissingInputError, UsageError
from realtime_lrp.models.taught_file import About, read_about, read_shown, write_taught
from realtime_lrp.realtime.stats import write_figures
from realtime_lrp.system.files import atomic_file, check_output
from realtime_lrp.system.progress import Progress
from realtime_lrp.teaching.learnt import SENTENCES, Focus, what_it_learnt
from realtime_lrp.teaching.lesson import CHANGES, FEW, FEWEST, NOTHING, Features, Lesson, Showing
from realtime_lrp.teaching.teacher import Teacher
from realtime_lrp.video.files import VIDEOS, refuse_repeated, same_file
from realtime_lrp.video.pictures import write_picture

BATCH = 8  # pictures whose features are computed together
MOST_CLASSES = 9  # most classes in live: each has a key, and so has the empty scene

log = logging.getLogger(__name__)


def live(
    config: Config, output: Path, overwrite: bool, classes: str | None = None,
    keep: Path | None = None, duration: float | None = None, serves: bool = False,
    new_token: bool = False,
) -> list[str]:  # fmt: skip
    """Runs the viewer; a network that was taught learns more, and its file may be the output."""
    model = Path(config.model.name)
    check_output(output, overwrite or same_file(output, model))
    lesson = begin_lesson(model, classes)
    taught = list[str]()

    def save(engine: Engine, lesson: Lesson) -> str:
        write(output, engine, lesson, overwrite=True)
        taught[:] = lesson.classes
        return output.name

    kept = partial(_keep, keep) if keep else None
    teach = partial(Teacher, lesson, save=save, keep=kept)
    lines = run_live(config, duration, serves=serves, new_token=new_token, teach=teach)
    if not taught:
        return [*lines, "nothing was written: show at least two things"]
    return [*lines, f"{len(taught)} classes: {', '.join(taught)} -> {output}"]


def _keep(folder: Path, name: str, picture: np.ndarray) -> None:
    (folder / name).mkdir(parents=True, exist_ok=True)
    write_picture(folder / name / f"{time.time_ns()}.jpg", picture, overwrite=True)


def begin_lesson(model: Path, classes: str | None) -> Lesson:
    """The lesson so far of a file that was taught, with further `classes`; of others a new one."""
    about = read_about(model) if model.suffix == ".keras" and model.is_file() else None
    shown = read_shown(model, about, 1 + CHANGES) if about else []
    known = [*about.labels] if about and shown else []
    if classes is None:
        classes = "" if known else "1,2,3"
    added = [name.strip() for name in classes.split(",")] if classes or not known else []
    names = [name for name in dict.fromkeys([*known, *added]) if name != NOTHING]
    if not all(names) or len({*added}) < len(added) or len(names) > MOST_CLASSES:
        of_file = f" beside {', '.join(known)}" if known else ""
        raise UsageError(
            f"--classes {classes!r:.80}{of_file}: expected up to {MOST_CLASSES} different names "
            "with commas between them, such as cup,pen."
        )
    lesson = Lesson([*names, NOTHING])
    for number, vectors in shown:
        lesson.showings.append(Showing(lesson.classes.index(known[number]), [*vectors]))
    return lesson


def from_folder(
    config: Config, folder: Path, output: Path, overwrite: bool = False, every: float = 0.5,
    seed: int = 0, json: Path | None = None,
) -> Iterator[str]:  # fmt: skip
    """Teaches, writes the network and figures, and yields what people want to know."""
    check_output(output, overwrite)
    if json:
        check_output(json, overwrite)
        refuse_repeated([output, json])
    if not folder.is_dir():
        raise MissingInputError(
            f"There is no folder {str(folder)!r}. Expected one with a subfolder for each class."
        )
    names = sorted(one.name for one in folder.iterdir() if one.is_dir() and one.name[0] != ".")
    if len(names) < 2:
        raise DamagedInputError(
            f"{str(folder)!r} has too few subfolders: {len(names)}. Expected at least 2, one for "
            "each class."
        )
    classes = {name: FilePictures([str(folder / name)], None, every) for name in names}
    _check({name: one.total or FEWEST for name, one in classes.items()})  # frames count later
    engine = Engine(config, keep_model=True, otherwise=VIEWER_COMPOSITE, named=False)
    features = Features(replace(engine.network, model=engine.model))
    lesson = Lesson([*classes])
    rng = np.random.default_rng(seed)
    for number, pictures in enumerate(classes.values()):
        _read(number, pictures, lesson, features, engine, rng)
    _check(dict(zip(classes, lesson.counts(), strict=True)))
    for advice in lesson.advices():
        log.warning("%s", advice)
    right = lesson.right(*lesson.train())
    engine = engine.with_network(features.taught(*lesson.train(aside=True), lesson.classes))
    made = write(output, engine, lesson, overwrite)
    found = what_it_learnt(engine, lesson.pictures_aside())
    figures = _figures(features.network.name, lesson, right, found)
    if json:
        write_figures(json, figures, made, overwrite)
    for row in figures["classes"]:
        line = f"{row['name']}: {row['pictures']} pictures, "
        line += f"{row['right']} of the last {row['aside']} named rightly"
        if row["verdict"]:
            line += f"; {row['on_thing']:.0%} of the relevance on what was shown, which takes "
            line += f"{row['area']:.0%} of the picture: {SENTENCES[row['verdict']]}"
        yield line
    if figures["accuracy"] is not None:
        yield f"right on {figures['accuracy']:.0%} of the {figures['aside']} pictures kept aside"
    if not found:
        yield (
            f"Add a folder {NOTHING!r} with pictures of the empty scene to learn whether it looks "
            "at the things or at the background."
        )
    size = output.stat().st_size / 1e6
    yield f"{len(classes)} classes on {features.network.name}, {size:.1f} MB -> {output}"


def _read(
    number: int, pictures: FilePictures, lesson: Lesson, features: Features, engine: Engine,
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """Reads a class; each recording, and all its pictures together, become a showing."""
    shown: dict[int, Showing] = {}
    found = pictures.read()
    count = 0
    with Progress(1, unit="pictures", logged=True) as progress:
        progress.begin(lesson.classes[number], pictures.total)
        while batch := list(islice(found, BATCH)):
            regions = [engine.region(one.shape[:2]).extract(one) for _, one in batch]
            vectors = features.with_changes(regions, rng)
            for ((file, _), _), vector, region in zip(batch, vectors, regions, strict=True):
                part = file if pictures.files[file].suffix.lower() in VIDEOS else -1
                showing = shown.get(part) or shown.setdefault(part, lesson.begin(number))
                showing.vectors.append(vector)
                showing.pictures.append(region)
            count += len(batch)
            progress.step(count, "")
    pictures.tell_left_out()


def _check(counts: dict[str, int]) -> None:
    if few := [f"{name!r} has {count}" for name, count in counts.items() if count < FEWEST]:
        raise DamagedInputError(
            f"There are too few pictures: {', '.join(few)}. Expected at least {FEWEST} of each "
            f"class that can be read; {FEW} or more are better."
        )


def _figures(
    network: str, lesson: Lesson, right: list[tuple[int, int]], found: dict[str, Focus]
) -> dict[str, Any]:
    """The figures by their names in the JSON file; shares are from 0 to 1."""
    rows: list[dict[str, Any]] = []
    for name, count, (named, asked) in zip(lesson.classes, lesson.counts(), right, strict=True):
        look = found.get(name)
        rows.append({
            "name": name, "pictures": count, "aside": asked, "right": named,
            "on_thing": look and round(look.relevance, 4), "doubt": look and round(look.doubt, 4),
            "area": look and round(look.area, 4), "verdict": look and look.verdict,
        })  # fmt: skip
    asked = sum(row["aside"] for row in rows)
    accuracy = round(sum(row["right"] for row in rows) / asked, 4) if asked else None
    return {"network": network, "accuracy": accuracy, "aside": asked, "classes": rows}


def write(path: Path, engine: Engine, lesson: Lesson, overwrite: bool) -> Provenance:
    """Writes the network of `Engine.with_network` and its lesson; returns how it was made."""
    network = engine.network
    made = msgspec.structs.replace(
        engine.provenance(), method="teach", composite=None, layers=None, target=None
    )
    about = About(tuple(network.labels or ()), network.preprocess, made)
    with atomic_file(path, overwrite) as part:
        write_taught(part, engine.model, about, lesson.remembered())
    return made
