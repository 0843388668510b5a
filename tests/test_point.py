"""Point and ask: what of a segmentation is explained, how it is drawn, what the pointer does."""

import json
import re
from dataclasses import replace

import cv2
import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers
from media import SHARED, needs_files, plain, write_picture, write_video
from segments import LABELS, coloured, picture
from test_outputs import segmentation
from test_viewer_state import mouse, pressed, started
from uncompiled import compiled

from realtime_lrp import Explainer, config
from realtime_lrp.config.values import place
from realtime_lrp.engine.boxes import painted
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.result import Aim, Segments
from realtime_lrp.engine.sight import KEPT_S, Track, around
from realtime_lrp.engine.wording import best_answer
from realtime_lrp.errors import UsageError
from realtime_lrp.realtime.viewer import events
from realtime_lrp.realtime.viewer.handle import handle
from realtime_lrp.relevance.maps.starts import BESIDE, connected

PICTURE = picture()
RED, BLUE, NOTHING = (0.2, 0.5), (0.7, 0.5), (0.98, 0.02)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("segments")
    coloured().save(folder / "coloured.keras")
    (folder / "labels.txt").write_text("\n".join(LABELS))
    cv2.imwrite(str(folder / "areas.png"), PICTURE[:, :, ::-1])
    return folder


def options(folder):
    return {
        "--model": str(folder / "coloured.keras"), "--labels": str(folder / "labels.txt"),
        "--preprocess": "tf",
    }  # fmt: skip


@pytest.fixture(scope="module")
def engine(files):
    return Engine(config.load(options=options(files), command="live").config)


def click(x, y):
    return (x, y, "left"), (x + 1, y, "left"), (x + 1, y, "")


@pytest.mark.parametrize(
    "method", [{"composite": "zplus"}, {"composite": "epsilon_plus_flat"}, {"method": "gradient"}]
)
def test_a_contrast_is_the_difference_of_two_maps_of_the_same_magnitude(method, rng):
    explainer = Explainer(segmentation(), target="top1", **method)
    x = rng.normal(size=(1, 16, 16, 3)).astype(np.float32)
    region = np.zeros((16, 16), bool)
    region[4:9, 3:12] = True
    maps = {one: explainer(x, one, region=region) for one in range(3)}
    best, second, third = np.argsort(-maps[0].scores[0]).tolist()

    def divided(*classes):
        relevance = sum(maps[one].relevance for one in classes)
        return relevance / np.abs(relevance).sum()

    named = {
        "top1": (best, second), third: (third, best), f"{second} - {third}": (second, third),
        "all": (best, second),
    }  # fmt: skip
    for target, (one, other) in named.items():
        made = explainer(x, target, region=region, contrast=True)
        np.testing.assert_allclose(made.relevance, divided(one) - divided(other), atol=1e-6)
        assert made.accounts == {}
    if "composite" in method:  # a gradient of several classes at once has no shares
        made = explainer(x, f"{best} - rest", region=region, contrast=True)
        expected = divided(best) - divided(second, third)
        np.testing.assert_allclose(made.relevance, expected, atol=1e-6)


@compiled()
def test_a_contrast_and_places_of_a_batch_do_not_retrace(rng):
    explainer = Explainer(segmentation(), target="top1", contrast=True)
    x = rng.normal(size=(2, 16, 16, 3)).astype(np.float32)
    made = [explainer(x, at=(n, n), contrast=n % 2 > 0).relevance for n in range(16)]
    assert explainer.traces == 1
    np.testing.assert_array_less(1e-6, [np.abs(one).sum() for one in made])


def test_regions_end_at_the_borders_of_a_letterbox():
    classes = np.array([[[0, 1, 1], [BESIDE, 1, 0], [BESIDE, BESIDE, BESIDE]]], np.int32)
    numbers = connected(tf.constant(classes)).numpy()
    assert len(np.unique(numbers[classes == BESIDE])) == 1 == len(np.unique(numbers[classes == 1]))
    explainer = Explainer(coloured(), labels=LABELS)
    beside = np.zeros((1, 64, 64), np.float32)
    beside[:, 10:] = -1
    x = np.full((1, 64, 64, 3), -1, np.float32)
    x[:, 5:60, 5:60, 0] = 1
    seen = explainer._default._replace(region=tf.constant(beside))
    region = explainer._run(tf.constant(x), seen).regions.region.numpy()
    assert region[0, 6:10].any() and not region[0, 10:].any()
    assert region.sum() == pytest.approx(1)


def test_an_engine_explains_the_region_at_a_place(engine):
    assert engine.fit == "letterbox"

    def explained(**aim):
        (result,) = engine.begin([PICTURE], aim=Aim(**aim))()
        return result.segments

    found = [explained(at=at) for at in (None, RED, BLUE, NOTHING)]
    assert [(LABELS[one.label], LABELS[one.other]) for one in found[1:]] == [
        ("red", LABELS[found[1].other]), ("blue", LABELS[found[2].other]),
        ("background", LABELS[found[3].other]),
    ]  # fmt: skip
    np.testing.assert_array_equal(found[0].region, found[1].region)
    exact = (PICTURE[..., 0].mean() / 255, PICTURE[..., 2].mean() / 255)
    assert found[1].area == pytest.approx(exact[0], abs=0.03)
    assert found[2].area == pytest.approx(exact[1], abs=0.03)
    assert sum(area for _, area in found[0].areas()) == pytest.approx(1)
    assert found[1].inside > 0.9 and found[2].inside > 0.9
    assert explained(at=RED, pixel=True).region.sum() == 1
    beside = explained(at=BLUE, contrast=False)
    assert not beside.contrast and beside.label == 2


def test_regions_are_outlined_with_their_names(engine):
    (result,) = engine.begin([PICTURE], aim=Aim(BLUE))()
    blue, red = painted(engine, PICTURE, result).outlines
    assert re.fullmatch(r"blue 1\d %", blue.above) and re.fullmatch(r"red \d\d %", red.above)
    assert blue.below.endswith(" % inside") and red.below == ""
    for outline, channel in ((blue, 2), (red, 0)):
        filled = np.zeros(PICTURE.shape[:2], np.uint8)
        cv2.fillPoly(filled, [np.rint(line).astype(np.int32) for line in outline.lines], 1)
        inside = PICTURE[..., channel] > 0
        assert (filled.astype(bool) & inside).sum() > 0.85 * (filled.astype(bool) | inside).sum()
    assert blue.colour != red.colour


def test_image_writes_what_is_explained_beside_the_pictures(run, files, tmp_path):
    words = [word for pair in options(files).items() for word in pair]
    source, out = files / "areas.png", tmp_path / "a.png"
    code, told, err = run("image", source, "-o", out, *words, "--at", "0.7,.5", "--sidecar")
    assert code == 0 and "why: “blue”, not “" in told, err
    record = json.loads((tmp_path / "a.jsonl").read_text().splitlines()[0])["segment"]
    assert record["class"] == "blue" and record["against"] in LABELS
    assert record["classes"][0]["label"] == "background" and record["inside"] > 0.9
    assert record["area"] == pytest.approx(PICTURE[..., 2].mean() / 255, abs=0.03)
    for given, said in (
        ([*words, "--at", "2,0"], "expected X,Y"),
        (["--model", "shapes", "--at", "0.5,0.5"], "one answer for the whole picture"),
        (["--model", "shapes_detector", "--at", "0.5,0.5"], "gives boxes"),
    ):
        code, _, err = run("image", source, "-o", tmp_path / "b.png", *given)
        assert code == 2 and said in err and not (tmp_path / "b.png").exists()


def test_a_place_that_the_network_does_not_see_is_refused(engine):
    cropped = engine.config.changed(input={"fit": "crop", "at": "0.01,0.5"})
    with pytest.raises(UsageError, match="does not see the place"):
        Engine(cropped).explain([PICTURE])


def pointing(label=1):
    """A viewer whose picture, 120 x 160 pixels, shows class 1 at the left, 2 at the right.

    It is drawn four times as large.
    """
    state = started()
    classes = np.ones((12, 16), np.int32)
    classes[:, 8:] = 2
    segments = Segments(classes, classes == label, 0.9, label, 0, True)
    answer = replace(state.answer, segments=segments)
    return replace(state, size=(480, 640), pictures=((0, 0, 640, 480),), answer=answer)


def test_what_the_pointer_is_over_is_explained_until_something_is_pinned():
    state = mouse(pointing(), (160, 80, ""))
    assert state.aim.at == pytest.approx((40.5 / 160, 20.5 / 120)) and not state.pinned
    assert mouse(state, (400, 80, "")).aim.at[0] > 0.6
    pinned = mouse(state, *click(160, 240))
    assert pinned.pinned and pinned.mask is None
    assert mouse(pinned, (600, 80, "")).aim == pinned.aim
    assert not mouse(pinned, *click(168, 240)).pinned
    other = mouse(pinned, *click(480, 240))  # another region is pinned instead
    assert other.pinned and other.aim.at[0] > 0.7
    assert pressed(pinned, "Escape").aim.at is None
    painted = mouse(pointing(), (160, 240, "left"), (280, 240, "left"), (280, 240, ""))
    assert painted.mask[60, 50] and not painted.pinned


def test_a_page_points_as_the_window_does():
    state = pointing()
    over = handle(state, events.Pointed((480, 240)))
    assert over.aim.at[0] > 0.7 and handle(over, events.Pointed(None)).aim.at is None
    tapped = handle(state, events.Clicked((480, 240), paints=False))
    assert tapped.pinned and handle(tapped, events.Pointed(None)).aim == tapped.aim
    german = replace(state, facts=replace(state.facts, labels=("sun", "moon", "heart")))
    german = replace(german, config=started("live.lecture=de").config)
    for asked, label in ((state, state.facts.labels[2]), (german, "Herz")):
        line = handle(asked, events.Chosen("line", label))
        assert line.pinned and line.aim.at[0] > 0.5


def test_a_key_takes_the_pixel_and_another_the_plain_map():
    state = pointing()
    assert pressed(state, "e").aim.pixel and not pressed(state, "e e").aim.pixel
    assert not pressed(state, "v").aim.contrast and pressed(state, "v v").aim.contrast
    kept = mouse(pressed(state, "e v"), *click(160, 240)).present_config()
    assert kept.input.pixel and not kept.lrp.contrast
    assert place(kept.input.at) == pytest.approx((0.25, 0.5), abs=0.01)


def test_a_segmentation_without_background_names_its_last_class_too(tmp_path):
    coloured().save(tmp_path / "plain.keras")
    (tmp_path / "names.txt").write_text("black\nred\nblue")
    words = {"--model": str(tmp_path / "plain.keras"), "--labels": str(tmp_path / "names.txt")}
    engine = Engine(config.load(options=words | {"--preprocess": "tf"}, command="live").config)
    (result,) = engine.explain([PICTURE])
    assert engine.explainer.background == -1
    assert {int(one) for one in np.unique(result.segments.classes)} == {0, 1, 2}
    for index in range(3):
        assert engine.label(index) in best_answer(engine, result)


@pytest.mark.release
@needs_files
@pytest.mark.parametrize(
    ("name", "thing"), [("cat.jpg", "cat"), ("pets.jpg", "dog"), ("parrot.jpg", "bird")]
)
def test_a_trained_segmentation_names_what_is_in_photos(run, name, thing, tmp_path):
    model = SHARED / "models" / "deeplab_v3_mobilenet_v2_voc.keras"
    words = ("--model", model, "--labels", SHARED / "models" / "voc_labels.txt")
    inside = []
    for contrast in ("--contrast", "--no-contrast"):
        code, _, err = run(
            "image", SHARED / "media" / name, "-o", tmp_path / "a.png", *words, "--preprocess",
            "tf", "--sidecar", "--overwrite", contrast,
        )  # fmt: skip
        assert code == 0, err
        record = json.loads((tmp_path / "a.jsonl").read_text().splitlines()[0])["segment"]
        assert record["class"] == thing
        inside.append(record["inside"])
    assert inside[0] > 0.8 and inside[0] > inside[1]


SIDE, ROWS, COLUMNS = 8, 48, 64
SQUARE, GREEN, GREY = (255, 0, 0), (0, 255, 0), (60, 60, 60)


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
    picture = plain(GREY, (ROWS, COLUMNS))
    picture[:SIDE, -SIDE:] = GREEN
    picture[y : y + SIDE, x : x + SIDE] = SQUARE
    return picture


def engine_of(words, *sets):
    options = dict(zip(words[::2], map(str, words[1::2]), strict=True))
    return Engine(config.load(sets=sets, options=options).config)


@pytest.mark.parametrize("fit", ["crop", "squash", "letterbox"])
def test_a_region_is_explained_as_the_picture_of_it_alone(words, rng, fit):
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
    assert around((600, 440, 640, 480), (480, 640), 1.0)[2:] == (640, 480)


def test_what_cannot_be_looked_at_is_refused(run, words, tmp_path, squares):
    for given, said in (
        (["--region", "0.5,0,0.2,1"], "expected X0,Y0,X1,Y1"),
        (["--follow", "nothing.onnx"], "There is no model file 'nothing.onnx'"),
        (["--follow", "{tiny}"], "it finds no boxes"),
        (["--follow", "{squares}:hat"], "hat"),
        (["--follow", "{squares}", "--region", "0,0,1,.5"], "exclude each other"),
    ):
        source = write_picture(tmp_path / "a.png", with_square(9, 9))
        given = [word.format(squares=squares, tiny=words[1]) for word in given]
        code, _, err = run("image", source, "-o", tmp_path / "b.png", *words, *given)
        assert code in (2, 66) and said in err, err
        assert not (tmp_path / "b.png").exists()


@pytest.mark.release
@needs_files
def test_a_face_is_held_in_every_frame(run, tmp_path):
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
