"""Window and web page at once: one state, whoever changes it; the page never ends the window."""

import json
import socket
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("uvicorn", reason="the extra serve is not installed")

import cv2
from program import opened_window, start, xdotool
from served import picture_of
from test_viewer_window import Scripted
from websockets.sync.client import connect

from realtime_lrp import config
from realtime_lrp.commands.live import run as live
from realtime_lrp.commands.serve import messages, server
from realtime_lrp.realtime.explaining import first_request
from realtime_lrp.realtime.latest import Item
from realtime_lrp.realtime.viewer import events
from realtime_lrp.realtime.viewer.handle import handle
from realtime_lrp.realtime.viewer.state import first_state


class Client:
    """What a page has: the news, and what it sends."""

    def __init__(self, socket):
        self.socket = socket

    def send(self, **message):
        """Sends a message."""
        self.socket.send(json.dumps(message))

    def until(self, condition):
        """Reads until news fit, confirming pictures."""
        while not condition(news := self.news()):
            pass
        return news

    def news(self):
        """The next news."""
        while True:
            got = self.socket.recv(timeout=300)
            if isinstance(got, bytes):
                self.send(type="shown")
            elif (news := json.loads(got))["type"] == "news":
                return news


@contextmanager
def visit(address):
    """A client at an address."""
    base, token = address.split("/?token=")
    with connect(f"{base.replace('http', 'ws')}/ws?token={token}", open_timeout=300) as socket:
        yield Client(socket)


@pytest.mark.release
def test_a_key_in_the_window_and_a_click_on_the_page_change_the_same_view(
    display, tmp_path, tiny_model
):
    """Each shows what the other did; q in the window ends both."""
    stats = tmp_path / "stats.json"
    words = ("live", "--serve", "--port", 0, "--source", "synthetic", "--model", tiny_model)
    with start(*words, "--stats", stats, DISPLAY=display) as process:
        address = process.stdout.readline().strip()
        window = opened_window(display, process)
        xdotool(display, "windowfocus", "--sync", window)
        with visit(address) as client:
            client.until(lambda news: news["maps"] > 0)
            assert cv2.imdecode(np.frombuffer(picture_of(client.socket), np.uint8), 1).shape == (
                480, 640, 3,
            )  # fmt: skip
            client.send(type="shown")
            client.send(type="choice", what="composite", value="epsilon")
            client.until(lambda news: news["composite"] == "epsilon")
            xdotool(display, "key", "space")
            client.until(lambda news: news["frozen"])
            xdotool(display, "key", "l")  # a list: the page does not type into it
            client.send(type="do", name="freeze")
            client.until(lambda news: not news["frozen"])
            client.send(type="do", name="quit")
            client.send(type="stroke", start=[320, 240], end=[330, 250])
            client.until(lambda news: news["covered"])
        xdotool(display, "key", "Escape")
        xdotool(display, "key", "q", "q")
        assert process.wait(300) == 0, process.stderr.read()
    figures = json.loads(stats.read_text())
    assert figures["frames_shown"] > 0 and figures["maps"] > 0
    host, port = address.split("/")[2].split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=5)


def test_the_window_goes_on_when_the_server_has_ended(monkeypatch, caplog, tiny_model):
    """A line in the window and in the log; pictures keep coming."""
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
    """Whatever the sizes of the two canvases, and also where it leaves the picture."""
    chosen = config.load(command="live").config
    state = first_state(chosen, first_request(chosen))
    picture = Item(np.zeros((480, 640, 3), np.uint8), 1, 0.0)
    state = replace(state, shown=picture, pictures=((320, 0, 1280, 720),))
    stroke = events.Brushed((-64, 480), (320, 120))
    there = handle(state, messages.event_of(stroke, None, ((0, 0, 640, 480),))).mask
    here = handle(state, events.Brushed((224, 720), (800, 180), cover=True)).mask
    assert (there & here).sum() > 100 and (there ^ here).sum() < 0.02 * here.sum()
