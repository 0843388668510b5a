"""A long run of the page: a hundred viewers who come and go."""

import asyncio
import json
import os
import random
import signal
import statistics
import time
from contextlib import suppress

import cv2
import psutil
import pytest

pytest.importorskip("uvicorn", reason="the extra serve is not installed")

from program import start
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from realtime_lrp import config

VIEWERS = 100
SECONDS = int(os.environ.get("REALTIME_LRP_SOAK_S", "600"))
SETTLED_S = 10
EVERY_S = 5
STAYS_S = 1, 25
"""For how long a viewer stays, at least and at most."""

AWAY_S = 1, 45
"""The same for being away: about 36 of the viewers are there at the same time."""


def jpegs():
    """Pictures of the included clip, as phones send them."""
    clip = cv2.VideoCapture(str(config.ASSETS / "demo.mp4"))
    pictures = (cv2.resize(clip.read()[1], (320, 240)) for _ in range(40))
    return [cv2.imencode(".jpg", picture)[1].tobytes() for picture in pictures]


class Crowd:
    """Viewers of four kinds, each of whom comes, stays for a while, and goes without a word."""

    def __init__(self, address):
        self.socket = address.replace("http", "ws").replace("/?", "/ws?")
        self.film = address.replace("/?", "/view.mjpg?")
        self.jpegs = jpegs()
        self.here = self.most = self.refused = self.pictures = self.maps = 0
        self.kinds = (self.watch, self.use_camera, self.stall, self.read_film)

    async def viewer(self, number, end):
        """One viewer, until the end."""
        chance = random.Random(number)
        await asyncio.sleep(chance.uniform(*AWAY_S))
        while not end.is_set():
            with suppress(OSError, WebSocketException, asyncio.IncompleteReadError):
                await self.visit(self.kinds[number % 4], chance.uniform(*STAYS_S))
            with suppress(TimeoutError):
                await asyncio.wait_for(end.wait(), chance.uniform(*AWAY_S))

    async def visit(self, kind, seconds):
        """Somebody is there for a while."""
        self.here += 1
        self.most = max(self.most, self.here)
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(kind(), seconds)
        finally:
            self.here -= 1

    async def connected(self):
        """A WebSocket that is cut off when its viewer goes, without a closing handshake."""
        async with connect(self.socket, max_size=None, close_timeout=0.1) as socket:
            try:
                async for message in socket:
                    yield socket, message
            finally:
                self.refused += socket.close_code == 1013
                socket.transport.abort()

    async def watch(self):
        """Shows each picture."""
        async for socket, message in self.connected():
            if message[:1] == b"v":
                self.pictures += 1
                await socket.send('{"type": "shown"}')

    async def use_camera(self):
        """Sends the next picture when the map of the last one is there."""
        async for socket, message in self.connected():
            is_map = message[:1] == b"j"
            if is_map or (isinstance(message, str) and json.loads(message)["type"] == "role"):
                self.maps += is_map
                await socket.send(random.choice(self.jpegs))

    async def stall(self):
        """Takes a picture and confirms nothing."""
        async for _ in self.connected():
            pass

    async def read_film(self):
        """Reads MJPEG, as OBS does."""
        host, _, path = self.film.partition("://")[2].partition("/")
        name, _, port = host.partition(":")
        reader, writer = await asyncio.open_connection(name, int(port))
        try:
            writer.write(f"GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            while await reader.read(65536):
                pass
        finally:
            writer.transport.abort()


def measured(process):
    """MiB, threads and open files of the server and its children."""
    family = [process, *process.children(recursive=True)]
    return (
        sum(one.memory_info().rss for one in family) / 2**20,
        sum(one.num_threads() for one in family),
        sum(one.num_fds() for one in family),
    )


async def soak(address, process):
    """Lets the crowd in; returns it, the measurements meanwhile, and those before and after."""
    crowd, end, samples = Crowd(address), asyncio.Event(), []
    for kind in (crowd.watch, crowd.use_camera, crowd.read_film):
        await crowd.visit(kind, SETTLED_S)
    await asyncio.sleep(SETTLED_S)
    before, until = measured(process), time.monotonic() + SECONDS
    tasks = [asyncio.create_task(crowd.viewer(number, end)) for number in range(VIEWERS)]
    while time.monotonic() < until:
        await asyncio.sleep(EVERY_S)
        samples.append(measured(process))
    end.set()
    await asyncio.gather(*tasks)
    await asyncio.sleep(2 * SETTLED_S)
    return crowd, samples, before, measured(process)


@pytest.mark.release
def test_viewers_who_come_and_go_leave_nothing_behind():
    """Memory does not grow from the second third to the last; threads and files are as before."""
    words = "--source", config.ASSETS / "demo.mp4", "--model", "shapes", "--port", "0"
    with start("serve", *words, DISPLAY="") as process:
        address = process.stdout.readline().strip()
        crowd, samples, before, after = asyncio.run(soak(address, psutil.Process(process.pid)))
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    third = len(samples) // 3
    thirds = [samples[:third], samples[third : 2 * third], samples[2 * third :]]
    memory = [statistics.median(one[0] for one in part) for part in thirds]
    print(f"at most {crowd.most} at once, {crowd.refused} refused, {crowd.maps} maps")
    print(f"MiB, threads, files before {before}, after {after}; MiB by thirds {memory}")
    assert crowd.most >= min(VIEWERS / 5, SECONDS) and crowd.maps > 0 and crowd.pictures > 0
    assert memory[2] < 1.03 * memory[1] + 10
    assert after[1:] == before[1:]
