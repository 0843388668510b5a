"""Files in object stores, against a real S3 server: moto's, over HTTP, on this machine."""

import json
import logging
import os
import shutil
import subprocess
import sys
import time
from urllib.request import Request, urlopen

import pytest
from crew import ThreadCluster
from media import recording

import realtime_lrp.system.object_store as module
from realtime_lrp.commands.video.archive.remote import MOST_COPIES, LocalCopies, StoredFolder
from realtime_lrp.commands.video.archive.stored import StoredTask
from realtime_lrp.commands.video.task import VideoOptions
from realtime_lrp.config import Config
from realtime_lrp.errors import (
    DamagedInputError,
    Error,
    MissingInputError,
    OutputError,
    TemporaryError,
    TransferError,
    UnavailableError,
    UsageError,
)
from realtime_lrp.results.frame_table import partition_of
from realtime_lrp.results.overview import FilmEntry, keep_overview, read_entry
from realtime_lrp.system.object_store import ObjectStore, StoredFile, is_stored, join, local_path

CLUSTER = "realtime_lrp.commands.video.archive.run.Cluster"
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
        ObjectStore("s3")._files.mkdir("bucket")
        yield address
    running.stop()


@pytest.fixture
def store(server):
    """The store; what a test leaves in its bucket goes."""
    yield (made := ObjectStore("s3"))
    for name in made.names("s3://bucket"):
        made._files.rm_file(f"bucket/{name}")


@pytest.fixture
def film(tmp_path):
    """A local file."""
    path = tmp_path / "local.mp4"
    path.write_bytes(ROOM)
    return path


def test_addresses_are_told_from_paths():
    """Only s3:// and gs:// are stores, file:// is a path, others and passwords are refused."""
    assert is_stored("s3://bucket/a.mp4")
    assert is_stored("GS://bucket")
    assert not is_stored("folder/s3://a.mp4")
    assert not is_stored("file:///a.mp4")
    assert local_path("file:///a b.mp4") == "/a b.mp4"
    assert local_path("a.mp4") == "a.mp4"
    assert join("s3://bucket/films/", "a.mp4") == "s3://bucket/films/a.mp4"
    for wrong in ("s3://", "s3:///a.mp4", "s3://me:secret@bucket/a", "https://host/a?sig=secret"):
        with pytest.raises(UsageError) as error:
            is_stored(wrong)
        assert "secret" not in str(error.value)
    with pytest.raises(UsageError, match="absolute"):
        local_path("file://a.mp4")


def test_a_store_without_its_package_names_the_package(monkeypatch):
    """A missing package is named with the line that installs it."""
    monkeypatch.setitem(__import__("sys").modules, "gcsfs", None)
    with pytest.raises(UnavailableError, match="pip install gcsfs"):
        ObjectStore("gs")


def test_inputs_are_found_by_name_folder_and_glob(store, film):
    """A folder gives its videos, a glob all that match, a name with brackets itself."""
    names = ["b.mp4", "a.MKV", "a.txt", ".hidden.mp4", "sub/c.mp4", "d[1].mp4", "ü é.mp4"]
    for name in names:
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
    assert (one.name, one.size, len(one.version)) == ("b.mp4", len(ROOM), 32)
    for word in ("s3://bucket/none", "s3://bucket/in/*.avi", "s3://nobody/a.mp4", "s3://nobody/"):
        with pytest.raises(MissingInputError):
            found(word)


def test_an_object_is_fetched_complete_or_not_at_all(store, film, tmp_path, monkeypatch):
    """What broke off, changed meanwhile or does not fit is never used, and nothing is left."""
    store.upload(film, "s3://bucket/a.mp4")
    (found,) = store.find("s3://bucket/a.mp4", VIDEOS, "video")
    folder = tmp_path / "cache"
    folder.mkdir()
    assert store.fetch(found, folder).read_bytes() == ROOM
    (folder / "a.mp4").unlink()

    def broken(remote, local):
        with open(local, "wb") as file:
            file.write(ROOM[:100])
        raise ConnectionResetError("the connection broke")

    with monkeypatch.context() as patch:
        patch.setattr(store._files, "get_file", broken)
        with pytest.raises(TransferError, match="broke"):
            store.fetch(found, folder)
    full = shutil.disk_usage(folder)._replace(free=module.KEPT_FREE)
    with monkeypatch.context() as patch:
        patch.setattr(module.shutil, "disk_usage", lambda path: full)
        with pytest.raises(TransferError, match="TMPDIR"):
            store.fetch(found, folder)
    film.write_bytes(ROOM[::-1])
    store.upload(film, "s3://bucket/a.mp4", overwrite=True)
    with pytest.raises(DamagedInputError, match="has changed"):
        store.fetch(found, folder)
    store._files.rm_file("bucket/a.mp4")
    with pytest.raises(DamagedInputError, match="name of a local file"):
        store.fetch(module.StoredFile("s3://bucket/in/..", 1, ""), folder)
    with pytest.raises(MissingInputError):
        store.fetch(found, folder)
    assert list(folder.iterdir()) == []


def test_an_object_is_replaced_only_if_asked_and_only_whole(store, film, monkeypatch):
    """An existing object is refused (73), also by the store; a broken upload changes nothing."""
    address = "s3://bucket/out/a.mp4"
    store.upload(film, address)
    film.write_bytes(b"new" * 2**22)  # uploaded in several parts
    with pytest.raises(OutputError, match="exists"):
        store.upload(film, address)
    with monkeypatch.context() as patch:
        patch.setattr(store, "_info", lambda address: None)  # another process was faster
        with pytest.raises(OutputError, match="exists"):
            store.upload(film, address)

    async def broken(*_, **__):
        raise ConnectionResetError("the connection broke")

    monkeypatch.setattr("s3fs.core.calculate_chunksize", lambda *_, **__: 5 * 2**20)
    with monkeypatch.context() as patch:
        patch.setattr(type(store._files), "_upload_file_part_concurrent", broken)
        with pytest.raises(TransferError, match="broke"):
            store.upload(film, address, overwrite=True)
    assert store.read(address, 10**6) == ROOM
    store.upload(film, address, overwrite=True)
    assert store.info(address).size == 3 * 2**22
    assert store.read(address, 10**6) is None


def test_the_objects_of_a_folder_are_listed_at_once(store, film):
    """Names count from the folder; a folder that is not there has none."""
    for name in ("a.mp4", "sub/b.mp4", "other"):
        store.upload(film, f"s3://bucket/out/{name}")
    assert sorted(store.names("s3://bucket/out/")) == ["a.mp4", "other", "sub/b.mp4"]
    read = store.read_all([f"s3://bucket/out/{name}" for name in ("other", "a.mp4")])
    assert read == [ROOM, ROOM]
    assert store.names("s3://bucket/none") == {}
    assert store.info("s3://bucket/out") is None
    store.check_folder("s3://bucket/out/new")


def check_keys(server, after):
    """Has the server refuse unknown keys after so many requests."""
    head = {"Content-Type": "text/plain"}
    urlopen(Request(f"{server}/moto-api/reset-auth", after.encode(), head)).close()


def test_no_bucket_no_permission_and_no_credentials_say_so(store, server, film, monkeypatch):
    """Inputs end with 66, outputs with 73; no message shows a secret."""
    with pytest.raises(OutputError, match="no such bucket"):
        store.check_folder("s3://nobody/out")
    with pytest.raises(OutputError, match="no such bucket"):
        store.upload(film, "s3://nobody/a.mp4")

    def refused(action, kind, text):
        with pytest.raises(kind, match=text) as error:
            action()
        assert "secret-of-the-test" not in str(error.value)

    store.upload(film, "s3://bucket/a.mp4")
    check_keys(server, "0")
    try:
        refused(
            lambda: store.find("s3://bucket/a.mp4", VIDEOS, "video"),
            MissingInputError,
            "permission",
        )
        refused(lambda: store.check_folder("s3://bucket/out"), OutputError, "permission")
        refused(lambda: store.upload(film, "s3://bucket/b.mp4", True), OutputError, "permission")
    finally:
        check_keys(server, "Infinity")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, os.devnull)
    store._files.clear_instance_cache()
    refused(lambda: ObjectStore("s3").check_folder("s3://bucket"), OutputError, "no credentials")
    store._files.clear_instance_cache()


def test_a_store_that_cannot_be_reached_is_a_matter_of_time(server, film, monkeypatch):
    """Asking ends with 75, "start me again"; a copy that breaks off with 74."""
    monkeypatch.setattr(module, "ATTEMPTS", 1)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    far = ObjectStore("s3")
    far._files.retries = 1
    for action, kind in (
        (lambda: far.info("s3://bucket/a.mp4"), TemporaryError),
        (lambda: far.upload(film, "s3://bucket/a.mp4", True), TransferError),
    ):
        with pytest.raises(Error, match="connect") as error:
            action()
        assert type(error.value) is kind
    far._files.clear_instance_cache()


OUT = "s3://bucket/films"


@pytest.fixture
def folder(store, tmp_path, monkeypatch):
    """The folder of a job in the store; the user's cache is a folder of the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return StoredFolder(OUT)


def made(folder, content=ROOM):
    """A film with all that is beside it, as a job has made it in the local folder."""
    outputs = {"film": folder.local / "a.mp4", "sidecar": folder.local / "a.jsonl"}
    outputs["maps"] = folder.local / "maps" / "a"
    outputs["film"].write_bytes(content)
    outputs["sidecar"].write_text("{}")
    outputs["maps"].mkdir(parents=True, exist_ok=True)
    (outputs["maps"] / "maps_000000.npz").write_bytes(b"maps")
    rows = folder.local / partition_of("a.mp4")
    rows.parent.mkdir(parents=True, exist_ok=True)
    rows.write_bytes(b"rows")
    keep_overview(folder.local, "a.mp4", FilmEntry(frames=7), "<svg/>")
    return outputs


WANTED = ("a.jsonl", "maps/a/maps_000000.npz", "maps/a", partition_of("a.mp4"))


def test_a_finished_film_is_uploaded_with_all_beside_it(store, folder, tmp_path):
    """Every file is there, the local ones are gone, and a new run finds the film finished."""
    folder.publish("a.mp4", "f1", made(folder))
    there = {"a.mp4", ".a.mp4.resume.json", *WANTED} - {"maps/a"}
    there |= {"archive.files/a.mp4.svg", "archive.files/a.mp4.json"}
    assert set(store.names(OUT)) == there
    left = [path.name for path in folder.local.rglob("*") if path.is_file()]
    assert left == ["a.mp4.json"]
    assert store.read(f"{OUT}/a.mp4", 10**6) == ROOM
    again = StoredFolder(f"{OUT}/")
    assert again.local == folder.local
    assert again.is_finished("a.mp4", "f1", WANTED)
    assert not again.is_finished("a.mp4", "f1", [*WANTED, "a.summary.png"])
    assert not again.is_finished("b.mp4", "f1", [])
    with pytest.raises(OutputError, match="other settings"):
        again.is_finished("a.mp4", "f2", WANTED)
    for name in ("a.mp4", "maps/a"):
        with pytest.raises(OutputError, match="exists"):
            again.refuse_existing([name])
    again.refuse_existing(["b.mp4", "maps/b"])
    shutil.rmtree(again.local)  # the next driver runs elsewhere
    elsewhere = StoredFolder(OUT)
    elsewhere.fetch_entries(["a.mp4", "b.mp4"])
    assert read_entry(elsewhere.local, "a.mp4") == FilmEntry(frames=7)


def test_a_film_that_somebody_else_has_put_there_stays(store, folder, film):
    """A film without a manifest, or changed since it was made, is named and not replaced."""
    store.upload(film, f"{OUT}/b.mp4")
    with pytest.raises(OutputError, match="exists"):
        StoredFolder(OUT).is_finished("b.mp4", "f1", [])
    folder.publish("a.mp4", "f1", made(folder))
    film.write_bytes(ROOM[::-1])  # as many bytes
    store.upload(film, f"{OUT}/a.mp4", overwrite=True)
    with pytest.raises(OutputError, match="changed"):
        StoredFolder(OUT).is_finished("a.mp4", "f1", [])


@pytest.mark.parametrize("before", [None, b"old film"])
def test_an_upload_that_is_killed_at_any_object_is_made_again(store, folder, before, monkeypatch):
    """Wherever it ends: there is no film or the old one, and a new run knows that it goes on."""
    if before:
        folder.publish("a.mp4", "f0", made(folder, before))
    uploads = 0
    upload = ObjectStore.upload
    for last in (4, 7) if before else (6,):
        count = 0

        def killed(self, file, address, overwrite=False, last=last):
            nonlocal count
            count += 1
            if count > last:
                raise KeyboardInterrupt
            return upload(self, file, address, overwrite)

        running = StoredFolder(OUT)
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(ObjectStore, "upload", killed)
            running.publish("a.mp4", "f1", made(running))
        film = store.read(f"{OUT}/a.mp4", 10**6)
        next_run = StoredFolder(OUT)
        if film == ROOM:  # complete, only its version is not noted yet
            assert next_run.is_finished("a.mp4", "f1", WANTED)
        else:
            assert film == before
            uploads += 1
            assert not next_run.is_finished("a.mp4", "f1", WANTED)
    assert uploads == 1
    running.publish("a.mp4", "f1", made(running))
    assert StoredFolder(OUT).is_finished("a.mp4", "f1", WANTED)


def test_pages_are_uploaded_and_the_first_one_last(store, folder):
    """The page that leads to the others is there when they are."""
    (folder.local / "archive.files").mkdir()
    for name in ("archive.html", "archive.files/page-2.html"):
        (folder.local / name).write_text(name)
    folder.publish_pages()
    assert sorted(store.names(OUT)) == ["archive.files/page-2.html", "archive.html"]


def test_a_worker_keeps_the_last_recordings(store, film, tmp_path):
    """Parts of one recording share a copy; a path is itself; what changed is not taken for it."""
    copies = LocalCopies(tmp_path)
    assert copies.path("folder/a.mp4") == LocalCopies(tmp_path).path("folder/a.mp4")
    versions = {}
    for name in "abcd":
        store.upload(film, f"s3://bucket/in/{name}.mp4")
        versions[name] = store.info(f"s3://bucket/in/{name}.mp4").version
    first = copies.path("s3://bucket/in/a.mp4", versions["a"])
    assert first.name == "a.mp4"
    assert first.read_bytes() == ROOM
    stamp = first.stat().st_mtime_ns
    assert copies.path("s3://bucket/in/a.mp4", versions["a"]).stat().st_mtime_ns == stamp
    kept = [copies.path(f"s3://bucket/in/{name}.mp4", versions[name]) for name in "bcd"]
    assert len(kept) == MOST_COPIES
    assert all(copy.exists() for copy in kept)
    assert not first.exists()
    film.write_bytes(ROOM[::-1])
    store.upload(film, "s3://bucket/in/a.mp4", overwrite=True)
    with pytest.raises(DamagedInputError, match="changed"):
        copies.path("s3://bucket/in/a.mp4", versions["a"])
    store._files.rm_file("bucket/in/a.mp4")
    with pytest.raises(MissingInputError, match="any more"):
        copies.path("s3://bucket/in/a.mp4", versions["a"])


def test_a_job_reads_from_and_writes_into_the_store(store, tmp_path, run, monkeypatch, tiny_model):
    """Films, sidecars, table and page are those of one process; a second run skips them."""
    from pyarrow import parquet

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(CLUSTER, lambda address: ThreadCluster())
    film = recording(tmp_path / "a.mp4", count=3)
    store.upload(film, "s3://bucket/in/a.mp4")
    (tmp_path / "broken.mp4").write_bytes(b"no film")
    store.upload(tmp_path / "broken.mp4", "s3://bucket/in/broken.mp4")
    for length in (230, 240, 600):  # what lies beside a film has longer names
        store.upload(film, f"s3://bucket/in/{'n' * length}.mp4")
    settings = ("--sidecar", "--model", str(tiny_model), "--preprocess", "tf")
    words = ("video", "s3://bucket/in", "-o", OUT, "--workers", "1", *settings)
    code, printed, told = run(*words)
    assert code == 73, told
    assert f"a.mp4: 3 frames -> {OUT}/a.mp4" in printed
    assert "'s3://bucket/in/broken.mp4' is no video" in told
    for length in (240, 600):
        assert f"/{'n' * length}.mp4' cannot be written (File name too long)" in told
    assert "2 of 5 videos done, 3 failed" in told
    assert run("video", str(film), "-o", str(tmp_path / "one.mp4"), *settings)[0] == 0
    alone = (tmp_path / "one.jsonl").read_bytes()
    assert store.read(f"{OUT}/a.jsonl", 10**6) == alone
    names = store.names(OUT)
    assert names["a.mp4"].size == (tmp_path / "one.mp4").stat().st_size
    rows = tmp_path / "rows.parquet"
    rows.write_bytes(store.read(f"{OUT}/{partition_of('a.mp4')}", 10**6))
    assert parquet.read_table(rows)["source"].to_pylist() == ["s3://bucket/in/a.mp4"] * 3
    page = store.read(f"{OUT}/archive.html", 10**6).decode()
    assert "3 frames" in page
    assert "broken.mp4</strong>: &#x27;s3://bucket/in/broken.mp4" in page
    before = names["a.mp4"].version
    assert run(*words)[0] == 73
    shutil.rmtree(tmp_path / "cache")  # the next driver runs elsewhere
    code, printed, told = run(*words, "--resume")
    assert (code, "a.mp4: 3 frames" in printed) == (73, False), told
    assert store.info(f"{OUT}/a.mp4").version == before
    assert "3 frames" in store.read(f"{OUT}/archive.html", 10**6).decode()


def test_films_of_stored_recordings_are_told_apart_by_all_that_shapes_them(tmp_path):
    """Another layer of concepts, other names or another recording give another fingerprint."""
    names = tmp_path / "names.yaml"
    names.write_text("{}")
    plain = {"version": "v1", "sidecar": True, "concepts": {}}

    def mark(**changes):
        given = plain | changes
        options = VideoOptions(["s3://bucket/a.mp4"], str(tmp_path), sidecar=given["sidecar"])
        recording = StoredFile("s3://bucket/a.mp4", 7, given["version"])
        config = Config(concepts=given["concepts"])
        return StoredTask(config, options, recording, tmp_path / "a.mp4", None).fingerprint

    layer, named = {"layer": "conv_1"}, {"names": str(names)}
    marks = [mark(), mark(version="v2"), mark(concepts=layer), mark(concepts=named)]
    names.write_text("{conv_1: {0: whiskers}}")
    marks.append(mark(concepts=named))
    assert len(set(marks)) == 5
    assert mark(concepts=layer, sidecar=False) == mark(sidecar=False) == mark()


def test_a_film_that_was_not_uploaded_is_by_the_next_run(
    store, tmp_path, run, monkeypatch, tiny_model
):
    """The store is lost when the film is done (74); the next run uploads it without a worker."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(CLUSTER, lambda address: ThreadCluster())
    recording(tmp_path / "a.mp4", count=2)
    settings = ("--model", str(tiny_model), "--preprocess", "tf")
    words = ("video", str(tmp_path / "a.mp4"), "-o", OUT, "--workers", "1", *settings)
    upload = ObjectStore.upload

    def lost(self, file, address, overwrite=False):
        if address.endswith(".mp4"):
            raise TransferError("the connection broke")
        return upload(self, file, address, overwrite)

    with monkeypatch.context() as patch:
        patch.setattr(ObjectStore, "upload", lost)
        code, _, told = run(*words)
    assert code == 74, told
    assert store.info(f"{OUT}/a.mp4") is None
    monkeypatch.setattr("realtime_lrp.commands.video.archive.worker.Worker.plan", None)
    code, _, told = run(*words, "--resume")
    assert code == 0, told
    assert store.info(f"{OUT}/a.mp4")
    assert partition_of("a.mp4") in store.names(OUT)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("s3://bucket/a.mp4", "-o", "films"), 2, "--workers"),
        (("a.mp4", "-o", "s3://bucket"), 2, "--workers"),
        (("a.mp4", "-o", "s3://bucket/a.mp4", "--workers", "1"), 2, "Expected a folder"),
        (("a.mp4", "-o", OUT, "--workers", "1", "--maps", "/maps"), 2, "below the output"),
        (("s3://me:secret@bucket/a.mp4", "-o", OUT, "--workers", "1"), 2, "environment"),
        (("s3://bucket/none.mp4", "-o", OUT, "--workers", "1"), 66, "no such"),
        (("s3://bucket/none.mp4", "-o", "s3://nobody/a", "--workers", "1"), 73, "no such bucket"),
    ],
)
def test_wrong_addresses_are_refused_before_any_worker(server, run, words, code, said):
    """One line says what is wrong; no secret is shown."""
    found, _, told = run("video", *words)
    assert found == code, told
    assert said in told
    assert "secret" not in told


def test_file_addresses_are_paths(tmp_path, run, tiny_model):
    """A file:// address needs no worker; it is the path that it names."""
    film = recording(tmp_path / "a b.mp4", count=2)
    small = ("--model", str(tiny_model), "--preprocess", "tf")
    code, _, told = run("video", f"file://{film}", "-o", f"file://{tmp_path}/out.mp4", *small)
    assert code == 0, told
    assert (tmp_path / "out.mp4").is_file()


UPLOAD = """
import sys
from pathlib import Path
from realtime_lrp.system.object_store import ObjectStore
store = ObjectStore("s3")
print("ready", flush=True)
store.upload(Path(sys.argv[1]), sys.argv[2], overwrite=True)
"""


@pytest.mark.release
def test_an_upload_whose_process_is_killed_leaves_the_object_as_it_was(store, film, tmp_path):
    """Killed at ten moments of an upload in parts: the old object, or the whole new one."""
    large = tmp_path / "large.mp4"
    large.write_bytes(os.urandom(2**27))
    address = "s3://bucket/a.mp4"
    sizes = []
    for moment in range(10):
        store.upload(film, address, overwrite=True)
        words = [sys.executable, "-c", UPLOAD, str(large), address]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as child:
            assert child.stdout.readline()
            time.sleep(0.15 * moment)
            child.kill()
        sizes.append(store.info(address).size)
    assert set(sizes) <= {len(ROOM), 2**27}
    assert sizes[0] == len(ROOM)


@pytest.mark.release
def test_workers_of_ray_read_from_and_write_into_the_store(
    store, tmp_path, tiny_model, new_processes
):
    """Two processes of Ray, a driver that is killed, and one that goes on; every film is there."""
    for number in range(4):
        film = recording(tmp_path / f"{number}.mp4", count=40)
        store.upload(film, f"s3://bucket/in/{number}.mp4")
    words = [
        sys.executable, "-m", "realtime_lrp", "video", "s3://bucket/in", "-o", OUT, "--resume",
        "--workers", "2", "--sidecar", "--model", str(tiny_model), "--preprocess", "tf",
    ]  # fmt: skip
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    with subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL) as driver:
        while driver.poll() is None and "0.mp4" not in store.names(OUT):
            time.sleep(0.05)
        driver.kill()
    before = store.names(OUT)
    assert before["0.mp4"]
    subprocess.run(words, env=environment, check=True)
    after = store.names(OUT)
    for number in range(4):
        assert f"{number}.mp4" in after
        lines = store.read(f"{OUT}/{number}.jsonl", 10**6).splitlines()
        assert [json.loads(line)["frame"] for line in lines] == list(range(40))
    assert after["0.mp4"].version == before["0.mp4"].version
