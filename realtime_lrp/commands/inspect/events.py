"""Writes what every layer held as an event file that TensorBoard reads.

The tags are numbered from the output (01) to the picture, the way relevance travels:
"07 block5_pool/relevance". If the method hands down gradients, "relevance" stands for the gradient:
the tags stay the same, so that runs of all methods can be compared.
"""

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from tensorboard.plugins.histogram import metadata

from realtime_lrp.commands.inspect.table import MAX_POOLS, lost, shape_text, total
from realtime_lrp.config.provenance import KEY
from realtime_lrp.engine.tensorflow import tf
from realtime_lrp.errors import TransferError, first_line
from realtime_lrp.relevance.maps.layer_records import LayerRecord
from realtime_lrp.view import tiles

FILE_MARK = "tfevents"
"""Part of the name of every file that TensorBoard reads."""

POOL_CHANNELS = 16
"""Channels of a max pool that are shown side by side."""

BUCKETS = 30
"""Of a histogram."""


def write_run(
    folder: Path,
    records: Sequence[LayerRecord],
    x: np.ndarray,
    relevance: np.ndarray,
    conserving: bool,
    provenance: str,
) -> None:
    """Writes an event file into the folder and checks that it is complete.

    Args:
      folder: an empty folder.
      records: every layer, from the output to the input.
      x: the network's input, float32 [1, h, w, C].
      relevance: the map, like x.
      conserving: whether layers hand down relevance, not gradients.
      provenance: how the relevance was computed, JSON; a text at the beginning of the file.

    Raises:
      TransferError: the file is not complete; the disk may be full.
    """
    digits = max(2, len(str(len(records) + 1)))
    last_tag = f"{len(records) + 1:0{digits}} picture"
    try:
        writer = tf.summary.create_file_writer(str(folder))
        with closing(writer), writer.as_default(step=0):
            tf.summary.text(KEY, provenance)
            _write_curves(f"{0:0{digits}} all layers", records, conserving)
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


def _write_curves(tag: str, records: Sequence[LayerRecord], conserving: bool) -> None:
    """Step 0 is the relevance at the output; step n is what layer n hands down, or does not."""
    tf.summary.scalar(f"{tag}/sum of relevance", total(records[0].arrived), step=0)
    for number, record in enumerate(records, 1):
        tf.summary.scalar(f"{tag}/sum of relevance", total(*record.handed_down), step=number)
        if conserving:
            taken = total(record.taken_by_biases)
            tf.summary.scalar(f"{tag}/taken by biases", taken, step=number)
            tf.summary.scalar(f"{tag}/lost", lost(record), step=number)


def _write_tensors(tag: str, activation: np.ndarray, relevance: np.ndarray) -> None:
    _write_histogram(f"{tag}/activation, histogram", activation)
    _write_histogram(f"{tag}/relevance, histogram", relevance)
    activation, relevance = tiles.as_maps(activation[0]), tiles.as_maps(relevance[0])
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
    handed_down, arrived = tiles.as_maps(record.handed_down[0][0]), tiles.as_maps(record.arrived[0])
    read, written = tiles.as_maps(record.inputs[0][0]), tiles.as_maps(record.output[0])
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
    # tf.summary.histogram makes a float64 for every entry and bucket: 770 MB for 3.2 million
    values = tensor[np.isfinite(tensor)].astype(np.float64)
    largest = np.abs(values).max(initial=0.0) or 1.0
    counts, edges = np.histogram(values / largest, BUCKETS)
    rows = np.stack([edges[:-1] * largest, edges[1:] * largest, counts], axis=1)
    tf.summary.write(tag, rows, metadata=metadata.create_summary_metadata(None, None))


def _channel_list(channels: np.ndarray) -> str:
    return f"Channels, row by row: {', '.join(map(str, channels))}"
