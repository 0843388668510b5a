"""Files in object stores, against a real S3 server: moto's, over HTTP, on this machine."""

import logging
import os
import shutil
from urllib.request import Request, urlopen

import pytest
from jobs import HereCluster
from media import recording

import realtime_lrp.system.object_store as module
from realtime_lrp import errors
from realtime_lrp.system.object_store import ObjectStore, is_stored, local_path

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
        ObjectStore("s3://bucket")._files.mkdir("bucket")
        yield address
    running.stop()


@pytest.fixture
def store(server):
    """The store; what a test leaves in its bucket goes."""
    yield (made := ObjectStore("s3://bucket"))
    for name in made.names("s3://bucket"):
        made._files.rm_file(f"bucket/{name}")


@pytest.fixture
def film(tmp_path):
    path = tmp_path / "local.mp4"
    path.write_bytes(ROOM)
    return path


def test_addresses_are_told_from_paths():
    """Only s3:// and gs:// are stores, file:// is a path, others and passwords are refused."""
    words = ("s3://bucket/a.mp4", "GS://bucket", "folder/s3://a.mp4", "file:///a.mp4")
    assert [is_stored(word) for word in words] == [True, True, False, False]
    assert local_path("file:///a b.mp4") == "/a b.mp4" and local_path("a.mp4") == "a.mp4"
    for wrong in ("s3://", "s3:///a.mp4", "s3://me:secret@bucket/a", "https://host/a?sig=secret"):
        with pytest.raises(errors.UsageError) as error:
            is_stored(wrong)
        assert "secret" not in str(error.value)
    with pytest.raises(errors.UsageError, match="absolute"):
        local_path("file://a.mp4")


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
    assert (one.size, len(one.version)) == (len(ROOM), 32)
    for word in ("s3://bucket/none", "s3://bucket/in/*.avi", "s3://nobody/a.mp4", "s3://nobody/"):
        with pytest.raises(errors.MissingInputError):
            found(word)


def test_an_object_is_fetched_whole_or_refused(store, film, tmp_path, monkeypatch):
    """What broke off, changed meanwhile or does not fit is an error."""
    store.upload(film, "s3://bucket/a.mp4")
    (found,) = store.find("s3://bucket/a.mp4", VIDEOS, "video")
    target = tmp_path / "copy.mp4"
    store.fetch(found, target)
    assert target.read_bytes() == ROOM

    def broken(remote, local):
        raise ConnectionResetError("the connection broke")

    with monkeypatch.context() as patch:
        patch.setattr(store._files, "get_file", broken)
        with pytest.raises(errors.TransferError, match="broke"):
            store.fetch(found, target)
    full = shutil.disk_usage(tmp_path)._replace(free=module.KEPT_FREE)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: full)
        with pytest.raises(errors.TransferError, match="TMPDIR"):
            store.fetch(found, target)
    film.write_bytes(ROOM[::-1])
    store.upload(film, "s3://bucket/a.mp4")
    with pytest.raises(errors.DamagedInputError, match="has changed"):
        store.fetch(found, target)
    store._files.rm_file("bucket/a.mp4")
    with pytest.raises(errors.MissingInputError):
        store.fetch(found, target)


def test_an_upload_that_breaks_changes_nothing(store, film, monkeypatch):
    address = "s3://bucket/out/a.mp4"
    store.upload(film, address)
    film.write_bytes(b"new" * 2**22)  # uploaded in several parts

    async def broken(*_, **__):
        raise ConnectionResetError("the connection broke")

    monkeypatch.setattr("s3fs.core.calculate_chunksize", lambda *_, **__: 5 * 2**20)
    with monkeypatch.context() as patch:
        patch.setattr(type(store._files), "_upload_file_part_concurrent", broken)
        with pytest.raises(errors.TransferError, match="broke"):
            store.upload(film, address)
    assert store.read_all([address]) == [ROOM]
    store.upload(film, address)
    assert store.names("s3://bucket/out") == {"a.mp4": 3 * 2**22}


def check_keys(server, after):
    """Has the server refuse unknown keys after so many requests."""
    head = {"Content-Type": "text/plain"}
    urlopen(Request(f"{server}/moto-api/reset-auth", after.encode(), head)).close()


def test_no_bucket_no_permission_and_no_credentials_say_so(store, server, film, monkeypatch):
    """Inputs end with 66, outputs with 73; no message shows a secret."""
    with pytest.raises(errors.OutputError, match="no such bucket"):
        store.names("s3://nobody/out")
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
        refused(lambda: store.names("s3://bucket/out"), errors.OutputError, "permission")
        refused(lambda: store.upload(film, "s3://bucket/b.mp4"), errors.OutputError, "permission")
    finally:
        check_keys(server, "Infinity")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, os.devnull)
    store._files.clear_instance_cache()
    refused(lambda: ObjectStore(OUT).names("s3://bucket"), errors.OutputError, "no credentials")
    store._files.clear_instance_cache()


def test_a_store_that_cannot_be_reached_is_a_matter_of_time(server, film, monkeypatch):
    """Asking ends with 75, "start me again"; a copy that breaks off with 74."""
    monkeypatch.setattr(module, "ATTEMPTS", 1)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    far = ObjectStore("s3://bucket")
    far._files.retries = 1
    for action, kind in (
        (lambda: far.names("s3://bucket/out"), errors.TemporaryError),
        (lambda: far.upload(film, "s3://bucket/a.mp4"), errors.TransferError),
    ):
        with pytest.raises(errors.Error, match="connect") as error:
            action()
        assert type(error.value) is kind
    far._files.clear_instance_cache()


@pytest.fixture
def job(run, store, tmp_path, tiny_model, monkeypatch):
    """Runs a job with one recording in the store, in this process; gives also the cluster."""
    store.upload(recording(tmp_path / "a.mp4", count=3), "s3://bucket/in/a.mp4")

    def run_job(*words, source="s3://bucket/in"):
        made = HereCluster()
        monkeypatch.setattr("realtime_lrp.commands.video.cluster.Cluster", made)
        network = "--model", tiny_model, "--preprocess", "tf", "--sidecar", "--maps", "maps"
        return (*run("video", source, "-o", OUT, "--workers", 1, *network, *words), made)

    return run_job


WANTED = {".a.mp4.resume.json", "a.mp4", "a.jsonl", "maps/a/maps_000000.npz"}


def test_a_job_reads_from_and_writes_into_the_store(job, store, run, tmp_path, tiny_model):
    """Film, sidecar and maps are those of one process; a second run skips them."""
    (tmp_path / "broken.mp4").write_bytes(b"no film")
    store.upload(tmp_path / "broken.mp4", "s3://bucket/in/broken.mp4")
    store.upload(tmp_path / "a.mp4", f"s3://bucket/in/{'n' * 300}.mp4")
    code, printed, told, _ = job()
    assert code == 73 and "1 of 3 videos done, 2 failed" in told
    assert f"a.mp4: 3 frames -> {OUT}/a.mp4" in printed
    assert "'s3://bucket/in/broken.mp4' is no video" in told and "File name too long" in told
    alone = ("--model", tiny_model, "--preprocess", "tf", "--sidecar", "--maps", tmp_path / "maps")
    assert run("video", tmp_path / "a.mp4", "-o", tmp_path / "one.mp4", *alone)[0] == 0
    assert set(store.names(OUT)) == WANTED
    films = store.read_all([f"{OUT}/a.mp4", f"{OUT}/a.jsonl"])
    assert films == [(tmp_path / name).read_bytes() for name in ("one.mp4", "one.jsonl")]
    assert job()[0] == 73
    code, printed, told, made = job("--resume")
    assert "a.mp4: finished before" in printed and "a.mp4" not in made.made


def test_resume_tells_what_is_finished_from_what_is_not(job, store, film):
    """What is missing is made again, what is not ours is named and stays."""
    assert job()[0] == 0
    assert job("--resume", "--summary")[3].made == ["a.mp4"]
    store._files.rm_file(f"{OUT[5:]}/a.jsonl")
    assert job("--resume")[3].made == ["a.mp4"]
    assert job("--resume")[3].made == []
    code, _, told, _ = job("--resume", "--opacity", 0.1)
    assert code == 73 and "other settings" in told
    store.upload(film, f"{OUT}/a.mp4")
    code, _, told, _ = job("--resume")
    assert code == 73 and "has changed" in told
    store._files.rm_file(f"{OUT[5:]}/.a.mp4.resume.json")
    code, _, told, _ = job("--resume")
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
