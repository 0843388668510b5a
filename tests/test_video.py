"""Frames in and out: colours, times, regions, files that are complete or absent."""

from fractions import Fraction

import av
import media
import numpy as np
import pytest

from realtime_lrp.errors import DamagedInputError, MissingInputError, OutputError, UsageError
from realtime_lrp.video.files import inputs_of, outputs_for, skipped_in
from realtime_lrp.video.pictures import read_picture, write_picture
from realtime_lrp.video.reader import Span, VideoReader
from realtime_lrp.video.region import region_of
from realtime_lrp.video.writer import VideoWriter

FFV1 = {"codec": "ffv1", "pixels": "bgr0"}


def frames_of(path):
    with VideoReader(path) as reader:
        return [frame.picture for frame in reader]


def test_a_lossless_file_gives_back_every_colour(tmp_path, rng):
    """FFV1 in bgr0: each pixel exactly, red stays red."""
    pictures = [rng.integers(0, 256, (48, 64, 3), np.uint8) for _ in range(3)]
    pictures.append(media.plain())
    path = media.write_video(tmp_path / "a.mkv", pictures, **FFV1)
    np.testing.assert_array_equal(frames_of(path), pictures)


@pytest.mark.parametrize("name", ["out.mp4", "out.mov", "out.mkv"])
def test_what_is_written_is_read_back(tmp_path, name):
    """H.264: all frames, their times, the frame rate, colours within 4 levels."""
    pts = [0, 3003, 6006, 12012, 15015]  # 29.97 with a gap
    colours = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (90, 60, 200)]
    path = tmp_path / name
    fps = Fraction(30000, 1001)
    with VideoWriter(path, path.suffix, fps, Fraction(1, 90000)) as writer:
        for time, colour in zip(pts, colours, strict=True):
            writer.write(media.plain(colour), time)
    frames = frames_of(path)
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


INDEX_FIRST = {"movflags": "faststart"}
"""What an MP4 needs that is still read when its end is missing."""


def interleaved(source, target):
    """The same packets, ordered by their times."""
    with av.open(source) as before, av.open(target, "w", options=INDEX_FIRST) as after:
        streams = [after.add_stream_from_template(one) for one in before.streams]
        packets = [packet for packet in before.demux() if packet.size]
        for packet in sorted(packets, key=lambda one: one.dts * one.time_base):
            packet.stream = streams[packet.stream.index]
            after.mux(packet)
    return target


@pytest.mark.parametrize("name", ["a.mkv", "untagged.mkv", "a.webm", "a.avi", "a.flv", "a.mp4"])
def test_a_file_that_was_cut_off_says_how_many_frames_there_should_be(name, tmp_path):
    """The first 60 % of 60 frames, in each container that says how long it is; a whole one none."""
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
    """Empty, text, noise and other files under a video's name; the message says which."""
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
    """A folder gives what has a known ending, in order."""
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
    """Existing files, missing folders, the input itself, two inputs for one name."""
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
    """Also for one input where the name ends in a slash; not where a file is in the way."""
    sources, deep = [tmp_path / "a.png", tmp_path / "b.png"], tmp_path / "in" / "deep"
    made = outputs_for(sources, str(deep), ".png", (".png",), False)
    assert made == [deep / "a.png", deep / "b.png"] and deep.is_dir()
    outputs_for(sources[:1], f"{tmp_path}/one/", ".png", (".png",), False)
    assert (tmp_path / "one").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be made"):
        outputs_for(sources, str(tmp_path / "file" / "out"), ".png", (".png",), False)


@pytest.mark.parametrize(
    ("shape", "fit", "box", "inner"),
    [
        ((480, 640), "crop", (80, 0, 560, 480), (0, 0, 100, 100)),
        ((640, 480), "crop", (0, 80, 480, 560), (0, 0, 100, 100)),
        ((480, 640), "squash", (0, 0, 640, 480), (0, 0, 100, 100)),
        ((480, 640), "letterbox", (0, 0, 640, 480), (0, 12, 100, 87)),
        ((1, 7), "crop", (3, 0, 4, 1), (0, 0, 100, 100)),
        ((5, 8), "crop", (1, 0, 6, 5), (0, 0, 100, 100)),
    ],
)
def test_the_region_is_what_the_fit_says(shape, fit, box, inner):
    """The box in the picture and the place in the network's input."""
    region = region_of(shape, (100, 100), fit)
    assert (region.box, region.inner) == (box, inner)
    view = region.extract(np.full((*shape, 3), 7, np.uint8))
    assert view.shape == (100, 100, 3)
    x0, y0, x1, y1 = inner
    assert (view[y0:y1, x0:x1] == 7).all()
    assert fit != "letterbox" or (view[:y0] == 128).all()


def test_pictures_keep_their_colours(tmp_path, rng):
    """PNG exactly; grey, transparent and 16-bit files become RGB."""
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
