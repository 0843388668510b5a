"""Limits of the web server, and channels on the page: hostile clients cost the others nothing."""

import contextlib
import json
import os
import signal
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("uvicorn", reason="the extra serve is not installed")

import cv2
import numpy as np
from faults.clock import LONG_S, until
from galleries import gallery_of
from served import TOKEN, Role, StandIn, patience, picture_of, serving_pages
from viewer import LOOK, found_box, state_of
from websockets.exceptions import ConnectionClosed

from realtime_lrp.commands.serve import exchange, server, visitors
from realtime_lrp.commands.serve.access import own_context
from realtime_lrp.commands.serve.messages import SetValue, concepts_message, event_of, read_message
from realtime_lrp.commands.serve.visitors import Visitors
from realtime_lrp.engine import measured
from realtime_lrp.engine.engine import Engine
from realtime_lrp.realtime.viewer import events
from realtime_lrp.system.scale import FULL
from realtime_lrp.video import untrusted
from realtime_lrp.video.untrusted import ChildDecoder, is_plain_jpeg
from realtime_lrp.view.concepts import ConceptPanel, ConceptRow
from realtime_lrp.view.painting import Drawn


@pytest.fixture(scope="module")
def served():
    with serving_pages() as one:
        yield one


def test_viewers_are_forty_and_who_controls_has_a_place_besides(monkeypatch):
    assert exchange.MOST_VIEWERS == 40
    monkeypatch.setattr(exchange, "MOST_VIEWERS", 2)
    monkeypatch.setattr(exchange, "CONTROL_PLACES", 1)
    with (
        serving_pages() as served,
        served.socket(role=Role.WATCH),
        served.socket(role=Role.WATCH) as second,
    ):
        with served.socket(role=Role.WATCH) as third, pytest.raises(ConnectionClosed) as closed:
            third.recv(timeout=300)
        assert closed.value.rcvd.code == 1013 and "try again later" in closed.value.rcvd.reason
        with served.socket() as control:
            assert json.loads(control.recv(timeout=300))["control"]
            assert served.get("/view.mjpg")[0] == 503
        served.until(lambda: len(served.exchange.viewers) == 2)
        second.close()
        served.until(lambda: len(served.exchange.viewers) == 1)
        with served.socket(role=Role.WATCH) as again:
            assert json.loads(again.recv(timeout=300))["type"] == "role"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ('{"type": "key", "key": "b"}', 1008), (b"a picture", 1008), ("x" * 5000, 1008),
        ("x" * 200_000, 1009), (b"x" * 200_000, 1009),
    ],
    ids=["keys", "pictures", "long text", "longer text", "large picture"],
)  # fmt: skip
def test_who_sends_too_much_is_cut_off(served, data, code, monkeypatch):
    monkeypatch.setattr(server, "FRAMES_PER_S", 0.0)  # else a slow client may go on
    served.messages.clear()
    with served.socket() as viewer, pytest.raises(ConnectionClosed) as closed:
        for _ in range(50_000):
            viewer.send(data)
        while True:
            viewer.recv(timeout=300)
    assert closed.value.rcvd is None or closed.value.rcvd.code == code
    served.until(lambda: not served.exchange.viewers)
    assert len(served.messages) <= server.BURST


FLOODS = {
    "pings": b"\x89\x80mask", "pongs": b"\x8a\x80mask", "empty continuations": b"\x00\x80mask",
}  # fmt: skip
"""Frames without content, as a client sends them."""


@pytest.mark.parametrize("kind", FLOODS)
def test_who_sends_frames_without_pause_is_cut_off_and_others_keep_their_view(served, kind):
    """Frames count that are no messages, too: a browser answers one ping in 20 s."""
    with served.socket() as viewer:
        viewer.recv(timeout=300)
        for brightness in range(3):
            with served.socket(role=Role.WATCH) as watcher:
                if kind == "empty continuations":
                    watcher.socket.sendall(b"\x01\x80mask")  # a text that they go on with
                with contextlib.suppress(OSError):
                    for _ in range(1000):
                        watcher.socket.sendall(1000 * FLOODS[kind])
                    pytest.fail("the server took a million frames")
            served.publish(brightness)
            assert picture_of(viewer)
            viewer.send('{"type": "shown"}')
        served.until(lambda: len(served.exchange.viewers) == 1)


def test_a_head_that_is_too_large_is_refused(served):
    assert served.get("/", X="a" * 15_000)[0] == 200
    for size in (17_000, 60_000):
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            assert served.get("/", X="a" * size)[0] in (400, 431)


def opened(port, count):
    stack = contextlib.ExitStack()
    for _ in range(count):
        stack.enter_context(socket.create_connection(("127.0.0.1", port), 300))
    return stack


def film_of(served):
    client = socket.create_connection(("127.0.0.1", served.port), 300)
    client.sendall(f"GET /view.mjpg?token={TOKEN} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return client


def test_a_request_that_never_ends_is_cut_off(monkeypatch):
    monkeypatch.setattr(server, "REQUEST_S", 2.0)
    with serving_pages() as served, served.socket() as viewer, film_of(served) as film:
        viewer.recv(timeout=300)
        clients = [socket.create_connection(("127.0.0.1", served.port), 300) for _ in range(4)]
        clients[1].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
        clients[2].sendall(b"G")
        clients[3].sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET ")
        assert b" 200 " in clients[3].recv(4096), "a second request has no more time than the first"
        for client in clients:
            with client, contextlib.suppress(ConnectionResetError):
                while client.recv(4096):
                    pass
        served.publish(3)
        assert picture_of(viewer)
        while b"image/jpeg" not in film.recv(4096):
            pass  # the film goes on, too


def test_viewers_that_take_nothing_are_cut_off(monkeypatch, caplog):
    monkeypatch.setattr(server, "shows_tracebacks", lambda: True)
    monkeypatch.setattr(server, "REQUEST_S", 0.5)
    monkeypatch.setattr(server, "SENDING_S", 0.5)
    with serving_pages() as served, film_of(served), raw_socket(served) as stalled:
        connections = served.server._server.server_state.connections
        served.until(lambda: len(served.exchange.viewers) == 2)
        for _ in range(50):  # the viewer confirms what it has not taken
            stalled.sendall(b"\x81\x92mask" + masked(b'{"type": "shown"}\n'))
            served.exchange.publish(bytes(1_000_000), time.monotonic())
            time.sleep(0.02)
        served.until(lambda: not connections)
    assert not any(record.exc_info for record in caplog.records)


def raw_socket(served):
    client = socket.create_connection(("127.0.0.1", served.port), 300)
    client.sendall(
        b"GET /ws?token=%s HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
        b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n" % TOKEN.encode()
    )
    return client


def masked(data):
    """A message as clients send it: with a mask, here `mask`."""
    return bytes(one ^ b"mask"[place % 4] for place, one in enumerate(data))


@pytest.mark.parametrize("https", [False, True])
def test_connections_that_send_nothing_keep_nobody_out(https, caplog):
    tls = own_context([])[0] if https else None
    with serving_pages(tls=tls) as served, opened(served.port, 200):
        client = socket.create_connection(("127.0.0.1", served.port), 300)
        if https:
            trusting = ssl.create_default_context()
            trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
            client = trusting.wrap_socket(client)
        with client:
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 200 " in client.recv(100)
        connections = served.server._server.server_state.connections
        served.until(lambda: len(connections) <= server.MOST_STRANGERS)
    assert not caplog.records


def test_strangers_do_not_push_out_who_has_a_token(monkeypatch):
    monkeypatch.setattr(server, "MOST_STRANGERS", 6)
    monkeypatch.setattr(server, "PROMPT_S", 1.0)
    with serving_pages() as served, served.socket() as viewer, film_of(served) as film:
        viewer.recv(timeout=300)
        first = socket.create_connection(("127.0.0.1", served.port), LONG_S)
        with first, opened(served.port, 20), contextlib.suppress(ConnectionResetError):
            assert first.recv(1) == b""
        served.publish(5)
        assert picture_of(viewer)
        while b"image/jpeg" not in film.recv(4096):
            pass


def panel_of(*rows, note=""):
    """A panel over a grey picture; rows are (channel, share, column that the map looks at)."""
    made = []
    for channel, share, column in rows:
        strength = np.zeros((12, 16), np.int8)
        strength[:, column] = FULL
        words = (f"channel {channel}", share, f"{share:.0%}")
        made.append(ConceptRow(channel, *words, Drawn(strength, 1.0), (), False))
    picture = np.full((60, 80, 3), 90, np.uint8)
    return ConceptPanel("conv", picture, tuple(made), LOOK, note)


def parts_of(message):
    """The fields of a message, and the bytes of its picture."""
    length = int.from_bytes(message[1:5], "little")
    return json.loads(message[5 : 5 + length]), message[5 + length :]


def test_a_message_has_every_channel_with_its_own_map():
    panel = panel_of((5, 0.125, 2), (9, -0.5, 13))
    fields, data = parts_of(concepts_message(panel, gallery_of("conv", 16), ("first", "conv")))
    maps = cv2.imdecode(np.frombuffer(data, np.uint8), 1)
    assert (fields["layer"], fields["layers"], fields["why"]) == ("conv", ["first", "conv"], "")
    assert fields["without_pictures"] == ["first"]
    assert [
        (row["channel"], row["bar"], row["against"], row["examples"]) for row in fields["rows"]
    ] == [(5, 0.125, False, True), (9, 0.5, True, False)]
    assert maps.shape == (144, 2 * 192, 3)
    bright = [maps[:, 192 * n : 192 * (n + 1), 2].mean(0).argmax() / 192 for n in (0, 1)]
    assert bright == pytest.approx([2.5 / 16, 13.5 / 16], abs=0.05)
    without, _ = parts_of(concepts_message(panel, None, ("first", "conv")))
    assert without["without_pictures"] == [], "without a gallery no layer stands out"
    assert len(concepts_message(panel, None, ())) < 40_000


def test_the_pictures_of_a_channel_are_answered_to_all_who_have_a_token(served):
    served.gallery = gallery_of("conv", 16)
    for role in (Role.CONTROL, Role.WATCH):
        status, headers, body = served.get("/gallery.jpg?layer=conv&channel=5", served.tokens[role])
        assert (status, headers["Content-Type"]) == (200, "image/jpeg")
        shown = cv2.imdecode(np.frombuffer(body, np.uint8), 1)
        assert shown.shape == (96, 6 * 100, 3)
        assert shown[48, 48::100, 0].tolist() == pytest.approx([30, 60, 90, 120, 150, 180], abs=3)
    assert served.get("/gallery.jpg?layer=conv&channel=5", token="")[0] == 401
    for query in ("", "layer=conv", "layer=conv&channel=6", "layer=conv&channel=-5",
                  "layer=conv&channel=5.0", "layer=conv&channel=99999999999999999999",
                  "layer=../conv&channel=5", "layer=/etc/passwd&channel=5"):  # fmt: skip
        status, _, body = served.get(f"/gallery.jpg?{query}")
        assert (status, body[:4]) == (404, b"404:"), query


def test_a_row_and_a_layer_that_are_chosen_are_events():
    engine = SimpleNamespace(
        concepts=SimpleNamespace(layers=("conv", "top")), concept_layer="top",
        explainer=SimpleNamespace(channel_counts=lambda: {"conv": 18, "top": 8}),
    )  # fmt: skip
    request = SimpleNamespace(concepts=SimpleNamespace(layer="conv"))
    relevance = SimpleNamespace(engine=engine, request=request)

    def followed(channel):
        message = f'{{"type": "choice", "what": "channel", "value": {channel}}}'
        return event_of(read_message(message), relevance)

    assert followed(17).value == 17
    assert "'conv' has 18" in followed(18).text and "no channel -1:" in followed(-1).text
    relevance.request.concepts = None
    assert "'top' has 8" in followed(8).text
    chosen = event_of(SetValue("layer", "conv"), relevance)
    assert (chosen.what, chosen.value) == ("layer", "conv")
    wrong = event_of(SetValue("layer", "cond"), relevance)
    assert isinstance(wrong, events.NoticeGiven) and "'conv'" in wrong.text
    loading = event_of(SetValue("layer", "conv"), SimpleNamespace(engine=None))
    assert "not loaded yet" in loading.text
    assert followed('"5"') is followed("true") is None and "no channel 5.5:" in followed(5.5).text


def jpeg(brightness, size=(48, 64)):
    return cv2.imencode(".jpg", np.full((*size, 3), brightness, np.uint8))[1].tobytes()


@pytest.fixture(autouse=True, scope="module")
def _patience():
    with patience():
        yield


@pytest.fixture(scope="module")
def decoder():
    one = ChildDecoder()
    yield one
    one.close()


def test_an_untrusted_jpeg_is_decoded_in_a_child_process(decoder):
    picture = np.zeros((48, 64, 3), np.uint8)
    picture[..., 2] = 250  # red, for OpenCV
    decoded = decoder.decode(cv2.imencode(".jpg", picture)[1].tobytes())
    assert decoded.shape == (48, 64, 3) and decoded.dtype == np.uint8
    assert np.abs(decoded[24, 32].astype(int) - (250, 0, 0)).max() < 6


def test_what_is_no_small_jpeg_is_refused(decoder):
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


def test_jpegs_that_take_long_to_decode_get_to_no_decoder(monkeypatch):
    """A progressive one of 131 KB can take 14 s; browsers send baseline ones of one scan."""
    monkeypatch.setattr("realtime_lrp.video.untrusted.PictureProcess", None)
    for kind, data in {
        "progressive": cv2.imencode(".jpg", NOISE, (cv2.IMWRITE_JPEG_PROGRESSIVE, 1))[1].tobytes(),
        "many scans": BASELINE[:SCAN] + 1000 * BASELINE[SCAN : SCAN + 14] + BASELINE[SCAN:],
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


class Counter:
    """A visitor who sends the next picture, or several, when an answer comes."""

    def __init__(self, shared, at_once=1):
        self.answers, self._shared, self._at_once = [], shared, at_once
        self.visitor = shared.join(self.take)

    def take(self, answer):
        self.answers.append(answer)
        self.send()

    def send(self):
        for _ in range(self._at_once):
            self._shared.put(self.visitor, jpeg(120))

    def ask(self, picture=None):
        """Sends a picture and waits for its answer."""
        count = len(self.answers)
        self._shared.put(self.visitor, picture or jpeg(120))
        until(lambda: len(self.answers) > count)

    @property
    def last(self):
        return parts_of(self.answers[-1])


@pytest.fixture(scope="module")
def relevance(tiny_model):
    """Stands for the relevance thread: the engine that is in use, with two maps in flight."""
    words = {"--model": str(tiny_model), "--preprocess": "tf", "--target": "top1"}
    state = state_of(command="serve", **words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measured, "_pool", ThreadPoolExecutor(2))
        return SimpleNamespace(engine=Engine(state.config, moving=True), doing="", state=state)


def test_maps_are_shared_fairly_whatever_somebody_sends(relevance, monkeypatch):
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
    with Visitors(relevance, lambda: relevance.state) as shared:
        one = Counter(shared, at_once=0)
        one.ask()
        fields, png = one.last
        assert fields["box"] == [8 / 64, 0, 56 / 64, 1]
        assert fields["blocks"][0][0]["kind"] == "headline"
        assert cv2.imdecode(np.frombuffer(png, np.uint8), -1).shape == (32, 32, 4)
        one.ask(b"no picture")
        assert one.last[0]["reason"] == "that picture cannot be decoded"


def test_the_answer_of_a_detector_has_its_boxes(relevance, monkeypatch):
    explain, left = relevance.engine.explain, iter((16, 18))

    def with_box(pictures, targets):
        (one,) = explain(pictures, targets)
        box = found_box((next(left), 12, 48, 36), 1, 0.93, 0, one.maps, one.region)
        return [replace(one, found=(box,))]

    monkeypatch.setattr(relevance.engine, "explain", with_box)
    with Visitors(relevance, lambda: relevance.state) as shared:
        one = Counter(shared, at_once=0)
        for n in range(2):
            one.ask()
            (outline,) = one.last[0]["outlines"]
            assert outline["box"] == [(16 + 2 * n) / 64, 0.25, 0.75, 0.75]
            assert outline["texts"] == ["class 1 93 %", "71 % inside"]
            assert outline["colour"] == "rgb(255, 150, 30)"


def test_an_answer_says_which_picture_it_is_for(relevance):
    with Visitors(relevance, lambda: relevance.state) as shared:
        one = Counter(shared, at_once=0)
        with shared._changed:  # a lock that its owner may take again: nothing is taken meanwhile
            for _ in range(5):
                shared.put(one.visitor, jpeg(120))
        until(lambda: one.answers)
        assert [one.last[0]["number"], len(one.answers)] == [5, 1]
        one.visitor.paint = None
        one.ask()
        fields, png = one.last
        assert (fields["number"], fields["reason"], png) == (6, visitors.NO_MAP, b"")
        assert fields["outlines"] == []  # the page reads them from every answer


def test_who_ends_the_decoder_is_served_no_more(relevance):
    with Visitors(relevance, lambda: relevance.state) as shared:
        harmful, other = Counter(shared, at_once=0), Counter(shared, at_once=0)
        harmful.ask()
        os.kill(shared._decoder._process.child.pid, signal.SIGKILL)
        assert shared.put(harmful.visitor, jpeg(120))
        until(lambda: len(harmful.answers) == 2)
        assert not shared.put(harmful.visitor, jpeg(120))
        other.ask()
        assert other.last[1] and len(harmful.answers) == 2


def test_a_network_that_fails_costs_maps_and_nothing_else(relevance, caplog):
    broken = SimpleNamespace(
        explainer=relevance.engine.explainer,
        explain=lambda *words: (_ for _ in ()).throw(RuntimeError("out of order")),
    )
    stand_in = SimpleNamespace(engine=broken, doing="")
    with Visitors(stand_in, lambda: relevance.state) as shared:
        one = Counter(shared, at_once=0)
        for _ in range(2):
            one.ask()
            assert one.last[0]["reason"] == "no map at the moment"
        stand_in.engine = relevance.engine
        one.ask()
        assert one.last[1]
    assert caplog.text.count("out of order") == 1


def test_a_camera_may_be_used_by_who_only_watches():
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
    with serving_pages(visitors=StandIn()) as served, served.socket() as phone:
        phone.send(b"harm")
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                phone.recv(timeout=300)
        assert (closed.value.rcvd.code, served.visitors.joined) == (1008, 0)
