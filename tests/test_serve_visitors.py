"""Visitors' own cameras: untrusted pictures are decoded apart, and maps are shared fairly."""

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import cv2
import numpy as np
import pytest

pytest.importorskip("uvicorn", reason="the extra serve is not installed")

from faults.clock import until
from served import Role, StandIn, patience, serving_pages
from viewer import found_box
from websockets.exceptions import ConnectionClosed

from realtime_lrp import config
from realtime_lrp.commands.serve import visitors
from realtime_lrp.commands.serve.visitors import Visitors
from realtime_lrp.engine import measured
from realtime_lrp.engine.engine import Engine
from realtime_lrp.realtime.explaining import first_request
from realtime_lrp.realtime.viewer.state import first_state
from realtime_lrp.video import untrusted
from realtime_lrp.video.untrusted import ChildDecoder, is_plain_jpeg


def jpeg(brightness, size=(48, 64)):
    """A plain picture as a phone sends it."""
    return cv2.imencode(".jpg", np.full((*size, 3), brightness, np.uint8))[1].tobytes()


@pytest.fixture(autouse=True, scope="module")
def _patience():
    """No decoder is ended because the machine is busy."""
    with patience():
        yield


# --- Decoding


@pytest.fixture(scope="module")
def decoder():
    """A decoder with its child."""
    one = ChildDecoder()
    yield one
    one.close()


def test_an_untrusted_jpeg_is_decoded_in_a_child_process(decoder):
    """The channels are RGB."""
    picture = np.zeros((48, 64, 3), np.uint8)
    picture[..., 2] = 250  # red, for OpenCV
    decoded = decoder.decode(cv2.imencode(".jpg", picture)[1].tobytes())
    assert decoded.shape == (48, 64, 3) and decoded.dtype == np.uint8
    assert np.abs(decoded[24, 32].astype(int) - (250, 0, 0)).max() < 6


def test_what_is_no_small_jpeg_is_refused(decoder):
    """The child goes on; pixels are counted before they are decoded."""
    before = decoder.crashes
    png = cv2.imencode(".png", np.zeros((9, 9, 3), np.uint8))[1].tobytes()
    for data in (b"", b"\xff\xd8", b"x" * 100, jpeg(9)[2:], jpeg(9, (700, 700)), png):
        assert decoder.decode(data) is None
    cut = decoder.decode(jpeg(9)[:300])
    assert cut is None or cut.shape == (48, 64, 3)
    assert decoder.crashes == before


NOISE = np.random.default_rng(0).integers(0, 255, (240, 320, 3), np.uint8)
BASELINE = cv2.imencode(".jpg", NOISE)[1].tobytes()
SCAN = BASELINE.index(b"\xff\xda")
HEAD = BASELINE[SCAN : SCAN + 14]


def test_jpegs_that_take_long_to_decode_get_to_no_decoder(monkeypatch):
    """A progressive one of 131 KB can take 14 s; browsers send baseline ones of one scan."""
    monkeypatch.setattr("realtime_lrp.video.untrusted.PictureProcess", None)
    for kind, data in {
        "progressive": cv2.imencode(".jpg", NOISE, (cv2.IMWRITE_JPEG_PROGRESSIVE, 1))[1].tobytes(),
        "many scans": BASELINE[:SCAN] + HEAD * 1000 + BASELINE[SCAN:],
        "arithmetic": BASELINE.replace(b"\xff\xc0", b"\xff\xc9", 1),
        "lossless": BASELINE.replace(b"\xff\xc0", b"\xff\xc3", 1),
        "garbage before": BASELINE[:2] + b"\x00" + BASELINE[2:],
        "no scan": BASELINE[:SCAN],
    }.items():
        assert ChildDecoder().decode(data) is None, kind
    for quality in (1, 30, 80, 100):
        data = cv2.imencode(".jpg", NOISE, (cv2.IMWRITE_JPEG_QUALITY, quality))[1].tobytes()
        assert is_plain_jpeg(data, 320 * 240) and not is_plain_jpeg(data, 320 * 240 - 1)


def test_a_crash_of_the_decoder_costs_one_picture(decoder, caplog, monkeypatch):
    """The next one has a child of its own; nobody waits for ever."""
    for number, told in ((signal.SIGSEGV, "SIGSEGV"), (signal.SIGSTOP, "")):
        assert decoder.decode(jpeg(50)) is not None
        before, pid = decoder.crashes, decoder._process.child.pid
        os.kill(pid, number)
        with monkeypatch.context() as patch:
            if number == signal.SIGSTOP:
                patch.setattr(untrusted, "DECODING_S", 0.3)
            assert decoder.decode(jpeg(50)) is None
        assert decoder.crashes == before + 1 and told in caplog.text
        assert decoder.decode(jpeg(50)).mean() == pytest.approx(50, abs=2)
        assert decoder._process.child.pid != pid


# --- Sharing


class Counter:
    """A visitor who sends the next picture, or several, when an answer comes."""

    def __init__(self, shared, at_once=1):
        self.answers, self._shared, self._at_once = [], shared, at_once
        self.visitor = shared.join(self.take)

    def take(self, answer):
        """Takes an answer."""
        self.answers.append(answer)
        self.send()

    def send(self):
        """Sends as many pictures as it likes."""
        for _ in range(self._at_once):
            self._shared.put(self.visitor, jpeg(120))

    @property
    def last(self):
        """The fields and the PNG of the last answer."""
        length = int.from_bytes(self.answers[-1][1:5], "little")
        return json.loads(self.answers[-1][5 : 5 + length]), self.answers[-1][5 + length :]


@pytest.fixture(scope="module")
def relevance(tiny_model):
    """Stands for the relevance thread: the engine that is in use, with two maps in flight."""
    words = {"--model": str(tiny_model), "--preprocess": "tf", "--target": "top1"}
    chosen = config.load(options=words, command="serve").config
    state = first_state(chosen, first_request(chosen))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measured, "_pool", ThreadPoolExecutor(2))
        return SimpleNamespace(engine=Engine(chosen, moving=True), doing="", state=state)


def test_maps_are_shared_fairly_whatever_somebody_sends(relevance, monkeypatch):
    """Ten visitors, one of whom sends fifty pictures for each answer; batches of four.

    That one has a picture at each of four stages at most: waiting, decoded, explained, answered.
    """
    monkeypatch.setattr(visitors, "BATCH", 4)
    monkeypatch.setattr(visitors, "BATCH_S", 600.0)
    monkeypatch.setattr(visitors, "ACTIVE_S", 600.0)
    sizes = []
    explain = relevance.engine.explain
    monkeypatch.setattr(
        relevance.engine, "explain", lambda p, t: sizes.append(len(p)) or explain(p, t)
    )
    with Visitors(relevance, lambda: relevance.state) as shared:
        everybody = [Counter(shared, at_once=50 if n == 3 else 1) for n in range(10)]
        for one in everybody:
            one.send()
        until(lambda: min(len(one.answers) for one in everybody) >= 20)
        with shared._changed:  # nothing is taken meanwhile
            counts = [len(one.answers) for one in everybody]
        assert len(shared._turn) <= 10 and relevance.others() == 2
        for one in everybody:
            shared.leave(one.visitor)
        until(lambda: relevance.others() == 0)
    hasty = counts.pop(3)
    assert max(counts) - min(counts) <= 3 and hasty <= 4 * min(counts) and max(sizes) == 4


def test_the_answer_has_the_map_and_what_the_network_says(relevance):
    """Where the map lies is given in shares of the picture; its figures are those of the view."""
    with Visitors(relevance, lambda: relevance.state) as shared:
        one = Counter(shared, at_once=0)
        shared.put(one.visitor, jpeg(120))
        until(lambda: one.answers)
        fields, png = one.last
        assert fields["box"] == [8 / 64, 0, 56 / 64, 1]
        assert fields["blocks"][0][0]["kind"] == "headline"
        assert cv2.imdecode(np.frombuffer(png, np.uint8), -1).shape == (32, 32, 4)
        shared.put(one.visitor, b"no picture")
        until(lambda: len(one.answers) == 2)
        assert one.last[0]["reason"] == "that picture cannot be decoded"


def test_the_answer_of_a_detector_has_its_boxes(relevance, monkeypatch):
    """In shares of the picture; a box keeps its colour while it moves."""
    explain, left = relevance.engine.explain, iter((16, 18))

    def with_box(pictures, targets):
        (one,) = explain(pictures, targets)
        box = found_box((next(left), 12, 48, 36), 1, 0.93, 0, one.maps, one.region)
        return [replace(one, found=(box,))]

    monkeypatch.setattr(relevance.engine, "explain", with_box)
    with Visitors(relevance, lambda: relevance.state) as shared:
        one = Counter(shared, at_once=0)
        for n in range(2):
            shared.put(one.visitor, jpeg(120))
            until(lambda n=n: len(one.answers) > n)
            (outline,) = one.last[0]["outlines"]
            assert outline["box"] == [(16 + 2 * n) / 64, 0.25, 0.75, 0.75]
            assert outline["texts"] == ["class 1 93 %", "71 % inside"]
            assert outline["colour"] == "rgb(255, 150, 30)"


def test_an_answer_says_which_picture_it_is_for(relevance):
    """A picture that waits is replaced by the next one; the page reads the age of its map from it.

    A map that cannot be drawn is answered, too.
    """
    with Visitors(relevance, lambda: relevance.state) as shared:
        one = Counter(shared, at_once=0)
        with shared._changed:  # a lock that its owner may take again: nothing is taken meanwhile
            for _ in range(5):
                shared.put(one.visitor, jpeg(120))
        until(lambda: one.answers)
        assert [one.last[0]["number"], len(one.answers)] == [5, 1]
        one.visitor.paint = None
        shared.put(one.visitor, jpeg(120))
        until(lambda: len(one.answers) == 2)
        fields, png = one.last
        assert (fields["number"], fields["reason"], png) == (6, visitors.NO_MAP, b"")
        assert fields["outlines"] == []  # the page reads them from every answer


def test_who_ends_the_decoder_is_served_no_more(relevance):
    """Others are, by the next decoder."""
    with Visitors(relevance, lambda: relevance.state) as shared:
        harmful, other = Counter(shared, at_once=0), Counter(shared, at_once=0)
        shared.put(harmful.visitor, jpeg(120))
        until(lambda: harmful.answers)
        os.kill(shared._decoder._process.child.pid, signal.SIGKILL)
        assert shared.put(harmful.visitor, jpeg(120))
        until(lambda: len(harmful.answers) == 2)
        assert not shared.put(harmful.visitor, jpeg(120))
        shared.put(other.visitor, jpeg(120))
        until(lambda: other.answers)
        assert other.last[1] and len(harmful.answers) == 2


def test_a_network_that_fails_costs_maps_and_nothing_else(relevance, caplog):
    """Everybody is told, the log has one line, and the next maps come."""
    broken = SimpleNamespace(
        explainer=relevance.engine.explainer,
        explain=lambda *words: (_ for _ in ()).throw(RuntimeError("out of order")),
    )
    stand_in = SimpleNamespace(engine=broken, doing="")
    with Visitors(stand_in, lambda: relevance.state) as shared:
        one = Counter(shared, at_once=0)
        for number in (1, 2):
            shared.put(one.visitor, jpeg(120))
            until(lambda: len(one.answers) == number)  # noqa: B023
            assert one.last[0]["reason"] == "no map at the moment"
        stand_in.engine = relevance.engine
        shared.put(one.visitor, jpeg(120))
        until(lambda: len(one.answers) == 3)
        assert one.last[1]
    assert caplog.text.count("out of order") == 1


# --- Through the server


def test_a_camera_may_be_used_by_who_only_watches():
    """Its map goes to that visitor alone."""
    kept = StandIn(lambda number, picture: len(picture).to_bytes(4, "little"))
    with (
        serving_pages(visitors=kept) as served,
        served.socket(role=Role.WATCH) as phone,
        served.socket() as other,
    ):
        phone.recv(timeout=300), other.recv(timeout=300)
        phone.send(b"a picture")
        assert phone.recv(timeout=300) == b"\x09\x00\x00\x00"
        with pytest.raises(TimeoutError):
            other.recv(timeout=0.2)
    assert kept.pictures == [b"a picture"] and kept.joined == 0


def test_the_connection_of_who_ends_the_decoder_is_closed():
    """With the next picture; the reason says why."""
    with serving_pages(visitors=StandIn()) as served, served.socket() as phone:
        phone.send(b"harm")
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                phone.recv(timeout=300)
        assert (closed.value.rcvd.code, served.visitors.joined) == (1008, 0)
