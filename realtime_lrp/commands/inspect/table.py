"""The table of layers that `inspect` prints, and its lines about max pools."""

import shutil
import sys
from collections.abc import Callable, Sequence

import numpy as np
from rich.table import Table

from realtime_lrp.engine.accounting import THE_MAP, Loss, loss_text
from realtime_lrp.relevance.maps.account import FLOOD, VANISHED, flood_text
from realtime_lrp.relevance.maps.layer_records import LayerRecord
from realtime_lrp.system.tables import rendered

MAX_POOLS = ("MaxPooling2D", "GlobalMaxPooling2D")

MARKED_LOSS = 1e-3
"""A larger loss is marked; a share of the relevance at the output."""

LEGEND = (
    f"! This layer lost (below 0: added) more than {MARKED_LOSS:.1%} of the relevance at the "
    "output. Causes: neurons without inputs to share it among, the epsilon of a rule, lrp.keep."
)
TEXT_COLUMNS = ("layer", "type", "rule", "input -> output")
NUMBER_COLUMNS = (
    "largest\nactivation", "sum\narrived", "handed\ndown", "taken by\nbiases", "lost",
)  # fmt: skip


def layer_table(records: Sequence[LayerRecord], conserving: bool) -> list[str]:
    """One row for each layer; cells are folded where the terminal is too narrow.

    Args:
      records: every layer, from the output to the input.
      conserving: whether layers hand down relevance, not gradients.
    """
    limit = MARKED_LOSS * float(np.abs(records[0].arrived).sum()) if conserving else None
    rows = [_row(record, limit) for record in records]
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("no", justify="right", no_wrap=True)
    for heading in TEXT_COLUMNS:
        table.add_column(heading, overflow="fold")
    for heading in NUMBER_COLUMNS:
        table.add_column(heading, justify="right", no_wrap=True)
    for number, (texts, numbers) in enumerate(rows, 1):
        table.add_row(str(number), *texts, *numbers)
    marked = any("!" in numbers[-1] for _, numbers in rows)
    return [*rendered(table, max(columns, 100)), *([LEGEND] if marked else []), ""]


def max_pool_lines(records: Sequence[LayerRecord], conserving: bool, shares: bool) -> list[str]:
    """Explains why a max pool has two tensors, with the numbers of this network's pools.

    Args:
      records: every layer.
      conserving: whether layers hand down relevance, not gradients.
      shares: whether a pool shares relevance over its window.
    """
    pools = [record for record in records if record.kind in MAX_POOLS]
    if not pools:
        return []
    quantity = "relevance" if conserving else "gradient"
    action = "is shared out over its window"
    if not (conserving and shares):
        action = "goes to the first maximum of its window (MaxPoolGrad: orig_input, orig_output)"
    return [
        "A max pool has two tensors: the one it reads and the one it writes. What arrives is the "
        f"{quantity} of the written one. Each entry {action} in the read one, so both are needed.",
        *map(_max_pool_line, pools),
        "",
    ]


def total(*tensors: np.ndarray) -> float:
    """The sum of all entries, added in float64."""
    return float(sum(tensor.sum(dtype=np.float64) for tensor in tensors))


def lost(record: LayerRecord) -> float:
    """What arrived at a layer less what it handed down and what its biases took."""
    return total(record.arrived) - total(*record.handed_down) - total(record.taken_by_biases)


def flood_line(
    records: Sequence[LayerRecord], relevance: np.ndarray, advice: Callable[[str], str]
) -> str:
    """Names the layer where relevance grows most, if a layer or the network makes it grow too much.

    Args:
      records: every layer, from the output to the input; they hand down relevance.
      relevance: the map.
      advice: name of a layer -> what to do where it grows most there.
    """
    growths = [_magnitude(*one.handed_down) / (_magnitude(one.arrived) or 1.0) for one in records]
    grown = _magnitude(relevance) / (_magnitude(records[0].arrived) or 1.0)
    largest = max(growths)
    if max(grown, largest) <= FLOOD:
        return ""
    record = records[growths.index(largest)]
    return flood_text(grown, record.name, record.kind, largest, advice(record.name))


def loss_line(records: Sequence[LayerRecord], relevance: np.ndarray) -> str:
    """Says that almost nothing of what started is left in the map, if that is so.

    Args:
      records: every layer, from the output to the input; they hand down relevance.
      relevance: the map.
    """
    started = _magnitude(records[0].arrived)
    taken = sum(abs(total(one.taken_by_biases)) for one in records)
    if _magnitude(relevance) + taken >= VANISHED * started:
        return ""
    most = max(records, key=lambda one: abs(lost(one)))
    return loss_text(THE_MAP, Loss(most.name, lost(most) / started), 1.0, vanished=True)


def _magnitude(*tensors: np.ndarray) -> float:
    return float(sum(np.abs(tensor).sum(dtype=np.float64) for tensor in tensors))


def shape_text(tensor: np.ndarray) -> str:
    """The shape of one picture's tensor, such as "7x7x512"."""
    return "x".join(map(str, tensor.shape[1:]))


def _row(record: LayerRecord, limit: float | None) -> tuple[list[str], list[str]]:
    """The cells of text and of numbers; losses above the limit are marked, None: there are none."""
    shapes = f"{' + '.join(map(shape_text, record.inputs))} -> {shape_text(record.output)}"
    numbers = record.output.max(), total(record.arrived), total(*record.handed_down)
    taken = "-" if limit is None else f"{total(record.taken_by_biases):.4g}"
    mark = "! " if limit is not None and abs(lost(record)) > limit else ""
    loss = "-" if limit is None else f"{mark}{lost(record):.2g}"
    return [record.name, record.kind, record.rule, shapes], [
        *(f"{n:.4g}" for n in numbers), taken, loss,
    ]  # fmt: skip


def _max_pool_line(record: LayerRecord) -> str:
    (read,), (handed_down,) = record.inputs, record.handed_down
    arrived_at = np.count_nonzero(record.arrived)
    return (
        f"{record.name} reads {shape_text(read)} and writes {shape_text(record.output)}: "
        f"what arrived at {arrived_at} of the {record.output.size} entries written went to "
        f"{np.count_nonzero(handed_down)} of the {read.size} entries read; "
        f"sum written {total(record.arrived):.6g}, read {total(handed_down):.6g}."
    )
