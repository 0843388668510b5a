"""Writes and reads films, and tests the fonts and the embedded clip."""

import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np

from realtime_lrp.commands.doctor.rows import Check, Row, failed_row
from realtime_lrp.config import ASSETS, Settings
from realtime_lrp.errors import TransferError
from realtime_lrp.system.quiet import ensure_temporary_folder
from realtime_lrp.video.libraries import av
from realtime_lrp.video.reader import VideoReader
from realtime_lrp.video.synthetic import moving_picture
from realtime_lrp.video.writer import CODECS, REENCODED, VideoWriter
from realtime_lrp.view.text import undrawable

FRAMES, SIZE, FPS = 8, (240, 320), 30
RATE = 48000
MAX_DIFFERENCE = 8.0
"""Largest mean difference, in levels of 255, between pictures written and read."""

LATIN, CHINESE = "Relevance 0.5 % z+ β é", "心 星 花 か 한"

REINSTALL = "reinstall PyAV: pip install --force-reinstall av"


def codecs(settings: Settings) -> Iterator[Row]:
    """Writes and reads a few frames with each codec, and a second of sound."""
    ensure_temporary_folder()
    working = []
    with tempfile.TemporaryDirectory() as folder:
        for name in (*CODECS, REENCODED):
            path = Path(folder, f"{name}.mp4")
            try:
                _try_sound(path) if name == REENCODED else _try_pictures(path, name)
                working.append(name)
            except Exception as error:
                if name == "h264":
                    yield failed_row("missing", "codecs", error, REINSTALL)
                else:
                    advice = f"do without {name}, or {REINSTALL}"
                    yield failed_row("warning", "codecs", error, advice)
    if working:
        yield Row("ok", "codecs", f"{', '.join(working)}: written and read back")


def _try_pictures(path: Path, codec: str) -> None:
    pictures = [moving_picture(number, SIZE, FPS) for number in range(FRAMES)]
    with VideoWriter(path, ".mp4", Fraction(FPS), Fraction(1, FPS), codec=codec) as writer:
        for number, picture in enumerate(pictures):
            writer.write(picture, number)
    with VideoReader(path) as reader:
        read = [frame.picture for frame in reader]
    if len(read) != FRAMES:
        raise TransferError(f"{codec}: {len(read)} of {FRAMES} frames can be read back.")
    difference = float(np.abs(np.subtract(read, pictures, dtype=np.float32)).mean())
    if difference > MAX_DIFFERENCE:
        raise TransferError(f"{codec}: pictures read back differ by {difference:.0f} levels.")


def _try_sound(path: Path) -> None:
    tone = np.sin(np.arange(RATE) * 2 * np.pi * 440 / RATE).astype(np.float32)[None]
    with av.open(path, "w") as container:
        stream = container.add_stream(REENCODED, rate=RATE, layout="mono")
        for start in range(0, RATE, 1024):
            frame = av.AudioFrame.from_ndarray(tone[:, start : start + 1024], "fltp", "mono")
            frame.sample_rate, frame.pts = RATE, start
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    with av.open(path) as container:
        read = np.concatenate([f.to_ndarray()[0] for f in container.decode(audio=0)])
    loudness = float(np.abs(read).mean() / np.abs(tone).mean())
    if not 0.8 < loudness < 1.2:
        raise TransferError(f"{REENCODED}: the sound read back is {loudness:.2f} times as loud.")


def fonts(settings: Settings) -> Iterator[Row]:
    """Draws letters, and compares them with the sign for a missing letter."""
    if missing := undrawable(LATIN):
        advice = "reinstall OpenCV 5: pip install --force-reinstall opencv-python"
        yield Row("missing", "fonts", f"sans does not draw {missing}", advice)
    elif missing := undrawable(CHINESE):
        advice = "captions in Chinese, Japanese and Korean need it: reinstall OpenCV 5"
        yield Row("warning", "fonts", f"uni does not draw {missing}", advice)
    else:
        yield Row("ok", "fonts", "sans and uni draw, Chinese, Japanese and Korean too")


def clip(settings: Settings) -> Iterator[Row]:
    """Reads the clip of the demo."""
    with VideoReader(ASSETS / "demo.mp4") as reader:
        rows, columns = next(iter(reader)).picture.shape[:2]
        yield Row("ok", "demo clip", f"{reader.claimed} frames of {columns} x {rows}")


CHECKS: dict[str, Check] = {"codecs": codecs, "fonts": fonts, "demo clip": clip}
