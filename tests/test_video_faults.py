"""`video` where something goes wrong: damaged input, processes that fail, kills, full disks."""

import io
import os
import shutil
import signal
import subprocess
import sys
from collections import namedtuple
from fractions import Fraction

import av
import media
import numpy as np
import program
import pytest
from faults.clock import until
from films import films_in
from worker import job_for, recode

from realtime_lrp import config
from realtime_lrp.commands.video import recoding
from realtime_lrp.commands.video.recoding import (
    FROM_CHILD,
    TO_CHILD,
    BatchMaps,
    DrawableMap,
    PictureBatch,
)
from realtime_lrp.errors import DamagedInputError
from realtime_lrp.realtime.capture import Capture
from realtime_lrp.realtime.capture import SourceThread as ReadingThread
from realtime_lrp.realtime.explaining import RelevanceThread
from realtime_lrp.system.child import Channel, module_command
from realtime_lrp.system.progress import Progress
from realtime_lrp.video import reader
from realtime_lrp.view.painting import Drawn

pytestmark = pytest.mark.usefixtures("light_scripts")

FAULTS = {
    "crash": ("os.kill(os.getpid(), signal.SIGSEGV)", "makes the decoder crash (SIGSEGV)"),
    "killed": ("os.kill(os.getpid(), signal.SIGKILL)", "(SIGKILL). The memory may have run"),
    "stopped": ("os.kill(os.getpid(), signal.SIGTERM)", "was killed (SIGTERM). Try again."),
    "ended": ("os._exit(1)", "makes the decoder end early (exit code 1)"),
    "memory": ("raise MemoryError", "The memory does not suffice to decode"),
    "odd": ("raise ValueError('odd')", "makes the decoder fail (ValueError: odd)"),
    "bug": ("raise TypeError('odd')", "unexpected TypeError: odd\nThis is a bug"),
    "disk": ("raise OSError(5, 'Input/output error')", "to its end (Input/output error)"),
}
"""Name of a recording -> what its process does, what the message says."""


def test_whatever_a_process_does_costs_one_file(run, words, tmp_path, monkeypatch):
    """Each is named with its reason, -vv shows where it was raised, and the last file is made."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir(), out.mkdir()
    for name in (*FAULTS, "whole"):
        media.recording(folder / f"{name}.mp4", count=2)
    faults = "".join(f"def {name}():\n    {what}\n" for name, (what, *_) in FAULTS.items())
    scripted(monkeypatch, tmp_path, f"{FAULTY}\n{faults}")
    code, _, err = run("video", folder, "-o", out, *words, "-vv")
    done = f"1 of {len(FAULTS) + 1} videos done, {len(FAULTS)} failed: see above"
    assert code == 70 and done in err
    for name, (what, told) in FAULTS.items():
        assert told in err, name
        assert f"{name}.mp4" in err and (f"in {name}\n" in err) == what.startswith("raise"), name
    assert films_in(out) == ["whole.mp4"]


def test_times_that_jump_cost_one_file(run, words, tmp_path):
    """By 25000 s, which MP4 cannot hold and Matroska can; one flipped bit of a time is enough."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir(), out.mkdir()
    pts = [number * 9000 + (25000 * 90000 if number > 3 else 0) for number in range(6)]
    jump = media.recording(folder / "jump.ts", pts=pts, base=Fraction(1, 90000))
    media.recording(folder / "next.mp4", count=2)
    code, _, err = run("video", folder, "-o", out, *words)
    assert code == 65 and "jump.ts: The times of the frames jump by 25000 s" in err, err
    assert films_in(out) == ["next.mp4"]
    code, _, err = run("video", jump, "-o", tmp_path / "long.mkv", *words)
    assert code == 0, err
    assert media.times_of(tmp_path / "long.mkv")[-1] == pytest.approx(25001.9, abs=1.5)
    code, _, err = run("video", jump, "-o", tmp_path / "short.mp4", *words, "--end", 0.4)
    assert code == 0 and len(media.times_of(tmp_path / "short.mp4")) == 4, err


@pytest.mark.parametrize("count", [1, 2])
def test_batches_in_flight_do_not_wait_for_each_other(count, tiny_model, tmp_path, monkeypatch):
    """Two, as on a GPU; signs of life between the batches change nothing."""
    from realtime_lrp.commands.video.overlay import overlay_file
    from realtime_lrp.commands.video.task import Film
    from realtime_lrp.engine.engine import Engine
    from realtime_lrp.realtime.stats import Stats

    chosen = config.load(options={"--model": str(tiny_model), "--batch": 3}).config
    engine = Engine(chosen, moving=True)
    engine.in_flight = count
    monkeypatch.setattr(recoding, "STALLED_S", 60.0)
    source = media.recording(tmp_path / "in.mp4", count=31)
    for number in range(2):
        film = Film(source, tmp_path / f"{number}.mp4")
        report = overlay_file(engine, chosen, film, Stats("CPU", "float32"))
        assert report.frames == 31


def test_a_process_whose_master_died_in_the_middle_of_a_word_ends(tmp_path):
    """It removes all that is unfinished: the film, what stands beside it, a folder of maps."""
    source = media.recording(tmp_path / "in.mp4", count=100)
    film, lines, maps = (tmp_path / f"out.{kind}.1.part" for kind in ("mp4", "jsonl", "maps"))
    film.touch(), lines.touch(), maps.mkdir(), (maps / "maps_000000.npz").touch()
    command = module_command(recoding.__name__)
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    channel = Channel(process.stdout, process.stdin, FROM_CHILD)
    channel.send(job_for(source, film, container=".mp4", parts=(film, lines, maps)))
    while not isinstance(message := channel.receive(), PictureBatch):
        pass
    one = DrawableMap(Drawn(np.ones((32, 32), np.int8), 1.0), (0, 0, 32, 32), "x")
    answer = BatchMaps((one,) * len(message.pictures))
    channel.send(answer)
    sent = io.BytesIO()
    Channel(sent, sent, TO_CHILD).send(answer)
    process.stdin.write(sent.getvalue()[:-20])
    process.stdin.flush()
    process.stdin.close()
    process.stdout.close()
    assert process.wait(60) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["in.mp4"]


def scripted(monkeypatch, tmp_path, code):
    """Makes the decoding process run some lines first."""
    script = tmp_path / "process.py"
    script.write_text(f"from realtime_lrp.commands.video import recoding\n{code}\nrecoding.main()")
    monkeypatch.setattr(recoding, "module_command", lambda _: [sys.executable, str(script)])


FAULTY = """
import os, signal, time
from realtime_lrp.video import reader
frames = reader.VideoReader._items
def faulty(self, sound):
    globals().get(os.path.basename(self._path)[:-4], int)()
    return frames(self, sound)
reader.VideoReader._items = faulty
"""


def test_a_decoder_that_hangs_takes_no_other_file_with_it(run, words, tmp_path, monkeypatch):
    """It is named, the batch goes on, nothing half-written stays."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir(), out.mkdir()
    for name in ("hangs.mp4", "whole.mp4"):
        media.recording(folder / name)
    hanging = tmp_path / "hanging"
    hangs = f"def hangs():\n    open({str(hanging)!r}, 'w').close()\n    time.sleep(3600)"
    scripted(monkeypatch, tmp_path, FAULTY + hangs)

    class OnceItHangs(float):
        """So long a process may be silent: for ever, and no longer when it hangs."""

        def __le__(self, silent_s):
            return hanging.exists() and not hanging.unlink()

    monkeypatch.setattr(recoding, "STALLED_S", OnceItHangs())
    code, _, err = run("video", folder, "-o", out, *words)
    assert code == 65 and "hangs.mp4' makes the decoder hang" in err, err
    assert films_in(out) == ["whole.mp4"]


def test_limits_on_size_and_streams(tmp_path, monkeypatch):
    """A picture beyond the limit and a file of many streams are refused with a message."""
    many = tmp_path / "many.mkv"
    with av.open(many, "w") as container:
        streams = [container.add_stream("ffv1", rate=30) for _ in range(17)]
        for stream in streams:
            stream.height, stream.width, stream.pix_fmt = 48, 64, "bgr0"
        for stream in streams:
            frame = av.VideoFrame.from_ndarray(media.plain(), format="rgb24")
            container.mux([*stream.encode(frame.reformat(format="bgr0")), *stream.encode(None)])
    with pytest.raises(DamagedInputError, match="17 streams"):
        reader.VideoReader(many)
    monkeypatch.setattr(reader, "MOST_PIXELS", 48 * 64 - 1)
    with pytest.raises(DamagedInputError, match="64 x 48"):
        reader.VideoReader(media.recording(tmp_path / "wide.mp4", count=1))


def test_damaged_packets_are_counted(tmp_path, rng):
    """What decodes is written, the rest is reported; the remaining frames keep their times."""
    noise = [rng.integers(0, 256, (96, 128, 3), np.uint8) for _ in range(30)]
    source = media.write_video(tmp_path / "in.mp4", noise, g="5")
    whole = media.times_of(source)
    media.damage(source, rng)
    report = recode(source, tmp_path / "out.mp4")
    times = media.times_of(tmp_path / "out.mp4")
    assert len(times) > 20 and len(times) + report.bad_packets <= 31
    assert set(np.round(times, 4)) <= set(np.round(whole, 4))
    assert report.frames == len(times)


def test_a_recording_that_ends_early_says_so(run, words, tmp_path):
    """Cut off in its second half: fewer frames than it claims to have, nothing undecodable."""
    source = media.recording(tmp_path / "in.mkv", count=60, options={"bf": "0", "g": "10"})
    os.truncate(source, source.stat().st_size * 7 // 10)
    code, _, err = run("video", source, "-o", tmp_path / "out.mp4", *words)
    frames = len(media.times_of(tmp_path / "out.mp4"))
    assert code == 0 and 5 < frames < 55
    assert f"ended early: {frames} of about 60 frames" in err


@pytest.mark.release
def test_killed_it_leaves_no_target_or_a_whole_one(words, tmp_path):
    """SIGKILL while it works; its child removes what is unfinished."""
    source = media.recording(tmp_path / "in.mp4", count=100, size=(240, 320), sound="aac")
    target = tmp_path / "out.mp4"
    beside = ("--sidecar", "--maps", tmp_path / "maps")
    with program.start("video", source, "-o", target, *words, *beside) as process:
        until(lambda: any(part.stat().st_size for part in tmp_path.glob("out.mp4.*.part")))
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not target.exists() or len(media.times_of(target)) == 100
    until(lambda: not list(tmp_path.rglob("*.part")))


def test_interrupted_it_keeps_what_is_finished(run, words, tmp_path, monkeypatch):
    """Ctrl-C: exit code 130, the first file is whole, nothing is left of the second."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir(), out.mkdir()
    media.recording(folder / "a.mp4", count=1)
    media.recording(folder / "b.mp4", count=60)

    def step(*_):
        if list(out.glob("b.mp4*.part")):
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "step", step)
    code, _, err = run("video", folder, "-o", out, *words)
    assert code == 130 and "interrupted: 1 of 2 videos done" in err and "Traceback" not in err
    assert films_in(out) == ["a.mp4"] and len(media.times_of(out / "a.mp4")) == 1


def test_a_full_disk_leaves_nothing_broken(run, words, tmp_path, rng, monkeypatch):
    """A write limit instead of a full disk: exit code 74, nothing left, the source untouched."""
    noise = [rng.integers(0, 256, (240, 320, 3), np.uint8) for _ in range(40)]
    source = media.write_video(tmp_path / "in.mkv", noise)
    limits = "resource.RLIMIT_FSIZE, (200_000, 200_000)"
    scripted(monkeypatch, tmp_path, f"import resource\nresource.setrlimit({limits})")
    code, _, err = run("video", source, "-o", tmp_path / "out.mp4", *words)
    assert code == 74 and "Writing" in err and "Traceback" not in err
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"in.mkv", "labels.txt", "process.py"}


Usage = namedtuple("Usage", "total used free")


def test_room_on_the_disk_is_checked_before_and_during(run, words, tmp_path, monkeypatch):
    """A film that cannot fit is not begun; a disk that fills up ends it; both exit with 74."""
    source = media.recording(tmp_path / "in.mp4", count=100)
    target = tmp_path / "out.mp4"
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: Usage(1, 1, 1 << 20))
        code, _, err = run("video", source, "-o", target, *words)
    assert code == 74 and "1 MiB are free" in err
    fills = "import shutil\nclass U: free = 0\nshutil.disk_usage = lambda path: U"
    scripted(monkeypatch, tmp_path, fills)
    code, _, err = run("video", source, "-o", target, *words)
    assert code == 74 and "is full" in err
    assert sorted(path.name for path in tmp_path.glob("*.mp4*")) == ["in.mp4"]


FRAMES = 12  # a batch of eight, and one that is not full

PROCESS = """
from realtime_lrp.commands.video import recoding
from realtime_lrp.system import child

calls, fault = [], ""

def fails(name):
    calls.append(name)
    if fault == f"{name} {calls.count(name)}":
        raise MemoryError

def failing(owner, method, name, applies=lambda *arguments: True):
    whole = getattr(owner, method)
    def call(self, *arguments):
        if applies(self, *arguments):
            fails(name)
        return whole(self, *arguments)
    setattr(owner, method, call)

decoded, begun = recoding.Recoder._decoded, recoding.Recoder.__init__
def named(self, reader):
    for item in decoded(self, reader):
        fails("decode")
        yield item
    fails("decode")
def begins(self, job, *arguments):
    global fault
    fault = job.source.stem
    begun(self, job, *arguments)
recoding.Recoder._decoded, recoding.Recoder.__init__ = named, begins
failing(recoding.VideoWriter, "write", "write")
failing(child.Channel, "receive", "listen")
failing(child.Channel, "send", "tell", lambda self, message: isinstance(message, recoding.Written))
recoding.WRITTEN_EVERY_S = 0.0
recoding.main()
"""

MOMENTS = ["decode 1", "decode 5", f"decode {FRAMES}", f"write {FRAMES}", "listen 3", "tell 1"]
"""Names of recordings: what fails in their process, and at which call."""
FURTHER = ["decode 2", f"decode {FRAMES + 1}", "write 1", "write 5", "listen 2"]


@pytest.mark.parametrize("moments", [MOMENTS, pytest.param(FURTHER, marks=pytest.mark.release)])
def test_an_error_of_any_thread_of_the_decoding_process_costs_one_film(
    moments, run, words, tmp_path, monkeypatch
):
    """Decoder, encoder, listener, sign of life; in the first frame, in a batch, in the last one."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir(), out.mkdir()
    for name in (*moments, "whole"):
        media.recording(folder / f"{name}.mp4", count=FRAMES)
    script = tmp_path / "process.py"
    script.write_text(PROCESS)
    monkeypatch.setattr(recoding, "module_command", lambda _: [sys.executable, str(script)])
    code, _, err = run("video", folder, "-o", out, *words)
    assert code == 69 and f"{len(moments)} failed" in err
    told = [line for line in err.splitlines() if "The memory does not suffice" in line]
    assert len(told) == len(moments)
    assert all(any(f"/{name}.mp4'" in line for line in told) for name in moments)
    assert films_in(out) == ["whole.mp4"]
    assert len(media.times_of(out / "whole.mp4")) == FRAMES


def test_an_error_of_the_thread_that_listens_to_it_ends_the_run(run, words, tmp_path, monkeypatch):
    """It has not received what it should; nothing is left."""
    source, receive = media.recording(tmp_path / "in.mp4", count=FRAMES), Channel.receive
    for message in (1, 2, 3):
        calls = []

        def failing(channel, calls=calls, message=message):
            calls.append(1)
            if len(calls) > message:
                raise MemoryError
            return receive(channel)

        monkeypatch.setattr(Channel, "receive", failing)
        code, _, err = run("video", source, "-o", tmp_path / "out.mp4", *words)
        assert code == 69 and "The memory does not suffice" in err
        assert not list(tmp_path.glob("out.mp4*"))


LIVE = ("live", "--source", "synthetic", "--display", "none", "--duration", 1)


@pytest.mark.parametrize(
    ("owner", "name", "call", "code"),
    [
        (Capture, "_next_reader", 1, 70),
        (Capture, "_goes_on", 20, 70),
        (ReadingThread, "_hand_over", 1, 70),
        (ReadingThread, "_hand_over", 9, 0),
        (RelevanceThread, "_go_on", 1, 70),
    ],
)
def test_an_error_of_a_thread_of_the_viewer_is_survived_or_ends_it(
    owner, name, call, code, run, words, monkeypatch
):
    """A source that has given pictures is opened again; everything else ends the run."""
    whole, calls = getattr(owner, name), []

    def failing(*arguments):
        calls.append(1)
        if len(calls) == call:
            raise MemoryError("not enough")
        return whole(*arguments)

    monkeypatch.setattr(owner, name, failing)
    ended, _, err = run(*LIVE, *words)
    assert len(calls) >= call and ended == code
    assert ("not enough" if code else "the picture is back") in err
