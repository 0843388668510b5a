"""The web server: access, messages, limits, and that no client costs the others anything."""

import ipaddress
import json
import os
import re
import shutil
import socket
import ssl
import sys
import threading
import time
import urllib.request
from dataclasses import replace
from importlib.resources import files
from types import SimpleNamespace

import pytest

pytest.importorskip("cryptography", reason="the extra serve is not installed")
pytest.importorskip("uvicorn", reason="the extra serve is not installed")

import av
import cv2
import numpy as np
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from program import opened_window, start, xdotool
from served import TOKEN, Role, picture_of, serving_pages
from test_viewer_window import Scripted
from viewer import LOOK, answer, state_of
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from realtime_lrp import config
from realtime_lrp.commands import serve
from realtime_lrp.commands.live import run as live
from realtime_lrp.commands.serve import access, app, messages, server
from realtime_lrp.commands.serve.app import FILES
from realtime_lrp.commands.serve.messages import choices, event_of, read_message
from realtime_lrp.errors import ConfigError, DamagedInputError, MissingInputError, UsageError
from realtime_lrp.realtime.latest import Item
from realtime_lrp.realtime.viewer import events
from realtime_lrp.realtime.viewer.handle import handle
from realtime_lrp.relevance.maps.targets import TARGETS
from realtime_lrp.view import keys
from realtime_lrp.view.concepts import ConceptPanel
from realtime_lrp.view.look import LookSetting

PATHS = (*app.PAGES, "/figures", "/snapshot.png", "/snapshot.npz", "/view.mjpg")
NOT_THERE = (
    "/page/index.html", "/index.html", "/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//",
    "/etc/passwd", "/page.css/", "/.git/config", "/ws/../view", "/\\..\\..", "/figures/..;/",
)  # fmt: skip


@pytest.fixture(scope="module")
def served():
    with serving_pages(names=["lrp.example.org"]) as one:
        yield one


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("REALTIME_LRP_TOKEN", raising=False)
    return tmp_path / "realtime-lrp" / "serve"


def test_a_token_comes_from_a_file_else_the_environment_else_it_is_kept(state, monkeypatch, caplog):
    file = state.parent.parent / "own"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    for given, expected in ((str(file), TOKEN), (None, "another-token-of-22-letters")):
        monkeypatch.setenv("REALTIME_LRP_TOKEN", "another-token-of-22-letters")
        with pytest.raises(UsageError, match="--new-token"):
            access.read_token(given, new=True)
        monkeypatch.setenv("REALTIME_LRP_TOKEN", "another-token-of-22-letters")
        assert access.read_token(given) == expected
        assert "REALTIME_LRP_TOKEN" not in os.environ
    kept = access.read_token(None)
    assert len(kept) == 32 and access.read_token(None) == kept
    assert (state / "token").stat().st_mode & 0o777 == 0o600
    assert state.stat().st_mode & 0o777 == 0o700
    renewed = access.read_token(None, new=True)
    assert renewed != kept and access.read_token(None) == renewed
    for harm in (
        lambda: (state / "token").chmod(0o644),
        lambda: (state / "token").write_text("x\0"),
    ):
        harm()  # others may have read it, or it is damaged
        kept, renewed = renewed, access.read_token(None)
        assert renewed != kept and (state / "token").stat().st_mode & 0o777 == 0o600
    shutil.rmtree(state.parent)
    state.parent.write_text("a file in place of the folder")
    assert len(access.read_token(None)) == 32 != access.read_token(None)
    assert "cannot be saved" in caplog.text


def test_a_token_that_others_can_read_or_guess_is_refused(tmp_path):
    file = tmp_path / "token"
    with pytest.raises(MissingInputError, match="cannot be read"):
        access.read_token(str(file))
    for text, mode, said in (
        (TOKEN, 0o640, "chmod 600"),
        ("short", 0o600, "Expected 22 to 200 letters"),
        ("a token with spaces and more", 0o600, "not allowed"),
        ("x" * 300, 0o600, "has 300 characters"),
    ):
        file.write_text(text)
        file.chmod(mode)
        with pytest.raises(ConfigError, match=said) as raised:
            access.read_token(str(file))
        assert text not in str(raised.value)


def test_the_watch_token_is_made_from_the_other_and_lets_only_watch():
    tokens = access.Tokens(TOKEN)
    assert tokens.role(TOKEN) is Role.CONTROL
    assert tokens.role(tokens[Role.WATCH]) is Role.WATCH
    assert (
        tokens[Role.WATCH]
        == access.Tokens(TOKEN)[Role.WATCH]
        != access.Tokens(TOKEN + "x")[Role.WATCH]
    )
    wrong = ("", TOKEN[:-1], TOKEN + "x", "\u00e9", TOKEN.upper(), tokens[Role.WATCH].upper())
    assert [tokens.role(token) for token in wrong] == [None] * len(wrong)


def test_without_the_token_all_but_healthz_answers_401(served):
    for path in (*PATHS, *NOT_THERE):
        for token in ("", "wrong-token-of-22-letters-or-more", TOKEN.upper()):
            status, headers, body = served.get(path, token)
            assert (status, body[:4]) == (401, b"401:"), path
            assert "Set-Cookie" not in headers
    for path in NOT_THERE:
        status, _, body = served.get(path)
        assert status == 404 and b"root" not in body and len(body) < 100, path
    assert served.get("/healthz", "")[::2] == (200, b"ok\n")


def test_cookies_of_other_servers_do_not_hide_ours(served):
    """All servers of a host share its cookies, whatever is in them."""
    ours = f"realtime_lrp_{served.port}_control={TOKEN}"
    for cookie in ('prefs={"a":1}', "a b=1", "d=Sun, 22 Nov", "\xe9=1", "=", '"'):
        for given in (f"{cookie}; {ours}", f"{ours}; {cookie}"):
            assert served.get("/", "", Cookie=given)[0] == 200, cookie


def test_nothing_is_changed_by_a_request(served):
    methods = ("POST", "PUT", "DELETE", "OPTIONS")
    assert {served.get(path, method=one)[0] for path in PATHS for one in methods} == {405}


def test_a_name_that_others_can_give_to_this_machine_is_refused(served):
    """Numbers, its own names and those of serve.names are answered: against DNS rebinding."""
    for host, status in (
        ("127.0.0.1", 200), ("localhost:8090", 200), ("[::1]:8090", 200), ("192.168.7.7", 200),
        ("LRP.example.org", 200), (socket.gethostname(), 200), ("lrp.example.org.", 200),
        ("evil.example", 403), ("127.0.0.1.evil.example", 403), ("127.0.0.1@evil.example", 403),
        ("evil.example:80@127.0.0.1", 403), (" ", 403), ("localhost/../x", 403), ("[::1", 403),
    ):  # fmt: skip
        assert served.get("/", host=host)[0] == status
        assert served.get("/", host=host, HOST="127.0.0.1")[0] == 400


def test_pages_of_other_sites_are_refused(served):
    for origin, status in (
        ("http://127.0.0.1:{port}", 200), ("https://lrp.example.org", 200),
        ("http://127.0.0.1:1", 403), ("http://evil.example", 403), ("null", 403), ("", 403),
        ("http://127.0.0.1:{port}.evil.example", 403), ("https://lrp.example.org.evil", 403),
    ):  # fmt: skip
        origin, own = origin.format(port=served.port), f"http://127.0.0.1:{served.port}"
        assert served.get("/figures", Origin=origin)[0] == status
        for two in ([own, origin], [origin, own]):
            assert served.get("/figures", Origin=two)[0] == 403
        if status == 200:
            with served.socket(origin=origin):
                pass
        elif origin:
            with pytest.raises(InvalidStatus) as refused:
                served.socket(origin=origin)
            assert refused.value.response.status_code == 403


def test_every_answer_forbids_to_keep_it_and_to_load_from_elsewhere(served):
    for path in ("/", "/figures", "/snapshot.png", "/healthz", "/nothing"):
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
    for file in (files("realtime_lrp.commands.serve") / "page").iterdir():
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|src=[\"']?/|href=[\"']?/|url\(", text), file
        inline = r"<script(?! type=\"module\" src)|<style|\son\w+=|\sstyle="
        assert not re.search(inline, text), file
        assert "innerHTML" not in text and "eval" not in text, file


def test_a_viewer_gets_the_newest_picture_when_it_has_shown_the_last(served):
    with served.socket() as viewer:
        assert json.loads(viewer.recv(timeout=300)) == {
            "type": "role", "control": True, "watch": served.tokens[Role.WATCH], "fingerprint": "",
        }  # fmt: skip
        served.publish(0)
        first = picture_of(viewer)
        for brightness in range(10, 110, 10):
            served.publish(brightness)
        served.exchange.say("concepts", b"channels")
        with pytest.raises(TimeoutError):
            viewer.recv(timeout=0.2)
        viewer.send('{"type": "shown"}')
        second = picture_of(viewer)
        assert first[:2] == second[:2] == b"\xff\xd8"
        assert abs(int(cv2.imdecode(np.frombuffer(second, np.uint8), 1).mean()) - 100) < 3
        viewer.send('{"type": "shown"}')
        with pytest.raises(TimeoutError):
            viewer.recv(timeout=0.2)
    served.exchange.say("concepts", "")


def test_nothing_is_encoded_for_nobody(served):
    served.until(lambda: not served.exchange.viewers)
    assert not served.exchange.picture_wanted
    served.publish(200)
    with served.socket() as viewer:
        served.until(lambda: served.exchange.picture_wanted)
        with pytest.raises(TimeoutError):
            picture = viewer.recv(timeout=0.2)
            while isinstance(picture, str):
                picture = viewer.recv(timeout=0.2)
    served.until(lambda: not served.exchange.viewers)


def test_other_programs_read_the_pictures_as_mjpeg(served):
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
    served.until(lambda: not served.exchange.viewers)


def test_commands_do_what_they_do_in_the_window_but_for_those_of_a_window():
    for one in keys.commands(TARGETS):
        event = event_of(messages.Do(one.name), None)
        assert (event is None) == (one.action in messages.OF_PAGE | messages.WINDOW_ACTIONS), one
        assert event is None or (event.what, event.value) == (one.action, one.value)
    assert event_of(messages.Do("quit"), None) is event_of(messages.Do("no such"), None) is None


def test_every_command_is_named_on_the_page():
    five, facts = answer(scores=(0.2,) * 5, labels="abcde")
    state = replace(state_of(command="serve"), answer=five, facts=facts)
    offered = {row[2] for row in json.loads(choices(state))["commands"]}
    page = (files(serve) / "page" / "index.html").read_text()
    for one in keys.commands(TARGETS):
        by_page = one.keys and f'data-own="{one.keys[0]}' in page
        assert one.name in offered or by_page or one.action in ("escape", "quit"), one


def test_choices_are_events_of_the_viewer_and_wrong_ones_are_notices():
    chosen = event_of(messages.SetValue("method", "grad_cam"), None)
    assert (chosen.what, chosen.value) == ("method", "grad_cam")
    assert event_of(messages.SetValue("composite", "epsilon"), None).value == "epsilon"
    assert event_of(messages.SetValue("style", "contour"), None).value == "contour"
    assert event_of(messages.SetValue("opacity", 0.25), None).value == 0.25
    wrong = event_of(messages.SetValue("composite", "epsilom"), None)
    assert isinstance(wrong, events.NoticeGiven) and "'epsilon'" in wrong.text
    for name, value in (
        ("style", "loud"), ("opacity", 1.5), ("opacity", "1"), ("average", 0.5), ("method", 3),
        ("channel", "1"), ("position", "x"), ("no such", 1),
    ):  # fmt: skip
        assert event_of(messages.SetValue(name, value), None) is None
    assert event_of(messages.SetValue("position", 0.25), None).value == 0.25
    sent = '{"type": "stroke", "start": [1, 2], "end": [3, 4], "cover": false, '
    sent += '"pictures": [], "time": 5}'
    stroke = event_of(read_message(sent), None, ((0, 0, 9, 9),))
    assert (stroke.start, stroke.end, stroke.cover) == ((1, 2), (3, 4), False)
    assert stroke.pictures == ((0, 0, 9, 9),) and stroke.time > 5


WRONG = (
    "", "{", "[]", "null", "{}", '{"type": "quit"}', '{"type": "do"}', '{"type": "do", "name": 3}',
    '{"type": "do", "name": ""}', '{"type": "choice", "what": "opacity"}',
    '{"type": "choice", "what": "opacity", "value": NaN}',
    '{"type": "choice", "what": "position", "value": 1' + "0" * 400 + "}",
    '{"type": "choice", "what": "position", "value": 1e300}',
    '{"type": "stroke", "start": [0, 0], "end": [0, 99999999]}', '{"type": "look", "share": 2}',
    '{"type": "stroke", "start": [0, 0, 0], "end": [0, 0]}', '{"type": "shown"', "\x00",
    '{"type": "choice", "what": "target", "value": "' + "x" * 300 + '"}', "[" * 3000,
)  # fmt: skip


def test_what_is_no_message_ends_the_connection(served):
    for text in WRONG:
        with pytest.raises(ValueError):
            read_message(text)
    with served.socket() as viewer:
        viewer.recv(timeout=300)
        viewer.send(WRONG[-1])
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                viewer.recv(timeout=300)
    assert closed.value.rcvd.code == 1008
    assert served.get("/healthz")[0] == 200


def test_who_only_watches_changes_nothing_and_takes_no_files(served):
    served.messages.clear()
    with served.socket(role=Role.WATCH) as watcher, served.socket() as other:
        role = {"type": "role", "control": False, "watch": "", "fingerprint": ""}
        assert json.loads(watcher.recv(timeout=300)) == role
        watcher.send('{"type": "do", "name": "freeze"}')
        time.sleep(0.1)
        other.send('{"type": "do", "name": "panels"}')
        served.until(lambda: served.messages)
        assert served.messages == [messages.Do("panels")]
    for path in ("/snapshot.png", "/snapshot.npz"):
        assert served.get(path, token=served.tokens[Role.WATCH])[0] == 403
    assert served.get("/figures", token=served.tokens[Role.WATCH])[::2] == (200, b'{"maps":7}')


def test_healthz_says_when_the_viewer_hangs(monkeypatch):
    with serving_pages() as served:
        assert served.get("/healthz", "")[0] == 200
        monkeypatch.setattr(app, "HUNG_S", -1.0)
        assert served.get("/healthz", "")[0] == 503


def test_a_port_in_use_is_an_error_that_says_so(run, tiny_model):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, told = run("serve", "--model", tiny_model, "--port", port)
    assert code == 69 and f"port {port} of '127.0.0.1' (Address already in use)" in told
    code, _, told = run("serve", "--model", tiny_model, "--host", "192.0.2.1", "--port", 0)
    assert code == 69 and "'192.0.2.1'" in told and "--host" in told
    assert run("serve", "--port", "70000")[0] == 2
    assert run("serve", "--token-file", "nothing")[0] == 66


def test_without_the_extra_the_message_names_it(run, tiny_model, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    for module in ("app", "server", "web_page"):
        monkeypatch.delitem(sys.modules, f"{serve.__name__}.{module}", raising=False)
        monkeypatch.delattr(serve, module, raising=False)
    for words in (["serve"], ["live", "--serve", "--display", "none"]):
        code, _, told = run(*words, "--model", tiny_model)
        assert code == 69 and 'pip install "realtime-lrp[serve]"' in told


@pytest.fixture(scope="module")
def tls_files(tmp_path_factory):
    """Certificate and key as a user keeps them, and a key of another certificate."""
    folder = tmp_path_factory.mktemp("tls")
    made, key = access.make_certificate(["lrp.example.org", "127.0.0.1"])
    pem = made.public_bytes(serialization.Encoding.PEM)
    for name, data in (
        ("cert.pem", pem), ("key.pem", key), ("other.pem", access.make_certificate([])[1]),
        ("text.pem", b"no certificate"),
    ):  # fmt: skip
        (folder / name).write_bytes(data)
    private = serialization.load_pem_private_key(key, None)
    locked = serialization.BestAvailableEncryption(b"secret")
    (folder / "locked.pem").write_bytes(
        private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
    )
    return folder


def test_our_certificate_is_for_the_addresses_of_this_machine():
    names = "192.168.7.7", "lrp.example.org", "fe80::1"
    made, key = access.make_certificate(names)
    subjects = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    names, numbers = (set(subjects.get_values_for_type(k)) for k in (x509.DNSName, x509.IPAddress))
    assert names == {"lrp.example.org"}
    assert numbers == {ipaddress.ip_address(number) for number in ("192.168.7.7", "fe80::1")}
    assert (made.not_valid_after_utc - made.not_valid_before_utc).days == 366
    assert key != access.make_certificate([])[1]


def test_the_server_speaks_https_with_the_files_of_a_user(tls_files):
    context = access.context_of_files(str(tls_files / "cert.pem"), str(tls_files / "key.pem"))
    with serving_pages(tls=context) as served:
        trusting = ssl.create_default_context(cafile=tls_files / "cert.pem")
        address = f"https://127.0.0.1:{served.port}/healthz"
        with urllib.request.urlopen(address, context=trusting, timeout=60) as answer:
            assert answer.read() == b"ok\n"
        page = address.replace("healthz", f"?token={TOKEN}")
        with urllib.request.urlopen(page, context=trusting, timeout=60) as answer:
            assert answer.headers["Set-Cookie"].endswith("; HttpOnly; SameSite=Strict; Secure")
        with pytest.raises(OSError):
            urllib.request.urlopen(address.replace("https", "http"), timeout=10)


def test_our_own_certificate_is_kept_until_it_does_not_fit(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = tmp_path / "realtime-lrp" / "serve" / "certificate.pem"
    context, first = access.own_context(["192.168.7.7"])
    assert isinstance(context, ssl.SSLContext) and len(first) == 95
    assert file.stat().st_mode & 0o777 == 0o600
    assert access.own_context(["192.168.7.7"])[1] == access.own_context([])[1] == first
    second = access.own_context(["192.168.7.8"])[1]
    assert second != first, "another address"
    third = access.own_context(["192.168.7.8"], new=True)[1]
    assert third != second
    for harm in (lambda: file.chmod(0o640), lambda: file.write_bytes(b"damaged")):
        harm()
        fourth = access.own_context(["192.168.7.8"])[1]
        assert fourth != third and file.stat().st_mode & 0o777 == 0o600
        third = fourth
    monkeypatch.setattr(access, "RENEWED", access.VALID)
    assert access.own_context(["192.168.7.8"])[1] != third, "it ends soon"


def test_certificates_that_cannot_be_used_are_refused(tls_files):
    two = "Expected two PEM files"
    for cert, key, error, said in (
        ("cert.pem", None, ConfigError, "belong together"),
        (None, "key.pem", ConfigError, "belong together"),
        ("nothing.pem", "key.pem", MissingInputError, "nothing.pem"),
        ("cert.pem", "other.pem", DamagedInputError, two),
        ("text.pem", "key.pem", DamagedInputError, two),
        ("cert.pem", "cert.pem", DamagedInputError, two),
        ("cert.pem", "locked.pem", DamagedInputError, "without a password"),
    ):
        with pytest.raises(error, match=said):
            access.context_of_files(cert and str(tls_files / cert), key and str(tls_files / key))


def test_the_code_in_the_terminal_is_that_of_the_address():
    """Each letter is two modules: the upper and the lower half of a block."""
    address = "https://192.168.7.7:8090/?token=" + "x" * 32
    halves = {" ": (0, 0), "\u2580": (1, 0), "\u2584": (0, 1), "\u2588": (1, 1)}
    rows = [[halves[letter] for letter in line] for line in access.qr_lines(address)]
    modules = np.array(rows, np.uint8).transpose(0, 2, 1).reshape(2 * len(rows), -1)
    picture = cv2.resize(255 * modules, None, fx=8, fy=8, interpolation=cv2.INTER_NEAREST)
    assert cv2.QRCodeDetector().detectAndDecode(picture)[0] == address


def test_every_field_that_the_page_reads_is_sent():
    scripts = "\n".join(one.read_text() for one in FILES.values() if one.name.endswith(".js"))
    rates = SimpleNamespace(maps=SimpleNamespace(rate=lambda: 1.0))
    loading = SimpleNamespace(doing="loading", engine_cache=None)
    first = SimpleNamespace(relevance=loading, newest=None, rates=rates, passing=lambda state: "")
    view = SimpleNamespace(
        state=state_of(command="serve"), first=first, networks=(first,),
        columns=((), ()), capture=SimpleNamespace(trouble=""),
    )  # fmt: skip
    news = json.loads(messages.news(view, None))
    panel = ConceptPanel("conv", np.zeros((6, 8, 3), np.uint8), (), LOOK, "")
    channels = messages.concepts_message(panel)[5:]
    map_ = messages.join_message(messages.VisitorMap(3, "busy"))[5:]
    for name, sent in {
        "role": ("control", "watch", "fingerprint"), "choices": json.loads(choices(view.state)),
        "news": news, "latest": news, "fields": {**json.loads(channels), **json.loads(map_)},
    }.items():  # fmt: skip
        read = set(re.findall(rf"(?<![.\w]){name}\??\.([a-z_]\w*)\b(?!\()", scripts))
        for fields in re.findall(rf"{{([^{{}}]*)}} = {name}\b", scripts):
            read |= {field.split(":")[0].strip() for field in fields.split(",")}
        assert read and read <= {"type", *sent}, name
    assert set(messages.VisitorMap.__struct_fields__) < set(json.loads(map_))


def test_a_page_chooses_one_of_a_settings_values_or_a_number_up_to_1():
    listed = LookSetting("style", "style", values=lambda: ("heat", "off"))
    assert [one for one in ("heat", "true", True, 1.0) if listed.accepts(one)] == ["heat"]
    number = LookSetting("opacity", "opacity")
    assert [one for one in (0.5, 1.1, True, "0.5") if number.accepts(one)] == [0.5]


def news_of(page, fits):
    """Reads, confirming pictures, until the news are as they should be."""
    while True:
        got = page.recv(timeout=300)
        if isinstance(got, bytes):
            page.send('{"type": "shown"}')
        elif (news := json.loads(got))["type"] == "news" and fits(news):
            return


@pytest.mark.release
def test_a_key_in_the_window_and_a_click_on_the_page_change_one_view(display, tmp_path, tiny_model):
    stats = tmp_path / "stats.json"
    words = ("live", "--serve", "--port", 0, "--source", "synthetic", "--model", tiny_model)
    with start(*words, "--stats", stats, DISPLAY=display) as process:
        address = process.stdout.readline().strip()
        xdotool(display, "windowfocus", "--sync", opened_window(display, process))
        base, token = address.replace("http", "ws").split("/?token=")
        with connect(f"{base}/ws?token={token}", open_timeout=300) as page:
            news_of(page, lambda news: news["maps"] > 0)
            shown = cv2.imdecode(np.frombuffer(picture_of(page), np.uint8), 1)
            assert shown.shape == (480, 640, 3)
            page.send('{"type": "shown"}')
            page.send('{"type": "choice", "what": "composite", "value": "epsilon"}')
            news_of(page, lambda news: news["composite"] == "epsilon")
            xdotool(display, "key", "space")
            news_of(page, lambda news: news["frozen"])
            xdotool(display, "key", "l")  # a list: the page does not type into it
            page.send('{"type": "do", "name": "freeze"}')
            news_of(page, lambda news: not news["frozen"])
            page.send('{"type": "do", "name": "quit"}')
            page.send('{"type": "stroke", "start": [320, 240], "end": [330, 250]}')
            news_of(page, lambda news: news["covered"])
        xdotool(display, "key", "Escape")
        xdotool(display, "key", "q", "q")
        assert process.wait(300) == 0, process.stderr.read()
    figures = json.loads(stats.read_text())
    assert figures["frames_shown"] > 0 and figures["maps"] > 0
    host, port = address.split("/")[2].split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=5)


def test_the_window_goes_on_when_the_server_has_ended(monkeypatch, caplog, tiny_model):
    monkeypatch.setattr(server.uvicorn.Server, "serve", lambda *_: 1 / 0)

    def script(window):
        yield from window.pictures(30)
        yield from ("q", "q")

    window = Scripted(script)
    options = {"--source": "synthetic", "--model": str(tiny_model), "--port": 0}
    chosen = config.load(options=options, command="live").config
    live.run(chosen, window=lambda: window, serves=True)
    assert len(window.shown) >= 30
    assert "the web page has ended" in caplog.text


def test_a_stroke_on_the_page_covers_the_same_part_of_the_picture():
    state = state_of()
    picture = Item(np.zeros((480, 640, 3), np.uint8), 1, 0.0)
    state = replace(state, shown=picture, pictures=((320, 0, 1280, 720),))
    stroke = events.Brushed((-64, 480), (320, 120))
    there = handle(state, messages.event_of(stroke, None, ((0, 0, 640, 480),))).mask
    here = handle(state, events.Brushed((224, 720), (800, 180), cover=True)).mask
    assert (there & here).sum() > 100 and (there ^ here).sum() < 0.02 * here.sum()
