"""`video` where something goes wrong: damaged input, processes that fail, kills, full disks."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import namedtuple
from fractions import Fraction
from pathlib import Path

import av
import media
import numpy as np
import program
import pytest
from faults import disk
from faults.clock import until
from worker import job_for, recode

from realtime_lrp import config
from realtime_lrp.commands.video import recoding
from realtime_lrp.errors import DamagedInputError, OutputError, TransferError, UsageError
from realtime_lrp.realtime.capture import Capture
from realtime_lrp.realtime.capture import SourceThread as ReadingThread
from realtime_lrp.realtime.explaining import RelevanceThread
from realtime_lrp.results.resume import fingerprint
from realtime_lrp.system.child import Alive, Channel, module_command
from realtime_lrp.system.progress import Progress
from realtime_lrp.video import reader, recorder
from realtime_lrp.video.recorder import KEPT_FREE, Recorder
from realtime_lrp.video.writer import verify
from realtime_lrp.view.painting import Drawn


def films_in(folder):
    """Names of all files but manifests; each of these belongs to a film."""
    names = sorted(os.listdir(folder))
    manifests = [f".{name}.resume.json" for name in names if not name.startswith(".")]
    assert [name for name in names if name.startswith(".")] == manifests
    return [name for name in names if not name.startswith(".")]


def folders_in(tmp_path):
    """An empty folder for inputs and one for outputs."""
    (tmp_path / "in").mkdir(), (tmp_path / "out").mkdir()
    return tmp_path / "in", tmp_path / "out"


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
}  # name of a recording -> what its process does, what the message says


def test_whatever_a_process_does_costs_one_file(run, words, tmp_path, monkeypatch):
    folder, out = folders_in(tmp_path)
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
    folder, out = folders_in(tmp_path)
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
        assert overlay_file(engine, chosen, film, Stats("CPU", "float32")).frames == 31


def test_a_process_whose_master_died_in_the_middle_of_a_word_ends(tmp_path):
    source = media.recording(tmp_path / "in.mp4", count=100)
    film, lines, maps = (tmp_path / f"out.{kind}.1.part" for kind in ("mp4", "jsonl", "maps"))
    film.touch(), lines.touch(), maps.mkdir(), (maps / "maps_000000.npz").touch()
    command = module_command(recoding.__name__)
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    channel = Channel(
        process.stdout, process.stdin, recoding.Opened | recoding.PictureBatch | Alive
    )
    channel.send(job_for(source, film, container=".mp4", parts=(film, lines, maps)))
    while not isinstance(message := channel.receive(), recoding.PictureBatch):
        pass
    one = recoding.DrawableMap(Drawn(np.ones((32, 32), np.int8), 1.0), (0, 0, 32, 32), "x")
    answer = recoding.BatchMaps((one,) * len(message.pictures))
    channel.send(answer)
    sent = io.BytesIO()
    Channel(sent, sent, None).send(answer)
    process.stdin.write(sent.getvalue()[:-20])
    process.stdin.flush()
    process.stdin.close()
    process.stdout.close()
    assert process.wait(60) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["in.mp4"]


def scripted(monkeypatch, tmp_path, code):
    script = tmp_path / "process.py"
    script.write_text(f"from realtime_lrp.commands.video import recoding\n{code}\nrecoding.main()")
    monkeypatch.setattr(recoding, "module_command", lambda _: [sys.executable, str(script)])


FAULTY = """
import os, signal, time
from realtime_lrp.video import reader
frames = reader.VideoReader.items
def faulty(self, sound):
    globals().get(os.path.basename(self._path)[:-4], int)()
    return frames(self, sound)
reader.VideoReader.items = faulty
"""


def test_a_decoder_that_hangs_takes_no_other_file_with_it(run, words, tmp_path, monkeypatch):
    folder, out = folders_in(tmp_path)
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
    source = media.recording(tmp_path / "in.mkv", count=60, options={"bf": "0", "g": "10"})
    os.truncate(source, source.stat().st_size * 7 // 10)
    code, _, err = run("video", source, "-o", tmp_path / "out.mp4", *words)
    frames = len(media.times_of(tmp_path / "out.mp4"))
    assert code == 0 and 5 < frames < 55
    assert f"ended early: {frames} of about 60 frames" in err


@pytest.mark.release
def test_killed_it_leaves_no_target_or_a_whole_one(words, tmp_path):
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
    folder, out = folders_in(tmp_path)
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
    noise = [rng.integers(0, 256, (240, 320, 3), np.uint8) for _ in range(40)]
    source = media.write_video(tmp_path / "in.mkv", noise)
    limits = "resource.RLIMIT_FSIZE, (200_000, 200_000)"
    scripted(monkeypatch, tmp_path, f"import resource\nresource.setrlimit({limits})")
    code, _, err = run("video", source, "-o", tmp_path / "out.mp4", *words)
    assert code == 74 and "Writing" in err and "Traceback" not in err
    assert {path.name for path in tmp_path.iterdir()} == {"in.mkv", "labels.txt", "process.py"}


Usage = namedtuple("Usage", "total used free")


def test_room_on_the_disk_is_checked_before_and_during(run, words, tmp_path, monkeypatch):
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

decoded, received = recoding.Recoder._decoded, child.Channel.receive
def named(self, reader):
    for item in decoded(self, reader):
        fails("decode")
        yield item
    fails("decode")
def listens(self):
    global fault
    fails("listen")
    message = received(self)
    if isinstance(message, recoding.RecodingOrder):
        fault = message.source.stem
    return message
recoding.Recoder._decoded, child.Channel.receive = named, listens
failing(recoding.VideoWriter, "write", "write")
failing(child.Channel, "send", "tell", lambda self, message: isinstance(message, child.Alive))
recoding.ALIVE_EVERY_S = 0.0
"""

MOMENTS = ["decode 1", "decode 5", f"decode {FRAMES}", f"write {FRAMES}", "listen 3", "tell 1"]
"""Names of recordings: what fails in their process, and at which call."""
FURTHER = ["decode 2", f"decode {FRAMES + 1}", "write 1", "write 5", "listen 2"]


@pytest.mark.parametrize("moments", [MOMENTS, pytest.param(FURTHER, marks=pytest.mark.release)])
def test_an_error_of_any_thread_of_the_decoding_process_costs_one_film(
    moments, run, words, tmp_path, monkeypatch
):
    folder, out = folders_in(tmp_path)
    for name in (*moments, "whole"):
        media.recording(folder / f"{name}.mp4", count=FRAMES)
    scripted(monkeypatch, tmp_path, PROCESS)
    code, _, err = run("video", folder, "-o", out, *words)
    assert code == 69 and f"{len(moments)} failed" in err
    told = [line for line in err.splitlines() if "The memory does not suffice" in line]
    assert len(told) == len(moments)
    assert all(any(f"/{name}.mp4'" in line for line in told) for name in moments)
    assert films_in(out) == ["whole.mp4"]
    assert len(media.times_of(out / "whole.mp4")) == FRAMES


def test_an_error_of_the_thread_that_listens_to_it_ends_the_run(run, words, tmp_path, monkeypatch):
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


@pytest.mark.parametrize(
    ("owner", "name", "call", "code"),
    [
        (Capture, "_next_reader", 1, 70), (Capture, "_goes_on", 20, 70),
        (ReadingThread, "_hand_over", 1, 70), (ReadingThread, "_hand_over", 9, 0),
        (RelevanceThread, "_go_on", 1, 70),
    ],
)  # fmt: skip
def test_an_error_of_a_thread_of_the_viewer_is_survived_or_ends_it(
    owner, name, call, code, run, words, monkeypatch
):
    whole, calls = getattr(owner, name), []

    def failing(*arguments):
        calls.append(1)
        if len(calls) == call:
            raise MemoryError("not enough")
        return whole(*arguments)

    monkeypatch.setattr(owner, name, failing)
    live = ("live", "--source", "synthetic", "--display", "none", "--duration", 1)
    ended, _, err = run(*live, *words)
    assert len(calls) >= call and ended == code
    assert ("not enough" if code else "the picture is back") in err


def test_resume_skips_what_is_finished_and_only_that(run, words, tmp_path):
    folder, out = folders_in(tmp_path)
    for name, count in (("a.mp4", 4), ("b.mp4", 5)):
        media.recording(folder / name, count=count, metadata={"comment": "mine", "title": "T"})
    command = ("video", folder, "-o", out, *words, "--resume")
    code, stdout, _ = run(*command)
    assert code == 0 and stdout.count("frames ->") == 2
    with av.open(out / "a.mp4") as container:
        assert container.metadata["title"] == "T"
        assert container.metadata["comment"].startswith("mine\nrealtime_lrp")
    made = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    code, stdout, _ = run(*command)
    assert code == 0 and stdout.count("finished before") == 2
    assert {path: path.stat().st_mtime_ns for path in out.iterdir()} == made
    code, _, err = run(*command, "--opacity", 0.1)
    assert code == 73 and "other settings" in err and "--overwrite" in err
    shutil.copy(folder / "b.mp4", folder / "a.mp4")
    code, stdout, err = run(*command)
    assert code == 73 and "b.mp4: finished before" in stdout, "the other file is done"
    assert "a.mp4' was made from another source" in err and "1 of 2 videos done" in err
    code, stdout, _ = run(*command, "--overwrite")
    assert code == 0 and "a.mp4: 5 frames" in stdout and "b.mp4: finished before" in stdout
    code, stdout, err = run(*command, "--sidecar")  # the same settings, but something is missing
    assert code == 0 and stdout.count("frames ->") == 2
    assert "a.mp4 is made again: a.jsonl is missing or has changed" in err
    assert (out / "a.jsonl").exists()


def test_outputs_that_exist_are_told_before_any_work(run, words, tmp_path):
    for name in ("a.mp4", "b.mp4"):
        media.recording(tmp_path / name, count=2)
        (tmp_path / "maps" / name[0]).mkdir(parents=True)
    (tmp_path / "out").mkdir()
    inputs = (tmp_path / "a.mp4", tmp_path / "b.mp4")
    code, out, err = run(
        "video", *inputs, "-o", tmp_path / "out", *words, "--maps", tmp_path / "maps"
    )
    assert (code, out) == (73, "") and "maps/a' exists" in err
    assert "(1 more cannot be made either.)" in err and not list((tmp_path / "out").glob("*"))


def test_resume_makes_again_what_is_not_known_to_be_whole(run, words, tmp_path):
    source, target = media.recording(tmp_path / "in.mp4", count=3), tmp_path / "out.mp4"
    command = ("video", source, "-o", target, *words, "--sidecar", "--maps", tmp_path / "maps")
    command = (*command, "--resume")
    assert run(*command)[0] == 0
    film, sidecar = target.read_bytes(), tmp_path / "out.jsonl"
    chunk = tmp_path / "maps" / "out" / "maps_000000.npz"
    for spoil, told in [
        (lambda: sidecar.write_text(sidecar.read_text().replace("1", "2")), "out.jsonl is missing"),
        (lambda: os.truncate(chunk, 100), "out is missing or has changed"),
        (lambda: shutil.rmtree(tmp_path / "maps" / "out"), "out is missing or has changed"),
    ]:
        spoil()
        code, out, err = run(*command)
        assert code == 0 and "3 frames" in out and f"out.mp4 is made again: {told}" in err, err
        code, out, err = run(*command)
        assert (code, err) == (0, "") and "finished before" in out
    target.unlink()  # killed just before the film got its name
    assert run(*command)[0] == 0 and target.read_bytes() == film
    target.unlink()
    sidecar.write_text("precious")
    assert run(*command)[0] == 73 and sidecar.read_text() == "precious"


@pytest.mark.parametrize("manifest", [None, "{"], ids=["no manifest", "a damaged one"])
def test_resume_replaces_no_film_that_it_does_not_know(run, words, tmp_path, manifest):
    source, target = media.recording(tmp_path / "in.mp4", count=3), tmp_path / "out.mp4"
    target.write_bytes(b"precious")
    if manifest:
        (tmp_path / ".out.mp4.resume.json").write_text(manifest)
    command = ("video", source, "-o", target, *words, "--resume")
    code, _, err = run(*command)
    assert code == 73 and "out.mp4' exists. Add --overwrite" in err
    assert target.read_bytes() == b"precious"
    assert run(*command, "--overwrite")[0] == 0
    code, out, _ = run(*command)
    assert code == 0 and "finished before" in out


def test_resume_replaces_nothing_of_the_users(run, words, tmp_path):
    source, target = media.recording(tmp_path / "in.mp4", count=3), tmp_path / "out.mp4"
    command = ("video", source, "-o", target, *words, "--resume", "--sidecar")
    sidecar = tmp_path / "out.jsonl"
    sidecar.write_text("precious")
    code, _, err = run(*command)
    assert code == 73 and "out.jsonl" in err and sidecar.read_text() == "precious"
    sidecar.unlink()
    assert run(*command)[0] == 0
    target.write_bytes(b"edited")
    code, _, err = run(*command)
    assert code == 73 and "has changed since it was made. Add --overwrite" in err
    assert target.read_bytes() == b"edited"


def test_two_jobs_do_not_write_one_film(run, words, tmp_path):
    source, target = media.recording(tmp_path / "in.mp4", count=3), tmp_path / "out.mp4"
    other = subprocess.Popen(["sleep", "60"])
    (tmp_path / f"out.mp4.{other.pid}.part").touch()
    command = ("video", source, "-o", target, *words, "--resume")
    code, _, err = run(*command)
    assert code == 73 and "is being written by another process" in err
    other.kill(), other.wait()
    assert run(*command)[0] == 0


def test_a_film_appears_after_all_that_stands_beside_it(monkeypatch, run, words, tmp_path):
    source, target = media.recording(tmp_path / "in.mp4", count=3), tmp_path / "out.mp4"
    beside = ("--sidecar", "--summary", "--maps", tmp_path)
    command = ("video", source, "-o", target, *words, *beside, "--overwrite")
    assert run(*command)[0] == 0
    placed, replace = [], os.replace

    def noted(part, name):
        placed.append(Path(name).name)
        replace(part, name)

    monkeypatch.setattr(os, "replace", noted)
    assert run(*command)[0] == 0
    assert (placed[0], placed[-1]) == (".out.mp4.resume.json", "out.mp4")
    assert sorted(placed[1:-1]) == ["out.jsonl", "out.summary.png"]


def test_what_a_killed_run_left_is_named(run, words, tmp_path):
    source = media.recording(tmp_path / "in.mp4", count=2)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for number in (gone.pid, os.getpid()):
        (tmp_path / f"out.mp4.{number}.part").touch()
    code, _, err = run("video", source, "-o", tmp_path / "out.mp4", *words)
    assert code == 0
    assert f"out.mp4.{gone.pid}.part was left" in err and f".{os.getpid()}.part was left" not in err


def test_a_setting_counts_for_resume_where_it_shapes_the_film(tmp_path):
    source = media.recording(tmp_path / "in.mp4", count=2)

    def print_of(*sets):
        return fingerprint(source, config.load(sets=sets, command="video").config, {})

    for setting in ("model.preprocess=none", "lrp.target=red", "input.fit=squash",
                    "input.mirror=true", "overlay.opacity=0.1", "video.quality=30",
                    "video.codec=hevc"):  # fmt: skip
        assert print_of(setting) != print_of(), setting
    for setting in ("video.batch=3", "overlay.average=0.5", "live.camera_fps=15"):
        assert print_of(setting) == print_of(), setting


CALLS = "rename,renameat,renameat2,link,linkat"


def killed_at(number, command):
    """Runs a command and kills it at its n-th rename or link; whether it was killed."""
    strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={CALLS}"]
    strace += ["-e", f"inject={CALLS}:signal=KILL:when={number}"]
    words = [*strace, sys.executable, "-m", "realtime_lrp", *map(str, command)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, -9, 137), done.stderr
    return done.returncode != 0


@pytest.mark.release
@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
@pytest.mark.parametrize("command", ["video", "image"])
def test_a_run_that_was_killed_at_any_rename_goes_on(command, run, words, tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    for name in "ab":
        if command == "video":
            media.recording(source / f"{name}.mp4", count=3)
        else:
            media.write_picture(source / f"{name}.png", media.plain())

    def words_for(folder):
        folder.mkdir(exist_ok=True)
        beside = ("--sidecar", "--summary", "--maps", folder / "maps")
        return (command, source, "-o", folder, *words, *(beside if command == "video" else ()))

    whole = tmp_path / "whole"
    assert run(*words_for(whole))[0] == 0
    names = sorted(str(path.relative_to(whole)) for path in whole.rglob("*"))
    number = 1
    while killed_at(number, words_for(tmp_path / str(number))):
        folder = tmp_path / str(number)
        code, _, err = run(*words_for(folder), "--resume")
        assert code == 0, (number, err)
        left = [path for path in folder.rglob("*") if ".part" not in path.name]
        made = [path for path in left if ".part" not in path.parent.name]
        assert sorted(str(path.relative_to(folder)) for path in made) == names, number
        code, out, err = run(*words_for(folder), "--resume")
        assert code == 0 and out.count("finished before") == 2, (number, err)
        number += 1
    assert number > (6 if command == "video" else 2)


SMALL = {
    "stats": ["stats.json"], "npz": ["out.npz"],
    "maps": ["maps", "maps/out", "maps/out/maps_000000.npz"],
}  # fmt: skip
"""What fits into a nearly full disk."""


@pytest.fixture(scope="module")
def commands(tiny_model, tmp_path_factory):
    """Name -> words; each writes more than there is room for."""
    folder = tmp_path_factory.mktemp("in")
    picture = media.write_picture(folder / "in.png", media.plain(size=(480, 640)))
    film = media.write_video(folder / "in.mp4", media.numbered(12, (240, 320)))
    tiny = ("--model", tiny_model, "--preprocess", "none")
    beside = (picture, "-o", folder / "out.png", "--overwrite")
    live = ("live", "--source", "synthetic", "--display", "none", "--duration", "0.5", *tiny)
    return {
        "png": ("image", picture, "-o", "DISK/out.png", *tiny),
        "jpg": ("image", picture, "-o", "DISK/out.jpg", *tiny),
        "npz": ("image", picture, "-o", "DISK/out.npz", *tiny),
        "maps": ("image", *beside, "--maps", "DISK/maps", *tiny),
        "video": ("video", film, "-o", "DISK/out.mp4", "--sidecar", "--summary", *tiny),
        "demo": ("demo", "-o", "DISK/demo.mp4"),
        "inspect": ("inspect", picture, "--logdir", "DISK/runs", *tiny),
        "stats": (*live, "--stats", "DISK/stats.json"),
        "record": (*live, "--record", "DISK/view.mp4"),
    }


@pytest.mark.release
@pytest.mark.parametrize("free", ["nearly full", "full"])
def test_what_does_not_fit_is_told_and_leaves_nothing(commands, free, tmp_path):
    if why := disk.missing():
        pytest.skip(f"no file system can be mounted: {why}")
    room = 8 << 10 if free == "nearly full" else 0
    answers = disk.on_a_full_disk(tmp_path / "disk", room, commands.values())
    for name, (code, said, left) in zip(commands, answers, strict=True):
        fits = SMALL.get(name) if room else None
        assert (code, left) == ((0, fits) if fits else (74, [])), (name, said)
        assert fits or (len(said.splitlines()) == 1 and "/disk" in said), said


SIZE = (48, 64)
ENDINGS = (".mp4", ".mov", ".mkv")


def put_all(into, times, pictures=None):
    for number, at in enumerate(times):
        into.put(pictures[number] if pictures else media.plain(size=SIZE), at, {"put": at})


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
    colours = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0), (200, 120, 40)]
    target = tmp_path / "view.mp4"
    with Recorder(target, SIZE) as recording:
        put_all(recording, np.arange(6) / 30, [media.plain(colour, SIZE) for colour in colours])
    assert b"moof" not in target.read_bytes()
    assert opened(target)[5] == (1, 1, 1, 1)
    with av.open(target) as container:
        for frame, colour in zip(container.decode(video=0), colours, strict=True):
            assert np.abs(frame.to_ndarray(format="rgb24").astype(int) - colour).max() <= 4


def test_a_slow_encoder_never_blocks(monkeypatch, tmp_path):
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
