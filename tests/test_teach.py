"""`teach`: what it learns of folders, what its file holds, and what it says of what it learnt."""

import errno
import json
import shutil
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import keras
import msgspec
import numpy as np
import pytest
from media import write_picture, write_video
from test_viewer_window import Scripted
from uncompiled import compiled

from realtime_lrp import config
from realtime_lrp.commands import teach as taught_by
from realtime_lrp.config.provenance import Provenance
from realtime_lrp.errors import DamagedInputError, UsageError
from realtime_lrp.models.drawings import CLASSES, drawings
from realtime_lrp.models.names import NETWORKS, Named
from realtime_lrp.models.network import Network
from realtime_lrp.models.networks import load_network
from realtime_lrp.models.taught_file import VECTORS, About, write_taught
from realtime_lrp.realtime.latest import Slot
from realtime_lrp.realtime.viewer.events import KeyPressed, LessonKey
from realtime_lrp.realtime.viewer.view import View
from realtime_lrp.teaching.learnt import Focus, differs, looks
from realtime_lrp.teaching.lesson import CHANGES, Features, Lesson, Showing
from realtime_lrp.teaching.teacher import Teacher
from realtime_lrp.video.sources import open_source

TAUGHT = {"star": 3, "fish": 13}  # folder -> the symbol in it


@pytest.fixture(scope="module")
def drawn():
    """Symbols in dark ink on the same paper: name -> pictures."""
    found = drawings()
    inked = np.where(found.masks[..., None], np.uint8(30), np.uint8(235)).repeat(3, axis=-1)
    numbers = {**TAUGHT, "cup": CLASSES.index("cup")}
    return {name: inked[found.labels == number] for name, number in numbers.items()}


@pytest.fixture(scope="module")
def things(drawn, tmp_path_factory):
    """A folder of pictures, and one with a recording: 12 of each class, and 8 empty scenes."""
    folder = tmp_path_factory.mktemp("things")
    for name in (*TAUGHT, "nothing"):
        (folder / name).mkdir()
    for number, picture in enumerate(drawn["star"][:12]):
        write_picture(folder / "star" / f"{number:02}.png", picture)
    write_video(folder / "fish" / "fish.mp4", drawn["fish"][:12], fps=2)
    for number in range(8):
        write_picture(folder / "nothing" / f"{number}.png", np.full((128, 128, 3), 235, np.uint8))
    return folder


@pytest.fixture(scope="module")
def taught(things, tmp_path_factory):
    file = tmp_path_factory.mktemp("taught") / "mine.keras"
    chosen = config.load(options={"--model": "shapes"}, command="teach").config
    list(taught_by.from_folder(chosen, things, file))
    return file


@pytest.fixture
def two(things, tmp_path):
    """A folder of two classes, eight pictures and a recording: quick to learn."""
    for name in TAUGHT:
        shutil.copytree(things / name, tmp_path / "two" / name)
    for path in sorted((tmp_path / "two" / "star").iterdir())[8:]:
        path.unlink()
    return tmp_path / "two"


@pytest.fixture
def teach(run, things, tmp_path):

    def of_folder(*words, folder=things):
        target = tmp_path / "mine.keras"
        return *run("teach", folder, "-o", target, "--model", "shapes", *words), target

    return of_folder


def test_a_folder_is_learnt_and_every_command_takes_the_file(teach, run, drawn, tmp_path):
    code, printed, told, file = teach("--json", tmp_path / "figures.json")
    assert code == 0, told
    figures = json.loads((tmp_path / "figures.json").read_text())
    rows = {row["name"]: row for row in figures["classes"]}
    assert [(row["pictures"], row["aside"]) for row in rows.values()] == [(12, 3), (8, 2), (12, 3)]
    assert figures["accuracy"] == 1
    for name in TAUGHT:
        assert 0.02 < rows[name]["area"] < 0.5 < rows[name]["on_thing"]
        assert rows[name]["verdict"] == "thing"
    assert "few pictures" in told
    for name in TAUGHT:
        write_picture(tmp_path / f"{name}.png", drawn[name][15])
        code, printed, told = run(
            "image", tmp_path / f"{name}.png", "-o", tmp_path / "out.npz", "--model", file,
            "--overwrite",
        )  # fmt: skip
        assert (code, printed.split()[:2]) == (0, [f"{name}.png:", name])
        assert "preprocess" not in told
    code, printed, _ = run("show", file)
    assert code == 0
    assert "shapes, preprocessing none" in printed


def test_names_of_the_network_that_nobody_needs_are_not_asked_for(teach, two, monkeypatch):
    asked = []

    def load(weights, labels):
        asked.append(labels)
        return replace(NETWORKS["shapes"].load(None, None), labels=labels or None)

    monkeypatch.setitem(NETWORKS, "mobilenet", Named("", load))
    code, _, _, file = teach("--model", "mobilenet", folder=two)
    assert code == 0 and asked == [[]]
    assert load_network(str(file)).labels == sorted(TAUGHT)


@pytest.mark.release
def test_the_same_seed_writes_the_same_file(teach, two):
    (two / "star" / "05.png").write_bytes(b"no picture")
    files = []
    for seed in ("3", "3", "4"):
        code, printed, told, file = teach("--overwrite", "--seed", seed, folder=two)
        assert code == 0
        assert "05.png" in told
        assert "star: 7 pictures" in printed
        files.append(file.read_bytes())
    assert files[0] == files[1] != files[2]


def test_a_lesson_goes_on_with_a_network_that_was_taught(taught, drawn):
    assert taught_by.begin_lesson(taught, None).classes == ["fish", "star", "nothing"]
    lesson = taught_by.begin_lesson(taught, "star,cup")
    assert lesson.classes == ["fish", "star", "cup", "nothing"]
    assert lesson.counts() == [12, 12, 0, 8]
    assert not lesson.pictures_aside()
    features, cups = Features(load_network(str(taught))), drawn["cup"]
    shown = features.with_changes([*cups[:12]], np.random.default_rng(1))
    lesson.showings.append(Showing(2, shown))
    kernel, bias = lesson.train()
    assert lesson.right(kernel, bias) == [(3, 3), (3, 3), (3, 3), (2, 2)]
    for number, name in enumerate(lesson.classes[:3]):
        (vector,) = features.with_changes([drawn[name][15]], np.random.default_rng(2))
        assert np.argmax(vector[0] @ kernel + bias) == number
    with pytest.raises(UsageError, match="beside fish, nothing, star: expected up to 9"):
        taught_by.begin_lesson(taught, "a,b,c,d,e,f,g,h")


def test_features_that_are_not_those_of_the_file_are_refused(taught, tmp_path):
    spoilt = tmp_path / "spoilt.keras"
    for data in (b"", b"two " * 50, b"\xff" * 1200):
        with zipfile.ZipFile(taught) as source, zipfile.ZipFile(spoilt, "w") as target:
            for name in source.namelist():
                target.writestr(name, data if name == VECTORS else source.read(name))
        if data:
            with pytest.raises(DamagedInputError, match="damaged"):
                taught_by.begin_lesson(spoilt, None)
        else:
            lesson = taught_by.begin_lesson(spoilt, None)
            assert (lesson.classes, lesson.showings) == (["1", "2", "3", "nothing"], [])


def test_what_cannot_be_taught_is_refused(teach, two, tmp_path, monkeypatch):
    monkeypatch.setattr(taught_by, "Engine", None)
    monkeypatch.chdir(tmp_path)
    for words, code, expected in (
        (("-o", "mine.txt"), 2, "mine.keras"),
        (("-o", "nowhere/mine.keras"), 73, "no folder 'nowhere'"),
        (("--json", "mine.keras", "-o", "mine.keras"), 73, "Given twice"),
    ):
        found, _, told, _ = teach(*words, folder=two)
        assert (found, expected in told) == (code, True), told
    few = sorted((two / "star").iterdir())[4:]
    for spoilt, code, expected in (
        (few, 65, "'star' has 4"), ([two / "fish"], 65, "subfolders: 1"), ([two], 66, "no folder"),
    ):  # fmt: skip
        for path in spoilt:
            path.unlink() if path.is_file() else shutil.rmtree(path)
        found, _, told, _ = teach(folder=two)
        assert (found, expected in told) == (code, True), told
    assert not [*tmp_path.glob("mine*")]


def test_a_full_disk_leaves_nothing(teach, two, monkeypatch):
    def full(part, *_):
        part.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(taught_by, "write_taught", full)
    code, _, told, file = teach(folder=two)
    assert (code, [*file.parent.glob("mine*")]) == (74, []), told


def test_features_are_what_the_last_layer_reads(drawn):
    network = load_network("shapes")
    pictures = [*drawn["fish"][:2]]
    scores = network.model.predict_on_batch(network.prepare(np.stack(pictures)))
    kernel, bias = network.model.get_layer("predictions").get_weights()
    np.testing.assert_allclose(
        Features(network).taught(kernel, bias, CLASSES).model.predict_on_batch(
            network.prepare(np.stack(pictures))
        ),
        scores, atol=1e-6,
    )  # fmt: skip
    assert scores[0].argmax() == CLASSES.index("fish")


def convolutional(size):
    """A network that ends in a convolution and a mean, as SqueezeNet does."""
    layers = keras.layers
    return keras.Sequential([
        keras.Input((*size, 3)),
        layers.Conv2D(4, 3, activation="relu"),
        layers.Conv2D(7, 1, name="answer"),
        layers.GlobalAveragePooling2D(),
        layers.Softmax(),
    ])  # fmt: skip


def test_rows_and_columns_are_averaged(rng):
    """A 1 x 1 convolution and a mean are the mean and a dense layer."""
    model = convolutional((16, 16))
    x = rng.random((1, 16, 16, 3), np.float32)
    kernel, bias = model.get_layer("answer").get_weights()
    np.testing.assert_allclose(
        Features(Network("own", model)).taught(kernel[0, 0], bias, ()).model(x), model(x), rtol=1e-4
    )


MADE = {
    "program": "realtime_lrp", "version": "1", "tensorflow": "", "keras": "", "python": "",
    "model": {"name": "own"}, "method": "teach", "composite": None, "layers": None,
    "target": None, "device": None, "precision": "float32", "settings": {},
}  # fmt: skip


def test_the_same_network_writes_the_same_bytes(tmp_path):
    """Also where layers share objects, which Keras tells apart by their addresses."""
    about = About(("a", "b"), "tf", msgspec.convert(MADE, Provenance))
    for name in ("one", "two"):
        keras.utils.clear_session()
        model = convolutional((16, 16))
        for weights in model.weights:
            weights.assign(np.ones(weights.shape))
        own = Features(Network("own", model)).taught(np.ones((4, 2)), np.ones(2), "ab").model
        write_taught(tmp_path / name, own, about, [])
        keras.config.set_dtype_policy(keras.DTypePolicy("float32"))  # at another address
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert keras.models.load_model(shutil.copy(tmp_path / "two", tmp_path / "two.keras"))


def test_networks_without_a_vector_or_size_are_refused():
    layers = keras.layers
    inputs = keras.Input((16, 16, 3))
    heat = keras.Model(inputs, layers.Conv2D(2, 3)(inputs))
    normed = layers.BatchNormalization()(layers.Dense(2)(layers.Flatten()(inputs)))
    for model in heat, keras.Model(inputs, normed), convolutional((None, 16)):
        with pytest.raises(UsageError, match="one vector"):
            Features(Network("own", model))


def vectors_of(values):
    return [np.array([value] * (1 + CHANGES), np.float32) for value in values]


def test_the_last_quarter_of_each_showing_is_kept_aside():
    lesson = Lesson(("a", "b"))
    for number, (seen, later) in enumerate((((1, 0), (0, 1)), ((0, 1), (1, 0)))):
        lesson.showings.append(Showing(number, vectors_of([seen] * 6 + [later] * 2)))
    lesson.showings.append(Showing(0, vectors_of([(1, 0)] * 3)))  # too short for a quarter
    kernel, bias = lesson.train()
    assert lesson.counts() == [11, 8]
    assert lesson.right(kernel, bias) == [(0, 2), (0, 2)]
    assert [np.argmax(one @ kernel + bias) for one in np.eye(2)] == [0, 1]


def test_about_a_hundred_pictures_of_each_class_are_remembered():
    lesson = Lesson(("often", "rare"))
    lesson.showings = [
        Showing(0, vectors_of([(n, 0) for n in range(250)])),
        Showing(1, vectors_of([(n, 1) for n in range(30)])),
        Showing(0),
    ]
    (first, often), (second, rare) = lesson.remembered()
    assert (first, second, rare.shape) == (0, 1, (30, 1 + CHANGES, 2))
    assert often[:, 0, 0].tolist() == [*range(0, 250, 3)]


def test_classes_count_alike_however_many_pictures_they_have():
    lesson = Lesson(("often", "rare"))
    lesson.showings = [Showing(0, vectors_of([(1, 0)] * 80)), Showing(1, vectors_of([(0, 1)] * 8))]
    assert [text.split(":")[0] for text in lesson.advices()] == [
        "few pictures of rare", "often has 80 pictures, rare 8"
    ]  # fmt: skip
    kernel, bias = lesson.train()
    logits = np.array([0.5, 0.5]) @ kernel + bias
    assert abs(logits[0] - logits[1]) < 0.1


def test_what_is_kept_aside_is_learnt_at_the_end_alone():
    """The last picture of four is NaN, which shows whether it was seen."""
    pictures = np.ones((4, 3, 2), np.float32) * [[[1.0]], [[1]], [[1]], [[np.nan]]]
    lesson = Lesson(("cup", "pen"), [Showing(number, [*pictures]) for number in (0, 1)])
    for aside in (False, True):
        assert np.isnan(lesson.train(aside)[0]).any() == aside


def test_a_thing_that_was_never_shown_is_not_named_with_certainty(rng):
    things = np.abs(rng.normal(size=(8, 1280))) * (rng.random((8, 1280)) < 0.4)

    def vectors(number):
        return (things[number] + 0.2 * np.abs(rng.normal(size=(3, 1280)))).astype(np.float32)

    shown = [Showing(number, [vectors(number) for _ in range(5)]) for number in range(3)]
    kernel, bias = Lesson(("cup", "pen", "book"), shown).train()
    odds = np.exp([vectors(number)[0] @ kernel + bias for number in range(8)])
    scores = odds / odds.sum(1, keepdims=True)
    assert np.diag(scores).min() > 0.99
    assert scores[3:].max() < 0.8


def scene(*squares):
    """A dark picture, 40 x 40, with bright squares of 10 x 10 at these places (y, x)."""
    picture = np.full((40, 40, 3), 60, np.uint8)
    for y, x in squares:
        picture[y : y + 10, x : x + 10] = 200
    return picture


def test_what_differs_from_the_empty_scene_is_the_thing():
    face, left, right = (0, 0), (20, 5), (20, 25)
    inside = differs(scene(left), scene())
    assert inside[20:30, 5:15].all()
    assert not inside[:16].any()
    relevance = np.zeros((40, 40, 3), np.float32)
    relevance[25, 10] = 1, 2, -1
    relevance[5, 5] = 2
    relevance[35, 35] = -9
    found = looks(
        scene(),
        {"left": [scene(face, left)], "right": [scene(face, right)]},
        {"left": [relevance], "right": [relevance]},
    )
    assert found["left"].relevance == pytest.approx(2 / 8)
    assert found["right"].relevance == 0
    assert found["left"].area == pytest.approx(inside.mean())


def test_the_verdict_compares_relevance_with_area():
    for relevance, area, verdict in (
        (0.6, 0.1, "thing"), (0.6, 0.7, "unclear"), (0.3, 0.1, "both"), (0.1, 0.1, "background"),
        (0, 0, "unclear"), (1, 0.9, "unclear"),
    ):  # fmt: skip
        assert Focus(relevance, area).verdict == verdict


def test_the_verdict_is_unclear_where_pictures_differ_too_much_or_are_few():
    pictures = [scene((20, 5))] * 4
    for on_thing, count, verdict in (
        ([60, 60, 60, 60], 4, "thing"), ([90, 20, 95, 20], 4, "unclear"), ([60] * 4, 2, "unclear"),
        ([5, 5, 6, 5], 4, "background"),
    ):  # fmt: skip
        maps = [np.zeros((40, 40, 1), np.float32) for _ in pictures]
        for one, share in zip(maps, on_thing, strict=True):
            one[25, 10], one[5, 30] = share, 100 - share
        found = looks(scene(), {"cup": pictures[:count]}, {"cup": maps[:count]})["cup"]
        assert found.verdict == verdict
        assert found.relevance == pytest.approx(np.mean(on_thing[:count]) / 100)


def test_a_file_that_says_wrong_things_is_refused(tmp_path, rng):
    features = Features(Network("own", convolutional((16, 16))))
    kernel = rng.random((4, 2), np.float32)
    features.taught(kernel, np.zeros(2, np.float32), "ab").model.save(tmp_path / "plain.keras")
    about = {"labels": ["a", "b"], "preprocess": "tf", "provenance": MADE}

    def loaded(text):
        path = shutil.copy(tmp_path / "plain.keras", tmp_path / "mine.keras")
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("realtime_lrp.json", text)
        return load_network(str(path))

    network = loaded(json.dumps(about))
    assert (network.labels, network.preprocess) == (["a", "b"], "tf")
    for text in (
        "no JSON", json.dumps(about | {"preprocess": "twice"}),
        json.dumps(about | {"labels": ["a", ""]}), json.dumps(about) + " " * (1 << 20),
    ):  # fmt: skip
        with pytest.raises(DamagedInputError):
            loaded(text)


def teacher_of(*classes):
    return Teacher(Lesson([*classes, "nothing"]), Slot(), None, None)


def taken(teacher, now, count):
    """Pictures are taken, if a class is shown at this time; gives its name, or ""."""
    showing = teacher._present(now)
    if showing is None:
        return ""
    showing.vectors += [np.zeros((1 + CHANGES, 2), np.float32)] * count
    return teacher.lesson.classes[showing.number]


def press(teacher, *presses):
    for key, now in presses:
        assert teacher.takes(KeyPressed(key, time=now))


def test_a_short_press_begins_and_the_next_one_ends():
    teacher = teacher_of("cup", "pen")
    press(teacher, ("1", 10))
    assert taken(teacher, 15, 3) == "cup"
    press(teacher, ("2", 16))
    assert taken(teacher, 16.1, 2) == "pen"
    press(teacher, ("2", 18))
    assert taken(teacher, 18.1, 1) == ""
    press(teacher, ("0", 20))
    assert taken(teacher, 20.1, 4) == "nothing"
    assert teacher.lesson.counts() == [3, 2, 4]
    assert not teacher.takes(KeyPressed("3", time=21))
    assert not teacher.takes(KeyPressed("s", time=21))


def test_a_held_key_ends_when_it_is_released():
    teacher = teacher_of("cup")
    press(teacher, ("1", 10), ("1", 10.5), ("1", 10.54), ("1", 10.58))
    assert taken(teacher, 10.8, 1) == "cup"
    assert taken(teacher, 10.9, 1) == ""


def test_two_people_at_once_lose_nothing():
    teacher = teacher_of("cup", "pen")
    hold(teacher, ("1", "ann", 10), ("2", "bob", 10.05), ("BackSpace", "bob", 10.1))
    assert [one.text for one in teacher.news] == 2 * [
        "somebody else shows cup: wait until they are done"
    ]
    hold(teacher, ("1", "bob", 10.15), ("1", "ann", 10.2), ("2", "bob", 10.3))
    assert taken(teacher, 11.6, 3) == "cup"
    assert taken(teacher, 11.71, 1) == ""  # ann's page is gone: nothing came from it since 10.2
    hold(teacher, ("2", "bob", 11.8))
    assert taken(teacher, 11.9, 2) == "pen"
    press(teacher, ("1", 12))  # in the window
    assert taken(teacher, 12.1, 2) == "pen"
    assert teacher.fields() == {
        "classes": [("1", "cup", 3), ("2", "pen", 4), ("0", "nothing", 0)],
        "shown": "pen", "doing": "", "last": "pen",
    }  # fmt: skip
    for by, name in (("ann", "pen"), ("bob", "")):
        assert teacher.takes(LessonKey("2", by, down=False, time=12.2))
        assert taken(teacher, 12.3, 1) == name


def hold(teacher, *holds):
    for key, by, now in holds:
        assert teacher.takes(LessonKey(key, by, time=now))


def test_showings_are_undone_and_classes_taken_away():
    teacher = teacher_of("cup", "pen")
    for number, key in enumerate("1212"):
        press(teacher, (key, 10 * number), (key, 10 * number + 5))
        teacher.lesson.showings[-1].vectors += [np.zeros((1 + CHANGES, 2), np.float32)] * 5
    assert teacher.lesson.counts() == [10, 10, 0]
    press(teacher, ("BackSpace", 50))
    assert teacher.lesson.counts() == [10, 5, 0]
    press(teacher, ("Delete", 51))
    assert teacher.lesson.counts() == [0, 5, 0]


def test_a_network_that_cannot_be_taught_ends_the_view():
    model = keras.Sequential([keras.Input((16, 16, 3)), keras.layers.Conv2D(2, 3)])
    engine = SimpleNamespace(network=Network("own", model), model=model)
    with Teacher(Lesson(["nothing"]), Slot(), SimpleNamespace(engine=engine), None) as teacher:
        teacher._thread.join()
    with pytest.raises(UsageError, match="one vector"):
        teacher.check()


@pytest.mark.parametrize("classes", ["", "cup,cup", "a,b,c,d,e,f,g,h,i,j", "cup,"])
def test_names_of_classes_are_checked(classes):
    with pytest.raises(UsageError, match="--classes"):
        taught_by.begin_lesson(Path("shapes"), classes)


@compiled()
def test_what_is_shown_is_learnt_while_the_view_goes_on(tmp_path, monkeypatch):
    drawn = drawings()
    for name, symbol in (("star", 3), ("fish", 13)):
        write_video(tmp_path / f"{name}.mp4", drawn.pixels[drawn.labels == symbol], fps=10)
    teachers, views = [], []
    monkeypatch.setattr(taught_by, "Teacher", partial(_kept, teachers, Teacher))
    live = partial(taught_by.run_live, window=lambda: Scripted(script))
    monkeypatch.setattr(taught_by, "run_live", live)
    monkeypatch.setattr("realtime_lrp.commands.live.run.View", partial(_kept, views, View))

    def script(window):
        def counts():
            return teachers[0].lesson.counts()

        while not (views and views[0].first.explained):
            yield ""
        first = views[0].first.explained.engine
        for number, (key, source) in enumerate((("1", "star"), ("2", "fish"))):
            while source not in views[0].frame.source:
                yield ""
            yield key
            while counts()[number] < 8:
                yield ""
            yield key
            while teachers[0].status().startswith("taking"):
                yield ""
            if number == 0:
                views[0].capture.switch(lambda stop: open_source(str(tmp_path / "fish.mp4"), stop))
        while (shown := views[0].first.explained).engine is first:
            yield ""
        while "fish" not in views[0].first.explained.frame.source:
            yield ""
        shown = views[0].first.explained
        assert shown.answers[0][0] == "fish", shown.answers
        yield from "qq"

    chosen = config.load(
        options={"--model": "shapes", "--source": str(tmp_path / "star.mp4")}, command="teach"
    ).config
    file = tmp_path / "mine.keras"
    lines = taught_by.live(chosen, file, False, "star,fish", keep=tmp_path / "kept")
    assert lines[-1] == f"2 classes: star, fish -> {file}"
    assert load_network(str(file)).labels == ["star", "fish"]
    lesson = taught_by.begin_lesson(file, "cup")
    assert lesson.classes == ["star", "fish", "cup", "nothing"]
    assert lesson.counts() == [*teachers[0].lesson.counts()[:2], 0, 0]
    kept = [len([*(tmp_path / "kept" / name).iterdir()]) for name in ("star", "fish")]
    assert kept == teachers[0].lesson.counts()[:2]


def _kept(made, kind, *words, **more):
    made.append(kind(*words, **more))
    return made[-1]
