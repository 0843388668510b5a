"""What `evaluate` makes of a measurement: figures, tables and plots, from numbers set by hand."""

import csv
import re
from dataclasses import replace

import cv2
import numpy as np
import pytest

from realtime_lrp.commands.evaluate import report as reports
from realtime_lrp.commands.evaluate.metrics import MeasuredRow, Measurement
from realtime_lrp.commands.evaluate.report import latex_table, summary, table_lines
from realtime_lrp.errors import OutputError
from realtime_lrp.video.pictures import read_description

PICTURES = 8
STEPS = np.array([0, 4, 16, 256])


def row(name, mass, **values):
    """A row whose mass is given and whose other figures are constant."""
    full = {key: np.full(PICTURES, 0.5) for key in ("pointing", "rank", "deletion", "insertion")}
    curve = np.linspace(1, 0, len(STEPS))[:, None] * np.ones(PICTURES)
    curves = {"deletion": curve, "insertion": curve[::-1]}
    figures = {**full, "mass": np.array(mass), **values}
    return MeasuredRow(name, figures, curves, np.empty((0, 0)), 0, np.zeros((0, 4, 4), np.float32))


@pytest.fixture
def measurement():
    """Two rows: the first has 0.1 more mass on every picture; one value is missing."""
    mass = np.linspace(0.8, 0.1, PICTURES)
    other = np.array([0.1, np.nan, *[0.3] * (PICTURES - 2)])
    rows = [
        row("zplus", mass, other_class=np.ones(PICTURES)),
        row("grad_cam", mass - 0.1, other_class=other),
        row("chance", np.full(PICTURES, 0.2)),
    ]
    names = [f"photo_{n}.jpg" for n in range(PICTURES)]
    return Measurement("net_1", 0, "boxes", names, ["cat"] * PICTURES, STEPS, [], rows)


def test_every_pair_of_rows_is_compared(measurement):
    """Mass differs by exactly 0.1; where a value is missing the pair has one picture fewer."""
    pairs = {(p["figure"], p["first"], p["second"]): p for p in summary(measurement)["pairs"]}
    mass = pairs["mass", "zplus", "grad_cam"]
    assert (mass["n"], mass["difference"], mass["interval"]) == (8, 0.1, [0.1, 0.1])
    other = pairs["other_class", "zplus", "grad_cam"]
    assert other["n"] == 7
    assert other["difference"] == pytest.approx(1 - (0.1 + 6 * 0.3) / 7, abs=1e-4)
    assert ("mass", "grad_cam", "chance") in pairs
    assert not any("chance" in key and key[0] == "other_class" for key in pairs)


def test_a_missing_value_is_counted_out(measurement):
    """N is of each row and figure; the table says where it is smaller."""
    report = summary(measurement)
    assert report["rows"][1]["n"]["other_class"] == 7
    assert report["rows"][1]["n"]["mass"] == 8
    assert report["photos"]["values"]["grad_cam"]["other_class"][:3] == [0.1, None, 0.3]
    text = "\n".join(table_lines(report))
    assert re.search(r"^n +pictures with a value, where not all: other: 7 to 8$", text, re.M)


def test_pictures_of_one_photo_are_counted_as_one(measurement):
    """The table and its caption say so; a photo is known by its name without the ending."""
    names = [
        "owl.jpg", "owl: mirrored.jpg", "owl.jpg: great grey owl", "a.b.png", "a.b: 2.png",
        "drawing 1", "drawing 2", "c.jpeg",
    ]  # fmt: skip
    measurement = replace(measurement, samples=names)
    assert measurement.photos == ["owl"] * 3 + ["a.b"] * 2 + ["drawing 1", "drawing 2", "c"]
    report = summary(measurement)
    text = "\n".join(table_lines(report))
    assert "net_1, 8 pictures of 5 photos; the object" in text
    assert "fewer than 6 photos" in text and "*" not in text  # no row is called the best
    assert "2000 bootstrap resamples of the photos, pictures of one photo together" in text
    caption = latex_table(report)
    assert "8 pictures of 5 photos (other" in caption and r"\textbf" not in caption
    assert "(2000 resamples of the photos, pictures of one photo together)" in caption


def test_the_latex_table(measurement):
    """The best is bold, what cannot be told from it has a star, names are escaped."""
    text = latex_table(summary(measurement))
    lines = text.splitlines()
    body = [line for line in lines if line.startswith(r"\texttt")]
    assert [line.count(" & ") for line in body] == [6, 6, 6]  # without the two of randomisation
    zplus, grad_cam, chance = body
    assert zplus.startswith(r"\texttt{zplus} & \textbf{0.500}{\tiny$\pm$.000} & \textbf{0.450}")
    assert grad_cam.startswith(r"\texttt{grad\_cam} & \textbf{0.500}")
    assert r" & 0.350{\tiny" in grad_cam
    assert chance.endswith(r" & -- \\")
    assert r"net\_1, 8 pictures (other: 7 to 8)." in text
    assert text.count("{") == text.count("}")
    for word in (r"\toprule", r"\bottomrule", r"\end{table}", "% needs \\usepackage{booktabs}"):
        assert lines.count(word) == 1


def test_the_folder_of_a_paper(measurement, tmp_path):
    """All files, equal at each run; the CSV holds a line for each photo, row and figure."""
    folder, written = tmp_path / "one", []
    for again in (False, True):
        report, examples = summary(measurement), np.zeros((10, 20, 3), np.uint8)
        made = (folder, measurement, report, examples, "how it was made")
        reports.write_report_folder(*made, overwrite=again)
        written.append({file.name: file.read_bytes() for file in folder.iterdir()})
    assert written[0].keys() == {*reports.FILES} and written[0] == written[1]
    with (folder / "photos.csv").open(newline="") as opened:
        lines = list(csv.DictReader(opened))
    assert len(lines) == PICTURES * (6 + 6 + 5)
    masses = [float(x["value"]) for x in lines if (x["row"], x["figure"]) == ("zplus", "mass")]
    np.testing.assert_allclose(masses, measurement.rows[0].values["mass"])
    missing = [x for x in lines if not x["value"]]
    assert [(x["photo"], x["class"], x["row"]) for x in missing] == [
        ("photo_1.jpg", "cat", "grad_cam")
    ]
    for name in ("curves.png", "scatter.png"):
        assert cv2.imread(str(folder / name)).std() > 5
        assert read_description(folder / name) == "how it was made"
        document = (folder / name).with_suffix(".pdf").read_bytes()
        assert document[:5] == b"%PDF-" and b"how it was made" in document


def test_a_folder_that_is_not_ours_is_kept(tmp_path):
    """Not without leave, never with other files in it, and not where nothing can be made."""
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.mkdir()
    (mine / "report.json").touch()
    other.mkdir()
    (other / "thesis.tex").touch()
    (tmp_path / "file").touch()
    reports.check_report_folder(tmp_path / "new", overwrite=False)
    reports.check_report_folder(mine, overwrite=True)
    for target, overwrite, message in (
        (mine, False, "exists"),
        (other, True, "thesis.tex"),
        (tmp_path / "file", True, "is a file"),
        (tmp_path / "none" / "new", False, "no folder"),
    ):
        with pytest.raises(OutputError, match=message):
            reports.check_report_folder(target, overwrite)
