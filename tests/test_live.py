"""The live viewer with real parts: a real HTTP stream, a real window, real signals."""

import json
import signal
import threading
import time
from types import SimpleNamespace

import media
import numpy as np
import psutil
import pytest
from faults.clock import until
from faults.server import MjpegServer
from program import opened_window, start
from viewer import Viewer, explained_frame, green_square

from realtime_lrp import config
from realtime_lrp.commands.live import run as live
from realtime_lrp.engine import engine as engines
from realtime_lrp.errors import UnavailableError
from realtime_lrp.realtime import capture
from realtime_lrp.realtime import stats as module
from realtime_lrp.realtime.stats import Stats
from realtime_lrp.realtime.viewer import view

NAMES = {
    "frames_captured", "frames_shown", "frames_dropped", "maps", "display_fps", "maps_per_s",
    "map_ms", "frame_age_ms", "map_age_ms", "reconnects", "maps_in_flight", "traces", "device",
    "precision",
}  # fmt: skip


def settings(model, source, **more):
    options = {"--model": str(model), "--source": source, "--display": "none", **more}
    return config.load(options={"--preprocess": "tf", **options}, command="live").config


def test_the_picture_goes_on_while_a_map_takes_long(monkeypatch, tmp_path, tiny_model):
    """Each takes until ten further frames of a real stream are shown; a frame counts once."""
    for name in ("STALLED_S", "FIRST_FRAME_S"):
        monkeypatch.setattr(capture, name, 1e9)  # the server here shares our interpreter
    figures_made, ended = [], threading.Event()

    def new_figures(*words, **more):
        figures_made.append(Stats(*words, **more))
        return figures_made[0]

    class Slow(engines.Engine):
        def begin(self, *words, **more):
            enough = figures_made[0].frames_shown + 10
            until(lambda: figures_made[0].frames_shown >= enough or ended.is_set())
            assert not ended.is_set(), "no further map is needed"
            return super().begin(*words, **more)

    def end_after_three_maps(picture):
        if figures_made[0].maps == 3:
            ended.set()
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(live, "Stats", new_figures)
    monkeypatch.setattr(engines, "Engine", Slow)
    monkeypatch.setattr(live, "_show_nowhere", end_after_three_maps)
    with MjpegServer(fps=30, size=(480, 640)) as server:
        live.run(settings(tiny_model, server.url), stats=tmp_path / "s.json")
        sent = server.sent
    figures = json.loads((tmp_path / "s.json").read_text())
    assert set(figures) == {*NAMES, "provenance"}
    captured, shown, dropped = (figures[f"frames_{n}"] for n in ("captured", "shown", "dropped"))
    assert 0 <= captured - shown - dropped <= 2
    assert 30 <= shown <= captured <= sent
    assert (figures["maps"], figures["traces"], figures["reconnects"]) == (3, 1, 0)
    assert figures["display_fps"] > 3 * figures["maps_per_s"]
    (made,) = figures_made
    assert min(made.map_age_ms) > min(made.map_ms)
    assert figures["map_ms"]["p50"] > figures["frame_age_ms"]["p50"]


def test_a_frame_is_shown_at_once_and_a_dropped_one_is_counted(monkeypatch):
    """The numbers that a scripted source and a slow display must give."""
    monkeypatch.setattr(view, "time", SimpleNamespace(monotonic=lambda: 5.0))
    viewer = Viewer()
    canvases = []
    for batch in (1, 3, 1, 0, 2):
        for _ in range(batch):
            viewer.capture.frames.put(media.plain(size=(120, 160)), 4.75)
        canvases.append(viewer.view.step())
    stats = viewer.stats
    assert [canvas is not None for canvas in canvases] == [True, True, True, False, True]
    assert stats.frames_shown == 4
    assert stats.frames_dropped == 3
    assert viewer.capture.frames.count == stats.frames_shown + stats.frames_dropped
    assert list(stats.frame_age_ms) == [250] * 4


def test_however_short_the_duration_a_film_has_the_first_map(tiny_model, tmp_path):
    film = tmp_path / "film.mp4"
    live.run(settings(tiny_model, "synthetic"), duration_s=1e-9, record=film)
    rows = [json.loads(line) for line in film.with_suffix(".jsonl").read_text().splitlines()]
    assert rows[0]["map_frame"] > 0


def moved(number, x):
    """A textured square at column x on a still ground, as a frame."""
    from realtime_lrp.realtime.latest import Item

    rng = np.random.default_rng(5)
    ground = np.repeat(rng.integers(60, 120, (60, 80, 3)), 4, 0).repeat(4, 1).astype(np.uint8)
    square = np.repeat(rng.integers(0, 256, (15, 15, 3)), 4, 0).repeat(4, 1).astype(np.uint8)
    ground[90:150, x : x + 60] = square
    return Item(ground, number, time.monotonic())


@pytest.mark.parametrize(("motion", "offset"), [("flow", 0), ("hold", -20)])
def test_the_overlay_stays_on_what_moves(motion, offset):
    """A map of the square, then the square moves by 20 pixels."""
    viewer = Viewer(**{"--motion": motion, "--opacity": 1})
    first, second = moved(1, 120), moved(2, 140)
    drawn = np.zeros((60, 60, 3), np.float32)
    drawn[23:37, 20:35, 1] = 1  # rows 92 to 148, columns 120 to 180 of the box from 40 to 280
    viewer.capture.frames.put(first.value, first.time)
    viewer.maps.put(explained_frame(first, drawn, (40, 0, 280, 240)), first.time)
    viewer.view.step()
    viewer.capture.frames.put(second.value, second.time)
    viewer.view.step()
    assert green_square(viewer.shown[0]) == pytest.approx(149.5, abs=1.5)
    assert green_square(viewer.shown[-1]) == pytest.approx(169.5 + offset, abs=3)


@pytest.mark.parametrize("name", [pytest.param("", marks=pytest.mark.release), ":987"])
def test_without_a_display_the_message_says_so(name, tiny_model):
    """An unreachable display would abort the process inside OpenCV: exit 69 instead."""
    words = ("live", "--source", "synthetic", "--model", tiny_model)
    with start(*words, DISPLAY=name) as process:
        assert process.wait(60) == 69
        message = process.stderr.read()
    assert "--display none" in message
    assert len(message.splitlines()) <= 2


@pytest.mark.release
@pytest.mark.gui
def test_the_demo_opens_a_window(display, tmp_path):
    with start("demo", "--duration", 2, DISPLAY=display, cwd=tmp_path) as process:
        opened_window(display, process)
        assert process.wait(60) == 0, process.stderr.read()
    assert list(tmp_path.iterdir()) == []


class Starting(Viewer):
    """A viewer whose source has given no picture yet; `cards` are what the window showed."""

    def __init__(self, **options):
        super().__init__(**options)
        self.cards = []
        self.window.size, self.window.show = (360, 640), self.cards.append

    def turns(self, *keys):
        """A turn for each key; whether the viewer goes on."""
        goes_on = True
        for key in keys:
            self.window.heard.append(key)
            goes_on = goes_on and self.loop.turn()
        return goes_on


def test_the_card_is_there_before_anything_else_and_changes_with_the_trouble():
    """One canvas for what is loading, another for the trouble; then the first frame is shown."""
    viewer = Starting()
    viewer.loop.show_card()
    (card,) = viewer.cards
    assert card.shape == (360, 640, 3) and card.max() > 200
    viewer.capture.trouble = "no camera"
    assert viewer.loop.turn() and viewer.loop.turn()
    assert len(viewer.cards) == 2 and (viewer.cards[1] != card).any()
    viewer.capture.trouble = ""
    viewer.frame(np.zeros((8, 8, 3), np.uint8))
    assert viewer.loop.turn()
    assert len(viewer.cards) == 2 and viewer.shown


def test_keys_do_before_the_first_picture_what_they_do_later():
    """In the box letters are typed; with another key between, the second q is a first one."""
    for keys, ends in {
        "q": False, "q q": True, "h l q q": False, "h Escape q q": True, "q f q": False,
    }.items():  # fmt: skip
        assert Starting().turns(*keys.split()) is not ends, keys


def test_closing_the_window_and_a_fault_end_the_start():
    viewer = Starting()
    viewer.window.closed = True
    assert not viewer.loop.turn()

    def check():
        raise UnavailableError("no such camera")

    viewer = Starting()
    viewer.capture.check = check
    with pytest.raises(UnavailableError, match="no such camera"):
        viewer.loop.turn()


@pytest.fixture
def clock(monkeypatch):
    """The time in seconds; set its first entry."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_rates_run_from_the_first_map(clock):
    """What was shown while the network was prepared does not count; a batch is all its maps."""
    stats = Stats("CPU", "float32")
    stats.frames_shown = 300
    assert stats.display_fps() is stats.maps_per_s() is None
    stats.map_made(1, 0.5)
    clock[0] += 4
    stats.frames_shown += 120
    stats.map_made(20, 1.0)
    assert stats.display_fps() == 30
    assert stats.maps_per_s() == 5
    assert stats.maps == 21 and stats.seconds() == 4
    stats = Stats("CPU", "float32")
    stats.map_made(8, 0.4)
    stats.frame_age_ms.extend(range(101))
    assert list(stats.map_ms) == [pytest.approx(50)] * 8, "eight maps after 0.4 s"
    figures = stats.as_dict(live=True)
    assert figures["maps"] == 8 and figures["map_ms"] == {"p50": 50, "p99": 50}
    assert figures["frame_age_ms"] == {"p50": 50, "p99": 99}


def viewed(tmp_path, source, seconds):
    """Figures of `live` without a display, and (MiB, threads, files) of each second."""
    figures, samples = tmp_path / "figures.json", []
    words = ("--model", "shapes", "--display", "none", "--duration", seconds, "--stats", figures)
    with start("live", "--source", source, *words) as process:
        program = psutil.Process(process.pid)
        while process.poll() is None:
            samples.append(sample(program))
            time.sleep(1.0)
        _, err = process.communicate(timeout=20)
        assert process.returncode == 0, err
    assert err == ""
    return json.loads(figures.read_text()), [one for one in samples if one]


def sample(program):
    """What the program holds; None where it is ending."""
    try:
        memory = program.memory_full_info().uss / 2**20
        return memory, program.num_threads(), program.num_fds()
    except psutil.NoSuchProcess:
        return None


@pytest.mark.release
def test_100000_pictures_leave_nothing_behind(tmp_path):
    """At 240 a second: the account is exact, memory, threads and files stand still."""
    figures, samples = viewed(tmp_path, "synthetic:240", 450)
    on_their_way = figures["frames_captured"] - figures["frames_shown"] - figures["frames_dropped"]
    assert 0 <= on_their_way <= 2 and figures["maps"] > 0
    assert (figures["traces"], figures["reconnects"]) == (1, 0)
    memory, threads, files = np.array(samples[120:]).T  # as many durations as are kept
    assert figures["frames_captured"] > 100_000
    assert memory[-60:].mean() - memory[:60].mean() < 1.0
    assert len(set(threads)) <= 2 and threads[-1] <= threads[0] and files[-1] <= files[0]
