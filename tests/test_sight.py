"""Where the network looks: a region of the picture, or a thing that a detector finds."""

import json
from pathlib import Path

import cv2
import keras
import numpy as np
import pytest
from keras import layers
from media import plain, write_picture, write_video

from realtime_lrp import config
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.sight import KEPT_S, Track, around

SHARED = next((one / "shared" for one in Path(__file__).parents if (one / "shared").is_dir()), None)
SIDE, ROWS, COLUMNS = 8, 48, 64
RED, GREEN, GREY = (255, 0, 0), (0, 255, 0), (60, 60, 60)


@pytest.fixture(scope="module")
def squares(tmp_path_factory):
    """A detector file: red and green squares of 8 x 8 pixels, each found where it is, exactly."""
    x = image = keras.Input((ROWS, COLUMNS, 3))
    kernel = np.zeros((SIDE, SIDE, 3, 2), np.float32)
    kernel[..., 0, 0] = kernel[..., 1, 1] = 1 / SIDE**2 / 255
    kernel[..., 1, 0] = kernel[..., 0, 1] = -1 / SIDE**2 / 255
    x = layers.Conv2D(2, SIDE, name="squares")(layers.ReLU()(x))
    scores = layers.Reshape((-1, 2))(layers.ReLU()(layers.Rescaling(2, -1)(x)))
    top = np.stack(np.meshgrid(*map(np.arange, x.shape[1:3]), indexing="ij"), -1)
    corners = np.concatenate([top, top + SIDE], -1).astype(float).tolist()
    flat = layers.Conv2D(4, 1, kernel_initializer="zeros")(x)
    boxes = layers.Reshape((-1, 4))(layers.Rescaling(1, corners)(flat))
    model = keras.Model(image, {"boxes": boxes, "scores": scores})
    model.get_layer("squares").set_weights([kernel, np.zeros(2)])
    path = tmp_path_factory.mktemp("squares") / "squares.keras"
    model.save(path)
    return path


def with_square(x, y):
    """A red square at x, y, and a green one in a corner."""
    picture = plain(GREY, (ROWS, COLUMNS))
    picture[:SIDE, -SIDE:] = GREEN
    picture[y : y + SIDE, x : x + SIDE] = RED
    return picture


def engine_of(words, *sets):
    options = dict(zip(words[::2], map(str, words[1::2]), strict=True))
    return Engine(config.load(sets=sets, options=options).config)


@pytest.mark.parametrize("fit", ["crop", "squash", "letterbox"])
def test_a_region_is_explained_as_the_picture_of_it_alone(words, rng, fit):
    """The map is the cropped picture's, and lies where that was cut out."""
    picture = rng.integers(0, 256, (100, 200, 3), np.uint8)
    inside = engine_of(words, f"input.fit={fit}", "input.region=0.25,0.1,0.75,0.8")
    cropped = engine_of(words, f"input.fit={fit}")
    (one,), (other,) = inside.explain([picture]), cropped.explain([picture[10:80, 50:150]])
    assert np.abs(other.relevance).max() > 0
    np.testing.assert_allclose(one.relevance, other.relevance, atol=1e-6)
    assert one.region.inner == other.region.inner
    np.testing.assert_array_equal(one.region.box, np.add(other.region.box, [50, 10, 50, 10]))


def test_nothing_is_drawn_outside_a_region(run, words, tmp_path, rng):
    picture = rng.integers(0, 256, (100, 200, 3), np.uint8)
    source, out = write_picture(tmp_path / "a.png", picture), tmp_path / "b.png"
    code, _, err = run("image", source, "-o", out, *words, "--region", "0.1,0.2,0.35,0.7")
    assert code == 0, err
    changed = (cv2.imread(str(out))[..., ::-1] != picture).any(-1)
    assert changed[20:70, 20:70].any()
    changed[20:70, 20:70] = False
    assert not changed.any()


def test_a_film_follows_a_square(run, words, tmp_path, squares):
    """It holds the red square, not the green one, in every frame; then the square is gone."""
    places = [(4 + 2 * n, 20 + n % 4 // 2 * 2) for n in range(22)]
    shown = [with_square(*at) for at in places] + [plain(GREY, (ROWS, COLUMNS))] * 12
    film = write_video(tmp_path / "a.mkv", shown, fps=10)
    follow = f"input.follow={{name: {squares}, preprocess: none, label: 0}}"
    more = ("--sidecar", "--set", follow, "--stride", 2, "--target", "top1")
    code, _, err = run("video", film, "-o", tmp_path / "b.mkv", *words, *more)
    assert code == 0, err
    rows = [json.loads(line) for line in (tmp_path / "b.jsonl").open()]
    for row, (x, y) in zip(rows[::2], places[::2], strict=False):
        x0, y0, x1, y1 = row["region"]
        assert row["followed"], row
        assert x0 <= x and y0 <= y and x + SIDE <= x1 and y + SIDE <= y1, row["frame"]
        assert x1 - x0 == y1 - y0 < 2 * SIDE
    last = rows[20]["region"]
    for row in rows[22::2]:
        kept = row["time"] - rows[20]["time"] <= KEPT_S
        assert row["followed"] == kept
        assert kept == (np.abs(np.subtract(row["region"], last)).max() <= 2)


def test_a_followed_thing_moves_smoothly_and_is_held():
    """A box that trembles does so less, one that jumps is held at once; others are larger."""
    track, regions = Track(), []
    boxes = [(100 + 4 * (n % 2), 100, 140, 140) for n in range(20)]
    boxes += [(300, 200, 360, 260), (301, 200, 361, 260)]
    for n, box in enumerate(boxes):
        regions.append(track([box], n / 30, "", lambda one: around(one, (480, 640), 1.0)))
        assert all(np.sign([1, 1, -1, -1]) * np.subtract(box, regions[-1]) >= 0)
    assert np.abs(np.diff([one[0] for one in regions[10:20]])).max() <= 1
    elsewhere = [(100, 100, 170, 170), (100, 100, 190, 190)]  # 1.4 and 2.3 times as large
    for box, held in zip(elsewhere, (boxes[-1], elsewhere[-1]), strict=True):
        x0, y0, x1, y1 = track([box, boxes[-1]], 1.0, "", lambda one: around(one, (480, 640), 1.0))
        assert x0 <= held[0] and y0 <= held[1] and held[2] <= x1 and held[3] <= y1
    beyond = around((600, 440, 640, 480), (480, 640), 1.0)
    assert beyond[2:] == (640, 480)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--region", "0.5,0,0.2,1"], "expected X0,Y0,X1,Y1"),
        (["--follow", "nothing.onnx"], "There is no model file 'nothing.onnx'"),
        (["--follow", "{tiny}"], "it finds no boxes"),
        (["--follow", "{squares}:hat"], "hat"),
        (["--follow", "{squares}", "--region", "0,0,1,.5"], "exclude each other"),
    ],
)
def test_what_cannot_be_looked_at_is_refused(run, words, tmp_path, squares, given, said):
    source = write_picture(tmp_path / "a.png", with_square(9, 9))
    given = [word.format(squares=squares, tiny=words[1]) for word in given]
    code, _, err = run("image", source, "-o", tmp_path / "b.png", *words, *given)
    assert code in (2, 66) and said in err, err
    assert not (tmp_path / "b.png").exists()


@pytest.mark.release
@pytest.mark.skipif(SHARED is None, reason="the real networks and recordings are not here")
def test_a_face_is_held_in_every_frame(run, tmp_path):
    """Faces are found by onnxruntime, read by hand; the network of emotions sees each of them."""
    import av
    import onnxruntime

    film, models = SHARED / "media" / "person.mkv", SHARED / "models"
    session = onnxruntime.InferenceSession(models / "face_slim_320.onnx")
    options = ["--model", models / "guests" / "fer_mini_xception.hdf5", "--preprocess", "tf"]
    options += ["--follow", models / "face_slim_320.onnx", "--target", "top1", "--sidecar"]
    code, _, err = run("video", film, "-o", tmp_path / "a.mkv", *options)
    assert code == 0, err
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").open()]
    faces = 0
    for row, frame in zip(rows, av.open(film).decode(video=0), strict=True):
        small = cv2.resize(frame.to_ndarray(format="rgb24"), (320, 240)).astype(np.float32)
        scores, boxes = session.run(None, {"input": ((small - 127) / 128).transpose(2, 0, 1)[None]})
        x0, y0, x1, y1 = boxes[0, scores[0, :, 1].argmax()] * [640, 480, 640, 480]
        if scores[0, :, 1].max() > 0.5:
            faces += 1
            left, top, right, bottom = row["region"]
            assert left <= x0 and top <= y0 and x1 <= right and y1 <= bottom, row["frame"]
    assert faces > 100
