"""A web server in this process whose pictures a test chooses, and clients for it."""

import http.client
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from faults import clock
from websockets.sync.client import connect

from realtime_lrp.commands.serve import server
from realtime_lrp.commands.serve.access import Role, Tokens
from realtime_lrp.commands.serve.app import App
from realtime_lrp.commands.serve.exchange import Exchange
from realtime_lrp.commands.serve.server import Guard, Server, listen
from realtime_lrp.realtime.viewer.lecture import ENGLISH
from realtime_lrp.video import untrusted
from realtime_lrp.video.pictures import encode_picture

TOKEN = "a-token-of-22-or-more-letters"


class StandIn:
    """Stands for what explains visitors' pictures; `reply` makes answers, b"harm" is refused."""

    def __init__(self, reply=None):
        self.pictures, self.joined, self.reply = [], 0, reply

    def join(self, answer):
        self.joined += 1
        return [0, answer]

    def put(self, visitor, jpeg):
        self.pictures.append(jpeg)
        visitor[0] += 1
        if self.reply:
            visitor[1](self.reply(visitor[0], jpeg))
        return jpeg != b"harm"

    def leave(self, visitor):
        self.joined -= 1


class Served:
    """A server without a viewer behind it; a thread stands for the render loop."""

    def __init__(self, port, names=(), token=TOKEN, visitors=None, tls=None):
        self.exchange, self.tokens, self.messages = Exchange(), Tokens(token), []
        listening = listen("127.0.0.1", port)
        self.port = listening.getsockname()[1]
        self.visitors = visitors or StandIn()
        self.gallery = None
        app = App(
            self.exchange, self.tokens, "", lambda: {"maps": 7}, lambda: None, self.visitors,
            lambda: self.gallery, ENGLISH,
        )  # fmt: skip
        self.server = Server(Guard(app.routes(), self.tokens, names, self.port), listening, tls)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._turn, daemon=True)

    def _turn(self):
        while not self._ended.wait(0.005):
            self.exchange.turned = time.monotonic()
            self.messages += self.exchange.messages()
            self.exchange.run_jobs()

    def publish(self, brightness):
        picture = np.full((48, 64, 3), brightness, np.uint8)
        self.exchange.publish(encode_picture(".jpg", picture), time.monotonic())

    def get(self, path, token=TOKEN, host=None, method="GET", **headers):
        """Status, headers and body of an answer."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        client.putrequest(method, path, skip_host=True)
        for name, value in [("Host", host or f"127.0.0.1:{self.port}"), *headers.items()]:
            for one in value if isinstance(value, list) else [value]:
                client.putheader(name.replace("_", "-"), one)
        if token:
            client.putheader("Cookie", f"realtime_lrp_{self.port}_control={token}")
        client.endheaders()
        answer = client.getresponse()
        body = answer.read()
        client.close()
        return answer.status, answer.headers, body

    def socket(self, token=TOKEN, role=None, **options):
        token = self.tokens[role] if role else token
        return connect(f"ws://127.0.0.1:{self.port}/ws?token={token}", **options)

    until = staticmethod(clock.until)


LIMITS = (
    (server, "REQUEST_S"), (server, "PING_S"),
    (untrusted, "DECODING_S"), (untrusted, "STARTING_S"),
)  # fmt: skip
"""What cuts off those who take too long, as clients and decoders on a busy machine do."""
USUAL = {limit: getattr(*limit) for limit in LIMITS}


@contextmanager
def patience():
    """Makes the limits minutes, unless the test has set others."""
    with pytest.MonkeyPatch.context() as patch:
        for limit, seconds in USUAL.items():
            if getattr(*limit) == seconds:
                patch.setattr(*limit, 2 * clock.LONG_S)
        yield


@contextmanager
def serving_pages(port=0, **options):
    """Runs such a server, patient, which answers when this returns."""
    served = Served(port, **options)
    with patience(), served.server:
        clock.until(lambda: served.server._server.started)
        served._thread.start()
        try:
            yield served
        finally:
            served._ended.set()
            served._thread.join()


def picture_of(socket):
    """The bytes of the next picture of the view, news left out."""
    while isinstance(data := socket.recv(timeout=300), str) or data[:1] != b"v":
        pass
    return data[5:]


__all__ = ["TOKEN", "Role", "Served", "StandIn", "patience", "picture_of", "serving_pages"]
