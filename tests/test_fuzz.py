"""Bad inputs by the hundred, in children with limits; and what was found by them, one by one."""

import json
import logging
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import media
import pytest
from faults.server import Server
from fuzz.damage import mended
from fuzz.files import KINDS, NETWORKS, picture, tried
from fuzz.streams import FLOODS, HOSTILE, UNTIL_OPENING_ENDS
from worker import recode

from realtime_lrp.errors import DamagedInputError, MissingInputError
from realtime_lrp.models.labels import read_labels
from realtime_lrp.video.pictures import read_picture
from realtime_lrp.video.reader import VideoReader
from realtime_lrp.video.streams import Stream


def check(kind, count, seed):
    taken, refused = tried(kind, count, seed)
    assert taken + refused == count and (count < 50 or min(taken, refused) > 0), (taken, refused)


def hostile(names):
    return subprocess.Popen(
        [sys.executable, "-m", "fuzz.streams", *names],
        cwd=Path(__file__).parent, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def check_hostile(process, more_mib=200):
    """Every loss was told, pictures came back, closing was quick, memory stayed."""
    out, _ = process.communicate(timeout=100)
    assert process.returncode == 0
    said = json.loads(out)
    assert {name: wrong for name, (wrong, _) in said["results"].items() if wrong} == {}
    assert said["more_mib"] < more_mib
    return said["results"]


@pytest.mark.release
def test_no_input_and_no_camera_does_harm():
    names = [name for name in HOSTILE if name not in UNTIL_OPENING_ENDS | FLOODS]
    cameras = hostile(names)
    try:
        for kind in KINDS:
            check(kind, 5, 1)
        assert set(check_hostile(cameras)) == set(names)
    finally:
        cameras.kill()
        cameras.communicate()


@pytest.mark.release
@pytest.mark.parametrize("kind", KINDS)
def test_no_input_does_harm_in_the_long_run(kind):
    check(kind, 500 if kind in NETWORKS else 2000, 2)


@pytest.mark.release
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_camera_alone(name):
    check_hostile(hostile([name]))


def test_a_picture_that_claims_too_much_is_not_decoded(tmp_path):
    data = bytearray(picture("png"))
    data[16:24] = (9000).to_bytes(4) + (9000).to_bytes(4)
    path = tmp_path / "bomb.png"
    path.write_bytes(mended(bytes(data)))
    with pytest.raises(DamagedInputError, match=r"too large. Expected at most 8192 x 8192 pixels"):
        read_picture(path)


@pytest.mark.parametrize("name", [b"IDAT", b"IEND"])
def test_a_chunk_that_claims_gigabytes_takes_no_memory(name, tmp_path):
    """OpenCV would make room for it before it looks whether it is there."""
    data = picture("png")
    at = data.index(name) - 4
    path = tmp_path / "bomb.png"
    path.write_bytes(data[:at] + b"\x7f\xff\xff\xf0" + data[at + 4 :])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DamagedInputError, match="no picture"):
        read_picture(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + (200 << 10)
    path.write_bytes(data + b"what follows the end")
    assert read_picture(path).shape == (40, 48, 3)


def test_a_damaged_picture_is_named_once_in_our_words(tmp_path, caplog, capfd, monkeypatch):
    monkeypatch.setattr(logging.getLogger(), "handlers", [caplog.handler])
    path = tmp_path / "cut.jpg"
    path.write_bytes(picture("jpg")[:-200] + b"\xff\xd9")
    assert read_picture(path).shape == (48, 40, 3)
    assert capfd.readouterr().err == ""
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: Corrupt JPEG data: premature end of data segment"
    ]


@pytest.mark.parametrize("read", [read_picture, read_labels])
def test_what_is_no_file_is_not_waited_for(read, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(MissingInputError, match=r"is (no|not a) file"):
            read(path)
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(64 << 30)
    with pytest.raises(DamagedInputError, match=r"too large. Expected at most"):
        read(tmp_path / "sparse")


def test_a_recording_reads_no_other_file_and_no_address(tmp_path):
    other = media.recording(tmp_path / "other.mp4", count=3)
    asked = threading.Event()
    with Server(lambda: iter([asked.set() or b""])) as server:
        lines = (
            f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{other}\n#EXT-X-ENDLIST\n",
            f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{server.url}/a.ts\n#EXT-X-ENDLIST\n",
            f"ffconcat version 1.0\nfile {other.name}\n",
        )
        for text in lines:
            (tmp_path / "list.mp4").write_text(text)
            with pytest.raises(DamagedInputError, match="no video"):
                VideoReader(tmp_path / "list.mp4")
    assert not asked.is_set()


def test_a_name_of_a_class_is_short_enough_to_be_drawn(tmp_path):
    for text in (json.dumps(["a", "b" * 100_000]), "[" * 3000):
        (tmp_path / "labels.json").write_text(text)
        with pytest.raises(DamagedInputError, match="at most 500 characters"):
            read_labels(tmp_path / "labels.json")


def test_sound_that_cannot_be_written_is_refused_with_a_way_out(tmp_path):
    source = media.recording(tmp_path / "in.mkv", count=3, sound="libopus")
    data = bytearray(source.read_bytes())
    private = data.rindex(b"\x63\xa2", 0, data.index(b"OpusHead"))
    data[private : private + 2] = b"\x63\xa9"  # a name that nobody knows
    source.write_bytes(data)
    with pytest.raises(DamagedInputError, match="Leave it out with --audio none"):
        recode(source, tmp_path / "out.mp4")
    assert recode(source, tmp_path / "out.mp4", sound=False).frames == 3


def test_names_cannot_command_the_terminal(run, tiny_model, tmp_path):
    path = tmp_path / "\x1b[31mred\x07.png"
    path.write_bytes(picture("png"))
    words = ("-o", tmp_path / "o.png", "--model", tiny_model, "--preprocess", "none")
    code, out, err = run("image", path, *words)
    assert code == 0 and "[31mred" in out
    path.write_bytes(b"no picture")
    code, _, refusal = run("image", path, *words, "--overwrite")
    assert code == 65 and "[31mred" in refusal
    assert not {"\x1b", "\x07"} & {*out, *err, *refusal}


def test_a_frame_beyond_the_limit_is_not_decoded(monkeypatch):
    monkeypatch.setattr("realtime_lrp.video.streams.MOST_PIXELS", 100 * 100)
    with (
        Server(HOSTILE["another size each time"]) as server,
        Stream(server.url, threading.Event()) as source,
    ):
        sizes = {source.read().shape[:2] for _ in range(8)}
    assert len(sizes) > 3
    assert all(rows * columns <= 100 * 100 for rows, columns in sizes)
    assert (16 + 48 * 8, 32 + 7 * 3) not in sizes
