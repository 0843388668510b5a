"""`video --workers` and `--ray`: each recording is a task, and films are those of one process."""

import copy
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.request import Request, urlopen

import media
import psutil
import pytest
from media import recording
from program import start
from uncompiled import compiled

from realtime_lrp import errors
from realtime_lrp.commands.video import cluster
from realtime_lrp.commands.video.cluster import make_film, share_of
from realtime_lrp.errors import FullDiskError, OutputError, TemporaryError, UnavailableError
from realtime_lrp.system import object_store as store
from realtime_lrp.system.object_store import is_stored, local_path


class HereCluster:
    """Stands for `Cluster`: two workers; what is called before and after each film may raise."""

    count = 2

    def __init__(self, on_call=lambda name: None, after=lambda name: None):
        self._on_call, self._after = on_call, after
        self.made, self._calls = [], []

    def __call__(self, config, options):
        self._job = config, options
        return self

    def begin(self, task):
        self._calls.append((*self._job, task, 1, Path.cwd(), None, logging.root.level))
        return len(self._calls) - 1

    def wait(self, calls, timeout_s):
        return calls[:1]

    def get(self, call):
        order = self._calls[call]
        name = order[2].source.name
        self._on_call(name)
        level = logging.root.level
        try:
            self.made.append(name)
            outcome = make_film(*copy.deepcopy(order))
            self._after(name)
            return outcome
        finally:
            logging.root.setLevel(level)

    def close(self):
        pass


def lost(*_):
    raise TemporaryError("was lost with its worker 4 times")


ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def network(tiny_model):
    return ("--model", tiny_model, "--preprocess", "none", "--quality", 0, "--sidecar")


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    """A folder with a turned recording with sound, two short ones, and one that is none."""
    folder = tmp_path_factory.mktemp("clips")
    media.recording(folder / "long.mp4", 48, sound="aac", rotation=90)
    media.recording(folder / "short.mkv", 12)
    media.recording(folder / os.fsdecode(b"caf\xe9.mp4"), 10)
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
    words = []
    for name in ("alone", "shared"):
        (tmp_path / name).mkdir()
        target = ("-o", tmp_path / name, "--maps", tmp_path / name / "maps")
        words.append((clips / "text.mp4", clips / "long.mp4", *target))
    ends = [run("video", *words[0], *network)[0]]
    for tries_left in (2, 1, 0):
        try:
            with start("video", *words[1], *network, "--workers", 1) as running:
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
    assert not list(Path(os.environ.get("TMPDIR", "/tmp")).glob(f"{cluster.PREFIX}{running.pid}-*"))


def test_a_job_reports_its_files_and_its_figures(job, clips, tmp_path):
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
    code, out, err, _ = job(clips / "short.mkv", clips / "long.mp4", "-o", tmp_path, on_call=lost)
    assert (code, out) == (75, "") and err.count("was lost with its worker 4 times") == 2
    assert not list(tmp_path.glob("*"))
    lose = {"on_call": lambda name: lost() if name == "short.mkv" else None}
    code, out, err, _ = job(clips / "short.mkv", clips / "long.mp4", "-o", tmp_path, **lose)
    assert (code, out.count("long.mp4: 48 frames")) == (75, 1) and "1 of 2 videos done" in err


def test_what_a_lost_worker_has_made_is_replaced(job, clips, tmp_path):
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
    from realtime_lrp.commands.video import cluster

    def fail(*_, **__):
        raise error

    cluster._kept.clear()
    monkeypatch.setattr(f"realtime_lrp.commands.video.{where}", fail)
    found, out, err, used = job(clips / "short.mkv", clips / "long.mp4", "-o", tmp_path)
    assert (found, len(used.made), out) == (code, made, ""), err
    assert str(error) in err and not list(tmp_path.glob("*"))


def test_nothing_of_ray_is_imported_without_an_option(light_scripts):
    importing, imports = {}, r"^ *(?:from|import) \S*?(\bray|video\.cluster)\b"
    for path in (ROOT / "realtime_lrp").rglob("*.py"):
        for one in re.findall(imports, path.read_text(), re.MULTILINE):
            importing.setdefault(path.name, set()).add(one.split(".")[-1])
    assert importing == {"cluster.py": {"ray"}, "run.py": {"cluster"}}
    words = "import sys\nfrom realtime_lrp.commands.video import cluster, run\n"
    words += "sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", words], check=False).returncode == 0


def test_a_cluster_that_is_not_there_is_named(run, network, tmp_path, monkeypatch):
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
    assert [share_of(n, [4], 0)[2] for n in (1, 2, 3, 4, 8)] == [4, 2, 1, 1, 1]
    assert share_of(8, [4], 0)[0] * 8 <= 4
    assert share_of(2, [4, 8], 1) == (4, 0.5, 4)
    assert share_of(1, [4, 4, 4], 3) == (4, 1.0, 4)


def test_one_line_reads_all_sidecars(job, clips, tmp_path):
    import duckdb

    (tmp_path / "in").mkdir()
    for name in ("a.mp4", "b.mp4"):
        shutil.copy(clips / "short.mkv", tmp_path / "in" / name)
    job(tmp_path / "in", "-o", tmp_path)
    lines = (ROOT / "docs" / "archives.md").read_text().splitlines()
    (line,) = [one for one in lines if one.startswith("from 'films/")]
    rows = duckdb.sql(line.replace("films/", f"{tmp_path}/")).fetchall()
    assert sum(count for *_, count in rows) == 24 and len({film for film, *_ in rows}) == 2


@pytest.mark.release
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
@compiled()
def test_a_stopped_job_goes_on(number, code, run, network, clips, tmp_path):
    (tmp_path / "out").mkdir(), (tmp_path / "alone").mkdir()
    words = clips / "long.mp4", clips / "short.mkv", "-o"
    run("video", *words, tmp_path / "alone", *network)
    with start("video", *words, tmp_path / "out", *network, "--workers", 1) as running:
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
    with start(
        "video", clips / "long.mp4", "-o", tmp_path / "a.mp4", *network, "--workers", 1
    ) as running:
        of_ray = wait_until(lambda: ray_below(running.pid, started), running)
        running.send_signal(number)
        _, err = running.communicate()
    assert running.returncode == code and "Traceback" not in err
    assert not psutil.wait_procs(of_ray, 60)[1] and not list(tmp_path.iterdir())


@pytest.mark.release
def test_a_dead_raylet_ends_the_job(network, tmp_path):
    source = media.recording(tmp_path / "a.mp4", 3000)
    with start("video", source, "-o", tmp_path / "b.mp4", *network, "--workers", 1) as running:
        wait_until(lambda: list(tmp_path.glob("*.part")), running)
        (raylet,) = ray_below(running.pid, "raylet")
        raylet.kill()
        _, err = running.communicate(timeout=120)
    assert running.returncode == 75 and "Ray has ended" in err and "--resume" in err
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]


OUT = "s3://bucket/films"
VIDEOS = (".mp4", ".mkv")
ROOM = b"a film" * 1000


@pytest.fixture(scope="module")
def server():
    """The address of an S3 server with an empty bucket; the environment leads to it."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    address = "http://{}:{}".format(*running.get_host_and_port())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", address)
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret-of-the-test")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        store.file_system("s3").mkdir("bucket")
        yield address
    running.stop()


@pytest.fixture
def bucket(server):
    """The file system of the store; what a test leaves in its bucket goes."""
    yield (files := store.file_system("s3"))
    for name in store.sizes_below("s3://bucket"):
        files.rm_file(f"bucket/{name}")


@pytest.fixture
def film(tmp_path):
    path = tmp_path / "local.mp4"
    path.write_bytes(ROOM)
    return path


def test_addresses_are_told_from_paths():
    words = ("s3://bucket/a.mp4", "GS://bucket", "folder/s3://a.mp4", "file:///a.mp4")
    assert [is_stored(word) for word in words] == [True, True, False, False]
    assert local_path("file:///a b.mp4") == "/a b.mp4" and local_path("a.mp4") == "a.mp4"
    for wrong in ("s3://", "s3:///a.mp4", "s3://me:secret@bucket/a", "https://host/a?sig=secret"):
        with pytest.raises(errors.UsageError) as error:
            is_stored(wrong)
        assert "secret" not in str(error.value)
    with pytest.raises(errors.UsageError, match="absolute"):
        local_path("file://a.mp4")


def test_inputs_are_found_by_name_folder_and_glob(bucket, film):
    for name in ["b.mp4", "a.MKV", "a.txt", ".hidden.mp4", "sub/c.mp4", "d[1].mp4", "ü é.mp4"]:
        store.upload(film, f"s3://bucket/in/{name}")

    def found(word):
        return [
            one.address.removeprefix("s3://bucket/in/") for one in store.find(word, VIDEOS, "video")
        ]

    for folder in ("s3://bucket/in", "s3://bucket/in/"):
        assert found(folder) == ["a.MKV", "b.mp4", "d[1].mp4", "ü é.mp4"]
    assert found("s3://bucket/in/**/*.mp4")[-2:] == ["sub/c.mp4", "ü é.mp4"]
    assert found("s3://bucket/in/d[1].mp4") == ["d[1].mp4"]
    assert found("s3://bucket/in/a.txt") == ["a.txt"]
    (one,) = store.find("s3://bucket/in/b.mp4", VIDEOS, "video")
    assert (one.size, len(one.version)) == (len(ROOM), 32)
    for word in ("s3://bucket/none", "s3://bucket/in/*.avi", "s3://nobody/a.mp4", "s3://nobody/"):
        with pytest.raises(errors.MissingInputError):
            found(word)


def test_an_object_is_fetched_whole_or_refused(bucket, film, tmp_path, monkeypatch):
    store.upload(film, "s3://bucket/a.mp4")
    (found,) = store.find("s3://bucket/a.mp4", VIDEOS, "video")
    target = tmp_path / "copy.mp4"
    store.fetch(found, target)
    assert target.read_bytes() == ROOM

    def broken(remote, local):
        raise ConnectionResetError("the connection broke")

    with monkeypatch.context() as patch:
        patch.setattr(bucket, "get_file", broken)
        with pytest.raises(errors.TransferError, match="broke"):
            store.fetch(found, target)
    full = shutil.disk_usage(tmp_path)._replace(free=store.KEPT_FREE)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: full)
        with pytest.raises(errors.TransferError, match="TMPDIR"):
            store.fetch(found, target)
    film.write_bytes(ROOM[::-1])
    store.upload(film, "s3://bucket/a.mp4")
    with pytest.raises(errors.DamagedInputError, match="has changed"):
        store.fetch(found, target)
    bucket.rm_file("bucket/a.mp4")
    with pytest.raises(errors.MissingInputError):
        store.fetch(found, target)


def test_an_upload_that_breaks_changes_nothing(bucket, film, monkeypatch):
    address = "s3://bucket/out/a.mp4"
    store.upload(film, address)
    film.write_bytes(b"new" * 2**22)  # uploaded in several parts

    async def broken(*_, **__):
        raise ConnectionResetError("the connection broke")

    monkeypatch.setattr("s3fs.core.calculate_chunksize", lambda *_, **__: 5 * 2**20)
    with monkeypatch.context() as patch:
        patch.setattr(type(bucket), "_upload_file_part_concurrent", broken)
        with pytest.raises(errors.TransferError, match="broke"):
            store.upload(film, address)
    assert store.read_all([address]) == [ROOM]
    store.upload(film, address)
    assert store.sizes_below("s3://bucket/out") == {"a.mp4": 3 * 2**22}


def check_keys(server, after):
    head = {"Content-Type": "text/plain"}
    urlopen(Request(f"{server}/moto-api/reset-auth", after.encode(), head)).close()


def test_no_bucket_no_permission_and_no_credentials_say_so(bucket, server, film, monkeypatch):
    with pytest.raises(errors.OutputError, match="no such bucket"):
        store.sizes_below("s3://nobody/out")
    with pytest.raises(errors.OutputError, match="no such bucket"):
        store.upload(film, "s3://nobody/a.mp4")

    def refused(action, kind, text):
        with pytest.raises(kind, match=text) as error:
            action()
        assert "secret-of-the-test" not in str(error.value)

    store.upload(film, "s3://bucket/a.mp4")
    check_keys(server, "0")
    try:
        find = lambda: store.find("s3://bucket/a.mp4", VIDEOS, "video")  # noqa: E731
        refused(find, errors.MissingInputError, "permission")
        refused(lambda: store.sizes_below("s3://bucket/out"), errors.OutputError, "permission")
        refused(lambda: store.upload(film, "s3://bucket/b.mp4"), errors.OutputError, "permission")
    finally:
        check_keys(server, "Infinity")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, os.devnull)
    bucket.clear_instance_cache()
    refused(lambda: store.sizes_below("s3://bucket"), errors.OutputError, "no credentials")
    bucket.clear_instance_cache()


def test_a_store_that_cannot_be_reached_is_a_matter_of_time(server, film, monkeypatch):
    monkeypatch.setattr(store, "ATTEMPTS", 1)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    far = store.file_system("s3")
    far.retries = 1
    for action, kind in (
        (lambda: store.sizes_below("s3://bucket/out"), errors.TemporaryError),
        (lambda: store.upload(film, "s3://bucket/a.mp4"), errors.TransferError),
    ):
        with pytest.raises(errors.Error, match="connect") as error:
            action()
        assert type(error.value) is kind
    far.clear_instance_cache()


@pytest.fixture
def store_job(run, bucket, tmp_path, tiny_model, monkeypatch):
    store.upload(recording(tmp_path / "a.mp4", count=3), "s3://bucket/in/a.mp4")

    def run_job(*words, source="s3://bucket/in"):
        made = HereCluster()
        monkeypatch.setattr("realtime_lrp.commands.video.cluster.Cluster", made)
        network = "--model", tiny_model, "--preprocess", "tf", "--sidecar", "--maps", "maps"
        return (*run("video", source, "-o", OUT, "--workers", 1, *network, *words), made)

    return run_job


def test_a_job_reads_from_and_writes_into_the_store(store_job, bucket, run, tmp_path, tiny_model):
    (tmp_path / "broken.mp4").write_bytes(b"no film")
    store.upload(tmp_path / "broken.mp4", "s3://bucket/in/broken.mp4")
    store.upload(tmp_path / "a.mp4", f"s3://bucket/in/{'n' * 300}.mp4")
    code, printed, told, _ = store_job()
    assert code == 73 and "1 of 3 videos done, 2 failed" in told
    assert f"a.mp4: 3 frames -> {OUT}/a.mp4" in printed
    assert "'s3://bucket/in/broken.mp4' is no video" in told and "File name too long" in told
    alone = ("--model", tiny_model, "--preprocess", "tf", "--sidecar", "--maps", tmp_path / "maps")
    assert run("video", tmp_path / "a.mp4", "-o", tmp_path / "one.mp4", *alone)[0] == 0
    wanted = {".a.mp4.resume.json", "a.mp4", "a.jsonl", "maps/a/maps_000000.npz"}
    assert set(store.sizes_below(OUT)) == wanted
    films = store.read_all([f"{OUT}/a.mp4", f"{OUT}/a.jsonl"])
    assert films == [(tmp_path / name).read_bytes() for name in ("one.mp4", "one.jsonl")]
    assert store_job()[0] == 73
    code, printed, told, made = store_job("--resume")
    assert "a.mp4: finished before" in printed and "a.mp4" not in made.made


def test_resume_tells_what_is_finished_from_what_is_not(store_job, bucket, film):
    assert store_job()[0] == 0
    assert store_job("--resume", "--summary")[3].made == ["a.mp4"]
    bucket.rm_file(f"{OUT[5:]}/a.jsonl")
    assert store_job("--resume")[3].made == ["a.mp4"]
    assert store_job("--resume")[3].made == []
    code, _, told, _ = store_job("--resume", "--opacity", 0.1)
    assert code == 73 and "other settings" in told
    store.upload(film, f"{OUT}/a.mp4")
    code, _, told, _ = store_job("--resume")
    assert code == 73 and "has changed" in told
    bucket.rm_file(f"{OUT[5:]}/.a.mp4.resume.json")
    code, _, told, _ = store_job("--resume")
    assert code == 73 and "a.mp4' exists" in told
    assert store.read_all([f"{OUT}/a.mp4"]) == [ROOM]


def test_wrong_addresses_are_refused_before_any_worker(server, run):
    workers = ("--workers", "1")
    for words, code, said in (
        (("s3://bucket/a.mp4", "-o", "films"), 2, "--workers"),
        (("a.mp4", "-o", "s3://bucket"), 2, "--workers"),
        (("a.mp4", "-o", "s3://bucket/a.mp4", *workers), 2, "Expected a folder"),
        (("a.mp4", "-o", OUT, *workers, "--maps", "/maps"), 2, "below the output"),
        (("s3://me:secret@bucket/a.mp4", "-o", OUT, *workers), 2, "environment"),
        (("s3://bucket/none.mp4", "-o", OUT, *workers), 66, "no such"),
        (("s3://bucket/none.mp4", "-o", "s3://nobody/a", *workers), 73, "no such bucket"),
    ):
        found, _, told = run("video", *words)
        assert found == code and said in told and "secret" not in told, told
