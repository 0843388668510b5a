"""Downloads: the right and whole file or none, also from servers that fail, lie or hang."""

import hashlib
import inspect
import json
import os
import subprocess
import sys
import threading
import time

import keras
import numpy as np
import pytest
from keras import layers
from web import sends, serving

from realtime_lrp.errors import UnavailableError
from realtime_lrp.models import downloads, labels
from realtime_lrp.models.downloads import Download, fetch
from realtime_lrp.models.labels import imagenet_labels
from realtime_lrp.models.names import NETWORKS, application
from realtime_lrp.models.networks import load_network

pytestmark = pytest.mark.usefixtures("light_scripts")

BODY = bytes(range(256)) * 4096
MD5 = hashlib.md5(BODY).hexdigest()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder for downloads."""
    monkeypatch.setattr(downloads, "FOLDER", tmp_path / "models")
    return tmp_path / "models"


def start_download(folder, address):
    """Downloads w.h5 in a child process, in small chunks."""
    code = (
        "import realtime_lrp.models.downloads as d; "
        f"d.CHUNK_BYTES = 1000; d.fetch(d.Download('{address}/w.h5', '{MD5}'))"
    )
    environment = {**os.environ, "KERAS_HOME": str(folder.parent)}
    return subprocess.Popen([sys.executable, "-c", code], env=environment)


def names(folder):
    """The names of the files in the folder."""
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_the_right_file_is_downloaded_once(folder, caplog):
    """The first time the log gives path and size; the second time the server is not asked."""
    with serving(sends(BODY)) as (address, asked):
        for _ in range(2):
            assert fetch(Download(f"{address}/w.h5", MD5)).read_bytes() == BODY
    assert asked == ["/w.h5"]
    assert names(folder) == ["w.h5"]
    assert caplog.text.count("w.h5 once (1.0 MB)") == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (sends(BODY[:-1]), MD5),
        (sends(BODY[:500_000], len(BODY)), r"500000 bytes read, 548576 more expected"),
        (sends(b"<html>Please log in</html>"), MD5),
        (sends(b"", status=404), "404"),
        (lambda handler: handler.wfile.write(b"no HTTP\r\n"), "could not be downloaded"),
    ],
    ids=["wrong bytes", "dies in the middle", "another page", "404", "no HTTP"],
)
def test_what_is_not_the_file_is_never_kept(folder, answer, words):
    """Nothing is left in the folder, not even a temporary file."""
    with serving(answer) as (address, _), pytest.raises(UnavailableError, match=words):
        fetch(Download(f"{address}/w.h5", MD5))
    assert names(folder) == []


def test_a_server_that_hangs_times_out(folder, monkeypatch):
    """The timeout counts from the last byte."""
    monkeypatch.setattr(downloads, "TIMEOUT_S", 0.2)
    hold = threading.Event()

    def answer(handler):
        sends(BODY[:1000], len(BODY))(handler)
        hold.wait(300)

    begun = time.monotonic()
    with serving(answer) as (address, _), pytest.raises(UnavailableError, match="timed out"):
        fetch(Download(f"{address}/w.h5", MD5))
    hold.set()
    assert time.monotonic() - begun < 30
    assert names(folder) == []


def test_a_long_download_logs_its_progress(folder, monkeypatch, caplog):
    """Every few seconds: what has come of how much."""
    monkeypatch.setattr(downloads, "REPORT_S", -1)
    with serving(sends(BODY)) as (address, _):
        fetch(Download(f"{address}/w.h5", MD5))
    assert "1.0 of 1.0 MB" in caplog.text


def test_a_file_with_a_wrong_checksum_is_downloaded_again(folder, caplog):
    """For example an incomplete one under the final name."""
    folder.mkdir()
    (folder / "w.h5").write_bytes(BODY[:1000])
    with serving(sends(BODY)) as (address, asked):
        assert fetch(Download(f"{address}/w.h5", MD5)).read_bytes() == BODY
    assert len(asked) == 1
    assert f"{folder / 'w.h5'} is damaged" in caplog.text


def test_a_damaged_file_without_a_server_is_named_and_kept(folder):
    """Offline: the error names the file, which is not deleted."""
    folder.mkdir()
    (folder / "w.h5").write_bytes(BODY[:1000])
    with pytest.raises(UnavailableError, match=r"w\.h5 is missing or damaged"):
        fetch(Download("http://127.0.0.1:9/w.h5", MD5))
    assert names(folder) == ["w.h5"]


def test_a_killed_download_leaves_nothing_that_is_used(folder):
    """The next run ignores and removes the temporary file."""
    arrived, hold = threading.Event(), threading.Event()

    def answer(handler):
        if arrived.is_set():
            return sends(BODY)(handler)
        sends(BODY[:-10], len(BODY))(handler)
        handler.wfile.flush()
        arrived.set()
        hold.wait(300)

    with serving(answer) as (address, _):
        child = start_download(folder, address)
        assert arrived.wait(300)
        while not (parts := list(folder.glob("*.part"))) or not parts[0].stat().st_size:
            time.sleep(0.01)
        child.kill()
        child.wait()
        hold.set()
        assert names(folder) == [parts[0].name]
        assert fetch(Download(f"{address}/w.h5", MD5)).read_bytes() == BODY
    assert names(folder) == ["w.h5"]


def test_two_processes_at_once_both_get_the_whole_file(folder):
    """Each has its own temporary file and leaves the other alone."""
    both_asked = threading.Barrier(2)

    def answer(handler):
        both_asked.wait(300)
        sends(BODY)(handler)

    with serving(answer) as (address, asked):
        children = [start_download(folder, address) for _ in range(2)]
        assert [child.wait(300) for child in children] == [0, 0]
    assert len(asked) == 2
    assert names(folder) == ["w.h5"]
    assert (folder / "w.h5").read_bytes() == BODY


def test_a_folder_that_cannot_be_written_is_named(folder):
    """The error does not point to another folder, such as /tmp/.keras."""
    folder.parent.joinpath("models").write_text("a file in its place")
    with pytest.raises(UnavailableError, match=r"w\.h5"):
        fetch(Download("http://127.0.0.1:9/w.h5", MD5))


@pytest.mark.parametrize("name", ["vgg16", "vgg19"])
def test_addresses_and_checksums_are_those_of_keras(name):
    """They are compared with the source of keras.applications."""
    module = inspect.getmodule(getattr(keras.applications, name.upper()))
    assert NETWORKS[name].download.url == module.WEIGHTS_PATH
    assert f'file_hash="{NETWORKS[name].download.md5}"' in inspect.getsource(module)


def test_the_class_index_is_the_one_that_keras_uses():
    """Address and checksum are compared with Keras's source."""
    from keras.src.applications import imagenet_utils

    assert labels.CLASS_INDEX.url == imagenet_utils.CLASS_INDEX_PATH
    assert labels.CLASS_INDEX.md5 in inspect.getsource(imagenet_utils)


def test_a_network_and_its_labels_come_from_the_server_and_then_from_the_disk(
    folder, tmp_path, monkeypatch
):
    """A small network stands for VGG16."""

    def small(weights):
        assert weights is None
        return keras.Sequential([keras.Input((4, 4, 3)), layers.Flatten(), layers.Dense(2)])

    served = small(None)
    served.save_weights(tmp_path / "w.weights.h5")
    index = json.dumps({"0": ["n0", "tench"], "1": ["n1", "goldfish"]}).encode()
    files = {"/w.weights.h5": (tmp_path / "w.weights.h5").read_bytes(), "/index.json": index}
    with serving(lambda handler: sends(files[handler.path])(handler)) as (address, asked):
        weights, classes = (
            Download(address + path, hashlib.md5(data).hexdigest()) for path, data in files.items()
        )
        monkeypatch.setattr(keras.applications, "VGG16", small)
        monkeypatch.setitem(NETWORKS, "vgg16", application("VGG16", "small", weights))
        monkeypatch.setattr(labels, "CLASS_INDEX", classes)
        for _ in range(2):
            network = load_network("VGG16")
    assert (network.name, network.preprocess) == ("vgg16", "caffe")
    assert network.labels == ["tench", "goldfish"]
    np.testing.assert_array_equal(network.model.get_weights()[0], served.get_weights()[0])
    assert len(asked) == 2


def test_a_class_index_with_another_checksum_is_not_used(folder, monkeypatch, caplog):
    """A file that was changed on the way is refused; classes are then shown by number."""
    with serving(sends(b'["forged"]')) as (address, _):
        monkeypatch.setattr(labels, "CLASS_INDEX", Download(f"{address}/index.json", MD5))
        assert imagenet_labels(download=True) is None
    assert "by number" in caplog.text


def test_offline_the_message_says_where_the_file_belongs(folder, monkeypatch):
    """Two lines with the path of the file and the option --weights."""
    right = NETWORKS["vgg16"].download
    name = right.path.name
    wrong = Download(f"http://127.0.0.1:9/{name}", right.md5)
    monkeypatch.setitem(NETWORKS, "vgg16", application("VGG16", "large", wrong))
    with pytest.raises(UnavailableError) as refusal:
        load_network("vgg16")
    assert str(folder / name) in str(refusal.value)
    assert "--weights" in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 2
