"""Hostile and hasty clients by the thousand: the server goes on, and keeps nothing of them."""

import contextlib
import random
import socket
import threading
import time

import psutil
import pytest

pytest.importorskip("uvicorn", reason="the extra serve is not installed")

from served import TOKEN, picture_of, serving_pages

from realtime_lrp.commands.serve import server

CLIENTS = 3000
GOOD = (
    b"GET /?token=%s HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /view.mjpg?token=%s HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /ws?token=%s HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n",
)
PIECES = (
    b"\r\n", b"\r\n\r\n", b"\x00", b"\xff" * 40, b"Host: x\r\n", b"Cookie: " + b"a=b; " * 300,
    b"Content-Length: -1\r\n", b"Transfer-Encoding: chunked\r\n", b"HTTP/9.9", b"Upgrade: h2c\r\n",
    b"Sec-WebSocket-Extensions: permessage-deflate\r\n", b"Expect: 100-continue\r\n", b"%00%ff",
    b"\x81\x05hello", b"\x82\xfe\x10\x00" + b"a" * 100, b"\x89\x00" * 500, b"\x88\x02\x03\xe8",
    b"\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00", b"\x01\x80\x00\x00\x00\x00" * 50,
)  # fmt: skip


def hostile(rng):
    """What a hostile client sends: a good request, or a spoilt one, and what should not follow."""
    data = bytearray(rng.choice(GOOD).replace(b"%s", rng.choice([TOKEN.encode(), b"x", b""])))
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(data) + 1)
        data[at : at + rng.randrange(3)] = rng.choice(PIECES)
    for _ in range(rng.randrange(3)):
        data += rng.choice(PIECES)
    return bytes(data[: rng.randrange(1, len(data) + 1)] if rng.random() < 0.3 else data)


def attack(port, seed, count):
    """Sends, reads a little or nothing, and goes, with or without a word."""
    rng = random.Random(seed)
    for _ in range(count):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 60) as one:
            one.sendall(hostile(rng))
            one.settimeout(rng.choice([0.001, 0.02, 0.1]))
            if rng.random() < 0.5:
                one.recv(rng.choice([1, 100, 70_000]))
            if rng.random() < 0.2:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def held():
    """Memory in MiB, open files and threads of this process."""
    process = psutil.Process()
    return process.memory_info().rss / 2**20, process.num_fds(), threading.active_count()


@pytest.mark.release
def test_hostile_clients_by_the_thousand_leave_nothing_behind(monkeypatch, caplog):
    """Afterwards a viewer gets its pictures, and memory, files and threads are as before."""
    monkeypatch.setattr(server, "REQUEST_S", 1.0)
    with serving_pages() as served:
        attack(served.port, 0, 300)
        time.sleep(1.5)
        before = held()
        attackers = [
            threading.Thread(target=attack, args=(served.port, seed, CLIENTS // 8))
            for seed in range(1, 9)
        ]
        for one in attackers:
            one.start()
        while any(one.is_alive() for one in attackers):
            served.publish(random.randrange(256))
            time.sleep(0.03)
        time.sleep(1.5)
        with served.socket() as viewer:
            served.until(lambda: served.exchange.picture_wanted)
            served.publish(9)
            assert picture_of(viewer)[:2] == b"\xff\xd8"
        served.until(lambda: not served.exchange.watched)
        after = held()
    assert after[0] - before[0] < 20 and after[1] <= before[1] + 2 and after[2] <= before[2] + 8
    assert not [record for record in caplog.records if record.exc_info]
