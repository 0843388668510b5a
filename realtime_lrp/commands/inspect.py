"""`inspect`: what every layer of a network held for one picture, for TensorBoard.

A run is a folder in the log folder. Its tags are numbered from the output (01) to the picture, the
way that relevance travels: "07 block5_pool/relevance". With a method that hands down gradients
"relevance" stands for the gradient, under the same tags, so that runs of all methods compare.
Tensors hold a batch of one picture.
"""

import os
import re
import shutil
import sys
from collections.abc import Sequence
from contextlib import closing
from io import StringIO
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from tensorboard.plugins.histogram import metadata

from realtime_lrp.config import Config
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.wording import score_list, top_scores
from realtime_lrp.errors import TransferError, first_line
from realtime_lrp.relevance.explainer import LayerRecord
from realtime_lrp.system.atomic import atomic_folder
from realtime_lrp.video.pictures import mirrored, read_picture
from realtime_lrp.view import tiles

import tensorflow as tf  # isort: skip - after the engine, which holds back what it prints

MAX_POOLS = ("MaxPooling2D", "GlobalMaxPooling2D")
BOUND = 1e-3
"""The loss that is marked, as a share of what begins at the output."""

LEGEND = (
    f"! more than {BOUND:.1%} of what began at the output is lost (below 0: gained): neurons with "
    "nothing to share it by, or epsilon, keep, absorb_bias."
)
PAIRED = 16  # channels of a max pool that are shown side by side
BUCKETS = 30
WORDS = ("layer", "type", "rule", "input -> output")
NUMBERS = ("largest\nactivation", "sum\narrived", "handed\ndown", "lost")
NARROWEST = 60  # characters of the table, whatever the terminal says
EVENTS = "tfevents"  # in the name of every file that TensorBoard reads

Row = tuple[list[str], list[str]]
"""Words and numbers of the table."""


def run(config: Config, source: Path, logdir: Path, overwrite: bool) -> list[str]:
    """Explains a picture and writes what every layer held.

    Relevance that a layer loses is marked in the table. It is lost by definition where a neuron has
    nothing to share it by: a class whose pooled map is 0 throughout, a neuron without any positive
    contribution under z+, an output of 0 under gamma; a little where the stabiliser is not small
    against z (`epsilon`); with `keep` below 1 and with `absorb_bias`. Alpha-beta hands down too
    much (a negative loss) where a neuron has no negative contributions.

    Args:
      config: the effective configuration.
      source: the picture.
      logdir: TensorBoard's folder, made where its parent exists. The run in it is named after the
        picture, the model, the method or composite, the target and what else is set for them.
      overwrite: whether a run of that name is replaced; else it is refused. It is not added to.

    Returns:
      A table of the layers, a line for each max pool, and where the run is.

    Raises:
      MissingInputError, DamagedInputError: the picture cannot be read.
      OutputError: the run cannot be made, or exists.
      TransferError: a write failed.
    """
    target = logdir / _run_name(config, source)
    with atomic_folder(target, overwrite, EVENTS) as part:
        picture = mirrored(read_picture(source), config.input.mirror)
        engine = Engine(config)
        x = engine.network.prepare(engine.region(picture.shape[:2]).extract(picture)[None]).numpy()
        explanation, records = engine.explainer(x), engine.explainer.layers(x)
        conserving = any(record.rule for record in records)  # else gradients are handed down
        _write_run(part, records, x, explanation.relevance, conserving)
    best = score_list(top_scores(engine, explanation.scores[0], 3))
    return [
        *_table(records, conserving),
        *_about_pools(records, conserving, config.lrp.pool == "average"),
        f"{source.name}: {best} -> {target}",
        f"Look at it with: tensorboard --logdir {logdir}",
    ]


def _run_name(config: Config, source: Path) -> str:
    lrp, model = config.lrp, config.model
    further = {
        **model.model_dump(exclude_defaults=True, exclude={"name", "labels"}),
        **lrp.model_dump(exclude_defaults=True, exclude={"method", "composite", "target"}),
        **config.input.model_dump(exclude_defaults=True),
    }
    words = [
        source.stem,
        Path(model.name).stem,
        lrp.composite if lrp.method == "lrp" else lrp.method,
        lrp.target,
        *(f"{key}={value}" for key, value in further.items()),
    ]
    return "-".join(re.sub(r"[^\w.+=-]+", "_", word) for word in words)


def _write_run(
    folder: Path, records: Sequence[LayerRecord], x: np.ndarray, map_: np.ndarray, conserving: bool
) -> None:
    digits = max(2, len(str(len(records) + 1)))
    last = f"{len(records) + 1:0{digits}} picture"
    try:
        writer = tf.summary.create_file_writer(str(folder))
        with closing(writer), writer.as_default(step=0):
            _write_curves(f"{0:0{digits}} all layers", records, conserving)
            for number, record in enumerate(records, 1):
                tag = f"{number:0{digits}} {record.name.replace('/', '.')}"
                _write_tensors(tag, record.output, record.arrived)
                if record.kind in MAX_POOLS:
                    _write_pool(tag, record)
            _write_tensors(last, x, map_)
        _check_complete(folder, last)
    except (OSError, tf.errors.OpError) as error:
        reason = first_line(error) if isinstance(error, OSError) else type(error).__name__
        raise TransferError(
            f"Writing into {str(folder.parent)!r} failed ({reason}). "
            "Nothing is left of it; make room and start again."
        ) from error


def _check_complete(folder: Path, last: str) -> None:
    """Refuses a cut-off file of events: TensorFlow's writer is silent when the disk is full."""
    (file,) = folder.iterdir()
    try:
        events = list(tf.data.TFRecordDataset(str(file)).as_numpy_iterator())
    except tf.errors.DataLossError:
        events = []
    if not events or last.encode() not in events[-1]:
        raise OSError("the file of events is cut off")
    with file.open("rb") as written:
        os.fsync(written.fileno())


def _write_curves(tag: str, records: Sequence[LayerRecord], conserving: bool) -> None:
    """Step 0 is what begins at the output, step n what layer n hands down and what it loses."""
    tf.summary.scalar(f"{tag}/sum of relevance", _sum(records[0].arrived), step=0)
    for number, record in enumerate(records, 1):
        tf.summary.scalar(f"{tag}/sum of relevance", _sum(*record.handed_down), step=number)
        if conserving:
            tf.summary.scalar(f"{tag}/lost", _lost(record), step=number)


def _write_tensors(tag: str, activation: np.ndarray, relevance: np.ndarray) -> None:
    _write_histogram(f"{tag}/activation, histogram", activation)
    _write_histogram(f"{tag}/relevance, histogram", relevance)
    activation, relevance = tiles.as_maps(activation[0]), tiles.as_maps(relevance[0])
    channels = tiles.strongest(relevance)
    for what, maps, colours in (
        ("activation", activation, tiles.activation_colours),
        ("relevance", relevance, tiles.relevance_colours),
    ):
        (coloured,), ends = colours([maps[..., channels]])
        about = f"{ends}. {_listed(channels)}"
        tf.summary.image(f"{tag}/{what}", tiles.tiled(coloured)[None], description=about)


def _write_pool(tag: str, record: LayerRecord) -> None:
    """Both tensors of a max pool, the read one on the left."""
    handed_down, arrived = tiles.as_maps(record.handed_down[0][0]), tiles.as_maps(record.arrived[0])
    read, written = tiles.as_maps(record.inputs[0][0]), tiles.as_maps(record.output[0])
    channels = tiles.strongest(handed_down, PAIRED)
    captions = f"reads {_shape(record.inputs[0])}", f"writes {_shape(record.output)}"
    for what, pair, colours in (
        ("activation", (read, written), tiles.activation_colours),
        ("relevance", (handed_down, arrived), tiles.relevance_colours),
    ):
        (left, right), ends = colours([maps[..., channels] for maps in pair])
        sheet = tiles.side_by_side(left, right, captions)
        about = f"{ends}. {_listed(channels)}"
        tf.summary.image(f"{tag}/two tensors, {what}", sheet[None], description=about)


def _write_histogram(tag: str, tensor: np.ndarray) -> None:
    # tf.summary.histogram makes a float64 for every entry and bucket: 770 MB for 3.2 million.
    values = tensor[np.isfinite(tensor)].astype(np.float64)
    largest = np.abs(values).max(initial=0.0) or 1.0
    counts, edges = np.histogram(values / largest, BUCKETS)
    rows = np.stack([edges[:-1] * largest, edges[1:] * largest, counts], axis=1)
    tf.summary.write(tag, rows, metadata=metadata.create_summary_metadata(None, None))


def _table(records: Sequence[LayerRecord], conserving: bool) -> list[str]:
    """A line for each layer; in a terminal that is too narrow for it, words below each other."""
    bound = BOUND * float(np.abs(records[0].arrived).sum()) if conserving else None
    rows = [_row(record, bound) for record in records]
    lines = _rendered(rows, WORDS, 10_000)
    width = shutil.get_terminal_size().columns
    if sys.stdout.isatty() and max(map(len, lines)) > width:
        rows = [(["\n".join(filter(None, words))], numbers) for words, numbers in rows]
        lines = _rendered(rows, ["\n".join(WORDS)], max(width, NARROWEST))
    marked = any("!" in numbers[-1] for _, numbers in rows)
    return [*lines, *([LEGEND] if marked else []), ""]


def _row(record: LayerRecord, bound: float | None) -> Row:
    """What the table says of a layer; a loss above `bound` is marked."""
    shapes = f"{' + '.join(map(_shape, record.inputs))} -> {_shape(record.output)}"
    numbers = record.output.max(), _sum(record.arrived), _sum(*record.handed_down)
    mark = "! " if bound is not None and abs(_lost(record)) > bound else ""
    lost = "-" if bound is None else f"{mark}{_lost(record):.2g}"
    return [record.name, record.kind, record.rule, shapes], [*(f"{n:.4g}" for n in numbers), lost]


def _rendered(rows: Sequence[Row], words: Sequence[str], width: int) -> list[str]:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("no", justify="right", no_wrap=True)
    for head in words:
        table.add_column(head, overflow="fold")
    for head in NUMBERS:
        table.add_column(head, justify="right", no_wrap=True)
    for number, (described, numbers) in enumerate(rows, 1):
        table.add_row(str(number), *described, *numbers)
    text = StringIO()
    Console(file=text, width=width, markup=False, emoji=False, highlight=False).print(table)
    return [line.rstrip() for line in text.getvalue().splitlines()]


def _about_pools(records: Sequence[LayerRecord], conserving: bool, shares: bool) -> list[str]:
    """Why a max pool shows two tensors, on the pools of this network."""
    pools = [record for record in records if record.kind in MAX_POOLS]
    if not pools:
        return []
    what = "relevance" if conserving else "gradient"
    how = "is shared out over its window"
    if not (conserving and shares):
        how = "goes to the first maximum of its window (MaxPoolGrad: orig_input, orig_output)"
    return [
        "A max pool has two tensors, the one it reads and the one it writes. What arrives is the "
        f"{what} of the written one; each entry {how} in the read one, so both are needed.",
        *map(_about_pool, pools),
        "",
    ]


def _about_pool(record: LayerRecord) -> str:
    (read,), (handed_down,) = record.inputs, record.handed_down
    reached, won = np.count_nonzero(record.arrived), np.count_nonzero(handed_down)
    return (
        f"{record.name} reads {_shape(read)} and writes {_shape(record.output)}: what arrived at "
        f"{reached} of the {record.output.size} entries written went to {won} of the {read.size} "
        f"entries read; sum written {_sum(record.arrived):.6g}, read {_sum(handed_down):.6g}."
    )


def _sum(*tensors: np.ndarray) -> float:
    return float(sum(tensor.sum(dtype=np.float64) for tensor in tensors))


def _lost(record: LayerRecord) -> float:
    return _sum(record.arrived) - _sum(*record.handed_down)


def _shape(tensor: np.ndarray) -> str:
    return "x".join(map(str, tensor.shape[1:]))


def _listed(channels: np.ndarray) -> str:
    return f"Channels, row by row: {', '.join(map(str, channels))}"
