"""Sources with an address: films, live streams, cameras that answer with one picture."""

import functools
import http.server
import shutil
import subprocess
import threading
import time

import media
import numpy as np
import pytest
from faults.server import OK, Server

from realtime_lrp.realtime.capture import LOST, WAITING, Capture
from realtime_lrp.video import streams
from realtime_lrp.video.playback import Playback
from realtime_lrp.video.reader import VideoReader
from realtime_lrp.video.source import Source
from realtime_lrp.video.streams import Snapshots, Stream, open_stream

pytestmark = pytest.mark.skipif(not shutil.which("ffmpeg"), reason="needs ffmpeg")


def ffmpeg(*words):
    """Runs ffmpeg."""
    command = ["ffmpeg", "-v", "error", "-nostdin", "-y", *map(str, words)]
    subprocess.run(command, check=True)


@pytest.fixture
def address(tmp_path):
    """The address of a server for the files of the test's folder, which says how long they are."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *words):
            pass

    handler = functools.partial(Handler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def pictures_of(path):
    with VideoReader(path) as reader:
        return [frame.picture for frame in reader]


@pytest.mark.parametrize(
    "name",
    [
        "film.mp4",
        "film.m3u8",
        *(pytest.param(f"film.{one}", marks=pytest.mark.release) for one in ("webm", "ts")),
        pytest.param("live.webm", marks=pytest.mark.release),
    ],
)
def test_a_film_with_an_address_is_played_as_from_a_file(name, address, tmp_path):
    """From its first picture to its last, at its own speed, then again; also without a length."""
    clip = ("-f", "lavfi", "-i", "testsrc2=s=96x64:r=25:d=0.8", "-pix_fmt", "yuv420p")
    live = ("-live", 1) if name == "live.webm" else ()
    codec = "libvpx" if "webm" in name else "libx264"
    hls = ("-hls_playlist_type", "vod") if "m3u8" in name else ()
    ffmpeg(*clip, "-c:v", codec, "-g", 10, *live, *hls, tmp_path / name)
    right = pictures_of(next(tmp_path.glob("*.ts")) if hls else tmp_path / name)
    assert len(right) == 20
    with open_stream(f"{address}/{name}", threading.Event()) as source:
        assert isinstance(source, Playback) and not source.steady
        begun = time.monotonic()
        pictures = [source.read() for _ in range(21)]
        assert time.monotonic() - begun > 0.75
        assert source.described == f"{address}/{name}"
    np.testing.assert_array_equal(pictures, [*right, right[0]])


def test_a_live_stream_waits_for_its_key_frame_while_data_comes(tmp_path):
    """A thousand pictures between two of them, joined after the first: the second one is shown."""
    clip = ("-f", "lavfi", "-i", "testsrc2=s=96x64:r=25:d=42")
    options = ("-c:v", "libx264", "-preset", "ultrafast", "-g", 1000, "-sc_threshold", 0)
    ffmpeg(*clip, *options, tmp_path / "film.ts")
    data = (tmp_path / "film.ts").read_bytes()
    at = len(data) // 20 // 188 * 188
    pieces = [data[n : n + 18800] for n in range(at, len(data), 18800)]
    served = [OK + b"Content-Type: video/mp2t\r\n\r\n", *pieces]
    with (
        Server(lambda: (time.sleep(0.002) or piece for piece in served)) as server,
        open_stream(server.url, threading.Event()) as source,
    ):
        assert isinstance(source, Stream) and source.patience_s > 0
        pictures = []
        while (picture := source.read()) is not None:
            pictures.append(picture)
    right = pictures_of(tmp_path / "film.ts")[1000:]
    assert len(pictures) == len(right) == 50
    assert np.abs(pictures[0].astype(int) - right[0]).mean() < 1


def test_a_stream_of_nothing_but_damage_is_given_up(monkeypatch):
    """After a while without a picture, though data comes."""
    monkeypatch.setattr(streams, "UNDECODED_S", 0.3)
    head = OK + b"Content-Type: multipart/x-mixed-replace; boundary=frame\r\n\r\n"
    part = b"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: 900\r\n\r\n"
    broken = part + b"\xff\xd8\xff" + bytes(897) + b"\r\n"

    def endless():
        yield head
        while True:
            yield broken
            time.sleep(0.01)

    with Server(endless) as server, Stream(server.url, threading.Event()) as source:
        assert source.read() is None


@pytest.mark.parametrize(("size", "matrix"), [("1280x720", 1), ("640x480", 5)])
def test_a_stream_has_the_colours_and_the_shape_of_its_file(size, matrix, tmp_path):
    """Whose tags say nothing: BT.709 where it is HD; pixels are made square in both."""
    colours = f"color=red:s={size}:r=25:d=0.2,drawbox=iw/2:0:iw/2:ih:0x40C080:fill,format=gbrp"
    told = f"scale=out_color_matrix={'bt709' if matrix == 1 else 'bt601'},format=yuv420p,setsar=4/3"
    ffmpeg("-f", "lavfi", "-i", f"{colours},{told}", "-c:v", "libx264", tmp_path / "film.ts")
    data = [OK + b"Content-Type: video/mp2t\r\n\r\n", (tmp_path / "film.ts").read_bytes()]
    with Server(lambda: iter(data)) as server, Stream(server.url, threading.Event()) as source:
        picture = source.read()
    columns, rows = map(int, size.split("x"))
    assert picture.shape == (rows, round(columns * 4 / 3), 3)
    np.testing.assert_array_equal(picture, pictures_of(tmp_path / "film.ts")[0])
    places = picture[rows // 2, [100, -100]].astype(int)
    assert np.abs(places - [[255, 0, 0], [0x40, 0xC0, 0x80]]).max() <= 4


@pytest.mark.parametrize("name", ["snap.jpg", "snap.png", "camera.cgi"])
def test_a_camera_of_single_pictures_is_asked_again_and_again(name, tmp_path):
    """Whatever its address ends in; its present pictures, and rarer ones while they stay."""
    shown = [media.plain((40 * number, 90, 60)) for number in range(3)]
    ending = ".png" if name == "snap.png" else ".jpg"
    files = [media.write_picture(tmp_path / f"{n}{ending}", one) for n, one in enumerate(shown)]
    bodies = [file.read_bytes() for file in files]
    answers = iter([0] * (name == "camera.cgi") + [0, 1, 2, 2, 2])

    def answer():
        body = bodies[next(answers)]
        yield OK + f"Content-Length: {len(body)}\r\n\r\n".encode()
        yield body

    with Server(answer) as server:
        url = server.url.replace("camera.mjpg", name)
        with open_stream(url, threading.Event()) as source:
            assert isinstance(source, Snapshots) and source.steady and not source.alive
            times, pictures = [], []
            for _ in range(4):
                pictures.append(source.read())
                times.append(time.monotonic())
    right = [shown[0], shown[1], shown[2], shown[2]]
    assert np.abs(np.array(pictures, int) - right).max() <= 3
    assert times[3] - times[0] > 0.5


class Slow(Source):
    """A camera with a picture every few seconds, or silent for ever from a certain one on."""

    steady = alive = True
    patience_s = 60.0

    def __init__(self, stop, clock, pause_s, last=10**9, opened=None):
        super().__init__(stop)
        self.clock, self.pause_s, self.last, self.count = clock, pause_s, last, 0
        if opened is not None:
            opened.append(clock.now())

    def read(self):
        if self.count:
            pause_s = self.pause_s if self.count < self.last else 1e5
            self.clock.wait(self.stop, pause_s)
        self.count += 1
        return None if self.stop.is_set() else media.plain((self.count % 200 + 20, 80, 90))


@pytest.mark.parametrize("pause_s", [0.04, 1.3, 2, 4, 10, 30, 50])
def test_a_slow_camera_is_not_taken_for_a_lost_one(pause_s, clock):
    """All its pictures come; once it is silent it is lost after a few of its usual pauses."""
    troubles, opened = set(), []
    open_slow = lambda stop: Slow(stop, clock, pause_s, 12, opened)  # noqa: E731
    with Capture(open_slow, clock=clock) as capture:
        while clock.now() < 11.5 * pause_s:
            clock.sleep(min(0.2, pause_s))
            troubles.add(capture.trouble)
            capture.check()
        assert capture.frames.count == 12
        assert troubles <= {"", WAITING} and capture.reconnects == 0
        silent_s = clock.until(lambda: capture.trouble == LOST, 999)
        assert silent_s <= max(2, 2.6 * pause_s)
        assert clock.until(lambda: len(opened) == 2, 999) <= max(5, 6 * pause_s)


def test_a_source_whose_data_makes_no_picture_yet_is_waited_for(clock):
    """Forty seconds until the key frame, at the start; silence is given up."""

    class Late(Slow):
        def read(self):
            for _ in range(0 if self.count else 80):
                self.clock.wait(self.stop, 0.5)
                self.on_wait()
            return super().read()

    with Capture(lambda stop: Late(stop, clock, 0.04), clock=clock) as capture:
        for _ in range(39):
            clock.sleep(1)
            capture.check()
        clock.until(lambda: capture.frames.count > 5)
        assert capture.trouble == ""
