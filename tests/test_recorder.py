"""A live view, recorded: at its true times, whole, and kept when something goes wrong."""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections import namedtuple

import av
import media
import numpy as np
import pytest
from faults.clock import until

from realtime_lrp.errors import OutputError, TransferError, UsageError
from realtime_lrp.video import recorder
from realtime_lrp.video.recorder import KEPT_FREE, Recorder
from realtime_lrp.video.writer import verify

pytestmark = pytest.mark.usefixtures("light_scripts")

SIZE = (48, 64)
ENDINGS = (".mp4", ".mov", ".mkv")
Usage = namedtuple("Usage", "total used free")


def put_all(into, times, pictures=None):
    """Puts a picture for each time, and the time as its row."""
    for number, at in enumerate(times):
        picture = pictures[number] if pictures else media.plain(size=SIZE)
        into.put(picture, at, {"put": at})


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def opened(path):
    """(times, key frames, duration, rows, columns, colour tags) of a film."""
    with av.open(path) as container:
        stream = container.streams.video[0]
        frames = list(container.decode(stream))
        first = frames[0]
        colour = first.color_primaries, first.color_trc, first.colorspace, first.color_range
        times = [float(frame.pts * frame.time_base) for frame in frames]
        keys = [at for at, frame in zip(times, frames, strict=True) if frame.key_frame]
        return times, keys, container.duration / 1e6, stream.height, stream.width, colour


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """All pictures are encoded at the end, on a busy machine too."""
    monkeypatch.setattr(recorder, "DRAIN_S", 300.0)


@pytest.mark.parametrize("ending", ENDINGS)
def test_pictures_are_kept_at_their_times(tmp_path, rng, ending):
    """To a millisecond however irregular, a key frame a second, the last one shown for a while."""
    times = 1000 + np.cumsum(rng.uniform(0.002, 0.2, 60))
    target = tmp_path / f"view{ending}"
    recording = Recorder(target, SIZE)
    put_all(recording, times, media.numbered(60, SIZE))
    lines = recording.finish()
    found, keys, duration, *_ = opened(target)
    assert np.abs(found - (times - times[0])).max() < 0.001
    assert len(keys) >= 4 and max(np.diff(keys)) < 1.21
    assert duration == pytest.approx(recording.seconds, abs=0.002)
    assert recording.seconds == pytest.approx(2 * times[-1] - times[-2] - times[0], abs=0.001)
    assert lines == [f"60 frames, {recording.seconds:.1f} s -> {target}"]
    rows = rows_of(tmp_path / "view.jsonl")
    assert [row["frame"] for row in rows] == list(range(60))
    assert [row["put"] for row in rows] == list(times)
    assert np.abs([row["time"] for row in rows] - (times - times[0])).max() < 1e-5
    assert sorted(os.listdir(tmp_path)) == ["view.jsonl", target.name]


def test_it_is_an_ordinary_film_with_right_colours(tmp_path):
    """Index at its end, no fragments; BT.709 in limited range, and tagged so."""
    colours = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0), (200, 120, 40)]
    target = tmp_path / "view.mp4"
    with Recorder(target, SIZE) as recording:
        put_all(recording, np.arange(6) / 30, [media.plain(colour, SIZE) for colour in colours])
    assert b"moof" not in target.read_bytes()
    assert opened(target)[5] == (1, 1, 1, 1)
    with av.open(target) as container:
        for frame, colour in zip(container.decode(video=0), colours, strict=True):
            shown = frame.to_ndarray(format="rgb24").astype(int)
            assert np.abs(shown - colour).max() <= 4


def test_a_slow_encoder_never_blocks(monkeypatch, tmp_path):
    """Pictures are left out and counted, the others keep their times."""
    due = threading.Semaphore(0)

    class Slow(recorder.VideoWriter):
        def write(self, *args, **options):
            due.acquire()
            super().write(*args, **options)

    monkeypatch.setattr(recorder, "VideoWriter", Slow)
    monkeypatch.setattr(recorder, "MOST_BYTES", 5 * media.plain(size=SIZE).nbytes)
    target = tmp_path / "view.mp4"
    recording = Recorder(target, SIZE)
    for number in range(100):
        put_all(recording, [50 + number / 100])
        if number % 10 == 9:
            due.release()
            until(lambda: recording.frames == number // 10 + 1)  # noqa: B023
    due.release(100)
    lines = recording.finish()
    assert recording.dropped > 50 and recording.frames > 10
    assert recording.frames + recording.dropped == 100
    assert lines[1] == f"{recording.dropped} pictures are left out: they came too fast"
    rows = rows_of(tmp_path / "view.jsonl")
    assert media.times_of(target) == pytest.approx([row["put"] - 50 for row in rows], abs=1e-3)
    assert len(rows) == recording.frames


def test_what_is_there_is_refused(tmp_path):
    """The film, its sidecar, an unknown ending, a part of this process; nothing is begun."""
    for name in ("a.mp4", "b.jsonl", f"c.mp4.{os.getpid()}.part"):
        (tmp_path / name).write_text("mine")
    for name in ("a.mp4", "b.mp4", "c.mp4", "no/d.mp4"):
        with pytest.raises(OutputError):
            Recorder(tmp_path / name, SIZE)
    with pytest.raises(UsageError, match=r"Expected one of \.mp4, \.mov, \.mkv"):
        Recorder(tmp_path / "e.avi", SIZE)
    for name in ("a.mp4", "b.mp4"):
        with Recorder(tmp_path / name, SIZE, overwrite=True) as recording:
            put_all(recording, [0])
        assert len(media.times_of(tmp_path / name)) == 1
    assert len(rows_of(tmp_path / "b.jsonl")) == 1
    assert (tmp_path / f"c.mp4.{os.getpid()}.part").read_text() == "mine"


def test_a_full_disk_ends_it_well(tmp_path, monkeypatch):
    """Below the limit: told, and the film is under its name before anyone asks."""
    free, asked = [KEPT_FREE], []

    def usage(path):
        asked.append(path)
        return Usage(1, 1, free[0])

    monkeypatch.setattr(shutil, "disk_usage", usage)
    target = tmp_path / "view.mp4"
    recording = Recorder(target, SIZE)
    put_all(recording, [0, 1, 2])
    until(lambda: len(asked) == 4)  # at the beginning, and with each key frame
    assert recording.trouble == ""
    free[0] = 480 * 2**20
    put_all(recording, [2.5, 3, 3.5])
    until(lambda: recording.trouble)
    line = "recording stopped: the disk is full; kept as view.mp4"
    assert recording.trouble == line
    assert media.times_of(target) == [0, 1, 2, 2.5, 3]
    put_all(recording, [4])
    assert recording.finish() == [f"5 frames, 3.5 s -> {target}", line]
    assert len(rows_of(tmp_path / "view.jsonl")) == 5
    with pytest.raises(TransferError, match="480 MiB are free"):
        Recorder(tmp_path / "other.mp4", SIZE)


def test_what_cannot_be_recorded_is_told(tmp_path):
    """A wrong picture, a wrong row: recording stops, the caller goes on, nothing stays open."""
    before = len(os.listdir("/proc/self/fd"))
    recording, target = Recorder(tmp_path / "view.mp4", SIZE), tmp_path / "view.mp4"
    assert recording.finish() == [f"no picture came: {target} is not written"]
    assert os.listdir(tmp_path) == [] and recording.trouble == ""
    recording = Recorder(tmp_path / "a.mp4", SIZE)
    recording.put(np.zeros(SIZE, np.uint8), 0.0)
    until(lambda: recording.trouble)
    put_all(recording, [1])
    assert "nothing is kept" in recording.trouble
    with pytest.raises(TransferError, match="recording stopped"):
        recording.finish()
    assert os.listdir(tmp_path) == []
    recording = Recorder(tmp_path / "b.mp4", SIZE)
    put_all(recording, [0])
    recording.put(media.plain(size=SIZE), 1.0, {"row": object()})
    lines = recording.finish()
    assert lines[0].startswith("2 frames") and "kept as b.mp4" in lines[1]
    assert len(media.times_of(tmp_path / "b.mp4")) == 2
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_film_that_is_not_whole_is_found_out(tmp_path, ending):
    """Its last frame at another time, another number in its index, its end cut off."""
    film = tmp_path / f"view{ending}"
    with Recorder(film, SIZE) as recording:
        put_all(recording, np.arange(90) / 30, media.numbered(90, SIZE))
    verify(film, 90)
    verify(film, 90, 89 / 30)
    with pytest.raises(TransferError, match="ends after"):
        verify(film, 90, 91 / 30)
    with pytest.raises(TransferError, match="has 90 frames instead of 91"):
        verify(film, 91, None if ending == ".mkv" else 89 / 30)
    os.truncate(film, film.stat().st_size * 2 // 3)
    with pytest.raises(TransferError):
        verify(film, 90, 89 / 30)


LIVING = """
import itertools, sys, time
from pathlib import Path
import numpy as np
from realtime_lrp.video.recorder import Recorder

picture = np.random.default_rng(0).integers(0, 256, (240, 320, 3), np.uint8)
recorder = Recorder(Path(sys.argv[1]), (240, 320))
for number in itertools.count():
    at = 0.03 * number
    recorder.put(np.roll(picture, number, 1), at, {"at": at})
    print(at, flush=True)
    while recorder.frames < number - 5:  # the encoder keeps up with five pictures waiting
        time.sleep(0.001)
"""


@pytest.mark.parametrize("ending", [".mp4", pytest.param(".mkv", marks=pytest.mark.release)])
def test_killed_it_loses_the_last_second(tmp_path, ending):
    """SIGKILL: what plays ends at most 1.5 s before the last picture, and so do the lines."""
    command = [sys.executable, "-c", LIVING, str(tmp_path / f"view{ending}")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if float(line) > 2.7:
                break
        process.kill()
        written = float(line)
    film, lines = sorted(tmp_path.iterdir(), key=lambda path: "jsonl" in path.name)
    assert film.name == f"view{ending}.{process.pid}.part"
    times = media.times_of(film)
    assert times[-1] >= written - 1.5
    assert np.allclose(np.diff(times), 0.03, atol=0.001)
    text = lines.read_text()
    rows = [json.loads(line) for line in text[: text.rindex("\n")].splitlines()]
    assert rows[-1]["at"] >= written - 1.5
    both = min(len(times), len(rows))
    assert [row["time"] for row in rows[:both]] == pytest.approx(times[:both], abs=1e-3)


def test_every_second_is_brought_to_the_disk(monkeypatch, tmp_path):
    """With each key frame, while it is recorded: a power cut costs the last second."""
    synced, real = [], recorder._sync

    def sync(number):
        synced.append(os.readlink(f"/proc/self/fd/{number}"))
        real(number)

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("no list of open files on this system")
    monkeypatch.setattr(recorder, "_sync", sync)
    with Recorder(tmp_path / "view.mp4", SIZE) as recording:
        put_all(recording, np.arange(100) / 30)
    assert synced == [str(tmp_path / f"view.mp4.{os.getpid()}.part")] * 4
