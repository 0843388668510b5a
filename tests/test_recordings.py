"""`video`: what goes in comes out, with its times and its sound, whole or not at all."""

import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import namedtuple
from fractions import Fraction
from pathlib import Path

import av
import cv2
import media
import numpy as np
import program
import pytest
from faults.clock import until
from worker import FakeParent, job_for, recode

from realtime_lrp import config
from realtime_lrp.commands.video import recode as recode_module
from realtime_lrp.commands.video import recoding
from realtime_lrp.commands.video.messages import (
    FROM_CHILD,
    TO_CHILD,
    Answer,
    DrawableMap,
    PictureBatch,
)
from realtime_lrp.commands.video.recode import Recoder
from realtime_lrp.commands.video.recoding import check_video
from realtime_lrp.errors import DamagedInputError
from realtime_lrp.results.resume import fingerprint
from realtime_lrp.results.summary import Timeline
from realtime_lrp.system.channel import Channel
from realtime_lrp.video.colour import colour_of, range_read
from realtime_lrp.video.reader import Span, VideoReader
from realtime_lrp.video.writer import VideoWriter
from realtime_lrp.view.follow import Follower
from realtime_lrp.view.overlay import Overlay

PTS = [0, 3, 4, 10, 11, 30, 31, 33]


@pytest.fixture
def words(tiny_model, tmp_path):
    """Options for the tiny network and its labels."""
    labels = tmp_path / "labels.txt"
    labels.write_text("red\ngreen\nblue\nother\n")
    return ("--model", tiny_model, "--preprocess", "none", "--labels", labels)


def films_in(folder):
    """Names of all files but manifests; each of these belongs to a film."""
    names = sorted(os.listdir(folder))
    manifests = [f".{name}.resume.json" for name in names if not name.startswith(".")]
    assert [name for name in names if name.startswith(".")] == manifests
    return [name for name in names if not name.startswith(".")]


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
    "29.97": ("a.mp4", {"base": Fraction(1001, 30000), "sound": "aac"}),
    "begins late": ("a.mp4", {"offset_s": 2, "sound": "aac"}),
    "transport stream": ("a.ts", {"base": Fraction(1, 90000), "pts": [p * 3003 for p in PTS]}),
    "B-frames": ("a.mkv", {"options": {"bf": "3", "g": "6"}, "sound": "libopus", "count": 20}),
    "PCM": ("a.mov", {"sound": "pcm_s16le"}),
    "turned by 90": ("a.mp4", {"rotation": 90, "aspect": Fraction(16, 11)}),
    "turned by 180": ("a.mp4", {"rotation": 180}),
    "turned by 270": ("a.mp4", {"rotation": 270}),
    "pixel aspect": ("a.mp4", {"aspect": Fraction(16, 11)}),
    "odd size": ("a.mkv", {"codec": "ffv1", "pixels": "bgr0", "size": (47, 63)}),
    "10 bits": ("a.mp4", {"pixels": "yuv420p10le"}),
    "grey": ("a.mkv", {"codec": "ffv1", "pixels": "gray"}),
    "full range": ("a.mp4", {"colour": (1, 1, 1, 2)}),
    "BT.709": ("a.mp4", {"colour": (1, 1, 1, 1)}),
    "PAL": ("a.mp4", {"colour": (5, 6, 5, 1)}),
    "interlaced": ("a.mp4", {"options": {"x264-params": "interlaced=1:tff=1"}, "size": (64, 64)}),
    "one frame": ("a.mp4", {"pts": [0], "sound": "aac"}),
    "HEVC": ("a.mkv", {"codec": "libx265", "options": {"x265-params": "log-level=none"}}),
}


SLIGHTLY_DIFFERENT = ("turned by 180", "turned by 270", "grey", "29.97", "BT.709", "HEVC")
"""Cases that differ from the others only by a number in the file."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.release) if name in SLIGHTLY_DIFFERENT else name
        for name in RECORDINGS
    ],
)
def test_frames_times_sound_and_colours_are_kept(name, tmp_path):
    """Exactly, but for the colours: H.264 at our quality moves them by a few levels."""
    file, options = RECORDINGS[name]
    source, target = media.recording(tmp_path / file, **options), tmp_path / "out.mp4"
    if name == "PCM":
        target = tmp_path / "out.mov"
    report = recode(source, target)
    assert (report.notes, report.bad_packets, report.expected, report.lost_sound) == ((), 0, 0, 0)
    assert media.frame_times(target) == media.frame_times(source)
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
    if name not in ("odd size", "grey", "HEVC"):  # which hold no colours, or say it in other words
        said = lambda colour: (*colour[:3], colour[3] or 1)  # noqa: E731
        assert said(after[4]) == said(before[4])
    expected, got = pictures_of(source), pictures_of(target)
    free = slice(1, rows // 2)  # above the line with the label, inside the outline
    differences = np.abs(got[:, free, 1 : columns - 1] - expected[:, free, 1 : columns - 1])
    assert differences.mean() < (8 if name == "interlaced" else 5)


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


def test_sound_that_the_container_cannot_hold_becomes_aac(run, words, tmp_path):
    """A line says so, for example for PCM in MP4. `--audio none` leaves the sound out."""
    source = media.recording(tmp_path / "in.mkv", sound="pcm_s16le", count=30)
    code, _, err = run("video", source, "-o", tmp_path / "out.mp4", *words)
    assert code == 0 and "pcm_s16le" in err and "AAC" in err
    codec, packets = media.sound_of(tmp_path / "out.mp4")
    assert codec == "aac"
    assert float(packets[-1][0]) == pytest.approx(float(media.sound_of(source)[1][-1][0]), abs=0.05)
    with av.open(tmp_path / "out.mp4") as container:
        wave = np.concatenate(
            [frame.to_ndarray()[0] for frame in container.decode(audio=0) if frame.pts >= 4800]
        )
    spectrum = np.abs(np.fft.rfft(wave[:24000]))
    assert spectrum.argmax() * 2 == pytest.approx(48000 / 20 / (2 * np.pi), abs=4)
    quiet = ("--audio", "none", "--overwrite")
    assert run("video", source, "-o", tmp_path / "out.mp4", *words, *quiet)[0] == 0
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
    with pytest.raises(DamagedInputError, match="from there on"):
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


def test_maps_in_between_are_carried_along(run, words, tmp_path):
    """Every third frame is explained; the sidecar says which; a moved map follows the picture."""
    source = media.recording(tmp_path / "in.mp4", count=20)
    target, stats = tmp_path / "out.mp4", tmp_path / "s.json"
    options = ("--stride", 3, "--batch", 2, "--sidecar", "--stats", stats)
    assert run("video", source, "-o", target, *words, *options)[0] == 0
    assert media.frame_times(target) == media.frame_times(source)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["frame"] for row in rows] == list(range(20))
    assert [row["frame"] for row in rows if row["explained"]] == list(range(0, 20, 3))
    assert rows[4]["top5"] == rows[3]["top5"]
    figures = json.loads(stats.read_text())
    assert (figures["maps"], figures["frames_shown"]) == (7, 20)


def test_a_carried_map_lies_on_what_moved():
    """A textured square moves by 24 pixels; held where it was the map is off by as much."""
    rng = np.random.default_rng(4)
    texture = cv2.GaussianBlur(rng.integers(0, 256, (60, 60, 3), np.uint8), (0, 0), 2)
    still = cv2.GaussianBlur(rng.integers(60, 120, (240, 320, 3), np.uint8), (0, 0), 6)

    def picture(x, y):
        result = still.copy()
        result[y : y + 60, x : x + 60] = texture
        return result

    def centre(overlay):
        y, x = np.mgrid[0:200, 0:240]
        shares = overlay.alpha / overlay.alpha.sum()
        return np.array([(shares * x).sum() + 40, (shares * y).sum() + 20])

    alpha, colour = np.zeros((200, 240), np.float32), np.zeros((200, 240, 3), np.uint8)
    alpha[60:120, 60:120] = 1  # over the square at x = 100, y = 80
    colour[60:120, 60:120] = (255, 90, 0)
    follower = Follower(picture(100, 80), [Overlay(colour, alpha, (40, 20, 280, 220))])
    before = centre(*follower(picture(100, 80)))
    np.testing.assert_allclose(before, [129.5, 109.5], atol=1)
    for dx, dy in ((24, 0), (-12, 15), (3, -2)):
        (overlay,) = follower(picture(100 + dx, 80 + dy))
        np.testing.assert_allclose(centre(overlay) - before, [dx, dy], atol=2)
        x, y = np.round(centre(overlay)).astype(int) - (40, 20)
        assert tuple(overlay.colour[y, x]) == (255, 90, 0)


def test_a_sidecar_and_raw_maps_hold_what_the_explainer_gives(run, words, tiny_model, tmp_path):
    """Against the explainer itself on the decoded frames; centre and spread by hand."""
    from realtime_lrp import Explainer
    from realtime_lrp.models.networks import load_network
    from realtime_lrp.video.region import region_of

    source = media.recording(tmp_path / "in.mp4", count=5, size=(48, 80))
    options = ("--sidecar", "--summary", "--maps", tmp_path / "maps", "--target", "top1")
    options += ("--precision", "float32")
    code, _, err = run("video", source, "-o", tmp_path / "out.mp4", *words, *options)
    assert (code, err) == (0, "")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    data = np.load(tmp_path / "maps" / "out" / "maps_000000.npz")
    network = load_network(str(tiny_model), preprocess="none")
    explainer = Explainer(network.model, target="top1")
    region = region_of((48, 80), (32, 32), "crop")
    with VideoReader(source) as reader:
        views = np.stack([region.extract(frame.picture) for frame in reader])
    explanation = explainer(network.prepare(views))
    maps = explanation.relevance.sum(-1)
    assert data["relevance"].dtype == np.float16
    raw = data["relevance"].astype(np.float32) * data["scale"][:, None, None]
    np.testing.assert_allclose(raw, maps, atol=np.abs(maps).max() * 1e-3)
    assert data["names"].tolist() == list(range(5))
    np.testing.assert_allclose(data["times"], np.arange(5) / 30, atol=1e-6)
    np.testing.assert_array_equal(data["box"], [[16, 0, 64, 48]] * 5)
    labels = ["red", "green", "blue", "other"]
    for number, row in enumerate(rows):
        order = np.argsort(-explanation.scores[number])
        assert [one["label"] for one in row["top5"]] == [labels[n] for n in order]
        shares = [one["probability"] for one in row["top5"]]
        np.testing.assert_allclose(shares, explanation.scores[number][order], atol=1e-5)
        weight = np.abs(maps[number])
        y, x = np.mgrid[0:32, 0:32] * 1.5 + 0.75
        centre = [(weight * (x + 16)).sum() / weight.sum(), (weight * y).sum() / weight.sum()]
        square = (weight * ((x + 16 - centre[0]) ** 2 + (y - centre[1]) ** 2)).sum()
        np.testing.assert_allclose(row["centre"], centre, atol=0.1)
        assert row["spread"] == pytest.approx(np.sqrt(square / weight.sum()), abs=0.1)
        assert row["relevance_sum"] == pytest.approx(maps[number].sum(), rel=1e-3)
        accounted = row["relevance_sum"] + row["taken_by_biases"] + row["lost"]
        assert accounted == pytest.approx(row["started"], rel=1e-5)
        assert row["started"] == pytest.approx(explanation.scores[number].max(), abs=1e-5)
        assert row["lost_in"] is None
        assert (row["time"], row["target"]) == (pytest.approx(number / 30, abs=1e-5), "top1")
    summary = cv2.imread(str(tmp_path / "out.summary.png"))
    assert summary.shape[1] > 1000 and summary.std() > 20


def test_a_sidecar_names_the_layer_that_loses_relevance(run, tmp_path):
    """Where more than 1 % is lost, as where a neuron has no negative inputs; and a note."""
    source = media.recording(tmp_path / "in.mp4", count=3, size=(64, 64))
    options = ("--model", "shapes", "--composite", "epsilon_alpha2_beta1_flat")
    options += ("--sidecar", "--precision", "float32")
    code, _, err = run("video", source, "-o", tmp_path / "out.mp4", *options)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert code == 0 and all(abs(row["lost"]) > 0.01 * abs(row["started"]) for row in rows)
    assert {row["lost_in"] for row in rows} == {rows[0]["lost_in"]} != {None}
    assert "of the relevance that started" in err and "3 of 3 maps" in err
    assert f"; the layer {rows[0]['lost_in']!r}" in err


@pytest.mark.parametrize(("jump", "label"), [(3, "seconds"), (600, "from 1.90 to 602.00 seconds")])
def test_a_summary_draws_no_line_over_a_gap(jump, label):
    """A jump in time cuts the curves; where it would take most of the axis, frames are counted."""
    from matplotlib.figure import Figure

    timeline = Timeline()
    for number in range(40):
        row = {"top5": [{"label": "cat", "probability": 0.5}], "relevance_sum": 0.1}
        timeline.add(number / 10 + (jump if number >= 20 else 0), row)
    probabilities, relevance = Figure().subplots(2, 1)
    timeline.draw(probabilities, relevance)
    for axes in (probabilities, relevance):
        x, y = axes.lines[0].get_data()
        assert np.flatnonzero(np.isnan(np.array(y, float))).tolist() == [20]
        assert max(x) == (39 if jump > 60 else pytest.approx(6.9))
    assert label in relevance.get_xlabel()


def test_maps_come_in_chunks(tmp_path, monkeypatch):
    """Two maps to a file here; a map of zeros has the scale 1."""
    from types import SimpleNamespace

    from realtime_lrp.results import records

    monkeypatch.setattr(records, "CHUNK", 2)
    region = SimpleNamespace(box=(0, 0, 4, 4))
    with records.RawMaps(tmp_path) as maps:
        maps.provenance = SimpleNamespace(as_json=lambda: "{}")
        for number in range(5):
            relevance = np.full((4, 4, 3), number * 1e-9, np.float32)
            maps.add(SimpleNamespace(relevance=relevance, region=region), number, 0.0)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["maps_000000.npz", "maps_000002.npz", "maps_000004.npz"]
    last = np.load(tmp_path / files[2])
    raw = last["relevance"].astype(np.float32) * last["scale"][:, None, None]
    np.testing.assert_allclose(raw, 12e-9, rtol=1e-3)
    assert np.load(tmp_path / files[0])["scale"][0] == 1


def test_photos_get_the_same(run, words, tmp_path, rng):
    """A folder: one sidecar, one summary, one folder of maps; the damaged one is named."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir(), out.mkdir()
    for name in ("a.png", "b.png"):
        media.write_picture(folder / name, rng.integers(0, 256, (40, 60, 3), np.uint8))
    (folder / "c.png").write_text("no picture")
    options = ("--sidecar", "--summary", "--maps", tmp_path / "maps")
    code, _, err = run("image", folder, "-o", out, *words, *options)
    assert code == 65 and "c.png" in err
    rows = [json.loads(line) for line in (out / "pictures.jsonl").read_text().splitlines()]
    assert [Path(row["file"]).name for row in rows] == ["a.png", "b.png"]
    data = np.load(tmp_path / "maps" / "pictures" / "maps_000000.npz")
    sums = (data["relevance"].astype(float) * data["scale"][:, None, None]).sum((1, 2))
    np.testing.assert_allclose(sums, [row["relevance_sum"] for row in rows], rtol=2e-3)
    assert cv2.imread(str(out / "pictures.summary.png")).shape[1] > 1000
    names = {"a.png", "b.png", "pictures.jsonl", "pictures.summary.png"}
    assert set(os.listdir(out)) == {*names, ".pictures.resume.jsonl"}
    assert run("image", folder / "a.png", "-o", tmp_path / "x.png", *words, "--sidecar")[0] == 0
    assert len((tmp_path / "x.jsonl").read_text().splitlines()) == 1
    assert run("image", folder / "b.png", "-o", tmp_path / "x.png", *words, "--sidecar")[0] == 73


def test_a_batch_tells_its_progress_as_json(run, words, tmp_path):
    """Nothing but JSON on stdout; the damaged file is named and the batch goes on."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir(), out.mkdir()
    media.recording(folder / "a.mp4")
    (folder / "b.mp4").write_text("no video at all")
    media.recording(folder / "c.mp4", count=5)
    code, stdout, err = run("video", folder, "-o", out, *words, "--json")
    assert code == 65 and "b.mp4" in err and "2 of 3 videos done, 1 failed" in err
    events = [json.loads(line) for line in stdout.splitlines()]
    ends = [(e["event"], e["file"]) for e in events if e["event"] != "progress"]
    assert ends == [("done", "a.mp4"), ("failed", "b.mp4"), ("done", "c.mp4")]
    first = events[0]
    assert (first["event"], first["total"], first["files"]) == ("progress", 12, 3)
    assert {"frames", "fps", "seconds_left", "label"} <= set(first)
    assert films_in(out) == ["a.mp4", "c.mp4"]


def test_resume_skips_what_is_finished_and_only_that(run, words, tmp_path):
    """Recognised by the source's content and the settings, not by its name."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir(), out.mkdir()
    for name, count in (("a.mp4", 4), ("b.mp4", 5)):
        media.recording(folder / name, count=count, metadata={"comment": "mine", "title": "T"})
    command = ("video", folder, "-o", out, *words, "--resume")
    code, stdout, _ = run(*command)
    assert code == 0 and stdout.count("frames ->") == 2
    with av.open(out / "a.mp4") as container:
        assert container.metadata["title"] == "T"
        assert container.metadata["comment"].startswith("mine\nrealtime_lrp")
    made = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    code, stdout, _ = run(*command)
    assert code == 0 and stdout.count("finished before") == 2
    assert {path: path.stat().st_mtime_ns for path in out.iterdir()} == made
    code, _, err = run(*command, "--opacity", 0.1)
    assert code == 73 and "other settings" in err and "--overwrite" in err
    shutil.copy(folder / "b.mp4", folder / "a.mp4")
    code, stdout, err = run(*command)
    assert code == 73 and "b.mp4: finished before" in stdout, "the other file is done"
    assert "a.mp4' was made from another source" in err and "1 of 2 videos done" in err
    code, stdout, _ = run(*command, "--overwrite")
    assert code == 0 and "a.mp4: 5 frames" in stdout and "b.mp4: finished before" in stdout
    code, stdout, err = run(*command, "--sidecar")  # the same settings, but something is missing
    assert code == 0 and stdout.count("frames ->") == 2
    assert "a.mp4 is made again: a.jsonl is missing or has changed" in err
    assert (out / "a.jsonl").exists()


def test_outputs_that_exist_are_told_before_any_work(run, words, tmp_path):
    """Folders of raw maps here: exit code 73, and how many more there are."""
    for name in ("a.mp4", "b.mp4"):
        media.recording(tmp_path / name, count=2)
        (tmp_path / "maps" / name[0]).mkdir(parents=True)
    (tmp_path / "out").mkdir()
    inputs = (tmp_path / "a.mp4", tmp_path / "b.mp4")
    code, out, err = run(
        "video", *inputs, "-o", tmp_path / "out", *words, "--maps", tmp_path / "maps"
    )
    assert (code, out) == (73, "") and "maps/a' exists" in err
    assert "(1 more cannot be made either.)" in err and films_in(tmp_path / "out") == []


def test_resume_makes_again_what_is_not_known_to_be_whole(run, words, tmp_path):
    """What is gone, or was left by a killed run, is made again."""
    source, target = media.recording(tmp_path / "in.mp4", count=3), tmp_path / "out.mp4"
    command = ("video", source, "-o", target, *words, "--sidecar", "--maps", tmp_path / "maps")
    command = (*command, "--resume")
    assert run(*command)[0] == 0
    manifest = tmp_path / ".out.mp4.resume.json"
    film, sidecar = target.read_bytes(), tmp_path / "out.jsonl"
    chunk = tmp_path / "maps" / "out" / "maps_000000.npz"
    for spoil, told in [
        (lambda: sidecar.write_text(sidecar.read_text().replace("1", "2")), "out.jsonl is missing"),
        (lambda: os.truncate(chunk, 100), "out is missing or has changed"),
        (lambda: shutil.rmtree(tmp_path / "maps" / "out"), "out is missing or has changed"),
    ]:
        spoil()
        code, out, err = run(*command)
        assert code == 0 and "3 frames" in out and f"out.mp4 is made again: {told}" in err, err
        code, out, err = run(*command)
        assert (code, err) == (0, "") and "finished before" in out
    for begun in (False, True):  # killed just before the film got its name, or earlier
        target.unlink()
        known = json.loads(manifest.read_text())
        manifest.write_text(json.dumps({**known, "digests": {}} if begun else known))
        assert run(*command)[0] == 0 and target.read_bytes() == film


@pytest.mark.parametrize("manifest", [None, "{"], ids=["no manifest", "a damaged one"])
def test_resume_replaces_no_film_that_it_does_not_know(run, words, tmp_path, manifest):
    """It may be the user's own; --overwrite replaces it."""
    source, target = media.recording(tmp_path / "in.mp4", count=3), tmp_path / "out.mp4"
    target.write_bytes(b"precious")
    if manifest:
        (tmp_path / ".out.mp4.resume.json").write_text(manifest)
    command = ("video", source, "-o", target, *words, "--resume")
    code, _, err = run(*command)
    assert code == 73 and "out.mp4' exists. Add --overwrite" in err
    assert target.read_bytes() == b"precious"
    assert run(*command, "--overwrite")[0] == 0
    code, out, _ = run(*command)
    assert code == 0 and "finished before" in out


def test_resume_replaces_nothing_of_the_users(run, words, tmp_path):
    """Not a film that was edited, nor what lies beside a film that was never begun."""
    source, target = media.recording(tmp_path / "in.mp4", count=3), tmp_path / "out.mp4"
    command = ("video", source, "-o", target, *words, "--resume", "--sidecar")
    sidecar = tmp_path / "out.jsonl"
    sidecar.write_text("precious")
    code, _, err = run(*command)
    assert code == 73 and "out.jsonl" in err and sidecar.read_text() == "precious"
    sidecar.unlink()
    assert run(*command)[0] == 0
    target.write_bytes(b"edited")
    code, _, err = run(*command)
    assert code == 73 and "has changed since it was made. Add --overwrite" in err
    assert target.read_bytes() == b"edited"


def test_an_interrupted_overwriting_is_told_and_goes_on(run, words, tmp_path):
    """A begun manifest that names the film that is there; a failed run puts the old one back."""
    source, target = media.recording(tmp_path / "in.mp4", count=3), tmp_path / "out.mp4"
    command = ("video", source, "-o", target, *words, "--sidecar")
    manifest = tmp_path / ".out.mp4.resume.json"
    assert run(*command, "--target", 0)[0] == 0
    old, known = target.read_bytes(), manifest.read_bytes()
    assert run(*command, "--target", 1, "--overwrite", "--start", 99)[0] != 0
    assert (target.read_bytes(), manifest.read_bytes()) == (old, known)
    assert run(*command, "--target", 1, "--overwrite")[0] == 0
    new = target.read_bytes()
    for part in ("digests", ""):  # killed before, or just before the film got its name
        target.write_bytes(old)
        state = json.loads(manifest.read_text())
        manifest.write_text(json.dumps({**state, part: {}} if part else state))
        code, _, err = run(*command, "--target", 0, "--resume")
        assert code == 73 and "An --overwrite of" in err and "was interrupted" in err, err
        assert target.read_bytes() == old
        code, _, err = run(*command, "--target", 1, "--resume")
        assert code == 0 and "an --overwrite of it was interrupted" in err, err
        assert target.read_bytes() == new


def test_two_jobs_do_not_write_one_film(run, words, tmp_path):
    """The second one is refused while the first runs."""
    source, target = media.recording(tmp_path / "in.mp4", count=3), tmp_path / "out.mp4"
    other = subprocess.Popen(["sleep", "60"])
    (tmp_path / f"out.mp4.{other.pid}.part").touch()
    command = ("video", source, "-o", target, *words, "--resume")
    code, _, err = run(*command)
    assert code == 73 and "is being written by another process" in err
    other.kill(), other.wait()
    assert run(*command)[0] == 0


def test_a_film_appears_after_all_that_stands_beside_it(monkeypatch, run, words, tmp_path):
    """Sidecar, maps and summary, then the manifest, the film last."""
    source, target = media.recording(tmp_path / "in.mp4", count=3), tmp_path / "out.mp4"
    beside = ("--sidecar", "--summary", "--maps", tmp_path)
    command = ("video", source, "-o", target, *words, *beside, "--overwrite")
    assert run(*command)[0] == 0
    placed, replace = [], os.replace

    def noted(part, name):
        placed.append(Path(name).name)
        replace(part, name)

    monkeypatch.setattr(os, "replace", noted)
    assert run(*command)[0] == 0
    assert placed[-2:] == [".out.mp4.resume.json", "out.mp4"]
    assert sorted(placed[:-2]) == ["out.jsonl", "out.summary.png"]


FAULTS = {
    "crash": ("os.kill(os.getpid(), signal.SIGSEGV)", 65, "makes the decoder crash (SIGSEGV)"),
    "killed": ("os.kill(os.getpid(), signal.SIGKILL)", 69, "(SIGKILL). The memory may have run"),
    "stopped": ("os.kill(os.getpid(), signal.SIGTERM)", 69, "was killed (SIGTERM). Try again."),
    "ended": ("os._exit(1)", 70, "ended early (exit code 1)"),
    "memory": ("raise MemoryError", 69, "The memory does not suffice to decode"),
    "odd": ("raise ValueError('odd')", 65, "makes the decoder fail (ValueError: odd)"),
    "bug": ("raise TypeError('odd')", 70, "unexpected TypeError: odd\nThis is a bug"),
    "disk": ("raise OSError(5, 'Input/output error')", 65, "to its end (Input/output error)"),
}
"""Name of a recording -> what its process does, exit code, what the message says."""


def test_whatever_a_process_does_costs_one_file(run, words, tmp_path, monkeypatch):
    """Each is named with its reason, -vv shows where it was raised, and the last file is made."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir(), out.mkdir()
    for name in (*FAULTS, "whole"):
        media.recording(folder / f"{name}.mp4", count=2)
    faults = "".join(f"def {name}():\n    {what}\n" for name, (what, *_) in FAULTS.items())
    scripted(monkeypatch, tmp_path, f"{FAULTY}\n{faults}")
    code, stdout, err = run("video", folder, "-o", out, *words, "--json", "-vv")
    assert (
        code == 70 and f"1 of {len(FAULTS) + 1} videos done, {len(FAULTS)} failed: see above" in err
    )
    events = {Path(row["file"]).stem: row for row in map(json.loads, stdout.splitlines())}
    for name, (what, exit_code, told) in FAULTS.items():
        assert told in err and events[name]["exit_code"] == exit_code, name
        assert f"{name}.mp4" in err and (f"in {name}\n" in err) == what.startswith("raise"), name
    assert films_in(out) == ["whole.mp4"]


def test_times_that_jump_cost_one_file(run, words, tmp_path):
    """By 25000 s, which MP4 cannot hold and Matroska can; one flipped bit of a time is enough."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir(), out.mkdir()
    pts = [number * 9000 + (25000 * 90000 if number > 3 else 0) for number in range(6)]
    jump = media.recording(folder / "jump.ts", pts=pts, base=Fraction(1, 90000))
    media.recording(folder / "next.mp4", count=2)
    code, _, err = run("video", folder, "-o", out, *words)
    assert code == 65 and "jump.ts: The times of the frames jump by 25000 s" in err, err
    assert films_in(out) == ["next.mp4"]
    code, _, err = run("video", jump, "-o", tmp_path / "long.mkv", *words)
    assert code == 0, err
    assert media.times_of(tmp_path / "long.mkv")[-1] == pytest.approx(25001.9, abs=1.5)
    code, _, err = run("video", jump, "-o", tmp_path / "short.mp4", *words, "--end", 0.4)
    assert code == 0 and len(media.times_of(tmp_path / "short.mp4")) == 4, err


def test_a_file_that_cannot_be_done_does_not_end_the_batch(run, words, tmp_path, monkeypatch):
    """Frames too small to encode: the others are made, the exit code says what failed."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir(), out.mkdir()
    media.recording(folder / "a.mkv", codec="ffv1", pixels="bgr0", size=(1, 1), count=2)
    media.recording(folder / "b.mp4", count=2)
    code, stdout, err = run("video", folder, "-o", out, *words, "--codec", "hevc")
    assert code == 73 and "1 x 1 pixels" in err, err and "b.mp4: 2 frames" in stdout
    assert films_in(out) == ["b.mp4"]


@pytest.mark.parametrize("count", [1, 2])
def test_batches_in_flight_do_not_wait_for_each_other(count, tiny_model, tmp_path, monkeypatch):
    """Two, as on a GPU; signs of life between the batches change nothing."""
    from realtime_lrp import config
    from realtime_lrp.commands.video.overlay import Film, overlay_file
    from realtime_lrp.engine.engine import Engine
    from realtime_lrp.realtime.stats import Stats

    chosen = config.load(options={"--model": str(tiny_model), "--batch": "3"}).config
    engine = Engine(chosen, moving=True)
    engine.in_flight = count
    monkeypatch.setattr(recoding, "STALLED_S", 10.0)
    source = media.recording(tmp_path / "in.mp4", count=31)
    for number in range(4):
        film = Film(tmp_path / f"{number}.mp4")
        report = overlay_file(engine, chosen, source, film, Stats("CPU", "float32"))
        assert report.frames == 31


def test_what_comes_after_the_end_is_not_decoded(tmp_path):
    """Sound that ends early does not make it read on; a late start is no silence."""
    from realtime_lrp.video.reader import Span

    source = media.recording(
        tmp_path / "in.mkv", count=900, options={"g": "900", "sc_threshold": "0"}
    )
    with VideoReader(source, Span(end=0.1)) as reader:
        assert len(list(reader.with_sound())) == 3
        assert reader.packets < 120
    with VideoReader(source, Span(start=29.9)) as reader:
        assert len(list(reader)) == 3
        assert reader.packets >= 897


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


@pytest.mark.release
def test_a_stream_without_container_and_times_is_cut_as_well(tmp_path):
    """Raw H.264 counts as 25 frames a second and cannot be sought in."""
    source = media.recording(tmp_path / "in.h264", count=30, options={"bf": "2"})
    for span, count in ((None, 30), (Span(0.4), 20), (Span(0.4, 0.8), 10)):
        target = tmp_path / "out.mp4"
        recode(source, target, span=span)
        times = media.frame_times(target)
        assert times == [Fraction(number, 25) for number in range(count)]
    expected, got = pictures_of(source)[10:20], pictures_of(target)
    assert np.abs(got[:, 1:24, 1:-1] - expected[:, 1:24, 1:-1]).mean() < 4


def test_joined_transport_streams_keep_the_sound_of_both(tmp_path):
    """The clock starts again in the middle: nothing is dropped."""
    one = media.recording(
        tmp_path / "1.ts", base=Fraction(1, 90000), pts=[3000 * n for n in range(60)], sound="mp2"
    )
    both = tmp_path / "both.ts"
    both.write_bytes(one.read_bytes() * 2)
    report = recode(both, tmp_path / "out.mp4")
    assert (report.bad_packets, report.lost_sound) == (0, 0)
    assert len(media.frame_times(tmp_path / "out.mp4")) == 120
    assert len(media.sound_of(tmp_path / "out.mp4")[1]) == 2 * len(media.sound_of(one)[1])


def test_b_frames_in_avi_have_the_times_of_their_order(tmp_path):
    """The format holds no presentation times; frames come one after the other."""
    source = media.recording(tmp_path / "in.avi", count=20, options={"bf": "3", "g": "10"})
    recode(source, tmp_path / "out.mp4")
    steps = np.diff([float(time) for time in media.frame_times(tmp_path / "out.mp4")])
    np.testing.assert_allclose(steps, 1 / 30, atol=1e-6)
    assert len(steps) == 19


@pytest.mark.release
def test_names_of_every_kind(run, words, tmp_path, monkeypatch):
    """A colon, dollars, brackets, bytes of no encoding; figures never replace a film."""
    monkeypatch.chdir(tmp_path)
    media.recording(tmp_path / "in.mp4", count=2)
    for name in ("12:30:05.mp4", "x $_$ [bold].mp4", os.fsdecode(b"b\xff.mp4"), "-o.mp4"):
        shutil.copy("in.mp4", f"./{name}")
        code, out, err = run(
            "video", f"./{name}", "-o", f"out {name}", *words, "--summary", "--sidecar", "--json"
        )
        assert code == 0, err
        assert json.loads(out.splitlines()[-1])["event"] == "done"
        assert media.frame_times(f"./out {name}")
    for stats in ("in.mp4", "o.mp4"):
        code, _, err = run("video", "in.mp4", "-o", "o.mp4", *words, "--stats", stats)
        assert code == 73 and "--stats" in err


@pytest.mark.parametrize(
    ("option", "code"),
    [
        (("--start", "nan"), 2), (("--end", "inf"), 2), (("--start", "1e300"), 2),
        (("--codec", "av1", "-o", "x.mov"), 2), (("--start", "1", "--end", "1"), 2),
        (("--start", "1e6"), 65),
    ],
)  # fmt: skip
def test_options_that_make_no_sense(option, code, run, words, tmp_path, monkeypatch):
    """Each is refused with a message."""
    monkeypatch.chdir(tmp_path)
    media.recording(tmp_path / "in.mp4", count=2)
    os.mkfifo("pipe.mp4")
    got, _, err = run("video", "in.mp4", "-o", "x.mp4", *words, *option)
    assert got == code and "bug in realtime-lrp" not in err
    got, _, err = run("video", "pipe.mp4", "-o", "x.mp4", *words)
    assert got == 66 and "pipe" in err


def test_a_process_whose_master_died_in_the_middle_of_a_word_ends(tmp_path):
    """It removes its unfinished file."""
    source = media.recording(tmp_path / "in.mp4", count=100)
    part = tmp_path / "out.mp4.1.part"
    process = subprocess.Popen(
        recoding.child_command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    channel = Channel(process.stdout, process.stdin, FROM_CHILD)
    channel.send(job_for(source, part, container=".mp4"))
    while not isinstance(message := channel.receive(), PictureBatch):
        pass
    answer = Answer((DrawableMap(np.ones((32, 32), np.int8), 1.0, "x"),) * len(message.pictures))
    channel.send(answer)
    sent = io.BytesIO()
    Channel(sent, sent, TO_CHILD).send(answer)
    process.stdin.write(sent.getvalue()[:-20])
    process.stdin.flush()
    process.stdin.close()
    process.stdout.close()
    assert process.wait(10) == 1
    assert not part.exists()


def scripted(monkeypatch, tmp_path, code):
    """Makes the decoding process run some lines first."""
    script = tmp_path / "process.py"
    script.write_text(f"from realtime_lrp.commands.video import recode\n{code}\nrecode.main()")
    monkeypatch.setattr(recoding, "child_command", lambda: [sys.executable, str(script)])


FAULTY = """
import os, signal, time
from realtime_lrp.video import reader
frames = reader.VideoReader._items
def faulty(self, sound):
    globals().get(self._path.stem, int)()
    return frames(self, sound)
reader.VideoReader._items = faulty
"""


def test_a_decoder_that_hangs_takes_no_other_file_with_it(run, words, tmp_path, monkeypatch):
    """It is named, the batch goes on, nothing half-written stays."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir(), out.mkdir()
    for name in ("hangs.mp4", "whole.mp4"):
        media.recording(folder / name)
    scripted(monkeypatch, tmp_path, FAULTY + "def hangs():\n    time.sleep(60)")
    # the start of the process takes a second or two
    monkeypatch.setattr(recoding, "STALLED_S", 5.0)
    code, _, err = run("video", folder, "-o", out, *words)
    assert code == 65 and "hangs.mp4' makes the decoder hang" in err, err
    assert films_in(out) == ["whole.mp4"]


def test_limits_on_size_and_streams(tmp_path):
    """A picture beyond the limit and a file of many streams are refused with a message."""
    many = tmp_path / "many.mkv"
    with av.open(many, "w") as container:
        streams = [container.add_stream("ffv1", rate=30) for _ in range(17)]
        for stream in streams:
            stream.height, stream.width, stream.pix_fmt = 48, 64, "bgr0"
        for stream in streams:
            frame = av.VideoFrame.from_ndarray(media.plain(), format="rgb24")
            container.mux([*stream.encode(frame.reformat(format="bgr0")), *stream.encode(None)])
    with pytest.raises(DamagedInputError, match="17 streams"):
        check_video(many)
    wide = tmp_path / "wide.mkv"
    with av.open(wide, "w") as container:
        stream = container.add_stream("ffv1", rate=30)
        stream.height, stream.width, stream.pix_fmt = 4096, 16400, "gray"
        container.mux(stream.encode(av.VideoFrame(16400, 4096, "gray")))
        container.mux(stream.encode(None))
    with pytest.raises(DamagedInputError, match="16400 x 4096"):
        check_video(wide)


def test_damaged_packets_are_counted(tmp_path, rng):
    """What decodes is written, the rest is reported; the remaining frames keep their times."""
    noise = [rng.integers(0, 256, (96, 128, 3), np.uint8) for _ in range(30)]
    source = media.write_video(tmp_path / "in.mp4", noise, g="5")
    whole = media.times_of(source)
    media.damage(source, rng)
    report = recode(source, tmp_path / "out.mp4")
    times = media.times_of(tmp_path / "out.mp4")
    assert len(times) > 20 and len(times) + report.bad_packets <= 31
    assert set(np.round(times, 4)) <= set(np.round(whole, 4))
    assert report.frames == len(times)


def test_a_recording_that_ends_early_says_so(run, words, tmp_path):
    """Cut off in its second half: fewer frames than it claims to have, nothing undecodable."""
    source = media.recording(tmp_path / "in.mp4", count=60, options={"movflags": ""})
    with (
        av.open(tmp_path / "front.mp4", "w", options={"movflags": "faststart"}) as container,
        av.open(source) as original,
    ):
        stream = container.add_stream_from_template(original.streams.video[0])
        for packet in original.demux(video=0):
            if packet.size:
                packet.stream = stream
                container.mux(packet)
    data = (tmp_path / "front.mp4").read_bytes()
    (tmp_path / "cut.mp4").write_bytes(data[: len(data) * 7 // 10])
    code, _, err = run("video", tmp_path / "cut.mp4", "-o", tmp_path / "out.mp4", *words)
    frames = len(media.times_of(tmp_path / "out.mp4"))
    assert code == 0 and 5 < frames < 55
    assert f"ended early: {frames} of about 60 frames" in err


def test_one_damaged_file_is_an_event_too(run, words, tmp_path):
    """With --json, and the exit code of damaged input."""
    (tmp_path / "in.mp4").write_text("no video")
    code, out, _ = run("video", tmp_path / "in.mp4", "-o", tmp_path / "o.mp4", *words, "--json")
    assert code == 65
    (event,) = [json.loads(line) for line in out.splitlines()]
    assert event["event"] == "failed" and "no video" in event["error"]


def valid_or_absent(target, count):
    """Whether there is no target, or a complete one."""
    return not target.exists() or len(media.times_of(target)) == count


def killed(tmp_path, words, moments):
    """Kills the program this many seconds after its start, with None in the middle of the work."""
    source = media.recording(tmp_path / "in.mp4", count=200, size=(240, 320), sound="aac")
    for number, moment in enumerate(moments):
        target = tmp_path / f"{number}.mp4"
        beside = ("--sidecar", "--maps", tmp_path / "maps")
        with program.start("video", source, "-o", target, *words, *beside) as process:
            if moment is None:
                until(lambda: any(p.stat().st_size for p in tmp_path.glob("0.mp4.*.part")))
            else:
                time.sleep(moment)
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert valid_or_absent(target, 200), moment
    deadline = time.monotonic() + 10
    while (left := list(tmp_path.rglob("*.part"))) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []


def test_killed_it_leaves_no_target_or_a_whole_one(words, tmp_path):
    """SIGKILL while it works."""
    killed(tmp_path, words, [None])


@pytest.mark.release
def test_killed_at_twenty_moments(words, tmp_path):
    """SIGKILL at 20 random moments around the work."""
    chance = random.Random(1)
    killed(tmp_path, words, [chance.uniform(2.0, 6.0) for _ in range(20)])


def test_interrupted_it_keeps_what_is_finished(words, tmp_path):
    """Ctrl-C: exit code 130, the first file is whole, nothing is left of the second."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir(), out.mkdir()
    media.recording(folder / "a.mp4", count=5)
    media.recording(folder / "b.mp4", count=40)
    slow = ("--method", "integrated_gradients", "--set", "lrp.samples=1000")
    with program.start("video", folder, "-o", out, *words, *slow) as process:
        until(lambda: list(out.glob("b.mp4*.part")))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "interrupted: 1 of 2 videos done" in err and "Traceback" not in err
    assert films_in(out) == ["a.mp4"]
    assert valid_or_absent(out / "a.mp4", 5)


@pytest.mark.release
def test_two_jobs_to_one_target(words, tmp_path):
    """One of them wins, the other says that the target exists; nothing is half-written."""
    source = media.recording(tmp_path / "in.mp4", count=60, size=(240, 320))
    target = tmp_path / "out.mp4"
    with (
        program.start("video", source, "-o", target, *words) as one,
        program.start("video", source, "-o", target, *words) as other,
    ):
        errors = [process.communicate(timeout=60)[1] for process in (one, other)]
    assert sorted([one.returncode, other.returncode]) == [0, 73]
    assert "--overwrite" in "".join(errors)
    assert len(media.times_of(target)) == 60
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".mp4", ".mp4", ".txt"]


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
from realtime_lrp.cli import main
main()
"""


def test_a_full_disk_leaves_nothing_broken(words, tmp_path, rng):
    """A write limit instead of a full disk: exit code 74, nothing left, the source untouched."""
    noise = [rng.integers(0, 256, (240, 320, 3), np.uint8) for _ in range(40)]
    source = media.write_video(tmp_path / "in.mkv", noise)
    command = [sys.executable, "-c", LIMITED, "video", source, "-o", tmp_path / "out.mp4", *words]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=100)
    assert done.returncode == 74, done.stderr
    assert "Writing" in done.stderr and "Traceback" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.mkv", "labels.txt"]


Usage = namedtuple("Usage", "total used free")


def test_room_on_the_disk_is_checked_before_and_during(run, words, tmp_path, monkeypatch):
    """A film that cannot fit is not begun; a disk that fills up ends it; both exit with 74."""
    source = media.recording(tmp_path / "in.mp4", count=100)
    target = tmp_path / "out.mp4"
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: Usage(1, 1, 1 << 20))
        code, _, err = run("video", source, "-o", target, *words)
    assert code == 74 and "1 MiB are free" in err
    fills = "import shutil\nclass U: free = 0\nshutil.disk_usage = lambda path: U"
    scripted(monkeypatch, tmp_path, fills)
    code, _, err = run("video", source, "-o", target, *words)
    assert code == 74 and "is full" in err
    assert sorted(path.name for path in tmp_path.glob("*.mp4*")) == ["in.mp4"]


def test_what_a_killed_run_left_is_named(run, words, tmp_path):
    """The part of a process that has ended is reported; that of a running one is not."""
    source = media.recording(tmp_path / "in.mp4", count=2)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for number in (gone.pid, os.getpid()):
        (tmp_path / f"out.mp4.{number}.part").touch()
    code, _, err = run("video", source, "-o", tmp_path / "out.mp4", *words)
    assert code == 0
    assert f"out.mp4.{gone.pid}.part was left" in err and f".{os.getpid()}.part was left" not in err


def test_frames_that_wait_for_maps_are_bounded(run, words, tmp_path, monkeypatch):
    """Room for three frames: large pictures and a long stride do not lock up."""
    source = media.recording(tmp_path / "in.mp4", count=25, sound="aac")
    room = 3 * 48 * 64 * 3
    scripted(monkeypatch, tmp_path, f"recode.MOST_BYTES = {room}")
    monkeypatch.setattr(recoding, "STALLED_S", 10.0)
    for stride in (1, 4):
        target = tmp_path / f"{stride}.mp4"
        code, _, err = run("video", source, "-o", target, *words, "--stride", stride)
        assert (code, err) == (0, "")
        assert media.frame_times(target) == media.frame_times(source)
    assert recode_module.MOST_BYTES == 2**30


def test_a_worker_decodes_no_further_ahead_than_there_is_room(tmp_path, monkeypatch):
    """Room for three frames: the fourth is decoded once the first is written."""

    class Waiting(FakeParent):
        def send(self, message):
            self.sent.append(message)

    def decoded():
        return sum(
            len(message.times) for message in parent.sent if isinstance(message, PictureBatch)
        )

    source = media.recording(tmp_path / "in.mp4", count=25)
    monkeypatch.setattr(recode_module, "MOST_BYTES", 3 * 48 * 64 * 3)
    parent = Waiting()
    recoder = Recoder(job_for(source, tmp_path / "out.mp4"), parent, parent.maps)
    worker = threading.Thread(target=recoder.run, daemon=True)
    worker.start()
    until(lambda: decoded() == 3)
    time.sleep(0.3)
    assert decoded() == 3
    for _ in range(25):
        parent.maps.put(parent.map)
    worker.join(30)
    assert not worker.is_alive() and len(media.frame_times(tmp_path / "out.mp4")) == 25


def test_colour_of_frames_without_a_tag():
    """BT.601 below 720 rows, BT.709 from there on, as players do."""
    for rows, table in ((480, 5), (720, 1), (1080, 1)):
        assert colour_of(av.VideoFrame(64, rows, "yuv420p")).table == table


def test_grey_without_a_tag_has_the_full_range():
    """As FFmpeg reads it; other frames have the range of their file, RGB always the full one."""
    for pixels, expected in (("gray", 2), ("gray16le", 2), ("yuv420p", 1), ("rgb24", 2)):
        frame = av.VideoFrame(64, 48, pixels)
        assert range_read(frame, colour_of(frame)) == expected, pixels
    tagged = av.VideoFrame(64, 48, "gray")
    tagged.color_range = 1
    assert range_read(tagged, colour_of(tagged)) == 1


def test_odd_sides_grow_by_their_last_line(tmp_path):
    """No black line at the right and at the bottom."""
    with VideoWriter(
        tmp_path / "o.mp4", ".mp4", Fraction(30), Fraction(1, 30), quality=0
    ) as writer:
        writer.write(media.plain((200, 180, 160), (47, 63)), 0)
    (picture,) = pictures_of(tmp_path / "o.mp4")
    assert picture.shape == (48, 64, 3)
    assert np.abs(picture - (200, 180, 160)).max() < 8
    assert colour_of(av.VideoFrame(64, 64, "gbrp")).matrix == 1
    assert colour_of(av.VideoFrame(64, 64, "yuvj420p")).range == 2


def test_what_only_the_live_view_reads_does_not_make_another_film(tmp_path):
    """A film stays finished when the viewer's settings change; opacity makes another one."""
    from realtime_lrp.config import load
    from realtime_lrp.results.resume import fingerprint

    source = media.recording(tmp_path / "in.mp4", count=3)
    mark = lambda *sets: fingerprint(source, load(sets=sets).config, {})  # noqa: E731
    live = ("overlay.follow=hold", "overlay.style=contour", "overlay.average=0.5")
    assert mark(*live) == mark() != mark("overlay.opacity=0.5")


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_the_last_frame_is_written_with_its_duration(tmp_path, codec):
    """Encoders forget it."""
    path = tmp_path / "o.mkv"
    with VideoWriter(path, ".mkv", Fraction(30), Fraction(1, 1000), codec=codec) as writer:
        for pts, duration in ((0, 33), (33, 33), (66, 300)):
            writer.write(media.plain(size=(64, 64)), pts, duration)
    with av.open(path) as container:
        shown = {packet.pts: packet.duration for packet in container.demux() if packet.size}
    assert shown == {0: 33, 33: 33, 66: 300}


def test_hevc_in_mp4_has_the_tag_that_apples_players_know(tmp_path):
    """hvc1, where FFmpeg would write hev1."""
    rate = Fraction(30)
    with VideoWriter(tmp_path / "o.mp4", ".mp4", rate, 1 / rate, codec="hevc") as writer:
        writer.write(media.plain(size=(64, 64)), 0)
    with av.open(tmp_path / "o.mp4") as container:
        assert container.streams.video[0].codec_context.codec_tag == "hvc1"


@pytest.mark.parametrize(
    ("setting", "counts"),
    [
        ("model.preprocess=none", True),
        ("lrp.target=red", True),
        ("input.fit=squash", True),
        ("input.mirror=true", True),
        ("overlay.opacity=0.1", True),
        ("video.quality=30", True),
        ("video.batch=3", False),
        ("overlay.average=0.5", False),
        ("live.camera_fps=15", False),
    ],
)
def test_a_setting_counts_for_resume_where_it_shapes_the_film(tmp_path, setting, counts):
    """Each such section of the configuration, and nothing that only the live view shows."""
    source = media.recording(tmp_path / "in.mp4", count=2)
    before = fingerprint(source, config.load(command="video").config, {})
    after = fingerprint(source, config.load(sets=(setting,), command="video").config, {})
    assert (after != before) == counts
