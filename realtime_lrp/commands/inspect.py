"""`inspect`: explains a picture, writes every layer for TensorBoard and returns a table.

The tags of the event file are numbered from the output (01) to the picture, the way relevance
travels: "07 block5_pool/relevance". If the method hands down gradients, "relevance" stands for the
gradient, so that runs of all methods compare. Tensors have a batch of one picture.
"""

import logging
import os
import re
import shutil
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from realtime_lrp.config import Config
from realtime_lrp.config.provenance import KEY
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.tensorflow import tf
from realtime_lrp.engine.wording import Losses, map_note, score_list
from realtime_lrp.errors import TransferError, first_line
from realtime_lrp.relevance.maps.account import State
from realtime_lrp.relevance.maps.layer_views import LayerRecord
from realtime_lrp.system.files import atomic_folder
from realtime_lrp.system.terminal import in_columns
from realtime_lrp.video.pictures import mirrored, read_picture
from realtime_lrp.view import tiles

FILE_MARK = "tfevents"  # part of the name of every file that TensorBoard reads
POOL_CHANNELS = 16  # channels of a max pool that are shown side by side
BUCKETS = 30  # a histogram's bars

MAX_POOLS = ("MaxPooling2D", "GlobalMaxPooling2D")

MARKED_LOSS = 1e-3  # a larger loss is marked; a share of the relevance at the output

LEGEND = (
    f"! This layer lost (below 0: added) more than {MARKED_LOSS:.1%} of the relevance at the "
    "output. Causes: neurons without inputs to share it among, the epsilon of a rule."
)
HEADINGS = (
    "layer", "type", "rule", "input -> output", "largest\nactivation", "sum\narrived",
    "handed\ndown", "taken by\nbiases", "lost",
)  # fmt: skip

log = logging.getLogger(__name__)


def run(config: Config, source: Path, logdir: Path, overwrite: bool) -> list[str]:
    """Explains a picture and writes what every layer held, into a new folder in `logdir`.

    The table marks layers that lose relevance. That is correct where a neuron has nothing to share
    it by: no positive contribution under z+, an output of 0 under gamma. The stabiliser of epsilon
    takes a little; alpha-beta gains where a neuron has no negative contributions.
    """
    engine = Engine(config)
    target = logdir / run_name(engine.config, source)
    with atomic_folder(target, overwrite, FILE_MARK) as part:
        picture = mirrored(read_picture(source), config.input.mirror)
        (region,) = engine.sight.regions([picture], engine.sight.fixed)
        seen = region.extract(picture)
        x = engine.network.prepare(seen[None]).numpy()
        (result,) = engine.explain([picture])
        records = [layer for layer in engine.explainer.layers(x) if layer.output.size]
        relevance = result.relevance[None]
        if engine.detects:  # the layers belong to the surest box
            relevance = engine.explainer(x).relevance
        conserving = any(record.rule for record in records)  # otherwise gradients are handed down
        provenance = engine.provenance().as_json()
        write_run(part, records, x, relevance, conserving, provenance)
    if result.maps[0].state is State.VANISHED:
        losses = Losses(engine)
        losses.add(seen, result)
        log.warning("%s", *losses.notes)
    note = map_note(result.maps[0])
    best = score_list(engine, result) + (f" ({note})" if note else "")
    best += "; the layers show the surest box" if engine.detects else ""
    return [
        *layer_table(records, conserving),
        *max_pool_lines(records, conserving, config.lrp.pool == "average"),
        f"{source.name}: {best} -> {target}",
        f"Look at it with: tensorboard --logdir {logdir}",
    ]


def run_name(config: Config, source: Path) -> str:
    """The name of the run's folder: the picture and every setting that is not at its default."""
    lrp = config.lrp
    model = config.model
    changed = {
        **model.model_dump(exclude_defaults=True, exclude={"name", "labels"}),
        **lrp.model_dump(exclude_defaults=True, exclude={"method", "composite", "target"}),
        **config.input.model_dump(exclude_defaults=True),
    }
    method = lrp.composite if lrp.method == "lrp" else lrp.method
    settings = (f"{key}={value}" for key, value in changed.items())
    parts = [source.stem, Path(model.name).stem, method, lrp.target, *settings]
    return "-".join(re.sub(r"[^\w.+=-]+", "_", part) for part in parts)


def write_run(
    folder: Path, records: Sequence[LayerRecord], x: np.ndarray, relevance: np.ndarray,
    conserving: bool, provenance: str,
) -> None:  # fmt: skip
    """Writes an event file into an empty folder; `conserving`: layers hand down relevance."""
    digits = max(2, len(str(len(records) + 1)))
    last_tag = f"{len(records) + 1:0{digits}} picture"
    try:
        writer = tf.summary.create_file_writer(str(folder))
        with closing(writer), writer.as_default(step=0):
            tf.summary.text(KEY, provenance)
            # step 0 is the relevance at the output; step n is what layer n hands down, or does not
            curve = f"{0:0{digits}} all layers"
            tf.summary.scalar(f"{curve}/sum of relevance", total(records[0].arrived), step=0)
            for number, record in enumerate(records, 1):
                tf.summary.scalar(f"{curve}/sum of relevance", record.sums()[0], step=number)
                if conserving:
                    taken = record.taken_by_biases[0]
                    tf.summary.scalar(f"{curve}/taken by biases", taken, step=number)
                    tf.summary.scalar(f"{curve}/lost", record.lost[0], step=number)
            for number, record in enumerate(records, 1):
                tag = f"{number:0{digits}} {record.name.replace('/', '.')}"
                _write_tensors(tag, record.output, record.arrived)
                if record.kind in MAX_POOLS:
                    _write_pool(tag, record)
            _write_tensors(last_tag, x, relevance)
        _check_complete(folder, last_tag)
    except (OSError, tf.errors.OpError) as error:
        reason = first_line(error) if isinstance(error, OSError) else type(error).__name__
        raise TransferError(
            f"Writing into {str(folder.parent)!r} failed ({reason}). "
            "Nothing is left of it; make room and start again."
        ) from error


def _check_complete(folder: Path, last_tag: str) -> None:
    """Raises an error if the file is cut off: TensorFlow's writer ignores a full disk."""
    (file,) = folder.iterdir()
    try:
        events = list(tf.data.TFRecordDataset(str(file)).as_numpy_iterator())
    except tf.errors.DataLossError:
        events = []
    if not events or last_tag.encode() not in events[-1]:
        raise OSError("the event file is cut off")
    with file.open("rb") as written:
        os.fsync(written.fileno())


def _write_tensors(tag: str, activation: np.ndarray, relevance: np.ndarray) -> None:
    _write_histogram(f"{tag}/activation, histogram", activation)
    _write_histogram(f"{tag}/relevance, histogram", relevance)
    activation = tiles.as_maps(activation[0])
    relevance = tiles.as_maps(relevance[0])
    channels = tiles.strongest(relevance)
    for name, maps, colours in (
        ("activation", activation, tiles.activation_colours),
        ("relevance", relevance, tiles.relevance_colours),
    ):
        (coloured,), legend = colours([maps[..., channels]])
        description = f"{legend}. {_channel_list(channels)}"
        tf.summary.image(f"{tag}/{name}", tiles.tiled(coloured)[None], description=description)


def _write_pool(tag: str, record: LayerRecord) -> None:
    """Writes both tensors of a max pool side by side, the one it reads on the left."""
    handed_down = tiles.as_maps(record.handed_down[0][0])
    arrived = tiles.as_maps(record.arrived[0])
    read = tiles.as_maps(record.inputs[0][0])
    written = tiles.as_maps(record.output[0])
    channels = tiles.strongest(handed_down, POOL_CHANNELS)
    captions = f"reads {shape_text(record.inputs[0])}", f"writes {shape_text(record.output)}"
    for name, pair, colours in (
        ("activation", (read, written), tiles.activation_colours),
        ("relevance", (handed_down, arrived), tiles.relevance_colours),
    ):
        (left, right), legend = colours([maps[..., channels] for maps in pair])
        sheet = tiles.side_by_side(left, right, captions)
        description = f"{legend}. {_channel_list(channels)}"
        tf.summary.image(f"{tag}/two tensors, {name}", sheet[None], description=description)


def _write_histogram(tag: str, tensor: np.ndarray) -> None:
    from tensorboard.plugins.histogram import metadata

    # tf.summary.histogram makes a float64 for every entry and bucket: 770 MB for 3.2 million
    values = tensor[np.isfinite(tensor)].astype(np.float64)
    largest = np.abs(values).max(initial=0.0) or 1.0
    counts, edges = np.histogram(values / largest, BUCKETS)
    rows = np.stack([edges[:-1] * largest, edges[1:] * largest, counts], axis=1)
    tf.summary.write(tag, rows, metadata=metadata.create_summary_metadata(None, None))


def _channel_list(channels: np.ndarray) -> str:
    return f"Channels, row by row: {', '.join(map(str, channels))}"


def layer_table(records: Sequence[LayerRecord], conserving: bool) -> list[str]:
    """One row for each layer; cells are folded where the terminal is too narrow."""
    limit = MARKED_LOSS * float(np.abs(records[0].arrived).sum())
    digits = max(2, len(str(len(records))))
    rows = []
    for number, one in enumerate(records, 1):
        mark = "! " if abs(one.lost[0]) > limit else ""
        cells = [
            f"{number:{digits}}",
            one.name,
            one.kind,
            one.rule,
            f"{' + '.join(map(shape_text, one.inputs))} -> {shape_text(one.output)}",
            f"{one.output.max():.4g}",
            f"{total(one.arrived):.4g}",
            f"{one.sums()[0]:.4g}",
            f"{one.taken_by_biases[0]:.4g}" if conserving else "-",
            f"{mark}{one.lost[0]:.2g}" if conserving else "-",
        ]
        rows.append(cells)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000
    lines = in_columns(
        [f"{'no':>{digits}}", *HEADINGS], rows, left=5, width=max(width, 100), whole=True
    )
    return [*lines, *([LEGEND] if conserving and any("!" in row[-1] for row in rows) else []), ""]


def max_pool_lines(records: Sequence[LayerRecord], conserving: bool, shares: bool) -> list[str]:
    """Explains why a max pool has two tensors; `shares`: it shares relevance over its window."""
    quantity = "relevance" if conserving else "gradient"
    action = "is shared out over its window"
    if not (conserving and shares):
        action = "goes to the first maximum of its window (MaxPoolGrad: orig_input, orig_output)"
    lines = [
        "A max pool has two tensors: the one it reads and the one it writes. What arrives is the "
        f"{quantity} of the written one. Each entry {action} in the read one, so both are needed."
    ]
    for record in records:
        if record.kind in MAX_POOLS:
            (read,) = record.inputs
            lines.append(
                f"{record.name} reads {shape_text(read)} and writes {shape_text(record.output)}: "
                f"what arrived at {np.count_nonzero(record.arrived)} of the {record.output.size} "
                f"entries written went to {np.count_nonzero(record.handed_down[0])} of the "
                f"{read.size} entries read; "
                f"sum written {total(record.arrived):.6g}, read {record.sums()[0]:.6g}."
            )
    return [*lines, ""] if len(lines) > 1 else []


def total(tensor: np.ndarray) -> float:
    """The sum of all entries, added in float64."""
    return float(tensor.sum(dtype=np.float64))


def shape_text(tensor: np.ndarray) -> str:
    """The shape of one picture's tensor, such as "7x7x512"."""
    return "x".join(map(str, tensor.shape[1:]))
