"""Visitors' phones at the exhibit: whose turn it is, what they may do, and that none does harm."""

import contextlib
import http.client
import json
import os
import random
import re
import shutil
import socket
import ssl
import sys
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

pytest.importorskip("uvicorn", reason="the extra serve is not installed")

import cv2
import media
import numpy as np
from faults.clock import until
from program import opened_window, screenshot, start
from served import TOKEN, patience
from test_kiosk import OpenFiles, files_in
from test_kiosk_loop import Turns as Exhibit
from test_serve_hostile import held, hostile
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.sync.client import connect

from realtime_lrp import config
from realtime_lrp.commands.kiosk import phones
from realtime_lrp.commands.kiosk.captions import load_captions
from realtime_lrp.commands.kiosk.lock import ExitLock
from realtime_lrp.commands.kiosk.pages import PageBuilder
from realtime_lrp.commands.kiosk.phones import PhonePart
from realtime_lrp.commands.kiosk.screen import ScreenArtist, ScreenContent
from realtime_lrp.commands.serve import bans, rate_limit
from realtime_lrp.commands.serve.phones import turns
from realtime_lrp.commands.serve.phones.app import PAGES, best_language
from realtime_lrp.commands.serve.phones.turns import Phone, Status, Turns
from realtime_lrp.commands.serve.qr import modules
from realtime_lrp.commands.serve.tokens import RenewedTokens, Role
from realtime_lrp.errors import ConfigError
from realtime_lrp.realtime.latest import Item
from realtime_lrp.video.pictures import encode_picture
from realtime_lrp.view.scene import Look

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
JPEG = encode_picture(".jpg", np.full((48, 64, 3), 200, np.uint8))
ON = "kiosk.phones=true", "kiosk.phone_address=127.0.0.1"


class Clock:
    """A time that a test sets."""

    now = 100.0

    def __call__(self):
        return self.now


def line(count, seconds=60.0):
    """A line of phones at an open exhibit, and its clock."""
    clock = Clock()
    made = Turns(seconds, clock)
    made.set_open(True)
    waiting = [Phone() for _ in range(count)]
    assert all(map(made.join, waiting))
    return made, clock, waiting


# --- Whose turn it is


def test_one_phone_is_shown_and_the_next_one_after_so_many_seconds():
    """The others are told how long it takes at most; what they send is not taken."""
    made, clock, (first, second, third) = line(3)
    assert [made.status(one) for one in (first, second, third)] == [
        Status("live", 60), Status("waiting", 60), Status("waiting", 120),
    ]  # fmt: skip
    made.put(second, JPEG)
    assert made.take(0) is None
    for _ in range(59):
        clock.now += 1
        made.put(first, JPEG)
        assert made.take(0) == (first, JPEG, clock.now)
        made.note_shown(first)
    assert made.status(second) == Status("waiting", 1)
    clock.now += 1
    assert [made.status(one) for one in (first, second, third)] == [
        Status("over"), Status("live", 60), Status("waiting", 60),
    ]  # fmt: skip
    made.leave(second)
    assert made.current is third


def test_a_phone_for_which_nobody_waits_is_shown_longer_but_not_for_ever():
    """Five times as long; the phone is told, also when somebody else comes."""
    made, clock, (phone,) = line(1)
    assert made.status(phone) == Status("live", 300)
    clock.now += 1
    made.join(other := Phone())
    assert made.status(phone) == Status("live", 60)
    made.leave(other)
    shown = 1
    while made.current is phone:
        clock.now += 1
        made.note_shown(phone)
        shown += 1
    assert shown == 300 and made.status(phone) == Status("over")


def test_a_phone_that_shows_nothing_loses_its_turn():
    """Whether it sends nothing, or nothing that can be decoded."""
    made, clock, (silent, other) = line(2)
    assert made.current is silent
    for _ in range(4):
        clock.now += turns.SILENT_S / 4
        made.put(silent, b"no picture")
    assert made.current is other and made.status(silent) == Status("over")


def test_nobody_has_a_turn_while_the_exhibit_shows_no_phones():
    """They stay in line; a turn that was interrupted begins anew."""
    made, clock, (first, second) = line(2)
    assert made.current is first
    made.set_open(False)
    clock.now += 1000
    assert made.current is None and made.status(second) == Status("resting")
    made.put(first, JPEG)
    made.set_open(True)
    assert made.take(0) is None
    assert made.current is first and made.status(second) == Status("waiting", 60)


def test_the_line_has_an_end():
    """Who is not in it can try again later."""
    made, _, waiting = line(1 + turns.MOST_WAITING)
    assert not made.join(Phone())
    made.leave(waiting[3])
    assert made.join(Phone())


def test_one_address_does_not_take_the_whole_line():
    """Four places; who ended the decoder, and all at that address, may not come for a minute."""
    made, clock, _ = line(0)
    bad, *others = [Phone("10.0.0.1") for _ in range(5)]
    assert [made.join(one) for one in (bad, *others)] == [True] * 4 + [False]
    assert made.join(Phone("10.0.0.2"))
    made.expel(bad)
    for seconds, may in ((0, False), (59, False), (1, True)):
        clock.now += seconds
        assert made.join(others[-1]) is may and not made.join(bad)


def test_after_a_picture_that_ended_the_decoder_there_is_a_pause():
    """The phone is out; the next one's pictures are taken again after some seconds."""
    made, clock, (bad, other) = line(2)
    made.expel(bad)
    made.put(other, JPEG)
    assert made.take(0) is None and made.current is other
    clock.now += turns.SILENT_S - 0.1
    made.note_shown(other)
    clock.now += 1.2
    made.put(other, JPEG)
    assert made.take(0)[0] is other


def test_a_token_holds_for_one_to_two_periods_and_only_for_phones():
    """A code that was scanned just before it changed still leads to the page."""
    tokens = RenewedTokens(600, now=0)
    first = tokens.newest
    assert len(first) == 24 and tokens.role(first) is Role.PHONE
    assert [tokens.role(wrong) for wrong in ("", first[:-1], first + "x", "\u00e9")] == [None] * 4
    tokens.renew(599)
    assert tokens.newest == first
    tokens.renew(600)
    assert tokens.newest != first and tokens.role(first) is Role.PHONE
    tokens.renew(1200)
    assert tokens.role(first) is None
    second = tokens.newest
    tokens.renew(9999)
    assert tokens.role(second) is None, "it is too old, whatever its number"


@pytest.mark.parametrize(
    ("wanted", "language"),
    [("de-DE,de;q=0.9,en;q=0.8", "de"), ("it, fr;q=0.5", "fr"), ("", "en"), ("xx", "en"),
     (",;,=;", "en"), ("zh-Hans-CN", "zh"), ("x" * 10_000, "en")],
)  # fmt: skip
def test_the_page_speaks_the_phones_language(wanted, language):
    """If the exhibit does; else its first one."""
    assert best_language(wanted, ["en", "de", "fr", "zh"]) == language


# --- The server


@contextmanager
def part(*sets, port=0):
    """The exhibit's part for phones, open."""
    chosen = config.load(sets=(*ON, *sets), command="kiosk").config
    chosen = chosen.model_copy(
        update={"kiosk": chosen.kiosk.model_copy(update={"phone_port": port})}
    )
    with patience():
        made = PhonePart(chosen, load_captions(["en", "de"], None))
        made.update(True, True)
        try:
            yield made
        finally:
            made.end()
            made._thread.join()


@pytest.fixture(scope="module")
def opened():
    """A part that phones can reach, and its token; no turn ends because the machine is busy."""
    with pytest.MonkeyPatch.context() as patch, part("kiosk.phone_seconds=600") as made:
        patch.setattr(turns, "SILENT_S", 600.0)
        until(lambda: made.code is not None)
        made.update(True, True)
        yield SimpleNamespace(
            part=made, token=made._server._tokens.newest, port=int(made.described.split(":")[-1])
        )


def trusting():
    """What a phone has after Advanced, then Proceed."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def get(opened, path, token, host="127.0.0.1"):
    """Status, headers and body of an answer."""
    client = http.client.HTTPSConnection("127.0.0.1", opened.port, context=trusting(), timeout=300)
    client.request("GET", path, headers={"Host": host, "Cookie": f"realtime_lrp_{opened.port}=x"})
    answer = client.getresponse()
    return answer.status, answer.headers, answer.read()


def phone(opened, token=None, **options):
    """A WebSocket as the page opens it.

    With TLS 1.2, as this client reads and writes in two threads: before Python 3.13 it waits for
    ever, once in 600 times, when it sends its request while it reads the session ticket of TLS 1.3.
    """
    address = f"wss://127.0.0.1:{opened.port}/ws?token={token or opened.token}"
    context = trusting()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return connect(address, ssl=context, **options)


def status_of(socket, state):
    """Reads until the phone is told a state."""
    while (message := json.loads(socket.recv(timeout=300))).get("state") != state:
        pass
    return message


def test_a_phones_picture_is_shown_while_it_is_connected(opened):
    """It comes out of the decoder's process; the second phone is shown when the first leaves."""
    with phone(opened, additional_headers={"Accept-Language": "de"}) as first:
        texts = json.loads(first.recv(timeout=300))
        assert (texts["type"], texts["language"]) == ("texts", "de")
        assert texts["start"] == "Meine Kamera benutzen" and "{seconds}" in texts["waiting"]
        first.send(JPEG)
        first.send("join")
        status_of(first, "live")
        assert not opened.part.showing, "there is no picture yet"
        first.send(JPEG)
        until(lambda: opened.part.showing)
        frame = opened.part.newest(5)
        assert frame.value.shape == (48, 64, 3) and abs(int(frame.value.mean()) - 200) < 3
        assert opened.part.newest(0) is None
        with phone(opened) as second:
            second.send("join")
            assert 300 < status_of(second, "waiting")["seconds"] <= 600
            first.send("leave")
            status_of(first, "over")
            until(lambda: not opened.part.showing)
            status_of(second, "live")
            second.send(JPEG)
            until(lambda: opened.part.showing)
    until(lambda: not opened.part.showing)


def test_a_phone_can_do_nothing_else(opened, monkeypatch):
    """No other route, no token of another server, no other message, nothing large, no flood."""
    monkeypatch.setattr(rate_limit, "FRAMES_PER_S", 0.0)  # else a slow client may go on
    for path in ("/figures", "/snapshot.png", "/view", "/view.mjpg", "/page.js", "/../etc/passwd"):
        assert get(opened, f"{path}?token={opened.token}", "")[0] == 404
    for path in PAGES:
        status, headers, _ = get(opened, f"{path}?token={opened.token}", "")
        assert status == 200 and headers["Cache-Control"] == "no-store"
        assert f"_phone={opened.token}; HttpOnly; SameSite=Strict; Secure" in headers["Set-Cookie"]
        status, headers, body = get(opened, f"{path}?token=wrong", "")
        assert (status, headers["Set-Cookie"]) == (401, None) and b"Scan the code" in body
        assert get(opened, f"{path}?token={opened.token}", "", host="evil.example")[0] == 403
    with pytest.raises(InvalidStatus):
        phone(opened, "wrong")
    with pytest.raises(InvalidStatus):
        phone(opened, origin="https://evil.example")
    for harm in ('{"type":"choice"}', "join ", b"x" * 200_000, "x" * 200_000):
        with phone(opened) as one, pytest.raises(ConnectionClosed):
            one.send(harm)
            while True:
                one.recv(timeout=300)
    with phone(opened) as one, pytest.raises(ConnectionClosed) as closed:
        for _ in range(50_000):
            one.send(JPEG)
        while True:
            one.recv(timeout=300)
    assert closed.value.rcvd is None or closed.value.rcvd.reason == "too many messages"
    assert opened.part.code is not None and opened.part._thread.is_alive()


def test_a_picture_that_ends_the_decoder_costs_its_phone_the_turn(opened, monkeypatch):
    """A moment later others are shown."""
    monkeypatch.setattr(turns, "PAUSE_S", 0.1)
    monkeypatch.setattr(bans, "BAN_S", 0.1)
    decoder = opened.part._decoder
    with phone(opened) as bad:
        bad.send("join")
        status_of(bad, "live")
        bad.send(JPEG)
        until(lambda: opened.part.showing)
        decode = decoder.decode

        def crash(jpeg):
            decoder._child.kill()
            return decode(jpeg)

        monkeypatch.setattr(decoder, "decode", crash)
        bad.send(JPEG)
        status_of(bad, "over")
        with pytest.raises(ConnectionClosed):
            while True:
                bad.recv(timeout=300)
        monkeypatch.undo()
        assert not opened.part.showing and decoder.crashes == 1
        time.sleep(0.1)
        with phone(opened) as good:
            good.send("join")
            status_of(good, "live")
            good.send(JPEG)
            until(lambda: opened.part.showing)


def test_connections_that_ended_leave_no_traceback(monkeypatch, caplog):
    """Also over TLS, where a transport that was closed forgets what it belonged to."""
    from realtime_lrp.commands.serve import server

    made_connections, connection_made = [], server._Http.connection_made

    def noted(connection, transport):
        connection_made(connection, transport)
        made_connections.append(connection)

    monkeypatch.setattr(server._Http, "connection_made", noted)
    with part() as made:
        until(lambda: made.code is not None)
        port = int(made.described.split(":")[-1])
        found = SimpleNamespace(port=port, token=made._server._tokens.newest)
        for harm in ("x", b"x" * 200_000):
            with phone(found) as one, pytest.raises(ConnectionClosed):
                one.send(harm)
                while True:
                    one.recv(timeout=300)
        first, second = made_connections
        until(lambda: first.transport.is_closing() and second.transport.is_closing())
        passed = threading.Event()
        for due in (first._cut_off, second._cut_off, passed.set):
            first.loop.call_soon_threadsafe(due)
        assert passed.wait(300)
    assert not caplog.records


def test_a_port_in_use_leaves_the_exhibit_without_phones_until_it_is_free(monkeypatch, caplog):
    """The health file and the log say why, once."""
    monkeypatch.setattr(phones, "RETRY_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with part(port=port) as made:
            until(lambda: "is in use" in (made.described or ""))
            assert made.code is None and not made.showing
            taken.close()
            until(lambda: made.code is not None)
            made.update(False, False)
            until(lambda: made.described == "closed" and made.code is None)
    assert caplog.text.count("is in use") == 1


def test_without_a_network_or_the_extra_there_are_no_phones(monkeypatch):
    """The exhibit goes on; the extra is named."""
    from realtime_lrp.commands.serve.phones import server

    monkeypatch.setattr(server, "addresses", lambda host: ["127.0.0.1"])
    with part("kiosk.phone_address=null") as made:
        until(lambda: made.described == "This machine is in no network.")
    monkeypatch.setitem(sys.modules, server.__name__, None)
    with part() as made:
        until(lambda: 'pip install "realtime-lrp[serve]"' in made.described)


def test_phones_are_off_unless_asked_for():
    """Then no thread runs and nothing listens."""
    made = PhonePart(config.load(command="kiosk").config, load_captions(["en"], None))
    assert made.described is None and not made._thread.is_alive()
    assert not made.showing and made.code is None and made.newest(0) is None


def test_captions_without_texts_for_phones_are_refused_only_with_phones(tmp_path):
    """Captions from before need not change while phones are off."""
    english = (config.ASSETS / "captions" / "en.yaml").read_text()
    before, after = english.split("# Phones, if")[0], english.split("# For the staff")[1]
    (tmp_path / "en.yaml").write_text(f"{before}# For the staff{after}")
    (captions,) = load_captions(["en"], tmp_path)
    assert captions.phone is None
    from realtime_lrp.commands.kiosk.start import load

    sets = f"kiosk.captions={tmp_path}", "kiosk.languages=[en]"
    assert load(sets=sets).config.kiosk.phones is False
    with pytest.raises(ConfigError, match="no section 'phone'"):
        load(sets=(*sets, "kiosk.phones=true"))


def test_settings_of_phones_that_cannot_be_are_refused():
    """Before the exhibit starts."""
    from realtime_lrp.commands.kiosk.start import load

    with pytest.raises(ConfigError, match="phone_cert and phone_key"):
        load(sets=("kiosk.phone_cert=c.pem",))
    for wrong in ("::1", "https://museum.example", "a b", "museum.example:8443"):
        with pytest.raises(ConfigError, match="phone_address: expected a name"):
            load(sets=(f"kiosk.phone_address='{wrong}'",))


def attack(opened, seed, count):
    """Speaks TLS or not, sends what no phone sends, and goes; some send broken pictures."""
    rng = random.Random(seed)
    for _ in range(count):
        with (
            contextlib.suppress(OSError, ssl.SSLError),
            socket.create_connection(("127.0.0.1", opened.port), 300) as plain,
        ):
            secure = rng.random() < 0.8
            one = trusting().wrap_socket(plain) if secure else plain
            one.sendall(hostile(rng).replace(TOKEN.encode(), opened.token.encode()))
            one.settimeout(rng.choice([0.001, 0.02, 0.1]))
            if rng.random() < 0.5:
                one.recv(rng.choice([1, 100, 70_000]))
        if rng.random() < 0.1:
            with contextlib.suppress(OSError, WebSocketException), phone(opened) as bad:
                bad.send("join")
                for _ in range(20):
                    spoilt = bytearray(JPEG)
                    spoilt[rng.randrange(len(JPEG))] = rng.randrange(256)
                    bad.send(bytes(spoilt[: rng.randrange(1, len(JPEG))]))


def attack_together(opened, count):
    """Eight attackers at once."""
    attackers = [threading.Thread(target=attack, args=(opened, n, count)) for n in range(8)]
    for one in attackers:
        one.start()
    for one in attackers:
        one.join()
    time.sleep(2)


@pytest.mark.release
def test_hostile_phones_by_the_thousand_leave_nothing_behind(monkeypatch, caplog):
    """Afterwards a phone is shown, and memory, files and threads are as before."""
    from realtime_lrp.commands.serve import server

    monkeypatch.setattr(server, "REQUEST_S", 1.0)
    with part() as made:
        until(lambda: made.code is not None)
        made.update(True, True)
        port = int(made.described.split(":")[-1])
        opened = SimpleNamespace(port=port, token=made._server._tokens.newest)
        attack_together(opened, 60)  # the attackers' threads are in this process: they take memory
        before = held()
        attack_together(opened, 250)
        after = held()
        with phone(opened) as good:
            good.send("join")
            status_of(good, "live")
            good.send(JPEG)
            until(lambda: made.showing)
    assert after[0] - before[0] < 20 and after[1] <= before[1] + 2 and after[2] <= before[2] + 8
    assert not [record for record in caplog.records if record.exc_info]


# --- The screen


@pytest.mark.parametrize("size", [(1080, 1920), (1920, 1080)])
@pytest.mark.parametrize("visited", [False, True])
def test_the_code_on_the_screen_leads_to_the_page(size, visited):
    """A phone reads it, whoever is there and on whichever side it stands; no button is lost."""
    address = "https://192.168.100.200:8443/?token=abcdefghijklmnopqrstuvwx"
    captions = load_captions(["en", "de", "fr", "es", "zh"], None)
    builder = PageBuilder(captions, True, "hot", False)
    lock, artist = ExitLock("q", "none", None), ScreenArtist(Look("hot", 0.7, "heat", "flow"))
    picture = np.full((480, 640, 3), 90, np.uint8)
    page = builder.active(2, None, 0) if visited else builder.attract(1, 0)
    page = builder.with_code(page, 1, modules(address), warns=True, showing=visited)
    (code,) = page.codes
    assert (code.text, code.note) == (captions[1].phone.invite, captions[1].phone.warning)
    content = ScreenContent(picture, None, page, swapped=visited, phones=True)
    canvas = artist.draw(size, content, captions[1], lock, 100.0)
    assert cv2.QRCodeDetector().detectAndDecode(canvas[..., ::-1])[0] == address
    assert len(artist.buttons) == 6


def test_the_privacy_card_speaks_of_phones_where_there_are_some():
    """It has one more sentence."""
    captions = load_captions(["en"], None)
    lock, artist = ExitLock("q", "none", None), ScreenArtist(Look("hot", 0.7, "heat", "flow"))
    page = PageBuilder(captions, True, "hot", False).attract(0, 0)
    cards = [
        artist.draw(
            (720, 1280), ScreenContent(None, None, page, privacy=True, phones=on), captions[0],
            lock, 0.0,
        ).copy()
        for on in (False, True)
    ]  # fmt: skip
    assert (cards[0] != cards[1]).mean() > 0.02


def test_the_exhibit_shows_the_phone_instead_of_the_camera_and_goes_back(monkeypatch):
    """A phone is a visitor; the map is of its picture; cards rest it."""
    exhibit = Exhibit(monkeypatch)
    exhibit.turn(heart=0.9, present=False)
    frames = []
    fake = SimpleNamespace(
        showing=False, code=None, warns=True, end=lambda: None, told=[],
        newest=lambda timeout: frames.pop() if frames else None,
    )  # fmt: skip
    fake.update = lambda *words: fake.told.append(words)
    exhibit.kiosk.phones = fake
    assert exhibit.turn(present=False, heart=0.9) == "attract"
    fake.showing, fake.code = True, modules("https://127.0.0.1/")
    assert exhibit.turn(present=False) == "active"
    frames.append(Item(np.full((48, 64, 3), (0, 255, 0), np.uint8), 1, exhibit.now))
    exhibit.turn(present=False)
    assert exhibit.kiosk._shown_source == "phone"
    assert (exhibit.canvas == (0, 255, 0)).all(-1).mean() > 0.2
    exhibit.turn(present=False, star=0.9)
    assert exhibit.kiosk.answer == "star"
    fake.showing = False
    exhibit.turn(present=False)
    assert exhibit.kiosk._shown_source == "camera" and exhibit.kiosk.answer == ""
    assert fake.told[-1] == (True, True)


def test_the_code_may_go_while_the_screen_is_drawn(monkeypatch):
    """The server's end takes it away between any two steps of the loop."""
    exhibit = Exhibit(monkeypatch)
    exhibit.turn(heart=0.9)
    codes = [modules("https://127.0.0.1/"), None]

    class Ending(SimpleNamespace):
        code = property(lambda self: codes.pop(0))

    exhibit.kiosk.phones = Ending(
        showing=False, warns=True, end=lambda: None, newest=None, update=lambda *words: None
    )
    exhibit.turn(heart=0.9)
    assert codes == [None], "it is read once for each canvas"


# --- All of it


@pytest.mark.release
@pytest.mark.gui
@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")
def test_a_visitor_scans_the_code_and_holds_up_a_phone(display, tmp_path):
    """A real window, a real browser whose camera plays the clip; no picture reaches the disk."""
    from playwright.sync_api import expect, sync_playwright

    film, shot = tmp_path / "clip.mjpeg", tmp_path / "shot.png"
    clip = cv2.VideoCapture(str(config.ASSETS / "demo.mp4"))
    film.write_bytes(b"".join(cv2.imencode(".jpg", clip.read()[1])[1] for _ in range(90)))
    words = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    words += [f"--use-file-for-fake-video-capture={film}"]
    words += [] if os.geteuid() else ["--no-sandbox"]
    for name in ("home", "work", "tmp"):
        (tmp_path / name).mkdir()
    environment = {
        "HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp"), "DISPLAY": display,
        "XDG_STATE_HOME": str(tmp_path / "home"),
    }  # fmt: skip
    sets = [word for one in (*ON, "kiosk.language_seconds=0") for word in ("--set", one)]
    with start(
        "kiosk", "--source", "synthetic", *sets, cwd=tmp_path / "work", **environment
    ) as process:
        opened_window(display, process)
        address = ""
        end = time.monotonic() + 60
        while not address and time.monotonic() < end:
            address = media.code_in(screenshot(display, shot)[..., ::-1])
        assert address.startswith("https://127.0.0.1:8443/?token=")
        health = tmp_path / "home" / "realtime-lrp" / "health.json"
        until(lambda: '"state": "active"' in health.read_text(), 60)
        screenshot(display, shot)
        open_files, before = OpenFiles(process.pid), files_in(tmp_path)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=words)
            page = browser.new_context(ignore_https_errors=True, locale="en").new_page()
            page.goto(address)
            assert "token" not in page.url
            page.click("#start")
            expect(page.locator("#status")).to_have_text(
                re.compile("You are on the big screen, for at most [0-9]+ s more"), timeout=30_000
            )
            until(lambda: shows_paper(screenshot(display, shot)), 30)
            page.click("#stop")
            expect(page.locator("#status")).to_have_text("Your turn is over.")
            expect(page.locator("#start")).to_be_visible()
            until(lambda: not shows_paper(screenshot(display, shot)), 30)
            browser.close()
        until(lambda: not shows_paper(screenshot(display, shot)), 30)
        assert files_in(tmp_path) == before
        assert not [file for file in open_files.stop() if file.endswith((".jpg", ".png", ".mp4"))]
        process.terminate()
        assert process.wait(300) == 0


def shows_paper(picture):
    """Whether the clip's sheet of paper is in the picture: bright and without colour."""
    left = picture[:, : picture.shape[1] // 2].astype(int)
    return ((left.min(-1) > 130) & (np.ptp(left, axis=-1) < 30)).mean() > 0.1
