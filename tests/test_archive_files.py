"""What an archive gets besides its films: the table of all frames, and the page of the job."""

import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import jsonschema
import numpy as np
import pytest
import yaml

from realtime_lrp.commands.video.archive.listing import Listing
from realtime_lrp.commands.video.archive.results import FailedFile, FinishedFile, SkippedFile
from realtime_lrp.config.provenance import ModelProvenance, Provenance
from realtime_lrp.errors import OutputError
from realtime_lrp.results.archive_page import FILMS, PAGE, check_page, write_pages
from realtime_lrp.results.frame_table import (
    COLUMNS,
    TABLE,
    check_table,
    keep_rows,
    partition_of,
)
from realtime_lrp.results.overview import FOLDER, FilmEntry, Overview, clock

DUCKDB = """
import duckdb, json, sys
found = duckdb.execute("select * from read_parquet(?) order by file, frame", sys.argv[1:])
print(json.dumps([[column[0] for column in found.description], *found.fetchall()]))
"""
NAMES = ("a.mp4", "ü = 100%#?.mp4", "中文" * 30 + ".mp4", "2024-01-01.mp4", "<b>&'\"*:{}.mp4")


def record(frame, **changed):
    """A line of a sidecar."""
    top = [{"label": "cat", "probability": 0.7}, {"label": "dog", "probability": 0.1 + frame / 100}]
    return {
        "frame": frame, "time": round(frame / 30, 6), "explained": frame % 2 == 0, "top5": top,
        "target": "top1", "relevance_sum": 1 / 3 + frame, "started": 1.0,
        "taken_by_biases": 0.25, "lost": -1e-9, "centre": [1.25, 2.5 + frame], "spread": 7.5,
        "lost_in": None, "concepts": [{"channel": 7, "share": -0.25}][: frame % 2], **changed,
    }  # fmt: skip


def row_of(record):
    """The same by hand, as a row of the table."""
    row = {key: value for key, value in record.items() if key not in ("top5", "centre", "concepts")}
    for number in range(5):
        one = record["top5"][number] if number < len(record["top5"]) else {}
        row[f"label_{number + 1}"] = one.get("label")
        row[f"probability_{number + 1}"] = one.get("probability")
    for number in range(4):
        one = record["concepts"][number] if number < len(record["concepts"]) else {}
        row[f"concept_{number + 1}"], row[f"share_{number + 1}"] = (
            one.get("channel"),
            one.get("share"),
        )
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
    folder, records = table
    path = str(folder / TABLE / "*" / "*.parquet")
    child = subprocess.run(  # it complains when it ends after what conftest.py does with garbage
        [sys.executable, "-c", DUCKDB, path], capture_output=True, text=True, check=True
    )
    names, *rows = json.loads(child.stdout)
    read = {name: [] for name in records}
    for values in rows:
        row = dict(zip(names, values, strict=True))
        name = row.pop("file")
        assert row.pop("source") == f"/recordings/{name}"
        read[name].append(row)
    assert read == {name: [row_of(one) for one in rows] for name, rows in records.items()}


def test_pandas_reads_the_folder_as_one_table(table):
    """Pandas takes the file's name from the folder, and numbers are what they were."""
    import pandas

    folder, records = table
    frame = pandas.read_parquet(folder / TABLE)
    counts = {name: len(rows) for name, rows in records.items()}
    assert frame.groupby("file", observed=True).size().to_dict() == counts
    kinds = {name: frame[name].dtype.kind for name in ("frame", "time", "explained", "spread")}
    assert kinds == {"frame": "i", "time": "f", "explained": "b", "spread": "f"}
    last = frame[frame.file == "2024-01-01.mp4"].relevance_sum
    assert list(last) == [1 / 3 + number for number in range(6)]


def test_rows_say_how_they_were_made(table):
    """Each file of the table keeps the provenance of its film."""
    from pyarrow import parquet

    folder, _ = table
    schema = parquet.read_schema(folder / partition_of("a.mp4"))
    assert json.loads(schema.metadata[b"provenance"]) == {"program": "realtime_lrp"}
    assert schema.names == ["source", *COLUMNS]


def test_rows_are_those_of_the_sidecar(tmp_path):
    """What was written as JSON lines comes back value by value."""
    from pyarrow import parquet

    lines = [record(frame) | {"relevance_sum": 10.0 ** -(frame + 1) / 3} for frame in range(4)]
    sidecar = tmp_path / "a.jsonl"
    sidecar.write_text("".join(json.dumps(line) + "\n" for line in lines))
    file = FinishedFile("a.mp4", {}, 4, sidecar)
    keep_rows(tmp_path, "a.mp4", "a.mp4", file.records())
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


HOSTILE = "<script>alert(1)<"
"""Ends in what would begin a tag; labels, names and messages come from files."""


class Links(HTMLParser):
    """Collects the tags of a page and what its links and pictures lead to."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.leads_to = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.leads_to += [value for name, value in attributes if name in ("href", "src")]


def finished(folder, stem, records, source="", **facts):
    """A film with a sidecar, complete, as a job hands it over."""
    outputs = {"film": folder / f"{stem}.mp4", "sidecar": folder / f"{stem}.jsonl"}
    outputs["film"].touch()
    made = Provenance(
        version="0.1.0", tensorflow="2", keras="3", python="3", method="lrp", composite="zplus",
        model=ModelProvenance(name=f"net {HOSTILE}"), layers=None, target="top1", device="CPU",
        precision="float32", settings={},
    )  # fmt: skip
    records[0]["provenance"] = json.loads(made.as_json())
    outputs["sidecar"].write_text("".join(json.dumps(one) + "\n" for one in records))
    thumbnails = [(at / 4, np.full((40, 64, 3), 9 * at, np.uint8)) for at in range(12)]
    return FinishedFile(
        source or f"/recordings/{stem}.avi", outputs, len(records), outputs["sidecar"],
        thumbnails, **facts,
    )  # fmt: skip


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """The folder of a job with hostile names and labels, one failure, and one film to come."""
    folder = tmp_path_factory.mktemp("job")
    label = [{"label": f"label {HOSTILE}\x1b[0m", "probability": 0.5}]
    listing = Listing(folder, total=5)
    listing.finished(finished(folder, "a", [record(frame) for frame in range(40)]))
    hostile = [record(frame, top5=label) for frame in range(3)]
    notes = [f"note {HOSTILE}"]
    address = f"s3://me:secret@bucket/{HOSTILE}.mp4"
    listing.finished(finished(folder, f"javascript:{HOSTILE}", hostile, address, notes=notes))
    bytes_of_no_encoding = os.fsdecode(b"x\xff")
    listing.finished(finished(folder, bytes_of_no_encoding, [record(0, top5=[])]))
    listing.failed(FailedFile("/recordings/b.avi", f"no frame {HOSTILE}", 65))
    listing.end(stopped=True)
    return folder


def test_a_page_shows_films_and_failures(job):
    """Totals, answers, and why a recording has no film."""
    text = (job / PAGE).read_text()
    for shown in (
        "<td style=\"text-align:left\">44</td>", "40 frames, 1.30 s, cat 100%",
        "<p>1 frame</p>", "/recordings/b.avi</strong>: no frame &lt;script&gt;",
        "net &lt;script&gt;alert(1)&lt;",
    ):  # fmt: skip
        assert shown in text, shown
    assert clock(3599.9) == "59:59"
    assert clock(7200 * 500 + 61) == "1000:01:01"


def test_a_page_runs_nothing_and_loads_nothing_from_elsewhere(job):
    """No name, label or message becomes a tag, no password is shown, and every link is a file."""
    text = (job / PAGE).read_text()
    page = Links(text)
    assert "script" not in page.tags
    assert "secret" not in text
    assert "default-src 'none'" in text
    assert len(page.leads_to) == 3 * 4
    for address in page.leads_to:
        assert address.startswith("./")
        assert (job / os.fsdecode(unquote_bytes(address))).is_file(), address


def unquote_bytes(address):
    """The bytes of the path that an address leads to."""
    return unquote(address, "latin-1").encode("latin-1")


def test_pictures_of_films_are_well_formed(job):
    """Hostile labels stay text; eight thumbnails of twelve, and a curve for each label."""
    space = "{http://www.w3.org/2000/svg}"
    roots = {path.name: ElementTree.parse(path).getroot() for path in (job / FOLDER).glob("*.svg")}
    assert len(roots) == 3
    assert {len(root.findall(f"{space}image")) for root in roots.values()} == {8}
    curves = [one for one in roots["a.mp4.svg"].findall(f"{space}path") if one.get("fill")]
    assert len(curves) == 2
    assert all("script" not in element.tag for root in roots.values() for element in root.iter())


def test_a_job_that_goes_on_shows_what_was_finished_before(job):
    """A page made by a second run has the first run's answers and pictures of skipped films."""
    before = (job / PAGE).read_text()
    listing = Listing(job, total=1)
    listing.skipped(SkippedFile("/recordings/a.avi", {"film": job / "a.mp4"}))
    listing.end(stopped=False)
    again = (job / PAGE).read_text()
    assert "40 frames, 1.30 s, cat 100%" in again
    assert "a.mp4.svg" in again
    assert "b.avi" not in again
    (job / PAGE).write_text(before)


def test_an_overview_follows_a_long_recording_in_bounded_space():
    """A hundred thousand frames become a picture of a few kilobytes with all their time."""
    overview = Overview()
    rows = (record(frame, explained=True) for frame in range(20_000))
    assert sum(1 for _ in overview.watch(rows)) == 20_000
    picture, height = overview.draw([])
    assert len(picture) < 10_000
    assert 100 < height < 200
    assert (overview.frames, overview.answers) == (20_000, [("cat", 1.0)])


def test_ten_thousand_films_are_shown_on_pages_of_bounded_size(tmp_path):
    """Each film is on one page, pages lead to each other, and stale ones go."""
    films = {f"{number:05}.mp4": FilmEntry(frames=9, height=200) for number in range(10_000)}
    write_pages(tmp_path, films)
    pages = [tmp_path / PAGE, *(tmp_path / FOLDER).glob("page-*.html")]
    assert len(pages) == 10_000 / FILMS
    assert max(page.stat().st_size for page in pages) < 250_000
    shown = sum(page.read_text().count("<article>") for page in pages)
    assert shown == 10_000
    for page in pages:
        for address in Links(page.read_text()).leads_to:
            target = (page.parent / unquote(address)).resolve()
            assert target.is_file() == (target.suffix == ".html")
    write_pages(tmp_path, {"a.mp4": FilmEntry()})
    assert not list((tmp_path / FOLDER).glob("page-*"))


def test_every_failure_is_on_a_page_once(tmp_path):
    """The first page lists a thousand, the rest stand among the films."""
    films = {f"{number:04}": FilmEntry(error=f"fault {number:04}") for number in range(1100)}
    write_pages(tmp_path, films)
    text = (tmp_path / PAGE).read_text()
    assert all(text.count(f"fault {number:04}") == 1 for number in range(1100))
    assert text.count("<li>") == 1000
    assert text.count("<article>") == 100


def test_the_axis_of_a_timeline_fits_small_probabilities():
    """For a network that is never sure it ends at a small number, for a sure one at 1."""
    for probability, ticks in ((0.0023, ["0", "0.005", "0.01"]), (0.7, ["0", "0.5", "1"])):
        overview = Overview()
        top = [{"label": "cat", "probability": probability}]
        assert len(list(overview.watch(record(frame, top5=top) for frame in range(4)))) == 4
        svg = ElementTree.fromstring(overview.draw([])[0])
        assert [one.text for one in svg if one.get("x") == "0" and one.text] == ticks


def test_the_timeline_of_a_single_picture_shows_its_probabilities(tmp_path):
    """Each is a level line across the plot; a duration of 0 s is not named."""
    overview = Overview()
    tops = [{"label": "cat", "probability": 0.9}, {"label": "dog", "probability": 0.1}]
    assert len(list(overview.watch([record(0, top5=tops)]))) == 1
    svg = ElementTree.fromstring(overview.draw([])[0])
    curves = [one.get("d") for one in svg if one.get("stroke-width")]
    ends = [[point.split(" ") for point in curve[1:].split("L")] for curve in curves]
    assert [float(end[0]) - float(begin[0]) > 900 for begin, end in ends] == [True, True]
    assert all(begin[1] == end[1] for begin, end in ends) and ends[0][0][1] != ends[1][0][1]
    write_pages(tmp_path, {"a.mp4": FilmEntry(frames=1), "b.mp4": FilmEntry(frames=2, seconds=0.1)})
    page = (tmp_path / PAGE).read_text()
    assert "<p>1 frame</p>" in page and "<p>2 frames, 0.10 s</p>" in page


def test_a_page_of_somebody_else_is_refused(tmp_path):
    """A file of that name that is none of ours stays, unless everything may be replaced."""
    (tmp_path / PAGE).write_text("<h1>My archive</h1>")
    with pytest.raises(OutputError, match="no page of an archive"):
        check_page(tmp_path, replace=False)
    check_page(tmp_path, replace=True)
    write_pages(tmp_path, {})
    check_page(tmp_path, replace=False)


def examples():
    """The YAML files in the document about archives, by their first line."""
    text = (Path(__file__).parent.parent / "docs" / "archives.md").read_text()
    blocks = [part.split("```")[0] for part in text.split("```yaml\n")[1:]]
    return {block.splitlines()[0].strip("# "): yaml.safe_load(block) for block in blocks}


def test_the_cluster_file_in_the_documents_fits_rays_schema():
    """Ray's own schema accepts it, and the head runs no worker."""
    cluster = examples()["cluster.yaml"]
    ray = Path(find_spec("ray").submodule_search_locations[0])
    schema = json.loads((ray / "autoscaler" / "ray-schema.json").read_text())
    jsonschema.validate(cluster, schema)
    assert cluster["available_node_types"]["head"]["resources"] == {"CPU": 0}
    assert cluster["head_node_type"] in cluster["available_node_types"]
    assert any("realtime-lrp[cluster]" in line for line in cluster["setup_commands"])


def test_the_job_for_kubernetes_in_the_documents_is_complete():
    """A RayJob with the command, a head and workers, each with one image of the same version."""
    job = examples()["job.yaml"]
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    assert job["spec"]["entrypoint"].endswith("--ray auto --workers 8 --resume")
    groups = job["spec"]["rayClusterSpec"]
    (workers,) = groups["workerGroupSpecs"]
    assert workers["minReplicas"] <= workers["replicas"] <= workers["maxReplicas"]
    assert groups["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0"}  # all values are text
    images = set()
    for group in (groups["headGroupSpec"], workers):
        (container,) = group["template"]["spec"]["containers"]
        images.add(container["image"])
        assert "memory" in container["resources"]["limits"]
    assert len(images) == 1
