"""Limits of the web server, and channels on the page: hostile clients cost the others nothing."""

import contextlib
import json
import socket
import ssl
import time
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from galleries import gallery_of
from served import Role, serving_pages
from viewer import LOOK

from realtime_lrp.commands.serve.messages import SetValue, concepts_message, event_of, read_message
from realtime_lrp.realtime.viewer import events
from realtime_lrp.system.scale import FULL
from realtime_lrp.view.concepts import ConceptPanel, ConceptRow
from realtime_lrp.view.painting import Drawn

pytest.importorskip("uvicorn", reason="the extra serve is not installed")

from faults.clock import LONG_S
from served import TOKEN, picture_of
from websockets.exceptions import ConnectionClosed

from realtime_lrp.commands.serve import exchange, server
from realtime_lrp.commands.serve.access import own_context


@pytest.fixture(scope="module")
def served():
    """A server whose clients leave nothing behind."""
    with serving_pages() as one:
        yield one


def test_viewers_are_forty_and_who_controls_has_a_place_besides(monkeypatch):
    """The next one is told why, and can come when another has left."""
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
        served.until(lambda: len(served.exchange._viewers) == 2)
        second.close()
        served.until(lambda: len(served.exchange._viewers) == 1)
        with served.socket(role=Role.WATCH) as again:
            assert json.loads(again.recv(timeout=300))["type"] == "role"


# --- What a client sends


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ('{"type": "key", "key": "b"}', 1008),
        (b"a picture", 1008),
        ("x" * 5000, 1008),
        ("x" * 200_000, 1009),
        (b"x" * 200_000, 1009),
    ],
    ids=["keys", "pictures", "long text", "longer text", "large picture"],
)
def test_who_sends_too_much_is_cut_off(served, data, code, monkeypatch):
    """Too many messages, or one that is too large."""
    monkeypatch.setattr(server, "FRAMES_PER_S", 0.0)  # else a slow client may go on
    served.messages.clear()
    with served.socket() as viewer, pytest.raises(ConnectionClosed) as closed:
        for _ in range(50_000):
            viewer.send(data)
        while True:
            viewer.recv(timeout=300)
    assert closed.value.rcvd is None or closed.value.rcvd.code == code
    served.until(lambda: not served.exchange.watched)
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
        served.until(lambda: len(served.exchange._viewers) == 1)


def test_a_head_that_is_too_large_is_refused(served):
    """Also one that comes whole, in one piece."""
    assert served.get("/", X="a" * 15_000)[0] == 200
    for size in (17_000, 60_000):
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            assert served.get("/", X="a" * size)[0] in (400, 431)


# --- Connections


def opened(port, count):
    """Connections that send nothing; closed with the context."""
    stack = contextlib.ExitStack()
    for _ in range(count):
        stack.enter_context(socket.create_connection(("127.0.0.1", port), 300))
    return stack


def film_of(served):
    """A connection that gets the pictures as MJPEG."""
    client = socket.create_connection(("127.0.0.1", served.port), 300)
    request = f"GET /view.mjpg?token={TOKEN} HTTP/1.1\r\nHost: localhost\r\n\r\n"
    client.sendall(request.encode())
    return client


def test_a_request_that_never_ends_is_cut_off(monkeypatch):
    """Half a head, a head without end, nothing at all; a viewer that watches stays."""
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
    """Their connections end, too, though what was sent last is still on its way; no traceback."""
    monkeypatch.setattr(server, "shows_tracebacks", lambda: True)
    monkeypatch.setattr(server, "REQUEST_S", 0.5)
    monkeypatch.setattr(server, "SENDING_S", 0.5)
    with serving_pages() as served, film_of(served), raw_socket(served) as stalled:
        connections = served.server._server.server_state.connections
        served.until(lambda: len(served.exchange._viewers) == 2)
        for _ in range(50):  # the viewer confirms what it has not taken
            stalled.sendall(b"\x81\x92mask" + masked(b'{"type": "shown"}\n'))
            served.exchange.publish(bytes(1_000_000), time.monotonic())
            time.sleep(0.02)
        served.until(lambda: not connections)
    assert not any(record.exc_info for record in caplog.records)


def raw_socket(served):
    """A WebSocket that reads nothing after the handshake."""
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
    """By the hundred: they stay few, the log is empty, requests and viewers get answers."""
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
    """The oldest of the strangers goes, and nobody whose request is on the way."""
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
    """The fields of a message, and its picture, uint8 [H, W, 3] BGR, or None."""
    length = int.from_bytes(message[1:5], "little")
    fields, data = json.loads(message[5 : 5 + length]), message[5 + length :]
    return fields, cv2.imdecode(np.frombuffer(data, np.uint8), 1) if data else None


def test_a_message_has_every_channel_with_its_own_map():
    """The maps stand side by side in the order of the rows; a free row is left out."""
    panel = panel_of((5, 0.125, 2), (9, -0.5, 13))
    fields, maps = parts_of(concepts_message(panel, gallery_of("conv", 16), ("first", "conv")))
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
    """Six side by side; nothing else is there, whatever is asked for."""
    served.gallery = gallery_of("conv", 16)
    for role in (Role.CONTROL, Role.WATCH):
        token = served.tokens[role]
        status, headers, body = served.get("/gallery.jpg?layer=conv&channel=5", token)
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
    """Numbers that no channel has are no message."""
    explainer = SimpleNamespace(channel_counts=lambda: {"conv": 18, "top": 8})
    relevance = SimpleNamespace(
        engine=SimpleNamespace(
            concepts=SimpleNamespace(layers=("conv", "top")),
            concept_layer="top",
            explainer=explainer,
        ),
        request=SimpleNamespace(concepts=SimpleNamespace(layer="conv")),
    )

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
