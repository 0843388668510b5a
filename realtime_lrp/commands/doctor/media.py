"""Films that are written and read again, fonts, and the embedded clip."""

import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np

from realtime_lrp.commands.doctor.rows import Check, Row, failed
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
LEVELS = 8.0
"""How far pictures may lie from those that were written, on the mean of all pixels."""

LATIN, CHINESE = "Relevance 0.5 % z+ β é", "心 星 花 か 한"

AGAIN = "install PyAV again: pip install --force-reinstall av"


def codecs(settings: Settings) -> Iterator[Row]:
    """A few frames, and a second of sound, through each of them."""
    ensure_temporary_folder()
    good = []
    with tempfile.TemporaryDirectory() as folder:
        for name in (*CODECS, REENCODED):
            path = Path(folder, f"{name}.mp4")
            try:
                _try_sound(path) if name == REENCODED else _try_pictures(path, name)
                good.append(name)
            except Exception as error:
                if name == "h264":
                    yield failed("missing", "codecs", error, AGAIN)
                else:
                    yield failed("warning", "codecs", error, f"do without {name}, or {AGAIN}")
    if good:
        yield Row("ok", "codecs", f"{', '.join(good)}: written and read again")


def _try_pictures(path: Path, codec: str) -> None:
    pictures = [moving_picture(number, SIZE, FPS) for number in range(FRAMES)]
    with VideoWriter(path, ".mp4", Fraction(FPS), Fraction(1, FPS), codec=codec) as writer:
        for number, picture in enumerate(pictures):
            writer.write(picture, number)
    with VideoReader(path) as reader:
        found = [frame.picture for frame in reader]
    if len(found) != FRAMES:
        raise TransferError(f"{codec}: {len(found)} frames of {FRAMES} can be read again.")
    off = float(np.abs(np.subtract(found, pictures, dtype=np.float32)).mean())
    if off > LEVELS:
        raise TransferError(f"{codec}: what is read again differs by {off:.0f} levels of 255.")


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
        heard = np.concatenate([f.to_ndarray()[0] for f in container.decode(audio=0)])
    loud = float(np.abs(heard).mean() / np.abs(tone).mean())
    if not 0.8 < loud < 1.2:
        raise TransferError(f"{REENCODED}: what is heard again is {loud:.2f} times as loud.")


def fonts(settings: Settings) -> Iterator[Row]:
    """Letters that are drawn, each unlike the sign for a letter that is not there."""
    if missing := undrawable(LATIN):
        words = "install OpenCV 5 again: pip install --force-reinstall opencv-python"
        yield Row("missing", "fonts", f"sans does not draw {missing}", words)
    elif missing := undrawable(CHINESE):
        words = "captions in Chinese, Japanese and Korean need it: install OpenCV 5 again"
        yield Row("warning", "fonts", f"uni does not draw {missing}", words)
    else:
        yield Row("ok", "fonts", "sans and uni draw, Chinese, Japanese and Korean too")


def clip(settings: Settings) -> Iterator[Row]:
    """The clip of the demo."""
    with VideoReader(ASSETS / "demo.mp4") as reader:
        rows, columns = next(iter(reader)).picture.shape[:2]
        yield Row("ok", "demo clip", f"{reader.claimed} frames of {columns} x {rows}")


CHECKS: dict[str, Check] = {"codecs": codecs, "fonts": fonts, "demo clip": clip}
