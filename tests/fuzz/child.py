"""The process that tries inputs one after the other, under limits.

It is told on stdin what to do, as JSON: folder, seed, cases as [kind, number]. It says on stdout
what it begins and how that ended, and in `child.log` of the folder where it crashed or hung.
"""

import faulthandler
import json
import logging
import os
import resource
import sys
import time
from pathlib import Path

HANGS_S = 10.0
"""How long an input may take."""
MORE_MEMORY = 4 << 30
"""Address space besides what the libraries take."""
MOST_WRITTEN = 256 << 20


def main() -> None:
    """Does what stdin says."""
    plan = json.load(sys.stdin)
    reports = os.fdopen(os.dup(1), "w", buffering=1)
    folder = Path(plan["folder"])
    logging.basicConfig(format="realtime-lrp: %(message)s")
    log = (folder / "child.log").open("a")
    faulthandler.enable(log)
    bench = _prepared(folder, plan)
    _limit(resource.RLIMIT_CORE, 0)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_WRITTEN, resource.RLIM_INFINITY))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    _limit(resource.RLIMIT_AS, pages * resource.getpagesize() + MORE_MEMORY)
    seen = set()
    for kind, number in plan["cases"]:
        print(json.dumps(["begin", kind, number]), file=reports)
        faulthandler.dump_traceback_later(HANGS_S - 1, file=log)
        begun = time.monotonic()
        code, wrong = bench.try_case(kind, number)
        faulthandler.cancel_dump_traceback_later()
        if kind not in seen:  # what libraries open once is open from now on
            wrong = [one for one in wrong if not one.startswith("open: ")]
            seen.add(kind)
        spent = time.monotonic() - begun
        print(json.dumps(["end", code, wrong, round(spent, 4)]), file=reports)
        bench.clean()
    reports.flush()
    os._exit(0)  # decoder threads of a damaged file may never end


def _prepared(folder: Path, plan: dict):
    """The libraries imported, TensorFlow has computed once."""
    from fuzz.inputs import VIDEOS, Cases
    from fuzz.targets import Bench

    cases = Cases(folder / "valid", plan["seed"])
    if not {kind for kind, _ in plan["cases"]} <= {*VIDEOS, "mjpeg"}:
        _keep_engines()
        cases.bytes_of("keras", 0)  # making it prints
        bench = Bench(folder, cases)
        bench.try_case("png", 0)
        return bench
    return Bench(folder, cases)


def _keep_engines() -> None:
    """A picture costs milliseconds: the tiny network is loaded once."""
    from realtime_lrp.commands import image
    from realtime_lrp.commands.video import films as video

    load, kept = image.Engine, {}

    def engine(config, **options):
        model = config.model
        if model.labels or model.weights or not str(model.name).endswith("good.keras"):
            return load(config, **options)
        key = f"{config!r} {options}"
        if key not in kept:
            kept[key] = load(config, **options)
        return kept[key]

    image.Engine = video.Engine = engine


def _limit(what: int, value: int) -> None:
    resource.setrlimit(what, (value, value))


if __name__ == "__main__":
    main()
