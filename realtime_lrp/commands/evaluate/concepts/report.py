"""What `evaluate --concepts` prints and writes: figures with intervals, a table and a plot."""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from realtime_lrp.commands.evaluate import bootstrap
from realtime_lrp.commands.evaluate.concepts.masking import (
    ORDERS,
    RANDOM_ORDERS,
    RELEVANCE,
    MaskedLayer,
)
from realtime_lrp.commands.evaluate.concepts.plot import masking_plot
from realtime_lrp.commands.evaluate.concepts.stability import Steadiness
from realtime_lrp.commands.evaluate.measured import photo_of
from realtime_lrp.commands.evaluate.plots import save_plot
from realtime_lrp.commands.evaluate.summary import pictures_in_words, resampled
from realtime_lrp.results.records import TOP_CONCEPTS
from realtime_lrp.system.atomic import atomic_folder
from realtime_lrp.system.tables import new_table, rendered

REPORT_FILE = "report.json"
CONCEPT_FILES = (REPORT_FILE, "photos.csv", "masking.png", "masking.pdf")
"""What `evaluate --concepts -o` writes into its folder."""

SHOWN_COUNTS = (0, 1, 4, 16, 64, 256)
"""The points of curves that have a column in the table."""


def concept_report(
    network: str,
    samples: Sequence[str],
    layers: Sequence[MaskedLayer],
    steady: Sequence[Steadiness],
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    """The result as plain data, for JSON.

    Args:
      network: its name.
      samples: the names of the pictures.
      layers: what was measured of each layer.
      steady: how steady the top channels are, by layer and average; empty without a recording.
      facts: further entries.
    """
    photos = [photo_of(name) for name in samples]
    return {
        "network": network,
        "pictures": len(samples),
        "distinct_photos": len({*photos}),
        "resamples": bootstrap.RESAMPLES,
        "random_orders": RANDOM_ORDERS,
        **facts,
        "masking": [_masking(layer, photos) for layer in layers],
        "stability": [_stability(one) for one in steady],
    }


def _masking(layer: MaskedLayer, photos: Sequence[str]) -> dict[str, Any]:
    areas = layer.areas
    found = bootstrap.intervals(np.stack([*areas.values()], axis=1), photos)
    orders = [
        {
            "order": order,
            "area": _rounded(area.mean())[0],
            "interval": _rounded(*interval) if interval else None,
            "curve": _rounded(*layer.curves[order].mean(axis=1)),
        }
        for (order, area), interval in zip(areas.items(), found, strict=True)
    ]
    pairs = [
        {
            "first": pair.first,
            "second": pair.second,
            "difference": _rounded(pair.mean)[0],
            "interval": _rounded(*pair.interval),
        }
        for pair in bootstrap.pairwise(areas, photos)
    ]
    return {
        "layer": layer.name,
        "channels": layer.channels,
        "masked": layer.counts.tolist(),
        "orders": orders,
        "pairs": pairs,
    }


def _stability(steady: Steadiness) -> dict[str, Any]:
    (overlap,) = bootstrap.intervals(steady.overlaps[:, None], steady.seconds)
    return {
        "layer": steady.layer,
        "average": steady.average,
        "pairs_of_frames": len(steady.overlaps),
        "overlap": _rounded(steady.overlaps.mean())[0],
        "overlap_interval": _rounded(*overlap or ()),
        "unchanged": _rounded((steady.overlaps == 1).mean())[0],
        "stay_s": _rounded(steady.stays.mean())[0],
        "different_channels": steady.different,
    }


def concept_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The report as plain text: the tables and what their columns mean."""
    yield f"{report['network']}, {pictures_in_words(report)}"
    yield ""
    yield from rendered(_masking_table(report["masking"]))
    yield ""
    yield "k       probability of the class that is explained, k channels of the layer set to 0"
    yield "area    the mean over k = 0, 1, 2, 4, ... up to half of the channels; low is good"
    yield "order   relevance: the largest shares for the class first; activation: the channels with"
    yield f"        most activation first; random: mean of {RANDOM_ORDERS} orders for each picture"
    yield (
        f"±       half the 95 % interval, {report['resamples']} bootstrap resamples of "
        f"{resampled(report)}"
    )
    yield "*       the lowest area of a layer, and what cannot be told from it (95 %)"
    yield ""
    for layer in report["masking"]:
        yield from _comparisons(layer)
    if report["stability"]:
        yield ""
        yield f"{', '.join(report['recordings'])}: target {report['target']}"
        yield ""
        yield from rendered(_stability_table(report["stability"]))
        yield ""
        yield f"overlap the {TOP_CONCEPTS} top channels of a frame and the next: common ones of all"
        yield "        (Jaccard)"
        yield "same    part of the frames in which all of them stay"
        yield "stay    mean seconds for which a channel is among them without a break; stays cut by"
        yield "        the ends of a recording count as they are"
        yield "average how much of the previous shares stays with each frame, as in overlay.average"


def _masking_table(layers: Sequence[Mapping[str, Any]]) -> Table:
    largest = max(layer["masked"][-1] for layer in layers)
    shown = [count for count in SHOWN_COUNTS if count <= largest]
    counts = (f"k={count}" for count in shown)
    table = new_table("layer", "channels", "order", "area", *counts, gap=1)
    for layer in layers:
        tied = _tied_with_best(layer)
        for number, order in enumerate(layer["orders"]):
            at = dict(zip(layer["masked"], order["curve"], strict=True))
            table.add_row(
                *(("", "") if number else (layer["layer"], str(layer["channels"]))),
                order["order"],
                _with_interval(order["area"], order["interval"]) + (" *"[order["order"] in tied]),
                *(f"{at[count]:.3f}" if count in at else "" for count in shown),
            )
    return table


def _tied_with_best(layer: Mapping[str, Any]) -> set[str]:
    """The order with the lowest area, and those whose difference from it may be 0."""
    best = min(layer["orders"], key=lambda order: order["area"])["order"]
    tied = {best}
    for pair in layer["pairs"]:
        low, high = pair["interval"]
        if best in (pair["first"], pair["second"]) and low <= 0 <= high:
            tied |= {pair["first"], pair["second"]}
    return tied


def _comparisons(layer: Mapping[str, Any]) -> Iterator[str]:
    """What relevance gains against the other orders, in words."""
    for pair in layer["pairs"]:
        if pair["first"] == RELEVANCE:
            low, high = pair["interval"]
            verdict = "lower" if high < 0 else "higher" if low > 0 else "not to be told apart"
            names = f"{layer['layer']}: area by {RELEVANCE} - {pair['second']}"
            interval = f"(95 %: {low:+.3f} to {high:+.3f})"
            yield f"{names} = {pair['difference']:+.3f} {interval}, {verdict}"


def _stability_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = new_table("layer", "average", "overlap", "same", "stay", "different channels", gap=1)
    for row in rows:
        table.add_row(
            row["layer"], f"{row['average']:g}",
            _with_interval(row["overlap"], row["overlap_interval"]), f"{row['unchanged']:.2f}",
            f"{row['stay_s']:.2f} s",
            str(row["different_channels"]),
        )  # fmt: skip
    return table


def _with_interval(value: float, interval: Sequence[float] | None) -> str:
    if not interval:
        return f"{value:.3f}"
    return f"{value:.3f}±{(interval[1] - interval[0]) / 2:.3f}"


def _rounded(*values: float) -> list[float]:
    return [round(float(value), 4) for value in values]


def write_concept_folder(
    folder: Path,
    report: Mapping[str, Any],
    samples: Sequence[tuple[str, str]],
    layers: Sequence[MaskedLayer],
    provenance: str,
    overwrite: bool,
) -> None:
    """Writes the files of `CONCEPT_FILES`.

    Args:
      folder: it appears when all files are complete.
      report: the figures.
      samples: name and class of each picture.
      layers: what was measured of each layer.
      provenance: how all of it was made, JSON.
      overwrite: whether a folder of these files is replaced.

    Raises:
      OutputError: the folder cannot be made.
      TransferError: a write failed.
    """
    photos = [photo_of(name) for name, _ in samples]
    title = f"{report['network']}, {pictures_in_words(report)}"
    with atomic_folder(folder, overwrite, CONCEPT_FILES) as part:
        (part / REPORT_FILE).write_text(json.dumps(report, indent=1) + "\n")
        _write_csv(part / "photos.csv", samples, layers)
        save_plot(masking_plot(title, layers, photos), part / "masking", provenance)


def _write_csv(
    path: Path, samples: Sequence[tuple[str, str]], layers: Sequence[MaskedLayer]
) -> None:
    """A line for each picture, layer, order and point of the curve."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("photo", "class", "layer", "order", "masked", "probability"))
        for layer in layers:
            for order in ORDERS:
                for masked, values in zip(layer.counts, layer.curves[order], strict=True):
                    for sample, value in zip(samples, values, strict=True):
                        writer.writerow((*sample, layer.name, order, masked, f"{value:.6g}"))
