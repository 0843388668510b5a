"""What `bench` prints: its figures as tables, with ratios."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from realtime_lrp.system.tables import new_table, rendered

WIDTH = 120

Report = Mapping[str, Any]
"""The figures of a measurement, by their names in the JSON file."""

NAMES = {
    "origin": "baseline", "map": "map", "xla": "map through XLA",
    "forward": "forward pass alone",
}  # fmt: skip

Row = Mapping[str, Any]
Columns = Mapping[str, Callable[[Row], str]]
"""Heading -> what stands under it in a row."""

MS: Columns = {
    "ms": lambda row: f"{row['ms']:.1f}",
    "10 to 90 %": lambda row: f"{row['p10']:.1f} to {row['p90']:.1f}",
}

TABLES: Mapping[str, Columns] = {
    "methods": {
        "maps of one picture": lambda row: " + ".join([row["map"], *row["further"]]),
        **MS,
        "forward pass of it": lambda row: f"{row['forward_ms']:.1f}",
    },
    "resolution": {
        "picture": lambda row: " x ".join(map(str, row["size"])),
        **MS,
        "GFLOP forward": lambda row: f"{row['gflops']:.1f}",
    },
    "transformers": {
        "transformer": lambda row: row["model"],
        "map": lambda row: row["map"],
        "precision": lambda row: row["precision"],
        **MS,
        "forward": lambda row: f"{row['forward_ms']:.1f}",
        "x forward": lambda row: f"{row['ms'] / row['forward_ms']:.2f}",
    },
    "networks": {
        "live with": lambda row: row["model"],
        "maps/s, one on each core": lambda row: f"{row['each_core']:.1f}",
        "one on all cores": lambda row: f"{row['all_cores']:.1f}",
        "precision": lambda row: row["precision"],
        "map age": lambda row: f"{row['map_age_ms']['p50']:.0f} ms",
        "99 %": lambda row: f"{row['map_age_ms']['p99']:.0f} ms",
        "first map": lambda row: f"{row['start_s']:.1f} s",
    },
    "live": {
        "live": lambda row: f"{row['fps']} fps, display {row['display']}, {row['precision']}",
        "shown": lambda row: f"{row['display_fps']:.1f}",
        "dropped": lambda row: str(row["frames_dropped"]),
        "maps/s": lambda row: f"{row['maps_per_s']:.1f}",
        "picture age": lambda row: f"{row['frame_age_ms']['p50']:.1f} ms",
        "map age": lambda row: f"{row['map_age_ms']['p50']:.0f} ms",
        "first map": lambda row: f"{row['start_s']:.1f} s",
        "memory": lambda row: _gib(row["memory_mib"]),
        "peak": lambda row: _gib(row["peak_memory_mib"]),
    },
}
"""Key of the report -> the columns of its table."""


def report_lines(report: Report) -> list[str]:
    """The report as plain text."""
    parts = [_head(report), _maps(report["maps"])]
    for name, columns in TABLES.items():
        if name in report:
            rows = ({"map": report["map"], **row} for row in report[name])
            parts.append(_table(rows, columns))
    return [line for part in (*parts, _pictures(report)) for line in (*part, "")][:-1]


def _table(rows: Iterable[Row], columns: Columns) -> list[str]:
    table = new_table(*columns)
    for row in rows:
        table.add_row(*(text(row) for text in columns.values()))
    return rendered(table, WIDTH)


def _head(report: Report) -> list[str]:
    return [
        f"{report['machine']}; {report['device']}; TensorFlow {report['tensorflow']}",
        f"{report['model']}, weights {report['weights']}, {report['map']}: "
        f"{report['gflops']:.3g} GFLOP a forward pass, {report['million_weights']:.3g} million "
        f"weights; measured in {report['seconds']:.0f} s",
        *_precision(report),
    ]


def _precision(report: Report) -> list[str]:
    """What `--precision auto` goes by; nothing on a GPU, whose kind decides."""
    times = report["typical_layers_ms"]
    if not times:
        return []
    measured = ", ".join(f"{name} {ms:.1f} ms" for name, ms in times.items() if ms)
    return [f"typical layers: {measured}; precision auto is {report['fast_precision']}"]


def _maps(rows: Sequence[Row]) -> list[str]:
    baseline_ms = next(row["ms"] for row in rows if row["what"] == "origin")
    forward = {(r["precision"], r["batch"]): r["ms"] for r in rows if r["what"] == "forward"}

    def faster(row: Row) -> str:
        return "" if row["what"] == "forward" else f"{baseline_ms / row['ms']:.1f}"

    def passes(row: Row) -> str:
        if row["what"] not in ("map", "xla"):
            return ""
        return f"{row['ms'] / forward[row['precision'], row['batch']]:.2f}"

    columns: Columns = {
        "": lambda row: NAMES[row["what"]],
        "precision": lambda row: row["precision"],
        "batch": lambda row: str(row["batch"]),
        "ms/picture": MS["ms"],
        "10 to 90 %": MS["10 to 90 %"],
        "pictures/s": lambda row: f"{1e3 / row['ms']:.1f}",
        "x baseline": faster,
        "x forward": passes,
    }
    return _table(sorted(rows, key=lambda r: (r["what"] != "origin", r["precision"])), columns)


def _gib(mib: float | None) -> str:
    return "unknown" if mib is None else f"{mib / 1024:.2f} GiB"


def _pictures(report: Report) -> list[str]:
    lines = [
        f"{name}: colouring a map {figures['colour']['ms']:.1f} ms, "
        f"moving it along {figures['carry']['ms']:.1f} ms, "
        f"laying it over the picture {figures['overlay']['ms']:.1f} ms"
        for name, figures in report["pictures"].items()
    ]
    lines += [
        f"window of {size}: drawing a picture takes {figures['draw']['ms']:.1f} ms of a core, "
        f"showing it {figures['show']['ms']:.1f} ms"
        for size, figures in report.get("window", {}).items()
    ]
    files = report["files"]
    if "transfer" in report:
        lines.append(f"a picture to the GPU and its map back: {report['transfer']['ms']:.2f} ms")
    return [
        *lines,
        f"720p file: decode {files['decode_ms']:.1f} ms, encode {files['encode_ms']:.1f} ms",
    ]
