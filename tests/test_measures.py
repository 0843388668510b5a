"""Measures of maps against tiny cases worked out by hand, naive loops, and what must hold."""

import re
from dataclasses import replace

import cv2
import numpy as np
import pytest

from realtime_lrp.commands.evaluate import report as reports
from realtime_lrp.commands.evaluate.metrics import MeasuredRow, Measurement, intervals
from realtime_lrp.commands.evaluate.report import latex_table, summary, table_lines
from realtime_lrp.config.provenance import ModelProvenance, Provenance
from realtime_lrp.relevance.maps import measures
from realtime_lrp.video.pictures import read_description


@pytest.fixture
def masks(rng):
    """Ten objects on pictures of 12 x 15."""
    return rng.random((10, 12, 15)) < np.linspace(0.05, 0.9, 10)[:, None, None]


def test_what_counts_of_relevance():
    """Summed over the channels first; then the positive part or the magnitude."""
    relevance = np.array([[[[1.0, 2.0, -1.0], [-3.0, 1.0, 0.0]]]])
    for name in ("lrp", "zplus", "input_x_gradient", "grad_cam", "integrated_gradients"):
        np.testing.assert_array_equal(measures.supporting_relevance(relevance, name), [[[2, 0]]])
    for name in ("gradient", "guided_backprop", "deconvnet", "smoothgrad"):
        np.testing.assert_array_equal(measures.supporting_relevance(relevance, name), [[[2, 2]]])


def test_rank_accuracy_by_hand_with_ties():
    """K = 3: the 5 is in, and two of the three 2s; two of those three are on the object."""
    entries = np.array([[[5.0, 2.0, 2.0, 2.0, 1.0]]])
    mask = np.array([[[True, True, True, False, False]]])
    np.testing.assert_allclose(measures.rank_accuracy(entries, mask), (1 + 2 * 2 / 3) / 3)


LOCATION = [measures.pointing_game, measures.mass_accuracy, measures.rank_accuracy]


@pytest.mark.parametrize("measure", LOCATION)
@pytest.mark.parametrize("value", [0.0, 7.0])
def test_a_map_that_is_the_same_everywhere_scores_the_share_of_the_area(measure, value, masks):
    """With and without relevance."""
    np.testing.assert_allclose(
        measure(np.full(masks.shape, value, np.float32), masks), masks.mean(axis=(1, 2))
    )


def test_against_naive_loops(masks, rng):
    """Pixel by pixel, as the papers say it, on maps without ties."""
    maps = rng.permuted(np.arange(masks.size, dtype=float)).reshape(masks.shape)
    hits, masses, ranks = [], [], []
    for entries, mask in zip(maps, masks, strict=True):
        pixels = sorted(
            ((e, on) for e, on in zip(entries.flat, mask.flat, strict=True)), reverse=True
        )
        size = sum(on for _, on in pixels)
        hits.append(float(pixels[0][1]))
        masses.append(sum(e for e, on in pixels if on) / sum(e for e, _ in pixels))
        ranks.append(sum(on for _, on in pixels[:size]) / size)
    np.testing.assert_allclose(measures.pointing_game(maps, masks), hits)
    np.testing.assert_allclose(measures.mass_accuracy(maps, masks), masses)
    np.testing.assert_allclose(measures.rank_accuracy(maps, masks), ranks)


def test_spearman_against_a_naive_ranking(rng):
    """Ranks by counting the smaller and the equal entries, then Pearson; half of it ties."""
    maps, others = np.maximum(rng.normal(size=(2, 4, 7, 9)).round(1), 0)

    def ranks(entries):
        return [
            sum(e < x for e in entries) + (sum(e == x for e in entries) + 1) / 2 for x in entries
        ]

    naive = [
        np.corrcoef(ranks(list(a.flat)), ranks(list(b.flat)))[0, 1]
        for a, b in zip(maps, others, strict=True)
    ]
    np.testing.assert_allclose(measures.spearman(maps, others), naive)


def test_a_map_that_is_the_same_everywhere_is_like_no_other(rng):
    """NaN, which means leave out: all ranks are equal."""
    maps = rng.random((1, 5, 5))
    assert np.isnan(measures.spearman(maps, np.zeros((1, 5, 5)))).all()
    assert measures.spearman(maps[:0], maps[:0]).shape == (0,)


def test_the_most_relevant_patch_comes_first(rng):
    """Four patches of 2 x 2 with means 1, 4, 2 and 3; single entries do not matter."""
    maps = np.zeros((1, 4, 4))
    maps[0, :2, :2] = [[0, 0], [0, 4]]
    maps[0, :2, 2:] = 4
    maps[0, 2:, :2] = 2
    maps[0, 2:, 2:] = [[0, 0], [0, 12]]
    expected = np.kron([[3, 0], [2, 1]], np.ones((2, 2)))
    np.testing.assert_array_equal(measures.patch_ranks(maps, 2, rng)[0], expected)


@pytest.mark.parametrize("size", [(32, 32), (27, 35)])
def test_every_patch_has_its_own_turn(size, rng):
    """Even if the sides are not divisible; patches are contiguous and almost equal in size."""
    turns = measures.patch_ranks(rng.random((2, *size)), 8, rng)
    assert turns.shape == (2, *size)
    for one in turns:
        numbers, pixels = np.unique(one, return_counts=True)
        np.testing.assert_array_equal(numbers, np.arange(64))
        assert pixels.max() <= np.ceil(size[0] / 8) * np.ceil(size[1] / 8)
        assert pixels.min() >= (size[0] // 8) * (size[1] // 8)
        rows, columns = np.nonzero(one == 0)
        assert (np.ptp(rows) + 1) * (np.ptp(columns) + 1) == len(rows)


@pytest.mark.parametrize(
    "values",
    [
        lambda share: 0.3 + 0.5 * np.sqrt(share),  # a straight line over the square root
        lambda share: 1 + 0 * share,
        lambda share: np.exp(-12 * share),
        lambda share: 1 / (1 + np.exp(20 * (share - 0.3))),
    ],
)
def test_the_area_under_a_curve(values):
    """Eleven points give what a polygon through 10000 gives."""
    positions = (np.arange(11) / 10) ** 2
    weights = measures.area_weights(positions)
    fine = np.linspace(0, 1, 10001)
    expected = np.trapezoid(values(fine), fine)
    assert weights @ values(positions) == pytest.approx(expected, abs=3e-4)
    assert weights.min() > 0
    assert weights.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("box", "expected"),
    [
        ((20, 0, 120, 100), (0, 0, 10, 10)),  # the whole region
        ((30, 20, 50, 60), (1, 2, 3, 6)),
        ((31, 21, 49, 59), (1, 2, 3, 6)),  # every pixel that it touches
        ((0, -5, 41, 7), (0, 0, 3, 1)),  # cut to the region
        ((69.5, 49.5, 70.5, 50.5), (4, 4, 6, 6)),  # smaller than a pixel
        ((0, 0, 20, 100), None),  # beside the region
        ((120, 0, 400, 100), None),
    ],
)
def test_boxes_at_the_networks_input(box, expected):
    """A photo of 140 x 100, of which the square from x 20 to 120 is seen at 10 x 10."""
    mask = measures.box_mask([box], (20, 0, 120, 100), (0, 0, 10, 10), (10, 10))
    wanted = np.zeros((10, 10), bool)
    if expected:
        x0, y0, x1, y1 = expected
        wanted[y0:y1, x0:x1] = True
    np.testing.assert_array_equal(mask, wanted)


MADE = Provenance(
    version="1", tensorflow="", keras="", python="", model=ModelProvenance(name="how it was made"),
    method=None, composite=None, layers=None, target=None, device=None, precision="float32",
    settings={},
)  # fmt: skip
PICTURES = 8
STEPS = np.array([0, 4, 16, 256])


def row(name, mass, **values):
    """A row whose mass is given and whose other figures are constant."""
    full = {key: np.full(PICTURES, 0.5) for key in ("pointing", "rank", "deletion", "insertion")}
    curve = np.linspace(1, 0, len(STEPS))[:, None] * np.ones(PICTURES)
    curves = {"deletion": curve, "insertion": curve[::-1]}
    figures = {**full, "mass": np.array(mass), **values}
    return MeasuredRow(name, figures, curves)


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
    return Measurement("net_1", 0, "boxes", names, ["cat"] * PICTURES, STEPS, rows)


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
    of_one = summary(replace(measurement, samples=[f"a: {n}" for n in range(PICTURES)]))
    assert of_one["distinct_photos"] == 1 and not of_one["rows"][0]["intervals"]
    pairs = intervals(np.repeat([[0.0], [1.0], [2.0]], 2, axis=0), [*"aabbcc"])
    alone = intervals(np.array([[0.0], [1.0], [2.0]]))
    np.testing.assert_allclose(pairs, alone, err_msg="copies of a photo are drawn together")
    assert re.search(r"^n +pictures with a value, where not all: other: 7 to 8$", text, re.M)


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
    """All files, equal at each run."""
    report, examples, written = summary(measurement), np.zeros((10, 20, 3), np.uint8), []
    for folder in (tmp_path / "one", tmp_path / "two"):
        folder.mkdir()
        reports.write_report(folder, measurement, report, examples, MADE)
        written.append({file.name: file.read_bytes() for file in folder.iterdir()})
    assert written[0].keys() == {*reports.FILES} and written[0] == written[1]
    assert cv2.imread(str(folder / "curves.png")).std() > 5
    assert read_description(folder / "curves.png") == MADE.as_json()
    document = (folder / "curves.pdf").read_bytes()
    assert document[:5] == b"%PDF-" and b"how it was made" in document
