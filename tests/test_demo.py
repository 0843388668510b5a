"""`demo`: its files, and what its clip shows."""

import socket

import cv2
import media
import numpy as np
import pytest

from realtime_lrp import config
from realtime_lrp.commands import demo
from realtime_lrp.commands.demo import CLIP
from realtime_lrp.engine.engine import Engine
from realtime_lrp.engine.wording import top_scores
from realtime_lrp.video.reader import VideoReader


@pytest.mark.parametrize("frames", [24, pytest.param(300, marks=pytest.mark.release)])
def test_the_demo_writes_a_video_and_a_contact_sheet_without_a_network(
    frames, run, tmp_path, tmp_path_factory, monkeypatch
):
    """Without display, camera or download: every frame of the clip."""
    clip = CLIP
    if frames < 300:
        clip = media.slowed(CLIP, tmp_path_factory.mktemp("clip") / "demo.mp4", 1, frames)
        monkeypatch.setattr(demo, "CLIP", clip)

    def no_network(*words):
        raise OSError("the network is unplugged")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.chdir(tmp_path)
    code, out, err = run("demo")
    assert (code, err) == (0, "")
    assert "demo.mp4" in out
    assert "demo.png" in out
    codec, rows, columns, _ = media.stream_of("demo.mp4")
    assert (codec, rows, columns) == ("h264", 480, 640)
    assert media.times_of("demo.mp4") == media.times_of(clip)
    assert len(media.times_of("demo.mp4")) == frames
    sheet = cv2.imread("demo.png")
    assert sheet.shape == (3 * 244 + 4, 4 * 324 + 4, 3)
    assert run("demo")[0] == 73
    assert sorted(p.name for p in tmp_path.iterdir()) == ["demo.mp4", "demo.png"]


# second of the clip -> symbol in it
SHOWN = {1.5: "star", 2.0: "star", 4.0: "heart", 4.5: "heart", 6.0: "house", 8.5: "fish"}


@pytest.fixture(scope="module")
def explained():
    """(frame, result, best label) for some moments of the clip."""
    engine = Engine(config.load(options={"--model": "shapes"}).config)
    with VideoReader(CLIP) as reader:
        frames = [frame.picture for frame in reader]
    moments = {second: frames[round(second * 30)] for second in SHOWN}
    results = engine.explain(list(moments.values()))
    return {
        second: (picture, result, top_scores(engine.label, result.scores, 1)[0])
        for (second, picture), result in zip(moments.items(), results, strict=True)
    }


@pytest.mark.parametrize("second", SHOWN)
def test_the_symbol_is_named_and_the_map_lies_on_it(second, explained):
    """The right label, and the strongest relevance on ink, not on paper."""
    picture, result, (name, score) = explained[second]
    assert name == SHOWN[second]
    assert score > 0.8
    relevance = cv2.GaussianBlur(result.relevance.sum(-1), (0, 0), 1)
    rows, columns = np.unravel_index(relevance.argmax(), relevance.shape)
    x0, y0, x1, y1 = result.region.box
    y = y0 + (rows + 0.5) * (y1 - y0) / 128
    x = x0 + (columns + 0.5) * (x1 - x0) / 128
    around = picture[int(y) - 12 : int(y) + 13, int(x) - 12 : int(x) + 13].reshape(-1, 3)
    contrast = np.ptp(around.astype(int).sum(-1))
    assert contrast > 200, "no edge of ink where the map points"
