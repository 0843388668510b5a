"""The checks of `doctor`, group by group.

Heavy libraries are imported inside a check: one that does not load is a finding.
"""

import os
import platform
import re
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from fractions import Fraction
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from realtime_lrp import config
from realtime_lrp.config import ASSETS, Settings
from realtime_lrp.config.applications import APPLICATIONS, cache_folder
from realtime_lrp.config.names import EMBEDDED, VIEWER_COMPOSITE
from realtime_lrp.errors import Error, TransferError, UnavailableError, first_line, masked
from realtime_lrp.system.machine import GIB
from realtime_lrp.system.program import __version__
from realtime_lrp.system.terminal import ensure_temporary_folder

if TYPE_CHECKING:
    import numpy as np

Mark = Literal["ok", "warning", "missing"]
"""How a check went; "missing" is what the demo or processing files needs, and ends with 69."""


class Finding(msgspec.Struct, frozen=True):
    """One line of the report: how a check went, what was found, and what to do if it is not ok."""

    mark: Mark
    found: str
    advice: str = ""
    name: str = ""  # the check's name in the table of checks


def finding(found: str, advice: str = "", mark: Mark = "warning") -> Finding:
    """The row of a check: ok where there is nothing to advise."""
    return Finding(mark if advice else "ok", found, advice)


def failed_row(mark: Mark, error: Exception, advice: str = "") -> Finding:
    """The row of a check that raised; the second sentence of our own errors is the advice."""
    if isinstance(error, Error):
        what, *rest = re.split(r"(?<=[.!?])\s+(?=[A-Z])", str(error), maxsplit=1)
        return Finding(mark, what, " ".join(" ".join(rest).split()) or advice)
    return Finding(mark, f"failed: {type(error).__name__}: {first_line(error)}", advice)


GB = 1e9

LIBRARIES = {
    "TensorFlow": "tensorflow", "Keras": "keras", "OpenCV": "cv2", "PyAV": "av", "NumPy": "numpy",
}  # fmt: skip
"""Name -> module."""

Check = Callable[[Settings], Iterable[Finding]]  # an exception becomes a row as well


def program(settings: Settings) -> Iterator[Finding]:
    """The versions of the program, of Python and of the operating system."""
    try:
        system = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):  # not Linux
        system = platform.platform()
    python = f"Python {platform.python_version()}"
    yield finding(f"realtime_lrp {__version__}, {python}, {system}, {platform.machine()}")


def libraries(settings: Settings) -> Iterator[Finding]:
    """The versions of the libraries; those that are installed twice or not at all."""
    providers = metadata.packages_distributions()
    found = {name: sorted(set(providers.get(module, ()))) for name, module in LIBRARIES.items()}
    versions = [
        f"{name} {' and '.join(map(metadata.version, packages))}"
        for name, packages in found.items()
        if packages
    ]
    yield finding(", ".join(versions))
    for name, packages in found.items():
        if not packages:
            yield Finding("missing", f"{name} is not installed", "run pip install . again")
        elif len(packages) > 1:
            twice = f"{' and '.join(packages)} both contain {name} and overwrite each other's files"
            advice = f"pip uninstall {' '.join(packages)}, then run pip install . again"
            yield finding(twice, advice)


def films(settings: Settings) -> Iterable[Finding]:
    """Room where films go, and whether files can be written there."""
    return [_disk(Path(settings.config.live.folder), "-o, or live.folder for keys")]


def downloads(settings: Settings) -> Iterable[Finding]:
    """The same of the folder for downloaded weights."""
    return [_disk(cache_folder(), "the variable KERAS_HOME")]


def _disk(folder: Path, chosen_by: str) -> Finding:
    """The room in a folder; one that will be made counts as its parent."""
    folder = folder.absolute()
    otherwise = f"choose another folder with {chosen_by}"
    existing = next(one for one in (folder, *folder.parents) if one.exists())
    free = shutil.disk_usage(existing).free
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        return finding(f"{folder} cannot be written ({error.strerror})", otherwise)
    advice = f"free some space, or {otherwise}" if free < GB else ""
    return finding(f"{free / GB:.1f} GB free in {folder}", advice)


MEASURE_S = 2.0  # how long a source is read


def every_camera(settings: Settings) -> Iterator[Finding]:
    """A row for each camera, or one that says that there is none."""
    from realtime_lrp.video import cameras

    nodes = cameras.names() if cameras.LINUX else {"0": "the first camera"}
    found = False
    for node, name in nodes.items():
        try:
            if cameras.LINUX and not cameras.gives_pictures(node):
                continue
            row = measure(node, settings)
        except (Error, OSError) as error:
            row = _failed_camera(node, error)
        yield msgspec.structs.replace(row, found=f"{name} ({node}): {row.found}")
        found = True
    if not found:
        yield finding(
            "none found",
            "plug one in, or pass it to this virtual machine or container; without one: --source "
            "URL (http, rtsp), --source screen, a file, or --source synthetic",
        )  # fmt: skip


def chosen_source(settings: Settings) -> Iterator[Finding]:
    """Opens and measures the source that the user chose."""
    name = settings.config.live.source
    row = measure(name, settings)
    yield msgspec.structs.replace(row, found=f"{masked(name)}: {row.found}")


def _failed_camera(node: str, error: Error | OSError) -> Finding:
    if isinstance(error, PermissionError):
        advice = "sudo usermod -aG video USER, then log out and in again"
        return finding("you have no permission to use it", advice)
    if isinstance(error, FileNotFoundError):
        advice = f"pass it to this container, for example with docker run --device {node}"
        return finding(f"there is no {node}", advice)
    advice = f"close other programs that use it (fuser -v {node} lists them), or replug it"
    return finding(failed_row("warning", error).found, advice)


def measure(name: str, settings: Settings) -> Finding:
    """Reads a source, named as for `--source`, for `MEASURE_S`: size, rate, and what it claims."""
    from realtime_lrp.realtime.capture import FIRST_FRAME_S
    from realtime_lrp.video.cameras import CameraSettings
    from realtime_lrp.video.sources import open_source

    live = settings.config.live
    stop = threading.Event()
    times = list[float]()
    alarm = threading.Timer(FIRST_FRAME_S + MEASURE_S, stop.set)
    alarm.start()
    try:
        with open_source(name, stop, CameraSettings.of(live)) as source:
            while (picture := source.read()) is not None:
                times.append(time.monotonic())
                last = picture
                span = times[-1] - times[0]
                if span >= MEASURE_S:
                    break
    except UnavailableError:
        if not stop.is_set():  # else opening was ended
            raise
    finally:
        alarm.cancel()
    if not times:
        silent = f"It gave no picture within {FIRST_FRAME_S:.0f} seconds."
        raise UnavailableError(silent if stop.is_set() else "It opens but gives no picture.")
    fps = (len(times) - 1) / span if span else None
    rows, columns = last.shape[:2]
    rate = f"{fps:.1f} fps measured" if fps else "one picture"
    kind, _, claim = source.described.partition(", ")
    claimed = f" (it claims {claim})" if claim and kind.startswith("camera ") else ""
    advice = _advice(last, fps, settings) if source.alive else ""
    return finding(f"{columns} x {rows}, {rate}{claimed}", advice)


def _advice(picture: "np.ndarray", fps: float | None, settings: Settings) -> str:
    from realtime_lrp.realtime.capture import BLACK

    if picture.mean() <= BLACK:
        return "the picture is black: remove the lens cover, switch on a light"
    if fps is None or fps >= 20:
        return ""
    tips = "it is slow: more light makes cameras faster"
    if settings.config.live.camera_format is None:
        tips += "; so may --set live.camera_format=MJPG, or a smaller live.camera_size"
    return tips


def display(settings: Settings) -> Iterator[Finding]:
    """Tries to open a window, unless that would end the process."""
    without = "without one: --display none, and demo writes a file"
    if settings.config.live.display == "none":
        yield finding("not needed: --display none")
        return
    import mss
    import numpy as np

    from realtime_lrp.view.window import display_reachable

    if display_reachable():
        from realtime_lrp.view.window import Window

        try:
            with Window() as window:
                window.show(np.full((*window.size, 3), 60, np.uint8))
            words = ["a window opens"]
            with suppress(mss.ScreenShotError, OSError), mss.MSS() as system:
                everything, *screens = system.monitors
                words += [f"screen {s['width']} x {s['height']}" for s in screens or [everything]]
            yield finding(", ".join(words))
        except UnavailableError:
            yield finding("no window appears", without)
        return
    if name := os.environ.get("DISPLAY"):
        found = f"the display {name} (variable DISPLAY) does not respond"
        advice = "start its X server, or run as the user who is logged in there (XAUTHORITY)"
    else:
        found = "none (the variable DISPLAY is not set)"
        advice = "run it in a graphical session, or set DISPLAY to one, such as :0"
    yield finding(found, f"{advice}; {without}")


def processor(settings: Settings) -> Iterator[Finding]:
    """Name, cores, and memory."""
    import psutil

    from realtime_lrp.engine.measured import machine
    from realtime_lrp.system.machine import available_bytes

    free = available_bytes()
    total = psutil.virtual_memory().total
    found = f"{machine()}, {total / GIB:.1f} GiB of memory, {free / GIB:.1f} free"
    smaller = ", or use --model shapes" if settings.config.model.name not in EMBEDDED else ""
    yield finding(found, f"close other programs{smaller}" if free < GIB else "")


def gpu(settings: Settings) -> Iterator[Finding]:
    """Which device computes, and in which precision."""
    from realtime_lrp.engine import device as hardware

    device = hardware.device()
    precision = f"precision auto is {device.fast_precision}"
    remarks = ["float32 for maps that rounding changes"] * (device.fast_precision != "float32")
    if device.times:
        remarks.append(f"measured: {device.times}")
    if remarks:
        precision += f" ({'; '.join(remarks)})"
    if device.is_gpu:
        yield finding(f"{device.name}, {precision}")
        return
    found = f"no NVIDIA GPU: the CPU computes, {precision}"
    advice = "optional: one makes large networks faster (pip install '.[gpu]')"
    if Path("/proc/driver/nvidia/version").exists():
        found = f"the driver is installed, but TensorFlow does not use the GPU; {precision}"
        advice = (
            "pip install '.[gpu]' installs what it needs; nvidia-smi shows which program uses the "
            "GPU, doctor -v what TensorFlow says"
        )
    yield finding(found, advice)


def network(settings: Settings) -> Iterator[Finding]:
    """Lets the embedded network name symbols; measures a map in the chosen precision."""
    from realtime_lrp.engine.engine import Engine
    from realtime_lrp.video.reader import VideoReader

    options = {"--precision": settings.config.lrp.precision}
    chosen = config.load(options=options, command="demo").config
    engine = Engine(chosen, moving=True, otherwise=VIEWER_COMPOSITE)
    labels = engine.network.labels or []
    shown = {30: "star", 105: "heart", 180: "house", 255: "fish"}
    right = 0
    times = []
    with VideoReader(ASSETS / "demo.mp4") as reader:
        for number, frame in enumerate(reader):
            if number in shown:
                (result,) = engine.explain([frame.picture])
                right += labels[int(result.scores.argmax())] == shown[number]
                for _ in range(4):
                    begin = time.perf_counter()
                    engine.explain([frame.picture])
                    times.append(1e3 * (time.perf_counter() - begin))
    found = (
        f"shapes names {right} of {len(shown)} symbols of the demo's clip correctly; "
        f"a map takes {statistics.median(times):.1f} ms ({engine.computed})"
    )
    advice = "its file or TensorFlow is damaged: run pip install --force-reinstall ."
    yield finding(found, advice if right < len(shown) else "", "missing")


def weights(settings: Settings) -> Iterator[Finding]:
    """Which weights have been downloaded; nothing is downloaded here."""
    model = settings.config.model
    there = [name for name, network in APPLICATIONS.items() if network.weights.exists()]
    advice = ""
    chosen = APPLICATIONS.get(model.name.lower()) if model.weights in (None, "imagenet") else None
    if chosen and not chosen.weights.exists():
        advice = (
            f"{model.name} downloads {chosen.megabytes} MB at the first use. Without internet "
            f"access, put the file at {chosen.weights}, or use --model shapes"
        )
    yield finding(f"downloaded: {', '.join(there) or 'none'}", advice)


def codecs(settings: Settings) -> Iterator[Finding]:
    """Writes and reads a few frames with each codec."""
    from realtime_lrp.video.writer import CODECS

    ensure_temporary_folder()
    working = []
    reinstall = "reinstall PyAV: pip install --force-reinstall av"
    with tempfile.TemporaryDirectory() as folder:
        for name in CODECS:
            try:
                _try_codec(Path(folder, f"{name}.mp4"), name)
                working.append(name)
            except Exception as error:
                needed = name == "h264"
                advice = reinstall if needed else f"do without {name}, or {reinstall}"
                yield failed_row("missing" if needed else "warning", error, advice)
    if working:
        yield finding(f"{', '.join(working)}: written and read back")


def _try_codec(path: Path, codec: str) -> None:
    import numpy as np

    from realtime_lrp.video.reader import VideoReader
    from realtime_lrp.video.sources import moving_picture
    from realtime_lrp.video.writer import VideoWriter

    pictures = [moving_picture(number, (240, 320), 30) for number in range(8)]
    with VideoWriter(path, ".mp4", Fraction(30), Fraction(1, 30), codec=codec) as writer:
        for number, picture in enumerate(pictures):
            writer.write(picture, number)
    with VideoReader(path) as reader:
        read = [frame.picture for frame in reader]
    if len(read) != len(pictures):
        raise TransferError(f"{codec}: {len(read)} of {len(pictures)} frames can be read back.")
    difference = float(np.abs(np.subtract(read, pictures, dtype=np.float32)).mean())
    if difference > 8:
        raise TransferError(f"{codec}: pictures read back differ by {difference:.0f} levels.")
