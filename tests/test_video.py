"""Frames in and out: colours, times, regions, files that are complete or absent."""

from fractions import Fraction

import av
import media
import numpy as np
import pytest
from worker import recode

from realtime_lrp.errors import DamagedInputError, MissingInputError, OutputError, UsageError
from realtime_lrp.video.files import inputs_of, outputs_for, skipped_in
from realtime_lrp.video.pictures import read_picture, write_picture
from realtime_lrp.video.reader import Span, VideoReader
from realtime_lrp.video.region import region_of
from realtime_lrp.video.writer import VideoWriter


def test_a_lossless_file_gives_back_every_colour(tmp_path, rng):
    pictures = [rng.integers(0, 256, (48, 64, 3), np.uint8) for _ in range(3)]
    pictures.append(media.plain())
    path = media.write_video(tmp_path / "a.mkv", pictures, codec="ffv1", pixels="bgr0")
    np.testing.assert_array_equal(media.frames_of(path), pictures)


@pytest.mark.parametrize("name", ["out.mp4", "out.mov", "out.mkv"])
def test_what_is_written_is_read_back(tmp_path, name):
    pts = [0, 3003, 6006, 12012, 15015]  # 29.97 with a gap
    colours = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (90, 60, 200)]
    path = tmp_path / name
    with VideoWriter(path, path.suffix, Fraction(30000, 1001), Fraction(1, 90000)) as writer:
        for time, colour in zip(pts, colours, strict=True):
            writer.write(media.plain(colour), time)
    frames = media.frames_of(path)
    assert len(frames) == 5
    for frame, colour in zip(frames, colours, strict=True):
        assert np.abs(frame.astype(int) - colour).max() <= 4
    np.testing.assert_allclose(media.times_of(path), np.array(pts) / 90000, atol=0.0006)
    assert media.stream_of(path)[:3] == ("h264", 48, 64)


def test_the_same_pictures_make_the_same_bytes(tmp_path):
    """Narrow ones too, of which x264 makes another film each time if it is let."""
    films = set()
    for _ in range(8):
        with VideoWriter(tmp_path / "a.mp4", ".mp4", Fraction(30), Fraction(1, 30)) as writer:
            for number, picture in enumerate(media.numbered(30)):
                writer.write(picture, number)
        films.add((tmp_path / "a.mp4").read_bytes())
    assert len(films) == 1


def missing(path, span=None):
    """(frames that are read, about how many there should be if it ends early, else 0)."""
    with VideoReader(path, span) as reader:
        return sum(1 for _ in reader), reader.expected


def untagged(path):
    """Takes the duration of the streams out of a Matroska file, leaves that of the whole."""
    path.write_bytes(path.read_bytes().replace(b"DURATION", b"DURATI0N"))
    return path


def interleaved(source, target):
    index_first = {"movflags": "faststart"}  # so that an MP4 is read whose end is missing
    with av.open(source) as before, av.open(target, "w", options=index_first) as after:
        streams = [after.add_stream_from_template(one) for one in before.streams]
        packets = [packet for packet in before.demux() if packet.size]
        for packet in sorted(packets, key=lambda one: one.dts * one.time_base):
            packet.stream = streams[packet.stream.index]
            after.mux(packet)
    return target


@pytest.mark.parametrize("name", ["a.mkv", "untagged.mkv", "a.webm", "a.avi", "a.flv", "a.mp4"])
def test_a_file_that_was_cut_off_says_how_many_frames_there_should_be(name, tmp_path):
    if name == "a.webm":
        made = media.recording(tmp_path / "in.webm", 60, codec="libvpx", sound="libopus")
    else:
        options, sound = {"bf": "0", "g": "10"}, None if name == "a.avi" else "aac"
        kind = "in.mp4" if sound else "in.avi"
        made = media.recording(tmp_path / kind, 60, options=options, sound=sound)
    path = interleaved(made, tmp_path / name) if name != "a.avi" else made
    if name == "untagged.mkv":
        untagged(path)
    assert missing(path) == (60, 0)
    for span in (Span(0.5), Span(0.5, 1.0), Span(0, 100)):
        assert missing(path, span)[1] == 0
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 6 // 10])
    frames, expected = missing(path)
    assert 10 < frames < 55 and abs(expected - 60) <= 2
    assert missing(path, Span(0, 0.3)) == (9, 0)
    frames, expected = missing(path, Span(0.2))
    assert frames < 49 and abs(expected - 54) <= 3


def test_what_is_no_video_is_damaged_input(tmp_path):
    path = tmp_path / "not.mp4"
    for content, why in (
        (b"", ": it is empty. "), (b"just text\n" * 50, ": it is text. "),
        (bytes(range(256)) * 20, ". Expected"),
        (bytes(5000), ": it begins with nothing but zeros. "),
        (b"\0\0\0\x20ftypisom" + bytes(range(200)), "begins as MP4 or MOV, but ends early"),
        (b"PK\x03\x04" + bytes(range(200)), ": it is a ZIP archive. "),
    ):  # fmt: skip
        path.write_bytes(content)
        with pytest.raises(DamagedInputError, match=r"not\.mp4' is no video") as caught:
            VideoReader(path)
        assert why in str(caught.value)
    with pytest.raises(MissingInputError):
        VideoReader(tmp_path / "none.mp4")


def test_inputs_are_files_folders_and_globs(tmp_path):
    for name in ("b.png", "a.PNG", "c.txt", ".d.png"):
        (tmp_path / name).touch()
    (tmp_path / "e.png").symlink_to("nowhere")
    (tmp_path / "f").mkdir()
    names = lambda words: [p.name for p in inputs_of(words, (".png",), "picture")]  # noqa: E731
    assert names([str(tmp_path)]) == ["a.PNG", "b.png"]
    assert names([str(tmp_path / "*.txt"), str(tmp_path / "b.png")]) == ["c.txt", "b.png"]
    told = skipped_in([str(tmp_path), "b.png"], (".png",))
    assert told.startswith(f"4 skipped in {str(tmp_path)!r} (")
    assert all(why in told for why in ("1 .txt", "1 hidden", "1 no file", "1 folder"))
    assert skipped_in([str(tmp_path / "f")], (".png",)) == ""
    for word, why in [("f", "the folder is empty"), ("e.png", "a link to nothing")]:
        with pytest.raises(MissingInputError, match=f"{word}': {why}"):
            inputs_of([str(tmp_path / word)], (".png",), "picture")
    for word in ("none.mp4", "*.webp", "f"):
        with pytest.raises(MissingInputError, match="no picture"):
            inputs_of([str(tmp_path / word)], (".png",), "picture")


def test_outputs_are_checked_before_any_work(tmp_path):
    source = tmp_path / "a.png"
    source.touch()
    made = outputs_for([source], str(tmp_path / "x.png"), ".png", (".png",), False)
    assert made == [tmp_path / "x.png"]
    with pytest.raises(OutputError, match="is an input"):
        outputs_for([source], str(source), ".png", (".png",), True)
    with pytest.raises(OutputError, match="no folder"):
        outputs_for([source], str(tmp_path / "none" / "x.png"), ".png", (".png",), False)
    with pytest.raises(UsageError, match="ending"):
        outputs_for([source], str(tmp_path / "x.gif"), ".png", (".png",), False)
    twins, folder = [source, tmp_path / "a.jpg"], tmp_path / "out"
    with pytest.raises(OutputError, match="is the name of a file"):
        outputs_for(twins, str(tmp_path / "x.png"), ".png", (".png",), False)
    folder.mkdir()
    made = outputs_for([*twins, folder / "b.png"], str(folder), ".png", (".png",), False)
    assert [path.name for path in made] == ["a.png.png", "a.jpg.png", "b.png"]
    others = [tmp_path / "x" / "a.jpg", tmp_path / "y" / "x" / "a.jpg", tmp_path / "z" / "a.jpg"]
    made = outputs_for([*twins, *others], str(folder), ".png", (".png",), False)
    assert len({path.name for path in made}) == 5 and made[-1].name == "z_a.jpg.png"
    with pytest.raises(OutputError, match=r"Given twice: .*a\.png', .*b\.png'\. Give"):
        outputs_for(2 * [source, tmp_path / "b.png"], str(folder), ".png", (".png",), False)
    (folder / "a.png").touch()
    with pytest.raises(OutputError, match="--overwrite"):
        outputs_for([source], str(folder), ".png", (".png",), False)
    assert outputs_for([source], str(folder), ".png", (".png",), True) == [folder / "a.png"]


def test_the_folder_of_several_outputs_is_made_with_its_parents(tmp_path):
    sources, deep = [tmp_path / "a.png", tmp_path / "b.png"], tmp_path / "in" / "deep"
    made = outputs_for(sources, str(deep), ".png", (".png",), False)
    assert made == [deep / "a.png", deep / "b.png"] and deep.is_dir()
    outputs_for(sources[:1], f"{tmp_path}/one/", ".png", (".png",), False)
    assert (tmp_path / "one").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be made"):
        outputs_for(sources, str(tmp_path / "file" / "out"), ".png", (".png",), False)


def test_the_region_is_what_the_fit_says():
    for shape, fit, box, inner in (
        ((480, 640), "crop", (80, 0, 560, 480), (0, 0, 100, 100)),
        ((640, 480), "crop", (0, 80, 480, 560), (0, 0, 100, 100)),
        ((480, 640), "squash", (0, 0, 640, 480), (0, 0, 100, 100)),
        ((480, 640), "letterbox", (0, 0, 640, 480), (0, 12, 100, 87)),
        ((1, 7), "crop", (3, 0, 4, 1), (0, 0, 100, 100)),
        ((5, 8), "crop", (1, 0, 6, 5), (0, 0, 100, 100)),
    ):
        region = region_of(shape, (100, 100), fit)
        assert (region.box, region.inner) == (box, inner)
        view = region.extract(np.full((*shape, 3), 7, np.uint8))
        assert view.shape == (100, 100, 3)
        x0, y0, x1, y1 = inner
        assert (view[y0:y1, x0:x1] == 7).all()
        assert fit != "letterbox" or (view[:y0] == 128).all()


def test_pictures_keep_their_colours(tmp_path, rng):
    import cv2

    picture = rng.integers(0, 256, (20, 30, 3), np.uint8)
    write_picture(tmp_path / "ä.png", picture)
    np.testing.assert_array_equal(read_picture(tmp_path / "ä.png"), picture)
    for name, data in {
        "grey.png": picture[..., 0],
        "alpha.png": np.dstack([picture[..., ::-1], picture[..., 0]]),
        "deep.png": picture[..., ::-1].astype(np.uint16) * 257,
    }.items():
        cv2.imwrite(str(tmp_path / name), data)
        assert read_picture(tmp_path / name).shape == (20, 30, 3)
    np.testing.assert_array_equal(read_picture(tmp_path / "deep.png"), picture)
    np.testing.assert_array_equal(read_picture(tmp_path / "alpha.png"), picture)


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
