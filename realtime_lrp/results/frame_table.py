"""The table of an archive: a row for each frame of each film, as Parquet files.

    OUT/figures.parquet/file=a.mp4/frames.parquet
                       /file=b.mp4/frames.parquet

The folder is one table for pandas, DuckDB and others: they take the column `file` from the names
of the folders. A row is a line of a sidecar. Must import pyarrow in functions only: it belongs to
the extra `cluster`.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from realtime_lrp.config.provenance import KEY
from realtime_lrp.errors import OutputError, UnavailableError
from realtime_lrp.notebook.html import drawable
from realtime_lrp.results.records import TOP_CONCEPTS
from realtime_lrp.system.atomic import atomic_file, part_path, refuse_link

TABLE = "figures.parquet"
PARTITION = "file="
ROWS = "frames.parquet"
TOP = 5
"""How many labels a row has; networks with fewer classes leave the rest empty."""

GROUP = 50_000
"""Rows that are held in memory and written together."""

_AS_THEY_ARE = " !$&'()+,;@~"
"""Signs that folders of a table may have in their names, besides letters, digits and _ . -"""

Record = Mapping[str, Any]


def _columns() -> dict[str, tuple[str, Callable[[Record], Any]]]:
    """Name of each column -> its Arrow type, and how it is taken from a line of a sidecar."""
    columns: dict[str, tuple[str, Callable[[Record], Any]]] = {
        "frame": ("int64", lambda row: row["frame"]),
        "time": ("float64", lambda row: row["time"]),
        "explained": ("bool", lambda row: row["explained"]),
        "target": ("string", lambda row: _text(row.get("target"))),
    }
    for number in range(TOP):
        columns[f"label_{number + 1}"] = "string", _of_list("top5", number, "label")
        columns[f"probability_{number + 1}"] = "float64", _of_list("top5", number, "probability")
    for name in ("relevance_sum", "started", "taken_by_biases", "lost"):
        columns[name] = "float64", _value(name)
    columns["lost_in"] = "string", lambda row: _text(row.get("lost_in"))
    columns["centre_x"] = "float64", lambda row: row["centre"][0] if row.get("centre") else None
    columns["centre_y"] = "float64", lambda row: row["centre"][1] if row.get("centre") else None
    columns["spread"] = "float64", _value("spread")
    for number in range(TOP_CONCEPTS):
        columns[f"concept_{number + 1}"] = "int64", _of_list("concepts", number, "channel")
        columns[f"share_{number + 1}"] = "float64", _of_list("concepts", number, "share")
    return columns


def _value(key: str) -> Callable[[Record], Any]:
    return lambda row: row.get(key)


def _of_list(name: str, number: int, key: str) -> Callable[[Record], Any]:
    def take(row: Record) -> Any:
        items = row.get(name) or ()
        value = items[number][key] if number < len(items) else None
        return drawable(value) if isinstance(value, str) else value

    return take


def _text(value: str | None) -> str | None:
    return None if value is None else drawable(value)


COLUMNS = _columns()


def partition_of(film: str) -> str:
    """Where the rows of a film are: a path with forward slashes, below the folder of the films.

    Args:
      film: the film's name, without folders.
    """
    kept = "".join(
        sign if sign in _AS_THEY_ARE or ord(sign) > 127 else quote(sign, safe="")
        for sign in drawable(film)
    )
    return f"{TABLE}/{PARTITION}{kept}/{ROWS}"


def check_table(folder: Path) -> None:
    """Refuses what lies in place of the table and is none of ours.

    Args:
      folder: the folder of the films.

    Raises:
      UnavailableError: pyarrow is not installed.
      OutputError: there is a link, a file, or a folder that holds something else.
    """
    _pyarrow()
    table = folder / TABLE
    refuse_link(table)
    if not table.exists():
        return
    others = [] if table.is_dir() else [table]
    others = others or [one for one in table.iterdir() if not one.name.startswith(PARTITION)]
    if others:
        raise OutputError(
            f"{str(others[0])!r} is no part of the table that is written to {str(table)!r}. "
            "Choose another folder, or remove it."
        )


def write_rows(path: Path, source: str, records: Iterable[Record], provenance: str = "") -> int:
    """Writes the rows of one film.

    Args:
      path: the Parquet file; it is not written atomically.
      source: the recording, for the column `source`.
      records: the lines of its sidecar.
      provenance: how the film was made, JSON; kept in the file's metadata.

    Returns:
      How many rows there are.

    Raises:
      UnavailableError: pyarrow is not installed.
      OSError: the write failed.
    """
    arrow, parquet = _pyarrow()
    types = {"string": arrow.string(), "int64": arrow.int64()}
    types |= {"float64": arrow.float64(), "bool": arrow.bool_()}
    fields = [arrow.field("source", types["string"])]
    fields += [arrow.field(name, types[kind]) for name, (kind, _) in COLUMNS.items()]
    schema = arrow.schema(fields, {KEY: provenance} if provenance else None)
    remaining, count, shown = iter(records), 0, drawable(source)
    with (
        path.open("wb") as file,  # pyarrow takes no names with bytes of no encoding
        parquet.ParquetWriter(file, schema, compression="zstd") as writer,
    ):
        while rows := list(islice(remaining, GROUP)):
            values: list[list[Any]] = [[shown] * len(rows)]
            values += [[take(row) for row in rows] for _, take in COLUMNS.values()]
            arrays = [
                arrow.array(column, field.type)
                for column, field in zip(values, fields, strict=True)
            ]
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
            count += len(rows)
    return count


def keep_rows(
    folder: Path, film: str, source: str, records: Iterable[Record], provenance: str = ""
) -> Path:
    """Adds the rows of one film to the table in a folder, or replaces them, atomically.

    Args:
      folder: the folder of the films.
      film: the film's name.
      source: the recording.
      records: the lines of its sidecar.
      provenance: as `write_rows` takes it.

    Returns:
      The file.

    Raises:
      UnavailableError: pyarrow is not installed.
      OutputError: the file cannot be made.
      TransferError: the write failed.
    """
    target = folder / partition_of(film)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{str(target)!r} cannot be made ({error.strerror}).") from None
    # beside the table: what a killed run leaves in it would be read as a piece of it
    short = hashlib.sha256(os.fsencode(film)).hexdigest()[:16]
    part = part_path(folder / f".{short}.{TABLE}")
    with atomic_file(target, overwrite=True, part=part):
        write_rows(part, source, records, provenance)
    return target


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UnavailableError(
            "The table of an archive needs pyarrow. Install it: pip install 'realtime-lrp[cluster]'"
        ) from None
    return pyarrow, parquet
