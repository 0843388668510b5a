"""Starts children, notes what kills or hangs them, counts."""

import json
import os
import select
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.child import HANGS_S

CHILD = (sys.executable, "-m", "fuzz.child")
STARTING_S = 120.0
GRACE_S = 5.0
"""How much later than the child itself its parent takes it for hanging."""
MOST_RESTARTS = 30

Case = tuple[str, int]


@dataclass
class Row:
    """What came of a kind's inputs.

    Attributes:
      crashes, hangs: how many killed a child, or took longer than `HANGS_S`.
      slowest: seconds of the slowest one.
    """

    tried: int = 0
    codes: Counter = field(default_factory=Counter)
    crashes: int = 0
    hangs: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    found: list[str] = field(default_factory=list)


def fuzz(plans: Sequence[Mapping[str, int]], seed: int, folder: Path) -> dict[str, Row]:
    """Tries inputs, one child process for each plan, all at once."""
    rows = {kind: Row() for plan in plans for kind in plan}
    (folder / "found").mkdir(parents=True, exist_ok=True)
    threads = []
    for number, plan in enumerate(plans):
        cases = [(kind, k) for kind, count in plan.items() for k in range(count)]
        work = _Work(folder / f"child{number}", folder / "found", seed, rows)
        threads.append(threading.Thread(target=work.do, args=(cases,)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    return rows


class _Work:
    """One child after the other, until all cases are tried."""

    def __init__(self, folder: Path, found: Path, seed: int, rows: dict[str, Row]):
        self._folder, self._found, self._seed, self._rows = folder, found, seed, rows
        folder.mkdir(parents=True, exist_ok=True)

    def do(self, cases: Sequence[Case]) -> None:
        left = list(cases)
        for _ in range(MOST_RESTARTS):
            if not left:
                return
            left = left[self._tried(left) :]
        self._rows[left[0][0]].found.append(f"{MOST_RESTARTS} children ended early")

    def _tried(self, cases: Sequence[Case]) -> int:
        """Starts a child; how many cases it tried before it ended."""
        child = subprocess.Popen(
            CHILD,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=(self._folder / "stderr.log").open("ab"),
            cwd=Path(__file__).parents[1],
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_NUM_INTRAOP_THREADS": "1"},
        )  # fmt: skip
        plan = {"folder": str(self._folder), "seed": self._seed, "cases": cases}
        child.stdin.write(json.dumps(plan).encode())
        child.stdin.close()
        done, began = 0, None
        try:
            for message in self._reports(child):
                if message[0] == "begin":
                    began = message[1:]
                else:
                    self._note(began, message)
                    done, began = done + 1, None
            hung = child.poll() is None
        finally:
            child.kill()
            code = child.wait()
        if done == len(cases):
            return done
        if began is None:
            self._rows[cases[done][0]].found.append(f"no child: {code}; see {self._folder}")
            return len(cases)
        self._lost(began, "hangs" if hung else f"ends the process ({code})")
        return done + 1

    def _reports(self, child: subprocess.Popen) -> Iterator[list]:
        """What a child says, until it ends or says nothing for too long."""
        wait_s, rest = STARTING_S, b""
        while select.select([child.stdout], [], [], wait_s)[0]:
            data = os.read(child.stdout.fileno(), 1 << 16)
            if not data:
                child.wait(10)
                return
            *lines, rest = (rest + data).split(b"\n")
            yield from map(json.loads, lines)
            wait_s = HANGS_S + GRACE_S

    def _note(self, began: list, message: list) -> None:
        kind, number = began
        _, code, wrong, seconds = message
        row = self._rows[kind]
        row.tried += 1
        row.codes[code] += 1
        row.seconds += seconds
        row.slowest = max(row.slowest, seconds)
        if seconds > HANGS_S:
            row.hangs += 1
            wrong = [*wrong, f"took {seconds:.1f} s"]
        for one in wrong:
            row.found.append(f"{kind} {number} ({self._kept(kind, number)}): {one}")

    def _lost(self, began: list, how: str) -> None:
        kind, number = began
        row = self._rows[kind]
        row.tried += 1
        row.hangs += how == "hangs"
        row.crashes += how != "hangs"
        row.found.append(f"{kind} {number} ({self._kept(kind, number)}): {how}")

    def _kept(self, kind: str, number: int) -> Path | str:
        """Makes the input once more and keeps it."""
        from fuzz.inputs import VIDEOS, Cases

        if kind in ("odd-names", "no-files"):
            return "made by its number"
        kept = self._found / f"{kind}-{self._seed}-{number}"
        kind = VIDEOS[number % len(VIDEOS)] if kind == "recoded" else kind
        kept = kept.with_name(f"{kept.name}.{kind}")
        kept.write_bytes(Cases(self._folder / "valid", self._seed).bytes_of(kind, number))
        shutil.copy(self._folder / "child.log", kept.with_name(f"{kept.name}.log"))
        return kept


def table(rows: Mapping[str, Row]) -> str:
    """A line for each kind."""
    lines = [
        f"{'kind':11} {'tried':>6} {'taken':>6} {'refused':24} crash  hang  wrong  s (slowest)"
    ]
    for kind, row in rows.items():
        refused = " ".join(f"{code}: {n}" for code, n in sorted(row.codes.items()) if code)
        lines.append(
            f"{kind:11} {row.tried:6} {row.codes[0]:6} {refused:24} {row.crashes:5} {row.hangs:5} "
            f"{len(row.found):6}  {row.seconds:.1f} ({row.slowest:.2f})"
        )
    found = [one for row in rows.values() for one in row.found]
    return "\n".join([*lines, *found])


def plans(quick: int, slow: int) -> list[dict[str, int]]:
    """What is tried, for one child that knows TensorFlow and one that does not."""
    from fuzz.inputs import NO_FILES, ODD_NAMES, PICTURES, VIDEOS

    return [
        {
            **dict.fromkeys(PICTURES, quick),
            **dict.fromkeys(("labels", "keras", "weights.h5", "h5"), slow),
            "recoded": max(2, slow // 5),
            "odd-names": min(4 * len(ODD_NAMES), len(ODD_NAMES) + slow),
            "no-files": min(4 * len(NO_FILES), 2 * len(NO_FILES) + slow),
        },
        {**dict.fromkeys(VIDEOS, quick), "mjpeg": quick},
    ]
