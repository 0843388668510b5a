"""Measures the whole live path the way a user runs it: `realtime-lrp live` as a process."""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from realtime_lrp.config import Config, Settings, as_yaml
from realtime_lrp.engine.device import device
from realtime_lrp.errors import UnavailableError
from realtime_lrp.system.child_command import module_command
from realtime_lrp.view.window.display import display_reachable

DURATION_S, QUICK_DURATION_S = 6.0, 2.0


def measure_live(config: Config, quick: bool) -> list[dict[str, Any]]:
    """Fast precision at 30 and 60 frames a second, without a window and in one."""
    displays = ["none", *(["window"] if display_reachable() else [])]
    runs = [(30, "none")] if quick else [(fps, name) for name in displays for fps in (30, 60)]
    duration_s = QUICK_DURATION_S if quick else DURATION_S
    return [measure_run(config, fps, display, duration_s) for fps, display in runs]


def measure_run(config: Config, fps: int, display: str, duration_s: float) -> dict[str, Any]:
    """Runs `live` once on the synthetic source; returns its statistics and its memory.

    Raises:
      UnavailableError: `live` fails, or computes no map.
    """
    live = config.live.model_copy(update={"source": f"synthetic:{fps}", "display": display})
    lrp = config.lrp.model_copy(update={"precision": device().fast_precision})
    config = config.model_copy(update={"live": live, "lrp": lrp})
    with tempfile.TemporaryDirectory() as folder:
        settings, stats = Path(folder, "config.yaml"), Path(folder, "stats.json")
        settings.write_text(as_yaml(Settings(config, {})), encoding="utf-8")
        options = ["--config", settings, "--stats", stats, "--duration", duration_s, "-v"]
        measured = _watch(["live", *map(str, options)], duration_s)
        statistics = json.loads(stats.read_text())
    return {"fps": fps, "display": display, **measured, **statistics}


def _watch(words: Sequence[str], duration_s: float) -> dict[str, float | None]:
    """Runs a command to its end; measures the time to its first map, and its memory later on."""
    begin = time.monotonic()
    process = subprocess.Popen(
        module_command("realtime_lrp", *words),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),  # as in `Child`
    )
    measured: dict[str, float | None] = {}
    lines = []
    try:
        for line in process.stderr or ():
            lines.append(line)
            if "first map" in line:
                measured["start_s"] = time.monotonic() - begin
                time.sleep(duration_s * 0.8)
                measured |= _memory(process.pid)
        code = process.wait()
    finally:
        process.kill()
    if code or "start_s" not in measured:
        raise UnavailableError("The live path does not run:\n" + "".join(lines[-3:]))
    return measured


def _memory(pid: int) -> dict[str, float | None]:
    """Resident memory of a process now and at most, MiB; None if the system does not say."""
    with suppress(OSError, KeyError, ValueError):
        status = Path("/proc", str(pid), "status").read_text().splitlines()
        sizes = dict(line.split(":", 1) for line in status)
        return {
            "memory_mib": int(sizes["VmRSS"].split()[0]) / 1024,
            "peak_memory_mib": int(sizes["VmHWM"].split()[0]) / 1024,
        }
    return {"memory_mib": None, "peak_memory_mib": None}
