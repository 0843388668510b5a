"""What `bench` prints: its figures as tables, with ratios."""

from collections.abc import Mapping
from typing import Any

from realtime_lrp.system.tables import new_table, rendered

WIDTH = 120

Report = Mapping[str, Any]
"""The figures of a measurement, by their names in the JSON file."""

NAMES = {
    "origin": "baseline", "map": "map", "xla": "map through XLA",
    "forward": "forward pass alone",
}  # fmt: skip


def report_lines(report: Report) -> list[str]:
    """The report as plain text."""
    parts = [_head(report), _maps(report)]
    if "methods" in report:
        parts += [_methods(report), _resolution(report), _transformers(report)]
    parts += [_live(report), _pictures(report)]
    return [line for part in parts for line in (*part, "")][:-1]


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


def _maps(report: Report) -> list[str]:
    baseline_ms = next(row["ms"] for row in report["maps"] if row["what"] == "origin")
    table = new_table(
        "", "precision", "batch", "ms/picture", "10 to 90 %", "pictures/s", "x baseline",
        "x forward",
    )  # fmt: skip
    for row in sorted(report["maps"], key=lambda r: (r["what"] != "origin", r["precision"])):
        speed_up = passes = ""
        if row["what"] in ("map", "xla"):
            passes = f"{row['ms'] / _forward(report, row):.2f}"
        if row["what"] != "forward":
            speed_up = f"{baseline_ms / row['ms']:.1f}"
        table.add_row(
            NAMES[row["what"]], row["precision"], str(row["batch"]), f"{row['ms']:.1f}",
            f"{row['p10']:.1f} to {row['p90']:.1f}", f"{1e3 / row['ms']:.1f}", speed_up, passes,
        )  # fmt: skip
    return rendered(table, WIDTH)


def _forward(report: Report, row: Mapping[str, Any]) -> float:
    same = ("precision", "batch")
    return next(
        other["ms"]
        for other in report["maps"]
        if other["what"] == "forward" and all(other[key] == row[key] for key in same)
    )


def _methods(report: Report) -> list[str]:
    table = new_table("maps of one picture", "ms", "10 to 90 %", "forward pass of it")
    for row in report["methods"]:
        names = [report["map"], *row["further"]]
        table.add_row(
            " + ".join(names), f"{row['ms']:.1f}", f"{row['p10']:.1f} to {row['p90']:.1f}",
            f"{row['forward_ms']:.1f}",
        )  # fmt: skip
    return rendered(table, WIDTH)


def _resolution(report: Report) -> list[str]:
    table = new_table("picture", "ms", "10 to 90 %", "GFLOP forward")
    for row in report["resolution"]:
        table.add_row(
            " x ".join(map(str, row["size"])), f"{row['ms']:.1f}",
            f"{row['p10']:.1f} to {row['p90']:.1f}", f"{row['gflops']:.1f}",
        )  # fmt: skip
    return rendered(table, WIDTH)


def _transformers(report: Report) -> list[str]:
    table = new_table("transformer", "map", "precision", "ms", "10 to 90 %", "forward", "x forward")
    for row in report["transformers"]:
        table.add_row(
            row["model"], row["map"], row["precision"], f"{row['ms']:.1f}",
            f"{row['p10']:.1f} to {row['p90']:.1f}", f"{row['forward_ms']:.1f}",
            f"{row['ms'] / row['forward_ms']:.2f}",
        )  # fmt: skip
    return rendered(table, WIDTH)


def _live(report: Report) -> list[str]:
    table = new_table(
        "live", "shown", "dropped", "maps/s", "picture age", "map age", "first map", "memory",
        "peak",
    )  # fmt: skip
    for row in report["live"]:
        table.add_row(
            f"{row['fps']} fps, display {row['display']}, {row['precision']}",
            f"{row['display_fps']:.1f}", str(row["frames_dropped"]), f"{row['maps_per_s']:.1f}",
            f"{row['frame_age_ms']['p50']:.1f} ms", f"{row['map_age_ms']['p50']:.0f} ms",
            f"{row['start_s']:.1f} s", _memory(row["memory_mib"]), _memory(row["peak_memory_mib"]),
        )  # fmt: skip
    return rendered(table, WIDTH)


def _memory(mib: float | None) -> str:
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
