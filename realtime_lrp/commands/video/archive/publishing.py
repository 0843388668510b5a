"""Makes the outputs of a recording from its parts: joined, complete, under their final names."""

import json
import logging
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
import numpy as np

from realtime_lrp.commands.video.archive.kept import KeptParts
from realtime_lrp.commands.video.archive.orders import Facts, Order, Planned
from realtime_lrp.commands.video.archive.results import FinishedFile
from realtime_lrp.commands.video.archive.worker import MAPS, ROWS, SUMMARY, THUMBNAILS
from realtime_lrp.commands.video.messages import Join, Report
from realtime_lrp.commands.video.overlay import missing_note, summarise
from realtime_lrp.commands.video.recoding import ask
from realtime_lrp.commands.video.task import Task
from realtime_lrp.engine.accounting import loss_notes
from realtime_lrp.results.records import MAPS_PREFIX
from realtime_lrp.results.summary import Timeline
from realtime_lrp.system.atomic import atomic_file, atomic_folder

log = logging.getLogger(__name__)


def publish(
    task: Task,
    order: Order,
    kept: KeptParts,
    plan: Planned,
    facts: Sequence[Facts],
    listen: Callable[[FinishedFile], None],
) -> Report:
    """Gives the outputs of a recording their final names, the film last.

    Args:
      task: the recording and its outputs.
      order: what was asked for.
      kept: the parts, all done.
      plan: how the recording was cut.
      facts: of each part.
      listen: called when all is complete, before the film gets its name.

    Raises:
      Error: an output cannot be made.
    """
    folders = [kept.folder_of(number) for number in range(len(facts))]
    companions = task.companions
    rows = kept.folder / ROWS
    _concatenate([folder / ROWS for folder in folders], rows)
    thumbnails = [one for folder in folders for one in _thumbnails(folder / THUMBNAILS)]
    report = _report(facts)
    replace = task.replace or task.replace_companions

    def complete(film: Path) -> None:
        listen(
            FinishedFile(
                order.source, task.outputs, report.frames, rows, thumbnails, report.notes,
                task.fingerprint,
            )
        )  # fmt: skip
        task.note_finished(film)

    with ExitStack() as stack:
        film = stack.enter_context(atomic_file(task.target, task.replace, complete))
        if companions.sidecar:
            _copy(rows, stack.enter_context(atomic_file(companions.sidecar, replace)))
        if companions.maps:
            into = stack.enter_context(atomic_folder(companions.maps, replace, MAPS_PREFIX))
            for folder in folders:
                for maps in sorted((folder / MAPS).glob(f"{MAPS_PREFIX}*")):
                    _copy(maps, into / maps.name)
        if companions.summary:
            summary = stack.enter_context(atomic_file(companions.summary, replace))
            if plan.pieces:
                summarise(summary, facts[0].making, thumbnails, _timeline(rows))
            else:
                _copy(folders[0] / SUMMARY, summary)
        if plan.pieces:
            joined = _join(task.local_source(kept.folder), order, plan, facts, folders, film)
            report = msgspec.structs.replace(
                report, notes=(*report.notes, *joined.notes), lost_sound=joined.lost_sound
            )
        else:
            _copy(folders[0] / f"film{order.container}", film)
    task.published()
    return report


def _report(facts: Sequence[Facts]) -> Report:
    notes = [note for one in facts for note in one.notes]
    if len(facts) > 1 and (missing := sum(one.missing for one in facts)):
        notes.append(missing_note(missing))
    notes += loss_notes(lost for one in facts for lost in one.losses)
    return Report(
        sum(one.frames for one in facts), sum(one.expected for one in facts), (),
        sum(one.bad_packets for one in facts), sum(one.lost_sound for one in facts),
        tuple(dict.fromkeys(notes)),
    )  # fmt: skip


def _join(
    source: Path,
    order: Order,
    plan: Planned,
    facts: Sequence[Facts],
    folders: Sequence[Path],
    film: Path,
) -> Report:
    making = facts[0].making
    ending = ".mp4" if order.container == ".mkv" else order.container
    join = Join(
        source, film, order.container, making.comment, making.description,
        order.span, order.config.video.audio == "copy", order.config.video.codec,
        tuple(folder / f"film{ending}" for folder in folders),
        tuple(pts for piece in plan.pieces for pts in piece.pts), plan.last,
    )  # fmt: skip
    return ask(source, join, Report)


def _timeline(rows: Path) -> Timeline:
    timeline = Timeline()
    with rows.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if row["explained"] and row["top5"]:
                timeline.add(row["time"], row)
    return timeline


def _thumbnails(file: Path) -> list[tuple[float, np.ndarray]]:
    with np.load(file) as arrays:
        return [(float(at), arrays[f"picture{n}"]) for n, at in enumerate(arrays["seconds"])]


def _concatenate(files: Sequence[Path], into: Path) -> None:
    with into.open("wb") as joined:
        for file in files:
            with file.open("rb") as one:
                shutil.copyfileobj(one, joined)


def _copy(source: Path, target: Path) -> None:
    """A second name of a file, or a copy of it where the file system has no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
