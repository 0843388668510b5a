"""Teaching before a camera: keys of things, what is learnt, and how the view goes over."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from media import write_video
from test_viewer_window import Scripted

from realtime_lrp import config
from realtime_lrp.commands import teach
from realtime_lrp.errors import UsageError
from realtime_lrp.models.drawings import drawings
from realtime_lrp.models.network import Network
from realtime_lrp.models.networks import load_network
from realtime_lrp.realtime.latest import Slot
from realtime_lrp.realtime.viewer.events import KeyPressed, LessonKey
from realtime_lrp.realtime.viewer.view import View
from realtime_lrp.teaching.lesson import CHANGES, Lesson
from realtime_lrp.teaching.teacher import Teacher
from realtime_lrp.video.sources import open_source

pytestmark = pytest.mark.usefixtures("compiled")


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
    """Another key goes over at once; keys of the viewer are its own."""
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
    """Who comes later is told so; the same button helps, and is on its own once the first goes."""
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
    """BackSpace takes back the last showing, Delete all of the class shown last."""
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
        teach.begin_lesson(Path("shapes"), classes)


def test_what_is_shown_is_learnt_while_the_view_goes_on(tmp_path, monkeypatch):
    """Two clips are shown one after the other; then answers and file are of the new network."""
    drawn = drawings()
    for name, symbol in (("star", 3), ("fish", 13)):
        write_video(tmp_path / f"{name}.mp4", drawn.pixels[drawn.labels == symbol], fps=10)
    teachers, views = [], []
    monkeypatch.setattr(teach, "Teacher", partial(_kept, teachers, Teacher))
    live = partial(teach.run_live, window=lambda: Scripted(script))
    monkeypatch.setattr(teach, "run_live", live)
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
        options={"--model": "shapes", "--source": str(tmp_path / "star.mp4")},
        command="teach",
    ).config
    file = tmp_path / "mine.keras"
    lines = teach.live(chosen, file, False, "star,fish", keep=tmp_path / "kept")
    assert lines[-1] == f"2 classes: star, fish -> {file}"
    assert load_network(str(file)).labels == ["star", "fish"]
    lesson = teach.begin_lesson(file, "cup")
    assert lesson.classes == ["star", "fish", "cup", "nothing"]
    assert lesson.counts() == [*teachers[0].lesson.counts()[:2], 0, 0]
    kept = [len([*(tmp_path / "kept" / name).iterdir()]) for name in ("star", "fish")]
    assert kept == teachers[0].lesson.counts()[:2]


def _kept(made, kind, *words, **more):
    made.append(kind(*words, **more))
    return made[-1]
