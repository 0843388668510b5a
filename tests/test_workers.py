"""`video --workers` and `--ray`: each recording is a task, and films are those of one process."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import media
import psutil
import pytest
from jobs import HereCluster, lost
from uncompiled import compiled

from realtime_lrp.commands.video import cluster
from realtime_lrp.commands.video.cluster import share_of
from realtime_lrp.errors import FullDiskError, OutputError, UnavailableError

PACKAGE = Path(__file__).parents[1] / "realtime_lrp"
DOCUMENT = Path(__file__).parents[1] / "docs" / "archives.md"
LATIN_1 = os.fsdecode(b"caf\xe9.mp4")


@pytest.fixture(scope="module")
def network(tiny_model):
    return ("--model", tiny_model, "--preprocess", "none", "--quality", 0, "--sidecar")


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    """A folder with a turned recording with sound, two short ones, and one that is none."""
    folder = tmp_path_factory.mktemp("clips")
    media.recording(folder / "long.mp4", 48, sound="aac", rotation=90)
    media.recording(folder / "short.mkv", 12)
    media.recording(folder / LATIN_1, 10)
    (folder / "text.mp4").write_text("no film")
    return folder


@pytest.fixture
def job(run, network, monkeypatch):
    """Runs `video` with workers in this process; gives also the cluster."""

    def run_job(*words, cluster=HereCluster, **calls):
        made = cluster(**calls)
        monkeypatch.setattr("realtime_lrp.commands.video.cluster.Cluster", made)
        return (*run("video", *words, "--workers", 2, *network), made)

    return run_job


def contents(folder):
    files = [path for path in folder.rglob("[!.]*") if path.is_file() and path.suffix != ".part"]
    return {os.fsencode(path.relative_to(folder)): path.read_bytes() for path in files}


@contextmanager
def process(*words, **environment):
    """The command in a process of its own, which does not outlive the test."""
    command = [sys.executable, "-m", "realtime_lrp", "video", *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    started = subprocess.Popen(command, env={**os.environ, **environment}, text=True, **pipes)
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def ray_below(pid, name):
    """The processes of Ray with a name below a process: "ray::make_film" is at work."""
    found = []
    with suppress(psutil.Error):
        for child in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.Error):
                if child.name() == name[:15] and child.status() != psutil.STATUS_ZOMBIE:
                    found.append(child)
    return found


class SlowStart(AssertionError):
    """Ray gives itself 30 s to start, which is too little where a machine is very busy."""


def wait_until(condition, running):
    """Waits for a condition while a process runs, and gives its value."""
    while not (value := condition()):
        if running.poll() is not None:
            _, told = running.communicate()
            raise SlowStart(told) if "timed out during startup" in told else AssertionError(told)
        time.sleep(0.02)
    return value


@pytest.mark.release
@pytest.mark.parametrize("where", ["at the start", "in a film"])
@compiled()
def test_workers_of_ray_make_what_one_process_makes(where, run, network, clips, tmp_path):
    """Film, sound, sidecar and maps, though the worker is killed; a damaged file fails alone."""
    ends, sources = [], (clips / "text.mp4", clips / "long.mp4")
    for name in ("alone", "shared"):
        (tmp_path / name).mkdir()
    words = [
        (*sources, "-o", tmp_path / one, "--maps", tmp_path / one / "maps")
        for one in ("alone", "shared")
    ]
    ends.append(run("video", *words[0], *network)[0])
    for tries_left in (2, 1, 0):
        try:
            with process(*words[1], *network, "--workers", 1) as running:
                if where == "in a film":
                    wait_until(lambda: list((tmp_path / "shared").glob("*.part")), running)
                killed = wait_until(lambda: ray_below(running.pid, "ray::make_film"), running)[0]
                killed.kill()
                out, err = running.communicate()
                ends.append(running.returncode)
                break
        except SlowStart:
            if not tries_left:
                raise
    assert ends == [65, 65], err
    assert out.count("frames ->") == 1 and "1 of 2 videos done, 1 failed" in err
    assert contents(tmp_path / "alone") == contents(tmp_path / "shared")
    assert not killed.is_running()
    temporary = Path(os.environ.get("TMPDIR", "/tmp"))
    assert not list(temporary.glob(f"{cluster.PREFIX}{running.pid}-*"))


def test_a_job_reports_its_files_and_its_figures(job, clips, tmp_path):
    """Lines, --stats and exit code are those of one process; --resume skips what is done."""
    words = clips, "-o", tmp_path, "--stats", tmp_path / "stats.json"
    code, out, err, made = job(*words)
    assert (code, len(made.made)) == (65, 4), err
    assert out.count("frames ->") == 3 and "long.mp4: 48 frames ->" in out
    assert "3 of 4 videos done, 1 failed" in err
    stats = json.loads((tmp_path / "stats.json").read_text())
    assert (stats["frames_shown"], stats["maps"], stats["traces"]) == (70, 70, 1)
    code, out, _, made = job(*words, "--resume")
    assert (code, out.count("finished before"), made.made) == (65, 3, ["text.mp4"])


def test_a_recording_whose_workers_are_all_lost_is_named(job, clips, tmp_path):
    """The others are made; it is a matter of time: 75."""
    code, out, err, _ = job(clips / "short.mkv", clips / "long.mp4", "-o", tmp_path, on_call=lost)
    assert (code, out) == (75, "") and err.count("was lost with its worker 4 times") == 2
    assert not list(tmp_path.glob("*"))
    lose = {"on_call": lambda name: lost() if name == "short.mkv" else None}
    code, out, err, _ = job(clips / "short.mkv", clips / "long.mp4", "-o", tmp_path, **lose)
    assert (code, out.count("long.mp4: 48 frames")) == (75, 1) and "1 of 2 videos done" in err


def test_what_a_lost_worker_has_made_is_replaced(job, clips, tmp_path):
    """All of it, or its companions alone; what somebody else has put there is not."""
    film, tries = tmp_path / "a.mp4", []

    class Retrying(HereCluster):
        def get(self, call):
            for lose in (lambda: None, lambda: None, film.unlink, lambda: film.write_text("mine")):
                lose()
                outcome = super().get(call)
                tries.append(outcome.report and outcome.report.frames)
            return outcome

    code, _, err, _ = job(clips / "short.mkv", "-o", film, cluster=Retrying)
    assert (code, tries) == (73, [12, 12, 12, None]) and "exists" in err
    assert film.read_text() == "mine"


@pytest.mark.parametrize(
    ("where", "error", "code", "made"),
    [
        ("overlay.overlay_file", FullDiskError("The disk is full."), 74, 1),
        ("overlay.engine_for", UnavailableError("The weights are missing."), 69, 1),
        ("overlay.overlay_file", ValueError("an accident"), 70, 2),
        ("overlay.overlay_file", OutputError("There is no folder."), 73, 2),
    ],
)
def test_what_ends_the_job_and_what_only_one_film(
    where, error, code, made, job, clips, tmp_path, monkeypatch
):
    """A full disk and a network that cannot be loaded end it; a fault or a lost folder a film."""
    from realtime_lrp.commands.video import cluster

    def fail(*_, **__):
        raise error

    cluster._kept.clear()
    monkeypatch.setattr(f"realtime_lrp.commands.video.{where}", fail)
    found, out, err, used = job(clips / "short.mkv", clips / "long.mp4", "-o", tmp_path)
    assert (found, len(used.made), out) == (code, made, ""), err
    assert str(error) in err and not list(tmp_path.glob("*"))


def test_nothing_of_ray_is_imported_without_an_option(light_scripts):
    """One file imports it, and nothing imports that file but what the options start."""
    importing, imports = {}, r"^ *(?:from|import) \S*?(\bray|video\.cluster)\b"
    for path in PACKAGE.rglob("*.py"):
        for module in re.findall(imports, path.read_text(), re.MULTILINE):
            importing.setdefault(path.name, set()).add(module.split(".")[-1])
    assert importing == {"cluster.py": {"ray"}, "run.py": {"cluster"}}
    words = "import sys\nfrom realtime_lrp.commands.video import cluster, run\n"
    words += "sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", words], check=False).returncode == 0


def test_a_cluster_that_is_not_there_is_named(run, network, tmp_path, monkeypatch):
    """At once, not after Ray's two minutes; without Ray a message says how to install it."""
    words = ("video", media.recording(tmp_path / "a.mp4"), "-o", tmp_path / "b.mp4", *network)
    for address, code, expected in (
        ("nonsense", 2, "HOST:PORT or auto"), ("127.0.0.1:1", 69, "There is no Ray cluster"),
    ):  # fmt: skip
        ended, _, told = run(*words, "--ray", address)
        assert ended == code and expected in told
    monkeypatch.setattr(cluster, "find_spec", lambda name: None)
    code, _, told = run(*words, "--workers", 2)
    assert code == 69 and 'pip install "realtime-lrp[cluster]"' in told


def test_cores_are_divided_among_workers_as_machines_allow():
    """No worker gets more than a machine has left."""
    assert [share_of(n, [4], 0)[2] for n in (1, 2, 3, 4, 8)] == [4, 2, 1, 1, 1]
    assert share_of(8, [4], 0)[0] * 8 <= 4
    assert share_of(2, [4, 8], 1) == (4, 0.5, 4)
    assert share_of(1, [4, 4, 4], 3) == (4, 1.0, 4)


def test_one_line_reads_all_sidecars(job, clips, tmp_path):
    """The line of the document: DuckDB counts the answers of every film."""
    import duckdb

    (tmp_path / "in").mkdir()
    for name in ("a.mp4", "b.mp4"):
        shutil.copy(clips / "short.mkv", tmp_path / "in" / name)
    job(tmp_path / "in", "-o", tmp_path)
    (line,) = [one for one in DOCUMENT.read_text().splitlines() if one.startswith("from 'films/")]
    rows = duckdb.sql(line.replace("films/", f"{tmp_path}/")).fetchall()
    assert sum(count for *_, count in rows) == 24 and len({film for film, *_ in rows}) == 2


@pytest.mark.release
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
@compiled()
def test_a_stopped_job_goes_on(number, code, run, network, clips, tmp_path):
    """Ctrl-C, SIGTERM, SIGKILL in the middle of a film; --resume makes what is missing."""
    (tmp_path / "out").mkdir(), (tmp_path / "alone").mkdir()
    words = clips / "long.mp4", clips / "short.mkv", "-o"
    run("video", *words, tmp_path / "alone", *network)
    with process(*words, tmp_path / "out", *network, "--workers", 1) as running:
        wait_until(lambda: list((tmp_path / "out").glob("*.part")), running)
        at_work = ray_below(running.pid, "ray::make_film") + ray_below(running.pid, "raylet")
        running.send_signal(number)
        running.communicate()
    assert running.returncode == code
    assert not psutil.wait_procs(at_work, 120)[1]
    if number != signal.SIGKILL:
        assert not list((tmp_path / "out").glob("*.part"))
    assert run("video", *words, tmp_path / "out", *network, "--resume")[0] == 0
    assert contents(tmp_path / "alone") == contents(tmp_path / "out")


@pytest.mark.release
@pytest.mark.parametrize("started", ["gcs_server", "raylet"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_while_ray_starts_leaves_nothing(number, code, started, network, clips, tmp_path):
    """Ray sets handlers of its own meanwhile."""
    with process(clips / "long.mp4", "-o", tmp_path / "a.mp4", *network, "--workers", 1) as running:
        of_ray = wait_until(lambda: ray_below(running.pid, started), running)
        running.send_signal(number)
        _, err = running.communicate()
    assert running.returncode == code and "Traceback" not in err
    assert not psutil.wait_procs(of_ray, 60)[1] and not list(tmp_path.iterdir())


@pytest.mark.release
def test_a_dead_raylet_ends_the_job(network, tmp_path):
    source = media.recording(tmp_path / "a.mp4", 3000)
    with process(source, "-o", tmp_path / "b.mp4", *network, "--workers", 1) as running:
        wait_until(lambda: list(tmp_path.glob("*.part")), running)
        (raylet,) = ray_below(running.pid, "raylet")
        raylet.kill()
        _, err = running.communicate(timeout=120)
    assert running.returncode == 75 and "Ray has ended" in err and "--resume" in err
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]
