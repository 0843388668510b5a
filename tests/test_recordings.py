"""`video`: what goes in comes out, with its times and its sound, whole or not at all."""

from fractions import Fraction

import av
import media
import numpy as np
import pytest
from worker import recode

from realtime_lrp.errors import DamagedInputError
from realtime_lrp.video.reader import Span
from realtime_lrp.video.writer import VideoWriter

PTS = [0, 3, 4, 10, 11, 30, 31, 33]


def shape(path):
    """(codec, rows, columns, pixel aspect, colour) of a file's pictures."""
    with av.open(path) as container:
        stream = container.streams.video[0]
        frame = next(container.decode(stream))
        colour = frame.color_primaries, frame.color_trc, frame.colorspace, frame.color_range
        name = stream.codec_context.name
        return name, stream.height, stream.width, stream.sample_aspect_ratio, colour


def pictures_of(path):
    """Every frame, turned upright, int [n, rows, columns, 3]."""
    with av.open(path) as container:
        return np.stack(
            [
                np.rot90(frame.to_ndarray(format="rgb24"), frame.rotation // 90 % 4)
                for frame in container.decode(video=0)
            ]
        ).astype(int)


RECORDINGS = {
    "variable rate": ("a.mp4", {"pts": PTS, "sound": "aac"}),
    "begins late": ("a.mp4", {"offset_s": 2, "sound": "aac"}),
    "transport stream": ("a.ts", {"base": Fraction(1, 90000), "pts": [p * 3003 for p in PTS]}),
    "B-frames": ("a.mkv", {"options": {"bf": "3", "g": "6"}, "sound": "libopus", "count": 20}),
    "PCM": ("a.mov", {"sound": "pcm_s16le"}),
    "turned by 90": ("a.mp4", {"rotation": 90, "aspect": Fraction(16, 11)}),
    "pixel aspect": ("a.mp4", {"aspect": Fraction(16, 11)}),
    "odd size": ("a.mkv", {"codec": "ffv1", "pixels": "bgr0", "size": (47, 63)}),
    "10 bits": ("a.mp4", {"pixels": "yuv420p10le"}),
    "full range": ("a.mp4", {"colour": (1, 1, 1, 2)}),
    "PAL": ("a.mp4", {"colour": (5, 6, 5, 1)}),
    "interlaced": ("a.mp4", {"options": {"x264-params": "interlaced=1:tff=1"}, "size": (64, 64)}),
    "one frame": ("a.mp4", {"pts": [0], "sound": "aac"}),
}


@pytest.mark.parametrize("name", RECORDINGS)
def test_frames_times_sound_and_colours_are_kept(name, tmp_path):
    """Exactly, but for the colours: H.264 at our quality moves them by a few levels."""
    file, options = RECORDINGS[name]
    source, target = media.recording(tmp_path / file, **options), tmp_path / "out.mp4"
    if name == "PCM":
        target = tmp_path / "out.mov"
    report = recode(source, target, fit="squash")
    assert (report.notes, report.bad_packets, report.expected, report.lost_sound) == ((), 0, 0, 0)
    times = media.frame_times(source)
    begins = times[0] if file.endswith(".ts") else 0  # its clock starts anywhere
    assert media.frame_times(target) == [time - begins for time in times]
    if "sound" in options:
        codec, packets = media.sound_of(source)
        assert media.sound_of(target) == (codec, packets)
        assert len(packets) > 3
    before, after = shape(source), shape(target)
    turned = options.get("rotation", 0) % 180 == 90
    rows, columns = before[2:0:-1] if turned else before[1:3]
    aspect = before[3] or 1
    assert after[:4] == (
        "h264", rows + rows % 2, columns + columns % 2, 1 / aspect if turned else aspect
    )  # fmt: skip
    if name != "odd size":  # which holds no colours
        said = lambda colour: (*colour[:3], colour[3] or 1)  # noqa: E731
        assert said(after[4]) == said(before[4])
    expected, got = pictures_of(source), pictures_of(target)
    free = slice(1, rows // 2)  # above the line with the label, inside the outline
    differences = np.abs(got[:, free, 1 : columns - 1] - expected[:, free, 1 : columns - 1])
    assert differences.mean() < (8 if name == "interlaced" else 5)
    if columns % 2:
        beside = np.abs(got[:, free, columns] - got[:, free, columns - 1])
        assert beside.mean() < 12, "the added column is like the last one"


def test_interlaced_fields_become_whole_pictures(tmp_path):
    """A bar that moves between two fields leaves no comb: neighbouring rows agree."""
    options = {"x264-params": "interlaced=1:tff=1", "crf": "4"}
    source = tmp_path / "in.mp4"
    with av.open(source, "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.height, stream.width, stream.pix_fmt, stream.options = 64, 64, "yuv420p", options
        for number in range(8):
            woven = media.plain((20, 40, 60), (64, 64))
            for field in (0, 1):
                left = 4 + 6 * (2 * number + field) % 50
                woven[field::2, left : left + 8] = (240, 200, 30)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(woven, format="rgb24")))
        container.mux(stream.encode(None))
    comb = lambda path: np.abs(np.diff(pictures_of(path)[2:6, 4:28], axis=1)).mean()  # noqa: E731
    recode(source, tmp_path / "out.mp4")
    assert media.frame_times(tmp_path / "out.mp4") == media.frame_times(source)
    assert comb(source) > 20 and comb(tmp_path / "out.mp4") < comb(source) / 3


def test_sound_that_the_container_cannot_hold_becomes_aac(tmp_path):
    """A note says so, for example for PCM in MP4. `--audio none` leaves the sound out."""
    source = media.recording(tmp_path / "in.mkv", sound="pcm_s16le", count=30)
    (note,) = recode(source, tmp_path / "out.mp4").notes
    assert "pcm_s16le" in note and "AAC" in note
    codec, packets = media.sound_of(tmp_path / "out.mp4")
    assert codec == "aac"
    assert float(packets[-1][0]) == pytest.approx(float(media.sound_of(source)[1][-1][0]), abs=0.05)
    with av.open(tmp_path / "out.mp4") as container:
        wave = np.concatenate(
            [frame.to_ndarray()[0] for frame in container.decode(audio=0) if frame.pts >= 4800]
        )
    spectrum = np.abs(np.fft.rfft(wave[:24000]))
    assert spectrum.argmax() * 2 == pytest.approx(48000 / 20 / (2 * np.pi), abs=4)
    recode(source, tmp_path / "out.mp4", sound=False)
    with av.open(tmp_path / "out.mp4") as container:
        assert not container.streams.audio


def test_the_last_frame_is_shown_as_long_as_before(tmp_path):
    """A still of two seconds stays one; a cover of a song is a video of one frame."""
    source = tmp_path / "still.mp4"
    with av.open(source, "w") as container:
        stream = container.add_stream("libx264", rate=30)
        stream.height, stream.width, stream.pix_fmt = 48, 64, "yuv420p"
        frame = av.VideoFrame.from_ndarray(media.plain(), format="rgb24")
        (packet,) = [*stream.encode(frame), *stream.encode(None)]
        packet.duration = 60
        container.mux(packet)
    recode(source, tmp_path / "out.mp4")
    for path in (source, tmp_path / "out.mp4"):
        with av.open(path) as container:
            stream = container.streams.video[0]
            assert float(stream.duration * stream.time_base) == pytest.approx(2, abs=0.01)


def test_a_span_begins_at_zero_with_its_own_sound(tmp_path):
    """Frames from 0.5 s to before 1.2 s, shifted to 0; --end alone keeps the beginning."""
    source = media.recording(
        tmp_path / "in.mp4", count=60, sound="aac", options={"g": "12", "bf": "2"}
    )
    target = tmp_path / "out.mp4"
    assert recode(source, target, span=Span(0.5, 1.2)).frames == 21
    assert media.frame_times(target) == [Fraction(n, 30) for n in range(21)]
    expected, got = pictures_of(source)[15:36], pictures_of(target)
    assert np.abs(got[:, 1:24, 1:-1] - expected[:, 1:24, 1:-1]).mean() < 4
    times = [float(time) for time, _ in media.sound_of(target)[1]]
    assert -0.03 < times[0] < 0.03 and 0.64 < times[-1] < 0.7
    everything = [data for _, data in media.sound_of(source)[1]]
    kept = [data for _, data in media.sound_of(target)[1]]
    assert kept == everything[everything.index(kept[0]) :][: len(kept)]
    assert recode(source, target, span=Span(0, 0.1)).frames == 3
    with pytest.raises(DamagedInputError, match="from 3 s on"):
        recode(source, target, span=Span(3))


@pytest.mark.parametrize("layout", ["overlay", "side-by-side", "map", "original+map"])
def test_layouts(layout, tmp_path):
    """The original stays as it is; a map on black is black where there is no relevance."""
    source = media.recording(tmp_path / "in.mp4", size=(48, 96))
    target = tmp_path / "out.mp4"
    recode(source, target, strength=100, layout=layout)
    before, after = pictures_of(source), pictures_of(target)
    panels = 2 if "side" in layout or "original" in layout else 1
    assert after.shape == (12, 48, 96 * panels, 3)
    if panels == 2:
        assert np.abs(after[:, :, :94] - before[:, :, :94]).mean() < 4
    drawn = after[:, :, 96 * (panels - 1) :]
    outside = drawn[:, :, 2:20]  # left of the square that the network sees
    if "map" in layout:
        assert outside.max() < 12 and drawn[:, :, 30:66].max() > 60
    else:
        assert np.abs(outside - before[:, :, 2:20]).mean() < 4
        assert np.abs(drawn[:, 4:30, 30:66] - before[:, 4:30, 30:66]).mean() > 6


@pytest.mark.parametrize(
    ("codec", "name", "container"),
    [
        ("hevc", "hevc", ".mp4"),
        pytest.param("av1", "libdav1d", ".mkv", marks=pytest.mark.release),
        ("h264", "h264", ".mov"),
    ],
)
def test_codecs_and_their_quality(codec, name, container, tmp_path):
    """A higher rate factor makes a smaller file, with the same frames and times."""
    source = media.recording(tmp_path / "in.mp4", count=10, size=(96, 128), sound="aac")
    sizes = []
    for quality in (10, 45):
        target = tmp_path / f"{quality}{container}"
        recode(source, target, codec=codec, quality=quality)
        assert shape(target)[0] == name
        times = [float(time) for time in media.frame_times(target)]
        assert times == pytest.approx([n / 30 for n in range(10)], abs=6e-4)
        assert media.sound_of(target)[0] == "aac"
        sizes.append(target.stat().st_size)
    assert sizes[1] < sizes[0]


def test_a_transport_stream_is_cut_exactly(tmp_path):
    """Key frames far apart, a start between them: every frame from there on."""
    pts = [3000 * number for number in range(90)]
    options = {"g": "40", "bf": "2"}
    source = media.recording(
        tmp_path / "in.ts", base=Fraction(1, 90000), pts=pts, options=options, sound="mp2"
    )
    for start in (0.5, 1.51, 2.9):
        target = tmp_path / f"{start}.mp4"
        recode(source, target, span=Span(start))
        whole = media.frame_times(source)
        expected = [t - whole[0] - Fraction(str(start)) for t in whole]
        expected = [float(time) for time in expected if time >= 0]
        assert [float(t) for t in media.frame_times(target)] == pytest.approx(expected, abs=2e-5)


def test_quality_0_loses_nothing(tmp_path, rng):
    """With H.264 and HEVC; noise shows what an encoder leaves out."""
    pictures = rng.integers(0, 256, (6, 96, 128, 3), np.uint8)  # x265 fails at 64 x 64
    planes = []
    for codec in ("h264", "hevc"):
        path, rate = tmp_path / f"{codec}.mp4", Fraction(30)
        with VideoWriter(path, ".mp4", rate, 1 / rate, codec=codec, quality=0) as writer:
            for number, picture in enumerate(pictures):
                writer.write(picture, number)
        with av.open(path) as container:
            planes.append([one.to_ndarray(format="yuv420p") for one in container.decode(video=0)])
    assert len(planes[0]) == len(pictures)
    np.testing.assert_array_equal(planes[0], planes[1])
