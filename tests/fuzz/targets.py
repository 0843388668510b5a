"""What an input is given to, and what must hold afterwards.

An outcome is an exit code of the contract and a list of what is wrong, which is to be empty.
"""

import contextlib
import gc
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from fuzz.inputs import NO_FILES, ODD_NAMES, PICTURES, VIDEOS, Cases
from fuzz.streams import serving
from realtime_lrp import cli
from realtime_lrp.errors import Error
from realtime_lrp.video.pictures import read_picture
from realtime_lrp.video.reader import VideoReader
from realtime_lrp.video.stream import Stream

CODES = {0, 2, 65, 66, 69, 73, 78}
"""Not 74: no disk is full here."""
MOST_LINES = 4
"""Of errors and warnings together."""
MOST_LETTERS = 3000
MOST_BYTES = 1500 << 20
"""How much more memory an input may need than there was in use before it."""
MOST_PICTURES = 2000

Outcome = tuple[int, list[str]]


class Bench:
    """A place to try inputs in: folders that are empty before and after, what is printed caught."""

    def __init__(self, folder: Path, cases: Cases):
        self._cases = cases
        self._in, self._out, self._cwd, self._tmp = (
            folder / name for name in ("in", "out", "cwd", "tmp")
        )
        for one in (self._in, self._out, self._cwd, self._tmp):
            one.mkdir(parents=True, exist_ok=True)
            _emptied(one)
        os.chdir(self._cwd)
        os.environ["TMPDIR"] = str(self._tmp)
        self._printed = [os.memfd_create(name) for name in ("stdout", "stderr")]
        self.input: Path | None = None

    def try_case(self, kind: str, number: int) -> Outcome:
        """Tries an input; kind is one of `KINDS`."""
        self.input = None
        attempt = self._attempt(kind, number)
        files, threads, memory = _files(), threading.active_count(), _memory("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")
        with self._caught():
            code, wrong = attempt()
        wrong += self._said(code)
        more = _memory("VmHWM") - memory
        if more > MOST_BYTES:
            wrong.append(f"needed {more >> 20} MiB")
        if code not in CODES:
            wrong.append(f"exit code {code}")
        wrong += self._left()
        if not _settled(lambda: _files() <= files and threading.active_count() <= threads):
            now = [os.readlink(f"/proc/self/fd/{one}") for one in _open() if one > 2]
            wrong.append(f"open: {now}; threads: {threading.enumerate()}")
        return code, wrong

    def _attempt(self, kind: str, number: int) -> Callable[[], Outcome]:
        if kind in ("odd-names", "no-files"):
            return self._odd(kind, number)
        if kind == "recoded":
            kind = VIDEOS[number % len(VIDEOS)]
            self._keep(kind, kind, number)
            return lambda: self._command("video", self.input, "mp4")
        if kind == "mjpeg":
            data = self._cases.bytes_of(kind, number)
            self._keep(kind, kind, number)
            return lambda: _streamed(data)
        self._keep(kind, kind, number)
        if kind in VIDEOS:
            return lambda: _read(self.input)
        words = {
            "labels": ("--labels", self.input),
            "keras": ("--model", self.input),
            "h5": ("--weights", self.input),
            "weights.h5": ("--weights", self.input),
        }.get(kind, ())
        shown = self.input if kind in PICTURES else self._good("png")
        return lambda: self._command("image", shown, "png", *words)

    def _keep(self, kind: str, ending: str, number: int) -> None:
        self.input = self._in / f"input.{ending}"
        self.input.write_bytes(self._cases.bytes_of(kind, number))

    def _good(self, kind: str) -> Path:
        path = self._in / f"good.{kind}"
        path.write_bytes(self._cases.bytes_of(kind, 0))
        return path

    def _odd(self, kind: str, number: int) -> Callable[[], Outcome]:
        """A thing that is no file, or an odd name, as a picture, labels, recording, network.

        Names are given with the folder and without.
        """
        use, number = divmod(number, len(NO_FILES if kind == "no-files" else ODD_NAMES))
        ending = ("png", "labels", "mp4", "keras")[use]
        if kind == "no-files":
            path = self._in / f"odd.{ending}"
            list(NO_FILES.values())[number](path)
        else:
            name = os.fsdecode(ODD_NAMES[number] + f".{ending}".encode())
            path = (self._in if number % 2 else self._cwd) / name
            path.write_bytes(self._cases.bytes_of(ending, 0))
            path = path if number % 2 else Path(name)
        if ending in ("png", "mp4"):
            return lambda: self._command("image" if use == 0 else "video", path, None)
        word = "--labels" if ending == "labels" else "--model"
        return lambda: self._command("image", self._good("png"), "png", word, path)

    def _command(self, name: str, source: Path, ending: str | None, *words: object) -> Outcome:
        target = self._out / f"output.{ending}" if ending else self._out
        tiny = ["--model", self._network()] if "--model" not in words else []
        sys.argv = [
            "realtime-lrp",
            name,
            str(source),
            "-o",
            str(target),
            *map(str, [*tiny, *words]),
        ]
        try:
            cli.main()
            code = None
        except SystemExit as ended:
            code = ended.code
        wrong = []
        made = sorted(
            path for path in self._out.iterdir() if not path.name.endswith(".resume.json")
        )
        if code == 0:
            wrong += [] if len(made) == 1 and _whole(made[0]) else [f"made {made}"]
        elif made:
            wrong.append(f"left {made}")
        _emptied(self._out)
        return code, wrong

    def _network(self) -> Path:
        return self._good("keras")

    @contextlib.contextmanager
    def _caught(self) -> Iterator[None]:
        """What this process and its libraries print goes to memory."""
        kept = [os.dup(number) for number in (1, 2)]
        for number, file in enumerate(self._printed, 1):
            os.ftruncate(file, 0)
            os.lseek(file, 0, os.SEEK_SET)
            os.dup2(file, number)
        try:
            yield
        finally:
            for number, before in enumerate(kept, 1):
                (sys.stdout, sys.stderr)[number - 1].flush()
                os.dup2(before, number)
                os.close(before)

    def _said(self, code: int) -> list[str]:
        out, err = (os.pread(file, 1 << 16, 0).decode(errors="replace") for file in self._printed)
        wrong, lines = [], err.splitlines()
        if "Traceback" in err or len(lines) > MOST_LINES or len(err) > MOST_LETTERS:
            wrong.append(f"said {err[-3000:]!r}")
        if code and not err:
            wrong.append("says nothing")
        if lines and not lines[0].startswith(("realtime-lrp:", "Usage:")):
            wrong.append(f"a library said {err[:500]!r}")
        if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", out + err):
            wrong.append(f"control characters in {out + err!r}")
        return wrong

    def _left(self) -> list[str]:
        """What lies about; it is put away."""
        wrong = [f"left {list(one.iterdir())}" for one in (self._tmp,) if any(one.iterdir())]
        odd = [path for path in self._cwd.iterdir() if path.suffix in (".part", ".old")]
        wrong += [f"left {odd}"] if odd else []
        for one in (self._cwd, self._tmp):
            _emptied(one)
        return wrong

    def clean(self) -> None:
        """Puts the input away."""
        _emptied(self._in)


def _read(path: Path) -> Outcome:
    """Every frame and packet of a recording, by the reader alone."""
    try:
        with VideoReader(path) as reader:
            for count, _ in enumerate(reader.with_sound()):
                if count > MOST_PICTURES:
                    return 0, [f"more than {MOST_PICTURES} frames and packets"]
    except Error as error:
        return _refusal(error)
    except Exception:
        return 70, [traceback.format_exc()]
    return 0, []


def _streamed(data: bytes) -> Outcome:
    """All pictures of a server that sends these bytes and closes."""
    try:
        with serving(data) as url, Stream(url, threading.Event()) as source:
            for _ in range(MOST_PICTURES):
                if source.read() is None:
                    return 0, []
        return 0, [f"more than {MOST_PICTURES} pictures"]
    except Error as error:
        return _refusal(error)
    except Exception:
        return 70, [traceback.format_exc()]


def _refusal(error: Error) -> Outcome:
    print(f"realtime-lrp: {error}", file=sys.stderr)
    return error.exit_code, []


def _whole(path: Path) -> bool:
    if path.suffix == ".png":
        return read_picture(path).size > 0
    with VideoReader(path) as reader:
        return next(iter(reader), None) is not None


def _emptied(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            _emptied(path)
            path.rmdir()
        else:
            path.unlink()


def _open() -> list[int]:
    return [int(name) for name in os.listdir("/proc/self/fd")]


def _files() -> int:
    return len(_open())


def _memory(name: str) -> int:
    """A line of /proc/self/status in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(rf"{name}:\s+(\d+)", status)[1]) << 10


def _settled(holds: Callable[[], bool]) -> bool:
    """Whether something holds within two seconds."""
    deadline = time.monotonic() + 2
    while not holds():
        gc.collect()
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
