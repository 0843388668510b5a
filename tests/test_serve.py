"""The web server: access, messages, limits, and that no client costs the others anything."""

import contextlib
import json
import os
import re
import socket
import sys
import threading
import time
from importlib.resources import files
from types import SimpleNamespace

import pytest

pytest.importorskip("uvicorn", reason="the extra serve is not installed")

import av
import cv2
import numpy as np
from served import TOKEN, Role, picture_of, serving_pages
from websockets.exceptions import ConnectionClosed, InvalidStatus

from realtime_lrp.commands import serve
from realtime_lrp.commands.serve import app, exchange, messages, rate_limit, server, web_page
from realtime_lrp.commands.serve.messages import ACTIONS, event_of, read_message
from realtime_lrp.commands.serve.tokens import Tokens, read_token
from realtime_lrp.errors import ConfigError, MissingInputError
from realtime_lrp.realtime.viewer import events
from realtime_lrp.view import keys

PATHS = (*app.PAGES, "/figures", "/snapshot.png", "/snapshot.npz", "/view.mjpg")
NOT_THERE = (
    "/page/index.html", "/index.html", "/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//",
    "/etc/passwd", "/page.css/", "/.git/config", "/ws/../view", "/\\..\\..", "/figures/..;/",
)  # fmt: skip


@pytest.fixture(scope="module")
def served():
    """A server for requests that leave nothing behind."""
    with serving_pages(names=["lrp.example.org"]) as one:
        yield one


# --- Tokens


def test_a_token_comes_from_the_file_else_the_environment_else_is_new(tmp_path, monkeypatch):
    """A new one each start has 192 bits."""
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    monkeypatch.setenv("REALTIME_LRP_TOKEN", "another-token-of-22-letters")
    assert read_token(str(file)) == TOKEN
    assert "REALTIME_LRP_TOKEN" not in os.environ  # child processes must not know it
    monkeypatch.setenv("REALTIME_LRP_TOKEN", "another-token-of-22-letters")
    assert read_token(None) == "another-token-of-22-letters"
    assert "REALTIME_LRP_TOKEN" not in os.environ
    assert read_token(None) != read_token(None) and len(read_token(None)) == 32


@pytest.mark.skipif(os.name != "posix", reason="there are no named pipes")
def test_a_token_file_that_is_a_pipe_or_a_folder_is_refused(tmp_path):
    """Nobody waits for somebody to write."""
    os.mkfifo(tmp_path / "pipe", 0o600)
    for file in (tmp_path / "pipe", tmp_path):
        with pytest.raises(MissingInputError, match=r"no regular file|directory"):
            read_token(str(file))


@pytest.mark.parametrize(
    ("text", "mode", "error", "said"),
    [
        (None, 0, MissingInputError, "cannot be read"),
        (TOKEN, 0o640, ConfigError, "chmod 600"),
        ("short", 0o600, ConfigError, "Expected 22 to 200 letters"),
        ("a token with spaces and more", 0o600, ConfigError, "not allowed"),
        ("", 0o600, ConfigError, "has 0 characters"),
        ("x" * 300, 0o600, ConfigError, "has 300 characters"),
    ],
)
def test_a_token_that_others_can_read_or_guess_is_refused(tmp_path, text, mode, error, said):
    """The message says what to do and never holds the token."""
    file = tmp_path / "token"
    if text is not None:
        file.write_text(text)
        file.chmod(mode)
    with pytest.raises(error, match=said) as raised:
        read_token(str(file))
    assert not text or text not in str(raised.value)


def test_the_watch_token_is_made_from_the_other_and_lets_only_watch():
    """It is the same at each start with the same token."""
    tokens = Tokens(TOKEN)
    assert tokens.role(TOKEN) is Role.CONTROL
    assert tokens.role(tokens[Role.WATCH]) is Role.WATCH
    assert tokens[Role.WATCH] == Tokens(TOKEN)[Role.WATCH] != Tokens(TOKEN + "x")[Role.WATCH]
    wrong = ("", TOKEN[:-1], TOKEN + "x", "\u00e9", TOKEN.upper(), tokens[Role.WATCH].upper())
    assert [tokens.role(token) for token in wrong] == [None] * len(wrong)


# --- Whom it answers


@pytest.mark.parametrize("path", [*PATHS, *NOT_THERE])
@pytest.mark.parametrize("token", ["", "wrong-token-of-22-letters-or-more", TOKEN.upper()])
def test_without_the_token_all_but_healthz_answers_401(served, path, token):
    """Whatever the path; nothing says whether there is anything."""
    status, headers, body = served.get(path, token)
    assert (status, body[:4]) == (401, b"401:")
    assert "Set-Cookie" not in headers
    assert served.get("/healthz", token)[::2] == (200, b"ok\n")


@pytest.mark.parametrize(
    "query", ["&" * 500, "a=b&" * 300, "token", "token=", "=", "%", "token=%ff%fe", "?" * 900]
)
def test_queries_and_cookies_without_a_token_are_refused(served, query):
    """However they look; with a cookie beside them they are let through."""
    assert served.get(f"/?{query}", "")[0] == 401
    assert served.get("/", "", Cookie=query + "; =; ;;a;" + "b=" * 50)[0] == 401
    assert served.get(f"/?{query}")[0] == 200


@pytest.mark.parametrize("path", NOT_THERE)
def test_no_path_leads_to_a_file(served, path):
    """There is a route for each thing, and no other."""
    status, _, body = served.get(path)
    assert status == 404 and b"root" not in body and len(body) < 100


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PROPFIND"])
def test_nothing_is_changed_by_a_request(served, method):
    """Only GET, and HEAD, have answers."""
    assert {served.get(path, method=method)[0] for path in PATHS} == {405}


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200), ("localhost:8090", 200), ("[::1]:8090", 200), ("192.168.7.7", 200),
        ("LRP.example.org", 200), (socket.gethostname(), 200), ("lrp.example.org.", 200),
        ("evil.example", 403), ("127.0.0.1.evil.example", 403), ("127.0.0.1@evil.example", 403),
        ("evil.example:80@127.0.0.1", 403), (" ", 403), ("localhost/../x", 403), ("[::1", 403),
    ],
)  # fmt: skip
def test_a_name_that_others_can_give_to_this_machine_is_refused(served, host, status):
    """Numbers, its own names and those of serve.names are answered: against DNS rebinding."""
    assert served.get("/", host=host)[0] == status
    assert served.get("/", host=host, HOST="127.0.0.1")[0] == 400


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:{port}", 200), ("https://lrp.example.org", 200),
        ("http://127.0.0.1:1", 403), ("http://evil.example", 403), ("null", 403), ("", 403),
        ("http://127.0.0.1:{port}.evil.example", 403), ("https://lrp.example.org.evil", 403),
    ],
)  # fmt: skip
def test_pages_of_other_sites_are_refused(served, origin, status):
    """Requests and WebSockets of a page of another origin, though the browser has the cookie."""
    origin = origin.format(port=served.port)
    assert served.get("/figures", Origin=origin)[0] == status
    if status == 200:
        with served.socket(origin=origin):
            pass
    elif origin:
        with pytest.raises(InvalidStatus) as refused:
            served.socket(origin=origin)
        assert refused.value.response.status_code == 403


@pytest.mark.parametrize("other", ["http://127.0.0.1:{port}", "http://evil.example"])
def test_two_origins_are_refused(served, other):
    """Also where one of them, or each, is our own."""
    own = f"http://127.0.0.1:{served.port}"
    for origins in ([own, other.format(port=served.port)], [other.format(port=served.port), own]):
        assert served.get("/figures", Origin=origins)[0] == 403


def test_every_answer_forbids_to_keep_it_and_to_load_from_elsewhere(served):
    """Also errors; the cookie of the page is for the page alone."""
    for path in (*PATHS[:-1], "/healthz", "/nothing"):
        for token in (TOKEN, ""):
            _, headers, _ = served.get(path, token)
            assert headers["Cache-Control"] == "no-store"
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Referrer-Policy"] == "no-referrer"
            policy = dict(
                part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; ")
            )
            assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
            assert policy["script-src"] == policy["style-src"] == "'self'"
            assert "server" not in headers
    cookie = served.get(f"/?token={TOKEN}", token="")[1]["Set-Cookie"]
    assert cookie == f"realtime_lrp_{served.port}_control={TOKEN}; HttpOnly; SameSite=Strict"


def test_the_page_names_no_other_server_and_works_below_any_path():
    """All its addresses are relative; no script and no style stands in the HTML."""
    for file in (files("realtime_lrp.commands.serve") / "page").iterdir():
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|src=[\"']?/|href=[\"']?/|url\(", text), file
        assert not re.search(r"<script(?! type=\"module\" src)|<style|\son\w+=|\sstyle=", text), (
            file
        )
        assert "innerHTML" not in text and "eval" not in text, file


# --- Pictures


def test_a_viewer_gets_the_newest_picture_when_it_has_shown_the_last(served):
    """Those in between are never sent."""
    with served.socket() as viewer:
        assert json.loads(viewer.recv(timeout=300)) == {
            "type": "role", "control": True, "watch": served.tokens[Role.WATCH],
        }  # fmt: skip
        served.publish(0)
        first = picture_of(viewer)
        for brightness in range(10, 110, 10):
            served.publish(brightness)
        with pytest.raises(TimeoutError):
            viewer.recv(timeout=0.2)
        viewer.send('{"type": "shown"}')
        second = picture_of(viewer)
        assert first[:2] == second[:2] == b"\xff\xd8"
        assert abs(int(cv2.imdecode(np.frombuffer(second, np.uint8), 1).mean()) - 100) < 3
        viewer.send('{"type": "shown"}')
        with pytest.raises(TimeoutError):
            viewer.recv(timeout=0.2)


def test_a_viewer_that_stops_costs_the_others_nothing(served):
    """It has one picture, they have them all."""
    with served.socket() as stalled, served.socket() as viewer:
        stalled.recv(timeout=300), viewer.recv(timeout=300)  # forgets earlier pictures
        served.publish(1)
        picture_of(stalled)
        picture_of(viewer)
        for brightness in range(2, 52):
            viewer.send('{"type": "shown"}')
            served.until(lambda: served.exchange.picture_wanted)
            served.publish(brightness)
            picture_of(viewer)
        with pytest.raises(TimeoutError):
            stalled.recv(timeout=0.1)


def test_nothing_is_encoded_for_nobody(served):
    """Who comes later does not get the picture that the last viewer left behind."""
    served.until(lambda: not served.exchange.watched)
    assert not served.exchange.picture_wanted
    served.publish(200)
    with served.socket() as viewer:
        served.until(lambda: served.exchange.picture_wanted)
        with pytest.raises(TimeoutError):
            picture = viewer.recv(timeout=0.2)
            while isinstance(picture, str):
                picture = viewer.recv(timeout=0.2)
    served.until(lambda: not served.exchange.watched)


def test_the_view_is_drawn_for_who_waits_for_it(served, monkeypatch):
    """While nobody does, as with visitors' own cameras, it is drawn for the news alone."""
    monkeypatch.setattr(web_page, "news", lambda *words: b"{}")
    offered, part = served.exchange, SimpleNamespace(trouble="")
    state = SimpleNamespace(answer=None)
    view = SimpleNamespace(state=state, frame=None, has_map=False, networks=(part,), concepts=None)
    turns = web_page.PageTurns(view, part, part, offered, None, None, required=True)
    served.publish(0)
    with served.socket() as visitor:
        served.until(lambda: offered.picture_wanted)
        assert turns.wants_picture()
        served.publish(1)
        picture_of(visitor)
        served.until(turns.wants_picture)  # for the news
        monkeypatch.setattr(web_page, "NEWS_S", 60.0)
        monkeypatch.setattr(web_page, "UNWATCHED_NEWS_S", 60.0)
        turns.publish(drawn=False)
        assert not turns.wants_picture()
        monkeypatch.setattr(exchange, "WATCHED_S", 600.0)
        visitor.send('{"type": "shown"}')
        served.until(lambda: offered.view_watched and turns.wants_picture())
        monkeypatch.setattr(exchange, "WATCHED_S", 0.0)
        assert not offered.view_watched
    served.until(lambda: not offered.watched)


def test_other_programs_read_the_pictures_as_mjpeg(served):
    """FFmpeg does, as OBS and players do; when it leaves nobody watches."""
    address = f"http://127.0.0.1:{served.port}/view.mjpg?token={TOKEN}"
    ended = threading.Event()

    def publish():
        while not ended.wait(0.02):
            served.publish(90)

    threading.Thread(target=publish, daemon=True).start()
    try:
        with av.open(address, timeout=300) as film:
            for _, frame in zip(range(5), film.decode(video=0), strict=False):
                picture = frame.to_ndarray(format="rgb24")
    finally:
        ended.set()
    assert picture.shape == (48, 64, 3) and abs(int(picture.mean()) - 90) < 3
    served.until(lambda: not served.exchange.watched)


def test_there_are_so_many_viewers_and_no_more(monkeypatch):
    """The next one is told why, and can come when another has left; who controls has a place."""
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


# --- What it takes


@pytest.mark.parametrize("key", sorted(keys.ACTIONS))
def test_keys_do_what_they_do_in_the_window_but_for_those_of_a_window(key):
    """Nobody can end the server, record on its disk or open a menu that others cannot close."""
    event = event_of(messages.Key(key), None)
    left_out = messages.PAGE_ACTIONS
    assert (event is None) == (keys.ACTIONS[key] in left_out)
    if key in keys.COMPOSITE_KEYS:
        assert event.composite == keys.COMPOSITE_KEYS[key]
    else:
        assert event is None or event.action == keys.ACTIONS[key]
    assert event_of(messages.Action("quit"), None) is None
    assert {"freeze", "panels", "uncover"} <= ACTIONS and not ACTIONS & left_out


def test_choices_are_events_of_the_viewer_and_wrong_ones_are_notices():
    """A name that does not exist gets the same sentence as on the command line."""
    chosen = event_of(messages.Choice(method="grad_cam"), None)
    assert isinstance(chosen, events.MethodChosen) and chosen.method == "grad_cam"
    assert event_of(messages.Choice(composite="epsilon"), None).composite == "epsilon"
    assert event_of(messages.Look("style", "contour"), None).value == "contour"
    assert event_of(messages.Look("opacity", 0.25), None).value == 0.25
    wrong = event_of(messages.Choice(composite="epsilom"), None)
    assert isinstance(wrong, events.NoticeGiven) and "'epsilon'" in wrong.text
    for name, value in (("style", "loud"), ("opacity", 1.5), ("opacity", "1"), ("average", 0.5)):
        assert event_of(messages.Look(name, value), None) is None
    panels = event_of(messages.Panels(("grad_cam", "epsilon", "epsilon")), None)
    assert panels.panels == ("epsilon", "grad_cam")
    wrong = event_of(messages.Panels(("lrp",)), None)
    assert isinstance(wrong, events.NoticeGiven) and "method or composite" in wrong.text
    assert event_of(messages.Seek(0.25), None).share == 0.25
    stroke = event_of(messages.Stroke((1, 2), (3, 4), False), None)
    assert (stroke.start, stroke.end, stroke.cover) == ((1, 2), (3, 4), False)


WRONG = (
    "", "{", "[]", "null", "{}", '{"type": "quit"}', '{"type": "key"}', '{"type": "key", "key": 3}',
    '{"type": "key", "key": ""}', '{"type": "look", "name": "opacity"}',
    '{"type": "look", "name": "opacity", "value": NaN}',
    '{"type": "stroke", "start": [0, 0], "end": [0, 99999999]}', '{"type": "seek", "share": 2}',
    '{"type": "panels", "names": [' + '"a",' * 40 + '"a"]}',
    '{"type": "stroke", "start": [0, 0, 0], "end": [0, 0]}', '{"type": "shown"', "\x00",
    '{"type": "choice", "target": "' + "x" * 300 + '"}', "[" * 3000,
)  # fmt: skip


@pytest.mark.parametrize("text", WRONG, ids=lambda text: text[:30])
def test_what_is_no_message_ends_the_connection(served, text):
    """With a code that says so; the server goes on."""
    with pytest.raises(ValueError):
        read_message(text)
    with served.socket() as viewer:
        viewer.recv(timeout=300)
        viewer.send(text)
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                viewer.recv(timeout=300)
    assert closed.value.rcvd.code == 1008
    assert served.get("/healthz")[0] == 200


def test_who_only_watches_changes_nothing_and_takes_no_files(served):
    """What he sends is thrown away."""
    served.messages.clear()
    with served.socket(role=Role.WATCH) as watcher, served.socket() as other:
        assert json.loads(watcher.recv(timeout=300)) == {"type": "role", "control": False}
        watcher.send('{"type": "action", "action": "freeze"}')
        time.sleep(0.1)
        other.send('{"type": "key", "key": "b"}')
        served.until(lambda: served.messages)
        assert served.messages == [messages.Key("b")]
    for path in ("/snapshot.png", "/snapshot.npz"):
        assert served.get(path, token=served.tokens[Role.WATCH])[0] == 403
    assert served.get("/figures", token=served.tokens[Role.WATCH])[::2] == (200, b'{"maps":7}')


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"type": "key", "key": "b"}', 1008),
        ('{"type": "shown"}', 1008),
        ("x" * 5000, 1008),
        ("x" * 200_000, 1009),
    ],
)
def test_who_sends_too_much_is_cut_off(served, text, code, monkeypatch):
    """Too many messages, or one that is too large."""
    monkeypatch.setattr(rate_limit, "FRAMES_PER_S", 0.0)  # else a slow client may go on
    served.messages.clear()
    with served.socket() as viewer, pytest.raises(ConnectionClosed) as closed:
        for _ in range(50_000):
            viewer.send(text)
        while True:
            viewer.recv(timeout=300)
    assert closed.value.rcvd is None or closed.value.rcvd.code == code
    served.until(lambda: not served.exchange.watched)
    assert len(served.messages) < 1500


FLOODS = {
    "pings": b"\x89\x80mask",
    "pongs": b"\x8a\x80mask",
    "empty continuations": b"\x00\x80mask",
}
"""Frames without content, as a client sends them."""


@pytest.mark.parametrize("kind", FLOODS)
def test_who_sends_frames_without_pause_is_cut_off_and_others_keep_their_view(kind):
    """Frames count that are no messages, too: a browser answers one ping in 20 s."""
    with serving_pages() as served, served.socket() as viewer:
        viewer.recv(timeout=300)
        for shown in range(3):
            with served.socket(role=Role.WATCH) as watcher:
                if kind == "empty continuations":
                    watcher.socket.sendall(b"\x01\x80mask")  # a text that they go on with
                with contextlib.suppress(OSError):
                    for _ in range(1000):
                        watcher.socket.sendall(1000 * FLOODS[kind])
                    pytest.fail("the server took a million frames")
            served.publish(shown)
            assert picture_of(viewer)
            viewer.send('{"type": "shown"}')
        served.until(lambda: len(served.exchange._viewers) == 1)


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
        clients = [socket.create_connection(("127.0.0.1", served.port), 300) for _ in range(3)]
        clients[1].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
        clients[2].sendall(b"G")
        for client in clients:
            with client, contextlib.suppress(ConnectionResetError):
                assert client.recv(10) == b""
        served.publish(3)
        assert picture_of(viewer)
        while b"image/jpeg" not in film.recv(4096):
            pass  # the film goes on, too
        with socket.create_connection(("127.0.0.1", served.port), 300) as client:
            client.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 40_000)
            assert b" 400 " in client.recv(100)


def test_healthz_says_when_the_viewer_hangs(monkeypatch):
    """What watches over services can start it again."""
    with serving_pages() as served:
        assert served.get("/healthz", "")[0] == 200
        monkeypatch.setattr(app, "HUNG_S", -1.0)
        assert served.get("/healthz", "")[0] == 503


# --- The command


def test_a_port_in_use_is_an_error_that_says_so(run, tiny_model):
    """So is an address that this machine does not have. Nothing is loaded before."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, told = run("serve", "--model", tiny_model, "--port", port)
    assert code == 69 and f"Port {port} of 127.0.0.1 is in use" in told and "--port" in told
    code, _, told = run("serve", "--model", tiny_model, "--host", "192.0.2.1", "--port", 0)
    assert code == 69 and "'192.0.2.1' is no address of this machine" in told
    assert run("serve", "--port", "70000")[0] == 2
    assert run("serve", "--token-file", "nothing")[0] == 66


def test_without_the_extra_the_message_names_it(run, tiny_model, monkeypatch):
    """The exit code is that of things that are missing."""
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    for module in ("app", "guard", "server", "web_page"):
        monkeypatch.delitem(sys.modules, f"{serve.__name__}.{module}", raising=False)
        monkeypatch.delattr(serve, module, raising=False)
    for words in (["serve"], ["live", "--serve", "--display", "none"]):
        code, _, told = run(*words, "--model", tiny_model)
        assert code == 69 and 'pip install "realtime-lrp[serve]"' in told
