"""Every output says how it was made; `show` prints it, `--config OUTPUT` repeats the run."""

import contextlib
import hashlib
import json
import shutil
import zipfile
from dataclasses import replace
from fractions import Fraction

import cv2
import media
import msgspec
import numpy as np
import pytest

from realtime_lrp import config
from realtime_lrp.config.provenance import ModelProvenance, Provenance, recorded_settings
from realtime_lrp.engine.device import computes_bfloat16, cpu
from realtime_lrp.errors import DamagedInputError
from realtime_lrp.results.provenance import find_provenance, provenance_of_file
from realtime_lrp.video.pictures import write_picture
from realtime_lrp.video.writer import VideoWriter


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
    """A picture that is explained."""
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
    beside = {"sidecar": True, "maps": folder / "maps"}
    for name, options in (("a.png", beside), ("a.npz", {})):
        list(run(loaded, ImageOptions([str(picture)], str(folder / name), **options)))
    return folder


OUTPUTS = ("a.png", "a.npz", "a.jsonl", "maps/a")


def test_outputs_say_which_network_and_which_settings_made_them(explained, tiny_model):
    """File, hash, rules, target and settings are there; all files of a run say the same."""
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
    """The picture is made again, byte for byte, from what any file of the run says."""
    again = tmp_path / "a.png"
    assert run("image", "--config", explained / name, picture, "-o", again)[0] == 0
    assert again.read_bytes() == (explained / "a.png").read_bytes()


def test_another_model_file_is_refused_unless_it_was_chosen(
    run, explained, picture, tiny_model, tmp_path
):
    """The run would not be the same; the message names the option that accepts it."""
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
    """All containers hold any text; two films of a run are equal, and the pixels stay the same."""
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
    """The settings of recordings are among those that are kept."""
    source = media.write_video(tmp_path / "in.mp4", media.numbered(3))
    words = [source, "-o", tmp_path / "o.mp4", "--stats", tmp_path / "s.json", "--sidecar"]
    words += ["--model", tiny_model, "--preprocess", "none", "--layout", "map"]
    assert run("video", *words)[0] == 0
    made = [find_provenance(tmp_path / name) for name in ("o.mp4", "o.jsonl", "s.json")]
    assert made[1].settings.pop("concepts.layer") == "conv2d", "that of the sidecar's channels"
    assert made[0].settings["video.layout"] == "map" and made == [made[0]] * 3
    rows = (tmp_path / "o.jsonl").read_text().splitlines()
    assert len(rows) == 3 and ["provenance" in json.loads(row) for row in rows] == [1, 0, 0]


def test_a_film_repeats_whether_or_not_numbers_are_written_beside_it(
    run, tiny_model, tmp_path, monkeypatch
):
    """With them `auto` is float32, which the film records; where it was not, a warning says so."""
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


INVISIBLE = "\u202e\u2066\u200d\u2028\u2029\ufeff"
"""Direction marks, joiners and separators."""


def test_show_prints_nothing_but_text(run, example, tmp_path):
    """Control characters and direction marks of a hostile file do not reach the terminal."""
    model = msgspec.structs.replace(example.model, name=example.model.name + "".join(INVISIBLE))
    text = msgspec.structs.replace(example, model=model).as_json()
    write_picture(tmp_path / "p.png", media.plain(), description=text)
    code, out, _ = run("show", tmp_path / "p.png")
    assert code == 0 and "a&<b>" in out
    assert not {"\x1b", *INVISIBLE} & set(out)


def test_show_says_in_a_line_what_it_cannot_show(run, example, tmp_path):
    """Exit code 65 for what is no output, 66 for what is not there."""
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


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<U1', 'fortran_order': False, 'shape': (10000000000,)}",
        "{'descr': '<U2147483640', 'fortran_order': False, 'shape': ()}",
        "{'descr': '|O', 'fortran_order': False, 'shape': ()}",
        "{'descr': [('a', '|O')], 'fortran_order': False, 'shape': ()}",
        "__import__('os').system('true')",
    ],
)
def test_arrays_that_claim_more_than_they_hold_are_not_read(tmp_path, header):
    """Neither memory nor objects are made of what a header says."""
    text = f"{header:<117}\n".encode()
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        data = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64)
        archive.writestr("provenance.npy", data)
    assert find_provenance(tmp_path / "a.npz") is None


@pytest.mark.parametrize("name", ["a.npz", "a.jsonl", "a.png"])
def test_damaged_outputs_are_survived(explained, tmp_path, rng, name):
    """Bytes are changed and files cut; what is read is the record, nothing, or told as damaged."""
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
    """Addresses of cameras, folders and the exhibit's PIN stay out of every output."""
    sets = ("live.source=rtsp://me:secret@camera/1", "live.folder=.", "live.text=figures")
    loaded = config.load(None, sets, {}).config
    settings = recorded_settings(loaded, "live", "video")
    assert "secret" not in json.dumps(settings)
    assert [key for key in settings if key.startswith(("kiosk.", "live."))] == ["live.text"]


def test_settings_are_read_back_as_they_were(example):
    """Sizes, rules and patterns come back through JSON as the same configuration."""
    sets = (
        "model.size=96x128", 'lrp.layers={a_*: flat, Dense: "alpha_beta(1, 0)"}',
        "overlay.opacity=0.5", "lrp.absorb_bias=false",
    )  # fmt: skip
    loaded = config.load(None, sets, {"--target": "3"}).config
    settings = json.loads(json.dumps(recorded_settings(loaded)))
    again = config.load(config.settings_tree(settings, "a.png"))
    assert again.config == loaded and again.origins["model.size"] == "a.png"
