"""`evaluate`: its figures for networks whose maps are known, its files and its errors."""

import json
import re
from dataclasses import replace

import cv2
import keras
import media
import numpy as np
import pytest
from drawing.batch import draw_batch
from uncompiled import compiled

from realtime_lrp import METHODS, config
from realtime_lrp.commands.evaluate import report as reports
from realtime_lrp.commands.evaluate.report import latex_table, summary, table_lines
from realtime_lrp.engine.engine import Engine
from realtime_lrp.evaluation import measuring, metrics, samples
from realtime_lrp.evaluation.measuring import layers_with_weights, randomised
from realtime_lrp.evaluation.samples import BoxEntry, drawn_scenes
from realtime_lrp.models.drawings import CLASSES, drawings
from realtime_lrp.relevance.maps import measures
from realtime_lrp.relevance.maps.detections import intersection_over_union
from realtime_lrp.relevance.rules.composites import COMPOSITES

ONE_ROW = "--only", "zplus"
QUICK = *ONE_ROW, "--no-forgetting"


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    """A network of two classes, each of which depends only on one half of a picture of 16 x 16."""
    x = keras.Input((16, 16, 3))
    flat = keras.layers.Flatten()(keras.layers.Rescaling(1 / 255)(x))
    network = keras.Model(x, keras.layers.Dense(2, activation="softmax")(flat), name="halves")
    looks = np.zeros((16, 16, 3, 2), np.float32)
    looks[:, :8, :, 0] = looks[:, 8:, :, 1] = 6 / (8 * 16 * 3)
    network.layers[-1].set_weights([looks.reshape(-1, 2), np.zeros(2, np.float32)])
    path = tmp_path_factory.mktemp("halves") / "halves.keras"
    network.save(path)
    return path


@pytest.fixture
def photos(tmp_path, rng):
    """A folder of three photos of 32 x 48; the network sees the 32 x 32 in the middle."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in ("a.png", "b.jpg", "c.png"):
        media.write_picture(folder / name, rng.integers(60, 256, (32, 48, 3), np.uint8))
    return folder


@pytest.fixture
def with_boxes(photos, tmp_path):

    def words(boxes):
        file = tmp_path / "boxes.json"
        file.write_text(boxes if isinstance(boxes, str) else json.dumps(boxes))
        return "--images", photos, "--boxes", file

    return words


def by_name(file):
    return {row["name"]: row for row in json.loads(file.read_text())["rows"]}


LEFT, RIGHT = [8, 0, 24, 32], [24, 0, 40, 32]


def test_a_network_whose_maps_are_known(run, halves, with_boxes, tmp_path):
    """The map of a class is its half: all points on that half, none on the other."""
    file = tmp_path / "r.json"
    expected = {"left": 1, "right": 0}
    for side, box in (("left", LEFT), ("right", RIGHT)):
        words = with_boxes({n: {"box": box, "label": 0} for n in ("a.png", "b.jpg", "c.png")})
        words = (*words, *ONE_ROW, "--model", halves, "--json", file, "--overwrite")
        code, out, err = run("evaluate", *words)
        assert (code, err) == (0, "")
        rows = by_name(file)
        zplus = rows["zplus"]
        for figure in ("pointing", "mass", "rank"):
            assert zplus[figure] == expected[side]
            assert rows["chance"][figure] == 0.5
        assert zplus["other_class"] == pytest.approx(-1)
        assert zplus["intervals"]["pointing"] == [expected[side]] * 2
        assert zplus["from_best"]["deletion"].keys() == {"difference", "interval"}
        assert f"{expected[side]}.000±.000" in out
        assert zplus["last_layer"] == zplus["all_layers"] < 0.9
        assert zplus["insertion_curve"][0] == zplus["deletion_curve"][-1]
        assert "halves, 3 pictures" in out


def test_a_folder_for_a_paper(run, halves, with_boxes, tmp_path):
    folder, made = tmp_path / "paper", []
    words = with_boxes({n: {"box": LEFT, "label": 0} for n in ("a.png", "b.jpg", "c.png")})
    words = ("evaluate", *words, *QUICK, "--model", halves, "-o", folder)
    for more in ((), ("--overwrite",)):
        assert run(*words, *more)[0] == 0
        made.append({file.name: file.read_bytes() for file in folder.iterdir()})
    assert made[0].keys() == {*reports.FILES} and made[0] == made[1]
    written = json.loads(made[0]["report.json"])["photos"]
    assert written["names"] == ["a.png", "b.jpg", "c.png"]
    assert written["values"]["zplus"]["mass"] == [1, 1, 1]
    for name in ("report.json", "curves.png", "examples.png"):
        code, out, _ = run("show", folder / name)
        assert code == 0 and "halves.keras" in out and "several methods" in out
    pictures = [cv2.imread(str(folder / name)) for name in ("curves.png", "examples.png")]
    assert min(one.std() for one in pictures) > 5
    document = made[0]["curves.pdf"]
    assert document[:5] == b"%PDF-" and b"halves.keras" in document
    code, _, err = run(*words)
    assert code == 73 and "--overwrite" in err


def test_an_interval_by_hand():
    """Three draws from 0, 0, 3 are all 0 in 8 of 27 cases and all 3 in one: the ends are 0, 3."""
    values = np.stack([[0.0, 0, 3], [1, 1, np.nan], np.full(3, np.nan)], axis=1)
    np.testing.assert_array_equal(metrics.intervals(values), [(0, 3), (1, 1), (np.nan, np.nan)])
    coins = np.repeat([0.0, 1.0], 200)[:, None]
    expected = [(0.451, 0.549)]  # 0.5 - 1.96 * 0.5 / 20, ...
    np.testing.assert_allclose(metrics.intervals(coins), expected, atol=0.005)


def test_pictures_of_one_photo_are_drawn_together():
    assert metrics.photo_of("12:30.jpg: cat") == metrics.photo_of("12:30: mirrored.jpg") == "12:30"
    values = np.array([[0.0], [0.2], [1.0], [0.7]])
    copied, names = values.repeat(5, axis=0), [name for name in "abcd" for _ in range(5)]
    np.testing.assert_array_equal(metrics.intervals(copied, names), metrics.intervals(values))
    (low, high), (wide_low, wide_high) = *metrics.intervals(copied), *metrics.intervals(values)
    assert wide_low < low and high < wide_high
    np.testing.assert_array_equal(
        metrics.intervals(values[:2], [*"abcd"]), metrics.intervals(values[:2])
    )
    rows = {"x": copied[:, 0], "y": copied[:, 0] ** 2}
    (pair,) = metrics.compared(rows, [("x", "y")], names)
    (alone,) = metrics.compared({name: row[::5] for name, row in rows.items()}, [("x", "y")])
    assert pair["interval"] == alone["interval"] and (pair["n"], alone["n"]) == (20, 4)


def test_rows_are_compared_on_the_same_pictures():
    first, shift = np.array([0.1, 0.9, 0.5, np.nan]), np.array([0.2, -0.2, 0, 0])
    rows = {"a": first, "b": first - 0.1, "c": first + shift, "d": first * np.nan}
    assert metrics.best_of(rows, high_is_good=True) == "a"
    assert metrics.best_of(rows, high_is_good=False) == "b"
    assert metrics.best_of({"d": rows["d"]}, high_is_good=True) is None
    found = {
        one["first"]: (one["difference"], one["interval"])
        for one in metrics.compared(rows, [(name, "a") for name in rows])
    }
    assert found == {"a": (0, [0, 0]), "b": (-0.1, [-0.1, -0.1]), "c": (0, [-0.2, 0.2])}


def test_a_label_by_name_several_boxes_and_own_rules(run, halves, with_boxes, tmp_path):
    (tmp_path / "names.txt").write_text("left\nright\n")
    upper, lower = [8, 0, 24, 16], [8, 16, 24, 32]
    boxes = {
        "a.png": [{"box": upper, "label": "left"}, {"box": lower, "label": "left"}],
        "b.jpg": [{"box": LEFT, "label": "left"}, {"box": RIGHT, "label": "Right"}],
    }
    file = tmp_path / "r.json"
    words = (*with_boxes(boxes), "--model", halves, "--labels", tmp_path / "names.txt")
    words = (*words, "--no-forgetting", "--only", "configured,epsilon,zplus", "--json", file)
    words = (*words, "--composite", "zplus", "--set", "lrp.layers={Dense: epsilon}")
    assert run("evaluate", *words)[0] == 0
    rows = by_name(file)
    assert list(rows) == ["configured", "epsilon", "zplus", "chance"]  # as --only has them
    assert json.loads(file.read_text())["pictures"] == 3
    assert rows["zplus"]["mass"] == rows["zplus"]["rank"] == rows["configured"]["mass"] == 1
    assert rows["chance"]["mass"] == 0.5


@pytest.mark.release
@compiled()
def test_every_composite_and_method_is_a_row(run, tiny_model, with_boxes, tmp_path):
    words = with_boxes({"a.png": {"box": LEFT}, "c.png": {"box": [10, 4, 30, 20]}})
    words = (*words, "--model", tiny_model, "--preprocess", "rescale")
    file, picture = tmp_path / "r.json", tmp_path / "p.png"
    code, out, err = run("evaluate", *words, "--json", file, "--picture", picture)
    assert (code, err) == (0, "realtime-lrp: left out, without boxes: 1 (b.jpg)\n")
    rows = by_name(file)
    composites = [name for name in COMPOSITES if name not in ("attnlrp", "attnlrp_gamma", "cp_lrp")]
    assert list(rows) == [*composites, *[*METHODS][1:], "chance"]
    for name, row in rows.items():
        assert any(line.split()[:1] == [name] for line in out.splitlines())
        for figure in metrics.METRICS:
            likeness = figure in ("last_layer", "all_layers", "other_class")
            value = row.get(figure)
            assert value is None or -likeness <= value <= 1, (name, figure)
            assert likeness or value is not None
        assert len(row["deletion_curve"]) == len(measuring.REPLACED)
    assert cv2.imread(str(picture)).std() > 5


def test_drawn_pictures_hold_a_symbol_and_are_not_those_of_training():
    from embedded import DRAWINGS_SEED
    from measuring import HELD_OUT_SEED
    from train_shapes import STAGES

    chosen = drawings(45, seed=1)
    assert np.bincount(chosen.labels).tolist() == [3] * (len(CLASSES) - 1)
    assert len({picture.tobytes() for picture in drawings().pixels}) == 300
    fresh = draw_batch((DRAWINGS_SEED, 0), 15, nothings=0)
    np.testing.assert_array_equal(drawings(15).masks, fresh.mask[np.argsort(fresh.labels)])
    again, other = drawings(45, seed=1), drawings(45, seed=2)
    np.testing.assert_array_equal(chosen.pixels, again.pixels)
    assert not np.array_equal(chosen.pixels, other.pixels)
    assert samples.drawn_samples(15, seed=1).masks.any(axis=(1, 2)).all()
    assert DRAWINGS_SEED not in {HELD_OUT_SEED, *(plan.seed for plan in STAGES)}


def test_copies_of_a_network_forget_its_output_layer_or_all():
    keras.utils.set_random_seed(7)  # else an earlier test may have left the seed that is set below
    inner = keras.Sequential([keras.Input((8, 8, 2)), keras.layers.Conv2D(3, 3, name="inner")])
    layers = keras.layers
    begin = [layers.Normalization(mean=[1, 2], variance=[4, 9])]
    begin.append(layers.Conv2D(2, 3, padding="same", name="first"))
    head = [layers.Flatten(), layers.Dense(4, name="hidden"), layers.Dense(2, name="last")]
    network = keras.Sequential([keras.Input((8, 8, 2)), *begin, inner, layers.Dropout(0.5), *head])
    network.build()
    before = {layer.name: layer.get_weights()[0] for layer in layers_with_weights(network)}
    assert list(before) == ["first", "inner", "hidden", "last"]
    asked = []
    copies = randomised(network, 0, lambda copy: asked.append(copy) or len(asked) > 2)
    now = {
        key: {layer.name: layer.get_weights()[0] for layer in layers_with_weights(copy)}
        for key, copy in copies.items()
    }
    for key, forgotten in (("all_layers", list(before)), ("last_layer", ["last"])):
        changed = [name for name in before if not np.array_equal(before[name], now[key][name])]
        assert changed == forgotten
    np.testing.assert_allclose(4 * now["all_layers"]["last"], now["last_layer"]["last"])
    for layer in layers_with_weights(network):
        np.testing.assert_array_equal(layer.get_weights()[0], before[layer.name])


def test_curves_by_hand():
    pictures = np.zeros((3, 32, 32, 3), np.uint8)
    pictures[:, :4, :4] = 255  # its blur is another picture

    def scores(batch):
        assert len(batch) <= measuring.BATCH
        bright = batch[:, 0, 0, 0] == 255
        return np.stack([bright, ~bright], axis=1).astype(np.float32)

    meter = measuring.CurveMeter(scores, pictures, np.array([0, 1, 0]))
    patches = np.arange(32) // 2 * 16
    order = (patches[:, None] + np.arange(32) // 2)[None]  # row by row, the first patch decides
    ranks = np.concatenate([order, order, (order + 156) % 256])  # it is the first, or the 157th
    found = meter.measure(ranks, np.arange(3))
    at_once = [1] + [0] * 10  # at 0, 3, 10, ... patches
    np.testing.assert_allclose(found["deletion"][:, 0], at_once)
    np.testing.assert_allclose(found["insertion"][:, 0], 1 - np.array(at_once))
    np.testing.assert_allclose(found["deletion"][:, 1], 1 - np.array(at_once))
    assert found["deletion"][:, 2].tolist() == [1] * 8 + [0] * 3  # 125 are replaced, then 164
    areas = {name: measuring.AREA_WEIGHTS @ curve for name, curve in found.items()}
    assert areas["deletion"][2] == pytest.approx(144 / 256, abs=0.05)
    assert areas["insertion"][2] == pytest.approx(1 - 144 / 256, abs=0.05)


def test_what_cannot_be_used_is_counted_and_left_out(run, halves, photos, with_boxes, tmp_path):
    (photos / "d.png").write_text("no picture")
    for number in range(7):
        (photos / f"e{number}.png").write_text("not asked for")
    boxes = {"a.png": {"box": LEFT}, "b.jpg": {"box": [0, 0, 8, 32]}, "d.png": {"box": LEFT}}
    file = tmp_path / "r.json"
    words = (*with_boxes(boxes), "--model", halves, *QUICK)
    code, _, err = run("evaluate", *words, "--json", file)
    assert code == 0
    assert json.loads(file.read_text())["pictures"] == 1
    left_out = [
        "without boxes: 8 (c.png, e0.png, e1.png, e2.png, e3.png and 3 more)",
        "boxes outside what the network sees: 1 (b.jpg)",
        "photos that cannot be read: 1 (d.png)",
    ]
    assert err.splitlines() == [f"realtime-lrp: left out, {line}" for line in left_out]
    words = (*words, "--set", "input.fit=squash")
    assert "2 pictures" in run("evaluate", *words)[1]
    assert "1 picture;" in run("evaluate", *words, "--photos", 1)[1]


def test_photos_are_chosen_by_the_seed(photos, halves, rng):
    engine = Engine(config.load(options={"--model": str(halves)}).config)
    boxes = {
        f"{n}.png": [BoxEntry(box=LEFT, label=0), BoxEntry(box=LEFT, label=1)] for n in range(9)
    }
    for name in boxes:
        media.write_picture(photos / name, rng.integers(60, 256, (32, 48, 3), np.uint8))
    chosen = [samples.photo_samples(photos, boxes, engine, 4, seed).names for seed in (0, 0, 1)]
    assert chosen[0] == chosen[1] != chosen[2]
    assert all(len(names) == 8 and names == sorted(names) for names in chosen)
    assert len(samples.photo_samples(photos, boxes, engine, None, 0).names) == 18


def test_the_same_seed_gives_the_same_figures(run, halves, with_boxes, tmp_path):
    words = (*with_boxes({"a.png": {"box": LEFT}}), "--model", halves, *ONE_ROW, "--json")
    for name, seed in (("1", 5), ("2", 5), ("3", 6)):
        assert run("evaluate", *words, tmp_path / name, "--seed", seed)[0] == 0
    first, second, third = ((tmp_path / name).read_text() for name in "123")
    assert first == second != third


@pytest.mark.release
def test_a_detector_is_measured_box_by_box(run, tmp_path):
    file = tmp_path / "r.json"
    words = ("--model", "shapes_detector", "--count", 3, "--only", "epsilon_plus_flat,grad_cam")
    code, out, err = run("evaluate", *words, "--json", file, "--picture", tmp_path / "p.png")
    assert (code, err) == (0, "") and " boxes" in out
    report, rows = json.loads(file.read_text()), by_name(file)
    assert list(rows) == ["epsilon_plus_flat", "grad_cam", "chance"]
    ours, chance = rows["epsilon_plus_flat"], rows["chance"]
    assert report["pictures"] == ours["n"]["mass"] >= 2 and "last_layer" not in ours
    assert ours["pointing"] == 1 and ours["mass"] > 0.5 > 4 * chance["mass"]
    assert ours["deletion"] < chance["deletion"] and ours["insertion"] > chance["insertion"]
    assert ours["insertion_curve"][-1] > 0.5 > ours["deletion_curve"][-1]


def test_scenes_show_every_drawing_in_its_box():
    scenes = drawn_scenes(20, 3, (192, 256))
    assert sorted(np.concatenate([one.labels for one in scenes])) == sorted(drawings(20, 3).labels)
    for scene in scenes:
        for number, (y0, x0, y1, x1) in enumerate(scene.boxes):
            assert 0 <= y0 < y1 <= 192 and 0 <= x0 < x1 <= 256
            others = np.delete(scene.boxes, number, 0)
            assert not intersection_over_union(scene.boxes[number], others).numpy().any()


OK = '{"a.png": {"box": [8, 0, 24, 32]}}'
BAD = {
    "photos without boxes": ("--images photos", OK, 2, "--boxes"),
    "boxes without photos": ("--boxes boxes.json", OK, 2, "--images"),
    "no such boxes": ("--images photos --boxes none.json", OK, 66, "none.json"),
    "no JSON": ("BOTH", "{", 65, "boxes.json"),
    "a label of truth": ("BOTH", '{"a.png": {"box": [1, 2, 3, 4], "label": true}}', 65, "a.png: "),
    "not a number": ("BOTH", '{"a.png": {"box": [NaN, 2, 3, 4]}}', 65, "boxes.json"),
    "beyond": ("BOTH", '{"a.png": {"box": [8, 0, 24, 900]}}', 65, "beyond the photo"),
    "outside": ("BOTH", '{"a.png": {"box": [0, 0, 8, 32]}}', 65, "No box"),
    "unknown label": ("BOTH", '{"a.png": {"box": [8, 0, 24, 32], "label": 7}}', 65, "0 to 1"),
    "another network": ("--model vgg16", OK, 2, "--images"),
    "more than there are": ("--count 301", OK, 2, "There are 300 drawn pictures"),
    "drawings of photos": ("BOTH --count 1", OK, 2, "--photos N"),
    "unknown row": ("--only zplus,gradcam", OK, 2, "no row 'gradcam'. Did you mean 'grad_cam'?"),
    "picture exists": ("--picture taken", OK, 73, "--overwrite"),
    "folder is a file": ("-o taken --overwrite", OK, 73, "is a file"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_options_and_files(case, run, halves, photos, with_boxes, tmp_path, monkeypatch):
    words, boxes, code, expected = BAD[case]
    with_boxes(boxes)
    (photos / "d.png").write_text("no picture")
    (tmp_path / "taken").touch()
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    both = f"--images photos --boxes boxes.json --preprocess none --model {halves}"
    got, out, err = run("evaluate", *words.replace("BOTH", both).split())
    assert (got, out) == (code, ""), err
    assert expected in err
    assert "Traceback" not in err
    assert 1 <= len(err.splitlines()) <= 2 + (case == "outside"), err
    assert set(tmp_path.iterdir()) == before


@pytest.fixture
def masks(rng):
    return rng.random((10, 12, 15)) < np.linspace(0.05, 0.9, 10)[:, None, None]


def test_what_counts_of_relevance():
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


def test_a_map_that_is_the_same_everywhere_scores_the_share_of_the_area(masks, rng):
    for value in (0.0, 7.0):
        maps = np.full(masks.shape, value, np.float32)
        for measure in (measures.pointing_game, measures.mass_accuracy, measures.rank_accuracy):
            np.testing.assert_allclose(measure(maps, masks), masks.mean(axis=(1, 2)))
    maps = rng.random((1, 5, 5))
    assert np.isnan(measures.spearman(maps, np.zeros((1, 5, 5)))).all()
    assert measures.spearman(maps[:0], maps[:0]).shape == (0,)


def test_against_naive_loops(masks, rng):
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


def test_the_most_relevant_patch_comes_first(rng):
    maps = np.zeros((1, 4, 4))
    maps[0, :2, :2] = [[0, 0], [0, 4]]
    maps[0, :2, 2:] = 4
    maps[0, 2:, :2] = 2
    maps[0, 2:, 2:] = [[0, 0], [0, 12]]
    expected = np.kron([[3, 0], [2, 1]], np.ones((2, 2)))
    np.testing.assert_array_equal(measures.patch_ranks(maps, 2, rng)[0], expected)


@pytest.mark.parametrize("size", [(32, 32), (27, 35)])
def test_every_patch_has_its_own_turn(size, rng):
    turns = measures.patch_ranks(rng.random((2, *size)), 8, rng)
    assert turns.shape == (2, *size)
    for one in turns:
        numbers, pixels = np.unique(one, return_counts=True)
        np.testing.assert_array_equal(numbers, np.arange(64))
        assert pixels.max() <= np.ceil(size[0] / 8) * np.ceil(size[1] / 8)
        assert pixels.min() >= (size[0] // 8) * (size[1] // 8)
        rows, columns = np.nonzero(one == 0)
        assert (np.ptp(rows) + 1) * (np.ptp(columns) + 1) == len(rows)


def test_the_area_under_a_curve():
    positions = (np.arange(11) / 10) ** 2
    weights, fine = measures.area_weights(positions), np.linspace(0, 1, 10001)
    for values in (
        lambda share: 0.3 + 0.5 * np.sqrt(share), lambda share: 1 + 0 * share,
        lambda share: np.exp(-12 * share), lambda share: 1 / (1 + np.exp(20 * (share - 0.3))),
    ):  # fmt: skip
        expected = np.trapezoid(values(fine), fine)
        assert weights @ values(positions) == pytest.approx(expected, abs=3e-4)
    assert weights.min() > 0 and weights.sum() == pytest.approx(1)


def test_boxes_at_the_networks_input():
    """A photo of 140 x 100, of which the square from x 20 to 120 is seen at 10 x 10."""
    for box, expected in (
        ((20, 0, 120, 100), (0, 0, 10, 10)),  # the whole region
        ((30, 20, 50, 60), (1, 2, 3, 6)), ((31, 21, 49, 59), (1, 2, 3, 6)),  # all that it touches
        ((0, -5, 41, 7), (0, 0, 3, 1)),  # cut to the region
        ((69.5, 49.5, 70.5, 50.5), (4, 4, 6, 6)),  # smaller than a pixel
        ((0, 0, 20, 100), (0, 0, 0, 0)), ((120, 0, 400, 100), (0, 0, 0, 0)),  # beside the region
    ):  # fmt: skip
        x0, y0, x1, y1 = expected
        wanted = np.zeros((10, 10), bool)
        wanted[y0:y1, x0:x1] = True
        mask = measures.box_mask([box], (20, 0, 120, 100), (0, 0, 10, 10), (10, 10))
        np.testing.assert_array_equal(mask, wanted)


PICTURES = 8
STEPS = np.array([0, 4, 16, 256])


def row(name, mass, **values):
    """A row whose mass is given and whose other figures are constant."""
    full = {key: np.full(PICTURES, 0.5) for key in ("pointing", "rank", "deletion", "insertion")}
    curve = np.linspace(1, 0, len(STEPS))[:, None] * np.ones(PICTURES)
    figures = {**full, "mass": np.array(mass), **values}
    return metrics.MeasuredRow(name, figures, {"deletion": curve, "insertion": curve[::-1]})


@pytest.fixture
def measurement():
    """Two rows: the first has 0.1 more mass on every picture; one value is missing."""
    mass = np.linspace(0.8, 0.1, PICTURES)
    rows = [
        row("zplus", mass, other_class=np.ones(PICTURES)),
        row("grad_cam", mass - 0.1, other_class=np.array([0.1, np.nan, *[0.3] * (PICTURES - 2)])),
        row("chance", np.full(PICTURES, 0.2)),
    ]
    names = [f"photo_{n}.jpg" for n in range(PICTURES)]
    return metrics.Measurement("net_1", 0, "boxes", names, ["cat"] * PICTURES, STEPS, rows)


def test_every_pair_of_rows_is_compared(measurement):
    pairs = {(p["figure"], p["first"], p["second"]): p for p in summary(measurement)["pairs"]}
    mass = pairs["mass", "zplus", "grad_cam"]
    assert (mass["n"], mass["difference"], mass["interval"]) == (8, 0.1, [0.1, 0.1])
    other = pairs["other_class", "zplus", "grad_cam"]
    assert other["n"] == 7
    assert other["difference"] == pytest.approx(1 - (0.1 + 6 * 0.3) / 7, abs=1e-4)
    assert ("mass", "grad_cam", "chance") in pairs
    assert not any("chance" in key and key[0] == "other_class" for key in pairs)


def test_a_missing_value_is_counted_out(measurement):
    report = summary(measurement)
    assert report["rows"][1]["n"]["other_class"] == 7
    assert report["rows"][1]["n"]["mass"] == 8
    assert report["photos"]["values"]["grad_cam"]["other_class"][:3] == [0.1, None, 0.3]
    text = "\n".join(table_lines(report))
    of_one = summary(replace(measurement, samples=[f"a: {n}" for n in range(PICTURES)]))
    assert of_one["distinct_photos"] == 1 and not of_one["rows"][0]["intervals"]
    pairs = metrics.intervals(np.repeat([[0.0], [1.0], [2.0]], 2, axis=0), [*"aabbcc"])
    alone = metrics.intervals(np.array([[0.0], [1.0], [2.0]]))
    np.testing.assert_allclose(pairs, alone, err_msg="copies of a photo are drawn together")
    assert re.search(r"^n +pictures with a value, if fewer than all: other: 7 to 8$", text, re.M)


def test_the_latex_table(measurement):
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
