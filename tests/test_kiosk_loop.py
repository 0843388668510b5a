"""The exhibit's main loop with scripted pictures, maps and time; its command; its watched parts."""

import errno
import json
import os
import re
import sys
import threading
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from faults.cameras import Flag
from faults.clock import until
from uncompiled import compiled
from viewer import engine_of, explained_frame

import realtime_lrp.engine.tensorflow  # noqa: F401, a thread that imports it keeps stderr
from realtime_lrp import config
from realtime_lrp.commands.kiosk import games, loop, pages, parts, start
from realtime_lrp.commands.kiosk.loop import Exhibit
from realtime_lrp.commands.kiosk.pages import AnswerPage
from realtime_lrp.commands.kiosk.parts import Fault, RelevancePart, camera_fault, open_clips
from realtime_lrp.commands.kiosk.settings import load
from realtime_lrp.commands.kiosk.start import Heartbeat, single_instance
from realtime_lrp.config import ASSETS
from realtime_lrp.engine.result import Segments
from realtime_lrp.errors import DamagedInputError, TemporaryError, UnavailableError, UsageError
from realtime_lrp.models.drawings import drawings
from realtime_lrp.realtime.capture import DARK, FROZEN, LOST, NO_PICTURE, WAITING
from realtime_lrp.realtime.latest import Slot
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.realtime.viewer.events import LessonKey
from realtime_lrp.video.pictures import write_picture
from realtime_lrp.view.exhibit import ScreenArtist, TextBlock
from realtime_lrp.view.window import Mouse, NullWindow

LABELS = ["heart", "star", "nothing"]


class Turns:
    """An exhibit whose time, events, answers and segments are set by the test."""

    segments: Segments | None = None

    def __init__(self, monkeypatch, *sets, wall=None):
        Thread.made = []
        monkeypatch.setattr(parts, "RelevanceThread", Thread)
        monkeypatch.setattr(loop, "POLL_S", 0.001)
        self.now, self.canvas, self.events = 100.0, None, []
        outer = self

        class Screen(NullWindow):
            size = (360, 640)

            def show(self, picture):
                outer.canvas = picture

            def events(self):
                happened, outer.events = outer.events, []
                return happened

        chosen = config.load(sets=sets, command="kiosk").config
        self.kiosk = Exhibit(
            chosen, Screen(), Stats("", ""), Flag, clock=lambda: self.now,
            wall_clock=wall or datetime.now,
        )  # fmt: skip
        until(self._a_picture_came)

    def _a_picture_came(self):
        self.now += 0.2
        self.kiosk.step()
        return Thread.made[-1].frames.count

    def answer(self, **scores):
        thread = Thread.made[-1]
        thread.engine = thread.engine or engine_of(LABELS)
        frame = replace(thread.frames.newest(), time=self.now)
        explained = explained_frame(
            frame, np.zeros((8, 8)), (8, 0, 56, 48), [scores.get(name, 0.0) for name in LABELS],
            request=thread.request, engine=thread.engine,
        )  # fmt: skip
        explained.result.segments = self.segments
        thread.maps.put(explained, frame.time)

    def visit(self):
        self.turn(nothing=1.0)
        until(lambda: self.turn(0.05, present=True) == "active" and self.kiosk._shown)
        return self

    def turn(self, seconds=0.2, present=None, **scores):
        """Lets time pass and does one turn; returns the state after it."""
        self.now += seconds
        if present is not None:
            self.kiosk._presence.look = lambda picture, now: present
            self.kiosk._presence.present = present
        if scores:
            self.answer(**scores)
        self.kiosk.step()
        return str(self.kiosk.described)


@pytest.fixture(scope="module")
def built():
    return {}


@pytest.fixture
def same_engine(monkeypatch, built):
    """Exhibits with the same settings explain with the same engine, which is built once."""
    from realtime_lrp.engine import engine

    build = engine.Engine

    def engine_for(config, **options):
        name = (config.model.model_dump_json(), config.lrp.model_dump_json(), str(options))
        built[name] = built.get(name) or build(config, **options)
        return built[name]

    monkeypatch.setattr(engine, "Engine", engine_for)


@pytest.fixture
def turns(monkeypatch):
    monkeypatch.setattr(ScreenArtist, "_draw_picture", lambda *words: None)
    made = Turns(monkeypatch)
    made.turn(heart=1.0)
    until(lambda: made.turn(0.01) == "attract")
    yield made
    made.kiosk.end()


def test_the_camera_is_shown_like_a_mirror(monkeypatch):
    for sets, left in (((), 2), (("input.mirror=false",), 0)):
        turns = Turns(monkeypatch, *sets)
        turns.turn(heart=1.0)
        until(lambda turns=turns: turns.turn(0.05, present=True, heart=1.0) == "active")
        until(lambda turns=turns: turns.turn(0.05) and turns.kiosk._shown is not None)
        turns.turn(0.5)
        assert turns.canvas[100:300, :400].astype(int).mean(axis=0)[50].argmax() == left, sets
        turns.kiosk.end()


def test_a_symbol_counts_as_a_visitor_for_five_minutes_after_the_last_motion(turns):
    turns.turn(present=True)
    until(lambda: turns.turn(0.05, present=True) == "active" and turns.kiosk._shown)
    stays = 0.0
    while turns.turn(1.0, present=False, heart=1.0) == "active":
        stays += 1
    assert 325 < stays < 332, "300 s, and the 30 of an absence"
    assert turns.kiosk.described == "idle"


def test_maps_explain_the_answer_that_is_shown(monkeypatch):
    monkeypatch.setattr(ScreenArtist, "_draw_picture", lambda *words: None)
    turns = Turns(monkeypatch, "kiosk.perhaps=0.1").visit()
    thread = Thread.made[-1]
    assert thread.request.target == "top1"

    def is_explained(target, **scores):
        turns.turn(**scores)
        return thread.request.target == target

    until(lambda: is_explained("0", heart=0.3, star=0.2))
    for _ in range(30):
        assert is_explained("0", heart=0.3, star=0.31) and turns.kiosk.answer == "heart"
    until(lambda: is_explained("top1", heart=0.3, star=0.9) and turns.kiosk.answer == "star")
    until(lambda: is_explained("1", heart=0.01, star=0.3))
    until(lambda: is_explained("top1", heart=0.01, star=0.01))
    assert turns.kiosk.answer == ""
    turns.kiosk.end()


def test_a_touch_explains_a_region_for_a_while(turns):
    classes = np.zeros((6, 6), np.int32)
    classes[:, 3:] = 1
    thread = Thread.made[-1]
    thread.engine.explainer.background = 0
    turns.segments = Segments(classes, classes > 0, 0.9, 1, 0, True)
    turns.visit()

    def touched(place):
        turns.kiosk._artist.place_at = lambda x, y: place
        turns.events = [Mouse(300, 200, "left"), Mouse(300, 200, "")]
        turns.turn(star=0.9)
        return thread.request.aim.at

    thing, background = (40 / 64, 0.5), (12 / 64, 0.5)
    for other in (background, None):
        assert touched(thing) == thing
        assert touched(other) is None
    assert touched(thing) == thing
    turns.turn(loop.POINTED_S - 1, star=0.9)
    assert thread.request.aim.at == thing
    turns.turn(2.0, star=0.9)
    assert thread.request.aim.at is None


def test_a_visit_goes_on_after_a_short_fault(turns, monkeypatch):
    turns.events = ["3"]
    until(lambda: turns.turn(0.05, present=True) == "active")
    with monkeypatch.context() as patch:
        patch.setattr(loop, "camera_fault", lambda *words: Fault("camera", 1.0))
        assert turns.turn() == "card (camera)"
    assert turns.turn(present=True) == "active"
    assert turns.kiosk._visitor.language(turns.now) == 2
    turns.turn(31.0, present=False)
    assert turns.turn(11.0) == "attract"
    assert turns.kiosk._visitor.language(turns.now) == 0


def test_outside_the_hours_the_screen_is_black_and_the_camera_off(monkeypatch):
    moment = datetime(2026, 11, 23, 17, 59)
    hours = 'kiosk.hours={daily: "10:00-18:00"}'
    turns = Turns(monkeypatch, hours, wall=lambda: moment)
    turns.turn(heart=1.0)
    until(lambda: turns.turn(0.2, present=False) == "attract")
    assert turns.canvas.max() > 200
    moment = datetime(2026, 11, 23, 18, 0)
    turns.turn()
    camera, given = turns.kiosk.camera, turns.kiosk.network.frames.count
    captured = camera.frames.count
    for _ in range(5):
        assert turns.turn(60.0) == "closed"
    assert turns.canvas.shape == (360, 640, 3) and turns.canvas.max() == 0
    assert turns.kiosk.network.frames.count == given
    assert camera.rests and camera.frames.count - captured <= 1
    moment = datetime(2026, 11, 24, 10, 0)
    until(lambda: turns.turn(0.2, heart=1.0) == "attract")
    turns.kiosk.end()


def test_clips_that_do_not_play_are_replaced(tmp_path, rng, caplog):
    own, included = tmp_path / "own.png", (480, 640, 3)
    write_picture(own, rng.integers(0, 255, (60, 80, 3), np.uint8), overwrite=False)
    damaged = tmp_path / "bad.mp4"
    damaged.write_text("this is no film")
    stop = threading.Event()
    with open_clips([str(own)], stop) as clips:
        assert clips.read().shape == (60, 80, 3) and not caplog.records
        own.unlink()
        assert clips.read().shape == included and "own.png" in caplog.text
    for names in ([str(damaged)], [str(tmp_path / "no.mp4")]):
        caplog.clear()
        with open_clips(names, stop) as clips:
            assert clips.read().shape == clips.read().shape == included, names
            assert len(caplog.records) == 1
    with open_clips([], stop) as clips:
        assert clips.read().shape == included and len(caplog.records) == 1


def test_a_clip_is_shown_with_its_own_maps_unless_they_come_too_late(turns):
    shown = []
    turns.kiosk._artist.draw = lambda size, view, *rest: shown.append(view) or np.zeros((9, 9, 3))
    until(lambda: turns.turn(0.2) and turns.kiosk.network.frames.count > 3)
    turns.answer(heart=1.0)
    pair = Thread.made[-1].maps.newest().value
    turns.turn(0.2)
    assert shown[-1].picture is shown[-1].explained.picture is pair.frame.value
    number = pair.frame.number

    def thirteen_more():
        turns.kiosk.network.waiting_since = None  # the turns' time may be ahead of the clip's
        return turns.turn(0.2) and turns.kiosk.network.frames.count > number + 13

    until(thirteen_more)
    assert shown[-1].explained is None and shown[-1].picture is turns.kiosk._shown.value


def test_drawing_that_fails_ends_the_process(run, monkeypatch, tmp_path):
    monkeypatch.setattr(parts, "RelevanceThread", Thread)
    monkeypatch.setattr(ScreenArtist, "draw", lambda *words: 1 / 0)
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    code, _, told = run("kiosk", "--source", "synthetic", "--display", "none")
    assert code == 75 and "Traceback" not in told and "division by zero" in told
    assert told.strip().splitlines()[-1].endswith("The service manager starts the exhibit again.")


def test_a_full_disk_leaves_the_health_file_as_it_was(monkeypatch, tmp_path, caplog):
    file = tmp_path / "health.json"
    report = Heartbeat(load(), tmp_path, {})
    camera = SimpleNamespace(rests=True)

    def written(state, now):
        report.drawn(SimpleNamespace(described=state, state=state, card="", camera=camera), now)
        return json.loads(file.read_text())["state"]

    assert written("attract", 0.0) == "attract"

    def full(*words):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert written("active", 1.0) == written("active", 9.0) == "attract"
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.endswith("until it can be written again: No space left on device")
    assert written("active", 18.0) == "active"
    assert list(tmp_path.iterdir()) == [file]


def test_a_second_exhibit_is_refused(run, monkeypatch, tmp_path):
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    windows = []
    monkeypatch.setattr(start, "FullScreen", lambda: windows.append("opened"))
    words = ("kiosk", "--source", "synthetic")
    with single_instance():
        for more in ((), ("--display", "none", "--duration", "0.3")):
            code, _, told = run(*words, *more)
            assert code == 69 and f"The exhibit is already running (process {os.getpid()})" in told
        with pytest.raises(UnavailableError, match="already running"):
            start.start(load(None, (), {"--source": "synthetic"}), 0.3, None)
        assert not windows and [one.name for one in tmp_path.iterdir()] == ["running"]
        monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "another"))
        with single_instance():
            pass
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    with single_instance():
        pass


def test_it_runs_without_a_display_for_a_duration(run, monkeypatch, tmp_path, same_engine):
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    file = tmp_path / "stats.json"
    words = ("--display", "none", "--duration", "0.3", "--stats", file)
    assert run("kiosk", "--source", "synthetic", *words)[0] == 0
    stats = json.loads(file.read_text())
    assert min(stats[name] for name in ("frames_captured", "frames_shown", "maps")) >= 1
    assert stats["traces"] == 1 and stats["reconnects"] == 0
    assert stats["frames_dropped"] is None
    health = json.loads((tmp_path / "health.json").read_text())
    assert health["configuration"] == "as written" and health["state"] == "ended"
    guide = (Path(__file__).parents[1] / "docs" / "kiosk.md").read_text()
    assert list(json.loads(re.search(r"```json\n(.*?)```", guide, re.S)[1])) == list(health)


def test_a_wrong_configuration_keeps_the_last_good_one(run, monkeypatch, tmp_path, same_engine):
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "state"))
    captions = tmp_path / "captions"
    captions.mkdir()
    english = (ASSETS / "captions" / "en.yaml").read_text()
    (captions / "en.yaml").write_text(english.replace("Come closer", "Step up"))
    file, other = tmp_path / "exhibit.yaml", tmp_path / "other.yaml"
    live = "live: {camera_size: 1280x720}\n"
    good = f"{live}kiosk:\n  captions: {captions}\n  languages: [en]\n"
    words = ("--source", "synthetic", "--display", "none", "--duration", "0.3")
    monkeypatch.setattr(loop.Presence, "look", lambda *seen: False)  # nobody comes
    file.write_text(good)
    assert run("kiosk", "--config", file, *words)[0] == 0
    assert run("kiosk", "--config", file, "--print-unit", "--model", "vgg16")[0] == 2
    (kept,) = (tmp_path / "state").glob("good-*/config.json")
    assert kept.stat().st_mode & 0o777 == 0o600, "nobody else reads the passwords in it"
    kept.write_text(kept.read_text().replace('"kiosk":{', '"kiosk":{"of an earlier version":1,'))

    log = (tmp_path / "state" / "kiosk.log").read_text()
    assert "shapes, source synthetic" in log and "card (starting) -> attract" in log
    assert log.strip().endswith("ended: by staff, a signal or --duration")
    assert json.loads((tmp_path / "state" / "health.json").read_text())["state"] == "ended"

    file.write_text(good + "  langauges: [de]\n")
    (captions / "en.yaml").write_text(english.replace("name:", "nam:"))
    shown = []
    monkeypatch.setattr(
        pages.AttractPage, "elements", lambda self, moment: shown.append(moment) or []
    )
    code, _, told = run("kiosk", "--config", file, *words)
    assert code == 0 and "exhibit.yaml:5" in told and "'kiosk.languages'" in told
    assert "Using the last good configuration instead." in told
    assert shown[0].captions["attract"][0] == "Step up"
    health = json.loads((tmp_path / "state" / "health.json").read_text())
    assert "exhibit.yaml:5" in health["configuration"]

    other.write_text(file.read_text())
    assert run("kiosk", "--config", other, *words)[0] == 78
    assert run("kiosk", "--config", file, "--print-unit")[0] == 78


PICTURE = np.zeros((8, 8, 3), np.uint8)


class Thread:
    """A relevance thread that does what the test says; `made` are all, the newest last."""

    made: ClassVar = []

    def __init__(self, config_, frames, request, stats, changeable=False):
        self.request, self.engine, self.maps, self.frames = request, None, Slot(), frames
        self.alive, self.failing, self.error, self.ended = True, "", None, False
        Thread.made.append(self)

    def start(self):
        pass

    def end(self):
        self.ended = True

    def check(self):
        if self.error:
            raise self.error

    def finish(self):
        self.engine = self.engine or SimpleNamespace(network=SimpleNamespace(labels=None))
        frame = self.frames.newest()
        self.maps.put(SimpleNamespace(frame=frame), frame.time)


def starting():
    return RelevancePart(config.load(command="kiosk").config, Stats("", ""), now=0.0)


@pytest.fixture
def network(monkeypatch):
    """A relevance part whose first map came at second 10."""
    Thread.made = []
    monkeypatch.setattr(parts, "RelevanceThread", Thread)
    made = starting()
    assert made.watch(5.0) == Fault("starting")
    made.submit(PICTURE, 10.0, 10.0)
    Thread.made[0].finish()
    assert made.watch(10.0) is None and made.engine is Thread.made[0].engine
    return made


def cards_of(network, begin, seconds, step=0.5, showing=True):
    """Lets time pass, with pictures; returns the cards that were shown, without repetitions."""
    cards = []
    for k in range(round(seconds / step)):
        now = begin + k * step
        if showing:
            network.submit(PICTURE, now, now)
        trouble = network.watch(now)
        card = trouble.card if trouble else ""
        if not cards or cards[-1] != card:
            cards.append(card)
    return cards


@pytest.mark.parametrize("error", [None, ValueError("NaN")])
def test_a_dead_thread_ends_the_process(network, error):
    Thread.made[0].alive, Thread.made[0].error = False, error
    with pytest.raises(TemporaryError, match=str(error or "its thread ended")) as raised:
        network.watch(11.0)
    assert raised.value.exit_code == 75


def test_a_slow_network_has_a_card_and_a_hanging_one_ends_the_process(network):
    network.submit(PICTURE, 20.0, 20.0)
    network.watch(20.1)
    assert network.watch(900.0) is None and len(Thread.made) == 1
    network.submit(PICTURE, 920.0, 920.0)
    assert cards_of(network, 920.0, 5.5) == [""]
    assert network.watch(926.0) == Fault("slow", 14.0)
    assert cards_of(network, 926.0, 14.0) == ["slow"]
    with pytest.raises(TemporaryError, match="it hangs"):
        cards_of(network, 940.0, 2.0)


def test_a_failing_network_has_a_card_and_ends_the_process_after_30_s(network):
    Thread.made[0].failing = "no map, trying again: out of memory"
    assert cards_of(network, 20.0, 30.0) == ["network"]
    with pytest.raises(TemporaryError, match="keeps failing"):
        cards_of(network, 50.0, 4.0)


def fails_to_load(network, error, begin, seconds):
    """Lets every try fail; returns when the tries began."""
    tries, known = [], len(Thread.made)
    for k in range(round(2 * seconds)):
        Thread.made[-1].alive, Thread.made[-1].error = False, error
        network.watch(begin + 0.5 * k)
        if len(Thread.made) > known:
            tries.append(begin + 0.5 * k)
            known = len(Thread.made)
    return tries


def test_a_loading_error_that_no_retry_mends_is_raised(network):
    with pytest.raises(DamagedInputError, match="no model"):
        fails_to_load(starting(), DamagedInputError("no model"), 1.0, 1.0)
    with pytest.raises(TemporaryError, match=r"http://[*]{3}@cam/ fails"):
        fails_to_load(starting(), MemoryError("http://me:secret@cam/ fails"), 1.0, 1.0)


def test_weights_that_cannot_be_downloaded_are_waited_for(network, caplog):
    fresh = starting()
    tries = fails_to_load(fresh, UnavailableError("no http://me:secret@x/w"), 0.0, 1200.0)
    assert len(tries) > 30 and np.diff([0.0, *tries]) == pytest.approx(30, abs=1.1)
    trouble = fresh.watch(1200.0)
    assert trouble.card == "network" and 0 < trouble.remaining_s < 30
    assert "no http://***@x/w" in caplog.text and "secret" not in caplog.text


@pytest.mark.parametrize(
    ("told", "begins", "after_s", "card"),
    [
        ("", False, 1.0, None), ("", True, 1.0, "starting"), (WAITING, True, 9.0, "starting"),
        (WAITING, True, 11.0, "camera"), (NO_PICTURE + "it is not there", False, 1.0, "camera"),
        (LOST, False, 1.0, "camera"), (FROZEN, False, 1.0, "frozen"), (DARK, False, 1.0, "dark"),
    ],
)  # fmt: skip
def test_each_fault_of_the_camera_has_its_card(told, begins, after_s, card):
    camera = SimpleNamespace(
        rests=True, begins=begins, trouble=told, good_at=100.0, next_try=102.0 + after_s
    )
    assert camera_fault(camera, 100.0 + after_s) is None, "released"
    camera.rests = False
    trouble = camera_fault(camera, 100.0 + after_s)
    assert (trouble and trouble.card) == card
    if card == "camera" and told != WAITING:
        assert trouble.remaining_s == pytest.approx(2.0)
        assert camera_fault(camera, 159.9).card == "camera"
        assert camera_fault(camera, 161.1).card == "staff", "for more than a minute"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_camera_whose_supervisor_died_ends_the_process(turns):
    dying = turns.kiosk.camera
    dying._judge = lambda reader: sys.exit()
    until(lambda: not dying.supervised)
    with pytest.raises(TemporaryError, match="camera"):
        turns.turn()


@pytest.fixture
def playing(monkeypatch):
    monkeypatch.setattr(ScreenArtist, "_draw_picture", lambda *words: None)
    made = Turns(monkeypatch, "kiosk.teach=true", "kiosk.game=true", "kiosk.perhaps=0.1").visit()
    made.turn()
    yield made
    made.kiosk.end()


def touch(playing, name, seconds=0.2):
    """Touches a button for so long; returns the page that is shown then."""
    x0, y0, x1, y1 = playing.kiosk._artist.buttons[name]
    for button in ("left", ""):
        playing.events = [Mouse((x0 + x1) // 2, (y0 + y1) // 2, button)]
        playing.turn(seconds)
    return playing.kiosk.page


def texts(playing):
    return " ".join(one.text for one in playing.kiosk.screen.page.top if isinstance(one, TextBlock))


@pytest.mark.parametrize(
    "seen, expected",
    [("heart", "I saw it!"), ("star", "You fooled me! I took it for: star."),
     ("nothing", "You fooled me! I saw nothing that I know.")],
)  # fmt: skip
def test_the_game_is_won_by_what_people_alone_recognise(seen, expected, playing, monkeypatch):
    monkeypatch.setattr(games.random, "choice", lambda labels: "heart")
    assert isinstance(touch(playing, "game"), games.GamePage)
    assert "Draw this: heart" in texts(playing)
    draw(playing, seen)
    assert expected in texts(playing)
    for _ in range(int(games.TOLD_S) + 1):
        playing.turn(1.0, present=True, star=1.0)
    assert isinstance(playing.kiosk.page, AnswerPage)


def draw(playing, seen, last=()):
    """Plays the end: one thing is seen until the last playing of 0.2 s, in which others are."""
    playing.kiosk.page.opened -= games.DRAW_S - (3 - 0.01)
    for name in [*[seen] * (15 - len(last)), *last]:
        playing.turn(0.2, present=True, **{name: 1.0})


@pytest.mark.parametrize(
    "last, expected, kept",
    [(["heart"] * 4 + ["nothing"], "I saw it!", True), (["star"] * 6, "You fooled me!", True),
     (["nothing"] * 6, "I saw nothing that I know", False)],
)  # fmt: skip
def test_the_last_second_decides_the_game(last, expected, kept, playing, monkeypatch):
    monkeypatch.setattr(games.random, "choice", lambda labels: "heart")
    touch(playing, "game")
    draw(playing, "heart", last)
    assert expected in texts(playing)
    decided = playing.kiosk.screen
    for _ in range(5):
        playing.turn(0.2, present=True, heart=1.0)
    shown = playing.kiosk.screen
    assert (shown.explained is not None) == kept
    assert (shown.picture is decided.picture) == kept
    assert expected in texts(playing)
    touch(playing, "game")
    assert isinstance(playing.kiosk.page, AnswerPage)
    assert playing.kiosk._pages[2].kept() is None  # it is forgotten


class FakeTeacher:
    """Notes what is held; a picture is taken each time."""

    def __init__(self, classes):
        self.counts, self.held, self.wrong = dict.fromkeys(classes, 0), [], None
        self.lesson = SimpleNamespace(showings=[SimpleNamespace(vectors=[])])

    def check(self):
        if self.wrong:
            raise self.wrong

    def takes(self, event):
        self.held.append((event.key, event.down))
        self.lesson.showings[0].vectors.append(0)

    def fields(self):
        classes = [(str(key % 4), name, 7) for key, name in enumerate(self.counts, 1)]
        return {"classes": classes, "shown": "", "doing": "", "last": ""}


def test_a_touch_takes_pictures_of_a_thing_and_leaving_forgets_it(playing, monkeypatch):
    part, forgotten = playing.kiosk.network, []
    monkeypatch.setattr(part, "teach", FakeTeacher)
    monkeypatch.setattr(part, "forget", forgotten.append)
    page = touch(playing, "teach")
    assert isinstance(page, games.TeachPage) and "Teach me three things" in texts(playing)
    teacher = page._teacher
    touch(playing, "thing 2")  # while the empty scene is learnt
    assert "hold up nothing" in texts(playing) and not teacher.held
    taken = [(True, games.TAKEN), (False, 1)]
    until(
        lambda: playing.turn(0.2, present=True, heart=1.0) and teacher.held[-1:] == [("0", False)]
    )
    assert teacher.held == [("0", down) for down, times in taken for _ in range(times)]
    assert playing.kiosk.answer == "heart" and playing.kiosk.screen.explained is None
    teacher.held.clear()
    teacher.lesson.showings[0].vectors.clear()
    touch(playing, "thing 2")
    until(lambda: playing.turn(0.2, present=True) and not teacher.held[-1][1])
    assert teacher.held == [("2", down) for down, times in taken for _ in range(times)]
    until(lambda: playing.turn(0.2, present=True, star=0.3) and playing.kiosk.answer == "star")
    assert part.thread.request.target == "top1"
    assert isinstance(touch(playing, "game"), games.GamePage)
    assert forgotten == [teacher]
    touch(playing, "teach")
    until(lambda: playing.turn(1.0, present=False, nothing=1.0) == "attract")
    assert len(forgotten) == 2 and page._teacher is None
    playing.turn(present=True)
    playing.turn(present=True)
    touch(playing, "teach")
    page._teacher.wrong = UsageError("no vector")
    playing.turn(present=True)
    playing.turn(present=True)
    assert (
        isinstance(playing.kiosk.page, AnswerPage) and "teach" not in playing.kiosk._artist.buttons
    )


def test_a_lesson_goes_on_while_the_exhibit_asks_who_is_there(monkeypatch):
    monkeypatch.setattr(ScreenArtist, "_draw_picture", lambda *words: None)
    playing = Turns(monkeypatch, "kiosk.teach=true", "lrp.target=heart").visit()
    part = playing.kiosk.network
    monkeypatch.setattr(part, "teach", FakeTeacher)
    monkeypatch.setattr(part, "forget", lambda teacher: None)
    targets = [part.thread.request.target]
    page = touch(playing, "teach")
    targets.append(part.thread.request.target)
    until(lambda: playing.turn(0.5, present=False, nothing=1.0) == "idle")
    targets.append(part.thread.request.target)
    assert page._teacher and targets == ["heart", "top1", "top1"]
    playing.kiosk.end()


@pytest.mark.release
@compiled()
def test_what_is_taught_is_the_networks_answer_until_it_is_forgotten():
    drawn = drawings()
    chosen = config.load(sets=("kiosk.teach=true",), command="kiosk").config
    part = RelevancePart(chosen, Stats("", ""), time.monotonic())

    def show(symbol, done):
        pictures = drawn.pixels[drawn.labels == symbol]

        def shown():
            now = time.monotonic()
            part.submit(np.ascontiguousarray(pictures[int(10 * now) % 12]), now, now)
            part.watch(now)
            return done()

        until(shown)

    show(3, lambda: part.engine)
    untaught = part.engine
    teacher = part.teach(("A", "B", "C"))
    for key, symbol in (("1", 3), ("2", 13)):

        def taken(key=key):
            teacher.takes(LessonKey(key, "visitor"))
            return teacher.lesson.counts()[int(key) - 1] > 7

        show(symbol, taken)
        teacher.takes(LessonKey(key, "visitor", down=False))
    show(13, lambda: part.engine.network.labels == ["A", "B"])
    show(13, lambda: np.argmax(part.thread.maps.newest().value.result.scores) == 1)
    part.forget(teacher)
    part.forget(part.teach(("A", "B", "C")))  # before another map is computed
    show(13, lambda: part.engine is untaught)
    part.thread.end()
