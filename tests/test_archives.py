"""`video --workers` and `--ray`: what several workers make is what one process makes."""

import ast
import json
import logging
import os
import signal
import socket
import tempfile
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import av
import crew
import media
import numpy as np
import psutil
import pytest

import realtime_lrp.commands.video.archive.run as archive_run
from realtime_lrp.cli import main
from realtime_lrp.commands.video import alive
from realtime_lrp.commands.video.archive import child as make_parts
from realtime_lrp.commands.video.archive import cluster, job, watching, worker
from realtime_lrp.commands.video.archive import crew as archive_crew
from realtime_lrp.commands.video.archive.crew import Member, Step
from realtime_lrp.commands.video.archive.filework import FileWork, Part, Waiting
from realtime_lrp.commands.video.archive.losses import Losses
from realtime_lrp.commands.video.archive.orders import Loaded, Order, Status
from realtime_lrp.commands.video.archive.worker import Worker
from realtime_lrp.commands.video.messages import Join, Piece, PlanParts, Written
from realtime_lrp.engine import engine
from realtime_lrp.engine.engine import Engine
from realtime_lrp.errors import UnavailableError
from realtime_lrp.system import progress
from realtime_lrp.system.temporary import temporary_folder
from realtime_lrp.video.cutting import Frames, cuts
from realtime_lrp.video.reader import VideoReader
from realtime_lrp.video.writer import VideoWriter
from realtime_lrp.view.overlay import SMOOTHING, Scale

PACKAGE = Path(__file__).parents[1] / "realtime_lrp"
LOSSLESS = ("--quality", "0", "--sidecar")


@pytest.fixture(scope="module")
def engines():
    """Engines by their settings: each is loaded once."""
    return {}


@pytest.fixture
def archive(run, network, engines, monkeypatch):
    """Runs `video` with workers that are threads, in parts of 16 frames; gives also the cluster."""

    def load(config, **options):
        key = config.model_dump_json(), tuple(options.items())
        if key not in engines:
            engines[key] = Engine(config, **options)
        return engines[key]

    monkeypatch.setattr(engine, "Engine", load)
    monkeypatch.setattr(job, "PART_S", 16 / 30)
    monkeypatch.setattr(job, "AGAIN_S", 0.01)
    monkeypatch.setattr(job, "TICK_S", 0.05)
    monkeypatch.setattr(archive_run, "available_bytes", lambda: 1 << 40)  # else fewer workers
    monkeypatch.setattr(watching, "EVERY_S", 0.1)
    level = logging.root.level

    def run_archive(*arguments, on_call=lambda method, arguments: None):
        made = crew.ThreadCluster(on_call)
        monkeypatch.setattr(archive_run, "Cluster", lambda address: made)
        return (*run("video", *arguments, "--workers", 2, *network), made)

    yield run_archive
    logging.root.setLevel(level)


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    """A folder with a turned recording of 72 frames with sound, and two short ones."""
    folder = tmp_path_factory.mktemp("clips")
    options = {"bf": "2", "g": "12", "keyint_min": "12"}
    media.recording(
        folder / "long.mp4", 72, sound="aac", rotation=90, options=options, offset_s=1,
        metadata={"title": "a day"}, pts=[3 * n + n % 3 for n in range(72)],
        base=Fraction(1, 90),
    )  # fmt: skip
    media.recording(folder / "short.mkv", 12)
    media.recording(folder / "other.mp4", 10)
    return folder


@pytest.fixture(scope="module")
def network(tiny_model, tmp_path_factory):
    """Options for the tiny network, with labels in a file that all tests share."""
    labels = tmp_path_factory.mktemp("labels") / "labels.txt"
    labels.write_text("red\ngreen\nblue\nother\n")
    return ("--model", tiny_model, "--preprocess", "none", "--labels", labels)


@pytest.fixture(scope="module")
def alone(clips, network, tmp_path_factory):
    """What one process makes of the clips: (folder of the films, folder of the raw maps)."""
    folder = tmp_path_factory.mktemp("alone")
    (folder / "films").mkdir()
    words = "-o", folder / "films", "--maps", folder / "maps", *LOSSLESS, *network
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr("sys.argv", ["realtime-lrp", "video", *map(str, (clips, *words))])
        main()
    assert ended.value.code == 0
    return folder / "films", folder / "maps"


def decoded(path):
    """The exact time and the planes of each frame."""
    with av.open(path) as container:
        return [
            (frame.pts * frame.time_base, frame.to_ndarray(format="yuv420p"))
            for frame in container.decode(video=0)
        ]


def described(path):
    """What a film says of itself and its pictures."""
    with av.open(path) as container:
        stream = container.streams.video[0]
        metadata = dict(container.metadata)
        return (
            metadata, stream.average_rate, stream.width, stream.height, stream.time_base,
            stream.codec_context.color_range, stream.codec_context.colorspace, container.duration,
        )  # fmt: skip


def assert_same_film(one, other):
    """Every frame with its time, the sound, and what the film says of itself."""
    frames, others = decoded(one), decoded(other)
    assert [time for time, _ in frames] == [time for time, _ in others]
    for (_, picture), (_, wanted) in zip(frames, others, strict=True):
        np.testing.assert_array_equal(picture, wanted)
    assert described(one) == described(other)


def test_parts_are_joined_to_what_one_process_makes(archive, alone, clips, tmp_path):
    """Frames, times, sound, rotation and tags; sidecars and raw maps; without loss, so exactly."""
    films, maps = alone
    (tmp_path / "out").mkdir()
    code, out, _, made = archive(
        clips / "long.mp4", "-o", tmp_path / "out", "--maps", tmp_path / "maps", *LOSSLESS
    )
    assert (code, len(out.splitlines())) == (0, 1)
    assert made.count("whole") == 1  # raw maps come in files of 256, so parts do, too
    (tmp_path / "again").mkdir()
    code, out, _, made = archive(clips, "-o", tmp_path / "again", *LOSSLESS)
    assert (code, made.count("explain"), made.count("draw"), made.count("whole")) == (0, 4, 4, 2)
    made_here = [(tmp_path / "out", "long.mp4")]
    made_here += [(tmp_path / "again", name) for name in ("long.mp4", "short.mp4", "other.mp4")]
    for folder, name in made_here:
        new, old = folder / name, films / name
        assert_same_film(new, old)
        assert new.with_suffix(".jsonl").read_bytes() == old.with_suffix(".jsonl").read_bytes()
    assert media.sound_of(tmp_path / "again/long.mp4") == media.sound_of(films / "long.mp4")
    ours, theirs = (np.load(f / "long" / "maps_000000.npz") for f in (tmp_path / "maps", maps))
    for key in ("relevance", "scale", "names", "times", "box"):
        np.testing.assert_array_equal(ours[key], theirs[key])


@pytest.mark.release
@pytest.mark.parametrize(
    ("codec", "ending"),
    [("hevc", ".mp4"), ("hevc", ".mkv"), ("av1", ".mp4"), ("av1", ".mkv"), ("h264", ".mov")],
)
def test_parts_of_every_codec_are_joined(codec, ending, archive, run, network, clips, tmp_path):
    """Without encoding again; what they hold differs from one process as encoders differ."""
    words = clips / "long.mp4", "--codec", codec
    code, _, told, made = archive(*words, "-o", tmp_path / f"a{ending}")
    assert (code, made.count("draw"), made.count("whole")) == (0, 4, 0), told
    assert run("video", *words, "-o", tmp_path / f"b{ending}", *network)[0] == 0
    ours, others = (decoded(tmp_path / f"{name}{ending}") for name in "ab")
    assert [time for time, _ in ours] == [time for time, _ in others]
    for (_, picture), (_, wanted) in zip(ours, others, strict=True):
        assert np.square(picture.astype(float) - wanted).mean() < 255**2 / 10**3  # 30 dB
    # the last frame in the file may be another one, with another duration
    ours, theirs = (list(described(tmp_path / f"{name}{ending}")) for name in "ab")
    assert abs(ours.pop(1) / theirs.pop(1) - 1) < 0.01 and abs(ours.pop() - theirs.pop()) < 50_000
    assert ours == theirs


@pytest.mark.release
def test_parts_in_hevc_without_loss_are_those_of_one_process(
    archive, run, network, clips, tmp_path
):
    """As with H.264."""
    words = clips / "long.mp4", "--codec", "hevc", *LOSSLESS
    code, _, told, made = archive(*words, "-o", tmp_path / "a.mp4")
    assert (code, made.count("draw")) == (0, 4), told
    assert run("video", *words, "-o", tmp_path / "b.mp4", *network)[0] == 0
    ours, others = (decoded(tmp_path / f"{name}.mp4") for name in "ab")
    assert [time for time, _ in ours] == [time for time, _ in others]
    for (_, picture), (_, wanted) in zip(ours, others, strict=True):
        np.testing.assert_array_equal(picture, wanted)


def test_a_lost_worker_costs_its_part_and_no_frame(archive, alone, clips, tmp_path):
    """Two workers are lost, with what they have explained."""
    count, lock = 0, threading.Lock()

    def lose_some(method, arguments):
        nonlocal count
        with lock:
            if method in ("explain", "draw", "plan"):
                count += 1
                if count in (2, 5):
                    crew.lost()

    code, out, told, made = archive(
        clips / "long.mp4", "-o", tmp_path / "a.mp4", *LOSSLESS, on_call=lose_some
    )
    assert (code, out.count("72 frames")) == (0, 1)
    assert told.count("is lost") == 2 and made.count("explain") >= 4
    assert_same_film(tmp_path / "a.mp4", alone[0] / "long.mp4")
    sidecar = alone[0] / "long.jsonl"
    assert (tmp_path / "a.jsonl").read_bytes() == sidecar.read_bytes()
    assert not list(tmp_path.glob(".a.mp4.parts"))


def test_a_part_that_always_fails_names_its_file_and_the_others_are_made(archive, clips, tmp_path):
    """Three workers are lost with it; then its recording is given up, with exit code 65."""

    def lose(method, arguments):
        if method == "explain" and arguments[1].number == 1:
            crew.lost()

    code, out, told, _ = archive(clips, "-o", tmp_path, "--json", on_call=lose)
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 65 and told.count("is lost") == 3
    assert not list(tmp_path.glob(".*/owner*"))
    assert "long.mp4 ended 3 workers" in told and "2 of 3 videos done, 1 failed" in told
    ends = {row["file"]: row["event"] for row in rows if row["event"] != "progress"}
    assert ends == {"long.mp4": "failed", "short.mkv": "done", "other.mp4": "done"}
    progress = [row for row in rows if row["event"] == "progress"]
    assert progress and {"files", "parts", "fps", "seconds_left", "workers"} <= progress[-1].keys()
    assert not (tmp_path / "long.mp4").exists() and (tmp_path / "short.mp4").exists()
    page = (tmp_path / "archive.html").read_text()
    assert "ended 3 workers" in page


@pytest.mark.parametrize("full", [1, 2])
def test_a_full_disk_of_a_worker_costs_only_time(
    full, archive, alone, clips, tmp_path, monkeypatch
):
    """Other workers do its parts; if there are none, after three tries an error names the disk."""
    inner, disks = Worker.whole.__wrapped__, []

    def whole(self, *arguments):
        folder = self._new_folder()
        (folder / "film").write_bytes(b"begun")
        if self not in disks and len(disks) < full:
            disks.append(self)
        if self in disks:
            raise OSError(28, "No space left on device")
        return inner(self, *arguments)

    monkeypatch.setattr(Worker, "whole", worker._outcome(whole))
    out = tmp_path / "out"
    out.mkdir()
    sources = clips / "short.mkv", clips / "other.mp4"
    code, _, told, made = archive(*sources, "-o", out, *LOSSLESS)
    where = f"{str(disks[0]._folder)!r} on {socket.gethostname()} failed: [Errno 28] No space left"
    if full == 1:
        assert code == 0 and where in told and "rests" in told
        for name in ("short.mp4", "other.mp4"):
            assert_same_film(out / name, alone[0] / name)
    else:
        assert code == 74 and "No worker has room on its disk: writing to" in told
        assert made.count("whole") >= 6 and not list(out.glob("*.mp4"))
    assert not any(list(one._folder.rglob("film")) for one in disks)


def test_the_same_command_goes_on_where_it_was_stopped(archive, alone, clips, tmp_path):
    """Parts that are done stay, unless they were changed or belong to other settings."""
    words = clips / "long.mp4", "-o", tmp_path / "a.mp4", *LOSSLESS
    drawn = 0

    def stop(method, arguments):
        nonlocal drawn
        drawn += method == "draw"
        if drawn == 3:
            raise KeyboardInterrupt

    code, _, told, _ = archive(*words, on_call=stop)
    parts = tmp_path / ".a.mp4.parts"
    assert code == 130 and not (tmp_path / "a.mp4").exists()
    done = sorted(one.name for one in parts.iterdir() if one.is_dir())
    assert 1 <= len(done) <= 2 and not [name for name in done if "part" in name]
    (parts / done[0] / "rows.jsonl").write_text("{}")
    code, _, told, made = archive(*words, "--resume")
    assert (code, made.count("explain"), made.count("plan")) == (0, 5 - len(done), 0)
    assert "rows.jsonl is missing or has changed" in told
    assert_same_film(tmp_path / "a.mp4", alone[0] / "long.mp4")
    code, out, _, made = archive(*words, "--resume")
    assert (code, made.calls, "finished before" in out) == (0, [], True)


@pytest.mark.release
def test_parts_of_other_settings_are_not_used(archive, clips, tmp_path):
    """Here another opacity."""
    words = clips / "long.mp4", "-o", tmp_path / "a.mp4"

    def stop(method, arguments):
        if method == "draw" and arguments[1].number == 1:
            raise KeyboardInterrupt

    assert archive(*words, on_call=stop)[0] == 130
    code, _, _, made = archive(*words, "--resume", "--opacity", "0.5")
    assert (code, made.count("plan"), made.count("explain")) == (0, 1, 4)


def test_two_jobs_do_not_make_one_film(archive, clips, tmp_path):
    """The second one is refused as long as the first one runs; one that was killed is forgotten."""
    parts = tmp_path / ".a.mp4.parts"
    parts.mkdir()
    (parts / f"owner-{os.getppid()}").touch()
    words = clips / "other.mp4", "-o", tmp_path / "a.mp4"
    code, _, told, _ = archive(*words)
    assert code == 73 and "another job" in told
    (parts / f"owner-{os.getppid()}").rename(parts / "owner-999999999")
    assert archive(*words)[0] == 0 and not parts.exists()


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("interlaced", marks=pytest.mark.release),
        pytest.param("damaged", marks=pytest.mark.release),
        "transport stream",
    ],
)
def test_what_cannot_be_cut_is_made_in_one_piece(kind, archive, tmp_path, rng):
    """Its pictures depend on those before, or its times are not known before it is decoded."""
    name = "a.ts" if kind == "transport stream" else "a.mp4"
    options = {"flags": "+ildct+ilme", "x264opts": "tff=1"} if kind == "interlaced" else {}
    source = media.recording(tmp_path / name, 64, options={"g": "12", **options})
    if kind == "damaged":
        media.damage(source, rng)
    code, _, _, made = archive(source, "-o", tmp_path / "b.mp4")
    assert (code, made.count("whole")) == (0, 1)


def test_nothing_of_ray_is_imported_without_an_option():
    """One file imports it, and nothing imports that file but what the options start."""
    importing = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            for module in modules:
                if module.split(".")[0] == "ray" or module.endswith("archive.cluster"):
                    importing.setdefault(path.name, set()).add(module.split(".")[-1])
    ours = ("crew.py", "fetching.py", "hiring.py", "job.py", "run.py", "watching.py")
    assert importing == {"cluster.py": {"ray"}, **{name: {"cluster"} for name in ours}}


@pytest.mark.parametrize(
    ("address", "code", "expected"),
    [("nonsense", 2, "HOST:PORT or auto"), ("127.0.0.1:1", 69, "There is no Ray cluster")],
)
def test_a_cluster_that_is_not_there_is_named(address, code, expected, run, network, tmp_path):
    """At once, not after Ray's two minutes."""
    source = media.recording(tmp_path / "a.mp4")
    words = "video", source, "-o", tmp_path / "b.mp4", "--ray", address, *network
    ended, _, told = run(*words)
    assert ended == code and expected in told


def test_without_ray_a_message_says_how_to_install_it(run, network, tmp_path, monkeypatch):
    """As with the other extras."""
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    source = media.recording(tmp_path / "a.mp4")
    code, _, told = run("video", source, "-o", tmp_path / "b.mp4", "--workers", 2, *network)
    assert code == 69 and 'pip install "realtime-lrp[cluster]"' in told


def test_cuts_lie_behind_key_frames_at_multiples():
    """So little is decoded in vain, and batches are those of one process."""
    frames = Frames(list(range(1000)), [0, 95, 190, 330, 480, 700], 0, (1,))
    assert cuts(frames, 200, 16) == [0, 192, 336, 480, 704]
    assert cuts(frames, 2000, 16) == [0]
    assert cuts(Frames(list(range(1000)), [0], 0, (1,)), 100, 16) == [0]


def test_a_recording_that_takes_long_to_read_is_not_taken_for_one_that_hangs(
    clips, tmp_path, monkeypatch
):
    """The child shows its parent that it is alive while it looks for cuts, joins, and verifies."""
    monkeypatch.setattr(alive, "EVERY_S", 0.01)
    signs = threading.Semaphore(0)

    class Parent:
        def send(self, message):
            assert message == Written(0)
            signs.release()

    def waiting(function):
        def slow(*arguments):
            assert signs.acquire(timeout=60)
            return function(*arguments)

        return slow

    def verified(*arguments):
        while signs.acquire(blocking=False):
            pass
        assert signs.acquire(timeout=60)

    source = clips / "long.mp4"
    with monkeypatch.context() as patch:
        patch.setattr(VideoReader, "heard_until", waiting(VideoReader.heard_until))
        found = make_parts.plan(PlanParts(source, None, 0.1, 1, 0), Parent())
    assert len(found.parts) > 1
    pts = tuple(pts for part in found.parts for pts in part.pts)
    monkeypatch.setattr(VideoWriter, "copy", waiting(VideoWriter.copy))
    monkeypatch.setattr(make_parts, "verify", verified)
    film = tmp_path / "film.mp4"
    asked = Join(source, film, ".mp4", "", "", None, True, "h264", (source,), pts, found.last)
    assert make_parts.join(asked, Parent()).frames == len(pts)


def test_scales_of_parts_follow_each_other(rng):
    """Whatever the order in which parts are explained, also behind maps that are far too large."""
    scales = rng.random(40) * 10
    scales[[9, 10, 25]] *= 1e4
    whole, wanted = Scale(SMOOTHING), []
    for scale in scales:
        whole(scale)
        wanted.append(whole.value)
    pieces = tuple(Piece(n, 10 * n, tuple(range(10)), (0, 1)) for n in range(4))
    work = FileWork(0, None, None, 0)
    work.parts = [Part(piece) for piece in pieces]
    for number in (2, 1, 3, 0):
        assert work.can_draw(number) == (number == 0)
        work.explained(number, list(scales[10 * number : 10 * number + 10]))
    assert [part.after for part in work.parts] == wanted[9::10]


def test_a_part_that_was_lost_is_done_by_the_only_worker_that_is_left():
    """Though the parts that this one has explained wait for it; but not beside another part."""
    work = FileWork(0, None, None, 0, lost={1: ["explain"]})
    work.parts = [Part(None), Part(None), Part(None)]
    work.parts[0].after = 1.0
    member = Member(1, None, undrawn=[(work, 0, 2)] * 3)
    waiting = Waiting(0, 1, work)
    assert member.take_drawable() is None and member.may_compute(waiting)
    member.steps["a call"] = Step("draw", work, 2)
    assert not member.may_compute(waiting)


def test_only_as_many_workers_are_begun_as_fit(monkeypatch, caplog):
    """A line says why; a cluster's machines are left to Ray."""
    monkeypatch.setattr(archive_run, "available_bytes", lambda: 3 << 30)
    first = Loaded(1 << 30, "{}", "CPU", "float32", "here", 1)
    assert archive_run.Fitting(4, local=True)(first) == 2
    assert "4 workers are asked for, 2 fit: one takes 1.39 GiB, 3.00 GiB are free" in caplog.text
    assert archive_run.Fitting(4, local=False)(first) == 4


class SilentCluster:
    """Calls never end."""

    local = True

    def call(self, handle, method):
        return object()

    def wait(self, calls, timeout_s):
        return []


def test_a_worker_that_answers_no_more_is_given_up(monkeypatch):
    """But not one that still waits for a machine, nor because the job itself was stopped."""
    now = 0.0
    monkeypatch.setattr(watching.time, "monotonic", lambda: now)
    watcher = watching.Watcher(SilentCluster())
    members = [hanging := Member(1, None), Member(2, None)]
    watcher.ask(members, None)
    watcher.take(hanging, Status(0, ""))
    watcher.ask(members, None)
    now += 3600  # the job was stopped for an hour
    watcher.ask(members, None)
    for _ in range(int(watching.HANGS_S) - 11):
        now += 1
        watcher.ask(members, None)
        assert not watcher.hanging(members)
    for _ in range(3):
        now += 1
        watcher.ask(members, None)
    assert watcher.hanging(members) == [hanging]


@pytest.mark.parametrize(("hangs", "expected"), [(1, 0), (9, 75)])
def test_a_worker_that_does_not_get_ready_is_replaced(
    hangs, expected, archive, clips, tmp_path, monkeypatch
):
    """It hangs while it loads the network; after three of them the job ends."""
    ended, begun = threading.Event(), 0
    take, end_worker = watching.Watcher.take, crew.ThreadCluster.end_worker
    monkeypatch.setattr(watching, "READY_S", 3600)

    def hang(method, arguments):
        nonlocal begun
        if method == "load":
            begun += 1
            if begun <= hangs:
                ended.clear()
                ended.wait()

    def take_and_lose_patience(self, member, status):
        take(self, member, status)
        if begun <= hangs:
            monkeypatch.setattr(watching, "READY_S", 0)

    def end(self, handle):
        monkeypatch.setattr(watching, "READY_S", 3600)
        ended.set()
        end_worker(self, handle)

    monkeypatch.setattr(watching.Watcher, "take", take_and_lose_patience)
    monkeypatch.setattr(crew.ThreadCluster, "end_worker", end)
    film = tmp_path / "a.mp4"
    code, _, told, _ = archive(clips / "other.mp4", "-o", film, on_call=hang)
    lost = hangs if hangs < 3 else 3
    assert (code, film.exists()) == (expected, expected == 0), told
    assert (
        told.count("is lost (it was not ready after") == lost
        and f"on {socket.gethostname()}" in told
    )
    assert ("3 workers, one after another, did not get ready" in told) == (expected == 75)


@pytest.mark.parametrize(
    ("machines", "broken", "loads", "expected"),
    [
        (2, lambda machine, load: machine == 0, 2, 0),
        (3, lambda machine, load: machine < 2, 3, 0),
        (1, lambda machine, load: load == 2, 2, 0),
        (1, lambda machine, load: True, 1, 69),
        (2, lambda machine, load: True, 2, 69),
        (99, lambda machine, load: True, 8, 69),
    ],
    ids=["one of two", "two of three", "the second worker", "the only one", "both", "too many"],
)
def test_a_machine_that_cannot_load_the_network_costs_only_its_workers(
    machines, broken, loads, expected, archive, clips, tmp_path, monkeypatch
):
    """It may lack room to unpack it; the job goes on with others, and ends if none can."""
    inner, lock, count = Worker.load.__wrapped__, threading.Lock(), 0

    def load(self, *arguments):
        nonlocal count
        with lock:
            count += 1
            number = count
        if broken(self.machine, number):
            raise UnavailableError("There is no room to unpack the network.")
        return inner(self, *arguments)

    monkeypatch.setattr(Worker, "load", worker._outcome(load))
    monkeypatch.setattr(crew.ThreadCluster, "machines", machines)
    out = tmp_path / "out"
    out.mkdir()
    code, _, told, made = archive(clips, "-o", out)
    films = len(list(out.glob("*.mp4")))
    assert (code, made.count("load"), films) == (expected, loads, 0 if expected else 3), told
    assert "no room to unpack" in told
    assert expected or told.count("The job goes on without it") == (1 if machines < 3 else 2)


def test_workers_that_are_lost_while_they_load_do_not_end_a_job(archive, clips, tmp_path):
    """Their machine may have too little memory; the others go on without them."""
    loading = 0

    def lose(method, arguments):
        nonlocal loading
        loading += method == "load"
        if method == "load" and loading > 1:
            crew.lost()
        elif method in ("whole", "explain"):
            deadline = time.monotonic() + 60
            while loading <= 12 and time.monotonic() < deadline:
                time.sleep(0.01)

    code, _, told, made = archive(clips, "-o", tmp_path, on_call=lose)
    assert (code, made.count("load")) == (0, 13), told
    assert "no more workers are begun, as they do not get ready: 1 go on" in told


def test_a_worker_without_a_machine_does_not_keep_a_full_disk_waiting(
    archive, clips, tmp_path, monkeypatch
):
    """The job says that the disk is full, waits a while for the other worker, and ends."""
    call, first, tried = crew.ThreadCluster.call, [], []

    def call_first(self, handle, method, *arguments):
        first.append(handle)
        return call(self, handle, method, *arguments) if handle is first[0] else Future()

    def whole(self, *arguments):
        tried.append(arguments)
        monkeypatch.setattr(archive_crew, "STARTS_S", 3600 if len(tried) < 3 else 0)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(crew.ThreadCluster, "call", call_first)
    monkeypatch.setattr(Worker, "whole", worker._outcome(whole))
    monkeypatch.setattr(archive_crew, "STARTS_S", 3600)
    monkeypatch.setattr(job, "RESTS_S", 0.01)
    sources = clips / "short.mkv", clips / "other.mp4"
    code, _, told, _ = archive(*sources, "-o", tmp_path)
    assert code == 74 and told.count("No worker has room on its disk: writing to") >= 2, told
    assert told.count("worker 1 rests") == 2


def test_what_a_worker_unpacks_while_it_loads_is_in_its_own_folder(tmp_path, monkeypatch):
    """So nothing is left where it is ended meanwhile."""
    made = []

    def load(*arguments, **options):
        with temporary_folder() as folder:
            made.append(folder)
        raise UnavailableError("There is no room.")

    monkeypatch.setattr(engine, "Engine", load)
    one = Worker(0, base=str(tmp_path))
    logging.getLogger().removeHandler(one._log)
    one.load(Order("a.mp4", None, None, ".mp4", False, False), False, False)
    one.close()
    assert [folder.parent.parent for folder in made] == [tmp_path]
    assert not list(tmp_path.iterdir())
    with temporary_folder() as folder:
        assert folder.parent == Path(tempfile.gettempdir())


def test_a_few_workers_that_do_not_get_ready_do_not_end_a_job(caplog):
    """Those that were begun together count once; the others go on without them."""
    losses = Losses()
    assert not any(losses.worker_unready(number, 4, "late", 1) for number in (2, 3, 4))
    assert not losses.worker_unready(5, 6, "late", 1)
    assert losses.worker_unready(7, 7, "late", 1) and "1 go on" in caplog.text
    losses.worker_ready()
    assert not losses.worker_unready(8, 8, "late", 0)


def test_a_worker_may_wait_for_a_machine_only_where_none_is_free():
    """Then others use the cluster, or no machine is large enough yet."""
    made = cluster.Cluster.__new__(cluster.Cluster)
    share, made.local = cluster.Share(4, 0, 4), False
    for cores, free, waits in ((8, 8, False), (8, 0, False), (2, 2, True), (16, 4, True)):
        node = {"Alive": True, "Resources": {"CPU": cores}}
        found = {"nodes": lambda node=node: [node]}
        found["available_resources"] = lambda free=free: {"CPU": free} if free else {}
        made._ray = SimpleNamespace(**found)
        assert made.may_be_waiting(share, 2) is waits, (cores, free)


def test_workers_have_room_on_machines_that_are_alive_and_not_excluded():
    """As many as both cores and GPUs allow; a job on this machine only has no other one."""
    made = cluster.Cluster.__new__(cluster.Cluster)
    made.local, made._excluded = False, {"bad"}
    nodes = [
        {"NodeID": name, "Alive": alive, "Resources": {"CPU": cores, "GPU": gpus}}
        for name, alive, cores, gpus in (
            ("bad", True, 64, 8), ("lost", False, 64, 8), ("small", True, 3, 1),
            ("large", True, 16, 2), ("none", True, 8, 0),
        )
    ]  # fmt: skip
    made._ray = SimpleNamespace(nodes=lambda: nodes)
    for cores, gpus, count in ((4, 0, 6), (4, 1, 2), (1, 0.5, 6), (0.1, 0, 270)):
        assert made.room(cluster.Share(cores, gpus, 1)) == count, (cores, gpus)
    made.local = True
    assert made.room(cluster.Share(4, 0, 4)) == 0


def test_only_a_part_that_ends_every_worker_is_given_up_soon():
    """Where the step of a part is done that had lost a worker, workers are lost from outside."""
    losses, task = Losses(), SimpleNamespace(source=Path("a.mp4"))
    work = FileWork(0, task, None, 0)
    codes = [getattr(losses.part_lost(work, 0, "draw", ""), "exit_code", 0) for _ in range(3)]
    losses.step_done(work, 0, "explain")
    assert (codes, losses.from_outside) == ([0, 0, 65], False)
    losses.part_lost(work, 1, "explain", "")
    losses.step_done(work, 1, "explain")
    codes = [getattr(losses.part_lost(work, 2, "draw", ""), "exit_code", 0) for _ in range(10)]
    assert (codes, losses.from_outside) == ([0] * 9 + [75], True)


def test_a_part_that_ended_two_workers_comes_after_all_others(archive, alone, clips, tmp_path):
    """So others show that workers are lost from outside, and it is not given up for that."""
    left, lock = {"other": 5, "short": 1}, threading.Lock()

    def lose(method, arguments):
        with lock:
            if method == "whole" and left[name := Path(arguments[0].source).stem]:
                left[name] -= 1
                crew.lost()

    sources = clips / "other.mp4", clips / "short.mkv"
    code, _, told, _ = archive(*sources, "-o", tmp_path, *LOSSLESS, on_call=lose)
    assert (code, left) == (0, {"other": 0, "short": 0}), told
    for name in ("other.mp4", "short.mp4"):
        assert_same_film(tmp_path / name, alone[0] / name)


@pytest.mark.parametrize(("losses", "expected"), [(1, 0), (99, 65)])
def test_a_worker_lost_while_its_film_is_fetched_counts(
    losses, expected, archive, clips, tmp_path, monkeypatch
):
    """A film whose fetching always ends its worker is given up, and the job ends."""
    fetch, count = job.fetch, 0

    def lose(*arguments):
        nonlocal count
        count += 1
        if count <= losses:
            crew.lost()
        fetch(*arguments)

    monkeypatch.setattr(job, "fetch", lose)
    film = tmp_path / "a.mp4"
    code, _, told, made = archive(clips / "other.mp4", "-o", film)
    assert (code, film.exists()) == (expected, expected == 0), told
    assert made.count("whole") == min(losses + 1, 3)
    assert ("other.mp4 ended 3 workers" in told and "--resume" in told) == (expected == 65)


def test_a_worker_that_loads_for_long_is_said_to_load(monkeypatch, caplog):
    """On this machine no worker waits for another machine."""
    now = 0.0
    monkeypatch.setattr(watching.time, "monotonic", lambda: now)
    watcher = watching.Watcher(SilentCluster())
    now = 61.0
    watcher.ask([Member(1, None)], cluster.Share(4, 0, 4))
    assert caplog.messages == ["the first worker is still loading after 61 s"]


def test_no_more_workers_are_begun_than_parts_are_left(archive, clips, tmp_path):
    """Here one, for one recording of one part."""
    code, _, _, made = archive(clips / "other.mp4", "-o", tmp_path / "a.mp4")
    assert (code, made.count("load")) == (0, 1)


def test_the_rate_counts_from_the_first_frame(capsys, monkeypatch):
    """So loading a network does not slow it; frames of a lost worker count."""
    now = 0.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    with progress.JobProgress(2, as_json=True) as shown:
        for at, frames in ((60.0, 0), (61.0, 10), (65.0, 50)):
            now = at
            share = progress.WorkerShare(1, "here", frames, 1.0, "a.mp4")
            shown.show((0, 1), frames / 100, [share])
        now = 70.0
        shown.show((0, 1), 0.5, [progress.WorkerShare(2, "here", 50, 1.0, "a.mp4")])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["fps"] for row in rows] == [0, 10, 10, 10]
    assert [row["seconds_left"] for row in rows] == [None, 9.0, 5.0, 10.0]


def workers_of(process):
    """The processes of Ray's workers below a process that have a network loaded."""
    found = []
    for child in process.children(recursive=True):
        with suppress(psutil.Error):
            if child.name().startswith("ray::") and "Agent" not in " ".join(child.cmdline()):
                found.append(child)
    return found


def wait_until(condition, seconds=120):
    """Waits for a condition and gives its value."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return value


def test_a_killed_worker_of_ray_costs_no_frame(run, network, alone, clips, tmp_path, monkeypatch):
    """Two real workers, of which one is killed in the middle; nothing of Ray is left afterwards."""
    monkeypatch.setattr(job, "PART_S", 16 / 30)
    monkeypatch.setattr(job, "AGAIN_S", 0.01)
    killed, keep = [], job.Job._keep

    def keep_and_kill(self, member, *arguments):
        keep(self, member, *arguments)
        if not killed:
            killed.append(member.loaded.pid)
            os.kill(member.loaded.pid, signal.SIGKILL)

    monkeypatch.setattr(job.Job, "_keep", keep_and_kill)
    words = "video", clips / "long.mp4", "-o", tmp_path / "a.mp4", "--workers", 2, *LOSSLESS
    code, _, told = run(*words, *network)
    assert (code, len(killed), told.count("is lost")) == (0, 1, 1), told
    assert_same_film(tmp_path / "a.mp4", alone[0] / "long.mp4")
    sidecar = alone[0] / "long.jsonl"
    assert (tmp_path / "a.jsonl").read_bytes() == sidecar.read_bytes()
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        ".a.mp4.resume.json", "a.jsonl", "a.mp4",
    ]  # fmt: skip
    assert not list(Path(tempfile.gettempdir()).glob(f"{cluster.PREFIX}{os.getpid()}-*"))
    wait_until(lambda: not workers_of(psutil.Process()))


def test_cores_are_divided_among_workers_as_machines_allow():
    """No worker gets more than a machine has left."""
    share = cluster.share_of
    assert [share(n, [4], 0).threads for n in (1, 2, 3, 4, 8)] == [4, 2, 1, 1, 1]
    assert share(8, [4], 0).cpus * 8 <= 4
    assert (share(2, [4, 8], 1).threads, share(2, [4, 8], 1).gpus) == (4, 0.5)
    assert share(1, [4, 4, 4], 3) == cluster.Share(4, 1.0, 4)
