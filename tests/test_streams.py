"""Sources with an address: films, live streams, cameras that answer with one picture."""

import shutil
import struct
import subprocess
import threading
import time
from fractions import Fraction

import av
import media
import numpy as np
import pytest
from faults.server import OK, Server
from web import serving_files
from worker import recode

from realtime_lrp.realtime.capture import LOST, WAITING, Capture
from realtime_lrp.video import streams
from realtime_lrp.video.files import VIDEOS, inputs_of
from realtime_lrp.video.pictures import read_picture
from realtime_lrp.video.playback import Playback
from realtime_lrp.video.reader import VideoReader
from realtime_lrp.video.source import Source
from realtime_lrp.video.streams import Snapshots, Stream, open_stream

pytestmark = pytest.mark.skipif(not shutil.which("ffmpeg"), reason="needs ffmpeg")


def ffmpeg(*words):
    """Runs ffmpeg; gives what it prints."""
    command = ["ffmpeg", "-v", "error", "-nostdin", "-y", *map(str, words)]
    return subprocess.run(command, check=True, capture_output=True).stdout


@pytest.fixture
def address(tmp_path):
    """The address of a server for the files of the test's folder, which says how long they are."""
    with serving_files(tmp_path) as (at, _):
        yield at.rstrip("/")


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
    clip = ("-f", "lavfi", "-i", "testsrc2=s=96x64:r=25:d=0.8", "-pix_fmt", "yuv420p")
    live = ("-live", 1) if name == "live.webm" else ()
    codec = "libvpx" if "webm" in name else "libx264"
    hls = ("-hls_playlist_type", "vod") if "m3u8" in name else ()
    ffmpeg(*clip, "-c:v", codec, "-g", 10, *live, *hls, tmp_path / name)
    right = media.frames_of(next(tmp_path.glob("*.ts")) if hls else tmp_path / name)
    assert len(right) == 20
    with open_stream(f"{address}/{name}", threading.Event()) as source:
        assert isinstance(source, Playback) and not source.steady
        begun = time.monotonic()
        pictures = [source.read() for _ in range(21)]
        assert time.monotonic() - begun > 0.75
        assert source.described == f"{address}/{name}"
    np.testing.assert_array_equal(pictures, [*right, right[0]])


def test_a_live_stream_waits_for_its_key_frame_while_data_comes(tmp_path):
    options = ("-c:v", "libx264", "-preset", "ultrafast", "-g", 1000, "-sc_threshold", 0)
    ffmpeg("-f", "lavfi", "-i", "testsrc2=s=96x64:r=25:d=42", *options, tmp_path / "film.ts")
    data = (tmp_path / "film.ts").read_bytes()
    pieces = [data[n : n + 18800] for n in range(len(data) // 20 // 188 * 188, len(data), 18800)]
    served = [OK + b"Content-Type: video/mp2t\r\n\r\n", *pieces]
    with (
        Server(lambda: (time.sleep(0.002) or piece for piece in served)) as server,
        open_stream(server.url, threading.Event()) as source,
    ):
        assert isinstance(source, Stream) and source.patience_s > 0
        pictures = []
        while (picture := source.read()) is not None:
            pictures.append(picture)
    right = media.frames_of(tmp_path / "film.ts")[1000:]
    assert len(pictures) == len(right) == 50
    assert np.abs(pictures[0].astype(int) - right[0]).mean() < 1


def test_a_stream_of_nothing_but_damage_is_given_up(monkeypatch):
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
    colours = f"color=red:s={size}:r=25:d=0.2,drawbox=iw/2:0:iw/2:ih:0x40C080:fill,format=gbrp"
    told = f"scale=out_color_matrix={'bt709' if matrix == 1 else 'bt601'},format=yuv420p,setsar=4/3"
    ffmpeg("-f", "lavfi", "-i", f"{colours},{told}", "-c:v", "libx264", tmp_path / "film.ts")
    data = [OK + b"Content-Type: video/mp2t\r\n\r\n", (tmp_path / "film.ts").read_bytes()]
    with Server(lambda: iter(data)) as server, Stream(server.url, threading.Event()) as source:
        picture = source.read()
    columns, rows = map(int, size.split("x"))
    assert picture.shape == (rows, round(columns * 4 / 3), 3)
    np.testing.assert_array_equal(picture, media.frames_of(tmp_path / "film.ts")[0])
    places = picture[rows // 2, [100, -100]].astype(int)
    assert np.abs(places - [[255, 0, 0], [0x40, 0xC0, 0x80]]).max() <= 4


@pytest.mark.parametrize("name", ["snap.jpg", "snap.png", "camera.cgi"])
def test_a_camera_of_single_pictures_is_asked_again_and_again(name, tmp_path):
    shown = [media.plain((40 * number, 90, 60)) for number in range(3)]
    ending = ".png" if name == "snap.png" else ".jpg"
    files = [media.write_picture(tmp_path / f"{n}{ending}", one) for n, one in enumerate(shown)]
    bodies = [file.read_bytes() for file in files]
    answers = iter([0] * (name == "camera.cgi") + [0, 1, 2, 2, 2])

    def answer():
        body = bodies[next(answers)]
        yield OK + f"Content-Length: {len(body)}\r\n\r\n".encode()
        yield body

    with (
        Server(answer) as server,
        open_stream(server.url.replace("camera.mjpg", name), threading.Event()) as source,
    ):
        assert isinstance(source, Snapshots) and source.steady and not source.alive
        times, pictures = [], []
        for _ in range(4):
            pictures.append(source.read())
            times.append(time.monotonic())
    assert np.abs(np.array(pictures, int) - [shown[0], shown[1], shown[2], shown[2]]).max() <= 3
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
            self.clock.wait(self.stop, self.pause_s if self.count < self.last else 1e5)
        self.count += 1
        return None if self.stop.is_set() else media.plain((self.count % 200 + 20, 80, 90))


@pytest.mark.parametrize("pause_s", [0.04, 1.3, 2, 4, 10, 30, 50])
def test_a_slow_camera_is_not_taken_for_a_lost_one(pause_s, clock):
    troubles, opened = set(), []
    open_slow = lambda stop: Slow(stop, clock, pause_s, 12, opened)  # noqa: E731
    with Capture(open_slow, clock=clock) as capture:
        while clock.now() < 11.5 * pause_s:
            clock.sleep(min(0.2, pause_s))
            troubles.add(capture.trouble)
            capture.check()
        assert capture.frames.count == 12
        assert troubles <= {"", WAITING} and capture.reconnects == 0
        assert clock.until(lambda: capture.trouble == LOST, 999) <= max(2, 2.6 * pause_s)
        assert clock.until(lambda: len(opened) == 2, 999) <= max(5, 6 * pause_s)


def test_a_source_whose_data_makes_no_picture_yet_is_waited_for(clock):

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


LONG = pytest.mark.release  # further examples of a kind

CLIP = ("-f", "lavfi", "-i", "testsrc2=s=96x64:r=25:d=1")
TONE = ("-f", "lavfi", "-i", "sine=440:d=1", "-c:a", "aac", "-bf", "2")
WRAP_S = 2**33 / 90000  # when the clock of a transport stream begins again


def probed(path, kind, what, stream="v"):
    """What ffprobe says of the packets or frames of a file."""
    command = ["ffprobe", "-v", "quiet", "-select_streams", stream, "-show_entries"]
    command += [f"{kind}={what}", "-of", "csv=p=0", str(path)]
    words = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [line.strip(",") for line in words.split() if line.strip(",")]


def first_picture(path, filters, size):
    """The first picture as ffmpeg shows it, (columns, rows), int [rows, columns, 3]."""
    shown = ffmpeg(
        "-i", path, "-frames:v", 1, "-vf", f"{filters},format=rgb24", "-f", "rawvideo", "-"
    )
    return np.frombuffer(shown, np.uint8).reshape(size[1], size[0], 3).astype(int)


LATE = {
    "late.ts": (36000,), "wraps.ts": (WRAP_S - 0.5, "-muxdelay", 0), "late.mkv": (5,),
    "wraps later.ts": (WRAP_S - 70, "-r", 1, "-muxdelay", 0), "late.mp4": (5,),
    "wraps.vob": (WRAP_S - 0.5, "-c:v", "mpeg2video", "-c:a", "mp2"),
    "late.flv": (5000, "-c:v", "flv1", "-bf", 0, "-pix_fmt", "yuv420p"),
}  # fmt: skip
"""Name of a film -> when it begins, and further words for ffmpeg."""


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=() if place < 3 else LONG) for place, one in enumerate(LATE)]
)
def test_films_begin_at_zero_unless_their_container_means_a_late_start(name, tmp_path):
    source, target = tmp_path / name, tmp_path / "out.mkv"
    clip = ("-f", "lavfi", "-i", "testsrc2=s=96x64:r=1:d=80") if "later" in name else CLIP
    ffmpeg(*clip, *TONE, "-output_ts_offset", *LATE[name], source)
    times = [float(time) for time in probed(source, "frame", "best_effort_timestamp_time")]
    heard = [float(time) for time in probed(source, "packet", "pts_time", "a")]
    begins = 0 if name in ("late.mkv", "late.mp4") else min(times[0], heard[0])
    assert recode(source, target).lost_sound == 0
    assert media.times_of(target) == pytest.approx([one - begins for one in times], abs=0.002)
    assert float(media.sound_of(target)[1][0][0]) == pytest.approx(heard[0] - begins, abs=0.03)


def test_recordings_that_were_joined_go_on(tmp_path):
    for start in (36000, 1):
        ffmpeg(*CLIP, *TONE, "-output_ts_offset", start, tmp_path / f"{start}.ts")
    long, short = (tmp_path / f"{start}.ts" for start in (36000, 1))
    joined = tmp_path / "joined.ts"
    joined.write_bytes(long.read_bytes() + short.read_bytes() + long.read_bytes())
    recode(joined, tmp_path / "out.mp4")
    times = media.times_of(tmp_path / "out.mp4")
    heard = [float(time) for time, _ in media.sound_of(tmp_path / "out.mp4")[1]]
    assert len(times) == 75 and min(np.diff(times)) > 0 and max(np.diff(times)) < 0.3
    assert times[-1] < 3.5 and abs(heard[-1] - times[-1]) < 0.2


@pytest.mark.parametrize(
    "words",
    [
        ("-c:v", "mpeg2video", "-flags", "+ildct+ilme", "-vf", "setfield=tff"),
        ("-c:v", "libx264", "-flags", "+ildct+ilme", "-bf", 2, "-vf", "setfield=tff"),
    ],
    ids=["MPEG-2", "H.264"],
)
def test_interlaced_pictures_may_change_their_size(words, tmp_path):
    data = b""
    for number, size in enumerate(("192x128", "96x64", "256x160")):
        clip = ("-f", "lavfi", "-i", f"testsrc2=s={size}:r=25:d=0.4")
        ffmpeg(*clip, *words, "-output_ts_offset", 0.4 * number, tmp_path / "part.ts")
        data += (tmp_path / "part.ts").read_bytes()
    (tmp_path / "in.ts").write_bytes(data)
    report = recode(tmp_path / "in.ts", tmp_path / "out.mp4")
    assert len(probed(tmp_path / "in.ts", "packet", "pts")) == 30
    assert (report.frames, report.bad_packets) == (30, 0)
    assert media.stream_of(tmp_path / "out.mp4")[1:3] == (128, 192)


def test_what_an_edit_list_hides_is_no_damage(tmp_path):
    """Phones trim without encoding again: frames back to the key frame are there, and hidden."""
    clip = ("-f", "lavfi", "-i", "testsrc2=s=96x64:r=25:d=2")
    ffmpeg(*clip, "-c:v", "libx264", "-g", 100, tmp_path / "whole.mp4")
    ffmpeg("-ss", 1, "-i", tmp_path / "whole.mp4", "-c", "copy", tmp_path / "cut.mp4")
    report = recode(tmp_path / "cut.mp4", tmp_path / "out.mp4")
    assert report.frames == len(probed(tmp_path / "cut.mp4", "frame", "pts")) == 25
    assert report.bad_packets == 0


def test_damage_is_skipped_however_long(tmp_path):
    clip = ("-f", "lavfi", "-i", "testsrc2=s=96x64:r=25:d=8")
    ffmpeg(*clip, "-c:v", "libx264", "-g", 150, "-bf", 0, "-sc_threshold", 0, tmp_path / "whole.ts")
    data = (tmp_path / "whole.ts").read_bytes()
    at = len(data) // 16 // 188 * 188
    (tmp_path / "cut.ts").write_bytes(data[: 3 * 188] + data[at:])
    ffmpeg(*clip, "-c:v", "mpeg4", tmp_path / "zeros.avi")
    film, at = bytearray((tmp_path / "zeros.avi").read_bytes()), 0
    for number in range(150):
        at = film.index(b"00dc", at + 4)
        if number >= 60:
            size = int.from_bytes(film[at + 4 : at + 8], "little")
            film[at + 8 : at + 8 + size] = bytes(size)
    (tmp_path / "zeros.avi").write_bytes(film)
    for name in ("cut.ts", "zeros.avi"):
        source = tmp_path / name
        words = ("-map", "0:v", "-fps_mode", "passthrough", "-f", "framemd5", "-")
        right = [line for line in ffmpeg("-v", "quiet", "-i", source, *words).split(b"\n") if line]
        report = recode(source, tmp_path / "out.mp4")
        assert report.frames == sum(not line.startswith(b"#") for line in right)
        assert report.bad_packets > 50


MATRICES = {
    (across, down, swaps): (across, 0, 0, down) if not swaps else (0, across, down, 0)
    for across in (1, -1) for down in (1, -1) for swaps in (False, True)
}  # fmt: skip


@pytest.mark.parametrize(
    "matrix",
    [pytest.param(one, marks=LONG if sum(one) < 0 else ()) for one in MATRICES.values()],
    ids=str,
)
def test_every_display_matrix_is_carried_out(matrix, tmp_path):
    source = tmp_path / "in.mp4"
    ffmpeg(*CLIP, "-frames:v", 1, "-pix_fmt", "yuv420p", source)
    film = bytearray(source.read_bytes())
    at = film.index(b"tkhd") + 44
    a, b, c, d = (n << 16 for n in matrix)
    film[at : at + 36] = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
    source.write_bytes(film)
    size = (64, 96) if matrix[0] == 0 else (96, 64)
    assert np.abs(media.frames_of(source)[0] - first_picture(source, "null", size)).mean() < 3


@pytest.mark.parametrize(
    "aspect", [Fraction(64, 45), *(pytest.param(Fraction(n, n + 1), marks=LONG) for n in (8, 10))]
)
def test_pictures_are_seen_with_square_pixels(aspect, tmp_path):
    ffmpeg(*CLIP, "-frames:v", 2, "-vf", f"gblur=4,setsar={aspect}", "-crf", 8, tmp_path / "in.mp4")
    pictures = media.frames_of(tmp_path / "in.mp4")
    right = first_picture(
        tmp_path / "in.mp4", "scale=round(iw*sar):ih:flags=bilinear", (round(96 * aspect), 64)
    )
    assert np.abs(pictures[0] - right).mean() < 3
    media.write_video(tmp_path / "square.mkv", [right.astype(np.uint8)] * 2, "ffv1", "bgr0")
    for fit in ("crop", "letterbox"):
        seen = []
        for name in ("in.mp4", "square.mkv"):
            pictures = []
            recode(tmp_path / name, tmp_path / f"{name}.mp4", seen=pictures, fit=fit)
            seen.append(pictures[0].astype(int))
        assert np.abs(seen[0] - seen[1]).mean() < 5
    with av.open(tmp_path / "in.mp4.mp4") as film:
        assert film.streams.video[0].sample_aspect_ratio == aspect
        assert film.streams.video[0].width == 96


PATCHES = (
    "color=gray:s=96x64:r=25:d=0.08,drawbox=0:0:32:64:0xC08040:fill,drawbox=64:0:32:64:white:fill"
)
LINEAR = (
    "zscale=tin=bt709:pin=bt709:min=gbr:rin=full:t=linear:p=bt709:m=gbr:r=full,format=gbrpf32le"
)
TAGS = "zscale=tin=linear:pin=bt709:min=gbr:rin=full:t={}:p=bt2020:m=bt2020nc:r=limited:npl={}"
TO_SDR = "zscale=t=linear:npl=203,format=gbrpf32le,zscale=p=bt709{},zscale=t=bt709:m=gbr:r=full"


@pytest.mark.parametrize(
    ("transfer", "number", "nits"),
    [
        pytest.param("smpte2084", 16, 203, marks=LONG), ("smpte2084", 16, 600),
        ("arib-std-b67", 18, 203), pytest.param("2020_10", 14, 100, marks=LONG),
    ],
)  # fmt: skip
def test_hdr_and_wide_colours_are_those_of_the_screen(transfer, number, nits, tmp_path):
    if b"zscale" not in ffmpeg("-hide_banner", "-filters"):
        pytest.skip("needs ffmpeg with zscale")
    source, tags = tmp_path / "in.mp4", TAGS.format(transfer, nits)
    params = f"log-level=none:crf=4:colorprim=9:transfer={number}:colormatrix=9"
    ffmpeg(
        "-f", "lavfi", "-i", f"{PATCHES},format=gbrp,{LINEAR},{tags},format=yuv420p10le",
        "-c:v", "libx265", "-x265-params", params, source,
    )  # fmt: skip
    tonemap = ",tonemap=mobius:param=0.8:peak=4.926:desat=0" if number != 14 else ""
    with VideoReader(source) as reader:
        pictures = [frame.picture for frame in reader]
    right = first_picture(source, TO_SDR.format(tonemap), (96, 64))
    places = np.s_[16:48:8, [8, 16, 48, 80]]
    assert np.abs(pictures[0][places] - right[places]).max() <= 3
    assert (reader.colour.primaries, reader.colour.transfer, reader.colour.matrix) == (1, 1, 1)


@pytest.mark.parametrize(
    ("rate", "nearest"),
    [
        (192000, 96000), pytest.param(384000, 96000, marks=LONG),
        pytest.param(176400, 96000, marks=LONG), (4000, 7350),
        pytest.param(48000, 48000, marks=LONG),
    ],
)  # fmt: skip
def test_sound_gets_the_nearest_rate_that_aac_has(rate, nearest, tmp_path):
    sine = ("-f", "lavfi", "-i", f"sine=440:r={rate}:d=1", "-c:a", "pcm_s16le")
    ffmpeg(*CLIP, *sine, tmp_path / "in.mov")
    assert f"AAC of {nearest} Hz" in recode(tmp_path / "in.mov", tmp_path / "out.mp4").notes[0]
    with av.open(tmp_path / "out.mp4") as film:
        sound = film.streams.audio[0]
        assert sound.rate == nearest
        assert float(sound.duration * sound.time_base) == pytest.approx(1, abs=0.05)


def test_a_folder_gives_whatever_cameras_write(tmp_path):
    names = ["a.m2ts", "b.mts", "c.3gp", "d.flv", "e.vob", "f.mxf", "g.ogv", "h.asf", "i.h264"]
    words = {"e.vob": "mpeg2video", "f.mxf": "mpeg2video", "d.flv": "flv1", "g.ogv": "libtheora"}
    for name in names:
        codec = ("-c:v", words.get(name, "libx264"), "-pix_fmt", "yuv420p")
        kind = ("-f", "mpegts") if "mts" in name else ()
        ffmpeg(*CLIP, "-frames:v", 5, *codec, *kind, tmp_path / name)
    (tmp_path / "words.srt").write_text("1\n00:00:00,000 --> 00:00:01,000\nwords\n")
    inputs = ("-i", tmp_path / "a.m2ts", "-i", tmp_path / "words.srt")
    ffmpeg(*inputs, "-map", "0", *["-map", "1"] * 17, "-c:v", "copy", tmp_path / "j.mkv")
    found = inputs_of([str(tmp_path)], VIDEOS, "video")
    assert [path.name for path in found] == [*names, "j.mkv"]
    assert [len(media.frames_of(path)) for path in found] == [5] * 10


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", ["H", "I"])
def test_plain_alpha_of_a_tiff_does_not_darken_its_colours(order, kind, tmp_path, rng):
    pixels = rng.integers(0, 256, (5, 7, 4), np.uint8)
    tags = {256: 7, 257: 5, 258: 134, 259: 1, 262: 2, 273: 142, 277: 4, 278: 5, 279: 140, 338: 2}
    entries = b""
    for tag, value in tags.items():
        short = tag == 258 or (tag == 338 and kind == "H")
        held = "HH" if tag == 338 and kind == "H" else "I"
        values = (value, 0) if held == "HH" else (value,)
        count = 4 if tag == 258 else 1
        entries += struct.pack(f"{order}HHI{held}", tag, 3 if short else 4, count, *values)
    mark = b"II" if order == "<" else b"MM"
    head = mark + struct.pack(f"{order}HIH", 42, 8, len(tags)) + entries + bytes(4)
    bits = struct.pack(f"{order}4H", 8, 8, 8, 8)
    (tmp_path / "a.tif").write_bytes(head + bits + pixels.tobytes())
    np.testing.assert_array_equal(read_picture(tmp_path / "a.tif"), pixels[..., :3])
