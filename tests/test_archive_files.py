"""What an archive gets besides its films: the table of all frames, and the page of the job."""

import json

import pytest

from realtime_lrp.errors import OutputError
from realtime_lrp.results.frame_table import (
    COLUMNS,
    TABLE,
    check_table,
    keep_rows,
    partition_of,
    read_sidecar,
)

NAMES = ("a.mp4", "ü = 100%#?.mp4", "中文" * 30 + ".mp4", "2024-01-01.mp4", "<b>&'\"*:{}.mp4")


def record(frame, **changed):
    """A line of a sidecar."""
    top = [{"label": "cat", "probability": 0.7}, {"label": "dog", "probability": 0.1 + frame / 100}]
    return {
        "frame": frame, "time": round(frame / 30, 6), "explained": frame % 2 == 0, "top5": top,
        "target": "top1", "relevance_sum": 1 / 3 + frame, "started": 1.0,
        "taken_by_biases": 0.25, "lost": -1e-9, "centre": [1.25, 2.5 + frame], "spread": 7.5,
        "lost_in": None, **changed,
    }  # fmt: skip


def row_of(record):
    """The same by hand, as a row of the table."""
    row = {key: value for key, value in record.items() if key not in ("top5", "centre")}
    for number in range(5):
        one = record["top5"][number] if number < len(record["top5"]) else {}
        row[f"label_{number + 1}"] = one.get("label")
        row[f"probability_{number + 1}"] = one.get("probability")
    row["centre_x"], row["centre_y"] = record["centre"] or (None, None)
    return row


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A folder with the table of five films, and the records of each."""
    folder = tmp_path_factory.mktemp("archive")
    records = {name: [record(frame) for frame in range(3 + at)] for at, name in enumerate(NAMES)}
    empty = {"top5": [], "relevance_sum": None, "started": None, "centre": None, "spread": None}
    records["a.mp4"][1] |= empty
    records["a.mp4"][2] |= {"lost_in": "fc1", "target": "cat - dog"}
    for name, rows in records.items():
        keep_rows(folder, name, f"/recordings/{name}", rows, '{"program": "realtime_lrp"}')
    return folder, records


def test_duckdb_reads_all_rows_of_all_films(table):
    """DuckDB reads the folder as one table; each row is the line of the sidecar."""
    import duckdb

    folder, records = table
    path = str(folder / TABLE / "*" / "*.parquet")
    found = duckdb.execute("select * from read_parquet(?) order by file, frame", [path])
    names = [column[0] for column in found.description]
    read = {name: [] for name in records}
    for values in found.fetchall():
        row = dict(zip(names, values, strict=True))
        name = row.pop("file")
        assert row.pop("source") == f"/recordings/{name}"
        read[name].append(row)
    assert read == {name: [row_of(one) for one in rows] for name, rows in records.items()}


def test_pandas_reads_the_folder_as_one_table(table):
    """Pandas takes the file's name from the folder, all types are as documented."""
    import pandas

    folder, records = table
    frame = pandas.read_parquet(folder / TABLE)
    counts = {name: len(rows) for name, rows in records.items()}
    assert frame.groupby("file", observed=True).size().to_dict() == counts
    kinds = {"int64": "i", "float64": "f", "bool": "b"}
    for name, (kind, _) in COLUMNS.items():
        assert kind == "string" or frame[name].dtype.kind == kinds[kind], name
    last = frame[frame.file == "2024-01-01.mp4"].relevance_sum
    assert list(last) == [1 / 3 + number for number in range(6)]


def test_rows_say_how_they_were_made(table):
    """Each file of the table keeps the provenance of its film."""
    from pyarrow import parquet

    folder, _ = table
    metadata = parquet.read_schema(folder / partition_of("a.mp4")).metadata
    assert json.loads(metadata[b"provenance"]) == {"program": "realtime_lrp"}


def test_rows_are_those_of_the_sidecar(tmp_path):
    """A sidecar that was written as JSON lines comes back value by value."""
    from pyarrow import parquet

    lines = [record(frame) | {"relevance_sum": 10.0 ** -(frame + 1) / 3} for frame in range(4)]
    sidecar = tmp_path / "a.jsonl"
    sidecar.write_text("".join(json.dumps(line) + "\n" for line in lines))
    keep_rows(tmp_path, "a.mp4", "a.mp4", read_sidecar(sidecar))
    rows = parquet.ParquetFile(tmp_path / partition_of("a.mp4")).read().to_pylist()
    assert [{**row_of(line), "source": "a.mp4"} for line in lines] == rows


def test_rows_are_replaced_whole_or_not_at_all(tmp_path):
    """A film that is made again replaces its rows; one that fails half-way leaves the old ones."""
    import pandas

    def broken():
        yield record(0)
        raise ValueError("the worker's fault")

    keep_rows(tmp_path, "a.mp4", "a.mp4", [record(0), record(1)])
    with pytest.raises(ValueError, match="fault"):
        keep_rows(tmp_path, "a.mp4", "a.mp4", broken())
    assert len(pandas.read_parquet(tmp_path / TABLE)) == 2
    keep_rows(tmp_path, "a.mp4", "a.mp4", [record(0)])
    assert len(pandas.read_parquet(tmp_path / TABLE)) == 1
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["frames.parquet"]


@pytest.mark.parametrize("there", ["a file", "a folder with other files", "a link"])
def test_a_table_of_somebody_else_is_refused(tmp_path, there):
    """What lies in place of the table and is none is named, and stays."""
    table = tmp_path / TABLE
    if there == "a file":
        table.write_text("mine")
    elif there == "a link":
        table.symlink_to(tmp_path / "elsewhere")
    else:
        table.mkdir()
        (table / "thesis.txt").write_text("mine")
    with pytest.raises(OutputError):
        check_table(tmp_path)
    check_table(tmp_path / "nowhere")
