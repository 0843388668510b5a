"""Every output says how it was made; `show` prints it, `--config OUTPUT` repeats the run."""

import contextlib
import hashlib
import json
import os
import shutil
import zipfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import cv2
import media
import msgspec
import numpy as np
import pytest
from viewer import LOOK

from realtime_lrp import Explainer, config
from realtime_lrp.config.provenance import ModelProvenance, Provenance, recorded_settings
from realtime_lrp.engine.device import computes_bfloat16, cpu
from realtime_lrp.errors import DamagedInputError
from realtime_lrp.models.networks import load_network
from realtime_lrp.results.companions import TOP_CONCEPTS, concept_records
from realtime_lrp.results.provenance import find_provenance, provenance_of_file
from realtime_lrp.video.pictures import write_picture
from realtime_lrp.video.reader import VideoReader
from realtime_lrp.video.region import region_of
from realtime_lrp.video.writer import VideoWriter
from realtime_lrp.view.motion import Follower
from realtime_lrp.view.painting import ColouredMap, Painted


@pytest.fixture
def example():
    """How some output was made; texts hold what XML, JSON and terminals treat in their own way."""
    return Provenance(
        version="1.2", tensorflow="2.20", keras="3.15", python="3.12",
        model=ModelProvenance(name="a&<b>\x1b[2J\n.keras", sha256={"model": "ab" * 32}),
        method="lrp", composite="epsilon", layers={"größe": "epsilon(0.01)"}, target='cat - "dog"',
        device="CPU", precision="float32", settings={"lrp.samples": 5},
    )  # fmt: skip


@pytest.fixture(scope="module")
def picture(tmp_path_factory):
    folder = tmp_path_factory.mktemp("picture")
    return media.write_picture(folder / "in.png", media.numbered(3, (48, 48))[1])


@pytest.fixture(scope="module")
def explained(picture, tiny_model, tmp_path_factory):
    """What `image` writes of a picture, once as .png with all that belongs to it, once as .npz."""
    from realtime_lrp.commands.image import ImageOptions, run

    folder = tmp_path_factory.mktemp("explained")
    sets = ('lrp.layers={Dense: "epsilon(0.01)"}', "lrp.target=top1", "lrp.samples=5")
    options = {"--model": str(tiny_model), "--composite": "epsilon", "--preprocess": "rescale"}
    loaded = config.load(None, sets, options, command="image").config
    for name, options in (("a.png", {"sidecar": True, "maps": folder / "maps"}), ("a.npz", {})):
        list(run(loaded, ImageOptions([str(picture)], str(folder / name), **options)))
    return folder


OUTPUTS = ("a.png", "a.npz", "a.jsonl", "maps/a")


def test_outputs_say_which_network_and_which_settings_made_them(explained, tiny_model):
    made = provenance_of_file(explained / "a.png")
    digest = hashlib.sha256(tiny_model.read_bytes()).hexdigest()
    assert made.model.name == str(tiny_model) and made.model.sha256 == {"model": digest}
    assert made.model.preprocess == "rescale" and made.target == "top1"
    assert [*made.layers.values()] == ["epsilon(1e-06)", "epsilon(0.01)"]
    assert (made.method, made.composite, made.precision) == ("lrp", "epsilon", "float32")
    assert made.settings == {
        "model.name": str(tiny_model), "model.preprocess": "rescale", "lrp.composite": "epsilon",
        "lrp.layers": {"Dense": "epsilon(0.01)"}, "lrp.samples": 5, "lrp.target": "top1",
        "input.mirror": False,
    }  # fmt: skip
    assert [provenance_of_file(explained / name) for name in OUTPUTS] == [made] * len(OUTPUTS)


@pytest.mark.parametrize("name", ["a.npz", "a.jsonl"])
def test_an_output_as_configuration_repeats_the_run(run, explained, picture, tmp_path, name):
    again = tmp_path / "a.png"
    assert run("image", "--config", explained / name, picture, "-o", again)[0] == 0
    assert again.read_bytes() == (explained / "a.png").read_bytes()


def test_another_model_is_refused_unless_chosen(run, explained, picture, tiny_model, tmp_path):
    model, output = tmp_path / "m.keras", tmp_path / "a.npz"
    shutil.copy(tiny_model, model)
    made = [picture, "--model", model, "--preprocess", "rescale", "-o", output]
    assert run("image", *made)[0] == 0
    with zipfile.ZipFile(model, "a") as archive:
        archive.writestr("more.txt", "more")
    repeat = ["image", "--config", output, picture, "-o", tmp_path / "b.npz"]
    code, _, err = run(*repeat)
    assert code == 78 and len(err.splitlines()) == 2
    assert err.startswith(f"realtime-lrp: The model of '{model}' changed since '{output}' was made")
    assert f"add --model {model}" in err and not (tmp_path / "b.npz").exists()
    code, out, err = run("config", "--config", output, "--model", model)
    assert (code, err) == (0, "") and "preprocess: rescale" in out


def test_films_and_pictures_keep_it(example, tmp_path, rng):
    text, picture = example.as_json(), rng.integers(0, 256, (20, 30, 3), np.uint8)
    for ending in (".mp4", ".mkv", ".mov"):
        films = [tmp_path / f"{name}{ending}" for name in ("one", "two")]
        for film in films:
            with VideoWriter(film, ending, Fraction(10), Fraction(1, 1000), description=text) as it:
                it.write(media.plain(), 0)
        assert films[0].read_bytes() == films[1].read_bytes()
        assert find_provenance(film) == example
    for ending in (".png", ".jpg", ".webp"):
        kept, plain = (tmp_path / f"{name}{ending}" for name in ("with", "without"))
        write_picture(kept, picture, description=text)
        write_picture(plain, picture)
        np.testing.assert_array_equal(*(cv2.imread(str(path)) for path in (kept, plain)))
        assert (find_provenance(kept), find_provenance(plain)) == (example, None)


def test_a_video_says_it_in_film_sidecar_and_figures(run, tiny_model, tmp_path):
    source = media.write_video(tmp_path / "in.mp4", media.numbered(3))
    words = [source, "-o", tmp_path / "o.mp4", "--stats", tmp_path / "s.json", "--sidecar"]
    words += ["--model", tiny_model, "--preprocess", "none", "--layout", "map"]
    assert run("video", *words)[0] == 0
    made = [find_provenance(tmp_path / name) for name in ("o.mp4", "o.jsonl", "s.json")]
    assert made[1].settings.pop("concepts.layer") == "conv2d", "that of the sidecar's channels"
    assert made[0].settings["video.layout"] == "map" and made == [made[0]] * 3
    rows = (tmp_path / "o.jsonl").read_text().splitlines()
    assert len(rows) == 3 and ["provenance" in json.loads(row) for row in rows] == [1, 0, 0]


def test_a_film_repeats_with_numbers_beside_it_or_without(run, tiny_model, tmp_path, monkeypatch):
    fast = "bfloat16" if computes_bfloat16() else "float32"
    processor = replace(cpu(), fast_precision=fast)
    monkeypatch.setattr("realtime_lrp.engine.engine.device", lambda: processor)
    monkeypatch.setattr("realtime_lrp.engine.loading.MAX_KEPT_WEIGHTS", 0)  # else it is timed
    monkeypatch.setattr("realtime_lrp.engine.measured.user_cache_path", lambda name: tmp_path)
    source = media.write_video(tmp_path / "in.mp4", media.numbered(3))
    model = ["--model", tiny_model, "--preprocess", "none"]
    exact, again, quick = (tmp_path / f"{name}.mp4" for name in ("exact", "again", "quick"))
    assert run("video", source, "-o", exact, "--sidecar", *model)[0] == 0
    assert find_provenance(exact).settings["lrp.precision"] == "float32"
    assert run("video", source, "-o", again, "--config", exact)[::2] == (0, "")
    assert again.read_bytes() == exact.read_bytes()
    assert run("video", source, "-o", quick, *model)[0] == 0
    assert "lrp.precision" not in find_provenance(quick).settings
    words = [source, "-o", tmp_path / "b.mp4", "--sidecar", "--config", quick]
    code, _, err = run("video", *words)
    assert code == 0 and find_provenance(quick).precision == fast
    assert (f"computed in {fast}; --sidecar" in err) == (fast != "float32")


INVISIBLE = "\u202e\u2066\u200d\u2028\u2029\ufeff"  # direction marks, joiners and separators


def test_show_prints_nothing_but_text(run, example, tmp_path):
    model = msgspec.structs.replace(example.model, name=example.model.name + "".join(INVISIBLE))
    text = msgspec.structs.replace(example, model=model).as_json()
    write_picture(tmp_path / "p.png", media.plain(), description=text)
    code, out, _ = run("show", tmp_path / "p.png")
    assert code == 0 and "a&<b>" in out
    assert not {"\x1b", *INVISIBLE} & set(out)


def test_show_says_in_a_line_what_it_cannot_show(run, example, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").write_text("text")
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00")
    media.write_picture(tmp_path / "plain.png", media.plain())
    made, silent = json.loads(example.as_json()), "does not say how it was made"
    (tmp_path / "later.json").write_text(json.dumps({"provenance": made | {"format": 2}}))
    (tmp_path / "damaged.json").write_text(json.dumps({"provenance": made | {"layers": 3}}))
    for name, code, told in (
        ("", 2, "it is empty"), ("missing.png", 66, "There is no file"),
        ("long" * 2000, 66, "There is no file"), ("plain.png", 65, silent),
        ("broken.png", 65, silent), ("notes.txt", 65, silent), ("folder", 65, silent),
        ("later.json", 65, "a later version of realtime-lrp wrote it (format 2, expected 1)"),
        ("damaged.json", 65, "its provenance is damaged"),
    ):  # fmt: skip
        given, _, err = run("show", tmp_path / name if name else "")
        assert given == code and told in err and len(err.splitlines()) == 1, name


@pytest.mark.parametrize("header", [
    "{'descr': '<U1', 'fortran_order': False, 'shape': (10000000000,)}",
    "{'descr': '<U2147483640', 'fortran_order': False, 'shape': ()}",
    "{'descr': '|O', 'fortran_order': False, 'shape': ()}",
    "{'descr': [('a', '|O')], 'fortran_order': False, 'shape': ()}",
    "__import__('os').system('true')",
])  # fmt: skip
def test_arrays_that_claim_more_than_they_hold_are_not_read(tmp_path, header):
    text = f"{header:<117}\n".encode()
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        data = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64)
        archive.writestr("provenance.npy", data)
    assert find_provenance(tmp_path / "a.npz") is None


@pytest.mark.parametrize("name", ["a.npz", "a.jsonl", "a.png"])
def test_damaged_outputs_are_survived(explained, tmp_path, rng, name):
    whole = (explained / name).read_bytes()
    made = provenance_of_file(explained / name)
    for _ in range(60):
        data = bytearray(whole[: rng.integers(1, 2 * len(whole))])
        for place in rng.integers(0, len(data), rng.integers(0, 20)):
            data[place] = rng.integers(256)
        (tmp_path / name).write_bytes(data)
        with contextlib.suppress(DamagedInputError):
            found = find_provenance(tmp_path / name)
            assert found is None or type(found) is type(made)


def test_where_something_was_is_not_recorded():
    sets = ("live.source=rtsp://me:secret@camera/1", "live.folder=.", "live.text=figures")
    settings = recorded_settings(config.load(None, sets, {}).config, "live", "video")
    assert "secret" not in json.dumps(settings)
    assert [key for key in settings if key.startswith(("kiosk.", "live."))] == ["live.text"]


def test_settings_are_read_back_as_they_were(example):
    sets = (
        "model.size=96x128", 'lrp.layers={a_*: flat, Dense: "alpha_beta(1, 0)"}',
        "overlay.opacity=0.5", "lrp.absorb_bias=false",
    )  # fmt: skip
    loaded = config.load(None, sets, {"--target": "3"}).config
    settings = json.loads(json.dumps(recorded_settings(loaded)))
    again = config.load(config.settings_tree(settings, "a.png"))
    assert again.config == loaded and again.origins["model.size"] == "a.png"


def test_maps_in_between_are_carried_along(run, words, tmp_path):
    source = media.recording(tmp_path / "in.mp4", count=20)
    target, stats = tmp_path / "out.mp4", tmp_path / "s.json"
    options = ("--stride", 3, "--batch", 2, "--sidecar", "--stats", stats)
    assert run("video", source, "-o", target, *words, *options)[0] == 0
    assert media.frame_times(target) == media.frame_times(source)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["frame"] for row in rows] == list(range(20))
    assert [row["frame"] for row in rows if row["explained"]] == list(range(0, 20, 3))
    assert rows[4]["top5"] == rows[3]["top5"]
    figures = json.loads(stats.read_text())
    assert (figures["maps"], figures["frames_shown"], figures["traces"]) == (7, 20, 1)
    assert figures["display_fps"] is figures["frame_age_ms"] is figures["reconnects"] is None


def test_a_carried_map_lies_on_what_moved():
    """A textured square moves by 24 pixels; held where it was the map is off by as much."""
    rng = np.random.default_rng(4)
    texture = cv2.GaussianBlur(rng.integers(0, 256, (60, 60, 3), np.uint8), (0, 0), 2)
    still = cv2.GaussianBlur(rng.integers(60, 120, (240, 320, 3), np.uint8), (0, 0), 6)

    def picture(x, y):
        result = still.copy()
        result[y : y + 60, x : x + 60] = texture
        return result

    def centre(overlay):
        y, x = np.mgrid[0:200, 0:240]
        shares = overlay.alpha / overlay.alpha.sum()
        return np.array([(shares * x).sum() + 40, (shares * y).sum() + 20])

    alpha, colour = np.zeros((200, 240), np.float32), np.zeros((200, 240, 3), np.uint8)
    alpha[60:120, 60:120] = 1  # over the square at x = 100, y = 80
    colour[60:120, 60:120] = (255, 90, 0)
    overlay = ColouredMap(colour, alpha, (40, 20, 280, 220), LOOK)
    follower = Follower(Painted(picture(100, 80), (overlay,)))
    before = centre(*follower(picture(100, 80)).overlays)
    np.testing.assert_allclose(before, [129.5, 109.5], atol=1)
    for dx, dy in ((24, 0), (-12, 15), (3, -2)):
        (overlay,) = follower(picture(100 + dx, 80 + dy)).overlays
        np.testing.assert_allclose(centre(overlay) - before, [dx, dy], atol=2)
        x, y = np.round(centre(overlay)).astype(int) - (40, 20)
        assert tuple(overlay.colour[y, x]) == (255, 90, 0)
    for shift in range(14, 100, 14):  # too far for one step
        (overlay,) = follower(picture(100 + shift, 80)).overlays
    np.testing.assert_allclose(centre(overlay) - before, [98, 0], atol=2)


def test_a_sidecar_and_raw_maps_hold_what_the_explainer_gives(run, words, tiny_model, tmp_path):
    source = media.recording(tmp_path / "in.mp4", count=5, size=(48, 80))
    options = ("--sidecar", "--summary", "--maps", tmp_path / "maps", "--target", "top1")
    options += ("--precision", "float32")
    code, _, err = run("video", source, "-o", tmp_path / "out.mp4", *words, *options)
    assert (code, err) == (0, "")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    data = np.load(tmp_path / "maps" / "out" / "maps_000000.npz")
    network = load_network(str(tiny_model), preprocess="none")
    explainer = Explainer(network.model, target="top1")
    region = region_of((48, 80), (32, 32), "crop")
    with VideoReader(source) as reader:
        views = np.stack([region.extract(frame.picture) for frame in reader])
    explanation = explainer(network.prepare(views))
    maps = explanation.relevance.sum(-1)
    assert data["relevance"].dtype == np.float16
    raw = data["relevance"].astype(np.float32) * data["scale"][:, None, None]
    np.testing.assert_allclose(raw, maps, atol=np.abs(maps).max() * 1e-3)
    assert data["names"].tolist() == list(range(5))
    np.testing.assert_allclose(data["times"], np.arange(5) / 30, atol=1e-6)
    np.testing.assert_array_equal(data["box"], [[16, 0, 64, 48]] * 5)
    labels = ["red", "green", "blue", "other"]
    for number, row in enumerate(rows):
        order = np.argsort(-explanation.scores[number])
        assert [one["label"] for one in row["top5"]] == [labels[n] for n in order]
        shares = [one["probability"] for one in row["top5"]]
        np.testing.assert_allclose(shares, explanation.scores[number][order], atol=1e-5)
        weight = np.abs(maps[number])
        y, x = np.mgrid[0:32, 0:32] * 1.5 + 0.75
        centre = [(weight * (x + 16)).sum() / weight.sum(), (weight * y).sum() / weight.sum()]
        square = (weight * ((x + 16 - centre[0]) ** 2 + (y - centre[1]) ** 2)).sum()
        np.testing.assert_allclose(row["centre"], centre, atol=0.1)
        assert row["spread"] == pytest.approx(np.sqrt(square / weight.sum()), abs=0.1)
        assert row["relevance_sum"] == pytest.approx(maps[number].sum(), rel=1e-3)
        accounted = row["relevance_sum"] + row["taken_by_biases"] + row["lost"]
        assert accounted == pytest.approx(row["started"], rel=1e-5)
        assert row["started"] == pytest.approx(explanation.scores[number].max(), abs=1e-5)
        assert row["lost_in"] is None
        assert (row["time"], row["target"]) == (pytest.approx(number / 30, abs=1e-5), "top1")
    summary = cv2.imread(str(tmp_path / "out.summary.png"))
    assert summary.shape[1] > 1000 and summary.std() > 20


def test_a_sidecar_names_the_layer_that_loses_relevance(run, tmp_path):
    source = media.recording(tmp_path / "in.mp4", count=3, size=(64, 64))
    options = ("--model", "shapes", "--composite", "epsilon_alpha2_beta1_flat")
    options += ("--sidecar", "--precision", "float32")
    code, _, err = run("video", source, "-o", tmp_path / "out.mp4", *options)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert code == 0 and all(abs(row["lost"]) > 0.01 * abs(row["started"]) for row in rows)
    assert {row["lost_in"] for row in rows} == {rows[0]["lost_in"]} != {None}
    assert "of the relevance that started" in err and "3 of 3 maps" in err
    assert f"; the layer {rows[0]['lost_in']!r}" in err


def test_photos_get_the_same(run, words, tmp_path, rng):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir(), out.mkdir()
    for name in ("a.png", "b.png"):
        media.write_picture(folder / name, rng.integers(0, 256, (40, 60, 3), np.uint8))
    (folder / "c.png").write_text("no picture")
    options = ("--sidecar", "--maps", tmp_path / "maps")
    code, _, err = run("image", folder, "-o", out, *words, *options)
    assert code == 65 and "c.png" in err
    rows = [json.loads(line) for line in (out / "pictures.jsonl").read_text().splitlines()]
    assert [Path(row["file"]).name for row in rows] == ["a.png", "b.png"]
    data = np.load(tmp_path / "maps" / "pictures" / "maps_000000.npz")
    sums = (data["relevance"].astype(float) * data["scale"][:, None, None]).sum((1, 2))
    np.testing.assert_allclose(sums, [row["relevance_sum"] for row in rows], rtol=2e-3)
    assert set(os.listdir(out)) == {"a.png", "b.png", "pictures.jsonl", ".pictures.resume.jsonl"}
    assert run("image", folder / "a.png", "-o", tmp_path / "x.png", *words, "--sidecar")[0] == 0
    assert len((tmp_path / "x.jsonl").read_text().splitlines()) == 1
    assert run("image", folder / "b.png", "-o", tmp_path / "x.png", *words, "--sidecar")[0] == 73


def sidecar_of(film):
    return [json.loads(line) for line in film.with_suffix(".jsonl").read_text().splitlines()]


def test_a_sidecar_has_the_channels_that_the_explainer_gives(run, words, tiny_model, tmp_path):
    source = media.recording(tmp_path / "in.mp4", count=5, size=(48, 80))
    options = ("--sidecar", "--target", "top1")
    for batch in (1, 4):
        film = tmp_path / f"{batch}.mp4"
        code, _, err = run("video", source, "-o", film, *words, *options, "--batch", batch)
        assert (code, err) == (0, "")
    rows = sidecar_of(film)
    concepts = [
        [row["concepts"] for row in sidecar_of(tmp_path / name)] for name in ("1.mp4", "4.mp4")
    ]
    assert concepts[0] == concepts[1]
    network = load_network(str(tiny_model), preprocess="none")
    explainer = Explainer(network.model, target="top1")
    with VideoReader(source) as reader:
        region = region_of((48, 80), (32, 32), "crop")
        views = np.stack([region.extract(frame.picture) for frame in reader])
    found = explainer.concepts(network.prepare(views), explainer.concept_layers[-1], TOP_CONCEPTS)
    shares = found.shares / np.abs(found.by_channel).sum(1, keepdims=True)
    for number, row in enumerate(rows):
        assert [one["channel"] for one in row["concepts"]] == found.channels[number].tolist()
        written = [one["share"] for one in row["concepts"]]
        np.testing.assert_allclose(written, shares[number], atol=2e-6)
    best = concept_records(np.float32([0.2, -0.5, 0.1]), {1: "wheel"})[0]
    assert best == {"channel": 1, "share": -0.625, "name": "wheel"}, "also against the class"
