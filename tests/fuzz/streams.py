"""Servers that answer as hostile cameras do: `python -m fuzz.streams NAME...` tries some."""

import functools
import gzip
import itertools
import json
import random
import resource
import struct
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import media
from faults.server import MIXED, OK, Server, part

from realtime_lrp.realtime.capture import Capture
from realtime_lrp.video.containers import OPEN_TIMEOUT_S
from realtime_lrp.video.sources import open_source

TOLD_S, BACK_S, CLOSED_S = 2.0, 5.0, 2.5
"""A loss is told, pictures are back, and a capture is closed within so long."""
HELD_S = 1.0  # how long a server stays hostile once the loss was told
AT_ONCE = 4  # so many share the interpreter: with all of them at once each is late only for that
MORE_MEMORY = 12 << 30  # of address space: every thread reserves some

Answer = Callable[[], Iterator[bytes]]

JPEGS = [cv2.imencode(".jpg", one)[1].tobytes() for one in media.numbered(20)]


def serving(*answers: bytes) -> Server:
    return Server(lambda: iter(answers))


def good() -> Iterator[bytes]:
    return _pictures(part)


def _pictures(made: Callable[[bytes], bytes], head: bytes = OK + MIXED) -> Iterator[bytes]:
    yield head + b"\r\n"
    for jpeg in itertools.cycle(JPEGS):
        yield made(jpeg)
        time.sleep(1 / 30)


def _page(status: str, more: str = "") -> Answer:
    text = "<html>no camera</html>" * 50
    head = f"HTTP/1.1 {status}\r\n{more}Content-Type: text/html\r\nContent-Length: {len(text)}\r\n"
    return lambda: iter([head.encode() + b"\r\n" + text.encode()])


def _endless(begin: bytes, piece: bytes) -> Answer:
    return lambda: itertools.chain([begin], itertools.repeat(piece))


def _slow() -> Iterator[bytes]:
    for number in (OK + MIXED + b"\r\n" + part(JPEGS[0])) * 99:
        yield bytes([number])
        time.sleep(0.2)


def _claiming(side: int) -> Answer:
    def made(jpeg: bytes) -> bytes:
        at = jpeg.index(b"\xff\xc0")
        return part(jpeg[: at + 5] + struct.pack(">HH", side, side) + jpeg[at + 9 :])

    return lambda: _pictures(made)


def _sizes() -> Iterator[bytes]:
    yield OK + MIXED + b"\r\n"
    for number in itertools.count():
        shown = media.plain(
            (200, number % 256, 60), (16 + 48 * (number % 9), 32 + 7 * (number % 5))
        )
        yield part(cv2.imencode(".jpg", shown)[1].tobytes())
        time.sleep(1 / 30)


def _redirected(where: str) -> Answer:
    return _page("302 Found", f"Location: {where}\r\n")


ZIPPED = b"Content-Encoding: gzip\r\n"

HOSTILE: dict[str, Answer] = {
    "401": _page("401 Unauthorized", 'WWW-Authenticate: Basic realm="x"\r\n'),
    "404": _page("404 Not Found"),
    "500": _page("500 Internal Server Error"),
    "a page": _page("200 OK"),
    "a loop of redirections": _redirected("/camera"),
    "redirected to a file": _redirected("file:///etc/passwd"),
    "redirected to another scheme": _redirected("gopher://127.0.0.1:1/"),
    "redirected to several files": _redirected("concat:/etc/passwd|/etc/hosts"),
    "no boundary": lambda: _pictures(part, OK + b"Content-Type: multipart/x-mixed-replace\r\n"),
    "no type": lambda: _pictures(part, OK),
    "a boundary in the pictures": lambda: _pictures(
        lambda jpeg: part(jpeg[:300] + b"\r\n--frame\r\n" + jpeg[300:])
    ),
    "lengths too small": lambda: _pictures(lambda jpeg: part(jpeg, len(jpeg) // 2)),
    "lengths below zero": lambda: _pictures(lambda jpeg: part(jpeg, -1)),
    "huge lengths": lambda: _pictures(lambda jpeg: part(jpeg, 10**12)),
    "an endless head": _endless(OK, b"X-More: " + b"a" * 1000 + b"\r\n"),
    "an endless line": _endless(OK, b"a" * 1000),
    "an endless picture": _endless(OK + MIXED + b"\r\n--frame\r\n\r\n\xff\xd8", b"a" * 10_000),
    "packed, it says": lambda: _pictures(part, OK + MIXED + ZIPPED),
    "a packed bomb": _endless(OK + MIXED + ZIPPED + b"\r\n", gzip.compress(bytes(10**7))),
    "a byte now and then": _slow,
    "silence": lambda: (time.sleep(0.05) or b"" for _ in itertools.count()),
    "half a picture": lambda: iter([OK + MIXED + b"\r\n" + part(JPEGS[0])[:300]]),
    "noise": lambda: iter([OK + MIXED + b"\r\n" + random.Random(1).randbytes(100_000)]),
    "garbled pictures": lambda: _pictures(
        lambda jpeg: part(jpeg[:200] + random.randbytes(200) + jpeg[400:])
    ),
    "halves of pictures": lambda: _pictures(lambda jpeg: part(jpeg[: len(jpeg) // 2])),
    "pictures of 65500": _claiming(65500),
    "pictures of 16000": _claiming(16000),
    "another size each time": _sizes,
}  # fmt: skip
"""What a server that was a camera answers."""

STILL_SEEN = {
    "no boundary", "no type", "a boundary in the pictures", "lengths too small",
    "lengths below zero", "garbled pictures", "halves of pictures", "another size each time",
    "packed, it says", "huge lengths",
}  # fmt: skip
"""Where pictures may go on, so that no loss has to be told."""

UNTIL_OPENING_ENDS = {"packed, it says", "a packed bomb"}
"""FFmpeg unpacks for ever and does not see that the connection is gone: opening has to time out."""

FLOODS = {"an endless head", "an endless line", "an endless picture"}
"""What takes all of a core, so that others here would be late."""


def tried(name: str) -> tuple[list[str], list[float]]:
    """A camera that turns hostile, good, and hostile again; what was wrong, and what it took."""
    wrong, hostile = [], HOSTILE[name]
    most_s = OPEN_TIMEOUT_S + 4 if name in UNTIL_OPENING_ENDS else BACK_S
    with Server(good) as server:
        capture = Capture(functools.partial(open_source, server.url))
        with capture:
            _until(lambda: capture.frames.count > 2, 10)
            server.answer = hostile
            told_s = _until(lambda: capture.trouble != "", TOLD_S + 1)
            if told_s > TOLD_S and name not in STILL_SEEN:
                wrong.append(f"the loss was told after {told_s:.1f} s")
            time.sleep(HELD_S)
            before, server.answer = capture.frames.count, good
            back_s = _until(
                lambda: capture.frames.count > before + 9 and not capture.trouble, most_s + 4
            )
            if back_s > most_s:
                wrong.append(f"pictures were back after {back_s:.1f} s")
            if not capture.supervised:
                wrong.append("the supervisor ended")
            server.answer = hostile
            time.sleep(0.5)
            begun = time.monotonic()
        closed_s = time.monotonic() - begun
    if closed_s > CLOSED_S:
        wrong.append(f"closed after {closed_s:.1f} s")
    return wrong, [round(one, 2) for one in (told_s, back_s, closed_s)]


def _until(holds: Callable[[], bool], at_most_s: float) -> float:
    """Seconds until something holds; `at_most_s` where it does not in that time."""
    begun = time.monotonic()
    while not holds() and time.monotonic() - begun < at_most_s:
        time.sleep(0.01)
    return time.monotonic() - begun


def memory_mib() -> int:
    """The most that this process, or one that reads a source for it, ever had in use, in MiB."""
    whose = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    return max(resource.getrusage(who).ru_maxrss for who in whose) >> 10


def main(names: list[str]) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MORE_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    before = memory_mib()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = dict(zip(names, pool.map(tried, names), strict=True))
    print(json.dumps({"results": results, "more_mib": memory_mib() - before}))


if __name__ == "__main__":
    main(sys.argv[1:] or list(HOSTILE))
