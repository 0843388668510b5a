"""The commands as a user runs them, in this process; every exit code of the contract."""

import json
import os
import re

import keras
import media
import numpy as np
import pytest

from realtime_lrp.models.networks import load_network
from realtime_lrp.relevance.explainer import Explainer
from realtime_lrp.video.reader import VideoReader

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.fixture
def with_tiny(tiny_model, tmp_path):
    """The words that choose the tiny network with its labels."""
    labels = tmp_path / "names.txt"
    labels.write_text("red\ngreen\nblue\nblue\n")
    return "--model", tiny_model, "--labels", labels, "--preprocess", "caffe"


@pytest.fixture
def seen(monkeypatch):
    tensors = []
    compile_pipeline = Explainer.compile_pipeline

    def spied(self, before, after, concept_layer):
        run = compile_pipeline(self, before, after, concept_layer)

        def spy(pictures, targets=None):
            tensors.append(before(pictures).numpy())
            return run(pictures, targets)

        return spy

    monkeypatch.setattr(Explainer, "compile_pipeline", spied)
    return tensors


def test_red_stays_red_on_its_way_from_a_file_to_the_network(run, with_tiny, seen, tmp_path):
    """Exactly from FFV1 and PNG, within 4 levels from H.264; BGR minus mean, as VGG wants it."""
    red = [media.plain(size=(60, 80))] * 2
    lossless = media.write_video(tmp_path / "l.mkv", red, codec="ffv1", pixels="bgr0")
    lossy = media.write_video(tmp_path / "h.mp4", red)
    media.write_picture(tmp_path / "p.png", red[0])
    for words, tolerance in (
        (("video", lossless, "-o", tmp_path / "1.mp4"), 1e-4),
        (("video", lossy, "-o", tmp_path / "2.mp4"), 4),
        (("image", tmp_path / "p.png", "-o", tmp_path / "3.png"), 1e-4),
    ):
        seen.clear()
        assert run(*words, *with_tiny)[0] == 0
        (x,) = seen
        assert x.shape[1:] == (32, 32, 3)
        assert np.abs(x - [0 - 103.939, 0 - 116.779, 255 - 123.68]).max() <= tolerance


def test_a_raw_map_has_the_contracts_names(run, with_tiny, tiny_model, tmp_path, rng):
    picture = rng.integers(0, 256, (32, 48, 3), np.uint8)
    media.write_picture(tmp_path / "in.png", picture)
    out = tmp_path / "out.npz"
    assert run("image", tmp_path / "in.png", "-o", out, *with_tiny, "--target", "green")[0] == 0
    data = np.load(out)
    assert set(data) == {"relevance", "scores", "labels", "target", "box", "provenance"}
    assert (data["relevance"].shape, data["relevance"].dtype) == ((32, 32, 3), np.float32)
    np.testing.assert_array_equal(data["box"], [8, 0, 40, 32])
    assert str(data["target"]) == "green"
    network = load_network(str(tiny_model), preprocess="caffe")
    expected = Explainer(network.model, target=1)(network.prepare(picture[None, :, 8:40]))
    np.testing.assert_allclose(data["relevance"], expected.relevance[0], atol=1e-6)
    np.testing.assert_allclose(data["scores"], expected.scores[0], atol=1e-6)
    names = ["red", "green", "blue", "blue"]
    assert list(data["labels"]) == [names[i] for i in np.argsort(-expected.scores[0])]


@pytest.mark.parametrize("asked", ["Tiger_cat", "tiger cat", "n02123159 tiger_cat"])
def test_class_names_are_tidy_for_people_raw_for_scripts(asked, run, tiny_model, tmp_path, caplog):
    given = ["red_fox", "n02123159 tiger_cat", "African_grey", "other"]
    (tmp_path / "names.txt").write_text("\n".join(given))
    media.write_picture(tmp_path / "in.png", media.plain(size=(32, 32)))
    network = "--model", tiny_model, "--labels", tmp_path / "names.txt", "--preprocess", "none"
    out = tmp_path / "out.npz"
    code, *said = run("image", tmp_path / "in.png", "-o", out, "--target", asked, *network)
    assert code == 0
    assert set(np.load(out)["labels"]) == set(given)
    told = "".join([*said, caplog.text])
    assert sum(name in told for name in ("red fox ", "tiger cat ", "African grey ", "other ")) == 3
    assert "_cat" not in told and "n02123159" not in told


def test_a_mirrored_recording_is_explained_mirrored(run, with_tiny, seen, tmp_path):
    picture = media.plain((250, 250, 250), (240, 240))
    picture[:, :90] = 40
    picture[:60] = 120
    source = media.write_video(tmp_path / "in.mkv", [picture] * 2, codec="ffv1", pixels="bgr0")
    words = ("video", source, "--opacity", 0, *with_tiny, "--preprocess", "none", "--quality", 0)
    assert run(*words, "--mirror", "-o", tmp_path / "out.mp4")[0] == 0
    with VideoReader(tmp_path / "out.mp4") as film:
        written = next(iter(film)).picture
    for rows in (slice(10, 50), slice(100, 140)):  # the label stands at the lower edge
        assert np.abs(written[rows] - picture[rows, ::-1].astype(int)).mean() < 5
    assert seen[0][0, 20, :16].min() > 200 and seen[0][0, 20, 24:].max() < 50


@pytest.fixture
def bad_words(tmp_path, monkeypatch):
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "text.mp4").write_text("this is text\n" * 100)
    (tmp_path / "text.png").write_text("this is text")
    (tmp_path / "layers.yaml").write_text("lrp:\n  method: lrp\n  layers: {nowhere: flat}\n")
    media.write_video(tmp_path / "ok.mp4", media.numbered(3))
    media.write_picture(tmp_path / "ok.png", media.plain())
    (tmp_path / "taken.mp4").touch()
    (tmp_path / "three.txt").write_text("a\nb\nc\n")
    (tmp_path / "four.txt").write_text("a\nb\nc\nd\n")
    (tmp_path / "lambda.keras").touch()
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)


M = "--model TINY"
BAD = {
    "no command": ("vidoe", 2, "Did you mean 'video'?"),
    "unknown option": ("video ok.mp4 -o x.mp4 --speed 3", 2, "--speed"),
    "no number": ("live --duration abc", 2, "'abc' is not a valid number. See"),
    "one word too many": ("models extra", 2, "(extra). See '"),
    "no output": ("video ok.mp4", 2, "-o"),
    "missing file": ("video none.mp4 -o x.mp4", 66, "none.mp4"),
    "empty file": ("video empty.mp4 -o x.mp4", 65, "empty.mp4"),
    "text as video": ("video text.mp4 -o x.mp4", 65, "text.mp4"),
    "text as picture": (f"image text.png -o x.png {M}", 65, "text.png"),
    "damaged model": ("image ok.png -o x.png --model lambda.keras", 65, "lambda.keras"),
    "unknown composite": (f"image ok.png -o x.png {M} --composite z_plus", 2, "'zplus'"),
    "layer not there": (f"image ok.png -o x.png {M} --config layers.yaml", 78, "layers.yaml:3"),
    "unknown class": (f"image ok.png -o x.png {M} --target 4", 2, "0 to 3"),
    "class without labels": (f"image ok.png -o x.png {M} --target cat", 2, "--labels"),
    "labels of another model": (f"image ok.png -o x.png {M} --labels three.txt", 65, "3 labels"),
    "size that does not fit": (f"image ok.png -o x.png {M} --size 64", 2, "32 x 32"),
    "unknown class in set": (
        f"image ok.png -o x.png {M} --labels four.txt --set lrp.target=z", 78, "lrp.target",
    ),
    "name too long": (f"image ok.png -o {'x' * 300}.png {M}", 73, "xxx"),
    "input name too long": (f"image {'x' * 300}.png -o x.png {M}", 66, "xxx"),
    "stats into a pipe": (f"video ok.mp4 -o x.mp4 {M} --stats pipe", 73, "pipe"),
    "no such folder": ("video ok.mp4 -o none/x.mp4", 73, "none"),
    "start nan": ("video ok.mp4 -o x.mp4 --start nan", 2, "--start"),
    "end inf": ("video ok.mp4 -o x.mp4 --end inf", 2, "--end"),
    "start 1e300": ("video ok.mp4 -o x.mp4 --start 1e300", 2, "--start"),
    "codec and ending": (f"video ok.mp4 -o x.mov {M} --codec av1", 2, "av1"),
    "empty span": ("video ok.mp4 -o x.mp4 --start 1 --end 1", 2, "--end"),
    "span behind the end": (f"video ok.mp4 -o x.mp4 --start 1e6 {M}", 65, "from 1e+06 s on"),
    "pipe as video": ("video pipe -o x.mp4 --audio none", 66, "is a device or a pipe"),
    "output exists": ("video ok.mp4 -o taken.mp4", 73, "--overwrite"),
    "figures of bench exist": (f"bench {M} --json taken.mp4", 73, "--overwrite"),
    "output is input": (f"video ok.mp4 -o ok.mp4 --overwrite {M}", 73, "is an input"),
    "unknown ending": ("video ok.mp4 -o x.gif", 2, ".mp4"),
    "demo's folder": ("demo -o none/x.mp4", 73, "none"),
    "demo's gallery": ("demo -o x.mp4 --gallery text.mp4", 65, "text.mp4"),
    "stats' folder": ("live --display none --stats none/s.json", 73, "none"),
    "no such config": (f"image ok.png -o x.png {M} --config none.yaml", 66, "none.yaml"),
    "no camera": (f"live --source 97 --display none {M}", 69, "--source"),
    "no stream": (f"live --source http://127.0.0.1:9/x --display none {M}", 69, "127.0.0.1"),
    "no live file": (f"live --source none.mp4 --display none {M}", 66, "none.mp4"),
    "live text": (f"live --source text.mp4 --display none {M}", 65, "text.mp4"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_its_exit_code_and_one_or_two_lines(case, run, bad_words, tiny_model):
    words, code, expected = BAD[case]
    before = set(os.listdir())
    got, _, err = run(*words.replace("TINY", str(tiny_model)).split())
    told = [line for line in err.splitlines() if "no --preprocess given" not in line]
    assert got == code, err
    assert expected in err
    assert "Traceback" not in err
    assert 1 <= len(told) <= 2, err
    assert set(os.listdir()) == before


@pytest.mark.parametrize("style", ["grey", "rgb"])
def test_a_grey_model_gets_the_luminance(style, run, seen, tmp_path):
    """One channel in: 0.299 R + 0.587 G + 0.114 B."""
    x = keras.Input((8, 8, 1))
    h = keras.layers.Flatten()(keras.layers.Conv2D(2, 3, activation="relu")(x))
    keras.Model(x, keras.layers.Dense(2, activation="softmax")(h)).save(tmp_path / "grey.keras")
    media.write_picture(tmp_path / "in.png", media.plain((255, 100, 50), (8, 8)))
    words = ("image", tmp_path / "in.png", "--model", tmp_path / "grey.keras", "--map", style)
    code, _, err = run(*words, "-o", tmp_path / "out.png", "--preprocess", "none")
    assert code == 0, err
    np.testing.assert_allclose(seen[0], 0.299 * 255 + 0.587 * 100 + 0.114 * 50, rtol=1e-5)
    code, _, err = run(*words, "-o", tmp_path / "x.png", "--preprocess", "caffe")
    assert code == 2
    assert "luminance" in err


def test_integrated_gradients_tell_how_complete_they_are(run, with_tiny, tmp_path):
    picture = media.write_picture(tmp_path / "in.png", media.plain((200, 90, 9)))
    words = ("--method", "integrated_gradients", "--target", "top1", "--sidecar")
    code, out, _ = run("image", picture, "-o", tmp_path / "out.png", *with_tiny, *words)
    assert code == 0
    (share,) = re.findall(r"out\.png \(mean of 50 passes, (.*)% of the difference\)", out)
    (line,) = (tmp_path / "out.jsonl").read_text().splitlines()[-1:]
    record = json.loads(line)
    missing = record["lost"] / record["started"]
    assert abs(float(share) / 100 - (1 - missing)) < 1e-3 and abs(missing) < 0.05
